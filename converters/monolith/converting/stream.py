"""One stream of a conversion: its rows, and what becomes of them."""

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

from ingot.converters.errors import SourceError
from ingot.converters.monolith.contract import Kind
from ingot.converters.monolith.converting.counts import Counts
from ingot.converters.monolith.converting.settings import Settings
from ingot.converters.monolith.converting.sinks import ExampleBatches, Examples, Sink, of_row
from ingot.converters.monolith.converting.verbatim import as_they_came
from ingot.converters.monolith.framing.compression import decompressing
from ingot.converters.monolith.framing.heads import looked_at
from ingot.converters.monolith.framing.probing import PARQUET
from ingot.converters.monolith.framing.reading import RecordReader
from ingot.converters.monolith.line_ids import MANDATORY, decode, lacking
from ingot.converters.monolith.reading import refusal
from ingot.converters.monolith.records import Bad, Records
from ingot.converters.monolith.rows import Rows
from ingot.converters.monolith.sources import as_far_as_read, rows_of, table_records
from ingot.converters.monolith.streams import Input
from ingot.converters.rows import Json

Reject = Callable[[dict[str, Json]], object]
"""Takes a reject, as rejects.jsonl has it."""
_HINT = "--skip-bad counts what is bad, and goes on"


class Stream:
    """One stream that is converted.

    Attributes:
        counts: what became of it so far.
        first_bad: what is wrong with the first thing in it that was skipped.
    """

    def __init__(
        self, file: Input, settings: Settings, reject: Reject, watch: Callable[[int], object]
    ) -> None:
        """Convert `file`; `reject` takes what is bad, `watch` how many rows were read."""
        self._file, self._settings = file, settings
        self._where = str(file.place)
        self._reject, self._watch = reject, watch
        self.counts = Counts()
        self.first_bad: SourceError | None = None

    def write(self, out: BinaryIO, compression: str) -> None:
        """Write its rows as Examples or ExampleBatches.

        Raises:
            SourceError: it cannot be read, or something is bad and nothing is to be skipped.
            ParametersError: its columns are not what they should be.
        """
        if self._settings.is_verbatim:
            self._reframe(out, compression)
            return
        kind = Examples if self._settings.target == "example" else ExampleBatches
        self.write_to(kind(out, self._settings, compression, self.counts))

    def write_to(self, sink: Sink) -> None:
        """Give its rows to a sink, and close that. Raises as `write`."""
        for rows in self.rows():
            for bad in sink.add(rows):
                self._row_is_bad(bad)
        sink.close()

    def _reframe(self, out: BinaryIO, compression: str) -> None:
        sink = Examples(out, self._settings, compression, self.counts)
        with self._opened() as stream:
            for part in self._parts(stream, "example"):
                if isinstance(part, Bad):
                    self._record_is_bad(part)
                    continue
                records, rows, wrong = as_they_came(part)
                self._read(rows)
                for bad in wrong:
                    self._record_is_bad(bad)
                self.counts.lacking += int(lacking(decode(rows)).sum())
                for bad in sink.write(records, rows):
                    self._row_is_bad(bad)
        sink.close()

    def rows(self) -> Iterator[Rows]:
        """Its rows that are left by filters, counted. Raises as `write`."""
        for part in self._found():
            if isinstance(part, Bad):
                self._is_bad(part)
                continue
            self._read(part)
            rows = self._with_line_ids(part)
            left = self._settings.filters.apply(rows, self._file.name, self.counts.filtered)
            if len(left):
                yield left

    def _found(self) -> Iterator[Rows | Bad]:
        """The rows of its records, or of its table."""
        with self._opened() as stream:
            if self._settings.source == "parquet":
                how = self._settings.table, self._settings.fid
                yield from rows_of(table_records(stream, self._where, *how), "example")
            else:
                kind = self._settings.source
                yield from rows_of(self._parts(stream, kind), kind, self.counts.lost)

    @contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        with self._file.place.open() as raw:
            if self._settings.source == "parquet":
                head, stream = looked_at(raw, self._where, len(PARQUET))
                if head != PARQUET:
                    raise SourceError(self._where, "is no Parquet file", "say what it is: --from")
                yield stream
            else:
                compression, kind = self._settings.compression, self._settings.source
                yield decompressing(raw, self._where, compression, kind)

    def _parts(self, stream: BinaryIO, kind: Kind) -> Iterator[Records | Bad]:
        reader = RecordReader(stream, self._where, self._settings.framing, kind)
        return as_far_as_read(reader) if self._settings.skip_bad else iter(reader)

    def _read(self, rows: Rows) -> None:
        self.counts.rows += len(rows)
        self._watch(len(rows))

    def _with_line_ids(self, rows: Rows) -> Rows:
        """Rows without those whose LineId lacks what it must have, where that is asked for."""
        lacks = lacking(decode(rows))
        self.counts.lacking += int(lacks.sum())
        if not self._settings.require_line_id or not lacks.any():
            return rows
        for at in lacks.nonzero()[0]:
            self._row_is_bad(of_row(rows, int(at), "mandatory", _what_lacks(rows, int(at))))
        return rows.chosen(~lacks)

    def _is_bad(self, bad: Bad) -> None:
        if bad.row is None and self._settings.source != "parquet":
            self._record_is_bad(bad)
        else:
            self.counts.rows += 1  # it was read, and no rows hold it
            self._row_is_bad(bad)

    def _record_is_bad(self, bad: Bad) -> None:
        self.counts.rejected_records += 1
        self._note(bad)

    def _row_is_bad(self, bad: Bad) -> None:
        self.counts.rejected_rows += 1
        self._note(bad)

    def _note(self, bad: Bad) -> None:
        of_table = self._settings.source == "parquet"
        error = refusal(self._where, bad, _HINT, of_table=of_table)
        if not self._settings.skip_bad:
            raise error
        self.first_bad = self.first_bad or error
        self.counts.rejects[bad.reason] += 1
        self._reject({"file": self._file.name, **dataclasses.asdict(bad)})


def _what_lacks(rows: Rows, at: int) -> str:
    lines = decode(rows.part(at, at + 1))
    return ", ".join(name for name in MANDATORY if not lines.given[name][0])
