"""Lines of made-up Criteo days, compiled. Not run itself.

A module of its own, which has one name wherever it is used: compiled code that is kept asks for it.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.kernels.compile import kernel

SHAPE: Final = 1.6  # of the integers' distribution
MOST: Final = 100_000_000.0  # the largest integer
CLICKS: Final = 0.0326


@kernel
def _mixed(value: np.uint64) -> np.uint64:
    """Splitmix64's finalizer."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@kernel
def named(number: np.int64, column: np.int64) -> np.uint32:
    """The value with this number: a bijection of 32 bits, another one for each column."""
    value = np.uint32(number) ^ np.uint32((column + 1) * 0x9E3779B9 & 0xFFFFFFFF)
    value = np.uint32((value ^ (value >> np.uint32(16))) * np.uint32(0x85EBCA6B))
    value = np.uint32((value ^ (value >> np.uint32(13))) * np.uint32(0xC2B2AE35))
    return np.uint32(value ^ (value >> np.uint32(16)))


@kernel
def name_all(numbers: NDArray[np.int64], column: np.int64, values: NDArray[np.uint32]) -> None:
    """The values of a column with these numbers."""
    for place in range(len(numbers)):
        values[place] = named(numbers[place], column)


@kernel
def _decimal(value: np.int64, out: NDArray[np.uint8], at: np.int64) -> np.int64:
    """Write an integer; the place after it."""
    if value < 0:
        out[at] = 45
        at += 1
        value = -value
    end = at + 1
    rest = value // 10
    while rest > 0:
        end += 1
        rest //= 10
    for place in range(end - 1, at - 1, -1):
        out[place] = 48 + value % 10
        value //= 10
    return end


@kernel
def fill(
    first: np.int64,
    key: np.uint64,
    labelled: np.bool_,
    curve: NDArray[np.float64],
    last: NDArray[np.int64],
    missing: NDArray[np.uint64],
    scale: NDArray[np.float64],
    lowest: NDArray[np.int64],
    digits: NDArray[np.uint8],
    out: NDArray[np.uint8],
    starts: NDArray[np.int64],
) -> None:
    """Write rows from number `first` on, as many as `starts` has places but one.

    `starts` gets the byte at which each row begins, and the end. Each cell has one draw of its own,
    64 bits of a counter mixed: 16 for whether there is a value, 48 for which.
    """
    at = 0
    step = np.uint64(0x9E3779B97F4A7C15)
    for row in range(len(starts) - 1):
        starts[row] = at
        state = key + np.uint64(first + row) * np.uint64(40) * step
        if labelled:
            share = (_mixed(state) >> np.uint64(16)) / 281474976710656.0
            out[at] = 49 if share < CLICKS else 48
            out[at + 1] = 9
            at += 2
        for k in range(39):
            state += step
            drawn = _mixed(state)
            if (drawn & np.uint64(65535)) >= missing[k]:
                share = (drawn >> np.uint64(16)) / 281474976710656.0
                if k < 13:
                    large = scale[k] * ((1.0 - share) ** (-1.0 / SHAPE) - 1.0)
                    at = _decimal(lowest[k] + np.int64(min(large, MOST)), out, at)
                else:
                    c = k - 13
                    x = (curve[c, 0] + share * curve[c, 1]) ** curve[c, 2] - curve[c, 3]
                    value = named(min(np.int64(x), last[c]), c)
                    for place in range(8):
                        out[at + place] = digits[(value >> np.uint32(28 - 4 * place)) & 15]
                    at += 8
            out[at] = 9
            at += 1
        out[at - 1] = 10
    starts[len(starts) - 1] = at
