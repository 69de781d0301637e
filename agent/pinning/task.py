"""One file to be pinned: what is wanted of it, what becomes of it, and its bytes."""

import codecs
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO

from ingot.agent.pinning.hiding import Hiding
from ingot.agent.pinning.wanted import Counts, Wanted
from ingot.converters.readers.compression import decompressed
from ingot.converters.readers.facts import SourceFile
from ingot.converters.readers.lines import is_utf8, utf8_blocks
from ingot.converters.readers.spec import SourceSpec
from ingot.converters.rows import Json


@dataclass(frozen=True, kw_only=True, slots=True)
class Content:
    """A pinned file before it is compressed, and the rows that it should give (None = not known).

    A row is its value before `json_fields`, or `Broken`.
    """

    data: bytes
    rows: Sequence[Json] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Cut:
    """The rows of one file that may be pinned.

    Attributes:
        file: the file.
        main: False for a file that the source leaves out.
        sizes: bytes of every row.
        broken: of every row whether it cannot be read.
        write: the file of the rows of these numbers (places in `sizes`, ascending).
        notes: what became of the file that a reader of the sample should know.
    """

    file: SourceFile
    main: bool
    sizes: Sequence[int]
    broken: Sequence[bool]
    write: Callable[[Sequence[int]], Content]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """One file, how it is read, and what is wanted of it."""

    file: SourceFile
    spec: SourceSpec
    want: Sequence[Wanted]
    hiding: Hiding
    counts: Counts
    main: bool = True


@contextmanager
def opened(file: SourceFile) -> Iterator[BinaryIO]:
    """The decompressed bytes of a file. Raises SourceError."""
    with file.open_raw() as raw:
        yield decompressed(raw, str(file.place))


def parts_of(file: SourceFile, stream: BinaryIO) -> Iterator[bytes]:
    """A text file in UTF-8. Raises SourceError."""
    return utf8_blocks(stream, str(file.place), file.facts.encoding, file.facts.newline)


def has_bom(file: SourceFile) -> bool:
    """Whether a file in UTF-8 begins with a byte order mark. Raises SourceError."""
    if not is_utf8(file.facts.encoding.removesuffix("-sig")):
        return False
    with opened(file) as stream:
        return stream.read(len(codecs.BOM_UTF8)) == codecs.BOM_UTF8


def _damaged(error: UnicodeError) -> tuple[bytes, int]:
    """Error handler: what stood for bytes that mean nothing becomes such bytes again."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return b"\xff", error.start + 1


codecs.register_error("ingot.damaged", _damaged)


def encoded(data: bytes, file: SourceFile, *, bom: bool) -> bytes:
    """UTF-8 with LF in the encoding and with the line ends of the file."""
    if file.facts.newline == "\r":
        data = data.replace(b"\n", b"\r")
    if is_utf8(file.facts.encoding.removesuffix("-sig")):
        return codecs.BOM_UTF8 + data if bom else data
    return data.decode("utf-8", "surrogatepass").encode(file.facts.encoding, "ingot.damaged")
