"""The ids of one column: numbers of its values in the order in which they are first seen."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.criteo.contract import FIRST_ID, RARE_ID
from ingot.converters.criteo.preprocessing.kernels.identifying import (
    assign,
    look_up,
    rehash,
    tally,
)
from ingot.converters.errors import ConversionError

_SLOTS: Final = 1 << 10
_LOAD: Final = 0.7
_MOST: Final = (1 << 31) - 1 - FIRST_ID
_SETTLED: Final = 1 << 31


class Ids:
    """Values to ids `FIRST_ID`, +1, ... by first sight, and how often each was seen.

    Memory: 8 bytes a slot, of which 35 to 70 % are used, and 4 bytes a value; while the table is
    doubled, half of the slots once more.

    Args:
        key: of the column.
        grows: whether new values get ids.
        settled: rows, and the count of a value, after which it is taken out of its 32 bits.

    Attributes:
        count: distinct values.
        unseen: rows whose value had no id and got none.
    """

    def __init__(self, key: str, *, grows: bool = True, settled: int = _SETTLED) -> None:
        self._key = key
        self._grows = grows
        self._settled = settled
        self._slots = np.zeros(_SLOTS, np.uint64)
        self._counts = np.zeros(int(_SLOTS * _LOAD), np.uint32)
        self._beyond: dict[int, int] = {}
        self._since = 0
        self.count = 0
        self.unseen = 0

    def restore(self, values: NDArray[np.uint32]) -> None:
        """Know values, distinct and in the order of their ids, as if seen no time yet."""
        before = self.count
        self._assign(np.ascontiguousarray(values), np.empty(len(values), np.int32))
        self._counts[before : self.count] = 0

    def ids(self, values: NDArray[np.uint32]) -> tuple[NDArray[np.int32], NDArray[np.uint32]]:
        """The ids of values, and the new ones among these, in order.

        Args:
            values: uint32[n], contiguous.

        Returns:
            int32[n] ids, uint32[m] new values.
        """
        self._settle(len(values))
        ids = np.empty(len(values), np.int32)
        if self._grows:
            return ids, self._assign(values, ids)
        self.unseen += look_up(values, self._slots, FIRST_ID, RARE_ID, self._counts, ids)
        return ids, values[:0]

    def recount(self, ids: NDArray[np.int32]) -> None:
        """Count ids that were given before, by a run that was broken off."""
        self._settle(len(ids))
        self.unseen += tally(ids, FIRST_ID, self._counts)

    def seal(self) -> None:
        """Free the table: only counts are asked for from now on."""
        self._slots = np.zeros(0, np.uint64)

    def counts(self, start: int, stop: int) -> NDArray[np.int64]:
        """int64[stop - start], how often the values of these numbers were seen."""
        counts = self._counts[start:stop].astype(np.int64)
        for number, beyond in self._beyond.items():
            if start <= number < stop:
                counts[number - start] += beyond
        return counts

    def _assign(self, values: NDArray[np.uint32], ids: NDArray[np.int32]) -> NDArray[np.uint32]:
        before, place = self.count, 0
        fresh = np.empty(len(values), np.uint32)
        while place < len(values):
            known = self.count
            place, self.count = assign(
                values,
                place,
                self._slots,
                len(self._counts),
                self.count,
                FIRST_ID,
                self._counts,
                ids,
                fresh[known - before :],
            )
            if place < len(values):
                self._grow()
        return fresh[: self.count - before]

    def _grow(self) -> None:
        if self.count >= _MOST:
            raise ConversionError("", f"{self._key} has more than {_MOST:,} distinct values")
        larger = np.zeros(2 * len(self._slots), np.uint64)
        rehash(self._slots, larger)
        self._slots = larger
        counts = np.zeros(min(int(len(larger) * _LOAD), _MOST), np.uint32)
        counts[: self.count] = self._counts[: self.count]
        self._counts = counts

    def _settle(self, rows: int) -> None:
        """Take large counts out of their 32 bits before more rows could make one overflow."""
        self._since += rows
        if self._since < self._settled:
            return
        for number in np.flatnonzero(self._counts[: self.count] >= self._settled).tolist():
            self._beyond[number] = self._beyond.get(number, 0) + int(self._counts[number])
            self._counts[number] = 0
        self._since = rows
