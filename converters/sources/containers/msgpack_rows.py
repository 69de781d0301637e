"""MessagePack files: values one after another, or one list of maps; decoded by the package msgpack.

A value is passed over before it is made: so no length that lies takes memory.
"""

import math
import re
from collections.abc import Iterator
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import numpy as np
import orjson
import pyarrow as pa

from ingot.converters.errors import SourceError, truncated_error
from ingot.converters.rows import Json
from ingot.converters.sources.facts import FileFacts, SourceFile, SourceSpec
from ingot.converters.sources.formats.arrow import value_converter
from ingot.converters.sources.formats.detection import FilePeek, rows_shape
from ingot.converters.sources.formats.row_chunks import (
    BATCH_ROWS,
    MAX_DEPTH,
    MAX_ROW_BYTES,
    BrokenRow,
    RowChunk,
    chunk_of_counted,
    has_utf8_texts,
    row_excerpt,
)
from ingot.converters.sources.formats.text import read_blocks
from ingot.converters.sources.storage.listing import Entry

if TYPE_CHECKING:
    import types

_BLOCK: Final = 1 << 20
_SHAPE_ROWS: Final = 50
_NAME: Final = re.compile(r"\.(msgpack|mpk)(\.\w{1,4})?$", re.IGNORECASE)
_MAPS: Final = frozenset({*range(0x80, 0x90), 0xDE, 0xDF})
_LISTS: Final = {**dict.fromkeys(range(144, 160), 0), 0xDC: 2, 0xDD: 4}
"""First bytes of a list, and how many bytes of its length follow."""
_iso_time = value_converter(pa.timestamp("ns", tz="UTC"))


class _NoJsonError(Exception):
    """A value that has no form in JSON; never leaves this module."""


def msgpack_file_facts(entry: Entry, seen: FilePeek, spec: SourceSpec) -> FileFacts | None:
    """Return the facts of a MessagePack file: by its name and first byte, or where it is stated.

    Raises SourceError where the package is not installed.
    """
    stated, first = spec.format == "msgpack", seen.head[0]
    named = spec.format is None and _NAME.search(entry.name) and first in {*_MAPS, *_LISTS}
    if not stated and not named:
        return None
    where = str(entry.place)
    package = _import_package(where)
    layout = "list" if _is_list_of_maps(package, seen) else "values"
    rows: list[Json] = []
    try:
        for chunk in _rows(iter([seen.head]), layout == "list", where):
            rows += islice(chunk.values, _SHAPE_ROWS - len(rows))
    except SourceError:  # the head ends inside a value; damage is told when the file is read
        if not rows and seen.whole:
            raise
    shape = rows_shape(row for row in rows if type(row) is not BrokenRow)
    return FileFacts(format="msgpack", layout=layout, compression=seen.compression, shape=shape)


def _import_package(where: str) -> "types.ModuleType":
    try:
        import msgpack
    except ImportError as error:
        hint = 'pip install "ingot[msgpack]"'
        raise SourceError(where, "a MessagePack file needs the package msgpack", hint) from error
    module: types.ModuleType = msgpack
    return module


def _is_list_of_maps(package: Any, seen: FilePeek) -> bool:  # noqa: ANN401 - a module
    """Whether the file is one list of maps, as far as its head shows: no value follows it."""
    head = seen.head
    width = _LISTS.get(head[0])
    if width is None or head[1 + width : 2 + width] == b"" or head[1 + width] not in _MAPS:
        return False
    skipper = package.Unpacker(max_buffer_size=len(head))
    skipper.feed(head)
    try:
        skipper.skip()
    except (package.OutOfData, ValueError):
        return True
    return bool(seen.whole and skipper.tell() == len(head))


def read_msgpack(file: SourceFile, _: SourceSpec, stream: BinaryIO) -> Iterator[RowChunk]:
    """The rows of a MessagePack file. Raises SourceError, after the rows before the damage."""
    where = str(file.place)
    return _rows(read_blocks(stream, where, _BLOCK), file.facts.layout == "list", where)


def _rows(blocks: Iterator[bytes], is_list: bool, where: str) -> Iterator[RowChunk]:
    cutter = _ValueCutter(where)
    for block in blocks:
        if is_list and cutter.left is None:
            width = _LISTS[block[0]]
            told = int.from_bytes(block[1 : 1 + width], "big")
            cutter.left, block = told if width else block[0] & 0xF, block[1 + width :]
        data, bounds = cutter.cut(block)
        for start in range(0, len(bounds) - 1, BATCH_ROWS):
            yield _decode(data, bounds[start : start + BATCH_ROWS + 1])
        cutter.check()
    cutter.finish()


class _ValueCutter:
    """Finds where values end, and holds what is not whole yet."""

    def __init__(self, where: str) -> None:
        self._package: Any = _import_package(where)
        self._where = where
        self._skipper = self._package.Unpacker(max_buffer_size=MAX_ROW_BYTES + 2 * _BLOCK)
        self._held = bytearray()
        self._start = self._count = 0
        self._problem = ""
        self.left: int | None = None  # values that are still to come, if that is known

    def cut(self, block: bytes) -> tuple[bytes, list[int]]:
        """The whole values so far, and where each begins, and the last ends."""
        self._skipper.feed(block)
        self._held += block
        bounds = [0]
        try:
            while self.left is None or len(bounds) <= self.left:
                self._skipper.skip()
                bounds.append(self._skipper.tell() - self._start)
        except self._package.OutOfData:
            pass
        except ValueError as error:  # of the package all are
            deep = isinstance(error, self._package.StackError)
            self._problem = f"damaged: {'nested too deeply' if deep else 'no MessagePack'}"
        size = bounds[-1]
        data = bytes(self._held[:size])
        del self._held[:size]
        self._start += size
        self._count += len(bounds) - 1
        if self.left is not None:
            self.left -= len(bounds) - 1
            if not self.left and self._held:
                self._problem = "after the list of rows comes more"
        if len(self._held) > MAX_ROW_BYTES:
            self._problem = f"a value of more than {MAX_ROW_BYTES >> 20} MiB"
        return data, bounds

    def check(self) -> None:
        """Raise what is wrong behind the values that were cut."""
        if self._problem:
            problem = f"{self._problem} (value {self._count})"
            raise SourceError(self._where, problem, "fetch or copy it again")

    def finish(self) -> None:
        if self._held or self.left:
            raise truncated_error(self._where, f"the file ends inside value {self._count}")


def _decode(data: bytes, bounds: list[int]) -> RowChunk:
    """The values that lie between each two of some places."""
    import msgpack

    part = data[bounds[0] : bounds[-1]]
    if not _may_be_infinite(part):
        unpacker = msgpack.Unpacker(max_buffer_size=len(part), strict_map_key=False)
        unpacker.feed(part)
        try:
            values = list(unpacker)
            orjson.dumps(values)  # is it all JSON?
        except (TypeError, ValueError):
            pass
        else:
            return RowChunk(values=values, sound=True)
    return chunk_of_counted([_decode_value(data[a:b]) for a, b in pairwise(bounds)])


def _may_be_infinite(data: bytes) -> bool:
    """Whether there may be a number that is not finite: the cheap test before all are looked at."""
    if b"\x7f" not in data and b"\xff" not in data:
        return False
    signs = np.frombuffer(data, np.uint8)
    places = np.flatnonzero((signs[1:-1] & 0x7F) == 0x7F)
    kinds, seconds = signs[places], signs[places + 2]
    double = (kinds == 0xCB) & (seconds >= 0xF0)
    return bool((double | ((kinds == 0xCA) & (seconds >= 0x80))).any())


class _Pairs(list[Any]):
    """The keys and values of a map."""


def _decode_value(data: bytes) -> tuple[Json, int]:
    """The value, `BrokenRow` where it has no form in JSON; how many numbers were read as null."""
    import msgpack

    try:
        value = msgpack.unpackb(
            data,
            object_pairs_hook=_Pairs,
            strict_map_key=False,
            use_list=True,
            unicode_errors="surrogateescape",
        )
        found: list[float] = []
        made = _to_json(value, found, 0)
    except (ValueError, TypeError) as error:  # of the package: a key that is a list
        return BrokenRow(f"no JSON value: {error}"[:200], ""), 0
    except _NoJsonError as error:
        return BrokenRow(*error.args), 0
    if not has_utf8_texts(made):
        return BrokenRow("text that is not valid UTF-8", ""), 0
    return made, len(found)


def _to_json(value: Any, infinite: list[float], depth: int) -> Json:  # noqa: ANN401
    import msgpack

    if isinstance(value, list):
        if depth >= MAX_DEPTH:
            raise _NoJsonError(f"nested more than {MAX_DEPTH} levels deep", "")
        if isinstance(value, _Pairs):
            return _to_object(value, infinite, depth)
        return [_to_json(one, infinite, depth + 1) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        infinite.append(value)
        return None
    if isinstance(value, bytes):
        return _to_text(value)
    if isinstance(value, msgpack.Timestamp):
        return _iso_time(value.to_unix_nano())
    if isinstance(value, msgpack.ExtType):
        raise _NoJsonError(f"a value of the extension type {value.code}", "")
    made: Json = value
    return made


def _to_object(pairs: _Pairs, infinite: list[float], depth: int) -> Json:
    made: dict[str, Json] = {}
    kinds: dict[str, object] = {}
    for key, value in pairs:
        name = key if type(key) is str else _key_text(key)
        if kinds.setdefault(name, type(key)) is not type(key):
            raise _NoJsonError("two keys of a map are the same as text", row_excerpt(name))
        made[name] = _to_json(value, infinite, depth + 1)
    return made


def _key_text(key: Any) -> str:  # noqa: ANN401
    if isinstance(key, bytes):
        return _to_text(key)
    if key is None or isinstance(key, bool | int):
        return orjson.dumps(key).decode()
    raise _NoJsonError(f"a key of a map is a {type(key).__name__}", "")


def _to_text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise _NoJsonError("binary that is no UTF-8 text", row_excerpt(value)) from error
