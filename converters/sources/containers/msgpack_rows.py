"""MessagePack files: values one after another, or one list of maps; decoded by the package msgpack.

A value is passed over before it is made: so no length that lies takes memory.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import chain, islice, pairwise
from math import inf
from typing import Any, BinaryIO, Final

import orjson
import pyarrow as pa

from ingot.converters.errors import SourceError, require_package, truncated_error
from ingot.converters.rows import Json
from ingot.converters.sources.facts import FileFacts, SourceFile, SourceSpec
from ingot.converters.sources.formats.arrow import (
    NotTextError,
    binary_text,
    to_json_row,
    value_converter,
)
from ingot.converters.sources.formats.detection import FilePeek, rows_shape
from ingot.converters.sources.formats.row_chunks import (
    MAX_ROW_BYTES,
    BrokenRow,
    RowChunk,
    chunk_of_counted,
)
from ingot.converters.sources.formats.text import read_blocks
from ingot.converters.sources.storage.listing import Entry

_BLOCK: Final = 128 << 10  # of larger ones the values leave the cache of the processor
_SHAPE_ROWS: Final = 50
_NAME: Final = re.compile(r"\.(msgpack|mpk)(\.\w{1,4})?$", re.IGNORECASE)
_MAPS: Final = frozenset({*range(0x80, 0x90), 0xDE, 0xDF})
# First bytes of a list, and how many bytes of its length follow.
_LISTS: Final = {**dict.fromkeys(range(0x90, 0xA0), 0), 0xDC: 2, 0xDD: 4}
# What a number begins with that is not finite; other bytes may look like it, up to its first one.
_NOT_FINITE: Final = tuple(
    map(re.compile, (rb"\xca(?=[\x7f\xff][\x80-\xff])", rb"\xcb(?=[\x7f\xff][\xf0-\xff])"))
)
_iso_time = value_converter(pa.timestamp("ns", tz="UTC"))


def msgpack_file_facts(entry: Entry, seen: FilePeek, spec: SourceSpec) -> FileFacts | None:
    """Return the facts of a MessagePack file: by its name and first byte, or where it is stated.

    Raises SourceError if the package is not installed.
    """
    stated, first = spec.format == "msgpack", seen.head[0]
    named = spec.format is None and _NAME.search(entry.name) and first in {*_MAPS, *_LISTS}
    if not stated and not named:
        return None
    where = str(entry.place)
    require_package(where, "a MessagePack file", "msgpack", "msgpack")
    layout = "list" if _is_list_of_maps(seen) else "values"
    rows: list[Json] = []
    try:
        for chunk in _rows(iter([seen.head]), layout == "list", where):
            rows += islice(chunk.values, _SHAPE_ROWS - len(rows))
    except SourceError:  # the head ends inside a value; damage is told when the file is read
        if not rows and seen.whole:
            raise
    shape = rows_shape(row for row in rows if type(row) is not BrokenRow)
    return FileFacts(format="msgpack", layout=layout, compression=seen.compression, shape=shape)


def _is_list_of_maps(seen: FilePeek) -> bool:
    """Whether the file is one list of maps, as far as its head shows: no value follows it."""
    import msgpack

    head = seen.head
    width = _LISTS.get(head[0])
    if width is None or _MAPS.isdisjoint(head[1 + width : 2 + width]):
        return False
    skipper = msgpack.Unpacker(max_buffer_size=len(head))
    skipper.feed(head)
    try:
        skipper.skip()
    except (msgpack.OutOfData, ValueError):
        return True
    return bool(seen.whole and skipper.tell() == len(head))


def read_msgpack(file: SourceFile, _: SourceSpec, stream: BinaryIO) -> Iterator[RowChunk]:
    """Return the rows of a MessagePack file.

    Raises SourceError, after the rows before the damage.
    """
    where = str(file.place)
    return _rows(read_blocks(stream, where, _BLOCK), file.facts.layout == "list", where)


def _rows(blocks: Iterator[bytes], is_list: bool, where: str) -> Iterator[RowChunk]:
    """The values that end in each block."""
    import msgpack

    left: float = inf  # values that are still to come
    if is_list:
        first = next(blocks)
        width = _LISTS[first[0]]
        left = int.from_bytes(first[1 : 1 + width], "big") if width else first[0] & 0xF
        blocks = chain([first[1 + width :]], blocks)
    skipper = msgpack.Unpacker(max_buffer_size=MAX_ROW_BYTES + 2 * _BLOCK)
    unread = bytearray()  # what is not whole yet
    start = count = 0
    for block in blocks:
        skipper.feed(block)
        unread += block
        bounds, problem = [0], ""
        try:
            while len(bounds) <= left:
                skipper.skip()
                bounds.append(skipper.tell() - start)
        except msgpack.OutOfData:
            pass
        except ValueError as error:  # of the package all are
            deep = isinstance(error, msgpack.StackError)
            problem = f"damaged: {'nested too deeply' if deep else 'no MessagePack'}"
        yield _decode(bytes(unread[: bounds[-1]]), bounds)
        del unread[: bounds[-1]]
        start += bounds[-1]
        count += len(bounds) - 1
        left -= len(bounds) - 1
        if not left and unread:
            problem = "after the list of rows comes more"
        if len(unread) > MAX_ROW_BYTES:
            problem = f"a value of more than {MAX_ROW_BYTES >> 20} MiB"
        if problem:
            raise SourceError(where, f"{problem} (value {count})", "fetch or copy it again")
    if unread or 0 < left < inf:
        raise truncated_error(where, f"the file ends inside value {count}")


def _decode(data: bytes, bounds: list[int]) -> RowChunk:
    """The values that lie between each two of some places."""
    import msgpack

    unpacker = msgpack.Unpacker(max_buffer_size=len(data), strict_map_key=False)
    unpacker.feed(data)
    try:
        values = list(unpacker)
        text = orjson.dumps(values)  # is it all JSON?
    except (TypeError, ValueError):
        return chunk_of_counted([_decode_value(data[a:b]) for a, b in pairwise(bounds)])
    signs = _NOT_FINITE if b"null" in text else ()
    lengths = {
        bisect_right(bounds, match.start()) - 1 for sign in signs for match in sign.finditer(data)
    }
    counts = {}
    for place in sorted(lengths):
        values[place], counts[place] = _decode_value(data[bounds[place] : bounds[place + 1]])
    return RowChunk(values=values, sound=True, non_finite={p: n for p, n in counts.items() if n})


def _decode_value(data: bytes) -> tuple[Json, int]:
    """The value, `BrokenRow` where it has no form in JSON; how many numbers were read as null."""
    import msgpack

    try:
        value = msgpack.unpackb(
            data,
            object_pairs_hook=_to_object,
            ext_hook=_refuse_extension,
            strict_map_key=False,
            unicode_errors="surrogateescape",
        )
    except NotTextError as error:
        return BrokenRow("binary that is no UTF-8 text", str(error)), 0
    except (ValueError, TypeError) as error:  # of the package: a key that is a list
        return BrokenRow(f"no JSON value: {error}"[:200], ""), 0
    return to_json_row(value, _to_text)


def _to_text(value: Any) -> Json:  # noqa: ANN401 - bytes or a timestamp
    return binary_text(value) if isinstance(value, bytes) else _iso_time(value.to_unix_nano())


def _refuse_extension(code: int, _: bytes) -> None:
    raise ValueError(f"a value of the extension type {code}")


def _to_object(pairs: list[tuple[Any, Json]]) -> dict[str, Json]:
    row = {_key_text(key): value for key, value in pairs}
    if len(row) < len({(type(key), key) for key, _ in pairs}):
        raise ValueError("two keys of a map are the same as text")
    return row


def _key_text(key: Any) -> str:  # noqa: ANN401
    if isinstance(key, str):
        return key
    if isinstance(key, bytes):
        return binary_text(key)
    if key is None or isinstance(key, bool | int):
        return orjson.dumps(key).decode()
    raise ValueError(f"a key of a map is a {type(key).__name__}")
