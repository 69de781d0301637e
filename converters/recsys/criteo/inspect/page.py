"""How the figures of preprocessed Criteo data are shown: as tables, and as a page with plots."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from ingot.converters.output.figures import (
    Columns,
    Section,
    format_count,
    format_known,
    format_measure,
    format_percent,
    list_facts,
    render_page,
    share_of,
    tabulate,
)
from ingot.converters.recsys.criteo.inspect.figures import (
    DenseFigures,
    Figures,
    Frequent,
    PartFigures,
    SparseFigures,
)

_HEIGHT: Final = 100.0
_LEAST: Final = 2.5
_COVERED: Final = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)


def figure_sections(figures: Figures) -> Iterator[Section]:
    """Yield what a terminal shows."""
    counted = figures.source == "arrays"
    rejects = (figures.rejects or {}).items()
    yield Section(
        list_facts(
            {
                "folder": figures.folder,
                "figures of": "the arrays" if counted else "stats.json, vocab/",
                "rows": format_count(figures.rows),
                "label rate": format_percent(figures.label_rate),
                "rejected": ", ".join(f"{name} {count:,}" for name, count in rejects),
            }
        )
    )
    yield Section(tabulate(_PARTS, figures.parts))
    yield Section(tabulate(_dense_columns(figures.rows), figures.dense))
    yield Section(tabulate(_sparse_columns(figures.rows), figures.sparse))
    coverage = tabulate(_coverage_columns(figures), figures.sparse)
    yield Section(coverage, "Rows that the most frequent ids cover")
    if any(one.top for one in figures.sparse):
        rare = None if counted else "rare"
        top = [(one.name, _top_ids_text(one.top, rare)) for one in figures.sparse]
        yield Section(top, "Most frequent ids: id, raw value, share of the rows")
    yield Section(text=f"num_embeddings = {figures.num_embeddings}")


_ORDERS = {None: "", True: "shuffled", False: "kept"}
_PARTS: Columns[PartFigures] = {
    "part": lambda one: one.name,
    "rows": lambda one: format_count(one.rows),
    "label 1": lambda one: format_count(one.ones),
    "rate": lambda one: format_percent(one.label_rate),
    "other": lambda one: format_count(one.other),
    "rejected": lambda one: "" if one.rejects is None else format_count(sum(one.rejects.values())),
    "not finite": lambda one: format_count(one.nonfinite),
    "order": lambda one: _ORDERS[one.shuffled],
}


def _dense_columns(rows: int) -> Columns[DenseFigures]:
    return {
        "dense": lambda one: one.name,
        "missing": lambda one: format_known(format_percent, share_of(one.missing, rows)),
        "not finite": lambda one: format_count(one.nonfinite),
        "least": lambda one: format_measure(one.least),
        "largest": lambda one: format_measure(one.most),
        "mean": lambda one: format_measure(one.mean),
    }


def _sparse_columns(rows: int) -> Columns[SparseFigures]:
    return {
        "sparse": lambda one: one.name,
        "distinct": lambda one: format_count(one.distinct),
        "missing": lambda one: format_known(format_percent, share_of(one.missing, rows)),
        "rare": lambda one: format_known(format_count, one.rare),
        "max id": lambda one: format_count(one.max_id),
    }


def _coverage_columns(figures: Figures) -> Columns[SparseFigures]:
    sizes = coverage_steps(figures.sparse)
    return {"ids": lambda one: one.name, **{_power_text(ids): _covered_by(ids) for ids in sizes}}


def _covered_by(ids: int) -> Callable[[SparseFigures], str]:
    return lambda one: format_percent(one.covered(ids))


def _power_text(ids: int) -> str:
    return f"{ids // 10**6} M" if ids >= 10**6 else f"{ids // 1000} k" if ids >= 1000 else str(ids)


def _top_ids_text(top: tuple[Frequent, ...], rare: str | None) -> str:
    """Return ids with their values; `rare` stands for values that share an id."""
    parts = ((str(one.id), one.raw or rare, format_percent(one.share)) for one in top)
    return ", ".join(" ".join(filter(None, pieces)) for pieces in parts) or "–"


def render_inspect_page(figures: Figures) -> str:
    """Return the page as UTF-8 text. Names and texts of the folder are escaped."""
    most_ids = max((one.coverage[-1][0] for one in figures.sparse if one.coverage), default=10)
    end = int(10 ** max(1, math.ceil(math.log10(most_ids))))  # all ids fit in
    rows = max((one.rows for one in figures.parts), default=0) or 1
    rate = max((one.label_rate or 0 for one in figures.parts), default=0) or 1
    counts = figures.rejects or {}
    largest = max((one.distinct or 1 for one in figures.sparse), default=1)
    return render_page(
        "ingot.converters.recsys.criteo.inspect",
        "inspect.html.j2",
        told=figures,
        counted=figures.source == "arrays",
        parts=[
            {"told": one, "rows": 100 * one.rows / rows, "rate": 100 * (one.label_rate or 0) / rate}
            for one in figures.parts
        ],
        rejects=[
            {
                "reason": reason,
                "count": count,
                "by_part": [(part.rejects or {}).get(reason, 0) for part in figures.parts],
            }
            for reason, count in counts.items()
            if count
        ],
        histograms=[_histogram_bars(one, figures) for one in figures.dense],
        sizes=[
            {
                "told": one,
                "at": round(_log_position(one.distinct or 1, largest), 2),
                "missing": None if one.missing is None else share_of(one.missing, figures.rows),
            }
            for one in figures.sparse
        ],
        curves=[
            {
                "told": one,
                "points": " ".join(
                    f"{round(_log_position(ids, end), 2):g},{round(_HEIGHT * (1 - share), 2):g}"
                    for ids, share in one.coverage
                ),
            }
            for one in figures.sparse
        ],
        axis=f"{end:,}",
        covered=coverage_steps(figures.sparse),
        tables=figures.num_embeddings,
    )


def coverage_steps(sparse: Sequence[SparseFigures]) -> list[int]:
    """Return the numbers of most frequent ids whose coverage is shown, without the largest."""
    largest = max((one.coverage[-1][0] for one in sparse if one.coverage), default=1)
    return [number for number in _COVERED if number <= largest]


def bucket_label(bound: str, *, counted: bool) -> str:
    """Return what a bucket of a histogram holds, by its lower bound."""
    if bound == "negative":
        return "below 0"
    first = int(bound)
    if counted:
        return f"{first:,} to {first + 1:,}"
    return f"{first:,}" if first < 2 else f"{first:,} to {2 * first - 1:,}"


def _histogram_bars(column: DenseFigures, figures: Figures) -> dict[str, object]:
    """Bars from the first bucket to the last, also those that are empty."""
    counted = figures.source == "arrays"
    count_by_bound = dict(column.histogram)
    bounds = _fill_bounds([bound for bound, _ in column.histogram], counted=counted)
    counts = [count_by_bound.get(bound, 0) for bound in bounds]
    highest, total = max(counts, default=1) or 1, sum(counts) or 1
    labels = [bucket_label(bound, counted=counted) for bound in bounds]
    last = labels[-1] if labels else ""
    # Nothing where the last bucket is the first one and holds one number.
    end = f"to {last.split(' to ')[-1]}" if len(labels) > 1 or " to " in last else ""
    return {
        "name": column.name,
        "ends": [labels[0].split(" to ")[0] if labels else "", end],
        "bars": [
            {
                "label": label,
                "share": count / total,
                "height": max(_LEAST, round(_HEIGHT * count / highest, 2)) if count else 0.0,
            }
            for label, count in zip(labels, counts, strict=True)
        ],
    }


def _fill_bounds(bounds: Sequence[str], *, counted: bool) -> list[str]:
    powers = ["negative", "0", *(str(1 << power) for power in range(64))]
    all_bounds = ["negative", *map(str, range(64))] if counted else powers
    positions = [all_bounds.index(bound) for bound in bounds if bound in all_bounds]
    return all_bounds[min(positions) : max(positions) + 1] if positions else []


def _log_position(value: int, largest: int) -> float:
    """Where a number stands between 1 and the most, in percent."""
    return 100 * math.log10(max(value, 1)) / math.log10(max(largest, 10))
