"""Kernels that measure dense values and give 32-bit values numbers as they are first seen."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.kernels.compile import kernel

BUCKETS: Final = 34
_CHUNK = 4096


@kernel
def measure_dense(
    dense: NDArray[np.int32],
    least: NDArray[np.int64],
    most: NDArray[np.int64],
    total: NDArray[np.int64],
    histogram: NDArray[np.int64],
) -> None:
    """Add values to the statistics of their columns."""
    for first in range(0, len(dense), _CHUNK):  # so that a chunk stays in the cache
        stop = min(first + _CHUNK, len(dense))
        for column in range(dense.shape[1]):
            low, high, added = least[column], most[column], np.int64(0)
            for row in range(first, stop):
                value = np.int64(dense[row, column])
                low, high = min(low, value), max(high, value)
                added += value
                histogram[column, _bucket_of(value)] += 1
            least[column], most[column] = low, high
            total[column] += added


@kernel
def _bucket_of(value: np.int64) -> np.int64:
    """0 for a negative value, 1 for 0, else 1 + its bits."""
    if value <= 0:
        return 1 + (value >> 63)
    found: np.int64 = bit_length(value)
    return found + 1


@kernel
def bit_length(value: np.int64) -> int:
    """The bits of a number from 1 on, without zeros in front."""
    found = 1
    for power in (32, 16, 8, 4, 2, 1):
        if value >> power:
            found += power
            value >>= power
    return found


@kernel
def _mix_bits(value: np.uint64) -> np.uint64:
    """The finalizer of MurmurHash3 (32 bit): similar values are far apart."""
    low = np.uint64(0xFFFFFFFF)
    value = ((value ^ (value >> np.uint64(16))) * np.uint64(0x85EBCA6B)) & low
    value = ((value ^ (value >> np.uint64(13))) * np.uint64(0xC2B2AE35)) & low
    return value ^ (value >> np.uint64(16))


@kernel
def assign_ids(
    values: NDArray[np.uint32],
    begin: int,
    slots: NDArray[np.uint64],
    count: int,
    first: int,
    counts: NDArray[np.uint32],
    ids: NDArray[np.int32],
    fresh: NDArray[np.uint32],
) -> tuple[int, int]:
    """Give each value `first` + its number, a new one the next; stops where `counts` is full."""
    mask = np.uint64(len(slots) - 1)
    low = np.uint64(0xFFFFFFFF)
    shift = np.uint64(32)
    known = count
    for place in range(begin, len(values)):
        value = np.uint64(values[place])
        at = _mix_bits(value) & mask
        while True:
            slot = slots[at]
            if slot == 0:
                if count >= len(counts):
                    return place, count
                slots[at] = (value << shift) | np.uint64(count + 1)
                counts[count] = 1
                fresh[count - known] = values[place]
                ids[place] = first + count
                count += 1
                break
            if slot >> shift == value:
                number = np.int64(slot & low) - 1
                counts[number] += np.uint32(1)
                ids[place] = first + number
                break
            at = (at + np.uint64(1)) & mask
    return len(values), count


@kernel
def look_up_ids(
    values: NDArray[np.uint32],
    slots: NDArray[np.uint64],
    first: int,
    otherwise: int,
    counts: NDArray[np.uint32],
    ids: NDArray[np.int32],
) -> int:
    """Give each value `first` + its number, `otherwise` if it has none; gives how many had none."""
    mask = np.uint64(len(slots) - 1)
    low = np.uint64(0xFFFFFFFF)
    shift = np.uint64(32)
    unseen = 0
    for place in range(len(values)):
        value = np.uint64(values[place])
        at = _mix_bits(value) & mask
        while slots[at] != 0 and slots[at] >> shift != value:
            at = (at + np.uint64(1)) & mask
        if slots[at] == 0:
            ids[place] = otherwise
            unseen += 1
        else:
            number = np.int64(slots[at] & low) - 1
            counts[number] += np.uint32(1)
            ids[place] = first + number
    return unseen


@kernel
def rehash_slots(old: NDArray[np.uint64], new: NDArray[np.uint64]) -> None:
    """Put the slots of a table into a larger, empty one."""
    mask = np.uint64(len(new) - 1)
    for slot in old:
        if slot != 0:
            at = _mix_bits(slot >> np.uint64(32)) & mask
            while new[at] != 0:
                at = (at + np.uint64(1)) & mask
            new[at] = slot


@kernel
def tally_ids(ids: NDArray[np.int32], first: int, counts: NDArray[np.uint32]) -> int:
    """Count ids from `first` on; gives how many were smaller."""
    smaller = 0
    for one in ids:
        if one < first:
            smaller += 1
        else:
            counts[one - first] += np.uint32(1)
    return smaller
