"""How often ids occur: the most frequent ones, and what share of the rows so many of them cover.

Ids come in any order, each once. Memory grows with the different counts, not with the ids: there
are at most sqrt(2 rows) of them, some 94,000 in the full set.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ingot.converters.criteo.inspecting.figures import Frequent

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
        """Take ids that were not given before.

        Args:
            ids: int64[n].
            counts: int64[n], the rows of each; those of 0 rows are passed over.
            values: int64[n], the raw values, -1 where there is none; None: there are none.
        """
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
        for number in _numbers(int(before[-1])):
            at = int(np.searchsorted(before, number, side="right")) - 1
            more = (
                (number - int(before[at])) * int(self._counts[::-1][at])
                if at < len(self._counts)
                else 0
            )
            found.append((number, (int(rows[at]) + more) / whole))
        return tuple(found)


def _numbers(most: int) -> Iterator[int]:
    """1, 2, 5, 10, 20, ... below the largest, and it."""
    decade = 1
    while decade < most:
        yield from (decade * step for step in _STEPS if decade * step < most)
        decade *= 10
    if most:
        yield most
