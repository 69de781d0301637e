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
    at = 0
    for row in range(len(first) - 1):
        begin, end = sort_start[row], sort_stop[row]
        at = put_frame_head(out, at, data, begin, end, source[row], totals[row], bits)
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
            at = put_fixed(out, at, np.uint64(weight[row]), 4)
        if source[row]:
            at = put_varint(out, at, np.int64(_SOURCE << 3 | VARINT))
            at = put_varint(out, at, np.int64(source[row]))
        at = put_bytes(out, at, data, rest_start[row], rest_stop[row])


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
    for at in range(len(sizes)):
        begin, end = first[at], first[at + 1]
        one = order[begin]
        equal = shared[at] and count > 1 and end - begin == count
        for place in range(begin + 1, end):
            if not equal:
                break
            other = order[place]
            equal = equal_bytes(data, start[one], stop[one], data, start[other], stop[other])
        shared[at] = equal
        if sizes[at] < 0:
            continue
        number = rows.name[one]
        name_size = rows.name_first[number + 1] - rows.name_first[number]
        extra_size = rows.extra_stop[one] - rows.extra_start[one]
        size = _envelope_size(name_size, rows.ident[one], rows.sorted_id[one], extra_size)
        if equal:
            end = begin + 1
            size += 2
        else:
            size += _UNSET_SIZE * (count - (end - begin))
        for place in range(begin, end):
            entry = order[place]
            size += size_with_head(2, max(stop[entry] - start[entry], 0))
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
    data, names, name_first, name = rows.data, rows.names, rows.name_first, rows.name
    raw, start, stop, ident, sorted_id = rows.raw, rows.start, rows.stop, rows.ident, rows.sorted_id
    extra_start, extra_stop = rows.extra_start, rows.extra_stop
    order, first, shared = lists
    to = 0
    for wanted in (False, True):
        for at in range(len(sizes)):
            one = order[first[at]]
            if raw[one] != wanted or sizes[at] < 0:
                continue
            to = put_head(out, to, 2 if wanted else 1, sizes[at])
            to = put_named(out, to, 1, names, name_first[name[one]], name_first[name[one] + 1])
            if shared[at]:
                to = _put_feature(out, to, data, start[one], stop[one])
                to = put_varint(out, to, np.int64(3 << 3 | VARINT))
                to = put_varint(out, to, np.int64(1))
            else:
                row = begin_row
                for place in range(first[at], first[at + 1]):
                    entry = order[place]
                    to = _put_unset(out, to, row_of[entry] - row)
                    to = _put_feature(out, to, data, start[entry], stop[entry])
                    row = row_of[entry] + 1
                to = _put_unset(out, to, begin_row + count - row)
            to = put_number(out, to, 4, ident[one])
            to = put_number(out, to, 6, sorted_id[one])
            to = put_bytes(out, to, data, extra_start[one], extra_stop[one])
    return to


@inner_kernel
def _put_unset(out: Bytes, to: int, count: int) -> int:
    for _ in range(count):
        to = put_head(out, to, 2, np.int64(0))
    return to


@inner_kernel
def _put_feature(out: Bytes, to: int, data: Bytes, start: int, stop: int) -> int:
    to = put_head(out, to, 2, np.int64(max(stop - start, 0)))
    return put_bytes(out, to, data, start, stop) if stop > start else to


# An `out` without room is not written to: a first call measures.


@kernel
def put_varints(values: NDArray[np.int64], places: Places, out: Bytes) -> None:
    """Write N varints one behind the other: int64[N + 1] where each begins, and the last ends."""
    at, write = np.int64(0), len(out) > 0
    for one in range(len(values)):
        places[one] = at
        if write:
            put_signed(out, at, values[one])
        at += signed_size(values[one])
    places[len(values)] = at


@kernel
def put_framed(
    data: Bytes,
    start: Places,
    stop: Places,
    given: NDArray[np.bool_],
    tag: int,
    sized: bool,
    places: Places,
    out: Bytes,
) -> None:
    """Write stretches of bytes as N fields: int64[N + 1] where each begins, and the last ends."""
    at, head, write = np.int64(0), varint_size(np.int64(tag)), len(out) > 0
    for one in range(len(start)):
        places[one] = at
        size = stop[one] - start[one]
        if not given[one]:
            continue
        if write:
            to = put_varint(out, at, np.int64(tag))
            if sized:
                to = put_varint(out, to, size)
            put_bytes(out, to, data, start[one], stop[one])
        at += head + size
        if sized:
            at += varint_size(size)
    places[len(start)] = at
