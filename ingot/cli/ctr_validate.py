"""`ingot ctr validate`: a processed folder against every rule of the contract."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ingot.cli import options as o

if TYPE_CHECKING:
    from rich.console import Console

    from ingot.converters.ctr.checking.findings import Place, Report, Verdict
    from ingot.converters.ctr.checking.validating import Watch

_STYLES = {"passed": "green", "broken": "red", "not checked": "yellow"}


def validate(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Folder with train/ and valid/.", show_default=False),
    ],
    featuremap: Annotated[
        str | None,
        typer.Option(
            "--featuremap",
            metavar="NAME|FILE",
            help="In place of DIR/featuremap.yaml, for files of another writer.",
            show_default=False,
        ),
    ] = None,
    max_shown: Annotated[
        int,
        typer.Option("--max-shown", metavar="N", min=1, help="Places to tell of a broken rule."),
    ] = 3,
    as_json: o.JsonOption = False,
) -> None:
    """Check a processed folder against every rule of the contract (docs/ctr.md).

    Exit code 1 if one is broken; file, row, column and what was found are told.
    """
    from ingot.cli.console import output, print_json
    from ingot.converters.ctr.checking.validating import validate as check
    from ingot.converters.ctr.featuremap import load
    from ingot.converters.errors import ConversionError

    given = load(featuremap) if featuremap else None
    with _bar() as watch:
        report = check(folder, given=given, max_shown=max_shown, watch=watch)
    if as_json:
        print_json(report.to_document())
    else:
        _show(output(), report)
    if report.broken:
        numbers = ", ".join(one.rule.number for one in report.broken)
        noun = "rules are" if len(report.broken) > 1 else "rule is"
        raise ConversionError(str(folder), f"{len(report.broken)} {noun} broken: {numbers}")


@contextmanager
def _bar() -> Iterator["Watch"]:
    """Shows how far it is, on stderr and only if that is a terminal."""
    import sys

    if not sys.stderr.isatty():
        yield lambda _done, _all: None
        return
    from rich.progress import Progress

    from ingot.cli.console import notes

    with Progress(console=notes(), transient=True) as bar:
        task = bar.add_task("rows")
        yield lambda done, every: bar.update(task, completed=done, total=every)


def _show(console: "Console", report: "Report") -> None:
    from ingot.cli.console import plain
    from ingot.cli.show import grid

    grid(console, list(_facts(report)))
    for one in report.verdicts:
        line = f"{one.rule.number:<6} {one.state:<12} {one.rule.wants}"
        console.print(plain(line, _STYLES[one.state]), soft_wrap=True)
        _details(console, one)
    for note in report.notes:
        console.print(plain(f"note: {note}", "yellow"), soft_wrap=True)


def _facts(report: "Report") -> Iterator[tuple[str, str]]:
    yield "folder", report.folder
    yield "rows", ", ".join(f"{rows:,} {split}" for split, rows in report.rows.items())
    if report.profile:
        yield "profile", ", ".join(f"{key} {value}" for key, value in report.profile.items())
    states = [one.state for one in report.verdicts]
    yield "rules", ", ".join(f"{states.count(state)} {state}" for state in _STYLES)


def _details(console: "Console", one: "Verdict") -> None:
    from ingot.cli.console import plain

    if one.why:
        console.print(plain(f"       {one.why}", "dim"), soft_wrap=True)
    for place in one.places:
        console.print(plain(f"       {_line(place)}"), soft_wrap=True)
    if one.count > len(one.places):
        console.print(plain(f"       and {one.count - len(one.places):,} more"), soft_wrap=True)


def _line(place: "Place") -> str:
    """A place and what is there, on one line."""
    row = "" if place.row is None else f" row {place.row}"
    column = "" if place.column is None else f" {place.column}"
    return " ".join(f"{place.file}{row}{column}: {place.found}".split())
