"""Kernels that write Examples and the lists of ExampleBatches from the places of their parts."""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ingot.converters.kernels.compile import inner_kernel, kernel
from ingot.converters.recsys.monolith.frames.kernels import put_frame_head
from ingot.converters.recsys.monolith.record_index import Bytes, Places, RowArrays
from ingot.converters.recsys.monolith.wire.format_kernels import (
    FIXED32,
    VARINT,
    equal_bytes,
    put_bytes,
    put_fixed,
    put_head,
    put_number,
    put_signed,
    put_varint,
    signed_size,
    size_with_head,
    varint_size,
)

_LINE_ID, _LABEL, _WEIGHT, _SOURCE = 100, 101, 102, 103


class Lists(NamedTuple):
    """The L lists of a batch whose rows have E features."""

    order: Places  # int64[E] the features by list, within it in the order of the rows
    first: Places  # int64[L + 1] features before each list
    shared: NDArray[np.bool_]


@inner_kernel
def _envelope_size(name_size: int, ident: int, sorted_id: int, extra_size: int) -> int:
    """Bytes of a named feature, or of a list of them, without the features."""
    size = extra_size
    if name_size:
        size += size_with_head(1, name_size)
    if ident:
        size += 1 + signed_size(ident)
    if sorted_id:
        size += 1 + signed_size(sorted_id)
    return size


# Structures are taken apart before a loop, and no kernel that is called in one takes them: numba
# passes all arrays of a structure each time.


@kernel
def measure_examples(rows: RowArrays, sizes: Places, totals: Places) -> None:
    """Fill in the bytes of named features, without tag and size, and of Examples."""
    first, line_start, line_stop = rows.first, rows.line_start, rows.line_stop
    rest_start, rest_stop, label_first = rows.rest_start, rows.rest_stop, rows.label_first
    weight, source, name, name_first = rows.weight, rows.source, rows.name, rows.name_first
    start, stop, ident, sorted_id = rows.start, rows.stop, rows.ident, rows.sorted_id
    extra_start, extra_stop = rows.extra_start, rows.extra_stop
    for row in range(len(totals)):
        total = rest_stop[row] - rest_start[row]
        for entry in range(first[row], first[row + 1]):
            name_size = name_first[name[entry] + 1] - name_first[name[entry]]
            extra_size = extra_stop[entry] - extra_start[entry]
            size = _envelope_size(name_size, ident[entry], sorted_id[entry], extra_size)
            if start[entry] >= 0:
                size += size_with_head(2, stop[entry] - start[entry])
            sizes[entry] = size
            total += size_with_head(1, size)
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
def write_examples(rows: RowArrays, sizes: Places, totals: Places, bits: int, out: Bytes) -> None:
    """Write Examples of these bytes, framed: their fields in the order of their numbers."""
    data, names, name_first, first = rows.data, rows.names, rows.name_first, rows.first
    name, raw, start, stop = rows.name, rows.raw, rows.start, rows.stop
    ident, sorted_id = rows.ident, rows.sorted_id
    extra_start, extra_stop = rows.extra_start, rows.extra_stop
    line_start, line_stop = rows.line_start, rows.line_stop
    label, label_first, weight, source = rows.label, rows.label_first, rows.weight, rows.source
    rest_start, rest_stop = rows.rest_start, rows.rest_stop
    sort_start, sort_stop = rows.sort_start, rows.sort_stop
    position = 0
    for row in range(len(first) - 1):
        begin, end = sort_start[row], sort_stop[row]
        position = put_frame_head(out, position, data, begin, end, source[row], totals[row], bits)
        for is_raw in (False, True):
            for entry in range(first[row], first[row + 1]):
                if raw[entry] != is_raw:
                    continue
                position = put_head(out, position, 2 if is_raw else 1, sizes[entry])
                begin, end = name_first[name[entry]], name_first[name[entry] + 1]
                position = put_named(out, position, 1, names, begin, end)
                if start[entry] >= 0:
                    position = put_head(out, position, 2, stop[entry] - start[entry])
                    position = put_bytes(out, position, data, start[entry], stop[entry])
                position = put_number(out, position, 3, ident[entry])
                position = put_number(out, position, 6, sorted_id[entry])
                position = put_bytes(out, position, data, extra_start[entry], extra_stop[entry])
        if line_start[row] >= 0:
            position = put_head(out, position, _LINE_ID, line_stop[row] - line_start[row])
            position = put_bytes(out, position, data, line_start[row], line_stop[row])
        position = put_named(
            out, position, _LABEL, label, 4 * label_first[row], 4 * label_first[row + 1]
        )
        if weight[row]:
            position = put_varint(out, position, np.int64(_WEIGHT << 3 | FIXED32))
            position = put_fixed(out, position, np.uint64(weight[row]), 4)
        if source[row]:
            position = put_varint(out, position, np.int64(_SOURCE << 3 | VARINT))
            position = put_varint(out, position, np.int64(source[row]))
        position = put_bytes(out, position, data, rest_start[row], rest_stop[row])


@inner_kernel
def put_named(out: Bytes, at: int, number: int, data: Bytes, start: int, stop: int) -> int:
    """Write a field of bytes that is left out where it is empty; the next place."""
    if stop == start:
        return at
    return put_bytes(out, put_head(out, at, number, stop - start), data, start, stop)


_UNSET_SIZE: Final = 2  # bytes of a feature without content, with its tag


@kernel
def measure_lists(rows: RowArrays, lists: Lists, count: int, sizes: Places) -> None:
    """Fill in the bytes of the lists of a batch of `count` rows, without tag and size.

    The mark of lists whose features are not all there and equal is taken off.
    """
    order, first, shared = lists
    data, start, stop = rows.data, rows.start, rows.stop
    for list_number in range(len(sizes)):
        begin, end = first[list_number], first[list_number + 1]
        first_entry = order[begin]
        equal = shared[list_number] and count > 1 and end - begin == count
        for index in range(begin + 1, end):
            if not equal:
                break
            other = order[index]
            equal = equal_bytes(
                data, start[first_entry], stop[first_entry], data, start[other], stop[other]
            )
        shared[list_number] = equal
        if sizes[list_number] < 0:
            continue
        number = rows.name[first_entry]
        name_size = rows.name_first[number + 1] - rows.name_first[number]
        extra_size = rows.extra_stop[first_entry] - rows.extra_start[first_entry]
        size = _envelope_size(
            name_size, rows.ident[first_entry], rows.sorted_id[first_entry], extra_size
        )
        if equal:
            end = begin + 1
            size += 2
        else:
            size += _UNSET_SIZE * (count - (end - begin))
        for index in range(begin, end):
            entry = order[index]
            size += size_with_head(2, max(stop[entry] - start[entry], 0))
        sizes[list_number] = size


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
    data, names, name_first, name = rows.data, rows.names, rows.name_first, rows.name
    raw, start, stop, ident, sorted_id = rows.raw, rows.start, rows.stop, rows.ident, rows.sorted_id
    extra_start, extra_stop = rows.extra_start, rows.extra_stop
    order, first, shared = lists
    position = 0
    for is_raw in (False, True):
        for number in range(len(sizes)):
            first_entry = order[first[number]]
            if raw[first_entry] != is_raw or sizes[number] < 0:
                continue
            position = put_head(out, position, 2 if is_raw else 1, sizes[number])
            position = put_named(
                out,
                position,
                1,
                names,
                name_first[name[first_entry]],
                name_first[name[first_entry] + 1],
            )
            if shared[number]:
                position = _put_feature(out, position, data, start[first_entry], stop[first_entry])
                position = put_varint(out, position, np.int64(3 << 3 | VARINT))
                position = put_varint(out, position, np.int64(1))
            else:
                row = begin_row
                for index in range(first[number], first[number + 1]):
                    entry = order[index]
                    position = _put_unset(out, position, row_of[entry] - row)
                    position = _put_feature(out, position, data, start[entry], stop[entry])
                    row = row_of[entry] + 1
                position = _put_unset(out, position, begin_row + count - row)
            position = put_number(out, position, 4, ident[first_entry])
            position = put_number(out, position, 6, sorted_id[first_entry])
            position = put_bytes(
                out, position, data, extra_start[first_entry], extra_stop[first_entry]
            )
    return position


@inner_kernel
def _put_unset(out: Bytes, position: int, count: int) -> int:
    for _ in range(count):
        position = put_head(out, position, 2, np.int64(0))
    return position


@inner_kernel
def _put_feature(out: Bytes, position: int, data: Bytes, start: int, stop: int) -> int:
    position = put_head(out, position, 2, np.int64(max(stop - start, 0)))
    return put_bytes(out, position, data, start, stop) if stop > start else position


# An `out` without room is not written to: a first call measures.


@kernel
def put_varints(values: NDArray[np.int64], offsets: Places, out: Bytes) -> None:
    """Write N varints one behind the other: int64[N + 1] where each begins, and the last ends."""
    position, write = np.int64(0), len(out) > 0
    for index in range(len(values)):
        offsets[index] = position
        if write:
            put_signed(out, position, values[index])
        position += signed_size(values[index])
    offsets[len(values)] = position


@kernel
def put_framed(
    data: Bytes,
    start: Places,
    stop: Places,
    mask: NDArray[np.bool_],
    tag: int,
    sized: bool,
    offsets: Places,
    out: Bytes,
) -> None:
    """Write stretches of bytes as N fields: int64[N + 1] where each begins, and the last ends."""
    position, head, write = np.int64(0), varint_size(np.int64(tag)), len(out) > 0
    for index in range(len(start)):
        offsets[index] = position
        size = stop[index] - start[index]
        if not mask[index]:
            continue
        if write:
            next_position = put_varint(out, position, np.int64(tag))
            if sized:
                next_position = put_varint(out, next_position, size)
            put_bytes(out, next_position, data, start[index], stop[index])
        position += head + size
        if sized:
            position += varint_size(size)
    offsets[len(start)] = position
