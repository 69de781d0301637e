"""Decompression by content: gzip, Zstandard, bzip2 and xz are told by their first bytes."""

import bz2
import io
import lzma
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO, Protocol, cast

import zstandard

from ingot.converters.errors import SourceError
from ingot.converters.readers.faults import cut_off, reading

_MAGIC = {
    b"\x1f\x8b": "gz",
    b"\x28\xb5\x2f\xfd": "zst",
    b"BZh": "bz2",
    b"\xfd7zXZ\x00": "xz",
}
# Beyond this much output, more output per input byte than real text ever gives is refused.
FREE_BYTES = 1 << 30
MAX_RATIO = 1_100


def compression_of(head: bytes) -> str | None:
    """`gz`, `zst`, `bz2` or `xz` by the first bytes (at least 6 of them), else None."""
    return next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)


def first_bytes(raw: BinaryIO) -> bytes:
    """The first bytes of a stream at its start, enough for `compression_of`, without using them."""
    if not raw.seekable():
        return cast(io.BufferedReader, raw).peek(8)
    head = raw.read(8)
    raw.seek(0)
    return head


def decompressed(raw: BinaryIO, where: str) -> BinaryIO:
    """The decompressed bytes of a stream, or the stream itself where it is not compressed.

    Errors while it is read are `SourceError`s that name `where`; a stream that ends too early is
    one of them, after all bytes before that point were given.
    """
    with reading(where):
        codec = compression_of(first_bytes(raw))
    return raw if codec is None else unpacking(raw, where, codec, _CODECS[codec])


class Readable(Protocol):
    """What gives bytes, some at a time; no bytes are the end."""

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes."""
        ...


def unpacking(
    raw: BinaryIO, where: str, codec: str, unpack: Callable[[Readable], Readable]
) -> BinaryIO:
    """What `unpack` makes of a stream, with its errors translated and its growth watched.

    Args:
        raw: the compressed bytes; closed with what is given back.
        where: names them in errors.
        codec: names the compression in errors.
        unpack: gives the decompressed side; raises EOFError where the data is cut off.
    """
    return cast(BinaryIO, _Checked(raw, codec, where, unpack))


class _Counted:
    """The compressed side of a stream, counting its bytes."""

    def __init__(self, raw: BinaryIO) -> None:
        self.raw = raw
        self.count = 0

    def read(self, size: int = -1) -> bytes:
        data = self.raw.read(size)
        self.count += len(data)
        return data


def _zstd_frame() -> Any:  # noqa: ANN401 - the library does not export the class
    return zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj()


class Zstd:
    """Zstandard frames in a row; the library's own reader does not notice a cut-off stream."""

    _FEED = 1 << 13  # small, because one call gives everything that its input stands for

    def __init__(self, raw: Readable) -> None:
        self._raw = raw
        self._out = io.BytesIO()
        self._frame = _zstd_frame()
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
            self._frame = _zstd_frame()
            self._begun = False
        return b"".join(parts)


class Deflate:
    """Members of gzip or zlib in a row; the library's own reader loses what precedes a cut."""

    GZIP = 31
    ZLIB = 15
    _FEED = 1 << 16

    def __init__(self, raw: Readable, form: int = GZIP) -> None:
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
            if not self._begun and not (fed := self._unpadded(fed)):
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

    def _unpadded(self, fed: bytes) -> bytes:
        """What a member begins with: zeros may stand between those of gzip."""
        if not self._later or self._form != self.GZIP:
            return fed
        while fed and not (rest := fed.lstrip(b"\0")):
            fed = self._raw.read(self._FEED)
        return rest if fed else b""


_CODECS: dict[str, Callable[[Any], Readable]] = {
    "gz": Deflate,
    "zst": Zstd,
    "bz2": lambda raw: bz2.BZ2File(raw, "rb"),
    "xz": lambda raw: lzma.LZMAFile(raw, "rb"),  # noqa: SIM115 - the caller closes it
}


class _Checked(io.RawIOBase):
    """Decompressed bytes, with errors translated and growth watched."""

    def __init__(
        self, raw: BinaryIO, codec: str, where: str, unpack: Callable[[Any], Readable]
    ) -> None:
        self._counted = _Counted(raw)
        self._raw = raw
        self._where = where
        self._codec = codec
        self._given = 0
        self._inner = unpack(self._counted)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes (all with -1). Raises SourceError."""
        if size < 0:
            return b"".join(iter(lambda: self.read(1 << 20), b""))
        with reading(self._where, f"cannot decompress it ({self._codec})"):
            try:
                data = self._inner.read(size)
            except EOFError as error:
                raise self._short() from error
        self._given += len(data)
        if self._given > FREE_BYTES and self._given > MAX_RATIO * self._counted.count:
            hint = "refused: it looks like a decompression bomb"
            raise SourceError(self._where, f"over {MAX_RATIO} times its size unpacked", hint)
        return data

    def _short(self) -> SourceError:
        detail = f"the {self._codec} data ends after {self._given} bytes of content"
        return cut_off(self._where, detail)

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._raw.close()
        super().close()
