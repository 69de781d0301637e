"""Arrow columns to JSON values, and to the plain Arrow columns that mean the same.

Times become ISO 8601 text, decimals exact numbers (text where a float would not be exact), binary
its UTF-8 text, dictionaries their values, maps objects; numbers that are not finite become null, as
JSON has none and they stand for missing values in columnar files.
"""

import datetime as dt
import json
import math
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import partial
from typing import Any, overload

import pyarrow as pa

from ingot.converters.rows import Json
from ingot.converters.sources.formats.row_chunks import (
    BrokenRow,
    parse_counted,
    row_excerpt,
    rows_of_columns,
)

ValueConverter = Callable[[Any], Json]

_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_EPOCH = dt.datetime(1970, 1, 1)
_DAY_0 = dt.date(1970, 1, 1)
_DAYS = -719_162, 2_932_897  # from 1970 to the first day of the years 1 and 10000


class NotTextError(Exception):
    """Binary that is no UTF-8; its text is the start of it."""


def batch_rows(
    batch: pa.RecordBatch, names: Sequence[str]
) -> tuple[list[Json], pa.RecordBatch | None]:
    """Return the rows of a batch as objects, and the batch in plain types (None if it has none)."""
    converted = [_column_values(column) for column in batch.columns]
    columns = [values for values, _ in converted]
    rows = rows_of_columns(names, columns) if columns else [{} for _ in range(batch.num_rows)]
    if any(BrokenRow in {*map(type, values)} for values in columns):
        rows = [next((v for v in row.values() if type(v) is BrokenRow), row) for row in rows]
    arrays = [array for _, array in converted]
    if not arrays or any(array is None for array in arrays):
        return rows, None
    return rows, pa.RecordBatch.from_arrays(arrays, names=list(names))


def _column_values(column: pa.Array) -> tuple[list[Json], pa.Array | None]:
    """A column as JSON values and as a plain Arrow array of the same values."""
    column = storage_array(column)
    kind = column.type
    if _is_json_native(kind):
        return _text_values(column), column
    if pa.types.is_floating(kind):
        column = finite_numbers(column)
    elif pa.types.is_temporal(kind):
        column = time_text_array(column)
    else:
        return _converted_values(column), None
    return column.to_pylist(), column


def _converted_values(column: pa.Array) -> list[Json]:
    convert = value_converter(column.type)
    return [_convert_value(value, convert) for value in _python_values(column)]


def finite_numbers(column: pa.Array) -> pa.Array:
    """Return a column of floats as doubles, null in the place of those that are not finite."""
    import pyarrow.compute as pc

    wide = column.cast(pa.float64())
    return pc.if_else(pc.is_finite(wide), wide, pa.scalar(None, pa.float64()))


def time_text_array(column: pa.Array) -> pa.Array:
    """Return a column of times, dates or durations as the texts that the rows have."""
    import pyarrow.compute as pc

    kind, is_date = column.type, pa.types.is_date32(column.type)
    if is_date or pa.types.is_timestamp(kind):
        counts = column.cast(pa.int32() if is_date else pa.int64())
        ends, per_day = pc.min_max(counts).as_py(), 1 if is_date else 86_400 * _UNITS[kind.unit]
        first, last = (day * per_day for day in _DAYS)
        # In these years Arrow, which is quicker, writes what Python does.
        if ends["min"] is not None and first <= ends["min"] and ends["max"] < last:
            texts = counts.cast(kind if is_date else pa.timestamp(kind.unit)).cast(pa.string())
            texts = texts if is_date else pc.binary_replace_slice(texts, 10, 11, "T")
            if not is_date and kind.unit != "s":
                texts = pc.ascii_rtrim(pc.ascii_rtrim(texts, "0"), ".")
            has_zone = not is_date and kind.tz
            return pc.binary_join_element_wise(texts, "+00:00", "") if has_zone else texts
    return pa.array(_converted_values(column), pa.string())


def storage_array(column: pa.Array) -> pa.Array:
    """Without extension types, dictionaries, run ends and views at the top."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return storage_array(column.storage)
    if pa.types.is_dictionary(kind):
        return storage_array(column.dictionary).take(column.indices)  # Arrow decodes no views
    if pa.types.is_run_end_encoded(kind):
        import pyarrow.compute as pc

        return storage_array(pc.run_end_decode(column))
    if pa.types.is_string_view(kind):
        return column.cast(pa.large_string())
    return column.cast(pa.large_binary()) if pa.types.is_binary_view(kind) else column


def _is_json_native(kind: pa.DataType) -> bool:
    """Types whose Python form is JSON already, all the way down."""
    types = pa.types
    if _is_list_type(kind):
        return _is_json_native(kind.value_type)
    if types.is_struct(kind):
        return _has_unique_names(kind) and all(_is_json_native(child.type) for child in kind)
    text = types.is_string(kind) or types.is_large_string(kind)
    return bool(text or types.is_integer(kind) or types.is_boolean(kind) or types.is_null(kind))


def _text_values(column: pa.Array) -> list[Json]:
    try:
        return column.to_pylist()  # type: ignore[no-any-return]
    except UnicodeDecodeError:
        return [_scalar_text(scalar) for scalar in column]


def _scalar_text(scalar: pa.Scalar) -> Json:
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        return BrokenRow("text that is not valid UTF-8", "")


def _python_values(column: pa.Array) -> list[Any]:
    """Python values, times as the integers that Arrow stores (its own form needs pandas)."""
    plain = _integer_time_type(column.type)
    return (column if plain == column.type else column.cast(plain)).to_pylist()  # type: ignore[no-any-return]


def _integer_time_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return pa.int32() if pa.types.is_time32(kind) or pa.types.is_date32(kind) else pa.int64()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_integer_time_type(field.type)) for field in kind])
    if _is_list_type(kind):
        make = pa.large_list if pa.types.is_large_list(kind) else pa.list_
        return make(kind.value_field.with_type(_integer_time_type(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, kind.item_field.with_type(_integer_time_type(kind.item_type)))
    return kind


def _convert_value(value: Any, convert: ValueConverter) -> Json:  # noqa: ANN401 - Arrow's Python values
    try:
        return None if value is None else convert(value)
    except NotTextError as error:
        return BrokenRow("binary that is no UTF-8 text", str(error))


def value_converter(kind: pa.DataType) -> ValueConverter:
    """Return the function from Arrow's Python value (not None) to the JSON value."""
    while (wrapped := _wrapped_type(kind)) is not None:
        kind = wrapped
    return next((make(kind) for applies, make in _CONVERTERS if applies(kind)), str)


def _nullable_converter(kind: pa.DataType) -> ValueConverter:
    convert = value_converter(kind)
    return lambda value: None if value is None else convert(value)


def _list_converter(kind: pa.DataType) -> ValueConverter:
    inner = _nullable_converter(kind.value_type)
    return lambda value: [inner(item) for item in value]


def _struct_converter(kind: pa.DataType) -> ValueConverter:
    inner = {field.name: _nullable_converter(field.type) for field in kind}
    return lambda value: {name: inner[name](item) for name, item in value.items()}


def _map_converter(kind: pa.DataType) -> ValueConverter:
    key, item = value_converter(kind.key_type), _nullable_converter(kind.item_type)
    return lambda value: {str(key(name)): item(held) for name, held in value}


def binary_text(value: bytes) -> str:
    """Return the text of binary. Raises NotTextError."""
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise NotTextError(row_excerpt(value)) from error


def to_json_row(
    value: Any,  # noqa: ANN401 - of any package
    convert: ValueConverter = binary_text,  # takes what JSON does not have
) -> tuple[Json, int]:
    """Return a package's value as JSON, and how many numbers became null.

    A value without a JSON form gives `BrokenRow`.
    """
    try:
        return parse_counted(json.dumps(value, default=convert, ensure_ascii=False).encode())
    except NotTextError as error:
        return BrokenRow("binary that is no UTF-8 text", str(error)), 0
    except UnicodeEncodeError:
        return BrokenRow("text that is not valid UTF-8", ""), 0
    except (ValueError, TypeError, RecursionError) as error:
        return BrokenRow(f"no JSON value: {error}"[:200], ""), 0


def exact_number(value: Decimal) -> Json:
    """Return a decimal as an integer, as a float where that is the same number, else as text."""
    if value == value.to_integral_value():
        return int(value)
    return float(value) if Decimal(repr(float(value))) == value else format(value, "f")


def _iso_time(value: int, per_second: int, suffix: str) -> str:
    """ISO 8601 text of a time counted from 1970 (UTC where `suffix` says so)."""
    seconds, part = divmod(value, per_second)
    try:
        text = (_EPOCH + dt.timedelta(seconds=seconds)).isoformat()
    except OverflowError:
        return str(value)
    return f"{text}{_fraction_text(part, per_second)}{suffix}"


def _iso_date(value: int | dt.date, per_day: int) -> str:
    """ISO 8601 text of a date; keys of maps and values of inner dictionaries are dates already."""
    try:
        day = value if isinstance(value, dt.date) else _DAY_0 + dt.timedelta(value // per_day)
    except OverflowError:
        return str(value)
    return day.isoformat()


def _fraction_text(part: int, per_second: int) -> str:
    return f".{part:0{len(str(per_second)) - 1}d}".rstrip("0") if part else ""


def _clock_text(value: int, per_second: int) -> str:
    seconds, part = divmod(value, per_second)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return clock + _fraction_text(part, per_second)


def duration_text(value: int, per_second: int) -> str:
    """ISO 8601 text of a duration."""
    seconds, part = divmod(abs(value), per_second)
    return f"{'-' if value < 0 else ''}PT{seconds}{_fraction_text(part, per_second)}S"


def _is_binary_type(kind: pa.DataType) -> bool:
    types = pa.types
    plain = types.is_binary(kind) or types.is_large_binary(kind)
    return bool(plain or types.is_fixed_size_binary(kind) or types.is_binary_view(kind))


def _is_list_type(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _wrapped_type(kind: pa.DataType) -> pa.DataType | None:
    """The type of the values of an extension type, a dictionary or run ends."""
    if isinstance(kind, pa.BaseExtensionType):
        return kind.storage_type
    encoded = pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind)
    return kind.value_type if encoded else None


_CONVERTERS: tuple[
    tuple[Callable[[pa.DataType], object], Callable[[pa.DataType], ValueConverter]], ...
] = (
    (_is_json_native, lambda _: lambda value: value),
    (pa.types.is_string_view, lambda _: lambda value: value),
    (pa.types.is_floating, lambda _: lambda value: value if math.isfinite(value) else None),
    (
        lambda kind: _wrapped_type(kind) is not None,
        lambda kind: value_converter(_wrapped_type(kind)),
    ),
    (_is_list_type, _list_converter),
    (
        lambda kind: pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind),
        _list_converter,
    ),
    (pa.types.is_struct, _struct_converter),
    (pa.types.is_map, _map_converter),
    (_is_binary_type, lambda _: binary_text),
    (pa.types.is_decimal, lambda _: exact_number),
    (
        pa.types.is_timestamp,
        lambda kind: partial(
            _iso_time, per_second=_UNITS[kind.unit], suffix="+00:00" if kind.tz else ""
        ),
    ),
    (pa.types.is_time, lambda kind: partial(_clock_text, per_second=_UNITS[kind.unit])),
    (pa.types.is_duration, lambda kind: partial(duration_text, per_second=_UNITS[kind.unit])),
    (
        pa.types.is_date,
        lambda kind: partial(_iso_date, per_day=86_400_000 if pa.types.is_date64(kind) else 1),
    ),
)


class ArrowRows(Sequence[Json]):
    """The rows of a batch none of which can be broken, made on the first look."""

    def __init__(self, batch: pa.RecordBatch, names: Sequence[str]) -> None:
        self._batch = batch
        self._names = names
        self._values: list[Json] | None = None

    def __len__(self) -> int:
        return int(self._batch.num_rows)

    @overload
    def __getitem__(self, place: int) -> Json: ...
    @overload
    def __getitem__(self, place: slice) -> "ArrowRows": ...
    def __getitem__(self, place: int | slice) -> Json:
        if isinstance(place, int):
            return self._all_rows()[place]
        start, stop, step = place.indices(len(self))
        if step != 1:
            raise ValueError("rows are sliced without gaps")
        return ArrowRows(self._batch.slice(start, max(0, stop - start)), self._names)

    def __iter__(self) -> Iterator[Json]:
        return iter(self._all_rows())

    def take(self, places: Sequence[int]) -> list[Json]:
        """Return some of the rows; only these are made."""
        return batch_rows(self._batch.take(pa.array(places, pa.int64())), self._names)[0]

    def _all_rows(self) -> list[Json]:
        if self._values is None:
            self._values = batch_rows(self._batch, self._names)[0]
        return self._values


def make_lazy_rows(
    batch: pa.RecordBatch, names: Sequence[str], *, valid: bool = False
) -> tuple[ArrowRows, pa.RecordBatch] | None:
    """Return the rows of a batch, made when needed, and the batch itself without extension types.

    None if a row may be broken (a text that is not UTF-8, binary columns), and for views inside
    other types, of which Arrow cannot yet take rows.
    """
    columns = [storage_array(column) for column in batch.columns]
    if not columns or not all(_is_json_type(column.type) for column in columns):
        return None
    try:
        table = pa.RecordBatch.from_arrays(columns, names=list(names))
        if not valid:
            table.validate(full=True)
    except pa.ArrowInvalid:  # texts that are no UTF-8, for one: `batch_rows` says where
        return None
    return ArrowRows(table, names), table


def _is_json_type(kind: pa.DataType) -> bool:
    """Types whose every value, if it is valid Arrow, is a JSON value: all but binary and views."""
    types = pa.types
    if (wrapped := _wrapped_type(kind)) is not None:
        return _is_json_type(wrapped)
    if types.is_struct(kind):
        return _has_unique_names(kind) and all(_is_json_type(child.type) for child in kind)
    if types.is_map(kind):
        return _is_json_type(kind.key_type) and _is_json_type(kind.item_type)
    if _is_list_type(kind):
        return _is_json_type(kind.value_type)
    text = types.is_string(kind) or types.is_large_string(kind)
    return bool(text or types.is_primitive(kind) or types.is_null(kind) or types.is_decimal(kind))


def _has_unique_names(kind: pa.StructType) -> bool:
    return len({child.name for child in kind}) == len(kind)
