"""Take Arrow cells and stretches of bytes apart, and put them together, by kernels."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ingot.converters.columnar.batch_checks import text_mask
from ingot.converters.recsys.monolith import fid
from ingot.converters.recsys.monolith.line_ids import LISTS, NUMBERS, TEXTS
from ingot.converters.recsys.monolith.record_index import Places, prefix_sums
from ingot.converters.recsys.monolith.tables.schema import line_type
from ingot.converters.recsys.monolith.wire.format_kernels import FIXED32, FIXED64, LENGTH, VARINT
from ingot.converters.recsys.monolith.wire.row_assembly import (
    Spans,
    empty_spans,
    spans_of_numbers,
    spans_of_varints,
)

INT32: Final = (-(1 << 31), (1 << 31) - 1)
UINT32: Final = (0, (1 << 32) - 1)
INT64: Final = (-(1 << 63), (1 << 63) - 1)


@dataclass(frozen=True, kw_only=True)
class Lists:
    """N lists of values, or of lists, which lie one behind the other."""

    valid: NDArray[np.bool_]
    start: Places  # int64[N] where each begins, in values
    stop: Places  # int64[N] where it ends; equal to start where it is null
    values: pa.Array

    def any(self, of_values: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return bool[N]: which lists hold a value that `of_values` marks."""
        if not of_values.any():
            return np.zeros(len(self.start), np.bool_)
        before = prefix_sums(of_values)
        has_marked: NDArray[np.bool_] = before[self.stop] > before[self.start]
        return has_marked


def plain_array(array: pa.Array) -> pa.Array:
    """Return an array without dictionaries, extension types and rare kinds of lists."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return plain_array(array.storage)
    if pa.types.is_dictionary(kind):
        return plain_array(array.dictionary_decode())
    if _is_other_list(kind):
        return array.cast(pa.large_list(kind.value_type))
    return array


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of what `plain_array` returns."""
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    return pa.large_list(kind.value_type) if _is_other_list(kind) else kind


def _is_other_list(kind: pa.DataType) -> bool:
    views = (pa.types.is_list_view, pa.types.is_large_list_view, pa.types.is_fixed_size_list)
    return any(test(kind) for test in views)


def is_list(kind: pa.DataType) -> bool:
    """Return whether a plain type is a list type."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def valid_mask(array: pa.Array) -> NDArray[np.bool_]:
    """Return bool[N]: which values are not null."""
    if not array.null_count:
        return np.ones(len(array), np.bool_)
    valid: NDArray[np.bool_] = array.is_valid().to_numpy(zero_copy_only=False)
    return valid


def column_lists(array: pa.Array) -> Lists:
    """Return the lists of a plain column of lists."""
    offsets = array.offsets.to_numpy().astype(np.int64)
    first, valid = int(offsets[0]) if len(offsets) else 0, valid_mask(array)
    last = int(offsets[-1]) if len(offsets) else 0
    start = offsets[:-1] - first
    stop = np.where(valid, offsets[1:] - first, start)
    values = plain_array(array.values.slice(first, last - first))
    return Lists(valid=valid, start=start, stop=stop, values=values)


def value_lists(array: pa.Array) -> Lists:
    """Return the lists of a plain column, or each of its values as a list of one value."""
    if is_list(array.type):
        return column_lists(array)
    valid, start = valid_mask(array), np.arange(len(array), dtype=np.int64)
    return Lists(valid=valid, start=start, stop=start + valid, values=array)


Numbers = tuple[NDArray[Any], NDArray[np.bool_]]
"""Numbers and which of them are bad: null, or out of range."""


def whole_numbers(array: pa.Array) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return whole numbers as int64 or uint64, and which are null or fit neither."""
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    if pa.types.is_null(array.type):
        array = array.cast(pa.int64())
    null = ~valid_mask(array)
    if pa.types.is_decimal(array.type):
        # Without places behind the point: as Spark has what is uint64 elsewhere.
        integers = [0 if value is None else int(value) for value in array.to_pylist()]
        signed = any(number < 0 for number in integers)
        low, high = INT64 if signed else (0, (1 << 64) - 1)
        is_bad = np.array([not low <= number <= high for number in integers], np.bool_)
        fitting = [0 if wrong else number for number, wrong in zip(integers, is_bad, strict=True)]
        return np.array(fitting, np.int64 if signed else np.uint64), null | is_bad
    numbers = _fill_nulls(array)
    return numbers.astype(np.uint64 if numbers.dtype.kind == "u" else np.int64, copy=False), null


def _fill_nulls(array: pa.Array) -> NDArray[Any]:
    filled = array.fill_null(0) if array.null_count else array
    numbers: NDArray[Any] = filled.to_numpy(zero_copy_only=False)
    return numbers


def numbers_in_range(array: pa.Array, low: int, high: int) -> Numbers:
    """Return whole numbers as int64; those outside of low..high are bad, and 0."""
    numbers, is_bad = whole_numbers(array)
    is_bad = is_bad | (numbers < low) | (numbers > high)
    return np.where(is_bad, 0, numbers).astype(np.int64), is_bad


def float_numbers(array: pa.Array, dtype: type[np.floating[Any]]) -> Numbers:
    """Return numbers as float32 or float64; finite ones that become infinite are bad."""
    null = ~valid_mask(array)
    if pa.types.is_floating(array.type):
        numbers = _fill_nulls(array)
    elif pa.types.is_decimal(array.type):
        numbers = _fill_nulls(array.cast(pa.float64()))
    else:
        numbers, is_bad = whole_numbers(array)
        null = null | is_bad
    with np.errstate(over="ignore"):
        floats = numbers.astype(dtype, copy=False)
    return floats, null | (np.isinf(floats) & np.isfinite(numbers))


def uint64_numbers(array: pa.Array) -> Numbers:
    """Return whole numbers of 64 bits; negative ones stand for their bits."""
    numbers, is_bad = whole_numbers(array)
    return numbers.view(np.uint64), is_bad


def fid_numbers(array: pa.Array) -> Numbers:
    """Return whole numbers below 2^63."""
    numbers, is_bad = numbers_in_range(array, 0, INT64[1])
    return numbers.view(np.uint64), is_bad


def fid_converter(slot: int, version: fid.Version, hashed: bool) -> Callable[[pa.Array], Numbers]:
    """Return a function that makes fids of one slot from values; see `fid.from_values`."""
    bits = fid.BITS[version].signature

    def convert(array: pa.Array) -> Numbers:
        if hashed:
            numbers, is_bad = _hash_values(array, bits)
        else:
            numbers, is_bad = numbers_in_range(array, 0, (1 << bits) - 1)
        fids = np.uint64(slot << bits) | numbers.view(np.uint64)
        return fids, is_bad

    return convert


def _hash_values(array: pa.Array, bits: int) -> Numbers:
    """Hashes of so many bits; a value that comes often is hashed once."""
    null = ~valid_mask(array)
    if pa.types.is_null(array.type):
        return np.zeros(len(array), np.uint64), null
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    if not pa.types.is_integer(array.type) and not pa.types.is_decimal(array.type):
        array = array.cast(pa.large_binary())
    nothing = b"" if pa.types.is_large_binary(array.type) else 0
    encoded = array.fill_null(pa.scalar(nothing, array.type)).dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    distinct = fid.xxh64_hashes(
        [one if isinstance(one, bytes) else str(one).encode() for one in texts]
    )
    signatures = (distinct & np.uint64((1 << bits) - 1))[encoded.indices.to_numpy()]
    return signatures, null


def byte_strings(array: pa.Array) -> tuple[Spans, NDArray[np.bool_]]:
    """Return texts or byte strings as spans, and which are null."""
    null = ~valid_mask(array)
    array = array.cast(pa.large_binary())
    _, offsets, data = array.buffers()
    if data is None or offsets is None:
        return empty_spans(len(array)), null
    bounds = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    start = bounds[:-1]
    stop = np.where(null, start, bounds[1:])
    return Spans(data=np.frombuffer(data, np.uint8), start=start, stop=stop), null


_UNPACKED: Final = "special_strategies"  # the list that is not packed


def encode_line_field(name: str, array: pa.Array) -> tuple[Spans, NDArray[np.bool_]]:
    """Serialize a field of R LineIds with its tag; return the spans, and which are null."""
    array = plain_array(array)
    if pa.types.is_null(array.type):
        array = array.cast(line_type(name))
    if name in LISTS:
        return _encode_list(name, value_lists(array))
    is_given = valid_mask(array)
    if name in TEXTS:
        spans, _ = byte_strings(array)
        return spans.frame_fields(TEXTS[name] << 3 | LENGTH, is_given), ~text_mask(array)
    scalar = NUMBERS[name]
    numbers, is_bad = _field_numbers(name, array)
    tag = scalar.number << 3 | scalar.wire
    spans = spans_of_varints(numbers) if scalar.wire == VARINT else spans_of_numbers(numbers)
    return spans.frame_fields(tag, is_given & ~is_bad, sized=False), is_given & is_bad


def _field_numbers(name: str, array: pa.Array) -> Numbers:
    scalar = NUMBERS[name]
    if scalar.wire == FIXED32:
        return float_numbers(array, np.float32)
    if scalar.wire == FIXED64:
        return uint64_numbers(array)
    if scalar.dtype is np.bool_:
        return numbers_in_range(array, 0, 1)
    return numbers_in_range(array, *(INT32 if scalar.dtype is np.int32 else INT64))


def _encode_list(name: str, lists: Lists) -> tuple[Spans, NDArray[np.bool_]]:
    numbers, is_bad = numbers_in_range(lists.values, *INT32)
    values, number = spans_of_varints(numbers), LISTS[name]
    if name == _UNPACKED:
        values = values.frame_fields(number << 3 | VARINT, sized=False)
        return values.join_between(lists.start, lists.stop), lists.any(is_bad)
    content = values.join_between(lists.start, lists.stop)
    return content.frame_fields(number << 3 | LENGTH, empty=False), lists.any(is_bad)
