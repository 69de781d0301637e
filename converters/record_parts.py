"""Records into numbered parts, each closed at a bound."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import pyarrow as pa

from ingot.converters.record_kinds import Record, RecordKind
from ingot.converters.records import RecordFormat, RecordWriter

# A part is closed before the batch that finds it at either bound.
PART_RECORDS = 1_000_000
PART_BYTES = 256 << 20


class PartsWriter:
    """Record parts in a folder, numbered from 0, each closed at its bound.

    To be used in a `with` block, at whose end the last part takes its name.

    Attributes:
        rows: records written.

    Raises:
        OutputError: the folder cannot be written.
        ConversionError: a record does not fit its schema.
    """

    def __init__(self, folder: Path, *, kind: RecordKind, format: RecordFormat) -> None:
        self.rows = 0
        self._folder = folder
        self._kind: RecordKind = kind
        self._format: RecordFormat = format
        self._number = 0
        self._writer = self._next()

    def _next(self) -> RecordWriter:
        return RecordWriter(self._folder, kind=self._kind, format=self._format, part=self._number)

    def write(self, records: Sequence[Record]) -> None:
        """Append records, in order."""
        self._bounded().write(records)
        self.rows += len(records)

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Append records that are a batch of the kind's schema."""
        self._bounded().write_batch(batch)
        self.rows += batch.num_rows

    def _bounded(self) -> RecordWriter:
        if self._writer.rows >= PART_RECORDS or self._writer.bytes >= PART_BYTES:
            self._writer.close()
            self._number += 1
            self._writer = self._next()
        return self._writer

    def __enter__(self) -> "PartsWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._writer.__exit__(kind, error, trace)
