"""Write unified records as numbered parts of Parquet or JSONL, each closed at a bound."""

import contextlib
import json
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ingot.converters.output.files import FinishedBlock, output_errors
from ingot.converters.records import RecordFormat
from ingot.converters.records import schema as schemas
from ingot.converters.records.schema import json_line
from ingot.converters.rows import Reject

ROW_GROUP_ROWS: Final = 10_000
ROW_GROUP_BYTES: Final = 16 << 20  # bounds what a writer holds: a row group is built in memory
_HELD_ROWS: Final = 1_000


class ParquetSink:
    """Row groups of `ROW_GROUP_ROWS` records, or fewer once they hold `ROW_GROUP_BYTES`."""

    def __init__(self, path: Path, kind: schemas.RecordKind) -> None:
        self._kind = kind
        self._where = path.stem
        self._file = pa.OSFile(str(path), "wb")
        facts = schemas.KINDS[kind]
        self._writer = pq.ParquetWriter(
            self._file,
            facts.schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=list(facts.repeats),
            write_statistics=facts.brief,
        )
        self._held: list[schemas.Record] = []  # few at a time make slow batches
        self._held_bytes = 0
        self._batches: list[pa.RecordBatch] = []  # what waits
        self._pending_rows = 0
        self._pending_bytes = 0

    def write(self, records: Sequence[schemas.Record]) -> None:
        """Append records, in order."""
        size_of = schemas.KINDS[self._kind].text_bytes
        with schemas.schema_errors(self._kind, self._where):
            for record in records:
                self._held.append(record)
                self._held_bytes += size_of(record)
                rows = self._pending_rows + len(self._held)
                size = self._pending_bytes + self._held_bytes
                full = rows == ROW_GROUP_ROWS or size >= ROW_GROUP_BYTES
                if full or len(self._held) == _HELD_ROWS:
                    self._settle()

    def _settle(self) -> None:
        """Add what is held to what waits: at the latest when that makes a row group."""
        held, self._held, self._held_bytes = self._held, [], 0
        if held:
            self._append(schemas.to_batch(held, self._kind, where=self._where))

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Append the records of a batch; row groups end where they do when records are written."""
        self._settle()
        self._append(batch)

    def _append(self, batch: pa.RecordBatch) -> None:
        ends = np.cumsum(schemas.KINDS[self._kind].lengths(batch, pc.binary_length))
        start, before = 0, 0
        while start < len(ends):
            full = int(np.searchsorted(ends, before + ROW_GROUP_BYTES - self._pending_bytes)) + 1
            stop = min(start + ROW_GROUP_ROWS - self._pending_rows, full, len(ends))
            self._batches.append(batch.slice(start, stop - start))
            self._pending_rows += stop - start
            self._pending_bytes += int(ends[stop - 1]) - before
            start, before = stop, int(ends[stop - 1])
            if self._pending_rows == ROW_GROUP_ROWS or self._pending_bytes >= ROW_GROUP_BYTES:
                self._flush()

    def _flush(self) -> None:
        batches, self._batches, self._pending_rows, self._pending_bytes = self._batches, [], 0, 0
        self._writer.write_batch(schemas.join_batches(batches), row_group_size=ROW_GROUP_ROWS)

    @property
    def bytes(self) -> int:
        """Return bytes written so far plus those of the texts that wait."""
        return int(self._file.tell()) + self._pending_bytes + self._held_bytes

    def close(self) -> None:
        """Write what waits and finish the file."""
        self._settle()
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

    def __init__(self, path: Path, kind: schemas.RecordKind) -> None:
        self._kind = kind
        self._where = path.stem
        self._file = path.open("wb")
        self.bytes = 0

    def write(self, records: Sequence[schemas.Record]) -> None:
        """Append records, in order."""
        ordered = schemas.KINDS[self._kind].ordered
        with schemas.schema_errors(self._kind, self._where):
            lines = [json_line(ordered(record)) for record in records]
        self.bytes += self._file.write(b"".join(lines))

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Append the records of a batch, in order; their keys have the order of its schema."""
        lines = map(json_line, schemas.to_records(batch))
        self.bytes += self._file.write(b"".join(lines))

    def close(self) -> None:
        """Write what waits and finish the file."""
        self._file.close()


SINKS: Final[dict[str, type[ParquetSink] | type[JsonlSink]]] = {
    "parquet": ParquetSink,
    "delta": ParquetSink,
    "jsonl": JsonlSink,
}


Sink = TypeVar("Sink", bound="ParquetSink | JsonlSink | BinaryIO")


class _PartFile(FinishedBlock, Generic[Sink]):
    """A part, begun by what is written first, which appears under its name at the end."""

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / name
        self._staged = self.path.with_name(f"{name}.tmp")
        self._sink: Sink | None = None
        self._bytes = 0

    def close(self) -> None:
        """Finish the part: it is whole and under its name afterwards."""
        if self._sink is None:
            return
        with output_errors(self.path):
            self._sink.close()
            self._bytes = self._staged.stat().st_size
            self._staged.replace(self.path)
            self._sink = None

    def abandon(self) -> None:
        """Let go of a part that is not finished."""
        with contextlib.suppress(OSError):
            if isinstance(self._sink, ParquetSink):
                self._sink.abandon()
            elif self._sink is not None:
                self._sink.close()
        self._sink = None
        with contextlib.suppress(OSError):
            self._staged.unlink()


class RecordWriter(_PartFile["ParquetSink | JsonlSink"]):
    """Writes one part: `with RecordWriter(folder, kind="sft") as w: w.write(records)`.

    The part appears under its name when the block ends well, and leaves nothing when it does not.
    A part that got no record is not written.

    Attributes:
        path: where the part is (going to be).
        rows: records written.

    Raises:
        OutputError: the folder cannot be written.
        ConversionError: a record does not fit its schema.
    """

    def __init__(
        self,
        folder: Path,
        *,
        kind: schemas.RecordKind,
        format: RecordFormat = "parquet",
        part: int = 0,
    ) -> None:
        super().__init__(folder, part_name(part, format))
        self.rows = 0
        self._kind = kind
        self._format = format

    @property
    def bytes(self) -> int:
        """Return the bytes of the part.

        Before it is closed: the bytes on disk and those that wait in memory.
        """
        return self._sink.bytes if self._sink else self._bytes

    def write(self, records: Sequence[schemas.Record]) -> None:
        """Append records, in order."""
        if records:
            with output_errors(self.path):
                self._opened().write(records)
            self.rows += len(records)

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Append records that are a batch of the kind's schema; the part is the same."""
        if batch.num_rows:
            with output_errors(self.path):
                self._opened().write_batch(batch)
            self.rows += batch.num_rows

    def _opened(self) -> ParquetSink | JsonlSink:
        if self._sink is None:
            self._sink = SINKS[self._format](self._staged, self._kind)
        return self._sink


# A part is closed before the batch that finds it at either bound.
PART_RECORDS = 1_000_000
PART_BYTES = 256 << 20


class PartsWriter(FinishedBlock):
    """Record parts in a folder, numbered from 0, each closed at its bound, the last at the end."""

    def __init__(self, folder: Path, *, kind: schemas.RecordKind, format: RecordFormat) -> None:
        self.rows = 0
        self._folder = folder
        self._kind: schemas.RecordKind = kind
        self._format: RecordFormat = format
        self._number = 0
        self._writer = self._next()

    def _next(self) -> RecordWriter:
        return RecordWriter(self._folder, kind=self._kind, format=self._format, part=self._number)

    def write(self, records: Sequence[schemas.Record], *, same_part: bool = False) -> None:
        """Append records, in order; with `same_part` to the part of those before them."""
        self._bounded(same_part).write(records)
        self.rows += len(records)

    def write_batch(self, batch: pa.RecordBatch, *, same_part: bool = False) -> None:
        """Append records that are a batch of the kind's schema."""
        self._bounded(same_part).write_batch(batch)
        self.rows += batch.num_rows

    def _bounded(self, same_part: bool) -> RecordWriter:
        full = self._writer.rows >= PART_RECORDS or self._writer.bytes >= PART_BYTES
        if full and not same_part:
            self._writer.close()
            self._number += 1
            self._writer = self._next()
        return self._writer

    def close(self) -> None:
        """Finish the last part."""
        self._writer.close()

    def abandon(self) -> None:
        """Let go of the last part where it is not finished."""
        self._writer.abandon()


FOUND_CHARS: Final = 200  # of what a line holds
_SHOWN_CHARS: Final = 100


def part_name(part: int, record_format: str, further: int = 0) -> str:
    """Return the file name of a part: `part-00000.parquet`, further ones `part-00000_001.parquet`.

    In a result `part` is the number of a shard and `further` counts the parts behind its first. A
    Delta table has the same names.
    """
    more = f"_{further:03d}" if further else ""
    return f"part-{part:05d}{more}.{'parquet' if record_format == 'delta' else record_format}"


def part_shard(name: str) -> int:
    """Return the number of the shard in the name of a part."""
    return int(name.partition("-")[2].partition(".")[0].partition("_")[0])


def part_order(name: str) -> tuple[int, str, int, str]:
    """Sort key of the names of parts: 99999 before 100000, and `_999` before `_1000`."""
    first, _, further = name.partition(".")[0].partition("_")
    return len(first), first, len(further), name


class RejectWriter(_PartFile[BinaryIO]):
    """Writes `part-00000.jsonl` of rejected rows, if there are some."""

    def __init__(self, folder: Path, *, part: int = 0) -> None:
        super().__init__(folder, part_name(part, "jsonl"))
        self.count = 0

    def write(self, rejects: Iterable[Reject]) -> None:
        """Append rejects, in order."""
        lines = [reject_line(reject) for reject in rejects]
        if not lines:
            return
        with output_errors(self.path):
            self._sink = self._sink or self._staged.open("wb")
            self._sink.write(b"".join(lines))
        self.count += len(lines)


def reject_line(reject: Reject) -> bytes:
    """Return a reject as a JSON line: file, row, element, reason, path, beginning of the value."""
    return json_line(reject_document(reject))


def reject_document(reject: Reject) -> dict[str, Any]:
    """Return a reject as the object of its line; `found` is the beginning of what stands there."""
    text = _encodable_text(reject.found)
    return {
        "file": _encodable_text(reject.file),
        "row": reject.row,
        "element": reject.element,
        "reason": reject.reason,
        "path": _encodable_text(reject.path),
        "found": text if text is None or len(text) <= FOUND_CHARS else f"{text[:FOUND_CHARS]}…",
    }


def _encodable_text(text: str | None) -> str | None:
    """The text with whatever UTF-8 cannot hold (file names, broken rows) replaced by `?`."""
    return None if text is None else text.encode("utf-8", "replace").decode("utf-8")


def reject_text(reject: Reject) -> str:
    """Return a reject for people: place, reason, path, what was found."""
    return _document_text(reject_document(reject))


def first_reject_texts(files: Iterable[Path], most: int) -> list[str]:
    """Return the first rejects of some parts as texts.

    Filtered rows are left out, and so are the values that were found.
    """
    texts: list[str] = []
    for file in files:
        with file.open("rb") as stream:
            rejects = (one for one in map(json.loads, stream) if one["reason"] != "filtered")
            first = islice(rejects, most - len(texts))
            texts += (_document_text({**one, "found": None}) for one in first)
    return texts


def _document_text(reject: dict[str, Any]) -> str:
    element = "" if reject["element"] is None else f", element {reject['element']}"
    path = f" at {reject['path']}" if reject["path"] else ""
    found = f": {reject['found'][:_SHOWN_CHARS]}" if reject["found"] else ""
    return f"{reject['file']} row {reject['row']}{element}: {reject['reason']}{path}{found}"
