"""Unified records on disk: numbered parts as Parquet or JSONL, and the way back.

A PT record is `{"text", "meta"}`, an SFT record `{"messages": [{"role", "content", "loss_mask"}],
"system", "tools", "meta"}`. Both forms hold the same records; in JSONL `tools` is left out when it
is null, every other key is always there. A part appears under its name only when it is whole, and
a part without records is not written. The bytes depend on the records alone, not on how they were
cut into `write` calls.
"""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from ingot.converters.errors import ConversionError, OutputError
from ingot.converters.record_kinds import (
    KINDS,
    PT_SCHEMA,
    RECORD_KEY,
    SFT_SCHEMA,
    Record,
    RecordKind,
    json_line,
    to_records,
)
from ingot.converters.record_lines import read_line_batches, read_lines
from ingot.converters.record_sinks import SINKS, JsonlSink, ParquetSink, RecordFormat
from ingot.converters.rows import Json, Reject

__all__ = [
    "PT_SCHEMA",
    "SFT_SCHEMA",
    "Record",
    "RecordFormat",
    "RecordKind",
    "RecordWriter",
    "RejectWriter",
    "read_batches",
    "read_records",
    "record_files",
    "reject_document",
    "reject_line",
]

READ_ROWS: Final = 1_000
FOUND_CHARS: Final = 200  # of what a reject shows


def part_name(part: int, record_format: str) -> str:
    """File name of a part: `part-00000.parquet`."""
    return f"part-{part:05d}.{record_format}"


class RecordWriter:
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
        kind: RecordKind,
        format: RecordFormat = "parquet",
        part: int = 0,
    ) -> None:
        self.path = folder / part_name(part, format)
        self.rows = 0
        self._bytes = 0
        self._kind = kind
        self._format = format
        self._staged = self.path.with_name(f"{self.path.name}.tmp")
        self._sink: ParquetSink | JsonlSink | None = None

    @property
    def bytes(self) -> int:
        """Bytes of the part; until it is closed, what is on disk plus what waits in memory."""
        return self._sink.bytes if self._sink else self._bytes

    def write(self, records: Sequence[Record]) -> None:
        """Append records, in order."""
        if records:
            with _output(self.path):
                self._opened().write(records)
            self.rows += len(records)

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Append records that are a batch of the kind's schema; the part is the same."""
        if batch.num_rows:
            with _output(self.path):
                self._opened().write_batch(batch)
            self.rows += batch.num_rows

    def _opened(self) -> ParquetSink | JsonlSink:
        if self._sink is None:
            self._sink = SINKS[self._format](self._staged, self._kind)
        return self._sink

    def close(self) -> None:
        """Finish the part: it is whole and under its name afterwards."""
        if self._sink is None:
            return
        with _output(self.path):
            self._sink.close()
            self._bytes = self._staged.stat().st_size
            self._staged.replace(self.path)
            self._sink = None

    def __enter__(self) -> "RecordWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self.close()
        finally:
            self._abandon()

    def _abandon(self) -> None:
        if self._sink is not None:
            self._sink.abandon()
            self._sink = None
        with contextlib.suppress(OSError):
            self._staged.unlink()


@contextlib.contextmanager
def _output(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(
            str(path),
            f"cannot be written: {error.strerror or error}",
            "check space and permissions",
        ) from error


class RejectWriter:
    """Writes `part-00000.jsonl` of rejected rows: file, row, element, reason, path, found (cut).

    The file appears under its name when the block ends well; no rejects, no file.

    Attributes:
        path: where the file is (going to be).
        count: lines written.

    Raises:
        OutputError: the folder cannot be written.
    """

    def __init__(self, folder: Path, *, part: int = 0) -> None:
        self.path = folder / part_name(part, "jsonl")
        self.count = 0
        self._staged = self.path.with_name(f"{self.path.name}.tmp")
        self._file: BinaryIO | None = None

    def write(self, rejects: Iterable[Reject]) -> None:
        """Append rejects, in order."""
        lines = [reject_line(reject) for reject in rejects]
        if not lines:
            return
        with _output(self.path):
            self._file = self._file or self._staged.open("wb")
            self._file.write(b"".join(lines))
        self.count += len(lines)

    def close(self) -> None:
        """Finish the file: it is whole and under its name afterwards."""
        if self._file is None:
            return
        with _output(self.path):
            self._file.close()
            self._file = None
            self._staged.replace(self.path)

    def __enter__(self) -> "RejectWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self.close()
        finally:
            with contextlib.suppress(OSError):
                if self._file is not None:
                    self._file.close()
            with contextlib.suppress(OSError):
                self._staged.unlink()


def reject_line(reject: Reject) -> bytes:
    """A reject as a line of JSON: file, row, element, reason, path, found (its beginning)."""
    return json_line(reject_document(reject))


def reject_document(reject: Reject) -> dict[str, Json]:
    """A reject as the object of its line."""
    return {
        "file": _printable(reject.file),
        "row": reject.row,
        "element": reject.element,
        "reason": reject.reason,
        "path": _printable(reject.path),
        "found": _shortened(_printable(reject.found)),
    }


def _printable(text: str | None) -> str | None:
    """The text with whatever UTF-8 cannot hold (file names, broken rows) replaced by `?`."""
    return None if text is None else text.encode("utf-8", "replace").decode("utf-8")


def _shortened(text: str | None) -> str | None:
    if text is None or len(text) <= FOUND_CHARS:
        return text
    return f"{text[:FOUND_CHARS]}…"


def record_files(location: Path | Sequence[Path]) -> list[Path]:
    """The parts of a folder, by number; files given as such, in the order given.

    Raises:
        ConversionError: there is no such folder or file.
    """
    if not isinstance(location, Path):
        return [file for item in location for file in record_files(item)]
    if location.is_dir():
        parts = [f for f in location.glob("part-*") if f.suffix in (".parquet", ".jsonl")]
        return sorted(parts, key=lambda part: (len(part.stem), part.name))  # 99999 before 100000
    if not location.is_file():
        raise ConversionError(str(location), "no such file or folder", "name a folder of records")
    return [location]


def read_batches(
    location: Path | Sequence[Path], *, rows: int = READ_ROWS
) -> Iterator[pa.RecordBatch]:
    """Stream records as batches of `PT_SCHEMA` or `SFT_SCHEMA`, at most `rows` each, file by file.

    Args:
        location: a folder of parts or files, Parquet or JSONL.
        rows: records per batch; a batch of JSONL is also cut at 16 MiB of lines.

    Raises:
        ConversionError: a file is missing, cut, or holds no unified records.
    """
    for file in record_files(location):
        if file.suffix == ".parquet":
            yield from _parquet_batches(file, rows)
        else:
            yield from read_line_batches(file, rows)


def read_records(location: Path | Sequence[Path]) -> Iterator[Record]:
    """Stream records as dicts, the same from Parquet and JSONL (`tools` only if it is not null).

    Raises:
        ConversionError: a file is missing, cut, or holds no unified records.
    """
    for file in record_files(location):
        if file.suffix == ".parquet":
            for batch in _parquet_batches(file, READ_ROWS):
                yield from to_records(batch)
        else:
            for _, records in read_lines(file, READ_ROWS):
                yield from records


def kind_of_schema(schema: pa.Schema) -> RecordKind | None:
    """`pt` or `sft` as the Parquet metadata key `ingot.record` says, else None."""
    stated = (schema.metadata or {}).get(RECORD_KEY, b"")
    return next((kind for kind in KINDS if kind.encode() == stated), None)


def _parquet_batches(file: Path, rows: int) -> Iterator[pa.RecordBatch]:
    try:
        with pq.ParquetFile(file, pre_buffer=False) as parquet:  # else the file is in memory
            kind = kind_of_schema(parquet.schema_arrow)
            if kind is None or not parquet.schema_arrow.equals(KINDS[kind].schema):
                raise _not_records(file)
            for batch in parquet.iter_batches(batch_size=rows):
                batch.validate(full=True)  # Parquet readers do not look whether a text is UTF-8
                yield batch.replace_schema_metadata(KINDS[kind].schema.metadata)
    except (pa.ArrowException, OSError) as error:
        raise ConversionError(
            str(file), f"not a readable Parquet file: {error}", "write the records again"
        ) from error


def _not_records(file: Path) -> ConversionError:
    return ConversionError(
        str(file), "holds no unified records", "convert the data set first: `ingot convert`"
    )
