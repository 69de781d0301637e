"""A split's Parquet files: row groups and files of fixed numbers of rows."""

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

from ingot.converters.commit import writing

GROUP_ROWS: Final = 16_384
GROUPS_PER_FILE: Final = 64


class SplitWriter:
    """Writes `part-00000.parquet`, ... of a split, however its rows come.

    Attributes:
        rows: rows so far.
    """

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self.rows = 0
        # A row group is written while the next is encoded; one at a time, so memory is bounded.
        self._pool = ThreadPoolExecutor(1, "write")
        self._writing: Future[None] | None = None
        self._folder, self._schema = folder, schema
        self._held: list[pa.RecordBatch] = []
        self._held_rows = 0
        self._groups = 0
        self._writer: pq.ParquetWriter | None = None
        with writing(folder):
            folder.mkdir()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            with self._pool:
                if kind is None:
                    self._finish()
        finally:
            if self._writer is not None:
                with writing(self._folder):
                    self._writer.close()

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows of the split's schema."""
        self.rows += batch.num_rows
        self._held.append(batch)
        self._held_rows += batch.num_rows
        while self._held_rows >= GROUP_ROWS:
            self._write_group(GROUP_ROWS)

    def _finish(self) -> None:
        if self._held_rows or not self.rows:  # an empty split is an empty file, not an empty folder
            self._write_group(self._held_rows)
        self._wait()

    def _write_group(self, rows: int) -> None:
        held = pa.Table.from_batches(self._held, schema=self._schema)
        rest = held.slice(rows)
        self._held, self._held_rows = rest.to_batches(), rest.num_rows
        self._wait()
        self._writing = self._pool.submit(self._write_table, held.slice(0, rows), self._groups)
        self._groups += 1

    def _wait(self) -> None:
        if self._writing is not None:
            self._writing.result()

    def _write_table(self, table: pa.Table, group: int) -> None:
        with writing(self._folder):
            self._file_of(group).write_table(table, row_group_size=GROUP_ROWS)

    def _file_of(self, group: int) -> pq.ParquetWriter:
        if self._writer is None or group % GROUPS_PER_FILE == 0:
            if self._writer is not None:
                self._writer.close()
            path = self._folder / f"part-{group // GROUPS_PER_FILE:05d}.parquet"
            self._writer = pq.ParquetWriter(path, self._schema, compression="snappy")
        return self._writer
