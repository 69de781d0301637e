"""Streams opened to be looked at: what is not said of them is told by their content."""

import io
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final, cast

from ingot.converters.errors import SourceError, StorageError
from ingot.converters.monolith.contract import Kind
from ingot.converters.monolith.framing.compression import decompressing
from ingot.converters.monolith.framing.framing import Framing
from ingot.converters.monolith.recognizing import HEAD, Stream, stream_of
from ingot.converters.monolith.records import Bad, Records
from ingot.converters.monolith.rows import Rows
from ingot.converters.monolith.sources import rows_of
from ingot.converters.monolith.streams import STDIN, find_inputs
from ingot.converters.readers.faults import reading

_STANDARD: Final = "standard input"
_PARQUET: Final = b"PAR1"


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A stream that is read.

    Attributes:
        where: its file or URL.
        told: what it is read as, in words.
        guessed: whether some of that was told by its content.
        parts: its rows, and what is none, in its order; can be iterated once.
    """

    where: str
    told: str
    guessed: bool
    parts: Iterator[Rows | Bad]


@dataclass(frozen=True, kw_only=True)
class Said:
    """What the user says of streams; None: told by their content.

    Attributes:
        kind: of their records, or `parquet`.
        framing: of their records.
        compression: of the files.
    """

    kind: str | None = None
    framing: Framing | None = None
    compression: str | None = None


def opened(location: str, said: Said = Said()) -> Iterator[Opened]:
    """Open the streams of a location one after the other; each is closed before the next.

    Args:
        location: a file, a folder (without hidden and side files), a glob, an fsspec URL or `-`.
        said: what is known of them.

    Raises:
        SourceError: nothing there, it cannot be read, or what it is cannot be told.
    """
    if location == STDIN:
        yield from _one(_STANDARD, sys.stdin.buffer, said)
        return
    for file in find_inputs(location).files:
        with file.place.open() as raw:
            yield from _one(str(file.place), raw, said)


def _one(where: str, raw: BinaryIO, said: Said) -> Iterator[Opened]:
    head, raw = _looked_at(raw, where)
    if said.kind == "parquet" or (said.kind is None and head.startswith(_PARQUET)):
        yield _table(where, raw, guessed=said.kind is None)
    else:
        yield _stream(where, head, raw, said)


def _looked_at(raw: BinaryIO, where: str) -> tuple[bytes, BinaryIO]:
    """The first bytes of a stream, and the stream with them still to come.

    That it ends too early comes where it would have come.
    """
    head, error = b"", None
    try:
        with reading(where):
            while len(head) < HEAD and (more := raw.read(HEAD - len(head))):
                head += more
            if raw.seekable():
                raw.seek(0)
                return head, raw
    except StorageError:
        raise
    except SourceError as found:
        error = found
    return head, cast(BinaryIO, _Again(head, raw, error))


class _Again(io.RawIOBase):
    """A stream that cannot go back, with what was read of it."""

    def __init__(self, head: bytes, raw: BinaryIO, error: SourceError | None) -> None:
        self._head = memoryview(head)
        self._raw = raw
        self._error = error

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes, all with -1. Raises SourceError."""
        if size < 0:
            return b"".join(iter(lambda: self.read(1 << 20), b""))
        if not self._head and self._error is not None:
            raise self._error
        data = bytes(self._head[:size]) or self._raw.read(size)
        self._head = self._head[len(data) :]
        return data


def _stream(where: str, head: bytes, raw: BinaryIO, said: Said) -> Opened:
    from ingot.converters.monolith.framing.reading import RecordReader

    compression = said.compression or _unmarked(head)
    unpacked = decompressing(raw, where, compression)
    if compression != "none":
        head, unpacked = _looked_at(unpacked, where)
    found = stream_of(head)
    kind = cast(Kind | None, said.kind) or (found.kind if found else None)
    if kind is None:
        hint = "say what it is: --from example, examplebatch, instance or parquet, and --framing"
        raise SourceError(where, "no stream of Monolith by its first bytes", hint)
    framing = said.framing or _framing(found)
    return Opened(
        where=where,
        told=f"{kind}, framing {framing}",
        guessed=said.kind is None or said.framing is None,
        parts=rows_of(_going_on(RecordReader(unpacked, where, framing, kind)), kind),
    )


def _unmarked(head: bytes) -> str | None:
    """A compression that no magic tells; None: it is told by name and magic."""
    found = stream_of(head)
    return found.compression if found else None


def _framing(found: Stream | None) -> Framing:
    return Framing.parse(found.framing) if found else Framing()


def _going_on(parts: Iterable[Records | Bad]) -> Iterator[Records | Bad]:
    """The parts of a stream; that it cannot be read on is a `Bad`."""
    number = 0
    try:
        for part in parts:
            yield part
            number = part.number + len(part) if isinstance(part, Records) else part.record + 1
    except StorageError:
        raise
    except SourceError as error:
        yield Bad(
            offset=0,
            bytes=0,
            record=number,
            row=None,
            reason="unreadable",
            detail=f"after {number:,} records: {error.problem}",
        )


def _table(where: str, raw: BinaryIO, *, guessed: bool) -> Opened:
    parts = rows_of(_examples(where, raw), "example")
    return Opened(where=where, told="parquet", guessed=guessed, parts=parts)


def _examples(where: str, raw: BinaryIO) -> Iterator[Records | Bad]:
    """The rows of a table as Examples, and those that are none.

    Raises:
        SourceError: it is no Parquet file, or is damaged.
        ParametersError: what its columns are cannot be told.
    """
    from ingot.converters.monolith.tables.encoding import examples_of
    from ingot.converters.monolith.tables.files import open_table
    from ingot.converters.monolith.tables.plan import plan_of

    number = 0
    with open_table(raw, where) as (schema, batches):
        plan = plan_of(schema, None, where=where)
        for batch in batches:
            records, wrong = examples_of(batch, plan, number)
            yield records
            yield from wrong
            number += batch.num_rows
