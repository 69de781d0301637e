"""Arrow columns as stretches of values, and the values as what messages hold."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ingot.converters.monolith import fid
from ingot.converters.monolith.records import Places
from ingot.converters.monolith.tables.spans import Spans

INT32: Final = (-(1 << 31), (1 << 31) - 1)
UINT32: Final = (0, (1 << 32) - 1)
INT64: Final = (-(1 << 63), (1 << 63) - 1)


@dataclass(frozen=True, kw_only=True)
class Lists:
    """N lists of values, or of lists, which lie one behind the other.

    Attributes:
        valid: bool[N], which are not null.
        start: int64[N] where each begins, in values.
        stop: int64[N] where it ends; equal to start where it is null.
        values: of all of them.
    """

    valid: NDArray[np.bool_]
    start: Places
    stop: Places
    values: pa.Array

    def any(self, of_values: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """bool[N], which lists hold a value of which this is true."""
        if not of_values.any():
            return np.zeros(len(self.start), np.bool_)
        before = np.concatenate([[0], np.cumsum(of_values)])
        found: NDArray[np.bool_] = before[self.stop] > before[self.start]
        return found


def plain(array: pa.Array) -> pa.Array:
    """Without dictionary, extension type, and kinds of lists that few know."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return plain(array.storage)
    if pa.types.is_dictionary(kind):
        return plain(array.dictionary_decode())
    if _is_other_list(kind):
        return array.cast(pa.large_list(kind.value_type))
    return array


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type that `plain` gives."""
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    return pa.large_list(kind.value_type) if _is_other_list(kind) else kind


def _is_other_list(kind: pa.DataType) -> bool:
    views = (pa.types.is_list_view, pa.types.is_large_list_view, pa.types.is_fixed_size_list)
    return any(test(kind) for test in views)


def is_list(kind: pa.DataType) -> bool:
    """Whether a plain type is one of lists."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def valid_of(array: pa.Array) -> NDArray[np.bool_]:
    """bool[N], which values are not null."""
    if not array.null_count:
        return np.ones(len(array), np.bool_)
    valid: NDArray[np.bool_] = array.is_valid().to_numpy(zero_copy_only=False)
    return valid


def lists_of(array: pa.Array) -> Lists:
    """The lists of a plain column of lists."""
    offsets = array.offsets.to_numpy().astype(np.int64)
    first, valid = int(offsets[0]) if len(offsets) else 0, valid_of(array)
    last = int(offsets[-1]) if len(offsets) else 0
    start = offsets[:-1] - first
    stop = np.where(valid, offsets[1:] - first, start)
    values = plain(array.values.slice(first, last - first))
    return Lists(valid=valid, start=start, stop=stop, values=values)


def ones_of(array: pa.Array) -> Lists:
    """Each value of a column that is not null as a list of itself."""
    valid = valid_of(array)
    start = np.arange(len(array), dtype=np.int64)
    return Lists(valid=valid, start=start, stop=start + valid, values=array)


Numbers = tuple[NDArray[Any], NDArray[np.bool_]]
"""Numbers and which of them are bad: null, or out of range."""


def whole(array: pa.Array) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Whole numbers as int64 or uint64, and which are null or fit neither."""
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    if pa.types.is_null(array.type):
        array = array.cast(pa.int64())
    null = ~valid_of(array)
    if pa.types.is_decimal(array.type):
        return _decimals(array, null)
    numbers = _filled(array)
    return numbers.astype(np.uint64 if numbers.dtype.kind == "u" else np.int64, copy=False), null


def _filled(array: pa.Array) -> NDArray[Any]:
    """Numbers, 0 for null."""
    filled = array.fill_null(0) if array.null_count else array
    numbers: NDArray[Any] = filled.to_numpy(zero_copy_only=False)
    return numbers


def _decimals(array: pa.Array, null: NDArray[np.bool_]) -> Numbers:
    """Decimals without places behind the point: as Spark has what is uint64 elsewhere."""
    numbers = [0 if value is None else int(value) for value in array.to_pylist()]
    signed = any(number < 0 for number in numbers)
    low, high = INT64 if signed else (0, (1 << 64) - 1)
    bad = np.array([not low <= number <= high for number in numbers], np.bool_)
    fitting = [0 if wrong else number for number, wrong in zip(numbers, bad, strict=True)]
    return np.array(fitting, np.int64 if signed else np.uint64), null | bad


def in_range(array: pa.Array, low: int, high: int) -> Numbers:
    """Whole numbers as int64, those outside of low..high bad, and 0."""
    numbers, bad = whole(array)
    bad = bad | (numbers < low) | (numbers > high)
    return np.where(bad, 0, numbers).astype(np.int64), bad


def floats(array: pa.Array, dtype: type[np.floating[Any]]) -> Numbers:
    """Numbers as float32 or float64; finite ones that become infinite are bad."""
    null = ~valid_of(array)
    if pa.types.is_floating(array.type):
        numbers = _filled(array)
    elif pa.types.is_decimal(array.type):
        numbers = _filled(array.cast(pa.float64()))
    else:
        numbers, bad = whole(array)
        null = null | bad
    with np.errstate(over="ignore"):
        made = numbers.astype(dtype, copy=False)
    return made, null | (np.isinf(made) & np.isfinite(numbers))


def uint64(array: pa.Array) -> Numbers:
    """Whole numbers of 64 bits; negative ones stand for their bits."""
    numbers, bad = whole(array)
    return numbers.view(np.uint64), bad


def fids_v2(array: pa.Array) -> Numbers:
    """Whole numbers below 2^63."""
    numbers, bad = in_range(array, 0, INT64[1])
    return numbers.view(np.uint64), bad


def fids_in(slot: int, version: fid.Version, hashed: bool) -> Callable[[pa.Array], Numbers]:
    """What makes fids of one slot from values; see `fid.from_values`."""
    bits = fid.BITS[version].signature

    def made(array: pa.Array) -> Numbers:
        if hashed:
            numbers, bad = _hashed(array, bits)
        else:
            numbers, bad = in_range(array, 0, (1 << bits) - 1)
        fids = np.uint64(slot << bits) | numbers.view(np.uint64)
        return fids, bad

    return made


def _hashed(array: pa.Array, bits: int) -> Numbers:
    """Hashes of so many bits; a value that comes often is hashed once."""
    null = ~valid_of(array)
    if pa.types.is_null(array.type):
        return np.zeros(len(array), np.uint64), null
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    if not pa.types.is_integer(array.type) and not pa.types.is_decimal(array.type):
        array = array.cast(pa.large_binary())
    encoded = array.fill_null(pa.scalar(b"" if _is_bytes(array.type) else 0, array.type))
    encoded = encoded.dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    distinct = fid.hashed([one if isinstance(one, bytes) else str(one).encode() for one in texts])
    signatures = (distinct & np.uint64((1 << bits) - 1))[encoded.indices.to_numpy()]
    return signatures, null


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_large_binary(kind))


def byte_strings(array: pa.Array) -> tuple[Spans, NDArray[np.bool_]]:
    """Texts or byte strings as stretches, and which are null."""
    null = ~valid_of(array)
    array = array.cast(pa.large_binary())
    _, offsets, data = array.buffers()
    if data is None or offsets is None:
        nothing = np.zeros(len(array), np.int64)
        return Spans(data=np.zeros(0, np.uint8), start=nothing, stop=nothing), null
    places = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    start = places[:-1]
    stop = np.where(null, start, places[1:])
    return Spans(data=np.frombuffer(data, np.uint8), start=start, stop=stop), null


def text_of(array: pa.Array, at: int) -> str:
    """A value for people, cut."""
    return repr(array[at].as_py())[:100]
