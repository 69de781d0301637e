"""What is counted while rows go by, in memory that does not grow with them."""

import math
from collections import Counter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.monolith.looking import kernels as k
from ingot.converters.monolith.looking.figures import Lengths, Numbers, Spread
from ingot.converters.monolith.records import Bytes, Places

_VALUES: Final = 1_000  # that are told apart
_NUMBERS: Final = 1 << 12  # large field numbers that are noted in one go


class LengthTally:
    """Lengths by bucket."""

    def __init__(self) -> None:
        self._buckets = np.zeros(k.BUCKETS, np.int64)
        self._count = self._sum = self._most = 0
        self._least = 1 << 62

    def add(self, lengths: Places) -> None:
        """Count int64[N] lengths."""
        if len(lengths):
            k.count_lengths(lengths, self._buckets)
            self._count += len(lengths)
            self._sum += int(lengths.sum())
            self._least = min(self._least, int(lengths.min()))
            self._most = max(self._most, int(lengths.max()))

    def figures(self) -> Lengths | None:
        """What was counted; None where nothing was."""
        told = self._count, self._sum, self._least, self._most
        return lengths_of(self._buckets, *told) if self._count else None


def lengths_of(buckets: Places, count: int, total: int, least: int, most: int) -> Lengths:
    """Figures of int64[BUCKETS] lengths, of which the exact ends and the sum are known."""
    return Lengths(
        count=count,
        least=least,
        mean=total / count,
        p50=max(_reached(buckets, count, 50), least),
        p99=max(_reached(buckets, count, 99), least),
        most=most,
    )


def _reached(buckets: Places, count: int, share: int) -> int:
    """The lower end of the bucket in which so many in 100 lie at or below."""
    rank = -(-count * share // 100)
    bucket = int(np.searchsorted(np.cumsum(buckets), rank))
    if bucket < k.EXACT:
        return bucket
    octave, part = divmod(bucket - k.EXACT, 32)
    return (32 + part) << (octave + 1)


class SpreadTally:
    """Values by how often they come; the first different ones are told apart."""

    def __init__(self) -> None:
        self._values: Counter[float] = Counter()
        self._others = 0
        self._signs = np.zeros((k.POSITIONS, 4), np.int64)
        self._sums = empty_sums()

    def add(self, values: NDArray[np.generic]) -> None:
        """Count [N] values."""
        if not len(values):
            return
        floats = values.astype(np.float32)
        k.count_labels(np.arange(len(values) + 1), floats, self._signs, self._sums)
        distinct, counts = np.unique(values, return_counts=True)
        for value, count in zip(distinct.tolist(), counts.tolist(), strict=True):
            same = math.nan if math.isnan(value) else value  # NaN is found as an object alone
            if same in self._values or len(self._values) < _VALUES:
                self._values[same] += count
            else:
                self._others += count

    def figures(self) -> Spread:
        """What was counted."""
        numbers = numbers_of(self._signs[0], self._sums[0])
        values = tuple(sorted(self._values.items(), key=_by_frequency))
        return Spread(given=numbers.count, values=values, others=self._others, numbers=numbers)


def _by_frequency(pair: tuple[float, int]) -> tuple[int, bool, float]:
    value, count = pair
    return -count, math.isnan(value), value


def empty_sums() -> NDArray[np.float64]:
    """float64[POSITIONS, 3] sum, least and largest of no number."""
    return np.tile(np.array([0.0, math.inf, -math.inf]), (k.POSITIONS, 1))


def numbers_of(signs: Places, sums: NDArray[np.float64]) -> Numbers:
    """Figures of what `count_labels` counted at one position."""
    positive, zero, negative, no_number = signs.tolist()
    total, least, most = sums.tolist()
    numbers = positive + zero + negative
    return Numbers(
        count=numbers + no_number,
        positive=positive,
        zero=zero,
        negative=negative,
        no_number=no_number,
        least=least if numbers else None,
        mean=total / numbers if numbers else None,
        most=most if numbers else None,
    )


class FieldTally:
    """Rows with a field, by its number."""

    def __init__(self) -> None:
        self._counts = np.zeros(k.FIELDS, np.int64)
        self._seen = np.full(k.FIELDS, -1, np.int64)
        self._more: Counter[int] = Counter()
        self.unnoted = 0

    def add(self, data: Bytes, start: Places, stop: Places, row: Places) -> None:
        """Count the fields of int64[M] messages of ascending rows."""
        some = np.flatnonzero(stop > start)
        if not len(some):
            return
        others = np.empty((_NUMBERS, 2), np.int64)
        places = start[some], stop[some], row[some]
        found = k.count_fields(data, *places, self._counts, self._seen, others)
        self.unnoted += max(0, found - len(others))
        for _, number in np.unique(others[: min(found, len(others))], axis=0).tolist():
            if number in self._more or len(self._more) < _VALUES:
                self._more[number] += 1
            else:
                self.unnoted += 1

    def figures(self) -> dict[int, int]:
        """Rows by field number."""
        found = {int(number): int(self._counts[number]) for number in np.flatnonzero(self._counts)}
        return {**found, **dict(sorted(self._more.items()))}
