"""Bytes of a file as UTF-8 blocks and lines, whatever its compression, encoding and line ends."""

import codecs
from collections.abc import Iterator
from typing import BinaryIO

from ingot.converters.errors import SourceError
from ingot.converters.readers.faults import reading
from ingot.converters.readers.stretch import MAX_ROW_BYTES

BLOCK = 1 << 20
_BOM = codecs.BOM_UTF8
_UTF8 = frozenset({"utf-8", "ascii"})

# Line that is longer than MAX_ROW_BYTES: its text is gone, its place stays.
TOO_LONG = None


def _undecodable(error: UnicodeError) -> tuple[str, int]:
    """Error handler: a lone surrogate for bytes that mean nothing, and on with the next byte.

    A surrogate has no UTF-8 form, so the row that holds it is found later and becomes a bad row.
    """
    if not isinstance(error, UnicodeDecodeError):
        raise error
    wide = error.encoding.lower().replace("_", "-").startswith(("utf-16", "utf-32"))
    return "\udcff", error.end if wide else error.start + 1


codecs.register_error("ingot.undecodable", _undecodable)


def is_utf8(encoding: str) -> bool:
    """Whether files of this encoding are read without being decoded first."""
    return codecs.lookup(encoding).name in _UTF8


def blocks(stream: BinaryIO, where: str, size: int = BLOCK) -> Iterator[bytes]:
    """The bytes of a stream, `size` at a time. Raises SourceError, which names `where`."""
    while True:
        with reading(where):
            data = stream.read(size)
        if not data:
            return
        yield data


def utf8_blocks(
    stream: BinaryIO, where: str, encoding: str, newline: str = "\n"
) -> Iterator[bytes]:
    """A text file as blocks of UTF-8 without a byte order mark, lines ending in LF (or CR LF).

    Bytes that the encoding does not know come out as bytes that are not valid UTF-8. Errors of the
    stream are `SourceError`s that name `where`.
    """
    plain = blocks(stream, where)
    legible = is_utf8(encoding.removesuffix("-sig"))
    parts = plain if legible else _transcoded(plain, where, encoding)
    for number, block in enumerate(parts):
        data = block.removeprefix(_BOM) if number == 0 else block
        yield data.replace(b"\r", b"\n") if newline == "\r" else data


def _transcoded(parts: Iterator[bytes], where: str, encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)("ingot.undecodable")
    for part in parts:
        yield _decoded(decoder, part, where, encoding)
    yield _decoded(decoder, b"", where, encoding, final=True)


def _decoded(
    decoder: codecs.IncrementalDecoder, part: bytes, where: str, encoding: str, final: bool = False
) -> bytes:
    """A part as UTF-8; an encoding that cannot begin so (no byte order mark) is a SourceError."""
    try:
        return decoder.decode(part, final).encode("utf-8", "surrogatepass")
    except UnicodeError as error:
        hint = "leave the encoding out, or state the one that it has"
        raise SourceError(where, f"is not in the encoding {encoding}: {error}", hint) from error


def line_blocks(parts: Iterator[bytes]) -> Iterator[list[bytes | None]]:
    """Whole lines without their LF, a list per block; `TOO_LONG` for one past MAX_ROW_BYTES."""
    carry: list[bytes] = []
    held = 0
    skipping = False
    ready: list[bytes | None] = []
    for part in parts:
        lines: list[bytes | None] = part.split(b"\n")  # type: ignore[assignment]
        if len(lines) > 1:
            lines[0] = TOO_LONG if skipping else b"".join([*carry, lines[0] or b""])
            carry, held, skipping = [], 0, False
        last = lines.pop() or b""
        if lines:
            if ready:
                yield ready
            ready = lines
        held += len(last)
        skipping = skipping or held > MAX_ROW_BYTES
        carry = [] if skipping else [*carry, last]
    # A last line without its line end belongs to the last block, not to one of its own.
    if skipping:
        ready.append(TOO_LONG)
    elif carry and (end := b"".join(carry)):
        ready.append(end)
    if ready:
        yield ready
