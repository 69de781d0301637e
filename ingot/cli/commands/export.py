"""`ingot export`: a finished result for a trainer."""

import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ingot.cli import options as o

if TYPE_CHECKING:
    from ingot.converters.export.job import ExportResult


class TrainerName(StrEnum):
    """The trainers, by name; a test holds them equal to `TRAINERS`."""

    llamafactory = "llamafactory"
    swift = "swift"
    axolotl = "axolotl"
    trl = "trl"
    torchtune = "torchtune"


def _check_name(value: str | None) -> str | None:
    if value is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", value):
        raise typer.BadParameter("letters, digits, `-`, `_` and `.` only, a letter or digit first")
    return value


def _check_split(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", value):
        raise typer.BadParameter("letters, digits, `-` and `_` only")
    return value


def export(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            exists=True,
            file_okay=False,
            help="A finished result of run or convert; it is only read.",
            show_default=False,
        ),
    ],
    to: Annotated[TrainerName, typer.Option("--to", help="The trainer.", show_default=False)],
    out: Annotated[
        Path,
        typer.Option("--out", metavar="OUT", help="The folder to be made.", show_default=False),
    ],
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            metavar="NAME",
            callback=_check_name,
            help="The data set's name in the config (default: the name of DIR).",
            show_default=False,
        ),
    ] = None,
    split: Annotated[
        str,
        typer.Option(
            "--split-name",
            metavar="NAME",
            callback=_check_split,
            help="What the data is for; it selects nothing.",
        ),
    ] = "train",
    lossy: Annotated[
        bool,
        typer.Option(
            "--lossy",
            help="Also write records that the trainer does not train on as they say.",
        ),
    ] = False,
    overwrite: o.OverwriteOption = False,
    as_json: o.JsonOption = False,
) -> None:
    """Write a trainer's config for a finished result, and files where it needs another layout."""
    from ingot.cli.console import plain_text, print_json, progress_meter, stdout_console
    from ingot.cli.display import print_grid
    from ingot.converters.export.job import ExportOptions
    from ingot.converters.export.job import export as exported

    options = ExportOptions(name=name, split=split, lossy=lossy, overwrite=overwrite)
    with progress_meter() as progress:
        done = exported(folder, to.value, out, options, progress)
    if as_json:
        told = {"out": str(done.out), "use": list(done.use), "notes": list(done.notes)}
        print_json({**told, "already_done": done.already_done, "manifest": done.manifest})
        return
    console = stdout_console()
    trainer = done.manifest["trainer"]
    console.print(plain_text(f"For {trainer['name']} {trainer['version']}", "bold"))
    print_grid(console, list(_export_lines(done)))


def _export_lines(done: "ExportResult") -> Iterator[tuple[str, str]]:
    from ingot.converters.export.chat_layout import REASONS

    records, chars = done.manifest["records"], done.manifest["trained_chars"]
    yield "records", f"{records['read']:,} read, {records['written']:,} written"
    for what, name in (("left out", "left_out"), ("changed", "changed")):
        for reason, count in records[name].items():
            yield what, f"{count:,}: {REASONS[reason].text}"
    yield "trained", f"{chars['trainer']:,} characters; the records say {chars['records']:,}"
    for file in done.manifest["data"]:
        yield "data", file
    for note in done.notes:
        yield "note", note
    for line in done.use:
        yield "use", line
    yield "files", str(done.out)
