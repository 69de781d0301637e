"""Options that several commands share, as one parameter: a dataclass whose fields are options.

Help texts of commands with many options: under the headings that the options name.
The arguments and options that several commands share, each said once.
"""

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand

Command = Callable[..., None]


def expand_options(command: Command) -> Command:
    """The command with every parameter that is a dataclass replaced by the dataclass's fields.

    The fields are `Annotated` with typer's options and have defaults; the command is called with
    the dataclass made of them.
    """
    signature, hints = inspect.signature(command), get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {n: kind for n, kind in hints.items() if is_dataclass(kind)}

    @functools.wraps(command)
    def called(**given: Any) -> None:  # noqa: ANN401
        for name, kind in groups.items():
            names = [field.name for field in fields(kind)]
            given[name] = kind(**{one: given.pop(one) for one in names})
        command(**given)

    shown = [
        one for each in signature.parameters.values() for one in _expand_parameter(each, groups)
    ]
    called.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
    called.__annotations__ = {one.name: one.annotation for one in shown}
    return called


def _expand_parameter(
    parameter: inspect.Parameter, groups: dict[str, Any]
) -> Iterator[inspect.Parameter]:
    """The parameter itself, or one for every field of its dataclass."""
    if parameter.name not in groups:
        yield parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        return
    kind = groups[parameter.name]
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        default = inspect.Parameter.empty if field.default is MISSING else field.default
        yield inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=default,
            annotation=hints[field.name],
        )


class SectionedCommand(TyperCommand):
    """A command whose help shows every option under its `rich_help_panel`."""

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
        """Write the options, those without a heading first."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                heading = getattr(param, "rich_help_panel", None) or "Options"
                sections.setdefault(heading, []).append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)


def _language(code: str | None) -> str | None:
    """A code as it is, or a usage error."""
    from ingot.converters.mapping.bind import ISO_639_1

    if code is None or code == "mix" or code in ISO_639_1:
        return code
    raise typer.BadParameter(f"{code!r} is neither an ISO 639-1 code (zh, en, ...) nor mix")


def known_tokenizer(given: str | None) -> str | None:
    """A file or folder that is there, or one of the Hub; else a usage error."""
    if given is None or given.startswith("hf://") or Path(given).exists():
        return given
    raise typer.BadParameter(f"--tokenizer: {given}: no such file or folder")


class Mode(StrEnum):
    """What to make of the data."""

    auto = "auto"
    pt = "pt"
    sft = "sft"


class Mapper(StrEnum):
    """Who proposes the mapping."""

    auto = "auto"
    rules = "rules"
    llm = "llm"


class Records(StrEnum):
    """The format of unified records."""

    parquet = "parquet"
    jsonl = "jsonl"


_WRITE = "What is written"

SourceArgument = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="File, folder, glob, archive or fsspec URL of the raw data.",
        show_default=False,
    ),
]
MappingArgument = Annotated[
    Path, typer.Argument(metavar="MAPPING", help="Mapping file.", show_default=False)
]
OutOption = Annotated[
    Path, typer.Option("--out", metavar="DIR", help="Folder to be made.", show_default=False)
]
ModeOption = Annotated[
    Mode, typer.Option("--mode", help="Pretraining text, conversations, or what the data is.")
]
MapperOption = Annotated[
    Mapper,
    typer.Option(
        "--mapper",
        help="rules: offline. llm: a model. auto: the rules, and a configured model where they are "
        "unsure.",
    ),
]
TokenizerOption = Annotated[
    str | None,
    typer.Option(
        "--tokenizer",
        metavar="T",
        callback=known_tokenizer,
        help="Also make Megatron .bin/.idx: tokenizer.json, .model, their folder, or hf://REPO.",
        rich_help_panel=_WRITE,
        show_default=False,
    ),
]
RecordsOption = Annotated[
    Records,
    typer.Option("--records", help="Format of unified records.", rich_help_panel=_WRITE),
]
LanguageOption = Annotated[
    str | None,
    typer.Option(
        "--language",
        metavar="CODE",
        callback=_language,
        help="meta.language where the mapping does not say it: ISO 639-1 or mix.",
        show_default=False,
    ),
]
SourceNameOption = Annotated[
    str | None,
    typer.Option(
        "--source",
        metavar="NAME",
        help="meta.source where the mapping does not say it.  [default: name of SOURCE]",
        show_default=False,
    ),
]
LimitOption = Annotated[
    int | None,
    typer.Option(
        "--limit",
        metavar="N",
        min=1,
        help="Convert the first N rows only.",
        rich_help_panel=_WRITE,
        show_default=False,
    ),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Show what would be converted, write nothing.")
]
OverwriteOption = Annotated[
    bool,
    typer.Option("--overwrite", help="Replace a result that is there.", rich_help_panel=_WRITE),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Report as JSON on stdout.")]
AllowDriftOption = Annotated[
    bool,
    typer.Option(
        "--allow-drift",
        help="Go on although the data has another shape than the mapping was made for.",
    ),
]
