"""Avro object container files: blocks of rows with their schema, decoded by the package fastavro.

The frame of the file (header, blocks, codecs) is read here, with bounds. Blocks are decoded in a
process: fastavro's compiled reader follows a schema of a stranger without limits.
"""

import bz2
import gc
import io
import lzma
import resource
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from decimal import Decimal
from itertools import count
from typing import Any, BinaryIO, Final
from uuid import UUID

import orjson
import pyarrow as pa

from ingot.converters.errors import (
    SourceError,
    error_text,
    translate_read_errors,
    truncated_error,
)
from ingot.converters.rows import Json
from ingot.converters.sources.containers.table_process import (
    MEMORY,
    OpenTables,
    limit_resource,
)
from ingot.converters.sources.facts import FileFacts, SourceFile, SourceSpec
from ingot.converters.sources.formats.arrow import (
    NotTextError,
    binary_text,
    exact_number,
    value_converter,
)
from ingot.converters.sources.formats.detection import FilePeek, columnar_facts
from ingot.converters.sources.formats.row_chunks import (
    MAX_ROW_BYTES,
    TABLE_ROWS,
    BrokenRow,
    JsonTextError,
    RowChunk,
    chunk_sized_rows,
    has_long_digits,
    parse_json,
)
from ingot.converters.sources.storage.compression import Zstd, read_bytes
from ingot.converters.sources.storage.listing import Entry

AVRO: Final = b"Obj\x01"
_SYNC_BYTES: Final = 16
_MOST_EMPTY: Final = 1 << 20  # rows of a block that need no bytes
_MOST_DECIMAL: Final = 1000  # bytes
_LEAST_MEMORY: Final = 512 << 20
_GROWTH: Final = 256  # of the bytes of a block, when they are values
_HINT: Final = "fetch or copy it again"

Block = tuple[int, int, bytes]  # its number in the file, its rows, and their bytes
# Rows as a JSON list, with null for those that are broken; what is wrong behind the last row.
Decoded = tuple[bytes, Mapping[int, BrokenRow]] | str


def avro_file_facts(entry: Entry, seen: FilePeek, _: SourceSpec) -> FileFacts | None:
    """Return the facts of an Avro file. Raises SourceError."""
    if not seen.head.startswith(AVRO):
        return None
    return columnar_facts("avro", entry, seen, lambda *file: (_Frames(*file).columns, None))


def read_avro(file: SourceFile, _: SourceSpec, stream: BinaryIO) -> Iterator[RowChunk]:
    """The rows of an Avro file. Raises SourceError, after the rows before the damage."""
    where = str(file.place)
    frames = _Frames(stream, where)
    with closing(OpenTables(file.place, _BlockDecoder, content=frames.schema)) as decoder:
        for blocks in chunk_sized_rows((block, len(block[2])) for block in frames.blocks()):
            for decoded in decoder.rows(blocks.values):
                if isinstance(decoded, str):
                    raise SourceError(where, decoded, _HINT)
                text, broken = decoded
                rows = parse_json(text) if has_long_digits(text) else orjson.loads(text)
                for place, row in broken.items():
                    rows[place] = row
                yield RowChunk(values=rows, sound=not broken)


class _Frames:
    """An Avro file in its parts, of which each tells its length: the header and the blocks."""

    def __init__(self, stream: BinaryIO, where: str) -> None:
        self._stream, self._where, self._what = stream, where, "its header"
        try:
            import fastavro.read  # noqa: F401
        except ImportError as error:
            hint = 'pip install "ingot[avro]"'
            raise SourceError(where, "an Avro file needs the package fastavro", hint) from error
        with translate_read_errors(where):
            self._read(len(AVRO))
            meta = dict(self._metadata())
            self._sync = self._read(_SYNC_BYTES)
        codec = meta.get("avro.codec", b"null").decode("ascii", "replace")
        if codec not in _CODECS:
            problem = f"Avro blocks compressed by {codec[:40]}, which is not read"
            raise SourceError(where, problem, "write the file with another codec")
        self._unpack = _CODECS[codec]
        self.schema = meta.get("avro.schema", b"")
        try:
            schema = parse_json(self.schema)
            fields = schema.get("fields") if isinstance(schema, dict) else None
            self.columns = tuple(str(one["name"]) for one in fields or ())
        except (JsonTextError, KeyError, TypeError) as error:
            raise self._damage(f"its Avro schema is none: {error!r}"[:300]) from error

    def _metadata(self) -> Iterator[tuple[str, bytes]]:
        while pairs := self._number():
            if pairs < 0:
                self._number()  # of bytes
            for _ in range(abs(pairs)):
                key = self._read(self._number()).decode("utf-8", "replace")
                yield key, self._read(self._number())

    def blocks(self) -> Iterator[Block]:
        """The decompressed blocks."""
        for number in count():
            self._what = f"block {number}"
            with translate_read_errors(self._where, f"cannot read {self._what}"):
                if not (first := self._stream.read(1)):
                    return
                rows = self._number(first)
                data = self._read(self._number())
                if self._read(_SYNC_BYTES) != self._sync:
                    raise self._damage(f"no sync marker behind {self._what}")
                data = self._unpack(data)
            if len(data) > MAX_ROW_BYTES:
                problem = f"{self._what} has more than {MAX_ROW_BYTES >> 20} MiB"
                raise SourceError(self._where, problem, "write it in smaller blocks")
            if not 0 <= rows <= max(len(data), _MOST_EMPTY):
                raise self._damage(f"{self._what} would have {rows:,} rows in {len(data):,} bytes")
            yield number, rows, data

    def _read(self, size: int) -> bytes:
        if not 0 <= size <= MAX_ROW_BYTES:
            raise self._damage(f"{self._what} would have {size:,} bytes")
        data = read_bytes(self._stream, size)
        if len(data) < size:
            raise truncated_error(self._where, f"the Avro file ends inside {self._what}")
        return data

    def _number(self, first: bytes = b"") -> int:
        value = 0
        for shift in range(0, 70, 7):
            (byte,) = first or self._read(1)
            first = b""
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
        raise self._damage(f"a length in {self._what} has no end")

    def _damage(self, problem: str) -> SourceError:
        return SourceError(self._where, f"damaged: {problem}", _HINT)


def _unpack_by(open_stream: Callable[[io.BytesIO], Any]) -> Callable[[bytes], bytes]:
    def unpack(data: bytes) -> bytes:
        return read_bytes(open_stream(io.BytesIO(data)), MAX_ROW_BYTES + 1)

    return unpack


def _unpack_deflate(data: bytes) -> bytes:
    unpack = zlib.decompressobj(-zlib.MAX_WBITS)  # behind its end may lie a checksum
    out = unpack.decompress(data, MAX_ROW_BYTES + 1)
    if len(out) <= MAX_ROW_BYTES and not unpack.eof:
        raise EOFError
    return out


def _unpack_snappy(data: bytes) -> bytes:
    size = 0
    for place, byte in enumerate(data[:5]):
        size |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            break
    if size > MAX_ROW_BYTES:
        return bytes(MAX_ROW_BYTES + 1)  # which is refused
    out: bytes = pa.Codec("snappy").decompress(data[:-4], size, asbytes=True)
    if zlib.crc32(out) != int.from_bytes(data[-4:], "big"):
        raise ValueError("its checksum is wrong")
    return out


_CODECS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "null": lambda data: data,
    "deflate": _unpack_deflate,
    "snappy": _unpack_snappy,
    "zstandard": _unpack_by(Zstd),
    "bzip2": _unpack_by(bz2.BZ2File),
    "xz": _unpack_by(lzma.LZMAFile),
}


# --- in the process


class _BlockDecoder:
    """Decodes blocks after one header, which says that they are not compressed."""

    def __init__(self, schema: bytes) -> None:
        import fastavro
        from fastavro import _read_py, read

        for module in (read, _read_py):
            module.LOGICAL_READERS.clear()
            module.LOGICAL_READERS.update(_LOGICAL_READERS)
        gc.disable()  # rows have no cycles
        self._write = fastavro.schemaless_writer
        self._stream = io.BytesIO()
        meta = {"avro.schema": schema, "avro.codec": b"null"}
        self._stream.write(AVRO)
        self._write(self._stream, {"type": "map", "values": "bytes"}, meta)
        self._stream.write(bytes(_SYNC_BYTES))
        self._blocks = self._open(read)
        if _is_recursive(self._blocks.writer_schema):
            self._blocks = self._open(_read_py)  # which knows its depth

    def _open(self, module: Any) -> Any:  # noqa: ANN401 - of one of two classes
        self._stream.seek(0)
        return module.block_reader(self._stream, handle_unicode_errors="surrogateescape")

    def rows(self, blocks: Sequence[Block]) -> Iterator[Decoded]:
        """The rows of blocks, some at a time, and what is wrong behind them."""
        rows: list[Json] = []
        for number, told, data in blocks:
            block = self._load(told, data)
            done = 0
            try:
                for row in block:
                    rows.append(row)
                    done += 1
                    if len(rows) == TABLE_ROWS:
                        yield _encode_rows(rows)
                        rows = []
                problem = f"{len(data) - block.bytes_.tell():,} bytes behind the {told:,} rows"
            except MemoryError:
                problem = f"row {done} makes too much of its bytes, which is not read"
            except Exception as error:  # noqa: BLE001 - fastavro raises nothing more precise
                problem = f"cannot decode row {done}: {error_text(error)}"
            if done < told or block.bytes_.tell() < len(data):
                yield _encode_rows(rows)
                yield f"damaged: block {number}: {problem}"
                return
        yield _encode_rows(rows)

    def _load(self, rows: int, data: bytes) -> Any:  # noqa: ANN401
        memory = _LEAST_MEMORY + _GROWTH * len(data)
        limit_resource(resource.RLIMIT_DATA, min(MEMORY, memory))
        self._stream.seek(0)
        self._stream.truncate()
        self._write(self._stream, "long", rows)
        self._write(self._stream, "bytes", data)
        self._stream.write(bytes(_SYNC_BYTES))
        self._stream.seek(0)
        return next(self._blocks)

    def tables(self) -> None:
        """There is nothing to say."""

    def describe(self, number: int) -> None:
        """There is nothing to say."""

    def close(self) -> None:
        """Let go of nothing but memory."""
        gc.enable()


def _is_recursive(schema: Json, inside: tuple[Json, ...] = ()) -> bool:
    """Whether a type holds itself, by a schema in which all names are full."""
    if isinstance(schema, dict):
        inner = [schema["type"], schema.get("items"), schema.get("values")]
        inner += [one["type"] for one in schema.get("fields", ())]
        return any(_is_recursive(one, (*inside, schema.get("name"))) for one in inner if one)
    if isinstance(schema, list):
        return any(_is_recursive(one, inside) for one in schema)
    return schema in inside


def _encode_rows(rows: list[Json]) -> Decoded:
    """Rows as JSON, in which numbers that are not finite are null."""
    try:
        return orjson.dumps(rows, default=binary_text), {}
    except TypeError:
        broken = {place: why for place, row in enumerate(rows) if (why := _why_broken(row))}
    kept = [None if place in broken else row for place, row in enumerate(rows)]
    return orjson.dumps(kept, default=binary_text), broken


def _why_broken(row: Json) -> BrokenRow | None:
    try:
        orjson.dumps([row], default=binary_text)
    except TypeError as error:
        if isinstance(error.__cause__, NotTextError):
            return BrokenRow("binary that is no UTF-8 text", str(error.__cause__))
        is_deep = "Recursion limit" in str(error)
        why = "nested more than 250 levels deep" if is_deep else "text that is not valid UTF-8"
        return BrokenRow(why, "")
    return None


def _decimal(value: bytes, schema: dict[str, Any], _: object) -> Any:  # noqa: ANN401
    if len(value) > _MOST_DECIMAL:
        raise ValueError(f"a decimal of {len(value):,} bytes")
    sign, digits, _exponent = Decimal(int.from_bytes(value, "big", signed=True)).as_tuple()
    number = exact_number(Decimal((sign, digits, -schema.get("scale", 0))))
    is_long = isinstance(number, int) and number.bit_length() > 63
    return orjson.Fragment(str(number)) if is_long else number


def _duration(value: bytes, *_: object) -> Json | bytes:
    if len(value) != 12:
        return value
    months, days, millis = (int.from_bytes(value[at : at + 4], "little") for at in (0, 4, 8))
    return f"P{months}M{days}D{value_converter(pa.duration('ms'))(millis)[1:]}"


def _convert_by(kind: pa.DataType) -> Callable[[Any, object, object], Json]:
    convert = value_converter(kind)
    return lambda value, _schema, _reader: convert(value)


# What makes JSON values of types with logical types.
_LOGICAL_READERS: Final[dict[str, Callable[[Any, Any, Any], Any]]] = {
    "bytes-decimal": _decimal,
    "fixed-decimal": _decimal,
    "fixed-duration": _duration,
    "fixed-uuid": lambda value, *_: str(UUID(bytes=value)) if len(value) == 16 else value,
    "int-date": _convert_by(pa.date32()),
    "int-time-millis": _convert_by(pa.time32("ms")),
    "long-time-micros": _convert_by(pa.time64("us")),
    **{
        f"long-{local}timestamp-{name}": _convert_by(pa.timestamp(unit, None if local else "UTC"))
        for local in ("", "local-")
        for name, unit in (("millis", "ms"), ("micros", "us"), ("nanos", "ns"))
    },
}
