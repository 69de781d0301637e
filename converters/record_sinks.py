"""The two forms of a part: where records go until the file is closed."""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from ingot.converters.record_kinds import KINDS, Record, RecordKind, fitting, to_batch, to_lines

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
        self._pending: list[Record] = []
        self._pending_chars = 0

    def write(self, records: Sequence[Record]) -> None:
        """Append records, in order."""
        chars = KINDS[self._kind].chars
        with fitting(self._kind, self._where):
            for record in records:
                self._pending_chars += chars(record)
                self._pending.append(record)
                if len(self._pending) == ROW_GROUP_ROWS or self._pending_chars >= ROW_GROUP_CHARS:
                    self._flush()

    def _flush(self) -> None:
        records, self._pending, self._pending_chars = self._pending, [], 0
        self._writer.write_batch(
            to_batch(records, self._kind, where=self._where), row_group_size=ROW_GROUP_ROWS
        )

    @property
    def bytes(self) -> int:
        """Bytes written so far plus the characters that wait."""
        return int(self._file.tell()) + self._pending_chars

    def close(self) -> None:
        """Write what waits and finish the file."""
        if self._pending:
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
