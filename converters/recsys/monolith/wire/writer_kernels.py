"""Kernels that write Examples and the lists of ExampleBatches from the places of their parts."""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ingot.converters.kernels.compile import kernel
from ingot.converters.recsys.monolith.record_index import Bytes, Places, RowArrays
from ingot.converters.recsys.monolith.wire.format_kernels import (
    FIXED32,
    VARINT,
    equal_bytes,
    int32_size,
    put_bytes,
    put_head,
    put_number,
    put_varint,
    size_with_head,
    varint_size,
)

_LINE_ID, _LABEL, _WEIGHT, _SOURCE = 100, 101, 102, 103


class Lists(NamedTuple):
    """The L lists of a batch whose rows have E features.

    Attributes:
        order: int64[E] the features by list, within it in the order of the rows.
        first: int64[L + 1] features before each list.
    """

    order: Places
    first: Places
    shared: NDArray[np.bool_]


@kernel
def _name_places(rows: RowArrays, entry: int) -> tuple[int, int]:
    number = rows.name[entry]
    return rows.name_first[number], rows.name_first[number + 1]


@kernel
def _envelope_size(rows: RowArrays, entry: int) -> int:
    """Bytes of a named feature, or of a list of them, without the features."""
    size = rows.extra_stop[entry] - rows.extra_start[entry]
    begin, end = _name_places(rows, entry)
    if end > begin:
        size += size_with_head(1, end - begin)
    if rows.ident[entry]:
        size += 1 + int32_size(rows.ident[entry])
    if rows.sorted_id[entry]:
        size += 1 + int32_size(rows.sorted_id[entry])
    return size


@kernel
def measure_features(rows: RowArrays, sizes: Places) -> None:
    """Fill in the bytes of named features, without tag and size."""
    for entry in range(len(sizes)):
        size = _envelope_size(rows, entry)
        if rows.start[entry] >= 0:
            size += size_with_head(2, rows.stop[entry] - rows.start[entry])
        sizes[entry] = size


@kernel
def measure_examples(rows: RowArrays, sizes: Places, totals: Places) -> None:
    """Fill in the bytes of Examples whose features have these sizes."""
    for row in range(len(totals)):
        total = rows.rest_stop[row] - rows.rest_start[row]
        for entry in range(rows.first[row], rows.first[row + 1]):
            total += size_with_head(1, sizes[entry])
        if rows.line_start[row] >= 0:
            total += size_with_head(_LINE_ID, rows.line_stop[row] - rows.line_start[row])
        labels = rows.label_first[row + 1] - rows.label_first[row]
        if labels:
            total += size_with_head(_LABEL, 4 * labels)
        if rows.weight[row]:
            total += 2 + 4
        if rows.source[row]:
            total += 2 + varint_size(np.int64(rows.source[row]))
        totals[row] = total


@kernel
def write_examples(rows: RowArrays, sizes: Places, out: Bytes) -> None:
    """Write Examples one behind the other: their fields in the order of their numbers."""
    at, data = 0, rows.data
    for row in range(len(rows.first) - 1):
        for wanted in (False, True):
            for entry in range(rows.first[row], rows.first[row + 1]):
                if rows.raw[entry] != wanted:
                    continue
                at = put_head(out, at, 2 if wanted else 1, sizes[entry])
                begin, end = _name_places(rows, entry)
                at = put_named(out, at, 1, rows.names, begin, end)
                if rows.start[entry] >= 0:
                    at = put_head(out, at, 2, rows.stop[entry] - rows.start[entry])
                    at = put_bytes(out, at, data, rows.start[entry], rows.stop[entry])
                at = put_number(out, at, 3, rows.ident[entry])
                at = put_number(out, at, 6, rows.sorted_id[entry])
                at = put_bytes(out, at, data, rows.extra_start[entry], rows.extra_stop[entry])
        if rows.line_start[row] >= 0:
            at = put_head(out, at, _LINE_ID, rows.line_stop[row] - rows.line_start[row])
            at = put_bytes(out, at, data, rows.line_start[row], rows.line_stop[row])
        begin, end = 4 * rows.label_first[row], 4 * rows.label_first[row + 1]
        at = put_named(out, at, _LABEL, rows.label, begin, end)
        if rows.weight[row]:
            at = put_varint(out, at, np.int64(_WEIGHT << 3 | FIXED32))
            at = put_bits(out, at, rows.weight[row])
        if rows.source[row]:
            at = put_varint(out, at, np.int64(_SOURCE << 3 | VARINT))
            at = put_varint(out, at, np.int64(rows.source[row]))
        at = put_bytes(out, at, data, rows.rest_start[row], rows.rest_stop[row])


@kernel
def put_named(out: Bytes, at: int, number: int, data: Bytes, start: int, stop: int) -> int:
    """Write a field of bytes that is left out where it is empty; the next place."""
    if stop == start:
        return at
    return put_bytes(out, put_head(out, at, number, stop - start), data, start, stop)


@kernel
def put_bits(out: Bytes, at: int, bits: int) -> int:
    """Write the four bytes of a float; the next place."""
    for byte in range(4):
        out[at + byte] = np.uint8((np.int64(bits) >> (8 * byte)) & 0xFF)
    return at + 4


_UNSET_SIZE: Final = 2  # bytes of a feature without content, with its tag


@kernel
def find_shared_lists(rows: RowArrays, lists: Lists, count: int) -> None:
    """Take off the mark of lists whose features are not all there, in `count` rows, and equal."""
    start, stop, data = rows.start, rows.stop, rows.data
    for at in range(len(lists.shared)):
        begin, end = lists.first[at], lists.first[at + 1]
        shared = lists.shared[at] and count > 1 and end - begin == count
        one = lists.order[begin]
        for place in range(begin + 1, end):
            if not shared:
                break
            other = lists.order[place]
            shared = equal_bytes(data, start[one], stop[one], data, start[other], stop[other])
        lists.shared[at] = shared


@kernel
def measure_lists(rows: RowArrays, lists: Lists, count: int, sizes: Places) -> None:
    """Fill in the bytes of the lists of a batch of `count` rows, without tag and size."""
    for at in range(len(sizes)):
        if sizes[at] < 0:
            continue
        begin, end = lists.first[at], lists.first[at + 1]
        size = _envelope_size(rows, lists.order[begin])
        if lists.shared[at]:
            end = begin + 1
            size += 2
        else:
            size += _UNSET_SIZE * (count - (end - begin))
        for place in range(begin, end):
            entry = lists.order[place]
            size += size_with_head(2, max(rows.stop[entry] - rows.start[entry], 0))
        sizes[at] = size


@kernel
def write_lists(
    rows: RowArrays,
    row_of: Places,
    lists: Lists,
    begin_row: int,
    count: int,
    sizes: Places,
    out: Bytes,
) -> int:
    """Write the lists of a batch of `count` rows, those of raw features last."""
    to, data = 0, rows.data
    for wanted in (False, True):
        for at in range(len(sizes)):
            one = lists.order[lists.first[at]]
            if rows.raw[one] != wanted or sizes[at] < 0:
                continue
            to = put_head(out, to, 2 if wanted else 1, sizes[at])
            name_begin, name_end = _name_places(rows, one)
            to = put_named(out, to, 1, rows.names, name_begin, name_end)
            if lists.shared[at]:
                to = _put_feature(out, to, data, rows.start[one], rows.stop[one])
                to = put_varint(out, to, np.int64(3 << 3 | VARINT))
                to = put_varint(out, to, np.int64(1))
            else:
                row = begin_row
                for place in range(lists.first[at], lists.first[at + 1]):
                    entry = lists.order[place]
                    to = _put_unset(out, to, row_of[entry] - row)
                    to = _put_feature(out, to, data, rows.start[entry], rows.stop[entry])
                    row = row_of[entry] + 1
                to = _put_unset(out, to, begin_row + count - row)
            to = put_number(out, to, 4, rows.ident[one])
            to = put_number(out, to, 6, rows.sorted_id[one])
            to = put_bytes(out, to, data, rows.extra_start[one], rows.extra_stop[one])
    return to


@kernel
def _put_unset(out: Bytes, to: int, count: int) -> int:
    for _ in range(count):
        to = put_head(out, to, 2, np.int64(0))
    return to


@kernel
def _put_feature(out: Bytes, to: int, data: Bytes, start: int, stop: int) -> int:
    to = put_head(out, to, 2, np.int64(max(stop - start, 0)))
    return put_bytes(out, to, data, start, stop) if stop > start else to


_BYTES_LIST, _FLOAT_LIST = 6, 3  # fields of Feature


@kernel
def _row_field_size(number: int, size: int) -> int:
    """Bytes of a feature that is a list with one value, or packed values, of `size` bytes."""
    return size_with_head(number, size_with_head(1, size))


@kernel
def _put_heads(out: Bytes, at: int, number: int, size: int) -> int:
    at = put_head(out, at, number, 1 + varint_size(size) + size)
    return put_head(out, at, 1, size)


@kernel
def write_row_fields(
    rows: RowArrays,
    weighted: bool,
    out: Bytes,
    start: NDArray[np.int64],
    stop: NDArray[np.int64],
) -> int:
    """Write the features `__LINE_ID__`, `__LABEL__` and `instance_weight` of rows.

    An `out` without room is not written to: the return value tells how many bytes it needs.
    """
    line_start, line_stop, label_first = rows.line_start, rows.line_stop, rows.label_first
    at, write = 0, len(out) > 0
    for row in range(len(line_start)):
        start[:, row] = stop[:, row] = -1
        size = line_stop[row] - line_start[row]
        if line_start[row] >= 0:
            start[0, row] = at
            if write:
                place = _put_heads(out, at, _BYTES_LIST, size)
                put_bytes(out, place, rows.data, line_start[row], line_stop[row])
            at += _row_field_size(_BYTES_LIST, size)
            stop[0, row] = at
        size = 4 * (label_first[row + 1] - label_first[row])
        if size:
            start[1, row] = at
            if write:
                place = _put_heads(out, at, _FLOAT_LIST, size)
                put_bytes(out, place, rows.label, 4 * label_first[row], 4 * label_first[row + 1])
            at += _row_field_size(_FLOAT_LIST, size)
            stop[1, row] = at
        if weighted:
            start[2, row] = at
            if write:
                put_bits(out, _put_heads(out, at, _FLOAT_LIST, np.int64(4)), rows.weight[row])
            at += _row_field_size(_FLOAT_LIST, np.int64(4))
            stop[2, row] = at
    return at
