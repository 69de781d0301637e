"""Parquet, ORC, Feather and Arrow IPC files: opened, checked, and read in bounded memory.

Parquet, ORC and Feather V1 are decoded in a process of their own. Arrow IPC is read here, and every
batch is validated in full before a value is touched.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

import pyarrow as pa
from pyarrow import types

from ingot.converters.columnar.batch_checks import is_valid_batch, shares_values, small_slices
from ingot.converters.columnar.parquet import ValidBatch, open_parquet, open_random_access
from ingot.converters.errors import SourceError, translate_read_errors
from ingot.converters.sources.facts import SourceFile, SourceSpec
from ingot.converters.sources.formats.arrow import batch_rows, make_lazy_rows
from ingot.converters.sources.formats.delimited import column_names
from ingot.converters.sources.formats.row_chunks import TABLE_ROWS, RowChunk
from ingot.converters.sources.storage.compression import check_growth

BATCH_BYTES = 1 << 20
ARROW_FILE = b"ARROW1"
ARROW_STREAM = b"\xff\xff\xff\xff"
_MOST_FEATHER = 256 << 20  # a file of version 1 is decoded as a whole


def parquet_facts(
    stream: BinaryIO, where: str, form: str = "parquet"
) -> tuple[tuple[str, ...], int]:
    """Return the column names of a Parquet file and its number of rows. Raises SourceError."""
    with open_parquet(stream, where, form) as file:
        return column_names(file.schema.names), sum(rows for rows, _ in file.groups)


def read_parquet(file: SourceFile, _: SourceSpec, stream: BinaryIO) -> Iterator[RowChunk]:
    """Return the rows of a Parquet file. Raises SourceError."""
    return parquet_rows(stream, str(file.place))


def parquet_rows(
    stream: BinaryIO, where: str, groups: Sequence[int] | None = None
) -> Iterator[RowChunk]:
    """Yield the rows of a Parquet file, or of some of its row groups. Raises SourceError."""
    with open_parquet(stream, where) as file:
        rows, sizes = zip(*file.groups[:8], strict=True) if file.groups else ((), ())
        batches = file.batches(rows_that_fit(sum(rows), sum(sizes)), groups)
        yield from batch_chunks(batches, column_names(file.schema.names), where)


def orc_facts(stream: BinaryIO, where: str) -> tuple[tuple[str, ...], int]:
    """Return the column names of an ORC file and its number of rows. Raises SourceError."""
    return parquet_facts(stream, where, "orc")


def feather_facts(stream: BinaryIO, where: str) -> tuple[tuple[str, ...], int]:
    """Return the column names of a Feather V1 file and its number of rows. Raises SourceError."""
    with open_random_access(stream) as source:
        if source.seek(0, 2) > _MOST_FEATHER:
            problem = f"a Feather V1 file of more than {_MOST_FEATHER >> 20} MiB, which is not read"
            raise SourceError(where, problem, "write it as version 2 (Arrow IPC)")
        source.seek(0)
        return parquet_facts(source, where, "feather")


def read_other(file: SourceFile, _: SourceSpec, stream: BinaryIO) -> Iterator[RowChunk]:
    """Yield the rows of an ORC or Feather V1 file. Raises SourceError."""
    where, form = str(file.place), file.facts.format
    with open_parquet(stream, where, form) as opened:
        names = column_names(opened.schema.names)
        most = max(1, opened.groups[0][0])  # rows: all of the file
        batches = _slice_batches(opened.batches(most, size=BATCH_BYTES))
        yield from batch_chunks(batches, names, where)


def rows_that_fit(rows: int, size: int) -> int:
    """Return how many rows have about BATCH_BYTES, where `rows` have `size`; at least 16."""
    return max(16, min(TABLE_ROWS, BATCH_BYTES * rows // size)) if rows and size else TABLE_ROWS


@contextmanager
def open_arrow(
    stream: BinaryIO, where: str
) -> Iterator[tuple[tuple[str, ...], Iterator[ValidBatch]]]:
    """Yield the column names and checked batches of an Arrow IPC file or stream.

    Raises SourceError.
    """
    with open_ipc(stream, where) as reader:
        yield column_names(reader.schema.names), valid_batches(reader, where)


@contextmanager
def open_ipc(stream: BinaryIO, where: str) -> Iterator[Any]:
    """Yield a reader of an Arrow IPC file or stream that is not checked yet. Raises SourceError."""
    with open_random_access(stream) as source:
        with translate_read_errors(where, "cannot read its Arrow schema"):
            is_file = source.read(len(ARROW_FILE)) == ARROW_FILE
            source.seek(0)
            reader = pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)
            column_names(reader.schema.names)  # which may be no text
        yield reader if is_file else _StreamReader(reader, source)


class _StreamReader:
    """The batches of an Arrow IPC stream, which ends by its end mark and with the file."""

    def __init__(self, reader: Any, source: BinaryIO) -> None:  # noqa: ANN401
        self._reader, self._source, self.schema = reader, source, reader.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        place = self._source.tell()
        for batch in self._reader:
            yield batch
            place = self._source.tell()
        if self._source.tell() == place:
            raise pa.ArrowInvalid(f"the stream ends at byte {place:,} without its end mark")
        while rest := self._source.read(1 << 20):
            if rest.strip(b"\0"):
                raise pa.ArrowInvalid("damaged: something lies behind the end mark of the stream")


def ipc_batches(reader: Any) -> Iterator[pa.RecordBatch]:  # noqa: ANN401 - two readers
    """Return the batches of an Arrow IPC file or stream, not checked."""
    count = getattr(reader, "num_record_batches", None)
    return iter(reader) if count is None else map(reader.get_batch, range(count))


def valid_batches(reader: Any, where: str) -> Iterator[ValidBatch]:  # noqa: ANN401 - two readers
    """Yield the batches of an Arrow IPC file or stream, each checked. Raises SourceError."""
    batches = ipc_batches(reader)
    number = 0
    while True:
        with translate_read_errors(where, f"cannot read record batch {number}"):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch, is_valid_batch(batch, number, where)
        number += 1


def arrow_facts(stream: BinaryIO, where: str) -> tuple[tuple[str, ...], None]:
    """Return the column names of an Arrow IPC file or stream, no number of rows.

    Raises SourceError.
    """
    with open_arrow(stream, where) as (names, _):
        return names, None


def read_arrow(file: SourceFile, _: SourceSpec, stream: BinaryIO) -> Iterator[RowChunk]:
    """Yield the rows of an Arrow IPC file or stream. Raises SourceError."""
    where = str(file.place)
    with open_arrow(stream, where) as (names, batches):
        yield from batch_chunks(_slice_batches(batches), names, where)


def _slice_batches(batches: Iterator[ValidBatch]) -> Iterator[ValidBatch]:
    for batch, valid in batches:
        most = rows_that_fit(batch.num_rows, batch.nbytes)
        if any(map(shares_values, batch.schema.types)):
            most = max(1, batch.num_rows)  # its bytes are not those of its rows
        if most == TABLE_ROWS and valid and all(map(_is_plain, batch.schema.types)):
            # Such rows are made when they are looked at, and cut by `to_batches`.
            most *= max(1, BATCH_BYTES * batch.num_rows // max(1, batch.nbytes) // TABLE_ROWS)
        for start in range(0, batch.num_rows, most):
            yield batch.slice(start, most), valid


def _cut_sharing(batches: Iterator[ValidBatch], where: str) -> Iterator[ValidBatch]:
    """The batches, those whose rows share values in slices that fit into memory as rows."""
    for batch, valid in batches:
        if not any(map(shares_values, batch.schema.types)):
            yield batch, valid
            continue
        read = 0
        for part, size in small_slices(batch, TABLE_ROWS):
            read += size
            check_growth(where, read, batch.nbytes, "the rows of a record batch are ")
            yield part, valid


def _is_plain(kind: pa.DataType) -> bool:
    """Whether values take no more memory as rows are made of them."""
    return bool(types.is_primitive(kind) or types.is_string(kind))


def batch_chunks(
    batches: Iterator[ValidBatch], names: Sequence[str], where: str
) -> Iterator[RowChunk]:
    """Yield the rows of checked batches of Arrow. Raises SourceError."""
    batches = _cut_sharing(batches, where)
    while True:
        with translate_read_errors(where):
            batch, valid = next(batches, (None, False))
            if batch is None:
                return
            lazy = make_lazy_rows(batch, names, valid=valid)
            values, table = lazy or batch_rows(batch, names)
        yield RowChunk(values=values, table=table, sound=lazy is not None)
