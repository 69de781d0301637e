"""A kernel that writes what a row says of itself as features again."""

import numpy as np
from numpy.typing import NDArray

from ingot.converters.compiling import kernel
from ingot.converters.monolith.records import Bytes, Places
from ingot.converters.monolith.wire.kernels.varints import (
    put_bytes,
    put_head,
    size_of,
    size_with_head,
)
from ingot.converters.monolith.wire.kernels.writing import put_bits

_BYTES_LIST, _FLOAT_LIST = 6, 3  # fields of Feature


@kernel
def _feature_size(number: int, size: int) -> int:
    """Bytes of a feature that is a list with one value, or packed values, of `size` bytes."""
    return size_with_head(number, size_with_head(1, size))


@kernel
def _put_heads(out: Bytes, at: int, number: int, size: int) -> int:
    at = put_head(out, at, number, 1 + size_of(size) + size)
    return put_head(out, at, 1, size)


@kernel
def write_said(
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
    """Write the features `__LINE_ID__`, `__LABEL__` and `instance_weight` of rows.

    Args:
        data: uint8[B].
        line_start: int64[R], this and the following as in `Rows`.
        line_stop: int64[R].
        label_first: int64[R + 1].
        label: uint8[4 * L], the bytes of the labels.
        weight: uint32[R], the bits of the weights.
        weighted: whether the rows have weights; 0 stands for one that is not given.
        out: uint8[S], filled; with none, nothing is written but the size found.
        start: int64[3, R], filled: where each feature begins, -1 where the row has none.
        stop: int64[3, R], filled: where it ends.

    Returns:
        The bytes that are written.
    """
    at, write = 0, len(out) > 0
    for row in range(len(line_start)):
        start[:, row] = stop[:, row] = -1
        size = line_stop[row] - line_start[row]
        if line_start[row] >= 0:
            start[0, row] = at
            if write:
                place = _put_heads(out, at, _BYTES_LIST, size)
                put_bytes(out, place, data, line_start[row], line_stop[row])
            at += _feature_size(_BYTES_LIST, size)
            stop[0, row] = at
        size = 4 * (label_first[row + 1] - label_first[row])
        if size:
            start[1, row] = at
            if write:
                place = _put_heads(out, at, _FLOAT_LIST, size)
                put_bytes(out, place, label, 4 * label_first[row], 4 * label_first[row + 1])
            at += _feature_size(_FLOAT_LIST, size)
            stop[1, row] = at
        if weighted:
            start[2, row] = at
            if write:
                put_bits(out, _put_heads(out, at, _FLOAT_LIST, np.int64(4)), weight[row])
            at += _feature_size(_FLOAT_LIST, np.int64(4))
            stop[2, row] = at
    return at
