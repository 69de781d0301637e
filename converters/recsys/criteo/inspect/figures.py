"""The figures of preprocessed Criteo data as values; what is not known is None."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ingot.converters.output.figures import share_of


@dataclass(frozen=True, kw_only=True)
class PartFigures:
    """One part, as day_0. Of a shuffled one stats.json counts the file, before the shuffle."""

    name: str
    file: str | None = None
    lines: int | None = None
    rows: int
    rejects: dict[str, int] | None = None
    zeros: int  # rows with label 0
    ones: int  # rows with label 1
    other: int  # rows with another label, as -1 where the file has none
    nonfinite: int
    dense_min: int | None = None
    shuffled: bool | None = None

    @property
    def label_rate(self) -> float | None:
        """Return the share of ones among the rows with 0 or 1, None without any."""
        return share_of(self.ones, self.ones + self.zeros)


@dataclass(frozen=True, kw_only=True)
class DenseFigures:
    """A dense column: of the raw integers (missing ones are 0), or of the written numbers."""

    name: str  # int_0 to int_12
    missing: int | None = None  # empty fields
    nonfinite: int
    least: float | None
    most: float | None
    mean: float | None
    # from the smallest bucket: its lower bound, and how many values it has
    histogram: tuple[tuple[str, int], ...]


@dataclass(frozen=True, kw_only=True)
class Frequent:
    """An id that is among the most frequent."""

    id: int
    value: int | None  # the raw number; None where it is not known, or where several share the id
    count: int
    share: float

    @property
    def raw(self) -> str | None:
        """Return the raw value as the files spell it, 8 hex digits."""
        return None if self.value is None else f"{self.value:08x}"


@dataclass(frozen=True, kw_only=True)
class SparseFigures:
    """A sparse column."""

    name: str  # cat_0 to cat_25
    missing: int | None = None  # empty fields
    distinct: int | None
    vocabulary: int | None = None
    rare: int | None = None  # values with id 1
    rare_rows: int | None = None  # rows with id 1
    max_id: int | None
    # that the rows or the vocabulary may have: the vocabulary knows earlier runs, and ids that went
    # through float32 may be rounded up
    largest: int | None
    counted: int  # rows by which the shares are; more than rows where earlier runs count too
    # number of most frequent ids, and their share of the rows
    coverage: tuple[tuple[int, float], ...]
    top: tuple[Frequent, ...]

    @property
    def num_embeddings(self) -> int | None:
        """Return the rows that a table needs: one more than the largest id."""
        return None if self.largest is None else self.largest + 1

    def covered(self, ids: int) -> float | None:
        """Return the share of rows of so many most frequent ids, None if unknown."""
        shares = [share for number, share in self.coverage if number <= ids]
        return shares[-1] if shares else None


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Everything that is known of a folder."""

    folder: str
    source: Literal["stats.json", "arrays"]
    parts: tuple[PartFigures, ...]
    dense: tuple[DenseFigures, ...]  # 13 columns
    sparse: tuple[SparseFigures, ...]  # 26 columns
    notes: tuple[str, ...]

    @property
    def rows(self) -> int:
        """Return the number of rows of all parts."""
        return sum(one.rows for one in self.parts)

    @property
    def label_rate(self) -> float | None:
        """Return the share of ones among the rows with 0 or 1 of all parts, None without any."""
        ones = sum(one.ones for one in self.parts)
        return share_of(ones, ones + sum(one.zeros for one in self.parts))

    @property
    def rejects(self) -> dict[str, int] | None:
        """Return the rejected lines of all parts by reason, None if unknown."""
        counts: Counter[str] = Counter()
        for one in self.parts:
            if one.rejects is None:
                return None
            counts.update(one.rejects)
        return dict(sorted(counts.items()))

    @property
    def num_embeddings(self) -> list[int | None]:
        """Return the table sizes of the sparse columns, in order."""
        return [one.num_embeddings for one in self.sparse]

    def to_document(self) -> dict[str, object]:
        """Return the figures as JSON."""
        return {
            "folder": self.folder,
            "source": self.source,
            "rows": self.rows,
            "label_rate": self.label_rate,
            "rejects": self.rejects,
            "num_embeddings": self.num_embeddings,
            "parts": [{**asdict(one), "label_rate": one.label_rate} for one in self.parts],
            "dense": [{**asdict(one), "histogram": dict(one.histogram)} for one in self.dense],
            "sparse": [
                {
                    **asdict(one),
                    "num_embeddings": one.num_embeddings,
                    "coverage": [{"ids": ids, "share": share} for ids, share in one.coverage],
                    "top": [{**asdict(entry), "raw": entry.raw} for entry in one.top],
                }
                for one in self.sparse
            ],
            "notes": list(self.notes),
        }


_STEPS = (1, 2, 5)


class Frequencies:
    """The ids of a column and how many rows each has; keeps `top` of the most frequent ids."""

    def __init__(self, top: int) -> None:
        self._top = top
        self._heads = np.zeros((0, 3), np.int64)  # id, value or -1, count
        self._counts = np.zeros(0, np.int64)
        self._times = np.zeros(0, np.int64)  # how many ids have this count
        self.largest = 0  # of all ids that were given, also with 0 rows

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
        triples = np.column_stack([one[seen] for one in (ids, known, counts)])
        self._keep(triples)
        unique_counts, times = np.unique(triples[:, 2], return_counts=True)
        self._counts, inverse = np.unique(
            np.concatenate([self._counts, unique_counts]), return_inverse=True
        )
        all_times = np.concatenate([self._times, times])
        self._times = np.bincount(inverse, all_times, len(self._counts)).astype(np.int64)

    def _keep(self, triples: NDArray[np.int64]) -> None:
        """Keep the most frequent; of equally frequent ones the smallest ids."""
        if len(triples) > self._top:
            threshold = np.partition(triples[:, 2], -self._top)[-self._top] if self._top else 0
            triples = triples[triples[:, 2] >= threshold]
        candidates = np.concatenate([self._heads, triples])
        order = np.lexsort([candidates[:, 0], -candidates[:, 2]])
        self._heads = candidates[order[: self._top]]

    @property
    def ids(self) -> int:
        """Return the number of ids."""
        return int(self._times.sum())

    @property
    def rows(self) -> int:
        """Return the number of rows of all ids."""
        return int((self._counts * self._times).sum())

    def top(self) -> tuple[Frequent, ...]:
        """Return the most frequent ids."""
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
        """Return numbers of ids (1, 2, 5, 10, ... to all) with the share of rows they cover."""
        before = np.concatenate([[0], np.cumsum(self._times[::-1])])
        rows = np.concatenate([[0], np.cumsum((self._counts * self._times)[::-1])])
        total = int(rows[-1])
        shares = []
        for number in _coverage_sizes(int(before[-1])):
            index = int(np.searchsorted(before, number, side="right")) - 1
            count = int(self._counts[::-1][index]) if index < len(self._counts) else 0
            shares.append(
                (number, (int(rows[index]) + (number - int(before[index])) * count) / total)
            )
        return tuple(shares)


def _coverage_sizes(largest: int) -> Iterator[int]:
    """1, 2, 5, 10, 20, ... below the largest, and it."""
    decade = 1
    while decade < largest:
        yield from (decade * step for step in _STEPS if decade * step < largest)
        decade *= 10
    if largest:
        yield largest
