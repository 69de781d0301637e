"""Kernels from the cells of chosen rows to the memory of a batch.

Indices are unsigned: numba asks of each signed one whether it counts from the end.
"""

import numpy as np
from numpy.typing import NDArray

from ingot.converters.kernels.compile import kernel

_Cells = NDArray[np.int64] | NDArray[np.float32] | NDArray[np.uint32]
_u = np.uint64


@kernel
def gather_cells(values: _Cells, rows: NDArray[np.int64], out: _Cells) -> None:
    """Copy the cells of rows."""
    for at in range(len(rows)):
        out[at] = values[_u(rows[at])]


@kernel
def measure_lists(
    offsets: NDArray[np.int32], rows: NDArray[np.int64], lengths: NDArray[np.int64]
) -> None:
    """Write the lengths of the lists of rows."""
    for at in range(len(rows)):
        lengths[at] = offsets[_u(rows[at]) + _u(1)] - offsets[_u(rows[at])]


@kernel
def pad_lists(
    values: _Cells, offsets: NDArray[np.int32], rows: NDArray[np.int64], width: int, out: _Cells
) -> None:
    """Copy the lists of rows, zeros behind each of them up to the width."""
    end = _u(0)
    for at in range(len(rows)):
        start, first = _u(offsets[_u(rows[at])]), end
        length = _u(offsets[_u(rows[at]) + _u(1)]) - start
        end = first + _u(width)
        for place in range(length):
            out[first + _u(place)] = values[start + _u(place)]
        for place in range(first + length, end):
            out[_u(place)] = 0  # the contract's PAD and PAD_VALUE


@kernel
def join_lists(
    values: _Cells, offsets: NDArray[np.int32], rows: NDArray[np.int64], out: _Cells
) -> int:
    """Copy the lists of rows one behind another; return the number of elements."""
    end = _u(0)
    for at in range(len(rows)):
        start = _u(offsets[_u(rows[at])])
        length = _u(offsets[_u(rows[at]) + _u(1)]) - start
        for place in range(length):
            out[end + _u(place)] = values[start + _u(place)]
        end += length
    return int(end)
