"""Check an Arrow batch whose bytes somebody else wrote, before a value of it is touched.

Arrow follows offsets and indices without looking: wrong ones end the process or show its memory.
"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types

from ingot.converters.errors import translate_read_errors


def is_valid_batch(batch: pa.RecordBatch, number: int, where: str) -> bool:
    """Check all offsets, sizes and indices of a batch. Raises SourceError where one is wrong.

    False where only values break their type: texts that are not UTF-8, times beyond a day.
    """
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:
        with translate_read_errors(where, f"record batch {number} is damaged"):
            batch.validate()  # a negative length would end the process in `view`
            for column in batch.columns:
                _check_layout(column)
        return False
    return True


def text_mask(column: pa.Array) -> NDArray[np.bool_]:
    """bool[N]: whether texts, or byte strings, are UTF-8; null is."""
    cells = column.cast(pa.large_binary())
    try:
        cells.cast(pa.large_string())
    except pa.ArrowInvalid:
        return np.array([is_utf8(cell) for cell in cells.to_pylist()], dtype=bool)
    return np.ones(len(cells), dtype=bool)


def is_utf8(cell: bytes | None) -> bool:
    """Whether bytes are UTF-8; None is."""
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
    plain = next((stored for applies, stored in _STORED if applies(kind)), None)
    if plain is not None:
        return plain
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
