"""The arguments and options that several commands share, each said once."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


def _language(code: str | None) -> str | None:
    """A code as it is, or a usage error."""
    from ingot.converters.bind import ISO_639_1

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
