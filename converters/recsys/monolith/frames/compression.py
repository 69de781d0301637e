"""Read and write streams in the compressions that Monolith's `FilePBDataset` knows."""

import io
import zlib
from collections.abc import Callable
from typing import BinaryIO, Final, Protocol, cast

import zstandard

from ingot.converters.errors import (
    ConversionError,
    SourceError,
    StorageError,
    translate_read_errors,
)
from ingot.converters.recsys.monolith.frames.framing import COMPRESSIONS
from ingot.converters.sources.recognizers.monolith import MAX_RECORD, Kind
from ingot.converters.sources.storage.compression import (
    GZIP,
    ZLIB,
    ByteReader,
    Gzip,
    RawStream,
    Zlib,
    Zstd,
    open_unpacked,
    read_bytes,
)


def peek_bytes(raw: BinaryIO, location: str, size: int) -> tuple[bytes, BinaryIO]:
    """Return the first bytes of a stream, and the stream with them still to come.

    A stream that ends too early is reported where it ends, not here.
    """
    head, error = b"", None
    position = raw.tell() if hasattr(raw, "seekable") and raw.seekable() else None
    try:
        with translate_read_errors(location):
            while len(head) < size and (chunk := raw.read(size - len(head))):
                head += chunk
    except StorageError:
        raise
    except SourceError as raised:
        error = raised
    if position is not None:
        with translate_read_errors(location):
            raw.seek(position)
        return head, raw
    return head, cast(BinaryIO, _ReplayedStream(head, raw, error))


class _ReplayedStream(RawStream):
    """A stream that cannot go back, with what was read of it."""

    def __init__(self, head: bytes, raw: BinaryIO, error: SourceError | None) -> None:
        super().__init__(raw)
        self._head, self._error = memoryview(head), error

    def take(self, size: int) -> bytes:
        if not self._head and self._error is not None:
            raise self._error
        data = bytes(self._head[:size]) or self._raw.read(size)
        self._head = self._head[len(data) :]
        return data


SUFFIXES: Final = {
    "snappy": (".snappy",),
    "zstd": (".zst", ".zstd"),
    "gzip": (".gz", ".gzip"),
    "zlib": (".zz", ".zlib"),
}
"""The ends of names of compressed streams; those that are written have the first."""

_HEAD: Final = 16
# Hadoop's own writer: as much as fits its buffers of 256 KiB where nothing can be saved.
_BLOCK: Final = (256 << 10) - (256 << 10) // 6 - 32
# The densest raw snappy: 64 bytes for each 3.
_DENSEST: Final = 22


def compression_by_name(name: str) -> str | None:
    """Return the compression in the ending of a name or URL, None if it names none."""
    path = name.partition("?")[0].lower() if "://" in name else name.lower()
    return next((kind for kind, suffixes in SUFFIXES.items() if path.endswith(suffixes)), None)


def compression_by_content(head: bytes) -> str | None:
    """Return `gzip` or `zstd` by the first bytes, else None.

    A size of 559,903 begins like gzip: the next byte tells them apart, as no byte that gzip has
    there begins a message.
    """
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        return "zstd"
    if head.startswith(b"\x1f\x8b\x08") and len(head) > 8 and head[8] in b"\x00\x02\x04":
        return "gzip"
    return None


def _detect_compression(location: str, head: bytes) -> str:
    """The compression of a stream that nobody named. Raises SourceError for contradictions."""
    by_name, by_content = compression_by_name(location), compression_by_content(head)
    if not head or by_name == by_content:
        return by_content or "none"
    if by_name in ("snappy", "zlib") and by_content is None:
        return by_name
    if by_name is not None:
        problem = f"its name says {by_name}, its first bytes do not"
        raise SourceError(location, problem, f"set `compression` to {by_content or 'none'}")
    return cast(str, by_content)


def open_decompressed(
    raw: BinaryIO, where: str, compression: str | None = None, kind: Kind = "example"
) -> BinaryIO:
    """Open a stream, decompressed."""
    if compression is None:
        head, raw = peek_bytes(raw, where, _HEAD)
        compression = _detect_compression(where, head)
    _check_compression(compression)
    if compression == "none":
        return raw
    codecs: dict[str, Callable[[ByteReader], ByteReader]] = {
        "snappy": lambda inner: _SnappyReader(inner, MAX_RECORD[kind]),
        "zstd": Zstd,
        "gzip": Gzip,
        "zlib": Zlib,
    }
    return open_unpacked(raw, where, compression, codecs[compression])


def _check_compression(compression: str) -> None:
    if compression not in COMPRESSIONS:
        hint = f"use {', '.join(COMPRESSIONS)}"
        raise ConversionError("compression", f"{compression!r} is unknown", hint)


class _SnappyReader:
    """Hadoop's blocks of snappy, a chunk at a time."""

    def __init__(self, raw: ByteReader, limit: int) -> None:
        import pyarrow as pa

        self._codec = pa.Codec("snappy")
        self._raw = raw
        self._limit = limit
        self._left = 0
        self._out = io.BytesIO()

    def read(self, size: int) -> bytes:
        while size:
            if data := self._out.read(size):
                return data
            if not self._left and not self._next_block():
                return b""
            if self._left:
                self._out = io.BytesIO(self._chunk())
        return b""

    def _next_block(self) -> bool:
        """Whether there is one; its length is that of what its chunks stand for."""
        first = self._raw.read(4)
        if not first:
            return False
        self._left = int.from_bytes(first + self._read_exactly(4 - len(first)))
        self._check_limit(self._left, "block")
        return True

    def _chunk(self) -> bytes:
        size = int.from_bytes(self._read_exactly(4))
        self._check_limit(size, "chunk")
        data = self._read_exactly(size)
        length = _chunk_length(data)
        if length > self._left or length > _DENSEST * size:
            raise ValueError(f"a chunk says it holds {length} bytes, more than it can")
        self._left -= length
        return cast(bytes, self._codec.decompress(data, decompressed_size=length, asbytes=True))

    def _check_limit(self, size: int, part: str) -> None:
        if size > self._limit:
            raise ValueError(f"a {part} of {size} bytes is over {self._limit}, Monolith's limit")

    def _read_exactly(self, size: int) -> bytes:
        data = read_bytes(self._raw, size)
        if len(data) < size:
            raise EOFError
        return data


def _chunk_length(chunk: bytes) -> int:
    """What a raw chunk of snappy says that it stands for: a varint before it."""
    length = 0
    for number, byte in enumerate(chunk[:5]):
        length |= (byte & 127) << 7 * number
        if byte < 128:
            return length
    raise ValueError("a chunk has no length")


class Compressor(Protocol):
    """Compresses bytes some at a time."""

    def compress(self, data: bytes | bytearray, /) -> bytes | bytearray:
        """Take some bytes and give what is ready."""

    def flush(self) -> bytes:
        """Give what is held back; nothing follows it."""


def new_compressor(compression: str) -> Compressor:
    """Return a compressor whose bytes are deterministic."""
    _check_compression(compression)
    return _COMPRESSORS[compression]()


class _NoCompression:
    def compress(self, data: bytes | bytearray) -> bytes | bytearray:
        return data

    def flush(self) -> bytes:
        return b""


class _SnappyCompressor:
    """Hadoop's blocks of snappy, each of one chunk."""

    def __init__(self) -> None:
        import pyarrow as pa

        self._codec = pa.Codec("snappy")
        self._held = bytearray()

    def compress(self, data: bytes | bytearray) -> bytes:
        """Compress whole blocks, keep the rest."""
        self._held += data
        whole_bytes = len(self._held) // _BLOCK * _BLOCK
        blocks = [
            self._block(self._held[start : start + _BLOCK])
            for start in range(0, whole_bytes, _BLOCK)
        ]
        del self._held[:whole_bytes]
        return b"".join(blocks)

    def _block(self, data: bytearray) -> bytes:
        packed: bytes = self._codec.compress(bytes(data), asbytes=True)
        return len(data).to_bytes(4) + len(packed).to_bytes(4) + packed

    def flush(self) -> bytes:
        data, self._held = self._held, bytearray()
        return self._block(data) if data else b""


_COMPRESSORS: Final[dict[str, Callable[[], Compressor]]] = {
    "none": _NoCompression,
    "snappy": _SnappyCompressor,
    "zstd": lambda: zstandard.ZstdCompressor().compressobj(),
    "gzip": lambda: zlib.compressobj(6, zlib.DEFLATED, GZIP),  # its header has no time
    "zlib": lambda: zlib.compressobj(6, zlib.DEFLATED, ZLIB),
}
