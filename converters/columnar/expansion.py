"""How much the rows of an Arrow batch hold, where many of them may share one value.

A dictionary, runs and views name a value as often as they like, so that a small batch becomes rows
of any size.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import types

_OBJECT: Final = 64  # bytes that a value needs beside its own
_MOST: Final = 32 << 20  # bytes of the rows that are made together
_SHARING: Final = (
    *(types.is_dictionary, types.is_run_end_encoded, types.is_string_view, types.is_binary_view),
    *(types.is_list_view, types.is_large_list_view),
)


def shares_values(kind: pa.DataType) -> bool:
    """Whether two rows may hold the same bytes of a batch."""
    if isinstance(kind, pa.BaseExtensionType):
        return shares_values(kind.storage_type)
    inner = (kind.field(number).type for number in range(kind.num_fields))
    return any(applies(kind) for applies in _SHARING) or any(map(shares_values, inner))


def small_slices(batch: pa.RecordBatch, rows: int) -> Iterator[tuple[pa.RecordBatch, int]]:
    """A batch in slices of at most so many rows, as few as fit into memory, each with its bytes."""
    for start in range(0, batch.num_rows, rows):
        part = batch.slice(start, rows)
        sizes = sum((_row_sizes(column) for column in part.columns), np.zeros(len(part), np.int64))
        groups = np.cumsum(sizes) // _MOST
        begins = [0, *(np.flatnonzero(np.diff(groups)) + 1).tolist(), len(part)]
        for begin, end in pairwise(begins):
            yield part.slice(begin, end - begin), int(sizes[begin:end].sum())


def _row_sizes(column: pa.Array) -> NDArray[np.int64]:
    """int64[N]: about how many bytes each value of a valid array has, of runs at most."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return _row_sizes(column.storage)
    if types.is_dictionary(kind):
        places = column.indices.fill_null(0).to_numpy(zero_copy_only=False)
        sizes = np.append(_row_sizes(column.dictionary), 0)
        # A dictionary of views is made as a whole.
        whole = sizes.sum() // max(1, len(column)) if shares_values(kind.value_type) else 0
        return np.asarray(sizes[places] + whole, np.int64)
    if types.is_run_end_encoded(kind):
        return np.full(len(column), _row_sizes(column.values).max(initial=0))
    if types.is_struct(kind):
        fields = (_row_sizes(column.field(number)) for number in range(kind.num_fields))
        return sum(fields, np.full(len(column), _OBJECT))
    if types.is_nested(kind):
        return _list_sizes(column)
    sizes = np.full(len(column), _OBJECT)
    if types.is_string_view(kind) or types.is_binary_view(kind):
        views = np.frombuffer(column.buffers()[1] or b"", np.int32)[::4]
        held = views[column.offset : column.offset + len(column)]
        return sizes + np.where(column.is_valid().to_numpy(zero_copy_only=False), held, 0)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind):
        sizes += pc.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    return sizes


def _list_sizes(column: pa.Array) -> NDArray[np.int64]:
    """As `_row_sizes`, of lists and maps, whose values may overlap."""
    if types.is_fixed_size_list(column.type):
        most = _row_sizes(column.values).max(initial=0)
        return np.full(len(column), _OBJECT + column.type.list_size * most)
    is_map = types.is_map(column.type)
    inner = [column.keys, column.items] if is_map else [column.values]
    ends = np.append(0, np.cumsum(sum(map(_row_sizes, inner))))
    begins = column.offsets.to_numpy()
    lengths = np.diff(begins) if is_map else pc.list_value_length(column).fill_null(0).to_numpy()
    starts = np.minimum(begins[: len(column)], len(ends) - 1)  # that of a null may be any
    stops = np.minimum(starts + lengths, len(ends) - 1)
    return np.asarray(_OBJECT + ends[stops] - ends[starts], np.int64)
