"""Records in frames: as the golden files have them, and back."""

import io
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.converters.errors import ConversionError
from ingot.converters.recsys.monolith.frames.compression import open_decompressed
from ingot.converters.recsys.monolith.frames.framing import (
    COMPRESSIONS,
    FRAMINGS,
    MAX_SORT_ID,
    Framing,
)
from ingot.converters.recsys.monolith.frames.record_io import (
    RecordReader,
    RecordWriter,
    find_unwritable,
    frame_records,
)
from ingot.converters.recsys.monolith.record_index import Bad, Records, records_of_messages
from ingot.schemas.monolith import example_pb2

Golden = Callable[[str], bytes]
PLAIN = Framing(sort_id=False)
LAGRANGEX = Framing(sort_id=False, lagrangex_header=True)


def with_frames(pieces: list[tuple[bytes, bytes, int]]) -> Records:
    """Records of messages, their sort_ids and sources."""
    flat = records_of_messages(
        [piece for message, sort_id, _ in pieces for piece in (sort_id, message)]
    )
    return replace(
        flat,
        start=flat.start[1::2],
        stop=flat.stop[1::2],
        sort_start=flat.start[::2],
        sort_stop=flat.stop[::2],
        source=np.array([source for _, _, source in pieces], np.uint32),
        offset=flat.start[::2],
        record=np.arange(len(pieces)),
    )


def read_back(data: bytes, framing: Framing, block: int = 4 << 20) -> list[Records]:
    found = list(RecordReader(io.BytesIO(data), "it", framing, "example", block))
    assert not any(isinstance(one, Bad) for one in found)
    return found


@pytest.mark.parametrize(
    ("name", "framing"),
    [
        ("mono_example_plain.pb", PLAIN),
        ("mono_example_sortid.pb", Framing()),
        ("mono_example_lagrangex.pb", LAGRANGEX),
    ],
)
@pytest.mark.parametrize("block", [100, 5_000, 4 << 20])
def test_the_sample_in_each_framing(
    golden: Golden, name: str, framing: Framing, block: int
) -> None:
    (plain,) = read_back(golden("mono_example_plain.pb"), PLAIN)
    assert len(plain) == 51
    assert frame_records(plain, framing, "example").tobytes() == golden(name)
    again = b"".join(
        frame_records(part, PLAIN, "example").tobytes()
        for part in read_back(golden(name), framing, block)
    )
    assert again == golden("mono_example_plain.pb")
    first = example_pb2.Example.FromString(plain.message(0))
    assert len(first.named_feature) == 137


def test_the_sample_as_a_batch(golden: Golden) -> None:
    batch = golden("example_batch.pb")
    data = frame_records(records_of_messages([batch]), Framing(), "examplebatch").tobytes()
    assert data == golden("mono_examplebatch_sortid.pb")


@pytest.mark.parametrize("framing", FRAMINGS, ids=str)
def test_records_of_no_to_fifteen_bytes(framing: Framing, read: Callable[..., Any]) -> None:
    """The records of Monolith's own test of its reader and writer."""
    messages = [b"a" * size for size in range(16)]
    data = frame_records(records_of_messages(messages), framing, "instance").tobytes()
    zeros = {
        "lagrangex_header": 8,
        "sort_id": 8,
        "kafka_dump": 8,
        "kafka_dump_prefix": 16,
    }
    header = bytes(sum(size for name, size in zeros.items() if getattr(framing, name)))
    assert data == b"".join(header + len(one).to_bytes(8, "little") + one for one in messages)
    found, (bad,) = read(io.BytesIO(data), framing, "instance")
    assert [one.message for one in found] == messages
    assert (bad.reason, bad.offset, bad.bytes, bad.record) == ("empty", 0, len(header) + 8, 0)


def test_what_stands_in_a_frame_beside_the_message() -> None:
    records = with_frames([(b"message", b"7_1", 0x01020300)])
    size = (7).to_bytes(8, "little") + b"message"
    sort_id = (3).to_bytes(8, "little") + b"7_1"
    assert frame_records(records, Framing(), "example").tobytes() == sort_id + size
    everything = Framing.parse("sort_id,kafka_dump,kafka_dump_prefix")
    wanted = bytes(16) + sort_id + bytes(8) + size
    assert frame_records(records, everything, "example").tobytes() == wanted
    header = bytes([0, 3, 2, 1, 0, 0, 0, 0])
    assert frame_records(records, LAGRANGEX, "example").tobytes() == header + size


def test_a_prefix_that_is_not_zero_is_the_size_of_the_sort_id(read: Callable[..., Any]) -> None:
    size = (7).to_bytes(8, "little") + b"message"
    prefix = (3).to_bytes(8, "little")
    both = Framing(kafka_dump_prefix=True)
    (one, two), bads = read(
        io.BytesIO(prefix + b"7_1" + size + bytes(16) + prefix + b"7_2" + size), both, "example"
    )
    assert (one.sort_id, two.sort_id, bads) == (b"7_1", b"7_2", [])
    alone = Framing(sort_id=False, kafka_dump_prefix=True)
    (one, two), bads = read(io.BytesIO(prefix + size + bytes(8) + prefix + size), alone, "example")
    assert (one.message, two.message, bads) == (b"message", b"message", [])


def test_the_type_in_a_lagrangex_header_is_no_part_of_its_key(read: Callable[..., Any]) -> None:
    header = bytes([9, 3, 2, 0xFF, 1, 1, 1, 1])
    (one,), _ = read(io.BytesIO(header + (1).to_bytes(8, "little") + b"m"), LAGRANGEX, "example")
    assert one.source == 0xFF020300


def test_a_key_that_no_header_holds_is_refused() -> None:
    records = with_frames([(b"m", b"", 256), (b"m", b"", 257), (b"m", b"", 0)])
    sizes = np.ones(3, np.int64)
    found = find_unwritable(records, sizes, LAGRANGEX, "example")
    assert found["data_source_key"].tolist() == [False, True, False]
    assert not find_unwritable(records, sizes, PLAIN, "example")["data_source_key"].any()
    with pytest.raises(ConversionError, match="record 1: has a data_source_key that no lagrangex"):
        frame_records(records, LAGRANGEX, "example")
    assert len(frame_records(records, PLAIN, "example")) == 27


def test_what_no_reader_takes_is_not_written() -> None:
    large = records_of_messages([b"m", bytes((64 << 20) + 1)])
    with pytest.raises(ConversionError, match="record 1: is over 67108864 bytes"):
        frame_records(large, PLAIN, "example")
    assert len(frame_records(large, PLAIN, "examplebatch")) == (64 << 20) + 18
    sort_id = with_frames([(b"m", bytes(MAX_SORT_ID + 1), 0)])
    with pytest.raises(ConversionError, match="record 0: has a sort_id of over 65536 bytes"):
        frame_records(sort_id, Framing(), "example")
    assert len(frame_records(sort_id, PLAIN, "example")) == 9


PIECES = st.lists(
    st.tuples(
        st.binary(min_size=1, max_size=200),
        st.binary(max_size=20).map(lambda data: b"_" + data if data else b""),
        st.integers(0, 2**24 - 1).map(lambda key: key << 8),
    ),
    max_size=12,
)


@given(
    pieces=PIECES,
    framing=st.sampled_from(FRAMINGS),
    compression=st.sampled_from(COMPRESSIONS),
    block=st.integers(1, 400),
    cut=st.integers(0, 12),
)
def test_what_is_written_is_read(
    pieces: list[tuple[bytes, bytes, int]],
    framing: Framing,
    compression: str,
    block: int,
    cut: int,
) -> None:
    """However it is framed, compressed, and cut into writes and reads."""
    records = with_frames(pieces)
    out = io.BytesIO()
    writer = RecordWriter(out, framing, "example", compression)
    for part in (records.part(0, cut), records.part(cut, len(records))):
        writer.write(part)
    writer.close()
    assert writer.records == len(pieces)
    stream = open_decompressed(io.BytesIO(out.getvalue()), "it", compression)
    found = [
        (part.message(at), part.sort_id(at), int(part.source[at]), part.record[at])
        for part in RecordReader(stream, "it", framing, "example", block)
        for at in range(len(part))
    ]
    assert found == [
        (message, sort_id * framing.sort_id, source * framing.lagrangex_header, number)
        for number, (message, sort_id, source) in enumerate(pieces)
    ]
