"""How often tokens occur, in bounded memory: what the sizes of an encoding are drafted from."""

from typing import Final

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

_HASHES: Final = 2.0**64
MOST: Final = 1 << 18


class Distinct:
    """Counts of distinct tokens: all of them up to `most`, beyond an even sample of that size.

    The sample is of the tokens with the smallest hashes, so that each has its exact count.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._limit = 0  # hashes from here on are not in the sample; 0: all are
        self._hashes = np.empty(0, dtype=np.uint64)
        self._counts = np.empty(0, dtype=np.int64)
        self._pending: list[tuple[NDArray[np.uint64], NDArray[np.int64]]] = []
        self._waiting = 0
        self.occurrences = 0

    def add(self, tokens: pa.LargeBinaryArray) -> None:
        """Count tokens; null is none."""
        coded = tokens.drop_null().dictionary_encode()
        counts = np.bincount(coded.indices.to_numpy(), minlength=len(coded.dictionary))
        words = coded.dictionary.to_pylist()
        hashes = np.array([xxhash.xxh3_64_intdigest(word) for word in words], dtype=np.uint64)
        self.occurrences += int(counts.sum())
        if self._limit:
            kept = hashes < np.uint64(self._limit)
            hashes, counts = hashes[kept], counts[kept]
        self._pending.append((hashes, counts))
        self._waiting += len(hashes)
        if self._waiting > self._most:
            self._settle()

    def _settle(self) -> None:
        if not self._pending:
            return
        hashes = np.concatenate([self._hashes, *(one for one, _ in self._pending)])
        counts = np.concatenate([self._counts, *(one for _, one in self._pending)])
        self._pending, self._waiting = [], 0
        self._hashes, places = np.unique(hashes, return_inverse=True)
        self._counts = np.bincount(places, counts, len(self._hashes)).astype(np.int64)
        if len(self._hashes) > self._most:
            self._limit = int(self._hashes[self._most])
            self._hashes = self._hashes[: self._most]
            self._counts = self._counts[: self._most]

    @property
    def exact(self) -> bool:
        """Whether every token is counted."""
        self._settle()
        return not self._limit

    @property
    def distinct(self) -> int:
        """How many tokens differ; an estimate where not `exact`."""
        self._settle()
        return round(len(self._hashes) * self._scale)

    @property
    def _scale(self) -> float:
        return _HASHES / self._limit if self._limit else 1.0

    @property
    def once(self) -> int:
        """How many tokens occur once."""
        self._settle()
        return round(int((self._counts == 1).sum()) * self._scale)

    def holding(self, share: float) -> int:
        """The least number of tokens that hold this share of all occurrences together."""
        self._settle()
        if not len(self._counts):
            return 0
        sums = np.cumsum(np.sort(self._counts)[::-1])
        place = int(np.searchsorted(sums, share * sums[-1] - 1e-9)) + 1
        return round(min(place, len(sums)) * self._scale)
