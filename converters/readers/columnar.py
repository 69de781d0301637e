"""Rows of Parquet and Arrow IPC files (file and stream form), a bounded number at a time."""

import tempfile
from collections.abc import Iterator, Sequence
from typing import BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq

from ingot.converters.errors import SourceError
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


def seekable(stream: BinaryIO) -> BinaryIO:
    """The stream itself, or an unnamed temporary copy of one that cannot go back."""
    if stream.seekable():
        return stream
    copy = tempfile.SpooledTemporaryFile(max_size=_SPOOLED)  # noqa: SIM115 - closed by the reader
    while data := stream.read(1 << 20):
        copy.write(data)
    stream.close()
    copy.seek(0)
    return cast(BinaryIO, copy)


def open_parquet(stream: BinaryIO, where: str) -> pq.ParquetFile:
    """A Parquet file. Raises SourceError, and closes the stream, where it is damaged."""
    stream = seekable(stream)
    try:
        return _whole_parquet(stream, where)
    except SourceError:
        stream.close()
        raise


def _whole_parquet(stream: BinaryIO, where: str) -> pq.ParquetFile:
    with reading(where):
        size = stream.seek(0, 2)
        stream.seek(max(0, size - 4))
        if size < 12 or stream.read(4) != PARQUET:
            raise cut_off(where, "the Parquet file has no footer")
        stream.seek(0)
    with reading(where, "read the Parquet footer of"):
        return pq.ParquetFile(stream)


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


def arrow_rows(stream: BinaryIO, where: str) -> Iterator[Stretch]:
    """The rows of an Arrow IPC file or stream. Raises SourceError."""
    stream = seekable(stream)
    with reading(where):
        is_file = stream.read(len(ARROW_FILE)) == ARROW_FILE
    with reading(where, "read the Arrow schema of"):
        stream.seek(0)
        reader = pa.ipc.open_file(stream) if is_file else pa.ipc.open_stream(stream)
    names = column_names(reader.schema.names)
    batches = (
        (reader.get_batch(number) for number in range(reader.num_record_batches))
        if is_file
        else iter(reader)
    )
    yield from _stretches(_sliced(batches), names, where)


def _sliced(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        most = _rows_that_fit(batch.num_rows, batch.nbytes)
        for start in range(0, batch.num_rows, most):
            yield batch.slice(start, most)


def _stretches(
    batches: Iterator[pa.RecordBatch], names: Sequence[str], where: str
) -> Iterator[Stretch]:
    while True:
        with reading(where):
            batch = next(batches, None)
            if batch is None:
                return
            lazy = lazy_rows(batch, names)
            values, table = lazy or rows_of(batch, names)
        yield Stretch(values=values, table=table, sound=lazy is not None)


def arrow_columns(stream: BinaryIO, where: str) -> tuple[str, ...]:
    """The column names of an Arrow IPC file or stream. Raises SourceError."""
    stream = seekable(stream)
    with reading(where, "read the Arrow schema of"):
        is_file = stream.read(len(ARROW_FILE)) == ARROW_FILE
        stream.seek(0)
        reader = pa.ipc.open_file(stream) if is_file else pa.ipc.open_stream(stream)
        return column_names(reader.schema.names)
