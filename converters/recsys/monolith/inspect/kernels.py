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
    for at in range(len(first) - 1):
        for entry in range(first[at], first[at + 1]):
            feature = which[entry]
            if feature < 0:
                continue
            told = figures[feature]
            told[ENTRIES] += 1
            told[KINDS + kind[entry]] += 1
            state = FILLED if count[entry] > 0 else EMPTY
            if kind[entry] == 0 and not (raw[entry] and count[entry] > 0):
                state = UNSET
            _note_state(told, row + at, state)
            if kind[entry] > 0:
                length = count[entry]
                if told[SET] == 0 or length < told[LEAST]:
                    told[LEAST] = length
                told[MOST] = max(told[MOST], length)
                told[SET] += 1
                told[VALUES] += length
                lengths[feature, bucket_of(length)] += 1


@inner_kernel
def _note_state(told: NDArray[np.int64], row: int, state: int) -> None:
    if told[LAST_ROW] == row:
        if state >= told[STATE]:
            return
        told[told[STATE]] -= 1
    told[LAST_ROW] = row
    told[STATE] = state
    told[state] += 1


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
            at = start[entry]
            while at >= 0 and at < stop[entry]:
                _, _, inner, at = read_field(data, at, stop[entry])
                if at > inner:
                    _, _, begin, end = read_field(data, inner, at)
                    _count_slots(data, begin, end, number == 16, which[entry], v1, v2, bits)


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
    for at in range(start, stop - 7, 8):
        slot = np.int64(data[at + 7]) << 8 | np.int64(data[at + 6])
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
    others: NDArray[np.int64],
) -> int:
    """Count in how many rows each field is."""
    more: int = 0
    for at in range(len(start)):
        place = start[at]
        while place >= 0 and place < stop[at]:
            number, _, _, place = read_field(data, place, stop[at])
            if number >= FIELDS:
                if more < len(others):
                    others[more, 0], others[more, 1] = row[at], number
                more += 1
            elif number > 0 and seen[number] != row[at]:
                seen[number] = row[at]
                counts[number] += 1
    return more


@kernel
def count_labels(
    first: Places, label: NDArray[np.float32], signs: NDArray[np.int64], sums: NDArray[np.float64]
) -> None:
    """Count labels by their position in the row; those from POSITIONS - 1 on together."""
    for row in range(len(first) - 1):
        for at in range(first[row], first[row + 1]):
            place = min(at - first[row], POSITIONS - 1)
            value = np.float64(label[at])
            if np.isnan(value):
                signs[place, NO_NUMBER] += 1
                continue
            sign = POSITIVE if value > 0 else NEGATIVE if value < 0 else ZERO
            signs[place, sign] += 1
            sums[place, 0] += value
            sums[place, 1] = min(sums[place, 1], value)
            sums[place, 2] = max(sums[place, 2], value)


@kernel
def count_lengths(length: Places, lengths: NDArray[np.int64]) -> None:
    """Count lengths by bucket."""
    for at in range(len(length)):
        lengths[bucket_of(length[at])] += 1
