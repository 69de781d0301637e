"""Avro object container files: blocks of rows with their schema, decoded by the package fastavro.

The frame of the file (header, blocks, codecs) is read here, with bounds. fastavro's compiled reader
follows a schema without limits: where one could ask for too much, it does so in a process.
"""

import io
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from decimal import Decimal
from functools import partial
from itertools import chain, count, islice
from typing import Any, BinaryIO, Final
from uuid import UUID

import orjson
import pyarrow as pa

from ingot.converters.errors import (
    SourceError,
    error_text,
    require_package,
    translate_native_errors,
    translate_read_errors,
    truncated_error,
)
from ingot.converters.output.worker_pool import limit_process
from ingot.converters.rows import Json
from ingot.converters.sources.containers.table_process import MEMORY
from ingot.converters.sources.containers.tables import OpenTables
from ingot.converters.sources.facts import FileFacts, SourceFile, SourceSpec
from ingot.converters.sources.formats.arrow import (
    binary_text,
    exact_number,
    to_json_row,
    value_converter,
)
from ingot.converters.sources.formats.detection import FilePeek, columnar_facts
from ingot.converters.sources.formats.row_chunks import (
    MAX_ROW_BYTES,
    TABLE_ROWS,
    RowChunk,
    chunk_sized_rows,
    parse_json,
)
from ingot.converters.sources.storage.compression import Bzip2, Xz, Zstd, read_bytes
from ingot.converters.sources.storage.listing import Entry

AVRO: Final = b"Obj\x01"
_SYNC_BYTES: Final = 16
_MOST_PLACES: Final = 100_000  # blocks that are looked for, in about a second
_MOST_EMPTY: Final = 1 << 20  # rows of a block that need no bytes
_MOST_DECIMAL: Final = 1000  # bytes, and digits behind the point
_LEAST_MEMORY: Final = 512 << 20
_GROWTH: Final = 256  # of the bytes of a block, when they are values
_NEEDS: Final = ("an Avro file", "fastavro", "avro")
_HINT: Final = "fetch or copy it again"
_OWN: Final = "ingot-"  # before logical types, as fastavro has readers of its own for them
_PRIMITIVES: Final = ("boolean", "int", "long", "float", "double", "bytes", "string")

Block = tuple[int, int, bytes]  # its number in the file, its rows, and their bytes


def avro_file_facts(entry: Entry, seen: FilePeek, _: SourceSpec) -> FileFacts | None:
    """Return the facts of an Avro file. Raises SourceError."""
    if not seen.head.startswith(AVRO):
        return None
    return columnar_facts("avro", entry, seen, lambda *file: (_Frames(*file).columns, None))


def avro_places(stream: BinaryIO, where: str) -> list[tuple[int, tuple[int, int]]]:
    """Return the number of the first row of each block, and where that lies. Raises SourceError."""
    return list(_Frames(stream, where).places())


def read_avro(
    file: SourceFile, _: SourceSpec, stream: BinaryIO, at: tuple[int, int] | None = None
) -> Iterator[RowChunk]:
    """Yield the rows of an Avro file, or of a block.

    Raises SourceError, after those before damage.
    """
    where = str(file.place)
    frames = _Frames(stream, where)
    schema, read = frames.schema, frames.blocks() if at is None else islice(frames.blocks(*at), 1)
    with translate_read_errors(where, "cannot read its Avro schema"):
        limited = partial(OpenTables, file.place, _LimitedDecoder)
        new = _BlockDecoder(schema) if frames.is_safe else limited(schema)
    with closing(new) as decoder:
        for blocks in chunk_sized_rows((block, len(block[2])) for block in read):
            for rows in decoder.rows(blocks.values):
                if isinstance(rows, str):
                    raise SourceError(where, f"damaged: {rows}", _HINT)
                yield rows


class _Frames:
    """An Avro file in its parts, of which each tells its length: the header and the blocks."""

    def __init__(self, stream: BinaryIO, where: str) -> None:
        self._stream, self._where, self._what = stream, where, "its header"
        require_package(where, *_NEEDS)
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
            self.is_safe = _is_safe(schema)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise self._damage(f"its Avro schema is invalid: {error!r}"[:300]) from error

    def _metadata(self) -> Iterator[tuple[str, bytes]]:
        while pairs := self._number():
            if pairs < 0:
                self._number()  # of bytes
            for _ in range(abs(pairs)):
                key = self._read(self._number()).decode("utf-8", "replace")
                yield key, self._read(self._number())

    def places(self) -> Iterator[tuple[int, tuple[int, int]]]:
        """The first row of each block, and its number and place, as far as nothing is damaged."""
        row = 0
        with suppress(SourceError, ValueError, OSError):
            for number in range(_MOST_PLACES):  # a size may lead back
                place = self._stream.tell()
                if not (begun := self._stream.read(1)):
                    return
                rows = self._number(begun)
                self._stream.seek(self._number(), 1)
                if self._read(_SYNC_BYTES) != self._sync:
                    return
                yield row, (number, place)
                row += rows

    def blocks(self, first: int = 0, place: int | None = None) -> Iterator[Block]:
        """Yield the decompressed blocks, from the first one on that lies at a place."""
        if place is not None:
            self._stream.seek(place)
        for number in count(first):
            self._what = f"block {number}"
            with translate_read_errors(self._where, f"cannot read {self._what}"):
                if not (begun := self._stream.read(1)):
                    return
                rows = self._number(begun)
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
        value = _read_varint(chain(first, (self._read(1)[0] for _ in count())))
        return (value >> 1) ^ -(value & 1)

    def _damage(self, problem: str) -> SourceError:
        return SourceError(self._where, f"damaged: {problem}", _HINT)


def _is_safe(schema: Any, in_union: bool = False) -> bool:  # noqa: ANN401 - JSON
    """Whether its values nest no deeper than the type, and cannot be many in few bytes.

    Raises ValueError if one of two values would be lost.
    """
    if isinstance(schema, list):
        return all(_is_safe(one, True) for one in schema)
    if isinstance(schema, str):
        return schema in _PRIMITIVES or (schema == "null" and in_union)
    kind = schema["type"]
    if kind == "record":
        fields = {one["name"]: one["type"] for one in schema["fields"]}
        if len(fields) < len(schema["fields"]):
            raise ValueError("two fields of one name")
        return bool(fields) and all(map(_is_safe, fields.values()))
    if kind in ("array", "map"):
        return _is_safe(schema["items" if kind == "array" else "values"])
    if kind == "fixed":
        return bool(0 < schema["size"] <= MAX_ROW_BYTES)
    return kind == "enum" or _is_safe(kind, in_union)


def _read_varint(data: Iterator[int]) -> int:
    value = 0
    for shift, byte in zip(range(0, 70, 7), data, strict=False):
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
    raise ValueError("a length has no end")


def _unpack_by(open_stream: Callable[[io.BytesIO], Any], data: bytes) -> bytes:
    return read_bytes(open_stream(io.BytesIO(data)), MAX_ROW_BYTES + 1)


def _unpack_deflate(data: bytes) -> bytes:
    unpack = zlib.decompressobj(-zlib.MAX_WBITS)  # behind its end may lie a checksum
    out = unpack.decompress(data, MAX_ROW_BYTES + 1)
    if len(out) <= MAX_ROW_BYTES and not unpack.eof:
        raise EOFError
    return out


def _unpack_snappy(data: bytes) -> bytes:
    size = _read_varint(iter(data))
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
    "zstandard": partial(_unpack_by, Zstd),
    "bzip2": partial(_unpack_by, Bzip2),
    "xz": partial(_unpack_by, Xz),
}


class _BlockDecoder:
    """Decodes blocks after one header, which says that they are not compressed."""

    is_limited = False

    def __init__(self, schema: bytes) -> None:
        import fastavro
        from fastavro import _read_py, read

        self._write = fastavro.schemaless_writer
        self._stream = io.BytesIO()
        own = orjson.dumps(json.loads(schema, object_hook=_rename_logical_type))
        self._has_binary = b'"bytes"' in own or b'"fixed"' in own
        self._has_floats = b'"float"' in own or b'"double"' in own
        meta = {"avro.schema": own, "avro.codec": b"null"}
        self._stream.write(AVRO)
        self._write(self._stream, {"type": "map", "values": "bytes"}, meta)
        self._stream.write(bytes(_SYNC_BYTES))
        for module in (read, _read_py):
            module.LOGICAL_READERS.update(_LOGICAL_READERS)
        with translate_native_errors(ValueError):
            self._blocks = self._open(read)
            if _is_recursive(self._blocks.writer_schema):
                self._blocks = self._open(_read_py)  # which knows its depth

    def _open(self, module: Any) -> Any:  # noqa: ANN401 - of one of two classes
        self._stream.seek(0)
        return module.block_reader(self._stream, handle_unicode_errors="surrogateescape")

    def rows(self, blocks: Sequence[Block]) -> Iterator[RowChunk | str]:
        """Yield the rows of blocks, some at a time, and what is wrong behind them."""
        rows: list[Json] = []
        for number, told, data in blocks:
            block, done = self._load(told, data), 0
            try:
                for row in block:
                    rows.append(row)
                    done += 1
                    if len(rows) == TABLE_ROWS:
                        yield self._to_chunk(rows)
                        rows = []
                problem = f"{len(data) - block.bytes_.tell():,} bytes behind the {told:,} rows"
            except MemoryError:
                problem = f"row {done} makes too much of its bytes, which is not read"
            except Exception as error:  # noqa: BLE001 - fastavro raises nothing more precise
                problem = f"cannot decode row {done}: {error_text(error)}"
            if done < told or block.bytes_.tell() < len(data):
                yield self._to_chunk(rows)
                yield f"block {number}: {problem}"
                return
        yield self._to_chunk(rows)

    def _load(self, rows: int, data: bytes) -> Any:  # noqa: ANN401
        if self.is_limited:
            limit_process(memory=min(MEMORY, _LEAST_MEMORY + _GROWTH * len(data)))
        self._stream.seek(0)
        self._stream.truncate()
        self._write(self._stream, "long", rows)
        self._write(self._stream, "bytes", data)
        self._stream.write(bytes(_SYNC_BYTES))
        self._stream.seek(0)
        return next(self._blocks)

    def _to_chunk(self, rows: list[Json]) -> RowChunk:
        """Rows as JSON values, in which numbers that are not finite are null."""
        try:
            text = orjson.dumps(rows, default=binary_text)
        except TypeError:
            return RowChunk(values=[to_json_row(row)[0] for row in rows])
        # A null may have been a number.
        is_changed = self._has_binary or (self._has_floats and b"null" in text)
        return RowChunk(values=orjson.loads(text) if is_changed else rows, sound=True)

    def close(self) -> None:
        """Let go of nothing but memory."""


class _LimitedDecoder(_BlockDecoder):
    """Decodes blocks in a process, which may have so much memory as a block needs."""

    NEEDS = _NEEDS
    is_limited = True

    def tables(self) -> None:
        """There is nothing to say."""


def _is_recursive(schema: Json, inside: tuple[Json, ...] = ()) -> bool:
    """Whether a type holds itself, by a schema in which all names are full."""
    if isinstance(schema, dict):
        inner = [schema["type"], schema.get("items"), schema.get("values")]
        inner += [one["type"] for one in schema.get("fields", ())]
        return any(_is_recursive(one, (*inside, schema.get("name"))) for one in inner if one)
    if isinstance(schema, list):
        return any(_is_recursive(one, inside) for one in schema)
    return schema in inside


def _rename_logical_type(schema: dict[str, Json]) -> Json:
    logical = schema.get("logicalType")
    return {**schema, "logicalType": f"{_OWN}{logical}"} if logical else schema


def _decimal(value: bytes, schema: dict[str, Any], _: object) -> Json:
    scale = schema.get("scale", 0)
    if len(value) > _MOST_DECIMAL or not 0 <= scale <= _MOST_DECIMAL:
        raise ValueError(f"a decimal of {len(value):,} bytes, {scale} digits behind the point")
    sign, digits, _exponent = Decimal(int.from_bytes(value, "big", signed=True)).as_tuple()
    return exact_number(Decimal((sign, digits, -scale)))


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
    f"bytes-{_OWN}decimal": _decimal,
    f"fixed-{_OWN}decimal": _decimal,
    f"fixed-{_OWN}duration": _duration,
    f"fixed-{_OWN}uuid": lambda value, *_: str(UUID(bytes=value)) if len(value) == 16 else value,
    f"int-{_OWN}date": _convert_by(pa.date32()),
    f"int-{_OWN}time-millis": _convert_by(pa.time32("ms")),
    f"long-{_OWN}time-micros": _convert_by(pa.time64("us")),
    **{
        f"long-{_OWN}{local}timestamp-{name}": _convert_by(pa.timestamp(unit, zone))
        for local, zone in (("", "UTC"), ("local-", None))
        for name, unit in (("millis", "ms"), ("micros", "us"), ("nanos", "ns"))
    },
}
