"""Avro object container files: blocks of rows with their schema, decoded by the package fastavro.

The frame of the file (header, blocks, codecs) is read here, with bounds, and fastavro gets checked
blocks. Its compiled reader follows a schema without limits: `avro_schema` bounds what one asks for.
"""

import io
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any, BinaryIO, Final, cast

import numpy as np
import orjson
import pyarrow as pa

from ingot.converters.errors import (
    SourceError,
    error_text,
    translate_native_errors,
    translate_read_errors,
    truncated_error,
)
from ingot.converters.rows import Json
from ingot.converters.sources.containers.avro_schema import (
    READERS,
    inspect_schema,
    take_broken_value,
)
from ingot.converters.sources.facts import FileFacts, SourceFile, SourceSpec
from ingot.converters.sources.formats.detection import FilePeek, columnar_facts
from ingot.converters.sources.formats.row_chunks import (
    MAX_DEPTH,
    MAX_ROW_BYTES,
    TABLE_ROWS,
    BrokenRow,
    JsonTextError,
    RowChunk,
    has_utf8_texts,
    is_deep,
    parse_json,
)
from ingot.converters.sources.storage.compression import detect_compression, open_decompressed
from ingot.converters.sources.storage.listing import Entry

AVRO: Final = b"Obj\x01"
_SYNC_BYTES: Final = 16
_FAST_BYTES: Final = 1 << 20  # of a block that is decoded at once
_MOST_EMPTY: Final = 1 << 20  # rows of a block that need no bytes
_HINT: Final = "fetch or copy it again"


class _AvroError(Exception):
    """What fastavro cannot decode; it raises nothing more precise."""


def avro_file_facts(entry: Entry, seen: FilePeek, _: SourceSpec) -> FileFacts | None:
    """Return the facts of an Avro file. Raises SourceError."""
    if not seen.head.startswith(AVRO):
        return None
    return columnar_facts("avro", entry, seen, lambda *file: (_Frames(*file).facts.columns, None))


def read_avro(file: SourceFile, _: SourceSpec, stream: BinaryIO) -> Iterator[RowChunk]:
    """The rows of an Avro file. Raises SourceError, after the rows before the damage."""
    frames = _Frames(stream, str(file.place))
    rows: list[Json] = []
    size = 0
    try:
        for some, weight in _decode_blocks(frames):
            rows += some
            size += weight
            if len(rows) >= TABLE_ROWS or size > _FAST_BYTES:
                yield RowChunk(values=rows)
                rows, size = [], 0
    except SourceError:
        yield RowChunk(values=rows)
        raise
    yield RowChunk(values=rows)


class _Frames:
    """An Avro file in its parts, of which each tells its length: the header and the blocks."""

    def __init__(self, stream: BinaryIO, where: str) -> None:
        self._stream, self.where = stream, where
        try:
            from fastavro.read import LOGICAL_READERS
        except ImportError as error:
            hint = 'pip install "ingot[avro]"'
            raise SourceError(where, "an Avro file needs the package fastavro", hint) from error
        LOGICAL_READERS.update(READERS)
        with translate_read_errors(where):
            self._read(len(AVRO), "its header")
            meta = dict(self._metadata())
            self.sync = self._read(_SYNC_BYTES, "its header")
        self._codec = meta.get("avro.codec", b"null").decode("ascii", "replace")
        if self._codec not in _CODECS:
            problem = f"Avro blocks compressed by {self._codec[:40]}, which is not read"
            raise SourceError(where, problem, "write the file with another codec")
        try:
            self.facts = inspect_schema(parse_json(meta.get("avro.schema", b"")), where)
        except JsonTextError as error:
            raise SourceError(where, f"damaged: its Avro schema is no JSON: {error}") from error

    def _metadata(self) -> Iterator[tuple[str, bytes]]:
        what = "its header"
        while count := self._number(what):
            if count < 0:
                count = -count
                self._number(what)  # of bytes
            for _ in range(count):
                key = self._read(self._number(what), what).decode("utf-8", "replace")
                yield key, self._read(self._number(what), what)

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        """The number of rows and the decompressed bytes of each block."""
        unpack, number = _CODECS[self._codec], 0
        while True:
            what = f"block {number}"
            with translate_read_errors(self.where, f"cannot read {what}"):
                first = self._stream.read(1)
                if not first:
                    return
                count = self._number(what, first)
                data = self._read(self._number(what), what)
                if self._read(_SYNC_BYTES, what) != self.sync:
                    raise SourceError(self.where, f"damaged: no sync marker behind {what}", _HINT)
                data = unpack(data, self.where)
            if len(data) > MAX_ROW_BYTES:
                problem = f"{what} has more than {MAX_ROW_BYTES >> 20} MiB"
                raise SourceError(self.where, problem, "write it in smaller blocks")
            least = self.facts.least
            if not 0 <= count <= (len(data) // least if least else _MOST_EMPTY):
                problem = f"damaged: {what} would have {count:,} rows in {len(data):,} bytes"
                raise SourceError(self.where, problem, _HINT)
            yield count, data
            number += 1

    def _read(self, size: int, what: str) -> bytes:
        """So many bytes, which are had as they come: a length may lie."""
        if not 0 <= size <= MAX_ROW_BYTES:
            raise SourceError(self.where, f"damaged: {what} would have {size:,} bytes", _HINT)
        data = self._stream.read(min(size, 1 << 20))
        if len(data) == size:
            return data
        parts = [data]
        size -= len(data)
        while data and size > 0:
            parts.append(data := self._stream.read(min(size, 1 << 20)))
            size -= len(data)
        if size:
            raise truncated_error(self.where, f"the Avro file ends inside {what}")
        return b"".join(parts)

    def _number(self, what: str, first: bytes = b"") -> int:
        value = shift = 0
        while True:
            (byte,) = first or self._read(1, what)
            first = b""
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            if shift > 63:
                raise SourceError(self.where, f"damaged: a length in {what} has no end", _HINT)


class _Fed:
    """The file that fastavro reads: a header, and then the block that was put there last."""

    def __init__(self, schema: Json, sync: bytes) -> None:
        text = orjson.dumps(schema)
        meta = (b"avro.schema", text, b"avro.codec", b"null")
        pairs = b"".join(_varint(len(part)) + part for part in meta)
        self._sync = sync
        self._data = io.BytesIO(AVRO + _varint(2) + pairs + b"\0" + sync)

    def put(self, count: int, data: bytes) -> None:
        parts = (_varint(count), _varint(len(data)), data, self._sync)
        self._data = io.BytesIO(b"".join(parts))

    def read(self, size: int = -1) -> bytes:
        return self._data.read(size)

    def tell(self) -> int:
        return self._data.tell()


def _varint(value: int) -> bytes:
    value <<= 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _decode_blocks(frames: _Frames) -> Iterator[tuple[list[Json], int]]:
    """Some rows and about how many bytes they had, block by block. Raises SourceError."""
    facts = frames.facts
    fast = _BlockReader(facts.schema, frames, "strict")
    of_numbers = _BlockReader(facts.number_schema, frames, "strict")
    careful = _BlockReader(facts.number_schema, frames, "surrogateescape")
    for count, data in frames.blocks():
        reader = of_numbers if facts.floats and _may_be_infinite(data) else fast
        small = len(data) <= _FAST_BYTES and not facts.recursive
        rows = reader.decode(count, data) if small else None
        if rows is not None:
            yield rows, len(data)
            continue
        for row in careful.decode_slowly(count, data):
            yield [row], len(data) // count + 1


def _may_be_infinite(data: bytes) -> bool:
    """Whether there may be a number that is not finite: the cheap test before all are looked at."""
    if b"\x7f" not in data and b"\xff" not in data:
        return False
    signs = np.frombuffer(data, np.uint8)
    places = np.flatnonzero((signs[1:] & 0x7F) == 0x7F)
    return bool((signs[places] >= 0x80).any())


class _BlockReader:
    """Decodes block after block, by one reader of fastavro as long as all is well."""

    def __init__(self, schema: Json, frames: _Frames, errors: str) -> None:
        self._schema, self._frames, self._errors = schema, frames, errors
        self._recursive = frames.facts.recursive
        self._blocks: Iterator[Any] | None = None

    def _open(self) -> Iterator[Any]:
        """Open another reader; that of a recursive schema is in Python, which knows its depth."""
        if self._recursive:
            from fastavro import _read_py as read
        else:
            from fastavro import read  # type: ignore[no-redef]
        self._fed = _Fed(self._schema, self._frames.sync)
        try:
            with translate_native_errors(_AvroError):
                stream = cast(IO[bytes], self._fed)
                return iter(read.block_reader(stream, handle_unicode_errors=self._errors))
        except _AvroError as error:
            problem = f"cannot read its Avro schema: {error_text(error)}"
            raise SourceError(self._frames.where, problem, _HINT) from error

    def _block(self, count: int, data: bytes) -> Any:  # noqa: ANN401 - of one of two classes
        if self._blocks is None:
            self._blocks = self._open()
        self._fed.put(count, data)
        return next(self._blocks)

    def decode(self, count: int, data: bytes) -> list[Json] | None:
        """All rows of a block; None where one of them needs a closer look."""
        take_broken_value()
        try:
            with translate_native_errors(_AvroError):
                block = self._block(count, data)
                rows: list[Json] = list(block)
                whole = len(rows) == count and block.bytes_.tell() == len(data)
        except _AvroError:
            self._blocks = None
            return None
        return rows if whole and take_broken_value() is None else None

    def decode_slowly(self, count: int, data: bytes) -> Iterator[Json]:
        """The rows of a block one after another. Raises SourceError."""
        self._blocks = None
        number = 0
        try:
            with translate_native_errors(_AvroError):
                block = self._block(count, data)
                rows = iter(block)
            while number < count:
                take_broken_value()
                with translate_native_errors(_AvroError):
                    row: Json = next(rows)
                yield take_broken_value() or self._checked(row)
                number += 1
        except _AvroError as error:
            problem = f"damaged: cannot decode row {number} of an Avro block: {error_text(error)}"
            raise SourceError(self._frames.where, problem, _HINT) from error
        if block.bytes_.tell() != len(data):
            left = len(data) - block.bytes_.tell()
            problem = f"damaged: {left:,} bytes behind the {count:,} rows of an Avro block"
            raise SourceError(self._frames.where, problem, _HINT)

    def _checked(self, row: Json) -> Json:
        if self._recursive and is_deep(row):
            return BrokenRow(f"nested more than {MAX_DEPTH} levels deep", "")
        return row if has_utf8_texts(row) else BrokenRow("text that is not valid UTF-8", "")


def _raw_deflate(data: bytes, _: str) -> bytes:
    unpack = zlib.decompressobj(-15)
    out = unpack.decompress(data, MAX_ROW_BYTES + 1)
    if len(out) <= MAX_ROW_BYTES and not unpack.eof:
        raise EOFError
    return out


def _snappy(data: bytes, _: str) -> bytes:
    size = shift = 0
    for byte in data[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > MAX_ROW_BYTES:
        return bytes(MAX_ROW_BYTES + 1)  # which is refused
    out: bytes = pa.Codec("snappy").decompress(data[:-4], size, asbytes=True)
    if zlib.crc32(out) != int.from_bytes(data[-4:], "big"):
        raise ValueError("its checksum is wrong")
    return out


def _stream_codec(codec: str) -> Callable[[bytes, str], bytes]:
    def unpack(data: bytes, where: str) -> bytes:
        if detect_compression(data) != codec:
            raise ValueError(f"no {codec} data")
        with open_decompressed(io.BytesIO(data), where) as stream:
            parts = iter(lambda: stream.read(1 << 20), b"")
            out, size = [], 0
            while size <= MAX_ROW_BYTES and (part := next(parts, b"")):
                out.append(part)
                size += len(part)
        return b"".join(out)

    return unpack


_CODECS: Final[Mapping[str, Callable[[bytes, str], bytes]]] = {
    "null": lambda data, _: data,
    "deflate": _raw_deflate,
    "snappy": _snappy,
    "zstandard": _stream_codec("zst"),
    "bzip2": _stream_codec("bz2"),
    "xz": _stream_codec("xz"),
}
