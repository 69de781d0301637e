"""Parquet and Arrow IPC files: opened, checked, and read as chunks of rows in bounded memory.

An Arrow IPC file holds offsets and indices that Arrow itself follows without looking: wrong ones
end the process or show its memory. So every batch is validated in full before a value is touched.
"""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, TypeAlias, cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types

from ingot.converters.errors import SourceError, translate_read_errors, truncated_error
from ingot.converters.sources.formats.arrow import batch_rows, make_lazy_rows
from ingot.converters.sources.formats.delimited import column_names
from ingot.converters.sources.formats.row_chunks import TABLE_ROWS, RowChunk

BATCH_BYTES = 1 << 20
_SPOOL_BYTES = 64 << 20  # a file without random access is held in memory up to here, then on disk
_MOST_FOOTER = 256 << 20
_DICTIONARY_BYTES = 32 << 20  # of a batch whose rows share a long value
PARQUET = b"PAR1"
ARROW_FILE = b"ARROW1"
ARROW_STREAM = b"\xff\xff\xff\xff"

# A batch, and whether each of its values fits to its type (False: not known, or not each).
ValidBatch: TypeAlias = tuple[pa.RecordBatch, bool]


@contextmanager
def open_random_access(stream: BinaryIO) -> Iterator[BinaryIO]:
    """The stream itself, or an unnamed temporary copy of one that cannot go back."""
    if stream.seekable():
        yield stream
        return
    with tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES) as copy:
        shutil.copyfileobj(stream, copy, 1 << 20)
        copy.seek(0)
        yield cast(BinaryIO, copy)


@contextmanager
def open_parquet(stream: BinaryIO, where: str) -> Iterator[pq.ParquetFile]:
    """A Parquet file; the stream stays open. Raises SourceError where it is cut off or damaged."""
    with open_random_access(stream) as source:
        with translate_read_errors(where):
            size = source.seek(0, 2)
            source.seek(max(0, size - 8))
            end = source.read(8)
            if size < 12 or end[4:] != PARQUET:
                raise truncated_error(where, "the Parquet file has no footer")
            footer = int.from_bytes(end[:4], "little")
            if footer > min(size - 12, _MOST_FOOTER):
                problem = f"damaged: its Parquet footer would have {footer:,} bytes"
                raise SourceError(where, problem, "fetch or copy it again")
            source.seek(0)
        with translate_read_errors(where, "cannot read its Parquet footer"):
            file = pq.ParquetFile(source, pre_buffer=False)  # else all of it is read at once
        yield file


def parquet_facts(stream: BinaryIO, where: str) -> tuple[tuple[str, ...], int]:
    """The column names of a Parquet file and its number of rows. Raises SourceError."""
    with open_parquet(stream, where) as file:
        return column_names(file.schema_arrow.names), int(file.metadata.num_rows)


def parquet_rows(
    stream: BinaryIO, where: str, groups: Sequence[int] | None = None
) -> Iterator[RowChunk]:
    """The rows of a Parquet file, or of some of its row groups. Raises SourceError."""
    with open_random_access(stream) as source, open_parquet(source, where) as file:
        names = column_names(file.schema_arrow.names)
        batches = _parquet_batches(source, file, where, groups)
        yield from _batch_chunks(((batch, False) for batch in batches), names, where)


def _rows_per_batch(metadata: pq.FileMetaData) -> int:
    groups = [metadata.row_group(number) for number in range(min(metadata.num_row_groups, 8))]
    size = sum(group.total_byte_size for group in groups)
    return _rows_that_fit(sum(group.num_rows for group in groups), size)


def _parquet_batches(
    source: BinaryIO, file: pq.ParquetFile, where: str, groups: Sequence[int] | None
) -> Iterator[pa.RecordBatch]:
    """The batches of row groups, cut shorter in those groups that may grow when decoded."""
    size = _rows_per_batch(file.metadata)
    chosen = range(file.num_row_groups) if groups is None else groups
    if not any(_long_dictionaries(file, group, size) for group in chosen):
        yield from file.iter_batches(batch_size=size, row_groups=groups, use_threads=False)
        return
    for group in chosen:
        with translate_read_errors(where):
            rows = _rows_by_dictionary(source, file, group, size)
        yield from file.iter_batches(batch_size=rows, row_groups=[group], use_threads=False)


def _long_dictionaries(file: pq.ParquetFile, group: int, rows: int) -> list[str]:
    """The columns of a group whose values may need more than `_DICTIONARY_BYTES` in a batch."""
    facts = file.metadata.row_group(group)
    chunks = [facts.column(number) for number in range(facts.num_columns)]
    return [
        one.path_in_schema
        for one in chunks
        if one.has_dictionary_page
        and one.physical_type == "BYTE_ARRAY"
        and min(rows, facts.num_rows) * one.total_uncompressed_size > _DICTIONARY_BYTES
    ]


def _rows_by_dictionary(source: BinaryIO, file: pq.ParquetFile, group: int, rows: int) -> int:
    """How many rows of a group fit into `_DICTIONARY_BYTES`, however often a long value repeats.

    Sizes in a footer are those of the encoded values. Only dictionaries that may matter are read.
    """
    paths = _long_dictionaries(file, group, rows)
    if not paths:
        return rows
    facts = file.metadata.row_group(group)
    chunks = [facts.column(number) for number in range(facts.num_columns)]
    place = source.tell()
    probe = pq.ParquetFile(
        source, metadata=file.metadata, read_dictionary=paths, buffer_size=1 << 16, pre_buffer=False
    )
    batch = next(probe.iter_batches(1, row_groups=[group], columns=paths, use_threads=False), None)
    source.seek(place)
    longest = [_longest_value(column) for column in batch.columns] if batch else [0]
    each = max(one.num_values for one in chunks) / max(1, facts.num_rows) * max(longest)
    return rows if each * rows <= _DICTIONARY_BYTES else max(1, int(_DICTIONARY_BYTES / each))


def _longest_value(column: pa.Array) -> int:
    """The bytes of the longest value in the dictionaries of an array."""
    import pyarrow.compute as pc

    kind = column.type
    if types.is_dictionary(kind):
        return int(pc.max(pc.binary_length(column.dictionary)).as_py() or 0)
    if types.is_struct(kind):
        inner = [column.field(number) for number in range(kind.num_fields)]
    elif types.is_map(kind):
        inner = [column.keys, column.items]
    else:
        inner = [column.values] if types.is_list(kind) or types.is_large_list(kind) else []
    return max(map(_longest_value, inner), default=0)


def _rows_that_fit(rows: int, size: int) -> int:
    """How many rows have about BATCH_BYTES, where `rows` have `size`; at least 16."""
    return max(16, min(TABLE_ROWS, BATCH_BYTES * rows // size)) if rows and size else TABLE_ROWS


@contextmanager
def open_arrow(
    stream: BinaryIO, where: str
) -> Iterator[tuple[tuple[str, ...], Iterator[ValidBatch]]]:
    """The column names and the checked batches of an Arrow IPC file or stream.

    Raises SourceError, also for a batch that is damaged.
    """
    with open_ipc(stream, where) as reader:
        yield column_names(reader.schema.names), valid_batches(reader, where)


@contextmanager
def open_ipc(stream: BinaryIO, where: str) -> Iterator[Any]:
    """A reader of an Arrow IPC file or stream, not checked yet. Raises SourceError."""
    with open_random_access(stream) as source:
        with translate_read_errors(where, "cannot read its Arrow schema"):
            is_file = source.read(len(ARROW_FILE)) == ARROW_FILE
            source.seek(0)
            reader = pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)
            column_names(reader.schema.names)  # which may be no text
        yield reader


def valid_batches(reader: Any, where: str) -> Iterator[ValidBatch]:  # noqa: ANN401 - two readers
    """The batches of an Arrow IPC file or stream, each checked. Raises SourceError."""
    count = getattr(reader, "num_record_batches", None)
    batches = iter(reader) if count is None else map(reader.get_batch, range(count))
    number = 0
    while True:
        with translate_read_errors(where, f"cannot read record batch {number}"):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch, is_valid_batch(batch, number, where)
        number += 1


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


def arrow_columns(stream: BinaryIO, where: str) -> tuple[str, ...]:
    """The column names of an Arrow IPC file or stream. Raises SourceError."""
    with open_arrow(stream, where) as (names, _):
        return names


def arrow_rows(stream: BinaryIO, where: str) -> Iterator[RowChunk]:
    """The rows of an Arrow IPC file or stream. Raises SourceError."""
    with open_arrow(stream, where) as (names, batches):
        yield from _batch_chunks(_slice_batches(batches), names, where)


def _slice_batches(batches: Iterator[ValidBatch]) -> Iterator[ValidBatch]:
    for batch, valid in batches:
        most = _rows_that_fit(batch.num_rows, batch.nbytes)
        for start in range(0, batch.num_rows, most):
            yield batch.slice(start, most), valid


def _batch_chunks(
    batches: Iterator[ValidBatch], names: Sequence[str], where: str
) -> Iterator[RowChunk]:
    while True:
        with translate_read_errors(where):
            batch, valid = next(batches, (None, False))
            if batch is None:
                return
            lazy = make_lazy_rows(batch, names, valid=valid)
            values, table = lazy or batch_rows(batch, names)
        yield RowChunk(values=values, table=table, sound=lazy is not None)
