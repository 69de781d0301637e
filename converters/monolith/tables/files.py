"""Parquet files of tables, written and read a bounded number of rows at a time."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from ingot.converters.monolith.tables.schema import TableSchema
from ingot.converters.readers.columnar import open_parquet, random_access
from ingot.converters.readers.faults import reading

ROW_GROUP_ROWS: Final = 65_536
ROW_GROUP_BYTES: Final = 64 << 20
"""Rows and bytes, as Arrow holds them, of a row group; a row more is one whatever it holds."""
_READ_BYTES: Final = 8 << 20
_READ_ROWS: Final = 8_192
_READ_CELLS: Final = 1 << 21
"""What is read at a time: by the sizes that the file's footer gives."""
_BUFFERS: Final = 64 << 20
_LEAST_BUFFER: Final = 16 << 10
"""Bytes of the file that are held, of all columns and of one."""


class ParquetSink:
    """A Parquet file that is written in row groups, compressed by zstd.

    What it raises where the file cannot be written is `OSError`.
    """

    def __init__(self, to: Path | BinaryIO, schema: TableSchema) -> None:
        where = str(to) if isinstance(to, Path) else to
        self._writer = pq.ParquetWriter(where, schema.arrow, compression="zstd")
        self._batches: list[pa.RecordBatch] = []
        self._rows, self._bytes = 0, 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Append the rows of a batch of the table."""
        while batch.num_rows:
            part = batch.slice(0, ROW_GROUP_ROWS - self._rows)
            batch = batch.slice(part.num_rows)
            self._batches.append(part)
            self._rows += part.num_rows
            self._bytes += part.nbytes
            if self._rows >= ROW_GROUP_ROWS or self._bytes >= ROW_GROUP_BYTES:
                self._flush()

    def _flush(self) -> None:
        if self._batches:
            table = pa.Table.from_batches(self._batches)
            self._writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
        self._batches, self._rows, self._bytes = [], 0, 0

    def close(self) -> None:
        """Write what waits and the footer."""
        self._flush()
        self._writer.close()


@contextmanager
def open_table(
    stream: BinaryIO, where: str
) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """The schema of a Parquet file, and its rows in batches; the stream stays open.

    Raises:
        SourceError: it is no Parquet file, or is damaged.
    """
    with random_access(stream) as source, open_parquet(source, where) as checked:
        facts = checked.metadata
        size = max(_LEAST_BUFFER, min(_READ_BYTES, _BUFFERS // max(1, facts.num_columns)))
        with reading(where):
            # Without buffers a column of a whole row group is held.
            file = pq.ParquetFile(source, metadata=facts, buffer_size=size, pre_buffer=False)
        yield file.schema_arrow, _batches(file, where)


def parquet_batches(stream: BinaryIO, where: str) -> Iterator[pa.RecordBatch]:
    """The rows of a Parquet file in batches of about 8 MiB; see `open_table`."""
    with open_table(stream, where) as (_, batches):
        yield from batches


def _batches(file: pq.ParquetFile, where: str) -> Iterator[pa.RecordBatch]:
    batches = file.iter_batches(batch_size=_rows_at_a_time(file), use_threads=False)
    while True:
        with reading(where):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


def _rows_at_a_time(file: pq.ParquetFile) -> int:
    facts = file.metadata
    groups = [facts.row_group(number) for number in range(facts.num_row_groups)]
    # The row group with the largest rows decides.
    largest: float = max(
        (group.total_byte_size / max(1, group.num_rows) for group in groups), default=1
    )
    by_cells = int(_READ_CELLS / max(1, facts.num_columns))
    by_bytes = int(_READ_BYTES / max(1.0, largest))
    return max(1, min(_READ_ROWS, by_cells, by_bytes))
