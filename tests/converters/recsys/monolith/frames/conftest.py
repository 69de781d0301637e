"""An independent reader of frames, in plain Python, and streams to give it."""

import io
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from ingot.converters.recsys.monolith.frames.framing import MAX_SORT_ID, Framing
from ingot.converters.recsys.monolith.frames.record_io import RecordReader
from ingot.converters.recsys.monolith.record_index import Bad, Records
from ingot.converters.sources.recognizers.monolith import MAX_RECORD, Kind
from ingot.schemas.monolith import example_pb2


class Drops(io.RawIOBase):
    """A stream that cannot be sought in, and gives a few bytes at a time."""

    def __init__(self, data: bytes, size: int) -> None:
        self._inner = io.BytesIO(data)
        self._size = size

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._inner.read(self._size if size < 0 else min(size, self._size))


@dataclass(frozen=True)
class Found:
    """One thing in a stream: a record (reason None, bytes 0), or what is none."""

    number: int
    offset: int
    bytes: int
    reason: str | None = None
    message: bytes = b""
    sort_id: bytes = b""
    source: int = 0


class _EndError(Exception):
    def __init__(self, reason: str) -> None:
        self.reason = reason


def _take(stream: BinaryIO, size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise _EndError("truncated")
    return data


def _number(stream: BinaryIO) -> int:
    return int(struct.unpack("<Q", _take(stream, 8))[0])


def _frame(stream: BinaryIO, framing: Framing, limit: int, left: int) -> tuple[Any, ...]:
    """As Monolith's reader takes it: reason, message, sort_id, source."""
    sort_id, source, given = b"", 0, 0
    if framing.lagrangex_header:
        source = (_number(stream) % 2**32) // 256 * 256
    else:
        if framing.kafka_dump_prefix:
            given = _number(stream)
            if given == 0:
                _number(stream)
        if framing.sort_id:
            given = given or _number(stream)
            if given > MAX_SORT_ID:
                raise _EndError("sort_id")
            sort_id = _take(stream, given)
        if framing.kafka_dump:
            _number(stream)
    size = _number(stream)
    if size == 0:
        return "empty", b"", sort_id, source
    if size == 0xFEFEFEFE:
        raise _EndError("deadbeef")
    if size > limit:
        stream.read(min(size, left))
        return "size", b"", sort_id, source
    return None, _take(stream, size), sort_id, source


def by_hand(data: bytes, framing: Framing, kind: Kind) -> list[Found]:
    """What a stream holds, without regard to sort_ids that are messages."""
    stream = io.BytesIO(data)
    found: list[Found] = []
    while (at := stream.tell()) < len(data):
        try:
            reason, message, sort_id, source = _frame(stream, framing, MAX_RECORD[kind], len(data))
        except _EndError as end:
            found.append(Found(len(found), at, len(data) - at, end.reason))
            break
        if reason:
            found.append(Found(len(found), at, stream.tell() - at, reason))
        else:
            found.append(Found(len(found), at, 0, None, message, sort_id, source))
    return found


def by_reader(
    stream: BinaryIO, framing: Framing, kind: Kind, block: int = 4 << 20
) -> tuple[list[Found], list[Bad]]:
    """What `RecordReader` finds, in the same form but for the sizes of records, and its Bads."""
    found: list[Found] = []
    bads: list[Bad] = []
    for one in RecordReader(stream, "it", framing, kind, block):
        if isinstance(one, Bad):
            bads.append(one)
            found.append(Found(one.record, one.offset, one.bytes, one.reason))
        else:
            assert len(one)
            found += [_record(one, at) for at in range(len(one))]
    return found, bads


def _record(records: Records, at: int) -> Found:
    return Found(
        int(records.record[at]),
        int(records.offset[at]),
        0,
        None,
        records.message(at),
        records.sort_id(at),
        int(records.source[at]),
    )


def example_of(number: int) -> bytes:
    """An Example with one named feature."""
    message = example_pb2.Example()
    message.named_feature.add(name=f"f_{number}").feature.fid_v2_list.value.append(number)
    message.line_id.uid = number
    return message.SerializeToString()


@pytest.fixture
def golden(repository: Path) -> Callable[[str], bytes]:
    return lambda name: (repository / "tests/golden/monolith" / name).read_bytes()


@pytest.fixture
def example() -> Callable[[int], bytes]:
    return example_of


@pytest.fixture
def drops() -> type[Drops]:
    return Drops


@pytest.fixture
def oracle() -> Callable[..., list[Found]]:
    return by_hand


@pytest.fixture
def read() -> Callable[..., tuple[list[Found], list[Bad]]]:
    return by_reader
