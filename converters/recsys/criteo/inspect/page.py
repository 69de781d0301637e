"""The figures of preprocessed Criteo data as one HTML page, with plots."""

import math
from collections.abc import Sequence
from typing import Final

from ingot.converters.output import pages
from ingot.converters.recsys.criteo.inspect.figures import DenseFigures, Figures, SparseFigures

_HEIGHT: Final = 100.0
_LEAST: Final = 2.5
_COVERED: Final = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)


def render_inspect_page(told: Figures) -> str:
    """The page, UTF-8 text. Names and texts of the folder are escaped."""
    most = max((one.coverage[-1][0] for one in told.sparse if one.coverage), default=10)
    end = int(10 ** max(1, math.ceil(math.log10(most))))  # all ids fit in
    rows = max((one.rows for one in told.parts), default=0) or 1
    rate = max((one.label_rate or 0 for one in told.parts), default=0) or 1
    counts = told.rejects or {}
    largest = max((one.distinct or 1 for one in told.sparse), default=1)
    return pages.render_page(
        "ingot.converters.recsys.criteo.inspect",
        "inspect.html.j2",
        told=told,
        counted=told.source == "arrays",
        parts=[
            {"told": one, "rows": 100 * one.rows / rows, "rate": 100 * (one.label_rate or 0) / rate}
            for one in told.parts
        ],
        rejects=[
            {
                "reason": reason,
                "count": count,
                "by_part": [(part.rejects or {}).get(reason, 0) for part in told.parts],
            }
            for reason, count in counts.items()
            if count
        ],
        histograms=[_histogram_bars(one, told) for one in told.dense],
        sizes=[
            {
                "told": one,
                "at": round(_log_position(one.distinct or 1, largest), 2),
                "missing": None if one.missing is None else pages.share_of(one.missing, told.rows),
            }
            for one in told.sparse
        ],
        curves=[
            {
                "told": one,
                "points": " ".join(
                    f"{round(_log_position(ids, end), 2):g},{round(_HEIGHT * (1 - share), 2):g}"
                    for ids, share in one.coverage
                ),
            }
            for one in told.sparse
        ],
        axis=f"{end:,}",
        covered=coverage_steps(told.sparse),
        tables=told.num_embeddings,
    )


def coverage_steps(sparse: Sequence[SparseFigures]) -> list[int]:
    """The numbers of most frequent ids whose coverage is shown: below the most that there are."""
    most = max((one.coverage[-1][0] for one in sparse if one.coverage), default=1)
    return [number for number in _COVERED if number <= most]


def bucket_label(bound: str, *, counted: bool) -> str:
    """What a bucket of a histogram holds, by its lower bound."""
    if bound == "negative":
        return "below 0"
    first = int(bound)
    if counted:
        return f"{first:,} to {first + 1:,}"
    return f"{first:,}" if first < 2 else f"{first:,} to {2 * first - 1:,}"


def _histogram_bars(one: DenseFigures, told: Figures) -> dict[str, object]:
    """Bars from the first bucket to the last, also those that are empty."""
    counted = told.source == "arrays"
    held = dict(one.histogram)
    bounds = _fill_bounds([bound for bound, _ in one.histogram], counted=counted)
    counts = [held.get(bound, 0) for bound in bounds]
    most, every = max(counts, default=1) or 1, sum(counts) or 1
    labels = [bucket_label(bound, counted=counted) for bound in bounds]
    last = labels[-1] if labels else ""
    # Nothing where the last bucket is the first one and holds one number.
    end = f"to {last.split(' to ')[-1]}" if len(labels) > 1 or " to " in last else ""
    return {
        "name": one.name,
        "ends": [labels[0].split(" to ")[0] if labels else "", end],
        "bars": [
            {
                "label": label,
                "share": count / every,
                "height": max(_LEAST, round(_HEIGHT * count / most, 2)) if count else 0.0,
            }
            for label, count in zip(labels, counts, strict=True)
        ],
    }


def _fill_bounds(bounds: Sequence[str], *, counted: bool) -> list[str]:
    powers = ["negative", "0", *(str(1 << power) for power in range(64))]
    every = ["negative", *map(str, range(64))] if counted else powers
    places = [every.index(bound) for bound in bounds if bound in every]
    return every[min(places) : max(places) + 1] if places else []


def _log_position(value: int, most: int) -> float:
    """Where a number stands between 1 and the most, in percent."""
    return 100 * math.log10(max(value, 1)) / math.log10(max(most, 10))
