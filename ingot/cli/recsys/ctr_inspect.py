"""`ingot ctr validate` and `ingot ctr stats`."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ingot.cli import options as o
from ingot.cli.console import plain_text, print_json, stderr_console, stdout_console
from ingot.cli.display import drop_empty_columns, print_grid, show_notes, write_page
from ingot.cli.options import command_options
from ingot.converters.settings import Setting

if TYPE_CHECKING:
    from rich.console import Console

    from ingot.converters.recsys.ctr.validation.figures import Figures
    from ingot.converters.recsys.ctr.validation.findings import Place, Report, Verdict
    from ingot.converters.recsys.ctr.validation.validator import Watch

_STYLES = {"passed": "green", "broken": "red", "not checked": "yellow"}


_Featuremap = Annotated[
    str | None,
    Setting(
        "Featuremap to use instead of DIR/featuremap.yaml, for files of another writer.",
        metavar="NAME|FILE",
    ),
]


@command_options
def validate_ctr(
    folder: o.Folder,
    featuremap: _Featuremap = None,
    max_shown: Annotated[
        int, Setting("Number of places to show per broken rule.", metavar="N", minimum=1)
    ] = 3,
    as_json: o.Json = False,
) -> None:
    """Check a processed folder against every rule of the contract (docs/ctr.md).

    The exit code is 1 if a rule is broken; file, row, column and the value found are shown.
    """
    from ingot.converters.errors import ConversionError
    from ingot.converters.recsys.ctr.featuremap import load
    from ingot.converters.recsys.ctr.validation.validator import validate

    given = load(featuremap) if featuremap else None
    with _progress_bar() as watch:
        report = validate(folder, given=given, max_shown=max_shown, watch=watch)
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
    """Show the progress, on stderr and only if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _done, _all: None
        return
    from rich.progress import Progress

    with Progress(console=stderr_console(), transient=True) as bar:
        task = bar.add_task("rows")
        yield lambda done, every: bar.update(task, completed=done, total=every)


def _show_report(console: "Console", report: "Report") -> None:
    print_grid(console, list(_report_facts(report)))
    for one in report.verdicts:
        line = f"{one.rule.number:<6} {one.state:<12} {one.rule.wants}"
        console.print(plain_text(line, _STYLES[one.state]), soft_wrap=True)
        _print_details(console, one)
    show_notes(console, report.notes)


def _report_facts(report: "Report") -> Iterator[tuple[str, str]]:
    yield "folder", report.folder
    yield "rows", ", ".join(f"{rows:,} {split}" for split, rows in report.rows.items())
    if report.profile:
        yield "profile", ", ".join(f"{key} {value}" for key, value in report.profile.items())
    states = [one.state for one in report.verdicts]
    yield "rules", ", ".join(f"{states.count(state)} {state}" for state in _STYLES)


def _print_details(console: "Console", one: "Verdict") -> None:
    if one.why:
        console.print(plain_text(f"       {one.why}", "dim"), soft_wrap=True)
    for place in one.places:
        console.print(plain_text(f"       {_place_line(place)}"), soft_wrap=True)
    if one.count > len(one.places):
        console.print(
            plain_text(f"       and {one.count - len(one.places):,} more"), soft_wrap=True
        )


def _place_line(place: "Place") -> str:
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


@command_options
def show_ctr_stats(
    folder: o.Folder,
    html: o.HtmlFile = None,
    featuremap: _Featuremap = None,
    as_json: o.Json = False,
) -> None:
    """Show statistics of a processed folder: rows, ctr, cvr, missing values, oov, list lengths.

    They are read from DIR/stats.json; without that file the rows are counted.
    """
    from ingot.converters.recsys.ctr.featuremap import load
    from ingot.converters.recsys.ctr.validation.figures import read_figures, render_stats_page

    figures = read_figures(folder, load(featuremap) if featuremap else None)
    if html is not None:
        write_page(html, render_stats_page(figures))
    if as_json:
        print_json(figures.to_document())
    else:
        _show_stats(stdout_console(), figures, html)


def _show_stats(console: "Console", figures: "Figures", html: Path | None) -> None:
    print_grid(console, list(_stats_facts(figures, html)))
    print_grid(console, [("", *figures.splits), *_rate_rows(figures)])
    for split in figures.splits:
        console.print(plain_text(f"Features in {split}", "bold"))
        print_grid(console, drop_empty_columns([_FEATURE_HEADS, *_feature_rows(figures, split)]))
        lists = list(_list_rows(figures, split))
        if lists:
            console.print(plain_text(f"Lists in {split}", "bold"))
            print_grid(console, drop_empty_columns([_LIST_HEADS, *lists]))
    if figures.vocab:
        console.print(plain_text("Vocabularies of the train rows", "bold"))
        print_grid(
            console,
            [("feature", "distinct", "own id", "occurrences covered"), *_vocab_rows(figures)],
        )
    show_notes(console, figures.notes)


def _stats_facts(figures: "Figures", html: Path | None) -> Iterator[tuple[str, str]]:
    yield "folder", figures.folder
    yield "figures of", "the rows" if figures.counted else "stats.json"
    if figures.profile:
        yield "profile", ", ".join(f"{key} {value}" for key, value in figures.profile.items())
    for group, counts in figures.odd.items():
        amounts = ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in counts.items() if n)
        if amounts:
            yield group.replace("_", " "), amounts
    if html is not None:
        yield "page", str(html)


def _rate_rows(figures: "Figures") -> Iterator[tuple[str, ...]]:
    """Yield a line per figure with a column per split."""
    from ingot.converters.output.pages import format_count, format_percent

    splits = figures.splits.values()
    yield "rows", *(format_count(one.rows) for one in splits)
    yield "entities", *(format_count(one.entities) for one in splits)
    yield "clicks", *(format_count(one.clicks) for one in splits)
    yield "conversions", *(format_count(one.conversions) for one in splits)
    yield "without a click", *(format_count(one.funnel_anomalies) for one in splits)
    yield "ctr", *(format_percent(one.ctr) for one in splits)
    yield "cvr of clicks", *(format_percent(one.cvr_of_clicks) for one in splits)
    yield "cvr of impressions", *(format_percent(one.cvr_of_impressions) for one in splits)
    yield "ctcvr", *(format_percent(one.ctcvr) for one in splits)


def _feature_rows(figures: "Figures", split: str) -> Iterator[tuple[str, ...]]:
    from ingot.converters.output.pages import format_percent

    for one in figures.features:
        counts = figures.by_feature[one.name][split]
        oov = "" if counts.oov is None else format_percent(counts.oov)
        hashed = format_percent(counts.hashed) if counts.hashed else ""
        yield one.name, one.encoding, format_percent(counts.missing), oov, hashed


def _list_rows(figures: "Figures", split: str) -> Iterator[tuple[str, ...]]:
    from ingot.converters.output.pages import format_number, format_percent
    from ingot.converters.recsys.ctr.validation.figures import UNKNOWN

    for one in figures.features:
        counts = figures.by_feature[one.name][split]
        if not one.is_multi_hot or counts.lengths is None:
            continue
        lengths = (counts.lengths[name] for name in ("mean", "p50", "p90", "p99", "max"))
        longest = "" if one.encoding == UNKNOWN else str(one.max_len)
        kept = (counts.cut_rows, counts.tokens_kept, counts.value_kept)
        shares = ("" if share is None else format_percent(share) for share in kept)
        yield one.name, *map(format_number, lengths), longest, *shares


def _vocab_rows(figures: "Figures") -> Iterator[tuple[str, ...]]:
    from ingot.converters.output.pages import format_count, format_percent

    for name, held in figures.vocab.items():
        every = held.get("occurrences", 0)
        covered = held.get("occurrences_kept", 0) / every if every else None
        own = held.get("kept")
        yield (
            name,
            format_count(held.get("distinct")),
            format_count(own),
            format_percent(covered) if own else "",
        )
