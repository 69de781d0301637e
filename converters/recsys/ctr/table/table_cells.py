"""Cells of a plain table to labels, texts and raw tokens, whole columns at a time."""

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ingot.converters.columnar.batch_checks import text_mask
from ingot.converters.errors import SourceError
from ingot.converters.sources.formats.arrow import storage_array, time_text_array, value_converter

MALFORMED: Final = ("no_id", "no_value", "bad_number", "not_utf8")
"""Why a token is dropped: no separator before its id, none before its value, a value that is no
number, bytes that are no UTF-8."""


@dataclass(frozen=True, kw_only=True)
class Reject:
    """A row that is not written."""

    file: str
    row: int  # its number from 0 in the file
    reason: str
    found: str


@dataclass(frozen=True, kw_only=True)
class RawTokens:
    """The tokens of one field over n rows, in the rows' order, as the data has them."""

    offsets: NDArray[np.int32]  # int32[n + 1]; row i has tokens offsets[i]:offsets[i + 1]
    tokens: pa.LargeBinaryArray  # Arrow large_binary[m], the token texts in UTF-8
    values: NDArray[np.float32]  # float32[m], finite; what was NaN or infinite is 0.0
    # tokens that were dropped by reason, and values that were `not_finite`
    counts: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, kw_only=True)
class RawBlock:
    """Rows of a table."""

    rows: NDArray[np.int64]  # int64[n], the numbers of the rows in the file, from 0
    clicks: NDArray[np.uint8]  # uint8[n], 0 or 1
    purchases: NDArray[np.uint8]  # uint8[n], 0 or 1
    entities: pa.LargeBinaryArray  # Arrow large_binary[n], UTF-8
    # uint64[n], a hash of each sample's id, or None where there is none
    samples: NDArray[np.uint64] | None
    tokens: tuple[RawTokens, ...]
    kinds: dict[str, str]  # the `cell_kind` of each column of tokens
    rejects: tuple[Reject, ...] = ()

    @property
    def counts(self) -> Counter[str]:
        """Return the counts of all tokens."""
        return sum((one.counts for one in self.tokens), Counter[str]())


FALSE: Final = (b"0", b"0.0", b"false", b"False", b"FALSE")
TRUE: Final = (b"1", b"1.0", b"true", b"True", b"TRUE")
_LISTS: Final = (
    *(pa.types.is_list, pa.types.is_large_list),
    *(pa.types.is_fixed_size_list, pa.types.is_map),
)
_BYTES: Final = (
    *(pa.types.is_string, pa.types.is_large_string, pa.types.is_binary),
    *(pa.types.is_large_binary, pa.types.is_fixed_size_binary),
)
_IDS: Final = ("token", "id", "key")
_VALUES: Final = ("value", "weight", "score")
_EXACT = 1 << 53  # below it a float is a whole number exactly, and JSON writes it without exponent
_NUMERALS: Final = np.zeros(256, dtype=bool)
_NUMERALS[list(b"0123456789+-.eE")] = True


@dataclass(frozen=True, kw_only=True)
class CellFormat:
    """How the cells of a column become tokens."""

    many: bool = False
    valued: bool = False
    token_separator: bytes = b","
    value_separator: bytes = b":"
    missing: tuple[bytes, ...] = (b"",)


_KINDS: Final = (
    *(("text", one) for one in _BYTES),
    ("integer", pa.types.is_integer),
    ("float", pa.types.is_floating),
    ("time", pa.types.is_temporal),
)


def cell_kind(kind: pa.DataType) -> str:
    """Return the kind of a type, which decides how tokens in its cells are spelled."""
    if pa.types.is_dictionary(kind):
        return cell_kind(kind.value_type)
    if pa.types.is_nested(kind) and kind.num_fields == 1:
        inner = kind.key_type if pa.types.is_map(kind) else kind.field(0).type
        return cell_kind(inner)
    return next((name for name, applies in _KINDS if applies(kind)), str(kind))


def cell_texts(column: pa.Array, location: str) -> pa.LargeBinaryArray:
    """Return the cells as text in UTF-8, null where a cell is empty."""
    column = storage_array(column)
    kind = column.type
    if any(is_kind(kind) for is_kind in _BYTES):
        return column.cast(pa.large_binary())
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return column.cast(pa.large_string()).cast(pa.large_binary())
    if pa.types.is_floating(kind):
        return _float_texts(column)
    if pa.types.is_nested(kind):
        problem, hint = f"cells of type {kind} cannot be tokens", "leave the column out"
        raise SourceError(location, problem, hint)
    if pa.types.is_temporal(kind):
        return time_text_array(column).cast(pa.large_binary())
    convert = value_converter(kind)

    def spell(cell: pa.Scalar) -> str:
        value = convert(cell.as_py())
        return value if isinstance(value, str) else json.dumps(value)

    known = column.is_valid().to_numpy(zero_copy_only=False)
    return _distinct_texts(column.drop_null(), known, spell)


def _float_texts(column: pa.Array) -> pa.LargeBinaryArray:
    """Floats as JSON writes them: whole ones at once, the others once for each number."""
    numbers = column.to_numpy(zero_copy_only=False).astype(np.float64)
    known = ~np.isnan(numbers)
    bounded = np.where(known & (np.abs(numbers) < _EXACT), numbers, 0.5)
    is_integer = bounded == np.floor(bounded)
    is_integer &= ~(np.signbit(bounded) & (bounded == 0))  # -0.0 is none
    if not is_integer[known].all():
        return _distinct_texts(column.filter(pa.array(known)), known, _float_text)
    digits = pa.array(bounded.astype(np.int64), mask=~known).cast(pa.large_string())
    ending = pa.scalar(".0", pa.large_string())
    return pc.binary_join_element_wise(digits, ending, pa.scalar("", pa.large_string())).cast(
        pa.large_binary()
    )


def _float_text(number: pa.Scalar) -> str:
    """The shortest text that reads as the number, in its own width; all digits of a whole one."""
    kind, value = number.type, number.as_py()
    if value.is_integer() and abs(value) < _EXACT:  # as a column of whole numbers has it
        return json.dumps(float(value))
    if pa.types.is_float32(kind) or pa.types.is_float16(kind):
        narrow = np.float32 if pa.types.is_float32(kind) else np.float16
        value = float(str(narrow(value)))
    return json.dumps(value)


def _distinct_texts(
    cells: pa.Array,
    known: NDArray[np.bool_],
    spell: Any,  # noqa: ANN401 - scalar to text
) -> pa.LargeBinaryArray:
    """Texts made once for each distinct cell, null where nothing is `known`."""
    coded = cells.dictionary_encode()
    words = pa.array([spell(one).encode() for one in coded.dictionary], pa.large_binary())
    codes = np.zeros(len(known), dtype=np.int64)
    codes[known] = coded.indices.to_numpy()
    return words.take(pa.array(codes, mask=~known))


def read_labels(column: pa.Array, location: str) -> NDArray[np.int8]:
    """Return int8[n]: 0, 1, or -1 where a cell is neither."""
    cells = cell_texts(column, location)
    out = np.full(len(cells), -1, dtype=np.int8)
    for label, spellings in enumerate((FALSE, TRUE)):
        out[is_among(cells, spellings)] = label
    return out


def is_among(cells: pa.LargeBinaryArray, texts: tuple[bytes, ...]) -> NDArray[np.bool_]:
    """Return bool[n]: whether a cell is one of the texts; null is not."""
    matches = pc.is_in(cells, value_set=pa.array(texts, pa.large_binary()))
    return cast("NDArray[np.bool_]", matches.to_numpy(zero_copy_only=False))


@dataclass(frozen=True, kw_only=True)
class _FoundTokens:
    """Tokens with the row of each: parents int64[m], ids [m], numbers [m] or None."""

    parents: NDArray[np.int64]
    ids: pa.LargeBinaryArray
    numbers: NDArray[np.float64] | None = None

    def where(self, mask: NDArray[np.bool_]) -> "_FoundTokens":
        if mask.all():
            return self
        numbers = None if self.numbers is None else self.numbers[mask]
        ids = self.ids.filter(pa.array(mask))
        return _FoundTokens(parents=self.parents[mask], ids=ids, numbers=numbers)


def read_tokens(column: pa.Array, cell_format: CellFormat, location: str) -> RawTokens:
    """Read the tokens of n cells.

    A list's elements are tokens, or objects of a token and its value (`token`, `id` or `key`, and
    `value`, `weight` or `score`), or the entries of a map. A text is one token, or, with `many`,
    those between its separators; null and empty elements are none. With `valued` a token ends at
    its last value separator; one without is dropped from a list (`no_value`) and has the value 1.0
    alone. Nothing is stripped.
    """
    column, dropped = storage_array(column), Counter[str]()
    is_list = any(is_kind(column.type) for is_kind in _LISTS)
    if is_list:
        tokens = _list_tokens(column, cell_format, location, dropped)
    else:
        tokens = _text_tokens(cell_texts(column, location), cell_format)
    if cell_format.valued and tokens.numbers is None:
        tokens = _split_values(tokens, cell_format, not (is_list or cell_format.many), dropped)
    good = text_mask(tokens.ids)
    dropped["not_utf8"] += int((~good).sum())
    tokens = tokens.where(good)
    offsets = np.zeros(len(column) + 1, dtype=np.int32)
    np.cumsum(np.bincount(tokens.parents, minlength=len(column)), out=offsets[1:])
    values = np.ones(len(tokens.parents), dtype=np.float32)
    if tokens.numbers is not None:
        values, dropped["not_finite"] = round_to_finite(tokens.numbers)
    return RawTokens(offsets=offsets, tokens=tokens.ids, values=values, counts=dropped)


def round_to_finite(numbers: NDArray[np.float64]) -> tuple[NDArray[np.float32], int]:
    """Round numbers to float32; NaN or infinite ones become 0.0 and are counted."""
    with np.errstate(over="ignore"):
        values = numbers.astype(np.float32)
    nonfinite = ~np.isfinite(values)
    values[nonfinite] = 0.0
    return values, int(nonfinite.sum())


def _text_tokens(cells: pa.LargeBinaryArray, cell_format: CellFormat) -> _FoundTokens:
    is_filled = cells.is_valid().to_numpy(zero_copy_only=False) & ~is_among(
        cells, cell_format.missing
    )
    rows = np.flatnonzero(is_filled)
    filled = cells.filter(pa.array(is_filled))
    if not cell_format.many:
        return _FoundTokens(parents=rows, ids=filled)
    lists = pc.split_pattern(filled, cell_format.token_separator)
    tokens = _FoundTokens(parents=rows[_parent_rows(lists)], ids=lists.flatten())
    return tokens.where(_byte_lengths(tokens.ids) > 0)


def _parent_rows(lists: pa.Array) -> NDArray[np.int64]:
    """int64[m]: the row of each element that `flatten` gives; null lists have none."""
    sizes = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
    return np.repeat(np.arange(len(lists), dtype=np.int64), sizes)


def _byte_lengths(ids: pa.LargeBinaryArray) -> NDArray[np.int64]:
    lengths = pc.binary_length(ids).to_numpy(zero_copy_only=False)
    return cast("NDArray[np.int64]", lengths.astype(np.int64))


def _list_tokens(
    column: pa.Array, cell_format: CellFormat, location: str, dropped: Counter[str]
) -> _FoundTokens:
    """The tokens of lists, and their values where the elements are objects."""
    kind = column.type
    if pa.types.is_map(kind):
        entry_type = pa.struct([pa.field("key", kind.key_type), pa.field("value", kind.item_type)])
        column = column.cast(pa.list_(entry_type))
    elif pa.types.is_fixed_size_list(kind):
        column = column.cast(pa.list_(kind.value_type))
    parents, inner = _parent_rows(column), storage_array(column.flatten())
    if not pa.types.is_struct(inner.type):
        ids = cell_texts(inner, location)
        return _FoundTokens(parents=parents, ids=ids).where(_byte_lengths(ids.fill_null(b"")) > 0)
    names = [field.name for field in inner.type]
    id_name = next((name for name in _IDS if name in names), None)
    value_name = next((name for name in _VALUES if name in names), None)
    if id_name is None or value_name is None:
        names_text = f"one of {', '.join(_IDS)} and one of {', '.join(_VALUES)}"
        problem = f"objects with {', '.join(names) or 'no fields'} cannot be tokens"
        raise SourceError(location, problem, f"name the fields {names_text}")
    # A null object's fields may hold anything: `StructArray.field` does not look at it.
    ids = cell_texts(pc.struct_field(inner, id_name), location)
    has_id = _byte_lengths(ids.fill_null(b"")) > 0
    tokens = _FoundTokens(parents=parents, ids=ids).where(has_id)
    if not cell_format.valued:
        return tokens
    values = cell_texts(pc.struct_field(inner, value_name), location).filter(pa.array(has_id))
    return _with_numbers(tokens, values, dropped)


def _with_numbers(
    tokens: _FoundTokens, values: pa.LargeBinaryArray, dropped: Counter[str]
) -> _FoundTokens:
    """The tokens with their values; those without one, or whose is no number, are dropped."""
    has_value = values.is_valid().to_numpy(zero_copy_only=False)
    dropped["no_value"] += int((~has_value).sum())
    tokens, values = tokens.where(has_value), values.filter(pa.array(has_value))
    numbers, good = read_numbers(values)
    dropped["bad_number"] += int((~good).sum())
    return _FoundTokens(parents=tokens.parents, ids=tokens.ids, numbers=numbers).where(good)


def _split_values(
    tokens: _FoundTokens, cell_format: CellFormat, alone: bool, dropped: Counter[str]
) -> _FoundTokens:
    pairs = pc.split_pattern(tokens.ids, cell_format.value_separator, max_splits=1, reverse=True)
    parts = pairs.flatten()
    sizes = pc.list_value_length(pairs).to_numpy(zero_copy_only=False).astype(np.int64)
    starts = np.cumsum(sizes) - sizes
    has_both = sizes == 2
    if alone:
        values = pa.array(np.where(has_both, starts + 1, 0), mask=~has_both)
        cut = _FoundTokens(parents=tokens.parents, ids=parts.take(pa.array(starts)))
        return _with_numbers(cut, parts.take(values).fill_null(b"1"), dropped)
    dropped["no_value"] += int((~has_both).sum())
    cut = _FoundTokens(parents=tokens.parents[has_both], ids=parts.take(pa.array(starts[has_both])))
    return _with_numbers(cut, parts.take(pa.array(starts[has_both] + 1)), dropped)


def read_numbers(cells: pa.LargeBinaryArray) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Read texts as numbers as Python's `float()` does."""
    if _are_plain_numbers(cells):
        try:
            numbers = cells.cast(pa.large_string()).cast(pa.float64())
            return numbers.to_numpy(zero_copy_only=False).copy(), np.ones(len(cells), dtype=bool)
        except pa.ArrowInvalid:
            pass
    coded = cells.dictionary_encode()
    read = [_parse_number(text) for text in coded.dictionary.to_pylist()]
    values = np.array([number or 0.0 for number in read], dtype=np.float64)
    known = np.array([number is not None for number in read], dtype=bool)
    codes = coded.indices.to_numpy()
    return values[codes], known[codes]


def _parse_number(text: bytes) -> float | None:
    try:
        return float(text.decode())
    except ValueError:
        return None


def _are_plain_numbers(cells: pa.LargeBinaryArray) -> bool:
    """Whether only digits, signs, points and exponents occur: there Arrow reads as Python does."""
    if not len(cells):
        return True
    first, last = np.frombuffer(cells.buffers()[1], dtype=np.int64)[
        [cells.offset, cells.offset + len(cells)]
    ]
    data = cells.buffers()[2]
    if data is None:
        return False
    return bool(_NUMERALS[np.frombuffer(data, dtype=np.uint8)[first:last]].all())
