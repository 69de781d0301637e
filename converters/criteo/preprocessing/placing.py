"""Parts that keep their order, from the work folder to the result."""

import os
from pathlib import Path
from typing import Final

import numpy as np

from ingot.converters.criteo.contract import array_name
from ingot.converters.criteo.preprocessing.arrays import HEADER, create, row_bytes, write_all
from ingot.converters.criteo.preprocessing.sources import PartRows
from ingot.converters.criteo.preprocessing.work import Work

_ROWS: Final = 1 << 18


def place(source: PartRows, work: Work, result: Path) -> None:
    """Write the arrays of a part; they are on the disk afterwards. May be done again."""
    path = result / array_name(source.name, "sparse")
    create(path, "sparse", source.rows)
    descriptor = os.open(path, os.O_WRONLY)
    try:
        for start in range(0, source.rows, _ROWS):
            columns = source.sparse(start, min(start + _ROWS, source.rows))
            rows = np.ascontiguousarray(columns.T)
            write_all(descriptor, rows, HEADER + start * row_bytes("sparse"))
    finally:
        os.close(descriptor)
    for kind in ("dense", "labels"):
        ready = work.part(source.name) / f"{kind}.npy"
        if ready.exists():
            ready.rename(result / array_name(source.name, kind))
    work.sync(path, result)
