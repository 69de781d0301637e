"""Find streams, read their rows whatever kind of records they have, and detect what is not said."""

import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from ingot.converters.errors import SourceError, StorageError
from ingot.converters.output.files import MANIFEST, RUN, output_errors
from ingot.converters.recsys.monolith.frames.compression import open_decompressed, peek_bytes
from ingot.converters.recsys.monolith.frames.framing import PARQUET, Framing, StreamHints
from ingot.converters.recsys.monolith.record_index import Bad, Records, Rows
from ingot.converters.sources.file_kinds import side_file_reason
from ingot.converters.sources.recognizers.monolith import MONOLITH_HEAD, Kind, recognize_monolith
from ingot.converters.sources.storage.listing import Entry, LocalFile, Place, list_location

if TYPE_CHECKING:
    import pyarrow as pa

    from ingot.converters.recsys.monolith.fid import Version
    from ingot.converters.recsys.monolith.frames.record_io import RecordReader
    from ingot.converters.recsys.monolith.tables.table_file import TableFile

_NO_HINTS: Final = StreamHints()
STDIN: Final = "-"
REJECTS: Final = "rejects.jsonl"
_HASHED: Final = 8 << 20


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """The streams of a location, by name; `direct`: it is one file, or standard input."""

    where: str
    direct: bool
    files: tuple[Entry, ...]


def find_inputs(location: str) -> Inputs:
    """Return the streams of a file, folder, glob or URL, without hidden and auxiliary files."""
    listing = list_location(location)
    files = tuple(one for one in listing.entries if listing.direct or not _is_auxiliary(one.name))
    if not files:
        problem = "holds no streams"
        if listing.results:
            problem += f", but results of ingot, such as {listing.results[0]}"
        raise SourceError(location, problem, "name the folder, or the file, that has them")
    return Inputs(where=location, direct=listing.direct, files=files)


def _is_auxiliary(name: str) -> bool:
    """Hidden files, and those that Hadoop and conversions put beside data."""
    parts = name.split("/")
    hidden = any(part[:1] in "._" for part in parts)
    ours = parts[-1] in (MANIFEST, RUN) or parts[-1].endswith(REJECTS)
    return hidden or ours or side_file_reason(name) is not None


@contextmanager
def standard_input(folder: Path | None) -> Iterator[Inputs]:
    """Yield standard input as a source."""
    if folder is None:
        yield _stdin_inputs(cast("Place", _Stdin()))
        return
    descriptor, path = tempfile.mkstemp(prefix=".ingot-", suffix=".stdin", dir=folder)
    try:
        with output_errors(folder), os.fdopen(descriptor, "wb") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy, _HASHED)
        yield _stdin_inputs(LocalFile(path))
    finally:
        Path(path).unlink(missing_ok=True)


def _stdin_inputs(location: Place) -> Inputs:
    file = Entry(name="standard input", place=location, bytes=0)
    return Inputs(where=STDIN, direct=True, files=(file,))


class _Stdin:
    def __str__(self) -> str:
        return "standard input"

    def open(self) -> BinaryIO:
        """Return the rest of standard input; closing it leaves standard input open."""
        return cast("BinaryIO", os.fdopen(os.dup(sys.stdin.fileno()), "rb"))


def read_rows(
    parts: Iterable[Records | Bad], kind: Kind, lost: Counter[str] | None = None
) -> Iterator[Rows | Bad]:
    """Yield the rows of records in batches, and what cannot be used, in the order of the stream."""
    for part in parts:
        if isinstance(part, Bad):
            yield part
            continue
        for rows, wrong in _index_records(part, kind, lost):
            if len(rows):
                yield rows
            yield from wrong


def read_until_error(reader: "RecordReader") -> Iterator[Records | Bad]:
    """Yield the parts of a reader; an error that ends the reading is yielded as a last `Bad`."""
    from ingot.converters.recsys.monolith.frames.record_io import OtherKindError

    number = 0
    try:
        for part in reader:
            yield part
            number = (int(part.record[-1]) if isinstance(part, Records) else part.record) + 1
    except (StorageError, OtherKindError):
        raise
    except SourceError as error:
        detail = f"after {number:,} records: {error.problem}"
        offset, size = reader.broken
        yield Bad(offset=offset, bytes=size, record=number, reason="unreadable", detail=detail)


def read_table_rows(
    stream: BinaryIO, location: str, table: "TableFile | None" = None, fid: "Version" = "v2"
) -> Iterator[Rows | Bad]:
    """Yield the rows of a Parquet file, and those that cannot be Examples; see `tables.plan`."""
    from ingot.converters.recsys.monolith.tables.rows_to_arrow import open_table

    with open_table(stream, location) as (schema, batches):
        yield from convert_batches(schema, batches, location, table, fid)


def convert_batches(
    schema: "pa.Schema",
    batches: "Iterable[pa.RecordBatch]",
    location: str,
    table: "TableFile | None" = None,
    fid: "Version" = "v2",
) -> Iterator[Rows | Bad]:
    """Yield the rows of record batches, and those that cannot be Examples."""
    from ingot.converters.recsys.monolith.tables.arrow_to_examples import encode_batch
    from ingot.converters.recsys.monolith.tables.column_plan import plan_columns

    number, plan = 0, plan_columns(schema, table, fid, location)
    for batch in batches:
        rows, wrong = encode_batch(batch, plan, number)
        if len(rows):
            yield rows
        yield from wrong
        number += batch.num_rows


def _index_records(
    records: Records, kind: Kind, lost: Counter[str] | None
) -> Iterable[tuple[Rows, list[Bad]]]:
    # Kernels are loaded with what calls them.
    from ingot.converters.recsys.monolith.wire.row_index import (
        index_batches,
        index_examples,
        index_instances,
    )

    if kind == "examplebatch":
        return index_batches(records)
    if kind == "example":
        return [index_examples(records)]
    return [index_instances(records, Counter() if lost is None else lost)]


@dataclass(frozen=True, kw_only=True)
class OpenedStream:
    """A stream that is read."""

    where: str
    told: str
    guessed: bool
    parts: Iterator[Rows | Bad]  # its rows, and what is none, in its order; can be iterated once


def open_streams(location: str, hints: StreamHints = _NO_HINTS) -> Iterator[OpenedStream]:
    """Open the streams of a location one after the other; each is closed before the next."""
    if location == STDIN:
        yield _open_stream("standard input", sys.stdin.buffer, hints)
        return
    for file in find_inputs(location).files:
        with file.place.open() as raw:
            yield _open_stream(str(file.place), raw, hints)


def _open_stream(location: str, raw: BinaryIO, hints: StreamHints) -> OpenedStream:
    head, raw = peek_bytes(raw, location, MONOLITH_HEAD)
    if hints.kind == "parquet" or (hints.kind is None and head.startswith(PARQUET)):
        parts = read_table_rows(raw, location)
        return OpenedStream(where=location, told="parquet", guessed=hints.kind is None, parts=parts)
    from ingot.converters.recsys.monolith.frames.record_io import RecordReader

    # Compression that no magic tells; else it is told by name and magic.
    by_content = recognize_monolith(head)
    compression = hints.compression or (by_content.compression if by_content else None)
    unpacked = open_decompressed(raw, location, compression)
    if compression != "none":
        head, unpacked = peek_bytes(unpacked, location, MONOLITH_HEAD)
    if not head:
        return OpenedStream(where=location, told="empty", guessed=False, parts=iter(()))
    # Of a stream that is damaged early on the first record may tell.
    recognized = recognize_monolith(head) or recognize_monolith(head, records=1)
    kind = cast("Kind | None", hints.kind) or (recognized.kind if recognized else None)
    if kind is None:
        hint = "set `source` to example, examplebatch, instance or parquet, and set `framing`"
        raise SourceError(location, "does not begin like a stream of Monolith", hint)
    framing = hints.framing or (Framing.parse(recognized.framing) if recognized else Framing())
    return OpenedStream(
        where=location,
        told=f"{kind}, framing {framing}",
        guessed=hints.kind is None or hints.framing is None,
        parts=read_rows(read_until_error(RecordReader(unpacked, location, framing, kind)), kind),
    )
