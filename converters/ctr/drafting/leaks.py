"""Columns that know the label already: what was found out after the row was shown."""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ingot.converters.ctr.tables import cells as read
from ingot.converters.errors import SourceError

_LEAST: Final = 5  # rows of a value: fewer have one label by chance
_MOST_VALUES: Final = 0.2  # of the rows: more values than that are ids
_NEARLY_ALL: Final = 0.99


def telling(batches: Sequence[pa.RecordBatch], columns: Sequence[str], label: str) -> Iterator[str]:
    """The columns each of whose values stands beside one label only.

    Args:
        batches: some rows.
        columns: names of columns with one token in a cell.
        label: the column of the label.
    """
    labels = np.concatenate([read.labels(one[label], label) for one in batches])
    if min((labels == 0).sum(), (labels == 1).sum()) < _LEAST:
        return
    for name in columns:
        try:
            cells = [read.texts(one[name], name) for one in batches]
        except SourceError:  # no texts: nothing to look at
            continue
        coded = pa.concat_arrays(cells).dictionary_encode(null_encoding="encode")
        if _tells(coded.indices.to_numpy(), labels, len(coded.dictionary)):
            yield name


def _tells(codes: NDArray[np.int32], labels: NDArray[np.int8], values: int) -> bool:
    if values < 2 or values > _MOST_VALUES * len(codes):
        return False
    known = labels >= 0
    rows = np.bincount(codes[known], minlength=values)
    ones = np.bincount(codes[known], labels[known], values)
    pure = (rows >= _LEAST) & ((ones == 0) | (ones == rows))
    return bool(rows[pure].sum() >= _NEARLY_ALL * rows.sum())
