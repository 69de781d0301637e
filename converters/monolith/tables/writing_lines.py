"""LineIds out of columns."""

from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ingot.converters.monolith.line_ids import LISTS, NUMBERS, TEXTS
from ingot.converters.monolith.tables.cells import (
    INT32,
    INT64,
    Lists,
    Numbers,
    byte_strings,
    floats,
    in_range,
    is_list,
    lists_of,
    ones_of,
    plain,
    uint64,
    valid_of,
)
from ingot.converters.monolith.tables.columns import line_type
from ingot.converters.monolith.tables.spans import Spans, of_numbers, of_varints
from ingot.converters.monolith.wire.kernels.varints import FIXED32, FIXED64, LENGTH, VARINT

_UNPACKED: Final = "special_strategies"
"""The list that is not packed."""


def line_field(name: str, array: pa.Array) -> tuple[Spans, NDArray[np.bool_]]:
    """A field of R LineIds, serialized with its tag.

    Args:
        name: of the field.
        array: [R] of a type that `fitting.line_misfit` lets pass.

    Returns:
        R stretches, empty where the field is not given, and which cells do not fit.
    """
    array = plain(array)
    if pa.types.is_null(array.type):
        array = array.cast(line_type(name))
    if name in LISTS:
        return _list(name, lists_of(array) if is_list(array.type) else ones_of(array))
    given = valid_of(array)
    if name in TEXTS:
        spans, _ = byte_strings(array)
        return spans.framed(TEXTS[name] << 3 | LENGTH, given), _no_texts(array)
    scalar = NUMBERS[name]
    numbers, bad = _numbers(name, array)
    tag = scalar.number << 3 | scalar.wire
    spans = of_varints(numbers) if scalar.wire == VARINT else of_numbers(numbers)
    return spans.framed(tag, given & ~bad, sized=False), given & bad


def _no_texts(array: pa.Array) -> NDArray[np.bool_]:
    """bool[R], which texts are no UTF-8: Parquet files may hold anything."""
    bad = np.zeros(len(array), np.bool_)
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        for at, value in enumerate(array.cast(pa.large_binary()).to_pylist()):
            bad[at] = value is not None and not _is_text(value)
    return bad


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _numbers(name: str, array: pa.Array) -> Numbers:
    scalar = NUMBERS[name]
    if scalar.wire == FIXED32:
        return floats(array, np.float32)
    if scalar.wire == FIXED64:
        return uint64(array)
    if scalar.dtype is np.bool_:
        return in_range(array, 0, 1)
    return in_range(array, *(INT32 if scalar.dtype is np.int32 else INT64))


def _list(name: str, lists: Lists) -> tuple[Spans, NDArray[np.bool_]]:
    numbers, bad = in_range(lists.values, *INT32)
    values, number = of_varints(numbers), LISTS[name]
    if name == _UNPACKED:
        values = values.framed(number << 3 | VARINT, sized=False)
        return values.between(lists.start, lists.stop), lists.any(bad)
    content = values.between(lists.start, lists.stop)
    return content.framed(number << 3 | LENGTH, empty=False), lists.any(bad)
