"""`.npy` files that are written piece by piece."""

import io
import os
from pathlib import Path
from typing import Final

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from ingot.converters.criteo.contract import DTYPES, WIDTHS

HEADER: Final = 128
"""Bytes before the values: so many for every number of rows below 10**21."""


def header(kind: str, rows: int) -> bytes:
    """The beginning of the file of a `dense`, `labels` or `sparse`, as np.save writes it."""
    shape = (rows, WIDTHS[kind])
    told = {"descr": npy.dtype_to_descr(DTYPES[kind]), "fortran_order": False, "shape": shape}
    text = io.BytesIO()
    npy.write_array_header_1_0(text, told)
    return text.getvalue()


def row_bytes(kind: str) -> int:
    """Bytes of a row."""
    return DTYPES[kind].itemsize * WIDTHS[kind]


def create(path: Path, kind: str, rows: int) -> None:
    """A file with room for so many rows; what is there stays."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        os.pwrite(descriptor, header(kind, rows), 0)
        os.truncate(descriptor, HEADER + rows * row_bytes(kind))
    finally:
        os.close(descriptor)


def write_all(descriptor: int, values: NDArray[np.generic], offset: int) -> None:
    """Write contiguous values at an offset in bytes."""
    view = values.reshape(-1).view(np.uint8).data
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written
