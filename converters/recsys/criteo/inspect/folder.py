"""The figures of any folder of preprocessed data: stored ones, or counted from the arrays.

The ids of all columns are counted in one pass where so many counters have room, else in several
passes over as many columns, or ranges of a column's ids, as have room.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.recsys.criteo.inspect.figures import (
    DenseFigures,
    Figures,
    Frequencies,
    PartFigures,
    SparseFigures,
)
from ingot.converters.recsys.criteo.inspect.stored_figures import is_stored, read_stored_figures
from ingot.converters.recsys.criteo.stored_arrays import (
    DENSE_NAMES,
    KEYS,
    KINDS,
    MappedRows,
    PartRange,
    locate_arrays,
)
from ingot.converters.sources.recognizers.criteo import DENSE, SPARSE

_ROWS: Final = 1 << 16
_COUNTERS: Final = 1 << 26
"""Of 8 bytes, that are held at a time."""
_LARGEST_ID: Final = 1 << 30
"""What is larger is no id that was given in turn: the values of the raw files, by the look."""
_BUCKETS: Final = 48
_NOTE: Final = (
    "counted from the arrays: dense figures are of the written numbers; what was missing, "
    "rejected or rare, and raw values, are not known"
)


def count_figures(root: Path, top: int, *, counters: int = _COUNTERS) -> Figures:
    """The figures that the arrays of a folder show."""
    parts = [_PartArrays(stretch) for stretch in locate_arrays(root, "all").stretches]
    told = [_Counts(part) for part in parts]
    spans = _id_spans(told)
    found = _count_ids(parts, spans, top, counters)
    sparse = tuple(map(_sparse_figures, KEYS, spans, found))
    odd = [one.name for one in sparse if one.distinct is None and one.max_id is not None]
    return Figures(
        folder=str(root),
        source="arrays",
        parts=tuple(one.figures() for one in told),
        dense=tuple(_dense_figures(at, [one.dense for one in told]) for at in range(DENSE)),
        sparse=sparse,
        notes=(_NOTE, *([_odd_types(odd)] if odd else [])),
    )


def _odd_types(names: Sequence[str]) -> str:
    told = ", ".join(names)
    return f"no ids that start at 0 or 2, so not counted: {told}; values of the raw files?"


@dataclass(kw_only=True)
class _DenseCounts:
    """Of the 13 dense columns, each [13]; `histogram` [13, 48]: below 0, 0 to 1, 1 to 2, ..."""

    finite: NDArray[np.int64] = field(default_factory=lambda: np.zeros(DENSE, np.int64))
    nonfinite: NDArray[np.int64] = field(default_factory=lambda: np.zeros(DENSE, np.int64))
    least: NDArray[np.float64] = field(default_factory=lambda: np.full(DENSE, np.inf))
    most: NDArray[np.float64] = field(default_factory=lambda: np.full(DENSE, -np.inf))
    total: NDArray[np.float64] = field(default_factory=lambda: np.zeros(DENSE))
    histogram: NDArray[np.int64] = field(
        default_factory=lambda: np.zeros((DENSE, _BUCKETS), np.int64)
    )

    def add(self, block: NDArray[Any]) -> None:
        """Take rows [R, 13]."""
        values = block.astype(np.float64)
        fine = np.isfinite(values)
        self.finite += fine.sum(axis=0)
        self.nonfinite += (~fine).sum(axis=0)
        self.least = np.minimum(self.least, np.where(fine, values, np.inf).min(axis=0))
        self.most = np.maximum(self.most, np.where(fine, values, -np.inf).max(axis=0))
        self.total += np.where(fine, values, 0).sum(axis=0)
        for at in range(DENSE):
            buckets = np.clip(np.floor(values[fine[:, at], at]), -1, _BUCKETS - 2) + 1
            self.histogram[at] += np.bincount(buckets.astype(np.int64), minlength=_BUCKETS)


class _PartArrays:
    """The arrays of a part."""

    def __init__(self, stretch: PartRange) -> None:
        self.name, self.rows = stretch.part, stretch.stop
        self._arrays = dict(zip(KINDS, map(MappedRows, stretch.arrays), strict=True))

    def blocks(self, *kinds: str) -> Iterator[tuple[NDArray[Any], ...]]:
        """Rows [R, width] of these kinds."""
        for start in range(0, self.rows, _ROWS):
            stop = min(self.rows, start + _ROWS)
            yield tuple(self._arrays[kind].span(start, stop) for kind in kinds)


class _Counts:
    """What one pass over a part shows: labels, dense values, and between which ids it lies."""

    def __init__(self, part: _PartArrays) -> None:
        self.part = part
        self.zeros = self.ones = 0
        self.dense = _DenseCounts()
        self.least = np.full(SPARSE, np.iinfo(np.int64).max)
        self.most = np.full(SPARSE, np.iinfo(np.int64).min)
        for labels, dense, sparse in part.blocks("labels", "dense", "sparse"):
            self._add(labels, dense, sparse)

    def _add(self, labels: NDArray[Any], dense: NDArray[Any], sparse: NDArray[Any]) -> None:
        self.zeros += int(np.count_nonzero(labels == 0))
        self.ones += int(np.count_nonzero(labels == 1))
        self.dense.add(dense)
        self.least = np.minimum(self.least, sparse.min(axis=0).astype(np.int64))
        self.most = np.maximum(self.most, sparse.max(axis=0).astype(np.int64))

    def figures(self) -> PartFigures:
        """Of the part."""
        return PartFigures(
            name=self.part.name,
            rows=self.part.rows,
            zeros=self.zeros,
            ones=self.ones,
            other=self.part.rows - self.zeros - self.ones,
            nonfinite=int(self.dense.nonfinite.sum()),
        )


def _id_spans(told: Sequence[_Counts]) -> list[tuple[int, int]]:
    least = np.min([one.least for one in told], axis=0)
    most = np.max([one.most for one in told], axis=0)
    return [(int(a), int(b)) for a, b in zip(least, most, strict=True)]


def _is_countable(span: tuple[int, int]) -> bool:
    return 0 <= span[0] <= span[1] < _LARGEST_ID


@dataclass(frozen=True, kw_only=True)
class _Counters:
    """Counters of a column's ids from `first` on."""

    column: int
    first: int
    counts: NDArray[np.int64]

    def add(self, ids: NDArray[Any]) -> None:
        """Take ids [R] of the column; those outside are passed over."""
        own = ids.astype(np.int64) - self.first
        own = own[(own >= 0) & (own < len(self.counts))]
        if len(self.counts) <= 4 * len(own):
            self.counts[:] += np.bincount(own, minlength=len(self.counts))
        else:
            some, times = np.unique(own, return_counts=True)
            self.counts[some] += times


def _counter_ranges(
    spans: Sequence[tuple[int, int]], room: int
) -> Iterator[list[tuple[int, int, int]]]:
    """Column, first id and number of ids, as many together as there is room for."""
    together: list[tuple[int, int, int]] = []
    left = room
    for column, span in enumerate(spans):
        first = span[0] if _is_countable(span) else span[1] + 1
        while first <= span[1]:
            if not left:
                yield together
                together, left = [], room
            number = min(left, span[1] + 1 - first)
            together.append((column, first, number))
            first, left = first + number, left - number
    if together:
        yield together


def _count_ids(
    parts: Sequence[_PartArrays], spans: Sequence[tuple[int, int]], top: int, counters: int
) -> list[Frequencies]:
    found = [Frequencies(top) for _ in spans]
    for together in _counter_ranges(spans, counters):
        held = [
            _Counters(column=column, first=first, counts=np.zeros(number, np.int64))
            for column, first, number in together
        ]
        for part in parts:
            for (rows,) in part.blocks("sparse"):
                for one in held:
                    one.add(rows[:, one.column])
        for one in held:
            found[one.column].add(np.arange(one.first, one.first + len(one.counts)), one.counts)
    return found


def _dense_figures(at: int, told: Sequence[_DenseCounts]) -> DenseFigures:
    finite = sum(int(one.finite[at]) for one in told)
    histogram = np.sum([one.histogram[at] for one in told], axis=0).tolist()
    bounds = ["negative", *map(str, range(_BUCKETS - 1))]
    return DenseFigures(
        name=DENSE_NAMES[at],
        nonfinite=sum(int(one.nonfinite[at]) for one in told),
        least=min(float(one.least[at]) for one in told) if finite else None,
        most=max(float(one.most[at]) for one in told) if finite else None,
        mean=sum(float(one.total[at]) for one in told) / finite if finite else None,
        histogram=tuple((bound, n) for bound, n in zip(bounds, histogram, strict=True) if n),
    )


def _sparse_figures(name: str, span: tuple[int, int], found: Frequencies) -> SparseFigures:
    there = span[0] <= span[1]
    return SparseFigures(
        name=name,
        distinct=found.ids if _is_countable(span) or not there else None,
        max_id=span[1] if there else None,
        largest=span[1] if there else None,
        counted=found.rows,
        coverage=found.coverage(),
        top=found.top(),
    )


def inspect(root: Path, top: int = 10) -> Figures:
    """The figures of preprocessed Criteo data.

    Those of stats.json and of the vocabularies; where these are not there, the arrays are counted.
    """
    return read_stored_figures(root, top) if is_stored(root) else count_figures(root, top)
