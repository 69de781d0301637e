"""Streams of Monolith, recognized by the beginning of their content."""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal

Kind = Literal["example", "examplebatch", "instance"]


MAX_RECORD: Final[dict[Kind, int]] = {
    "example": 64 << 20,
    "instance": 64 << 20,
    "examplebatch": 128 << 20,
}


MONOLITH_HEAD: Final = 256 << 10
"""Bytes that are enough to judge a file by, a chunk of snappy included."""
MONOLITH_STREAM: Final = "a stream of Monolith"
"""What such a file is, in words."""

_FRAMINGS: Final = (
    "sort_id",
    "none",
    "sort_id,kafka_dump",
    "sort_id,kafka_dump_prefix",
    "kafka_dump_prefix",
    "sort_id,kafka_dump,kafka_dump_prefix",
    "kafka_dump,kafka_dump_prefix",
    "lagrangex_header",
    "kafka_dump",
)
"""Those whose bytes are the same for this stream are read alike: the first one is named."""
_JUDGED_MESSAGES: Final = 4  # messages
_INSPECTED_FEATURES: Final = 64  # features of a message
_UNPACKED_BYTES: Final = 64 << 10
_SORT_ID: Final = 64 << 10
_CHUNK: Final = 4 << 20
_ZEROS: Final = bytes(4)  # the upper half of a size, which lies within the first bytes

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_LAST_KIND: Final = 16
_VALUES: Final = {12: _VARINT, 13: _FIXED32, 14: _FIXED64}
_NAMED_FEATURE: Final = {1: _LENGTH, 2: _LENGTH, 3: _VARINT, 4: _VARINT, 6: _VARINT}
_EXAMPLE: Final = {100: {_LENGTH}, 101: {_LENGTH, _FIXED32}, 102: {_FIXED32}, 103: {_VARINT}}
_BATCH: Final = {3: {_VARINT}, 100: {_VARINT}}
_INSTANCE: Final = {
    1: {_LENGTH, _FIXED64},
    2: {_LENGTH, _FIXED32},
    3: {_LENGTH, _FIXED32},
    4: {_FIXED32},
    5: {_LENGTH},
    6: {_LENGTH, _FIXED32},
    7: {_LENGTH},
    8: {_LENGTH, _FIXED64},
    9: {_LENGTH},
    100: {_VARINT},
}
_WIDTHS: Final = {1: 8, 2: 4, 3: 4, 4: 4, 6: 4, 8: 8}
_LINE_ID, _FEATURE = 5, 9
_TYPICAL_FIELDS: Final = frozenset({1, 3, 5, 9})  # of an Instance, which has two at least
_LINE_ID_FIELDS: Final = {2: _FIXED64, 3: _VARINT, 4: _FIXED64, 5: _LENGTH, 27: _FIXED32}


@dataclass(frozen=True, kw_only=True)
class MonolithStream:
    """What a stream is: the kind of its records, its framing and its compression."""

    kind: Kind
    framing: str
    compression: str


def recognize_monolith(head: bytes, records: int = _JUDGED_MESSAGES) -> MonolithStream | None:
    """Return what a file is, by its beginning; None if it is no stream of Monolith."""
    for compression, undo in (
        ("none", bytes),
        ("zlib", _inflate_zlib),
        ("snappy", _unpack_hadoop_block),
    ):
        data = undo(head)
        if _ZEROS not in data[:32]:
            continue
        for framing in _FRAMINGS:
            kind = messages_kind(data, framing, records)
            if kind is not None:
                return MonolithStream(kind=kind, framing=framing, compression=compression)
    return None


def _inflate_zlib(head: bytes) -> bytes:
    if head[:1] != b"\x78" or int.from_bytes(head[:2]) % 31:
        return b""
    try:
        return zlib.decompressobj().decompress(head, _UNPACKED_BYTES)
    except zlib.error:
        return b""


def _unpack_hadoop_block(head: bytes) -> bytes:
    """The first chunk of a Hadoop block."""
    block, size = int.from_bytes(head[:4]), int.from_bytes(head[4:8])
    chunk = head[8 : 8 + size]
    if not chunk or len(chunk) < size:
        return b""
    try:
        raw, _ = _read_varint(chunk, 0, len(chunk))
        if not 0 < raw <= min(block, _CHUNK):
            return b""
        import pyarrow as pa

        return bytes(pa.Codec("snappy").decompress(chunk, decompressed_size=raw, asbytes=True))
    except (NotAMessageError, _OutOfBytes, OSError, ValueError):
        return b""


class NotAMessageError(Exception):
    """The bytes are no such message."""


class _OutOfBytes(Exception):  # noqa: N818 - never seen outside
    """The message goes on beyond the bytes at hand."""


def messages_kind(data: bytes, framing: str, records: int) -> Kind | None:
    """Return the kind of the messages, read with a framing.

    None if one of the first is not a message.
    """
    found: list[Kind] = []
    try:
        for start, stop, sort_id in islice(_message_frames(data, framing), records):
            if sort_id and message_kind(sort_id, 0, len(sort_id)):
                return None  # a stream without sort_ids, read with them
            kind = message_kind(data, start, stop)
            if kind is None or (found and found[0] != kind):
                return None
            found.append(kind)
    except NotAMessageError:
        return None
    return found[0] if found else None


def _message_frames(data: bytes, framing: str) -> Iterator[tuple[int, int, bytes]]:
    """Where messages begin and end (which may be beyond the bytes at hand), and their sort_ids."""
    at = 0
    try:
        while at < len(data):
            at, sort_id = _read_frame_prefix(data, at, framing)
            size = _read_u64(data, at)
            if not 0 < size <= MAX_RECORD["examplebatch"]:
                raise NotAMessageError
            at += 8
            if at >= len(data):
                return
            yield at, at + size, sort_id
            at += size
    except _OutOfBytes:
        return


def _read_frame_prefix(data: bytes, at: int, framing: str) -> tuple[int, bytes]:
    """Where the size of a message lies, and the sort_id."""
    parts = framing.split(",")
    if "lagrangex_header" in parts:
        if _read_u64(data, at) >> 32:
            raise NotAMessageError
        return at + 8, b""
    size = 0
    if "kafka_dump_prefix" in parts:
        size = _read_u64(data, at)
        at += 8 if size else 16
    if "sort_id" in parts:
        if not size:
            size = _read_u64(data, at)
            at += 8
        if size > _SORT_ID:
            raise NotAMessageError
    elif size:
        raise NotAMessageError
    return at + size + 8 * ("kafka_dump" in parts), data[at : at + size]


def _read_u64(data: bytes, at: int) -> int:
    if at + 8 > len(data):
        raise _OutOfBytes
    return int.from_bytes(data[at : at + 8], "little")


def message_kind(data: bytes, start: int, stop: int) -> Kind | None:
    """Return what a message is by its fields; None if it is none of these."""
    return _example_kind(data, start, stop) or instance_kind(data, start, stop)


def _example_kind(data: bytes, start: int, stop: int) -> Kind | None:
    seen: dict[int, set[int]] = {}
    most = named = 0
    try:
        for number, wire, first, last in read_fields(data, start, stop):
            seen.setdefault(number, set()).add(wire)
            if number in (1, 2) and named < _INSPECTED_FEATURES:
                most = max(most, _count_features(data, first, last))
                named += 1
    except (NotAMessageError, UnicodeDecodeError):
        return None
    if not named or any(wires != {_LENGTH} for n, wires in seen.items() if n in (1, 2)):
        return None
    batch = most > 1 or 3 in seen
    known = _BATCH if batch else _EXAMPLE
    if any(not wires <= known[number] for number, wires in seen.items() if number in known):
        return None
    return "examplebatch" if batch else "example"


def _count_features(data: bytes, start: int, stop: int) -> int:
    """How many features a named one (or a list of them) has, of those at hand."""
    count, name = 0, "cut"
    for number, wire, first, last in read_fields(data, start, stop):
        if wire != _NAMED_FEATURE.get(number, wire):
            raise NotAMessageError
        if number == 1 and last <= len(data):
            name = data[first:last].decode()
        elif number == 2:
            count += 1
            for kind, inner, _, _ in islice(read_fields(data, first, last), _INSPECTED_FEATURES):
                if kind > _LAST_KIND or inner != _VALUES.get(kind, _LENGTH):
                    raise NotAMessageError
    if not name.isprintable() or not name:
        raise NotAMessageError
    return count


def instance_kind(data: bytes, start: int, stop: int) -> Kind | None:
    """`instance`, if a message is one by its fields."""
    seen: set[int] = set()
    try:
        for number, wire, first, last in read_fields(data, start, stop):
            if wire not in _INSTANCE.get(number, ()):
                return None
            seen.add(number)
            _check_part(data, number, first, last)
    except (NotAMessageError, UnicodeDecodeError):
        return None
    return "instance" if _LINE_ID in seen and len(seen & _TYPICAL_FIELDS) > 1 else None


def _check_part(data: bytes, number: int, start: int, stop: int) -> None:
    """See that a field of an Instance holds what it should."""
    if (stop - start) % _WIDTHS.get(number, 1):
        raise NotAMessageError
    if number == _FEATURE:
        for inside, _, first, last in read_fields(data, start, stop):
            if inside == 1 and last <= len(data):  # its name is text
                data[first:last].decode()
    elif number == _LINE_ID:
        for inside, wire, _, _ in read_fields(data, start, stop):
            if wire != _LINE_ID_FIELDS.get(inside, wire):
                raise NotAMessageError


def read_fields(data: bytes, at: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
    """Number, wire type and place of each field, as far as the bytes at hand go."""
    try:
        while at < stop:
            tag, at = _read_varint(data, at, stop)
            first, end = _field_span(data, at, stop, tag & 7)
            if not tag >> 3 or end > stop:
                raise NotAMessageError
            yield tag >> 3, tag & 7, first, end
            at = end
    except _OutOfBytes:
        return


def _field_span(data: bytes, at: int, stop: int, wire: int) -> tuple[int, int]:
    if wire == _LENGTH:
        size, first = _read_varint(data, at, stop)
        return first, first + size
    if wire == _VARINT:
        return at, _read_varint(data, at, stop)[1]
    if wire not in (_FIXED32, _FIXED64):
        raise NotAMessageError
    return at, at + (8 if wire == _FIXED64 else 4)


def _read_varint(data: bytes, at: int, stop: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= stop:
            raise NotAMessageError
        if at >= len(data):
            raise _OutOfBytes
        value |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return value, at
    raise NotAMessageError
