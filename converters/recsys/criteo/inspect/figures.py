"""The figures of preprocessed Criteo data as values; what is not known is None."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ingot.converters.rows import Json


@dataclass(frozen=True, kw_only=True)
class PartFigures:
    """One part, as day_0. Of a shuffled one what stats.json counts is its file, before the shuffle.

    Attributes:
        zeros: rows with label 0.
        ones: rows with label 1.
        other: rows with another label, as -1 where the file has none.
    """

    name: str
    file: str | None = None
    lines: int | None = None
    rows: int
    rejects: dict[str, int] | None = None
    zeros: int
    ones: int
    other: int
    nonfinite: int
    dense_min: int | None = None
    shuffled: bool | None = None

    @property
    def label_rate(self) -> float | None:
        """Ones of the rows with 0 or 1; None without any."""
        return ones_rate(self.ones, self.zeros)


@dataclass(frozen=True, kw_only=True)
class DenseFigures:
    """A dense column: of the raw integers (missing ones are 0), or of the written numbers.

    Attributes:
        name: int_0 to int_12.
        missing: empty fields.
        histogram: from the smallest bucket: its lower bound, and how many values it has.
    """

    name: str
    missing: int | None = None
    nonfinite: int
    least: float | None
    most: float | None
    mean: float | None
    histogram: tuple[tuple[str, int], ...]


@dataclass(frozen=True, kw_only=True)
class Frequent:
    """An id that is among the most frequent.

    Attributes:
        value: the raw number; None where it is not known, or where several share the id.
    """

    id: int
    value: int | None
    count: int
    share: float

    @property
    def raw(self) -> str | None:
        """The raw value as the files spell it, 8 hex digits."""
        return None if self.value is None else f"{self.value:08x}"


@dataclass(frozen=True, kw_only=True)
class SparseFigures:
    """A sparse column.

    Attributes:
        name: cat_0 to cat_25.
        missing: empty fields.
        rare: values with id 1.
        rare_rows: rows with id 1.
        largest: that the rows or the vocabulary may have: the vocabulary knows earlier runs, and
            ids that went through float32 may be rounded up.
        counted: rows by which the shares are; more than rows where earlier runs count too.
        coverage: number of most frequent ids, and their share of the rows.
    """

    name: str
    missing: int | None = None
    distinct: int | None
    vocabulary: int | None = None
    rare: int | None = None
    rare_rows: int | None = None
    max_id: int | None
    largest: int | None
    counted: int
    coverage: tuple[tuple[int, float], ...]
    top: tuple[Frequent, ...]

    @property
    def num_embeddings(self) -> int | None:
        """Rows that a table needs: one more than the largest id."""
        return None if self.largest is None else self.largest + 1

    def covered(self, ids: int) -> float | None:
        """The share of rows of so many most frequent ids; None if not known."""
        shares = [share for number, share in self.coverage if number <= ids]
        return shares[-1] if shares else None


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Everything that is known of a folder.

    Attributes:
        dense: 13 columns.
        sparse: 26 columns.
    """

    folder: str
    source: Literal["stats.json", "arrays"]
    parts: tuple[PartFigures, ...]
    dense: tuple[DenseFigures, ...]
    sparse: tuple[SparseFigures, ...]
    notes: tuple[str, ...]

    @property
    def rows(self) -> int:
        """Of all parts."""
        return sum(one.rows for one in self.parts)

    @property
    def label_rate(self) -> float | None:
        """Ones of the rows with 0 or 1, of all parts; None without any."""
        return ones_rate(sum(one.ones for one in self.parts), sum(one.zeros for one in self.parts))

    @property
    def rejects(self) -> dict[str, int] | None:
        """Lines that are no rows, by reason, of all parts; None where not known."""
        counts: dict[str, int] = {}
        for one in self.parts:
            if one.rejects is None:
                return None
            for reason, count in one.rejects.items():
                counts[reason] = counts.get(reason, 0) + count
        return dict(sorted(counts.items()))

    @property
    def num_embeddings(self) -> list[int | None]:
        """Of the sparse columns, in order."""
        return [one.num_embeddings for one in self.sparse]

    def to_document(self) -> dict[str, Json]:
        """The figures as JSON."""
        return {
            "folder": self.folder,
            "source": self.source,
            "rows": self.rows,
            "label_rate": self.label_rate,
            "rejects": self.rejects,
            "num_embeddings": self.num_embeddings,
            "parts": [{**asdict(one), "label_rate": one.label_rate} for one in self.parts],
            "dense": [_dense_document(one) for one in self.dense],
            "sparse": [_sparse_document(one) for one in self.sparse],
            "notes": list(self.notes),
        }


def ones_rate(ones: int, zeros: int) -> float | None:
    """Ones of both; None without any."""
    return ones / (ones + zeros) if ones + zeros else None


def _dense_document(one: DenseFigures) -> dict[str, Json]:
    return {**asdict(one), "histogram": dict(one.histogram)}


def _sparse_document(one: SparseFigures) -> dict[str, Json]:
    return {
        **asdict(one),
        "num_embeddings": one.num_embeddings,
        "coverage": _coverage_pairs(one.coverage),
        "top": [{**asdict(entry), "raw": entry.raw} for entry in one.top],
    }


def _coverage_pairs(coverage: Sequence[tuple[int, float]]) -> list[dict[str, Json]]:
    return [{"ids": ids, "share": share} for ids, share in coverage]


_STEPS = (1, 2, 5)


class Frequencies:
    """The ids of a column and how many rows each has.

    `largest`: the largest of all that were given, also with 0 rows.
    """

    def __init__(self, top: int) -> None:
        """Keeps so many of the most frequent ids."""
        self._top = top
        self._heads = np.zeros((0, 3), np.int64)  # id, value or -1, count
        self._counts = np.zeros(0, np.int64)
        self._times = np.zeros(0, np.int64)  # how many ids have this count
        self.largest = 0

    def add(
        self,
        ids: NDArray[np.int64],
        counts: NDArray[np.int64],
        values: NDArray[np.int64] | None = None,
    ) -> None:
        """Take ids that were not given before."""
        self.largest = max(self.largest, int(ids.max(initial=0)))
        seen = counts > 0
        known = values if values is not None else np.full(len(ids), -1, np.int64)
        found = np.column_stack([one[seen] for one in (ids, known, counts)])
        self._keep(found)
        some, times = np.unique(found[:, 2], return_counts=True)
        self._merge(some, times)

    def _keep(self, found: NDArray[np.int64]) -> None:
        """Keep the most frequent; of equally frequent ones the smallest ids."""
        if len(found) > self._top:
            least = np.partition(found[:, 2], -self._top)[-self._top] if self._top else 0
            found = found[found[:, 2] >= least]
        together = np.concatenate([self._heads, found])
        order = np.lexsort([together[:, 0], -together[:, 2]])
        self._heads = together[order[: self._top]]

    def _merge(self, counts: NDArray[np.int64], times: NDArray[np.int64]) -> None:
        together = np.concatenate([self._counts, counts])
        self._counts, at = np.unique(together, return_inverse=True)
        merged = np.zeros(len(self._counts), np.int64)
        np.add.at(merged, at, np.concatenate([self._times, times]))
        self._times = merged

    @property
    def ids(self) -> int:
        """How many there are."""
        return int(self._times.sum())

    @property
    def rows(self) -> int:
        """Of all ids."""
        return int((self._counts * self._times).sum())

    def top(self) -> tuple[Frequent, ...]:
        """The most frequent ids."""
        rows = self.rows
        return tuple(
            Frequent(
                id=int(id_),
                value=int(value) if value >= 0 else None,
                count=int(count),
                share=int(count) / rows,
            )
            for id_, value, count in self._heads
        )

    def coverage(self) -> tuple[tuple[int, float], ...]:
        """Numbers of ids, 1, 2, 5, 10, ... to all, with the share of the rows they cover."""
        before = np.concatenate([[0], np.cumsum(self._times[::-1])])
        rows = np.concatenate([[0], np.cumsum((self._counts * self._times)[::-1])])
        whole = int(rows[-1])
        found = []
        for number in _coverage_sizes(int(before[-1])):
            at = int(np.searchsorted(before, number, side="right")) - 1
            more = (
                (number - int(before[at])) * int(self._counts[::-1][at])
                if at < len(self._counts)
                else 0
            )
            found.append((number, (int(rows[at]) + more) / whole))
        return tuple(found)


def _coverage_sizes(most: int) -> Iterator[int]:
    """1, 2, 5, 10, 20, ... below the largest, and it."""
    decade = 1
    while decade < most:
        yield from (decade * step for step in _STEPS if decade * step < most)
        decade *= 10
    if most:
        yield most
