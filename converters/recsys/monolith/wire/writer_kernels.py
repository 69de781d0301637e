"""Kernels that write Examples out of the places of their parts.

Kernels that write the lists of an ExampleBatch.
A kernel that writes what a row says of itself as features again.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.kernels.compile import kernel
from ingot.converters.recsys.monolith.record_index import Bytes, Places
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


@kernel
def _named_feature_size(
    entry: int,
    name_size: int,
    start: Places,
    stop: Places,
    ident: NDArray[np.int32],
    sorted_id: NDArray[np.int32],
    extra_start: Places,
    extra_stop: Places,
) -> int:
    """Bytes of a named feature."""
    size = extra_stop[entry] - extra_start[entry]
    if name_size:
        size += size_with_head(1, name_size)
    if start[entry] >= 0:
        size += size_with_head(2, stop[entry] - start[entry])
    if ident[entry]:
        size += 1 + int32_size(ident[entry])
    if sorted_id[entry]:
        size += 1 + int32_size(sorted_id[entry])
    return size


@kernel
def measure_features(
    name_first: Places,
    name: NDArray[np.int32],
    start: Places,
    stop: Places,
    ident: NDArray[np.int32],
    sorted_id: NDArray[np.int32],
    extra_start: Places,
    extra_stop: Places,
    sizes: Places,
) -> None:
    """Bytes of named features, without tag and size."""
    for entry in range(len(name)):
        name_size = name_first[name[entry] + 1] - name_first[name[entry]]
        sizes[entry] = _named_feature_size(
            entry, name_size, start, stop, ident, sorted_id, extra_start, extra_stop
        )


@kernel
def measure_examples(
    first: Places,
    sizes: Places,
    line_start: Places,
    line_stop: Places,
    label_first: Places,
    weight: NDArray[np.uint32],
    source: NDArray[np.uint32],
    rest_start: Places,
    rest_stop: Places,
    totals: Places,
) -> None:
    """Bytes of Examples."""
    for row in range(len(totals)):
        total = rest_stop[row] - rest_start[row]
        for entry in range(first[row], first[row + 1]):
            total += size_with_head(1, sizes[entry])
        if line_start[row] >= 0:
            total += size_with_head(_LINE_ID, line_stop[row] - line_start[row])
        labels = label_first[row + 1] - label_first[row]
        if labels:
            total += size_with_head(_LABEL, 4 * labels)
        if weight[row]:
            total += 2 + 4
        if source[row]:
            total += 2 + varint_size(np.int64(source[row]))
        totals[row] = total


@kernel
def write_examples(
    data: Bytes,
    names: Bytes,
    name_first: Places,
    first: Places,
    name: NDArray[np.int32],
    raw: NDArray[np.bool_],
    start: Places,
    stop: Places,
    ident: NDArray[np.int32],
    sorted_id: NDArray[np.int32],
    extra_start: Places,
    extra_stop: Places,
    sizes: Places,
    line_start: Places,
    line_stop: Places,
    label_first: Places,
    label: Bytes,
    weight: NDArray[np.uint32],
    source: NDArray[np.uint32],
    rest_start: Places,
    rest_stop: Places,
    out: Bytes,
) -> None:
    """Write Examples one behind the other: their fields in the order of their numbers."""
    at = 0
    for row in range(len(first) - 1):
        for wanted in (False, True):
            for entry in range(first[row], first[row + 1]):
                if raw[entry] != wanted:
                    continue
                at = put_head(out, at, 2 if wanted else 1, sizes[entry])
                begin, end = name_first[name[entry]], name_first[name[entry] + 1]
                at = put_named(out, at, 1, names, begin, end)
                if start[entry] >= 0:
                    at = put_head(out, at, 2, stop[entry] - start[entry])
                    at = put_bytes(out, at, data, start[entry], stop[entry])
                at = put_number(out, at, 3, ident[entry])
                at = put_number(out, at, 6, sorted_id[entry])
                at = put_bytes(out, at, data, extra_start[entry], extra_stop[entry])
        if line_start[row] >= 0:
            at = put_head(out, at, _LINE_ID, line_stop[row] - line_start[row])
            at = put_bytes(out, at, data, line_start[row], line_stop[row])
        at = put_named(out, at, _LABEL, label, 4 * label_first[row], 4 * label_first[row + 1])
        if weight[row]:
            at = put_varint(out, at, np.int64(_WEIGHT << 3 | FIXED32))
            at = put_bits(out, at, weight[row])
        if source[row]:
            at = put_varint(out, at, np.int64(_SOURCE << 3 | VARINT))
            at = put_varint(out, at, np.int64(source[row]))
        at = put_bytes(out, at, data, rest_start[row], rest_stop[row])


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
def find_shared_lists(
    data: Bytes,
    start: Places,
    stop: Places,
    order: Places,
    list_first: Places,
    rows: int,
    shared: NDArray[np.bool_],
) -> None:
    """Take off the mark of lists whose features are not all there and equal."""
    for at in range(len(shared)):
        begin, end = list_first[at], list_first[at + 1]
        shared[at] = shared[at] and rows > 1 and end - begin == rows
        if not shared[at]:
            continue
        one = order[begin]
        for place in range(begin + 1, end):
            other = order[place]
            if not equal_bytes(data, start[one], stop[one], data, start[other], stop[other]):
                shared[at] = False
                break


@kernel
def measure_lists(
    name_first: Places,
    name: NDArray[np.int32],
    start: Places,
    stop: Places,
    ident: NDArray[np.int32],
    sorted_id: NDArray[np.int32],
    extra_start: Places,
    extra_stop: Places,
    order: Places,
    list_first: Places,
    shared: NDArray[np.bool_],
    rows: int,
    sizes: Places,
) -> None:
    """Bytes of the lists of a batch, without tag and size."""
    for at in range(len(sizes)):
        if sizes[at] < 0:
            continue
        begin, end = list_first[at], list_first[at + 1]
        one = order[begin]
        size = extra_stop[one] - extra_start[one]
        name_size = name_first[name[one] + 1] - name_first[name[one]]
        if name_size:
            size += size_with_head(1, name_size)
        if ident[one]:
            size += 1 + int32_size(ident[one])
        if sorted_id[one]:
            size += 1 + int32_size(sorted_id[one])
        if shared[at]:
            end = begin + 1
            size += 2
        else:
            size += _UNSET_SIZE * (rows - (end - begin))
        for place in range(begin, end):
            entry = order[place]
            size += size_with_head(2, max(stop[entry] - start[entry], 0))
        sizes[at] = size


@kernel
def write_lists(
    data: Bytes,
    names: Bytes,
    name_first: Places,
    row_of: Places,
    name: NDArray[np.int32],
    raw: NDArray[np.bool_],
    start: Places,
    stop: Places,
    ident: NDArray[np.int32],
    sorted_id: NDArray[np.int32],
    extra_start: Places,
    extra_stop: Places,
    order: Places,
    list_first: Places,
    shared: NDArray[np.bool_],
    begin_row: int,
    rows: int,
    sizes: Places,
    out: Bytes,
) -> int:
    """Write the lists of a batch, those of raw features last."""
    to = 0
    for wanted in (False, True):
        for at in range(len(sizes)):
            one = order[list_first[at]]
            if raw[one] != wanted or sizes[at] < 0:
                continue
            to = put_head(out, to, 2 if wanted else 1, sizes[at])
            name_begin, name_end = name_first[name[one]], name_first[name[one] + 1]
            to = put_named(out, to, 1, names, name_begin, name_end)
            if shared[at]:
                to = _put_feature(out, to, data, start[one], stop[one])
                to = put_varint(out, to, np.int64(3 << 3 | VARINT))
                to = put_varint(out, to, np.int64(1))
            else:
                row = begin_row
                for place in range(list_first[at], list_first[at + 1]):
                    entry = order[place]
                    to = _put_unset(out, to, row_of[entry] - row)
                    to = _put_feature(out, to, data, start[entry], stop[entry])
                    row = row_of[entry] + 1
                to = _put_unset(out, to, begin_row + rows - row)
            to = put_number(out, to, 4, ident[one])
            to = put_number(out, to, 6, sorted_id[one])
            to = put_bytes(out, to, data, extra_start[one], extra_stop[one])
    return to


@kernel
def _put_unset(out: Bytes, to: int, count: int) -> int:
    """Write features without content."""
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
    data: Bytes,
    line_start: Places,
    line_stop: Places,
    label_first: Places,
    label: Bytes,
    weight: NDArray[np.uint32],
    weighted: bool,
    out: Bytes,
    start: NDArray[np.int64],
    stop: NDArray[np.int64],
) -> int:
    """Write the features `__LINE_ID__`, `__LABEL__` and `instance_weight` of rows."""
    at, write = 0, len(out) > 0
    for row in range(len(line_start)):
        start[:, row] = stop[:, row] = -1
        size = line_stop[row] - line_start[row]
        if line_start[row] >= 0:
            start[0, row] = at
            if write:
                place = _put_heads(out, at, _BYTES_LIST, size)
                put_bytes(out, place, data, line_start[row], line_stop[row])
            at += _row_field_size(_BYTES_LIST, size)
            stop[0, row] = at
        size = 4 * (label_first[row + 1] - label_first[row])
        if size:
            start[1, row] = at
            if write:
                place = _put_heads(out, at, _FLOAT_LIST, size)
                put_bytes(out, place, label, 4 * label_first[row], 4 * label_first[row + 1])
            at += _row_field_size(_FLOAT_LIST, size)
            stop[1, row] = at
        if weighted:
            start[2, row] = at
            if write:
                put_bits(out, _put_heads(out, at, _FLOAT_LIST, np.int64(4)), weight[row])
            at += _row_field_size(_FLOAT_LIST, np.int64(4))
            stop[2, row] = at
    return at
