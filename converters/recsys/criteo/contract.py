"""What preprocessed Criteo data are: files, columns and ids. Text and decisions: `docs/criteo.md`.

A part is one input file: `day_0` to `day_23` of the terabyte set, `train` and `test` of Kaggle's.
"""

import io
import os
from pathlib import Path
from typing import Final

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from ingot.converters.sources.recognizers.criteo import DENSE, SPARSE, WIDTHS

KEYS: Final = tuple(f"cat_{k}" for k in range(SPARSE))
"""The sparse columns, as a KeyedJaggedTensor names them."""
DENSE_NAMES: Final = tuple(f"int_{k}" for k in range(DENSE))
RARE_ID: Final = 1
"""Of values rarer than the frequency threshold, and of unseen ones where no id is given to them."""
FIRST_ID: Final = 2

DTYPES: Final = {
    "dense": np.dtype("<f4"),
    "labels": np.dtype("<i4"),
    "sparse": np.dtype("<i4"),
}

STATS: Final = "stats.json"
REJECTS: Final = "rejects.jsonl"
VOCAB: Final = "vocab"
METADATA_KEY: Final = b"ingot.criteo"
"""Of a vocabulary's Parquet file: {"column", "frequency_threshold", "next_id"} as JSON."""


def vocabulary_path(folder: Path, key: str) -> Path:
    """The vocabulary of a column: value uint32, id int32, count int64, in first-seen order."""
    return folder / VOCAB / f"{key}.parquet"


HEADER: Final = 128
"""Bytes before the values: so many for every number of rows below 10**21."""


def npy_header(kind: str, rows: int) -> bytes:
    """The beginning of the file of a `dense`, `labels` or `sparse`, as np.save writes it."""
    shape = (rows, WIDTHS[kind])
    told = {"descr": npy.dtype_to_descr(DTYPES[kind]), "fortran_order": False, "shape": shape}
    text = io.BytesIO()
    npy.write_array_header_1_0(text, told)
    return text.getvalue()


def row_bytes(kind: str) -> int:
    """Bytes of a row."""
    return DTYPES[kind].itemsize * WIDTHS[kind]


def create_array(path: Path, kind: str, rows: int) -> None:
    """A file with room for so many rows; what is there stays."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        os.pwrite(descriptor, npy_header(kind, rows), 0)
        os.truncate(descriptor, HEADER + rows * row_bytes(kind))
    finally:
        os.close(descriptor)


def write_all(descriptor: int, values: NDArray[np.generic], offset: int) -> None:
    """Write contiguous values at an offset in bytes."""
    view = values.reshape(-1).view(np.uint8).data
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written
