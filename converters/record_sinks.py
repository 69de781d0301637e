"""The two forms of a part: where records go until the file is closed."""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ingot.converters.record_kinds import (
    KINDS,
    Record,
    RecordKind,
    fitting,
    one_batch,
    to_batch,
    to_lines,
    to_records,
)

RecordFormat = Literal["parquet", "jsonl"]

ROW_GROUP_ROWS: Final = 10_000
ROW_GROUP_CHARS: Final = 16 << 20  # bounds what a writer holds: a row group is built in memory


class ParquetSink:
    """Row groups of `ROW_GROUP_ROWS` records, or fewer once they hold `ROW_GROUP_CHARS`."""

    def __init__(self, path: Path, kind: RecordKind) -> None:
        self._kind = kind
        self._where = path.stem
        self._file = pa.OSFile(str(path), "wb")
        facts = KINDS[kind]
        self._writer = pq.ParquetWriter(
            self._file,
            facts.schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=list(facts.repeats),
            write_statistics=facts.brief,
        )
        self._batches: list[pa.RecordBatch] = []  # what waits: these first, then the records
        self._pending: list[Record] = []
        self._pending_rows = 0
        self._pending_chars = 0

    def write(self, records: Sequence[Record]) -> None:
        """Append records, in order."""
        chars = KINDS[self._kind].chars
        with fitting(self._kind, self._where):
            for record in records:
                self._pending.append(record)
                self._wait(1, chars(record))

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Append the records of a batch; row groups end where they do when records are written."""
        ends = np.cumsum(KINDS[self._kind].batch_chars(batch))
        start, before = 0, 0
        while start < len(ends):
            full = int(np.searchsorted(ends, before + ROW_GROUP_CHARS - self._pending_chars)) + 1
            stop = min(start + ROW_GROUP_ROWS - self._pending_rows, full, len(ends))
            self._settle()
            self._batches.append(batch.slice(start, stop - start))
            self._wait(stop - start, int(ends[stop - 1]) - before)
            start, before = stop, int(ends[stop - 1])

    def _wait(self, rows: int, chars: int) -> None:
        self._pending_rows += rows
        self._pending_chars += chars
        if self._pending_rows == ROW_GROUP_ROWS or self._pending_chars >= ROW_GROUP_CHARS:
            self._flush()

    def _settle(self) -> None:
        """Turn the records that wait into a batch."""
        if self._pending:
            records, self._pending = self._pending, []
            self._batches.append(to_batch(records, self._kind, where=self._where))

    def _flush(self) -> None:
        self._settle()
        batches, self._batches, self._pending_rows, self._pending_chars = self._batches, [], 0, 0
        self._writer.write_batch(one_batch(batches), row_group_size=ROW_GROUP_ROWS)

    @property
    def bytes(self) -> int:
        """Bytes written so far plus the characters that wait."""
        return int(self._file.tell()) + self._pending_chars

    def close(self) -> None:
        """Write what waits and finish the file."""
        if self._pending_rows:
            self._flush()
        self._writer.close()
        self._file.close()

    def abandon(self) -> None:
        """Let go of a file that nobody wants; also after a failed `close`."""
        with contextlib.suppress(OSError, pa.ArrowException):
            self._writer.close()
        with contextlib.suppress(OSError):
            self._file.close()


class JsonlSink:
    """One compact JSON object per line, UTF-8, not escaped beyond what JSON asks for."""

    def __init__(self, path: Path, kind: RecordKind) -> None:
        self._kind = kind
        self._where = path.stem
        self._file = path.open("wb")
        self.bytes = 0

    def write(self, records: Sequence[Record]) -> None:
        """Append records, in order."""
        self.bytes += self._file.write(to_lines(records, self._kind, where=self._where))

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Append the records of a batch, in order."""
        self.write(to_records(batch))

    def close(self) -> None:
        """Write what waits and finish the file."""
        self._file.close()

    def abandon(self) -> None:
        """Let go of a file that nobody wants; also after a failed `close`."""
        with contextlib.suppress(OSError):
            self._file.close()


SINKS: Final[dict[str, type[ParquetSink] | type[JsonlSink]]] = {
    "parquet": ParquetSink,
    "jsonl": JsonlSink,
}
