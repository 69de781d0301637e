"""`ingot criteo inspect`: preprocessed data in figures, in the terminal or as a page."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ingot.cli import options as o

if TYPE_CHECKING:
    from rich.console import Console

    from ingot.converters.criteo.inspecting.figures import Figures, Frequent

_PART_HEADS = ("part", "rows", "label 1", "rate", "other", "rejected", "not finite", "order")
_DENSE_HEADS = ("dense", "missing", "not finite", "least", "largest", "mean")
_SPARSE_HEADS = ("sparse", "distinct", "missing", "rare", "max id")


def inspect(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Folder of preprocessed data.", show_default=False),
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
    top: Annotated[
        int,
        typer.Option("--top", metavar="N", min=0, max=1000, help="Most frequent ids to show."),
    ] = 10,
    as_json: o.JsonOption = False,
) -> None:
    """Show preprocessed data in figures: rows, labels, missing values, ids and how often they are.

    They are those of DIR/stats.json and DIR/vocab; without these the arrays are counted.
    """
    from ingot.cli.console import output, print_json
    from ingot.cli.show import write_page
    from ingot.converters.criteo.inspecting.folder import inspect as figures
    from ingot.converters.criteo.inspecting.page import render

    told = figures(folder, top)
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
    for table in (_parts(told), _dense(told), _sparse(told)):
        console.print()
        grid(console, filled(list(table)))
    console.print()
    console.print(plain("Rows that the most frequent ids cover", "bold"))
    grid(console, list(_covered(told)))
    if any(one.top for one in told.sparse):
        console.print()
        console.print(plain("Most frequent ids: id, raw value, share of the rows", "bold"))
        rare = None if told.source == "arrays" else "rare"
        grid(console, [(one.name, _tops(one.top, rare)) for one in told.sparse])
    console.print()
    console.print(plain(f"num_embeddings = {told.num_embeddings}"), soft_wrap=True)
    for note in told.notes:
        console.print(plain(f"note: {note}", "yellow"), soft_wrap=True)


def _facts(told: "Figures", html: Path | None) -> Iterator[tuple[str, str]]:
    from ingot.converters.pages import percent

    yield "folder", told.folder
    yield "figures of", "the arrays" if told.source == "arrays" else "stats.json, vocab/"
    yield "rows", f"{told.rows:,}"
    yield "label rate", percent(told.label_rate)
    if told.rejects:
        yield "rejected", ", ".join(f"{name} {count:,}" for name, count in told.rejects.items())
    if html is not None:
        yield "page", str(html)


def _parts(told: "Figures") -> Iterator[tuple[str, ...]]:
    from ingot.converters.pages import count, percent

    yield _PART_HEADS
    for one in told.parts:
        rejected = "" if one.rejects is None else count(sum(one.rejects.values()))
        rows, ones, other, nonfinite = map(count, (one.rows, one.ones, one.other, one.nonfinite))
        order = {None: "", True: "shuffled", False: "kept"}[one.shuffled]
        yield one.name, rows, ones, percent(one.label_rate), other, rejected, nonfinite, order


def _dense(told: "Figures") -> Iterator[tuple[str, ...]]:
    from ingot.converters.pages import count, measure

    yield _DENSE_HEADS
    for one in told.dense:
        numbers = map(measure, (one.least, one.most, one.mean))
        yield one.name, _of(one.missing, told.rows), count(one.nonfinite), *numbers


def _sparse(told: "Figures") -> Iterator[tuple[str, ...]]:
    from ingot.converters.pages import count

    yield _SPARSE_HEADS
    for one in told.sparse:
        rare = "" if one.rare is None else count(one.rare)
        yield one.name, count(one.distinct), _of(one.missing, told.rows), rare, count(one.max_id)


def _covered(told: "Figures") -> Iterator[tuple[str, ...]]:
    """The share of rows of so many most frequent ids."""
    from ingot.converters.criteo.inspecting.page import steps
    from ingot.converters.pages import percent

    shown = steps(told.sparse)
    yield "ids", *(_short(ids) for ids in shown)
    for one in told.sparse:
        yield one.name, *(percent(one.covered(ids)) for ids in shown)


def _short(ids: int) -> str:
    """A power of ten in few letters."""
    return f"{ids // 10**6} M" if ids >= 10**6 else f"{ids // 1000} k" if ids >= 1000 else str(ids)


def _of(missing: int | None, rows: int) -> str:
    """The share of rows; nothing where it is not known."""
    from ingot.converters.pages import percent, share

    return "" if missing is None else percent(share(missing, rows))


def _tops(top: "tuple[Frequent, ...]", rare: str | None) -> str:
    """The ids with their values; `rare` stands for those that share an id."""
    from ingot.converters.pages import percent

    told = ((str(one.id), one.raw or rare, percent(one.share)) for one in top)
    return ", ".join(" ".join(filter(None, pieces)) for pieces in told) or "–"
