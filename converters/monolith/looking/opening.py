"""Streams opened to be looked at: what is not said of them is told by their content."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final, cast

from ingot.converters.errors import SourceError
from ingot.converters.monolith.contract import Kind
from ingot.converters.monolith.framing.compression import decompressing
from ingot.converters.monolith.framing.framing import Framing
from ingot.converters.monolith.framing.heads import looked_at
from ingot.converters.monolith.framing.probing import PARQUET
from ingot.converters.monolith.recognizing import HEAD, Stream, stream_of
from ingot.converters.monolith.records import Bad
from ingot.converters.monolith.rows import Rows
from ingot.converters.monolith.sources import as_far_as_read, rows_of, table_records
from ingot.converters.monolith.streams import STDIN, find_inputs

_STANDARD: Final = "standard input"


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
    head, raw = looked_at(raw, where, HEAD)
    if said.kind == "parquet" or (said.kind is None and head.startswith(PARQUET)):
        yield _table(where, raw, guessed=said.kind is None)
    else:
        yield _stream(where, head, raw, said)


def _stream(where: str, head: bytes, raw: BinaryIO, said: Said) -> Opened:
    from ingot.converters.monolith.framing.reading import RecordReader

    compression = said.compression or _unmarked(head)
    unpacked = decompressing(raw, where, compression)
    if compression != "none":
        head, unpacked = looked_at(unpacked, where, HEAD)
    if not head:
        return Opened(where=where, told="empty", guessed=False, parts=iter(()))
    # Of a stream that is damaged early on the first record may tell.
    found = stream_of(head) or stream_of(head, records=1)
    kind = cast(Kind | None, said.kind) or (found.kind if found else None)
    if kind is None:
        hint = "say what it is: --from example, examplebatch, instance or parquet, and --framing"
        raise SourceError(where, "no stream of Monolith by its first bytes", hint)
    framing = said.framing or _framing(found)
    return Opened(
        where=where,
        told=f"{kind}, framing {framing}",
        guessed=said.kind is None or said.framing is None,
        parts=rows_of(as_far_as_read(RecordReader(unpacked, where, framing, kind)), kind),
    )


def _unmarked(head: bytes) -> str | None:
    """A compression that no magic tells; None: it is told by name and magic."""
    found = stream_of(head)
    return found.compression if found else None


def _framing(found: Stream | None) -> Framing:
    return Framing.parse(found.framing) if found else Framing()


def _table(where: str, raw: BinaryIO, *, guessed: bool) -> Opened:
    parts = rows_of(table_records(raw, where), "example")
    return Opened(where=where, told="parquet", guessed=guessed, parts=parts)
