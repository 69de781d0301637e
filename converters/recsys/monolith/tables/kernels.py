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
def count_fields(data: Bytes, start: Places, stop: Places, out: Places) -> None:
    """How many fields lie in each stretch."""
    for one in range(len(start)):
        at, many = start[one], 0
        while at < stop[one]:
            _, _, _, at = read_field(data, at, stop[one])
            if at < 0:
                break
            many += 1
        out[one] = many


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
def count_varints(data: Bytes, start: Places, stop: Places, out: Places) -> None:
    """How many varints lie in each stretch."""
    for one in range(len(start)):
        many = 0
        for place in range(start[one], stop[one]):
            many += data[place] < 0x80
        out[one] = many


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


@kernel
def _varint_size(value: int) -> int:
    """Bytes of a number, negative ones as unsigned 64 bits."""
    bits, size = np.uint64(value), 1
    while bits >= np.uint64(0x80):
        bits >>= np.uint64(7)
        size += 1
    return size


@kernel
def _put_value(out: Bytes, at: int, value: int) -> int:
    bits = np.uint64(value)
    while bits >= np.uint64(0x80):
        out[at] = np.uint8((bits & np.uint64(0x7F)) | np.uint64(0x80))
        bits >>= np.uint64(7)
        at += 1
    out[at] = np.uint8(bits)
    return at + 1


@kernel
def varint_places(values: NDArray[np.int64], out: Places) -> None:
    """Where each of N varints begins, and the last ends, one behind the other: int64[N + 1]."""
    at = 0
    for one in range(len(values)):
        out[one] = at
        at += _varint_size(values[one])
    out[len(values)] = at


@kernel
def put_varints(values: NDArray[np.int64], out: Bytes) -> None:
    """Write varints one behind the other."""
    at = 0
    for one in range(len(values)):
        at = _put_value(out, at, values[one])


@kernel
def framed_places(
    start: Places,
    stop: Places,
    given: NDArray[np.bool_],
    tag: int,
    sized: bool,
    empty: bool,
    out: Places,
) -> None:
    """Where each of N fields begins, and the last ends, when `put_framed` writes them."""
    at, head = 0, _varint_size(tag)
    for one in range(len(start)):
        out[one] = at
        size = stop[one] - start[one]
        if given[one] and (empty or size > 0):
            at += head + size
            if sized:
                at += _varint_size(size)
    out[len(start)] = at


@kernel
def put_framed(
    data: Bytes,
    start: Places,
    stop: Places,
    given: NDArray[np.bool_],
    tag: int,
    sized: bool,
    empty: bool,
    out: Bytes,
) -> None:
    """Write stretches of bytes as fields, one behind the other."""
    at = 0
    for one in range(len(start)):
        size = stop[one] - start[one]
        if not given[one] or not (empty or size > 0):
            continue
        at = _put_value(out, at, tag)
        if sized:
            at = _put_value(out, at, size)
        for place in range(start[one], stop[one]):
            out[at] = data[place]
            at += 1


@kernel
def join_framed(data: Bytes, start: Places, stop: Places, first: Places, out: Bytes) -> None:
    """Write P pieces of each of R rows one behind the other."""
    at = 0
    for row in range(start.shape[1]):
        first[row] = at
        for piece in range(start.shape[0]):
            for place in range(start[piece, row], stop[piece, row]):
                out[at] = data[place]
                at += 1
    first[start.shape[1]] = at
