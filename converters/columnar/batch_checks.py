"""Check an Arrow batch whose bytes somebody else wrote, before a value of it is touched.

Arrow follows offsets and indices without looking: wrong ones end the process or show its memory.
A dictionary, runs and views name a value as often as they like: a small batch becomes rows of any
size.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import types

from ingot.converters.errors import translate_read_errors


def is_valid_batch(batch: pa.RecordBatch, number: int, path: str) -> bool:
    """Check all offsets, sizes and indices of a batch. Raises SourceError if one is wrong.

    False where only values break their type: texts that are not UTF-8, times beyond a day.
    """
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:
        with translate_read_errors(path, f"record batch {number} is damaged"):
            batch.validate()  # a negative length would end the process in `view`
            for column in batch.columns:
                _check_layout(column)
        return False
    return True


def text_mask(column: pa.Array) -> NDArray[np.bool_]:
    """Return bool[N]: whether each text or byte string is valid UTF-8; null counts as valid."""
    cells = column.cast(pa.large_binary())
    try:
        cells.cast(pa.large_string())
    except pa.ArrowInvalid:
        return np.array([is_utf8(cell) for cell in cells.to_pylist()], dtype=bool)
    return np.ones(len(cells), dtype=bool)


def is_utf8(cell: bytes | None) -> bool:
    """Return whether bytes are UTF-8; None is."""
    try:
        (cell or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


def _check_layout(column: pa.Array) -> None:
    """Validate an array as the bytes and numbers that its values are stored as."""
    if isinstance(column.type, pa.BaseExtensionType):
        _check_layout(column.storage)
    elif types.is_dictionary(column.type):
        _check_layout(column.dictionary)
        values = pa.nulls(len(column.dictionary))
        pa.DictionaryArray.from_arrays(column.indices, values).validate(full=True)
    else:
        column.view(_stored_type(column.type)).validate(full=True)


def _stored_type(kind: pa.DataType) -> pa.DataType:
    """The type of the same layout whose values cannot be wrong."""
    stored_type = next((stored for applies, stored in _STORED if applies(kind)), None)
    if stored_type is not None:
        return stored_type
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        inner = kind.value_field.with_type(_stored_type(kind.value_type))
        if types.is_fixed_size_list(kind):
            return pa.list_(inner, kind.list_size)
        return pa.large_list(inner) if types.is_large_list(kind) else pa.list_(inner)
    if types.is_struct(kind):
        return pa.struct([field.with_type(_stored_type(field.type)) for field in kind])
    if types.is_map(kind):
        key = kind.key_field.with_type(_stored_type(kind.key_type))
        return pa.map_(key, kind.item_field.with_type(_stored_type(kind.item_type)))
    return kind


_STORED = (
    (types.is_string, pa.binary()),
    (types.is_large_string, pa.large_binary()),
    (types.is_string_view, pa.binary_view()),
    (types.is_decimal128, pa.binary(16)),
    (types.is_decimal256, pa.binary(32)),
    (types.is_time32, pa.int32()),
    (lambda kind: types.is_time64(kind) or types.is_date64(kind), pa.int64()),
)


# --- the size of rows

_OBJECT: Final = 64  # bytes that a value needs beside its own
_MOST: Final = 32 << 20  # bytes of the rows that are made together
_SHARING: Final = (
    *(types.is_dictionary, types.is_run_end_encoded, types.is_string_view, types.is_binary_view),
    *(types.is_list_view, types.is_large_list_view),
)


def shares_values(kind: pa.DataType) -> bool:
    """Return whether two rows may hold the same bytes of a batch."""
    if isinstance(kind, pa.BaseExtensionType):
        return shares_values(kind.storage_type)
    inner = (kind.field(number).type for number in range(kind.num_fields))
    return any(applies(kind) for applies in _SHARING) or any(map(shares_values, inner))


def small_slices(batch: pa.RecordBatch, rows: int) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield a batch in slices that fit into memory, each with its bytes."""
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
        indices = column.indices.fill_null(0).to_numpy(zero_copy_only=False)
        sizes = np.append(_row_sizes(column.dictionary), 0)
        # A dictionary of views is made as a whole.
        dictionary_size = (
            sizes.sum() // max(1, len(column)) if shares_values(kind.value_type) else 0
        )
        return np.asarray(sizes[indices] + dictionary_size, np.int64)
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
        lengths = views[column.offset : column.offset + len(column)]
        return sizes + np.where(column.is_valid().to_numpy(zero_copy_only=False), lengths, 0)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind):
        sizes += pc.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    return sizes


def _list_sizes(column: pa.Array) -> NDArray[np.int64]:
    """As `_row_sizes`, of lists and maps, whose values may overlap."""
    if types.is_fixed_size_list(column.type):
        longest = _row_sizes(column.values).max(initial=0)
        return np.full(len(column), _OBJECT + column.type.list_size * longest)
    is_map = types.is_map(column.type)
    inner = [column.keys, column.items] if is_map else [column.values]
    offsets = np.append(0, np.cumsum(sum(map(_row_sizes, inner))))
    begins = column.offsets.to_numpy()
    lengths = np.diff(begins) if is_map else pc.list_value_length(column).fill_null(0).to_numpy()
    starts = np.minimum(begins[: len(column)], len(offsets) - 1)  # that of a null may be any
    stops = np.minimum(starts + lengths, len(offsets) - 1)
    return np.asarray(_OBJECT + offsets[stops] - offsets[starts], np.int64)
