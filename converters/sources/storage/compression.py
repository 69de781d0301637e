"""Decompression by content: gzip, Zstandard, bzip2 and xz are told by their first bytes."""

import bz2
import io
import lzma
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any, BinaryIO, Protocol, cast

import zstandard

from ingot.converters.errors import SourceError, translate_read_errors, truncated_error

_MAGIC = {
    b"\x1f\x8b": "gz",
    b"\x28\xb5\x2f\xfd": "zst",
    b"BZh": "bz2",
    b"\xfd7zXZ\x00": "xz",
}
_ANY_MAGIC = tuple(_MAGIC)
# Beyond this much output, more output per input byte than real text ever gives is refused.
FREE_BYTES = 1 << 30
MAX_RATIO = 1_100


def detect_compression(head: bytes) -> str | None:
    """`gz`, `zst`, `bz2` or `xz` by the first bytes (at least 6 of them), else None."""
    if not head.startswith(_ANY_MAGIC):
        return None
    return next(name for magic, name in _MAGIC.items() if head.startswith(magic))


def peek_first_bytes(raw: BinaryIO) -> bytes:
    """The first bytes of a stream at its start, enough for `compression_of`, without using them."""
    if not raw.seekable():
        return cast(io.BufferedReader, raw).peek(8)
    head = raw.read(8)
    raw.seek(0)
    return head


def open_decompressed(raw: BinaryIO, where: str) -> BinaryIO:
    """The decompressed bytes of a stream, which may raise SourceError; itself if not compressed."""
    with translate_read_errors(where):
        codec = detect_compression(peek_first_bytes(raw))
    return open_as(raw, where, codec)


def open_as(raw: BinaryIO, where: str, codec: str | None) -> BinaryIO:
    """As `open_decompressed` of a stream whose compression is known."""
    return raw if codec is None else open_unpacked(raw, where, codec, _CODECS[codec])


class ByteReader(Protocol):
    """What gives bytes, some at a time; no bytes are the end."""

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes."""
        ...


def read_bytes(stream: ByteReader, most: int) -> bytes:
    """Up to `most` bytes, which are had as they come: a length may lie."""
    parts = []
    while most > 0 and (part := stream.read(min(most, 1 << 20))):
        parts.append(part)
        most -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def open_unpacked(
    raw: BinaryIO, where: str, codec: str, unpack: Callable[[ByteReader], ByteReader]
) -> BinaryIO:
    """What `unpack` makes of a stream, with its errors translated and its growth watched."""
    return cast(BinaryIO, _CheckedStream(raw, codec, where, unpack))


class _CountedStream:
    def __init__(self, raw: BinaryIO) -> None:
        self.raw = raw
        self.count = 0

    def read(self, size: int = -1) -> bytes:
        data = self.raw.read(size)
        self.count += len(data)
        return data


def _new_zstd_frame() -> Any:  # noqa: ANN401 - the library does not export the class
    return zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj()


class Zstd:
    """Zstandard frames in a row; the library's own reader does not notice a cut-off stream."""

    _FEED = 1 << 13  # small, because one call gives everything that its input stands for

    def __init__(self, raw: ByteReader) -> None:
        self._raw = raw
        self._out = io.BytesIO()
        self._frame = _new_zstd_frame()
        self._begun = False

    def read(self, size: int) -> bytes:
        """Up to `size` bytes."""
        while not (data := self._out.read(size)):
            chunk = self._raw.read(self._FEED)
            if not chunk:
                if self._begun:
                    raise EOFError
                return b""
            self._out = io.BytesIO(self._feed(chunk))
        return data

    def _feed(self, chunk: bytes) -> bytes:
        parts = []
        while chunk:
            self._begun = True
            parts.append(self._frame.decompress(chunk))
            if not self._frame.eof:
                break
            chunk = self._frame.unused_data
            self._frame = _new_zstd_frame()
            self._begun = False
        return b"".join(parts)


class Deflate:
    """Members of gzip or zlib in a row; the library's own reader loses what precedes a cut."""

    GZIP = 31
    ZLIB = 15
    _FEED = 1 << 16

    def __init__(self, raw: ByteReader, form: int = GZIP) -> None:
        self._raw = raw
        self._form = form
        self._member = zlib.decompressobj(form)
        self._rest = b""
        self._begun = False
        self._later = False

    def read(self, size: int) -> bytes:
        """Up to `size` bytes."""
        while size:
            fed = self._rest or self._raw.read(self._FEED)
            if not self._begun and not (fed := self._strip_padding(fed)):
                return b""
            data = self._feed(fed, size)
            if data:
                return data
            if not fed:
                raise EOFError
        return b""

    def _feed(self, fed: bytes, size: int) -> bytes:
        data = self._member.decompress(fed, size)
        self._begun, self._rest = True, self._member.unconsumed_tail
        if self._member.eof:
            self._begun, self._later, self._rest = False, True, self._member.unused_data
            self._member = zlib.decompressobj(self._form)
        return data

    def _strip_padding(self, fed: bytes) -> bytes:
        """What a member begins with: zeros may stand between those of gzip."""
        if not self._later or self._form != self.GZIP:
            return fed
        while fed and not (rest := fed.lstrip(b"\0")):
            fed = self._raw.read(self._FEED)
        return rest if fed else b""


class Streams:
    """Streams of bzip2 or xz in a row; the library's own readers end before one that is damaged."""

    _FEED = 1 << 16

    def __init__(self, raw: ByteReader, new: Callable[[], Any]) -> None:
        self._raw = raw
        self._new = new
        self._stream = new()
        self._rest = b""  # of what was read, behind a stream

    def read(self, size: int) -> bytes:
        """Up to `size` bytes."""
        while size:
            fed = self._rest
            if not fed and (self._stream.eof or self._stream.needs_input):
                fed = self._raw.read(self._FEED)
                if not fed and not self._stream.eof:
                    raise EOFError
            if self._stream.eof:
                if not fed:
                    return b""
                self._rest = fed.lstrip(b"\0")  # which may stand between those of xz
                self._stream = self._new() if self._rest else self._stream
                continue
            data: bytes = self._stream.decompress(fed, size)
            self._rest = self._stream.unused_data
            if data:
                return data
        return b""


Bzip2 = partial(Streams, new=bz2.BZ2Decompressor)
Xz = partial(Streams, new=lzma.LZMADecompressor)
_CODECS: dict[str, Callable[[Any], ByteReader]] = {
    "gz": Deflate,
    "zst": Zstd,
    "bz2": Bzip2,
    "xz": Xz,
}


class RawStream(io.RawIOBase):
    """A stream over another one, which it closes; `take` gives up to so many bytes."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw

    def readable(self) -> bool:
        """It can be read."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes (all with -1). Raises SourceError."""
        return b"".join(iter(lambda: self.take(1 << 20), b"")) if size < 0 else self.take(size)

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        """Fill the beginning of a buffer."""
        data = self.take(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def take(self, size: int) -> bytes:
        """Up to `size` bytes."""
        raise NotImplementedError

    def close(self) -> None:
        """Close both."""
        self._raw.close()
        super().close()


class _CheckedStream(RawStream):
    """Decompressed bytes, with errors translated and growth watched."""

    def __init__(
        self, raw: BinaryIO, codec: str, where: str, unpack: Callable[[Any], ByteReader]
    ) -> None:
        super().__init__(raw)
        self._counted = _CountedStream(raw)
        self._where = where
        self._codec = codec
        self._given = 0
        self._inner = unpack(self._counted)

    def take(self, size: int) -> bytes:
        with translate_read_errors(self._where, f"cannot decompress it ({self._codec})"):
            try:
                data = self._inner.read(size)
            except EOFError as error:
                detail = f"the {self._codec} data ends after {self._given} bytes of content"
                raise truncated_error(self._where, detail) from error
        self._given += len(data)
        if self._given > FREE_BYTES and self._given > MAX_RATIO * self._counted.count:
            hint = "refused: it looks like a decompression bomb"
            raise SourceError(self._where, f"over {MAX_RATIO} times its size unpacked", hint)
        return data
