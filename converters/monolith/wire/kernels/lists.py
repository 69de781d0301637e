"""Kernels that write the lists of an ExampleBatch."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.compiling import kernel
from ingot.converters.monolith.records import Bytes, Places
from ingot.converters.monolith.wire.kernels.varints import (
    VARINT,
    put_bytes,
    put_head,
    put_number,
    put_varint,
    same_bytes,
    size_of_int32,
    size_with_head,
)
from ingot.converters.monolith.wire.kernels.writing import put_named

_UNSET: Final = 2  # bytes of a feature without content, with its tag


@kernel
def find_shared(
    data: Bytes,
    start: Places,
    stop: Places,
    order: Places,
    list_first: Places,
    rows: int,
    shared: NDArray[np.bool_],
) -> None:
    """Take off the mark of lists whose features are not all there and equal.

    Args:
        data: uint8[B].
        start: int64[E].
        stop: int64[E].
        order: int64[E] as `order_by_list` fills it.
        list_first: int64[lists + 1] as `order_by_list` fills it.
        rows: of the batch.
        shared: bool[lists], true for lists that may be shared.
    """
    for at in range(len(shared)):
        begin, end = list_first[at], list_first[at + 1]
        shared[at] = shared[at] and rows > 1 and end - begin == rows
        if not shared[at]:
            continue
        one = order[begin]
        for place in range(begin + 1, end):
            other = order[place]
            if not same_bytes(data, start[one], stop[one], data, start[other], stop[other]):
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
    """Bytes of the lists of a batch, without tag and size.

    Args:
        name_first: int64[N + 1] where each name begins among the names.
        name: int32[E], this and the following as in `Rows`.
        start: int64[E].
        stop: int64[E].
        ident: int32[E].
        sorted_id: int32[E].
        extra_start: int64[E].
        extra_stop: int64[E].
        order: int64[E] as `order_by_list` fills it.
        list_first: int64[lists + 1] as `order_by_list` fills it.
        shared: bool[lists], which are shared.
        rows: of the batch.
        sizes: int64[lists], filled; those that are -1 before are left out.
    """
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
            size += 1 + size_of_int32(ident[one])
        if sorted_id[one]:
            size += 1 + size_of_int32(sorted_id[one])
        if shared[at]:
            end = begin + 1
            size += 2
        else:
            size += _UNSET * (rows - (end - begin))
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
    """Write the lists of a batch, those of raw features last.

    Args:
        data: uint8[B].
        names: uint8[S], the distinct names one behind the other.
        name_first: int64[N + 1] where each begins.
        row_of: int64[E], the row of each feature.
        name: int32[E], this and the following as in `Rows`.
        raw: bool[E].
        start: int64[E].
        stop: int64[E].
        ident: int32[E].
        sorted_id: int32[E].
        extra_start: int64[E].
        extra_stop: int64[E].
        order: int64[E] as `order_by_list` fills it.
        list_first: int64[lists + 1] as `order_by_list` fills it.
        shared: bool[lists], which are shared.
        begin_row: the first row of the batch.
        rows: how many it has.
        sizes: int64[lists] as `measure_lists` fills it.
        out: uint8[...], filled.

    Returns:
        How many bytes were written.
    """
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
