"""Statistics of raw dense values."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.compiling import kernel

BUCKETS: Final = 34
_CHUNK = 4096


@kernel
def measure(
    dense: NDArray[np.int32],
    least: NDArray[np.int64],
    most: NDArray[np.int64],
    total: NDArray[np.int64],
    histogram: NDArray[np.int64],
) -> None:
    """Add values to the statistics of their columns.

    Args:
        dense: int32[R, D].
        least: int64[D].
        most: int64[D].
        total: int64[D].
        histogram: int64[D, BUCKETS]: negative values, zeros, then [1, 2), [2, 4), [4, 8), ...
    """
    for first in range(0, len(dense), _CHUNK):  # so that a chunk stays in the cache
        stop = min(first + _CHUNK, len(dense))
        for column in range(dense.shape[1]):
            low, high, added = least[column], most[column], np.int64(0)
            for row in range(first, stop):
                value = np.int64(dense[row, column])
                low, high = min(low, value), max(high, value)
                added += value
                histogram[column, _bucket(value)] += 1
            least[column], most[column] = low, high
            total[column] += added


@kernel
def _bucket(value: np.int64) -> np.int64:
    """0 for a negative value, 1 for 0, else 1 + its bits."""
    if value <= 0:
        return 1 + (value >> 63)
    found: np.int64 = bits(value)
    return found + 1


@kernel
def bits(value: np.int64) -> int:
    """The bits of a number from 1 on, without zeros in front."""
    found = 1
    for power in (32, 16, 8, 4, 2, 1):
        if value >> power:
            found += power
            value >>= power
    return found
