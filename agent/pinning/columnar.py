"""Rows of Parquet and Arrow files: taken out by number, redacted column by column, written anew."""

import datetime as dt
import decimal
import io
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from ingot.agent.pinning.hiding import Hiding, NotRedactableError
from ingot.converters.readers.columnar import ARROW_FILE, open_parquet, random_access
from ingot.converters.readers.faults import reading
from ingot.converters.rows import Json

_GROUP_ROWS = 100
_BATCH_ROWS = 256
_PLAIN = (bool, dt.date, dt.time, dt.timedelta, decimal.Decimal)


def parquet_table(stream: BinaryIO, where: str, numbers: Sequence[int]) -> pa.Table:
    """The rows of these numbers, in order, without the file's own metadata. Raises SourceError."""
    with open_parquet(stream, where) as file, reading(where):
        starts = _starts(file.metadata)
        groups = [n for n, (start, stop) in enumerate(starts) if _any(numbers, start, stop)]
        parts: list[pa.RecordBatch] = []
        for group in groups:
            batches = file.iter_batches(_BATCH_ROWS, row_groups=[group], use_threads=False)
            parts += _taken(batches, numbers, starts[group][0])
        return _table(parts, file.schema_arrow)


def _starts(metadata: pq.FileMetaData) -> list[tuple[int, int]]:
    """The first row of every row group and that behind its last."""
    bounds = []
    start = 0
    for number in range(metadata.num_row_groups):
        stop = start + metadata.row_group(number).num_rows
        bounds.append((start, stop))
        start = stop
    return bounds


def _any(numbers: Sequence[int], start: int, stop: int) -> bool:
    return any(start <= number < stop for number in numbers)


def _taken(
    batches: Iterator[pa.RecordBatch], numbers: Sequence[int], start: int
) -> Iterator[pa.RecordBatch]:
    """The wanted rows of batches, the first of which begins at row `start`."""
    for batch in batches:
        stop = start + batch.num_rows
        for number in numbers:
            if start <= number < stop:
                yield batch.slice(number - start, 1)  # not every type has a kernel for `take`
        start = stop


def _table(parts: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    table = pa.Table.from_batches(parts, schema=schema)
    return table.replace_schema_metadata(None)


def arrow_table(stream: BinaryIO, where: str, numbers: Sequence[int]) -> pa.Table:
    """The rows of these numbers of an Arrow IPC file or stream. Raises SourceError."""
    with random_access(stream) as source, reading(where):
        reader, _ = _arrow_reader(source)
        last = max(numbers, default=-1)
        return _table(list(_taken(_until(reader, last), numbers, 0)), reader.schema)


def _arrow_reader(source: BinaryIO) -> tuple[Any, bool]:
    is_file = source.read(len(ARROW_FILE)) == ARROW_FILE
    source.seek(0)
    return (pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)), is_file


def is_arrow_file(stream: BinaryIO) -> bool:
    """Whether Arrow data is an IPC file, not a stream of batches."""
    return stream.read(len(ARROW_FILE)) == ARROW_FILE


def _until(reader: Any, last: int) -> Iterator[pa.RecordBatch]:  # noqa: ANN401
    """The batches of a reader up to the one that holds a row."""
    many = getattr(reader, "num_record_batches", None)
    batches = iter(reader) if many is None else map(reader.get_batch, range(many))
    seen = 0
    for batch in batches:
        yield batch
        seen += batch.num_rows
        if seen > last:
            return


def chosen(table: pa.Table, numbers: Sequence[int]) -> pa.Table:
    """The rows of these numbers."""
    return pa.concat_tables([table.slice(number, 1) for number in numbers] or [table.slice(0, 0)])


def sizes(table: pa.Table) -> list[int]:
    """About how many bytes each row has. Raises SourceError where values have no Python form."""
    found = [0] * table.num_rows
    for column, field in zip(table.columns, table.schema, strict=True):
        values = [0] * table.num_rows if _fixed(field.type) else _values(column)
        found = [size + len(repr(value)) for size, value in zip(found, values, strict=True)]
    return found


def _fixed(kind: pa.DataType) -> bool:
    """Whether values of a type hold no text and no number that could be one of a person."""
    return bool(
        pa.types.is_temporal(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_null(kind)
        or pa.types.is_float16(kind)
    )


def _values(column: pa.ChunkedArray) -> list[Json]:
    with reading("a column", "its values cannot be pinned"):
        values: list[Json] = column.to_pylist()
    return values


def hidden_table(table: pa.Table, hiding: Hiding) -> pa.Table:
    """The table with what its cells hide replaced; every column keeps its type.

    Columns are built anew from their values: dictionaries, views and what lies under a null may
    hold more than the rows that were chosen.

    Raises:
        NotRedactableError: a value of that type cannot be replaced.
    """
    columns = [
        _hidden(column, field, hiding)
        for column, field in zip(table.columns, table.schema, strict=True)
    ]
    fields = [
        pa.field(hiding.text(field.name), field.type, field.nullable) for field in table.schema
    ]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def _hidden(column: pa.ChunkedArray, field: pa.Field, hiding: Hiding) -> Any:  # noqa: ANN401
    if _fixed(field.type):
        return pa.chunked_array([column.combine_chunks()], type=field.type)
    values = _values(column)
    hidden = values if hiding.off else [_value(value, field.name, hiding) for value in values]
    try:
        return pa.chunked_array([pa.array(hidden, type=field.type)], type=field.type)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise NotRedactableError from error


def _value(value: Json, name: str, hiding: Hiding) -> Json:
    """A value of a cell redacted; names of the fields of a struct belong to its type and stay."""
    if value is None or isinstance(value, _PLAIN):
        return value
    if isinstance(value, dict):
        return {key: _value(inner, key, hiding) for key, inner in value.items()}
    if isinstance(value, list):
        return [_value(inner, name, hiding) for inner in value]
    if isinstance(value, tuple):  # an entry of a map
        key, inner = value
        return _value(key, "", hiding), _value(inner, key if isinstance(key, str) else "", hiding)
    if isinstance(value, bytes):
        return _bytes(value, name, hiding)
    return hiding.value(value, name) if isinstance(value, str | int | float) else value


def _bytes(value: bytes, name: str, hiding: Hiding) -> bytes:
    """Bytes are redacted as the text that they are; those of no text for the ASCII in them."""
    try:
        return hiding.text(value.decode(), name).encode()
    except UnicodeDecodeError:
        return hiding.text(value.decode("latin-1"), name).encode("latin-1")


def parquet_bytes(table: pa.Table) -> bytes:
    """The table as a Parquet file of small row groups."""
    out = io.BytesIO()
    pq.write_table(table, out, compression="zstd", row_group_size=_GROUP_ROWS)
    return out.getvalue()


def arrow_bytes(table: pa.Table, *, as_file: bool) -> bytes:
    """The table as an Arrow IPC file, or as a stream."""
    out = io.BytesIO()
    new = pa.ipc.new_file if as_file else pa.ipc.new_stream
    with new(out, table.schema) as writer:
        writer.write_table(table, max_chunksize=_GROUP_ROWS)
    return out.getvalue()
