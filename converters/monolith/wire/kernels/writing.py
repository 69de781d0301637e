"""Kernels that write Examples out of the places of their parts."""

import numpy as np
from numpy.typing import NDArray

from ingot.converters.compiling import kernel
from ingot.converters.monolith.records import Bytes, Places
from ingot.converters.monolith.wire.kernels.varints import (
    FIXED32,
    VARINT,
    put_bytes,
    put_head,
    put_number,
    put_varint,
    size_of,
    size_of_int32,
    size_with_head,
)

_LINE_ID, _LABEL, _WEIGHT, _SOURCE = 100, 101, 102, 103


@kernel
def _named_size(
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
        size += 1 + size_of_int32(ident[entry])
    if sorted_id[entry]:
        size += 1 + size_of_int32(sorted_id[entry])
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
    """Bytes of named features, without tag and size.

    Args:
        name_first: int64[N + 1] where each name begins among the names.
        name: int32[E], this and the following as in `Rows`.
        start: int64[E].
        stop: int64[E].
        ident: int32[E].
        sorted_id: int32[E].
        extra_start: int64[E].
        extra_stop: int64[E].
        sizes: int64[E], filled.
    """
    for entry in range(len(name)):
        name_size = name_first[name[entry] + 1] - name_first[name[entry]]
        sizes[entry] = _named_size(
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
    """Bytes of Examples.

    Args:
        first: int64[R + 1], this and others as in `Rows`.
        sizes: int64[E] as `measure_features` gives them.
        line_start: int64[R].
        line_stop: int64[R].
        label_first: int64[R + 1].
        weight: uint32[R], the bits of the weights.
        source: uint32[R].
        rest_start: int64[R].
        rest_stop: int64[R].
        totals: int64[R], filled.
    """
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
            total += 2 + size_of(np.int64(source[row]))
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
    """Write Examples one behind the other: their fields in the order of their numbers.

    Args:
        data: uint8[B].
        names: uint8[S], the distinct names one behind the other.
        name_first: int64[N + 1] where each begins.
        first: int64[R + 1], this and others as in `Rows`.
        name: int32[E].
        raw: bool[E].
        start: int64[E].
        stop: int64[E].
        ident: int32[E].
        sorted_id: int32[E].
        extra_start: int64[E].
        extra_stop: int64[E].
        sizes: int64[E] as `measure_features` gives them.
        line_start: int64[R].
        line_stop: int64[R].
        label_first: int64[R + 1].
        label: uint8[4 * L], the bytes of the labels.
        weight: uint32[R], the bits of the weights.
        source: uint32[R].
        rest_start: int64[R].
        rest_stop: int64[R].
        out: uint8[the sum of what `measure_examples` gives], filled.
    """
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
