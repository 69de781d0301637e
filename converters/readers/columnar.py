"""Rows of Parquet and Arrow IPC files (file and stream form), a bounded number at a time."""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO, TypeAlias, cast

import pyarrow as pa
import pyarrow.parquet as pq

from ingot.converters.readers.arrowrows import lazy_rows
from ingot.converters.readers.arrowvalues import rows_of
from ingot.converters.readers.delimited import column_names
from ingot.converters.readers.faults import cut_off, reading
from ingot.converters.readers.stretch import TABLE_ROWS, Stretch

BATCH_BYTES = 1 << 20
_SPOOLED = 64 << 20  # a file without random access is held in memory up to here, then on disk
PARQUET = b"PAR1"
ARROW_FILE = b"ARROW1"
ARROW_STREAM = b"\xff\xff\xff\xff"

_Batches: TypeAlias = Iterator[pa.RecordBatch]


@contextmanager
def random_access(stream: BinaryIO) -> Iterator[BinaryIO]:
    """The stream itself, or an unnamed temporary copy of one that cannot go back."""
    if stream.seekable():
        yield stream
        return
    with tempfile.SpooledTemporaryFile(max_size=_SPOOLED) as copy:
        shutil.copyfileobj(stream, copy, 1 << 20)
        copy.seek(0)
        yield cast(BinaryIO, copy)


@contextmanager
def open_parquet(stream: BinaryIO, where: str) -> Iterator[pq.ParquetFile]:
    """A Parquet file; the stream stays open. Raises SourceError where it is cut off or damaged."""
    with random_access(stream) as source:
        with reading(where):
            size = source.seek(0, 2)
            source.seek(max(0, size - 4))
            if size < 12 or source.read(4) != PARQUET:
                raise cut_off(where, "the Parquet file has no footer")
            source.seek(0)
        with reading(where, "cannot read its Parquet footer"):
            file = pq.ParquetFile(source, pre_buffer=False)  # else all of it is read at once
        yield file


def parquet_facts(stream: BinaryIO, where: str) -> tuple[tuple[str, ...], int]:
    """The column names of a Parquet file and its number of rows. Raises SourceError."""
    with open_parquet(stream, where) as file:
        return column_names(file.schema_arrow.names), int(file.metadata.num_rows)


def parquet_rows(
    stream: BinaryIO, where: str, groups: Sequence[int] | None = None
) -> Iterator[Stretch]:
    """The rows of a Parquet file, or of some of its row groups. Raises SourceError."""
    with open_parquet(stream, where) as file:
        names = column_names(file.schema_arrow.names)
        size = _batch_rows(file.metadata)
        batches = file.iter_batches(batch_size=size, row_groups=groups, use_threads=False)
        yield from _stretches(batches, names, where)


def _batch_rows(metadata: pq.FileMetaData) -> int:
    """Rows per batch so that a batch has about BATCH_BYTES."""
    groups = [metadata.row_group(number) for number in range(min(metadata.num_row_groups, 8))]
    rows = sum(group.num_rows for group in groups)
    return _rows_that_fit(rows, sum(group.total_byte_size for group in groups))


def _rows_that_fit(rows: int, size: int) -> int:
    """How many rows have about BATCH_BYTES, where `rows` have `size`; at least 16."""
    return max(16, min(TABLE_ROWS, BATCH_BYTES * rows // size)) if rows and size else TABLE_ROWS


@contextmanager
def open_arrow(stream: BinaryIO, where: str) -> Iterator[tuple[tuple[str, ...], _Batches]]:
    """The column names and the batches of an Arrow IPC file or stream. Raises SourceError."""
    with random_access(stream) as source:
        with reading(where, "cannot read its Arrow schema"):
            is_file = source.read(len(ARROW_FILE)) == ARROW_FILE
            source.seek(0)
            reader = pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)
        yield column_names(reader.schema.names), _batches(reader) if is_file else iter(reader)


def _batches(reader: pa.RecordBatchFileReader) -> _Batches:
    return (reader.get_batch(number) for number in range(reader.num_record_batches))


def arrow_columns(stream: BinaryIO, where: str) -> tuple[str, ...]:
    """The column names of an Arrow IPC file or stream. Raises SourceError."""
    with open_arrow(stream, where) as (names, _):
        return names


def arrow_rows(stream: BinaryIO, where: str) -> Iterator[Stretch]:
    """The rows of an Arrow IPC file or stream. Raises SourceError."""
    with open_arrow(stream, where) as (names, batches):
        yield from _stretches(_sliced(batches), names, where)


def _sliced(batches: _Batches) -> _Batches:
    for batch in batches:
        most = _rows_that_fit(batch.num_rows, batch.nbytes)
        for start in range(0, batch.num_rows, most):
            yield batch.slice(start, most)


def _stretches(batches: _Batches, names: Sequence[str], where: str) -> Iterator[Stretch]:
    while True:
        with reading(where):
            batch = next(batches, None)
            if batch is None:
                return
            lazy = lazy_rows(batch, names)
            values, table = lazy or rows_of(batch, names)
        yield Stretch(values=values, table=table, sound=lazy is not None)
