"""`ingot ctr validate`: a processed folder against every rule of the contract.

`ingot ctr stats`: a processed folder in figures, in the terminal or as a page.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ingot.cli import options as o

if TYPE_CHECKING:
    from rich.console import Console

    from ingot.converters.recsys.ctr.validation.figures import Figures
    from ingot.converters.recsys.ctr.validation.findings import Place, Report, Verdict
    from ingot.converters.recsys.ctr.validation.validator import Watch

_STYLES = {"passed": "green", "broken": "red", "not checked": "yellow"}


def validate_ctr(
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
    from ingot.cli.console import print_json, stdout_console
    from ingot.converters.errors import ConversionError
    from ingot.converters.recsys.ctr.featuremap import load
    from ingot.converters.recsys.ctr.validation.validator import validate as check

    given = load(featuremap) if featuremap else None
    with _progress_bar() as watch:
        report = check(folder, given=given, max_shown=max_shown, watch=watch)
    if as_json:
        print_json(report.to_document())
    else:
        _show_report(stdout_console(), report)
    if report.broken:
        numbers = ", ".join(one.rule.number for one in report.broken)
        noun = "rules are" if len(report.broken) > 1 else "rule is"
        raise ConversionError(str(folder), f"{len(report.broken)} {noun} broken: {numbers}")


@contextmanager
def _progress_bar() -> Iterator["Watch"]:
    """Shows how far it is, on stderr and only if that is a terminal."""
    import sys

    if not sys.stderr.isatty():
        yield lambda _done, _all: None
        return
    from rich.progress import Progress

    from ingot.cli.console import stderr_console

    with Progress(console=stderr_console(), transient=True) as bar:
        task = bar.add_task("rows")
        yield lambda done, every: bar.update(task, completed=done, total=every)


def _show_report(console: "Console", report: "Report") -> None:
    from ingot.cli.console import plain_text
    from ingot.cli.display import print_grid

    print_grid(console, list(_report_facts(report)))
    for one in report.verdicts:
        line = f"{one.rule.number:<6} {one.state:<12} {one.rule.wants}"
        console.print(plain_text(line, _STYLES[one.state]), soft_wrap=True)
        _print_details(console, one)
    for note in report.notes:
        console.print(plain_text(f"note: {note}", "yellow"), soft_wrap=True)


def _report_facts(report: "Report") -> Iterator[tuple[str, str]]:
    yield "folder", report.folder
    yield "rows", ", ".join(f"{rows:,} {split}" for split, rows in report.rows.items())
    if report.profile:
        yield "profile", ", ".join(f"{key} {value}" for key, value in report.profile.items())
    states = [one.state for one in report.verdicts]
    yield "rules", ", ".join(f"{states.count(state)} {state}" for state in _STYLES)


def _print_details(console: "Console", one: "Verdict") -> None:
    from ingot.cli.console import plain_text

    if one.why:
        console.print(plain_text(f"       {one.why}", "dim"), soft_wrap=True)
    for place in one.places:
        console.print(plain_text(f"       {_place_line(place)}"), soft_wrap=True)
    if one.count > len(one.places):
        console.print(
            plain_text(f"       and {one.count - len(one.places):,} more"), soft_wrap=True
        )


def _place_line(place: "Place") -> str:
    """A place and what is there, on one line."""
    row = "" if place.row is None else f" row {place.row}"
    column = "" if place.column is None else f" {place.column}"
    return " ".join(f"{place.file}{row}{column}: {place.found}".split())


_FEATURE_HEADS = ("feature", "encoding", "missing", "oov", "hashed")
_LIST_HEADS = (
    "list",
    "mean",
    "p50",
    "p90",
    "p99",
    "max",
    "max_len",
    "rows cut",
    "kept",
    "value kept",
)


def show_ctr_stats(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Folder with train/ and valid/.", show_default=False),
    ],
    html: Annotated[
        Path | None,
        typer.Option(
            "--html",
            metavar="FILE",
            help="Also write a page with plots; DIR stays as it is.",
            show_default=False,
        ),
    ] = None,
    featuremap: Annotated[
        str | None,
        typer.Option(
            "--featuremap",
            metavar="NAME|FILE",
            help="In place of DIR/featuremap.yaml, for files of another writer.",
            show_default=False,
        ),
    ] = None,
    as_json: o.JsonOption = False,
) -> None:
    """Show a processed folder in figures: rows, ctr, cvr, missing, oov, lengths, what was cut.

    They are those of DIR/stats.json; without one the rows are counted.
    """
    from ingot.cli.console import print_json, stdout_console
    from ingot.cli.display import write_page
    from ingot.converters.recsys.ctr.featuremap import load
    from ingot.converters.recsys.ctr.validation.figures import read_figures, render_stats_page

    told = read_figures(folder, load(featuremap) if featuremap else None)
    if html is not None:
        write_page(html, render_stats_page(told))
    if as_json:
        print_json(told.to_document())
    else:
        _show_stats(stdout_console(), told, html)


def _show_stats(console: "Console", told: "Figures", html: Path | None) -> None:
    from ingot.cli.console import plain_text
    from ingot.cli.display import drop_empty_columns, print_grid

    print_grid(console, list(_stats_facts(told, html)))
    print_grid(console, [("", *told.splits), *_rate_rows(told)])
    for split in told.splits:
        console.print(plain_text(f"Features in {split}", "bold"))
        print_grid(console, drop_empty_columns([_FEATURE_HEADS, *_feature_rows(told, split)]))
        lists = list(_list_rows(told, split))
        if lists:
            console.print(plain_text(f"Lists in {split}", "bold"))
            print_grid(console, drop_empty_columns([_LIST_HEADS, *lists]))
    if told.vocab:
        console.print(plain_text("Vocabularies of the train rows", "bold"))
        print_grid(
            console, [("feature", "distinct", "own id", "occurrences covered"), *_vocab_rows(told)]
        )
    for note in told.notes:
        console.print(plain_text(f"note: {note}", "yellow"), soft_wrap=True)


def _stats_facts(told: "Figures", html: Path | None) -> Iterator[tuple[str, str]]:
    yield "folder", told.folder
    yield "figures of", "the rows" if told.counted else "stats.json"
    if told.profile:
        yield "profile", ", ".join(f"{key} {value}" for key, value in told.profile.items())
    for group, counts in told.odd.items():
        said = ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in counts.items() if n)
        if said:
            yield group.replace("_", " "), said
    if html is not None:
        yield "page", str(html)


def _rate_rows(told: "Figures") -> Iterator[tuple[str, ...]]:
    """A line per figure, a column per split."""
    from ingot.converters.output.pages import format_count, format_percent

    splits = told.splits.values()
    yield "rows", *(format_count(one.rows) for one in splits)
    yield "entities", *(format_count(one.entities) for one in splits)
    yield "clicks", *(format_count(one.clicks) for one in splits)
    yield "conversions", *(format_count(one.conversions) for one in splits)
    yield "without a click", *(format_count(one.funnel_anomalies) for one in splits)
    yield "ctr", *(format_percent(one.ctr) for one in splits)
    yield "cvr of clicks", *(format_percent(one.cvr_of_clicks) for one in splits)
    yield "cvr of impressions", *(format_percent(one.cvr_of_impressions) for one in splits)
    yield "ctcvr", *(format_percent(one.ctcvr) for one in splits)


def _feature_rows(told: "Figures", split: str) -> Iterator[tuple[str, ...]]:
    from ingot.converters.output.pages import format_percent

    for one in told.features:
        figures = told.by_feature[one.name][split]
        oov = "" if figures.oov is None else format_percent(figures.oov)
        hashed = format_percent(figures.hashed) if figures.hashed else ""
        yield one.name, one.encoding, format_percent(figures.missing), oov, hashed


def _list_rows(told: "Figures", split: str) -> Iterator[tuple[str, ...]]:
    from ingot.converters.output.pages import format_number, format_percent
    from ingot.converters.recsys.ctr.validation.figures import UNKNOWN

    for one in told.features:
        figures = told.by_feature[one.name][split]
        if not one.is_multi_hot or figures.lengths is None:
            continue
        lengths = (figures.lengths[name] for name in ("mean", "p50", "p90", "p99", "max"))
        longest = "" if one.encoding == UNKNOWN else str(one.max_len)
        kept = (figures.cut_rows, figures.tokens_kept, figures.value_kept)
        shares = ("" if share is None else format_percent(share) for share in kept)
        yield one.name, *map(format_number, lengths), longest, *shares


def _vocab_rows(told: "Figures") -> Iterator[tuple[str, ...]]:
    from ingot.converters.output.pages import format_count, format_percent

    for name, held in told.vocab.items():
        every = held.get("occurrences", 0)
        covered = held.get("occurrences_kept", 0) / every if every else None
        own = held.get("kept")
        yield (
            name,
            format_count(held.get("distinct")),
            format_count(own),
            format_percent(covered) if own else "",
        )
