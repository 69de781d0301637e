"""Kernels between features and the buffers of Arrow arrays."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.kernels.compile import kernel
from ingot.converters.recsys.monolith.record_index import Bytes, Places
from ingot.converters.recsys.monolith.wire.format_kernels import read_field, read_varint

PARTS: Final = 5
"""Of a key: number of the name, occurrence, id, sorted_id, kind."""


@kernel
def count_occurrences(
    first: Places, name: NDArray[np.int32], skipped: NDArray[np.bool_], names: int
) -> NDArray[np.int64]:
    """int64[E], how often each entry's name came before in its row."""
    found = np.zeros(len(name), np.int64)
    row_of, count_of = np.full(names, -1, np.int64), np.zeros(names, np.int64)
    for row in range(len(first) - 1):
        for entry in range(first[row], first[row + 1]):
            if skipped[entry]:
                continue
            which = name[entry]
            if row_of[which] != row:
                row_of[which], count_of[which] = row, 0
            found[entry] = count_of[which]
            count_of[which] += 1
    return found


@kernel
def number_keys(
    parts: NDArray[np.int64],
    skipped: NDArray[np.bool_],
    keys: NDArray[np.int64],
    count: int,
    table: NDArray[np.int32],
    out: NDArray[np.int32],
) -> int:
    """Number keys in the order in which they are first seen."""
    mask = np.uint64(len(table) - 1)
    for entry in range(parts.shape[1]):
        out[entry] = -1
        if skipped[entry]:
            continue
        mixed = np.uint64(0)
        for part in range(PARTS):
            mixed = (mixed ^ np.uint64(parts[part, entry])) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(29)
        slot = mixed & mask
        while table[slot] >= 0:
            same = True
            for part in range(PARTS):
                same = same and keys[table[slot], part] == parts[part, entry]
            if same:
                break
            slot = (slot + np.uint64(1)) & mask
        if table[slot] < 0:
            if count == len(keys):
                return count + 1
            for part in range(PARTS):
                keys[count, part] = parts[part, entry]
            table[slot] = count
            count += 1
        out[entry] = table[slot]
    return count


@kernel
def split_fields(data: Bytes, start: Places, stop: Places, begins: Places, ends: Places) -> None:
    """Where the contents of the fields of stretches lie, one behind the other."""
    to = 0
    for one in range(len(start)):
        at = start[one]
        while at < stop[one] and to < len(begins):
            _, _, value_at, at = read_field(data, at, stop[one])
            if at < 0:
                break
            begins[to], ends[to] = value_at, at
            to += 1


@kernel
def inner_payloads(data: Bytes, start: Places, stop: Places) -> None:
    """Move the places of lists in lists from their messages to their packed numbers."""
    for one in range(len(start)):
        if start[one] < stop[one]:
            _, _, at, end = read_field(data, start[one], stop[one])
            start[one], stop[one] = (at, end) if end >= 0 else (stop[one], stop[one])


@kernel
def read_varints(data: Bytes, start: Places, stop: Places, out: NDArray[np.int64]) -> None:
    """The varints of stretches, one behind the other."""
    to = 0
    for one in range(len(start)):
        at = start[one]
        while at < stop[one] and to < len(out):
            value, at = read_varint(data, at, stop[one])
            if at < 0:
                break
            out[to] = value
            to += 1
