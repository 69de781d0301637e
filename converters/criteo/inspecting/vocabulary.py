"""The vocabulary of a column, read piece by piece: how often its ids occur."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ingot.converters.criteo.contract import RARE_ID, vocabulary_path
from ingot.converters.criteo.inspecting.frequencies import Frequencies
from ingot.converters.errors import SourceError

_ROWS: Final = 1 << 18
_COLUMNS: Final = {"value": pa.uint32(), "id": pa.int32(), "count": pa.int64()}
_HINT: Final = "take vocab/ away to have the ids counted"
_Piece = dict[str, NDArray[np.int64]]


def frequencies(folder: Path, key: str, top: int) -> Frequencies:
    """How often the ids of a column occur; all values with id 1 are one id.

    Raises:
        SourceError: there is no vocabulary of the column, or it cannot be read.
    """
    path, found, rare = vocabulary_path(folder, key), Frequencies(top), 0
    try:
        for piece in _pieces(path):
            own = piece["id"] != RARE_ID
            found.add(piece["id"][own], piece["count"][own], piece["value"][own])
            rare += int(piece["count"][~own].sum())
    except FileNotFoundError as error:
        raise SourceError(str(path), "there is no such vocabulary", _HINT) from error
    except (OSError, pa.ArrowException, ValueError) as error:
        raise SourceError(str(path), f"is no vocabulary of ingot: {error}", _HINT) from error
    if rare:
        found.add(np.array([RARE_ID]), np.array([rare]))
    return found


def _pieces(path: Path) -> Iterator[_Piece]:
    with pq.ParquetFile(path) as file:
        for name, kind in _COLUMNS.items():
            at = file.schema_arrow.get_field_index(name)
            if at < 0 or file.schema_arrow.field(at).type != kind:
                raise ValueError(f"the column {name} is not {kind}")
        for batch in file.iter_batches(_ROWS, columns=list(_COLUMNS)):
            yield {name: _cells(batch.column(name), name) for name in _COLUMNS}


def _cells(column: pa.Array, name: str) -> NDArray[np.int64]:
    if column.null_count:
        raise ValueError(f"the column {name} has nulls")
    cells: NDArray[np.int64] = column.to_numpy().astype(np.int64)
    if len(cells) and cells.min() < 0:
        raise ValueError(f"the column {name} has a negative number")
    return cells
