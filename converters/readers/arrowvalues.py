"""Arrow columns to JSON values, and to the plain Arrow columns that mean the same.

Times become ISO 8601 text, decimals exact numbers (text where a float would not be exact), binary
its UTF-8 text, dictionaries their values, maps objects; numbers that are not finite become null, as
JSON has none and they stand for missing values in columnar files.
"""

import datetime as dt
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from ingot.converters.readers.stretch import Broken, found
from ingot.converters.rows import Json

Convert = Callable[[Any], Json]

_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_EPOCH = dt.datetime(1970, 1, 1)


class _NotTextError(Exception):
    """Binary that is no UTF-8; never leaves this module."""


def rows_of(
    batch: pa.RecordBatch, names: Sequence[str]
) -> tuple[list[Json], pa.RecordBatch | None]:
    """The rows of a batch as objects, and the batch in plain types (None where it has none)."""
    converted = [_column(column) for column in batch.columns]
    columns = [values for values, _ in converted]
    rows: list[Json] = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    if not columns:
        rows = [{} for _ in range(batch.num_rows)]
    rows = _checked(rows, columns)
    arrays = [array for _, array in converted]
    if not arrays or any(array is None for array in arrays):
        return rows, None
    return rows, pa.RecordBatch.from_arrays(arrays, names=list(names))


def _checked(rows: list[Json], columns: list[list[Json]]) -> list[Json]:
    """Rows with a broken cell are broken."""
    if not any(type(cell) is Broken for column in columns for cell in column):
        return rows
    return [next((cell for cell in row.values() if type(cell) is Broken), row) for row in rows]


def _column(column: pa.Array) -> tuple[list[Json], pa.Array | None]:
    """A column as JSON values and as a plain Arrow array of the same values."""
    column = storage(column)
    kind = column.type
    if _is_plain(kind):
        return _texts(column), column
    if pa.types.is_floating(kind):
        return _floats(column)
    convert = converter(kind)
    values = [_converted(value, convert) for value in _python(column)]
    if pa.types.is_temporal(kind):
        return values, pa.array(values, pa.string())
    return values, None


def time_texts(column: pa.Array) -> pa.Array:
    """A column of times, dates or durations as the texts that the rows have."""
    convert = converter(column.type)
    return pa.array([_converted(value, convert) for value in _python(column)], pa.string())


def storage(column: pa.Array) -> pa.Array:
    """Without extension types, dictionaries, run ends and views at the top."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return storage(column.storage)
    if pa.types.is_dictionary(kind):
        return storage(column.dictionary_decode())
    if pa.types.is_run_end_encoded(kind):
        return storage(column.cast(kind.value_type))
    if pa.types.is_string_view(kind):
        return column.cast(pa.large_string())
    return column.cast(pa.large_binary()) if pa.types.is_binary_view(kind) else column


def _is_plain(kind: pa.DataType) -> bool:
    """Types whose Python form is JSON already, all the way down."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _is_plain(kind.value_type)
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        return len(set(names)) == len(names) and all(_is_plain(field.type) for field in kind)
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_null(kind)
    )


def _texts(column: pa.Array) -> list[Json]:
    try:
        values: list[Json] = column.to_pylist()
    except UnicodeDecodeError:
        return [_scalar_text(scalar) for scalar in column]
    return values


def _scalar_text(scalar: pa.Scalar) -> Json:
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        return Broken("text that is not valid UTF-8", "")


def _floats(column: pa.Array) -> tuple[list[Json], pa.Array]:
    import pyarrow.compute as pc

    wide = column.cast(pa.float64())
    clean = pc.if_else(pc.is_finite(wide), wide, pa.scalar(None, pa.float64()))
    return clean.to_pylist(), clean


def _python(column: pa.Array) -> list[Any]:
    """Python values, times as the integers that Arrow stores (its own form needs pandas)."""
    plain = _without_times(column.type)
    return (column if plain == column.type else column.cast(plain)).to_pylist()  # type: ignore[no-any-return]


def _without_times(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_time64(kind):
        return pa.int64()
    if pa.types.is_time32(kind):
        return pa.int32()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_without_times(field.type)) for field in kind])
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_without_times(kind.value_type)))
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_without_times(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, kind.item_field.with_type(_without_times(kind.item_type)))
    return kind


def _converted(value: Any, convert: Convert) -> Json:  # noqa: ANN401 - Arrow's Python values
    try:
        return None if value is None else convert(value)
    except _NotTextError as error:
        return Broken("binary that is no UTF-8 text", str(error))


def converter(kind: pa.DataType) -> Convert:
    """The function from Arrow's Python value (not None) to the JSON value."""
    for applies, make in _CONVERTERS:
        if applies(kind):
            return make(kind)
    return str


def _same(kind: pa.DataType) -> Convert:
    return lambda value: value


def _finite(kind: pa.DataType) -> Convert:
    return lambda value: value if math.isfinite(value) else None


def _list(kind: pa.DataType) -> Convert:
    inner = _nullable(converter(kind.value_type))
    return lambda value: [inner(item) for item in value]


def _struct(kind: pa.DataType) -> Convert:
    inner = {field.name: _nullable(converter(field.type)) for field in kind}
    return lambda value: {name: inner[name](item) for name, item in value.items()}


def _map(kind: pa.DataType) -> Convert:
    key, item = converter(kind.key_type), _nullable(converter(kind.item_type))
    return lambda value: {_key(key(name)): item(held) for name, held in value}


def _key(key: Json) -> str:
    return key if isinstance(key, str) else str(key)


def _nullable(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _binary(kind: pa.DataType) -> Convert:
    def text(value: bytes) -> Json:
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise _NotTextError(found(value)) from error

    return text


def _decimal(kind: pa.DataType) -> Convert:
    return exact_number


def exact_number(value: Decimal) -> Json:
    """A decimal as an integer, as a float where that is the same number, else as text."""
    if value == value.to_integral_value():
        return int(value)
    return float(value) if Decimal(repr(float(value))) == value else format(value, "f")


def _timestamp(kind: pa.DataType) -> Convert:
    per_second, zone = _UNITS[kind.unit], kind.tz
    return lambda value: iso_time(value, per_second, "+00:00" if zone else "")


def iso_time(value: int, per_second: int, suffix: str) -> str:
    """ISO 8601 text of a time counted from 1970 (UTC where `suffix` says so)."""
    seconds, part = divmod(value, per_second)
    try:
        text = (_EPOCH + dt.timedelta(seconds=seconds)).isoformat()
    except OverflowError:
        return str(value)
    return f"{text}{_fraction(part, per_second)}{suffix}"


def _fraction(part: int, per_second: int) -> str:
    return f".{part:0{len(str(per_second)) - 1}d}".rstrip("0") if part else ""


def _clock(kind: pa.DataType) -> Convert:
    per_second = _UNITS[kind.unit]

    def text(value: int) -> str:
        seconds, part = divmod(value, per_second)
        clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        return clock + _fraction(part, per_second)

    return text


def _duration(kind: pa.DataType) -> Convert:
    per_second = _UNITS[kind.unit]

    def text(value: int) -> str:
        seconds, part = divmod(abs(value), per_second)
        return f"{'-' if value < 0 else ''}PT{seconds}{_fraction(part, per_second)}S"

    return text


def _date(kind: pa.DataType) -> Convert:
    return lambda value: value.isoformat()


def _unwrapped(kind: pa.DataType) -> Convert:
    return converter(
        kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind.value_type
    )


def _is_binary(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
        or types.is_binary_view(kind)
    )


def _is_listing(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_wrapped(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.BaseExtensionType) or bool(
        pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind)
    )


_CONVERTERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], Convert]], ...] = (
    (_is_plain, _same),
    (pa.types.is_string_view, _same),
    (pa.types.is_floating, _finite),
    (_is_wrapped, _unwrapped),
    (_is_listing, _list),
    (pa.types.is_struct, _struct),
    (pa.types.is_map, _map),
    (_is_binary, _binary),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_timestamp, _timestamp),
    (pa.types.is_time, _clock),
    (pa.types.is_duration, _duration),
    (pa.types.is_date, _date),
)
