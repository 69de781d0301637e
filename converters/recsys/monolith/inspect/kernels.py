"""Kernels that count entries, fids, fields and labels."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.kernels.compile import inner_kernel, kernel
from ingot.converters.recsys.monolith.record_index import Bytes, Places
from ingot.converters.recsys.monolith.wire.format_kernels import read_field

LAST_ROW, STATE, FILLED, EMPTY, UNSET, ENTRIES, SET, VALUES, LEAST, MOST = range(10)
KINDS: Final = 10
FIGURES: Final = KINDS + 17
"""Columns of what is counted of a feature; from KINDS on its entries by kind."""

EXACT: Final = 64
"""Lengths below have buckets of their own; those above share 32 for each power of two."""
_EXACT_BITS: Final = 6
BUCKETS: Final = EXACT + 32 * (28 - _EXACT_BITS)

SLOTS_V1: Final = 1 << 10
SLOTS_V2: Final = 1 << 15
BITS: Final = (SLOTS_V1 + SLOTS_V2) // 8

POSITIVE, ZERO, NEGATIVE, NO_NUMBER = range(4)
POSITIONS: Final = 64  # labels of a row that are told apart
FIELDS: Final = 4096  # field numbers below are counted without being noted first


@inner_kernel
def bucket_of(length: int) -> int:
    """Return the bucket of a length."""
    if length < EXACT:
        return length
    octave = _EXACT_BITS
    while length >> (octave + 1) > 0:
        octave += 1
    bucket = EXACT + 32 * (octave - _EXACT_BITS) + ((length >> (octave - 5)) & 31)
    return min(bucket, BUCKETS - 1)


@kernel
def count_features(
    first: Places,
    which: NDArray[np.int32],
    kind: NDArray[np.uint8],
    raw: NDArray[np.bool_],
    count: Places,
    row: int,
    figures: NDArray[np.int64],
    lengths: NDArray[np.int64],
) -> None:
    """Count the entries of rows.

    A row counts once for a feature: as FILLED where any of its entries has a value, else as EMPTY
    where one has a list, else as UNSET.
    """
    for index in range(len(first) - 1):
        for entry in range(first[index], first[index + 1]):
            feature = which[entry]
            if feature < 0:
                continue
            totals = figures[feature]
            totals[ENTRIES] += 1
            totals[KINDS + kind[entry]] += 1
            state = FILLED if count[entry] > 0 else EMPTY
            if kind[entry] == 0 and not (raw[entry] and count[entry] > 0):
                state = UNSET
            _note_state(totals, row + index, state)
            if kind[entry] > 0:
                length = count[entry]
                if totals[SET] == 0 or length < totals[LEAST]:
                    totals[LEAST] = length
                totals[MOST] = max(totals[MOST], length)
                totals[SET] += 1
                totals[VALUES] += length
                lengths[feature, bucket_of(length)] += 1


@inner_kernel
def _note_state(totals: NDArray[np.int64], row: int, state: int) -> None:
    if totals[LAST_ROW] == row:
        if state >= totals[STATE]:
            return
        totals[totals[STATE]] -= 1
    totals[LAST_ROW] = row
    totals[STATE] = state
    totals[state] += 1


@kernel
def count_fids(
    data: Bytes,
    which: NDArray[np.int32],
    kind: NDArray[np.uint8],
    start: Places,
    stop: Places,
    v1: NDArray[np.int64],
    v2: NDArray[np.int64],
    bits: NDArray[np.uint8],
) -> None:
    """Count fids by slot."""
    for entry in range(len(which)):
        number = kind[entry]
        if number == 1 or number == 2:
            _count_slots(data, start[entry], stop[entry], number == 1, which[entry], v1, v2, bits)
        elif number == 7 or number == 16:
            position = start[entry]
            while position >= 0 and position < stop[entry]:
                _, _, inner, position = read_field(data, position, stop[entry])
                if position > inner:
                    _, _, first, end = read_field(data, inner, position)
                    _count_slots(data, first, end, number == 16, which[entry], v1, v2, bits)


@inner_kernel
def _count_slots(
    data: Bytes,
    start: int,
    stop: int,
    first_version: bool,
    feature: int,
    v1: NDArray[np.int64],
    v2: NDArray[np.int64],
    bits: NDArray[np.uint8],
) -> None:
    for position in range(start, stop - 7, 8):
        slot = np.int64(data[position + 7]) << 8 | np.int64(data[position + 6])
        if first_version:
            slot >>= 6
            v1[slot] += 1
        else:
            if slot >= SLOTS_V2:
                v2[SLOTS_V2] += 1
                continue
            v2[slot] += 1
            slot += SLOTS_V1
        if feature >= 0:
            bits[feature, slot >> 3] |= np.uint8(1 << (slot & 7))


@kernel
def count_fields(
    data: Bytes,
    start: Places,
    stop: Places,
    row: Places,
    counts: NDArray[np.int64],
    seen: NDArray[np.int64],
    other_fields: NDArray[np.int64],
) -> int:
    """Count in how many rows each field is."""
    other_count: int = 0
    for index in range(len(start)):
        position = start[index]
        while position >= 0 and position < stop[index]:
            number, _, _, position = read_field(data, position, stop[index])
            if number >= FIELDS:
                if other_count < len(other_fields):
                    other_fields[other_count, 0], other_fields[other_count, 1] = row[index], number
                other_count += 1
            elif number > 0 and seen[number] != row[index]:
                seen[number] = row[index]
                counts[number] += 1
    return other_count


@kernel
def count_labels(
    first: Places,
    label: NDArray[np.float32],
    sign_counts: NDArray[np.int64],
    sums: NDArray[np.float64],
) -> None:
    """Count labels by their position in the row; those from POSITIONS - 1 on together."""
    for row in range(len(first) - 1):
        for index in range(first[row], first[row + 1]):
            position = min(index - first[row], POSITIONS - 1)
            value = np.float64(label[index])
            if np.isnan(value):
                sign_counts[position, NO_NUMBER] += 1
                continue
            sign = POSITIVE if value > 0 else NEGATIVE if value < 0 else ZERO
            sign_counts[position, sign] += 1
            sums[position, 0] += value
            sums[position, 1] = min(sums[position, 1], value)
            sums[position, 2] = max(sums[position, 2], value)


@kernel
def count_lengths(length: Places, lengths: NDArray[np.int64]) -> None:
    """Count lengths by bucket."""
    for index in range(len(length)):
        lengths[bucket_of(length[index])] += 1
