"""First-seen numbers of 32-bit values, by open addressing.

A slot is a uint64: the value, and its number from 1, so that 0 is an empty slot.
"""

import numpy as np
from numpy.typing import NDArray

from ingot.converters.compiling import kernel


@kernel
def _spread(value: np.uint64) -> np.uint64:
    """The finalizer of MurmurHash3 (32 bit): similar values are far apart."""
    low = np.uint64(0xFFFFFFFF)
    value = ((value ^ (value >> np.uint64(16))) * np.uint64(0x85EBCA6B)) & low
    value = ((value ^ (value >> np.uint64(13))) * np.uint64(0xC2B2AE35)) & low
    return value ^ (value >> np.uint64(16))


@kernel
def assign(
    values: NDArray[np.uint32],
    begin: int,
    slots: NDArray[np.uint64],
    most: int,
    count: int,
    first: int,
    counts: NDArray[np.uint32],
    ids: NDArray[np.int32],
    fresh: NDArray[np.uint32],
) -> tuple[int, int]:
    """Give each value `first` + its number, a new one the next; stops where the table is full.

    Args:
        values: uint32[n].
        begin: the first one to look at.
        slots: uint64[power of two].
        most: values that the table may hold.
        count: those that it holds.
        first: what number 0 is written as.
        counts: uint32[most], how often each was seen; is added to.
        ids: int32[n], filled.
        fresh: uint32[n], the new values of this call, in order.

    Returns:
        The place to go on at, n when all is done, and the values that the table holds now.
    """
    mask = np.uint64(len(slots) - 1)
    low = np.uint64(0xFFFFFFFF)
    shift = np.uint64(32)
    known = count
    for place in range(begin, len(values)):
        value = np.uint64(values[place])
        at = _spread(value) & mask
        while True:
            slot = slots[at]
            if slot == 0:
                if count >= most:
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
def look_up(
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
        at = _spread(value) & mask
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
def rehash(old: NDArray[np.uint64], new: NDArray[np.uint64]) -> None:
    """Put the slots of a table into a larger, empty one."""
    mask = np.uint64(len(new) - 1)
    for slot in old:
        if slot != 0:
            at = _spread(slot >> np.uint64(32)) & mask
            while new[at] != 0:
                at = (at + np.uint64(1)) & mask
            new[at] = slot


@kernel
def tally(ids: NDArray[np.int32], first: int, counts: NDArray[np.uint32]) -> int:
    """Count ids from `first` on; gives how many were smaller."""
    smaller = 0
    for one in ids:
        if one < first:
            smaller += 1
        else:
            counts[one - first] += np.uint32(1)
    return smaller
