"""`ingot ctr stats`: a processed folder in figures, in the terminal or as a page."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ingot.cli import options as o

if TYPE_CHECKING:
    from rich.console import Console

    from ingot.converters.ctr.checking.figures import Figures

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


def stats(
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
    from ingot.cli.console import output, print_json
    from ingot.cli.show import write_page
    from ingot.converters.ctr.checking.figures import figures
    from ingot.converters.ctr.checking.stats_page import render
    from ingot.converters.ctr.featuremap import load

    told = figures(folder, load(featuremap) if featuremap else None)
    if html is not None:
        write_page(html, render(told))
    if as_json:
        print_json(told.to_document())
    else:
        _show(output(), told, html)


def _show(console: "Console", told: "Figures", html: Path | None) -> None:
    from ingot.cli.console import plain
    from ingot.cli.show import filled, grid

    grid(console, list(_facts(told, html)))
    grid(console, [("", *told.splits), *_rates(told)])
    for split in told.splits:
        console.print(plain(f"Features in {split}", "bold"))
        grid(console, filled([_FEATURE_HEADS, *_features(told, split)]))
        lists = list(_lists(told, split))
        if lists:
            console.print(plain(f"Lists in {split}", "bold"))
            grid(console, filled([_LIST_HEADS, *lists]))
    if told.vocab:
        console.print(plain("Vocabularies of the train rows", "bold"))
        grid(console, [("feature", "distinct", "own id", "occurrences covered"), *_vocab(told)])
    for note in told.notes:
        console.print(plain(f"note: {note}", "yellow"), soft_wrap=True)


def _facts(told: "Figures", html: Path | None) -> Iterator[tuple[str, str]]:
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


def _rates(told: "Figures") -> Iterator[tuple[str, ...]]:
    """A line per figure, a column per split."""
    from ingot.converters.pages import count, percent

    splits = told.splits.values()
    yield "rows", *(count(one.rows) for one in splits)
    yield "entities", *(count(one.entities) for one in splits)
    yield "clicks", *(count(one.clicks) for one in splits)
    yield "conversions", *(count(one.conversions) for one in splits)
    yield "without a click", *(count(one.funnel_anomalies) for one in splits)
    yield "ctr", *(percent(one.ctr) for one in splits)
    yield "cvr of clicks", *(percent(one.cvr_of_clicks) for one in splits)
    yield "cvr of impressions", *(percent(one.cvr_of_impressions) for one in splits)
    yield "ctcvr", *(percent(one.ctcvr) for one in splits)


def _features(told: "Figures", split: str) -> Iterator[tuple[str, ...]]:
    from ingot.converters.pages import percent

    for one in told.features:
        figures = told.by_feature[one.name][split]
        oov = "" if figures.oov is None else percent(figures.oov)
        hashed = percent(figures.hashed) if figures.hashed else ""
        yield one.name, one.encoding, percent(figures.missing), oov, hashed


def _lists(told: "Figures", split: str) -> Iterator[tuple[str, ...]]:
    from ingot.converters.ctr.checking.figures import UNKNOWN
    from ingot.converters.pages import number, percent

    for one in told.features:
        figures = told.by_feature[one.name][split]
        if not one.is_multi_hot or figures.lengths is None:
            continue
        lengths = (figures.lengths[name] for name in ("mean", "p50", "p90", "p99", "max"))
        longest = "" if one.encoding == UNKNOWN else str(one.max_len)
        kept = (figures.cut_rows, figures.tokens_kept, figures.value_kept)
        shares = ("" if share is None else percent(share) for share in kept)
        yield one.name, *map(number, lengths), longest, *shares


def _vocab(told: "Figures") -> Iterator[tuple[str, ...]]:
    from ingot.converters.pages import count, percent

    for name, held in told.vocab.items():
        every = held.get("occurrences", 0)
        covered = held.get("occurrences_kept", 0) / every if every else None
        own = held.get("kept")
        yield name, count(held.get("distinct")), count(own), percent(covered) if own else ""
