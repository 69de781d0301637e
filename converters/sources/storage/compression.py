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
    # A frame to be skipped, which parallel compressors write in front of each.
    **{bytes((first,)) + b"\x2a\x4d\x18": "zst" for first in range(0x50, 0x60)},
}
_ANY_MAGIC = tuple(_MAGIC)
# Beyond this much output, more output per input byte than real text ever gives is refused.
FREE_BYTES = 1 << 30
MAX_RATIO = 1_100


def check_growth(where: str, given: int, stored: int, what: str = "") -> None:
    """Raise SourceError where more bytes come of those that are stored than of any real data."""
    if given > FREE_BYTES and given > MAX_RATIO * stored:
        problem = f"{what}over {MAX_RATIO} times its size unpacked"
        raise SourceError(where, problem, "refused: it looks like a decompression bomb")


def detect_compression(head: bytes) -> str | None:
    """`gz`, `zst`, `bz2` or `xz` by the first bytes (at least 6 of them), else None."""
    if not head.startswith(_ANY_MAGIC):
        return None
    return next(name for magic, name in _MAGIC.items() if head.startswith(magic))


def peek_first_bytes(raw: BinaryIO) -> bytes:
    """Return the first bytes of a stream, enough for `detect_compression`, without using them."""
    if not raw.seekable():
        return cast(io.BufferedReader, raw).peek(8)
    head = raw.read(8)
    raw.seek(0)
    return head


def open_decompressed(raw: BinaryIO, where: str) -> BinaryIO:
    """Return the decompressed bytes of a stream; reading them may raise SourceError.

    A stream that is not compressed is returned as it is.
    """
    with translate_read_errors(where):
        codec = detect_compression(peek_first_bytes(raw))
    return open_as(raw, where, codec)


def open_as(raw: BinaryIO, where: str, codec: str | None) -> BinaryIO:
    """As `open_decompressed` of a stream whose compression is known."""
    return raw if codec is None else open_unpacked(raw, where, codec, _CODECS[codec])


class ByteReader(Protocol):
    """What gives bytes, some at a time; no bytes are the end."""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes."""
        ...


def read_bytes(stream: ByteReader, most: int) -> bytes:
    """Return up to `most` bytes, which are had as they come: a length may lie."""
    parts = []
    while most > 0 and (part := stream.read(min(most, 1 << 20))):
        parts.append(part)
        most -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def open_unpacked(
    raw: BinaryIO, where: str, codec: str, unpack: Callable[[ByteReader], ByteReader]
) -> BinaryIO:
    """Return what `unpack` makes of a stream, with its errors translated and its growth watched."""
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
        """Return up to `size` bytes."""
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


class Streams:
    """Streams in a row; the libraries' own readers lose what is before a cut or behind damage."""

    _FEED = 1 << 16

    def __init__(self, raw: ByteReader, new: Callable[[], Any], padding: bytes = b"\0") -> None:
        self._raw = raw
        self._new = new
        self._padding = padding  # which may stand behind each
        self._stream: Any = None
        self._rest = b""

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes."""
        while size:
            ended, fed = self._stream is None or self._stream.eof, self._rest
            if not fed and (ended or self._stream.needs_input):
                fed = self._raw.read(self._FEED)
            if ended:
                if not fed:
                    return b""
                self._rest = fed.lstrip(self._padding)
                self._stream = self._new() if self._rest else self._stream
                continue
            data: bytes = self._stream.decompress(fed, size)
            self._rest = self._stream.unused_data
            if data:
                return data
            if not fed and not self._stream.eof:
                raise EOFError
        return b""


class _Inflater:
    """What decompresses a stream of gzip or zlib, as those of the other libraries do."""

    def __init__(self, form: int) -> None:
        self._inner = zlib.decompressobj(form)

    def decompress(self, data: bytes, size: int) -> bytes:
        return self._inner.decompress(self._inner.unconsumed_tail or data, size)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - of another object
        return (
            not self._inner.unconsumed_tail if name == "needs_input" else getattr(self._inner, name)
        )


GZIP, ZLIB = 31, 15  # forms of deflate
Gzip = partial(Streams, new=partial(_Inflater, GZIP))
Zlib = partial(Streams, new=partial(_Inflater, ZLIB), padding=b"")
Bzip2 = partial(Streams, new=bz2.BZ2Decompressor)
Xz = partial(Streams, new=lzma.LZMADecompressor)
_CODECS: dict[str, Callable[[Any], ByteReader]] = {
    "gz": Gzip,
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
        """Return up to `size` bytes (all with -1). Raises SourceError."""
        return b"".join(iter(lambda: self.take(1 << 20), b"")) if size < 0 else self.take(size)

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        """Fill the beginning of a buffer."""
        data = self.take(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def take(self, size: int) -> bytes:
        """Return up to `size` bytes."""
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
        check_growth(self._where, self._given, self._counted.count)
        return data
