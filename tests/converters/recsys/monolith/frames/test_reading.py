"""Streams that are not as they should be: nothing of them is lost without a word."""

import io
import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ingot.converters.errors import SourceError
from ingot.converters.recsys.monolith.contract import REASONS
from ingot.converters.recsys.monolith.frames.compression import new_compressor, open_decompressed
from ingot.converters.recsys.monolith.frames.framing import FRAMINGS, Framing
from ingot.converters.recsys.monolith.frames.record_io import RecordReader, frame_records
from ingot.converters.recsys.monolith.record_index import Bad, Records, records_of_messages
from ingot.schemas.monolith.example_pb2 import Example

Read = Callable[..., Any]
Make = Callable[[int], bytes]
PLAIN = Framing(sort_id=False)
LIMIT = 64 << 20


def u64(number: int) -> bytes:
    return number.to_bytes(8, "little")


def plain(*messages: bytes) -> bytes:
    return b"".join(u64(len(message)) + message for message in messages)


def test_nothing_is_nothing(read: Read, drops: Any) -> None:
    for framing in FRAMINGS:
        assert read(io.BytesIO(b""), framing, "example") == ([], [])
        assert read(drops(b"", 1), framing, "example") == ([], [])


def test_a_stream_that_ends_inside_a_record(read: Read) -> None:
    data = plain(b"one", b"two!")
    for cut in range(12, len(data)):
        found, (bad,) = read(io.BytesIO(data[:cut]), PLAIN, "example")
        assert [one.message for one in found] == [b"one", b""]
        assert (bad.reason, bad.offset, bad.bytes, bad.record) == ("truncated", 11, cut - 11, 1)
    assert bad.detail == "needs 12 bytes at least, 11 are left"


def test_a_size_that_lies_takes_the_rest(read: Read, drops: Any) -> None:
    for size in (LIMIT + 1, 2**32, 2**63 - 1, 2**63, 2**64 - 8, 2**64 - 1):
        data = plain(b"one") + u64(size) + b"rest"
        for stream in (io.BytesIO(data), drops(data, 3)):
            found, (bad,) = read(stream, PLAIN, "example")
            assert [one.message for one in found] == [b"one", b""]
            assert (bad.reason, bad.offset, bad.bytes, bad.record) == ("size", 11, 12, 1)
            assert bad.detail == f"its size is {size}, the limit is {LIMIT}"


def test_a_record_over_the_limit_is_passed_over(read: Read, drops: Any) -> None:
    size = LIMIT + 10
    data = plain(b"one", bytes(size), b"two")
    for stream in (io.BytesIO(data), drops(data, 5 << 20)):
        found, (bad,) = read(stream, PLAIN, "example")
        assert [one.message for one in found] == [b"one", b"", b"two"]
        assert [one.number for one in found] == [0, 1, 2]
        assert (bad.reason, bad.offset, bad.bytes) == ("size", 11, size + 8)
    found, bads = read(io.BytesIO(data), PLAIN, "examplebatch")
    assert [len(one.message) for one in found] == [3, size, 3]
    assert not bads


def test_memory_never_written_to(read: Read) -> None:
    data = plain(b"one") + u64(0xFEFEFEFE) + plain(b"two")
    found, (bad,) = read(io.BytesIO(data), PLAIN, "example")
    assert (bad.reason, bad.offset, bad.bytes, bad.record) == ("deadbeef", 11, 19, 1)
    assert len(found) == 2


def test_empty_records_are_passed_over(read: Read) -> None:
    data = plain(b"one", b"", b"two", b"")
    found, bads = read(io.BytesIO(data), PLAIN, "example")
    assert [(one.number, one.offset, one.message) for one in found] == [
        (0, 0, b"one"),
        (1, 11, b""),
        (2, 19, b"two"),
        (3, 30, b""),
    ]
    assert [(bad.reason, bad.bytes) for bad in bads] == [("empty", 8), ("empty", 8)]


def test_a_sort_id_over_its_limit_takes_the_rest(read: Read) -> None:
    good = u64(1) + b"7" + plain(b"one")
    for size in (65_537, 2**31, 2**63, 2**64 - 1):
        data = good + u64(size) + bytes(40)
        found, (bad,) = read(io.BytesIO(data), Framing(), "example")
        assert (bad.reason, bad.offset, bad.bytes) == ("sort_id", 20, 48)
    largest = u64(65_536) + bytes(65_536) + plain(b"one")
    (found,), _ = read(io.BytesIO(largest), Framing(), "example")
    assert found.sort_id == bytes(65_536)


def test_a_stream_without_sort_ids_is_not_read_as_one_with_them(read: Read, golden: Any) -> None:
    """It would lose every second record without a word."""
    data = golden("mono_example_plain.pb")
    for kind in ("example", "examplebatch", "instance"):
        (found,), (bad,) = read(io.BytesIO(data), Framing(), kind)
        assert (bad.reason, bad.offset, bad.bytes) == ("sort_id", 0, len(data))
        assert "its sort_id is itself an example" in bad.detail
        assert "framing none" in bad.detail
        assert found.number == 0


def test_a_stream_whose_framing_changes_is_told_where_it_does(read: Read, example: Make) -> None:
    messages = [example(number) for number in range(6)]
    first = frame_records(records_of_messages(messages[:3]), Framing(), "example").tobytes()
    data = first + plain(*messages[3:])
    found, (bad,) = read(io.BytesIO(data), Framing(), "example")
    assert [one.message for one in found] == [*messages[:3], b""]
    assert (bad.reason, bad.offset, bad.bytes) == ("sort_id", len(first), len(data) - len(first))
    assert bad.detail.endswith("; from here on it reads with framing none")
    assert bad.record == 3


def test_a_change_of_framing_is_told_of_what_lies_behind_the_block(example: Make) -> None:
    """What the rest reads as is seen in more of the stream than the bytes that are at hand."""
    large = Example()
    for number in range(3_000):
        large.named_feature.add(name=f"feature {number} of many").feature.int64_value = 1
    first = frame_records(records_of_messages([example(1)]), Framing(), "example").tobytes()
    stream = io.BytesIO(first + plain(large.SerializeToString(), example(2)))
    *_, bad = RecordReader(stream, "it", Framing(), "example", block=1)
    assert isinstance(bad, Bad)
    assert (bad.reason, bad.offset) == ("sort_id", len(first))
    assert bad.detail.endswith("; from here on it reads with framing none")


@pytest.mark.parametrize("stated", FRAMINGS, ids=str)
@pytest.mark.parametrize("real", FRAMINGS, ids=str)
def test_another_framing_is_named(real: Framing, stated: Framing, example: Make) -> None:
    """Unless its bytes are those of the stated one: parts that are zero say nothing."""
    messages = [example(number) for number in range(20)]
    data = frame_records(records_of_messages(messages), real, "example").tobytes()
    first = next(iter(RecordReader(io.BytesIO(data), "it", stated, "example")))
    if data == frame_records(records_of_messages(messages), stated, "example").tobytes():
        assert isinstance(first, Records)
        assert len(first) == 20
        return
    assert isinstance(first, Bad)
    named = Framing.parse(first.detail.rpartition("framing ")[2])
    assert frame_records(records_of_messages(messages), named, "example").tobytes() == data


def test_another_kind_is_named(example: Make) -> None:
    data = frame_records(
        records_of_messages([example(1), example(2)]), Framing(), "example"
    ).tobytes()
    with pytest.raises(
        SourceError, match=r"of kind example, not examplebatch .*set `source` to example\)"
    ):
        list(RecordReader(io.BytesIO(data), "it", Framing(), "examplebatch"))
    reader = RecordReader(io.BytesIO(data), "it", Framing(), "example")
    assert list(reader)
    assert reader.advice() == ""
    (bad, *_) = RecordReader(io.BytesIO(data[8:]), "it", Framing(), "examplebatch")
    assert isinstance(bad, Bad)
    (bad,) = itertools.islice(RecordReader(io.BytesIO(data), "it", PLAIN, "examplebatch"), 1)
    assert isinstance(bad, Bad)
    assert bad.detail.endswith("it reads as example records with framing sort_id")


def test_a_batch_is_not_read_as_an_example(golden: Any) -> None:
    """It parses as one: its features would be merged without a word."""
    for kind in ("example", "instance"):
        stream = io.BytesIO(golden("mono_examplebatch_sortid.pb"))
        with pytest.raises(
            SourceError, match=r"of kind examplebatch, .*set `source` to examplebatch\)"
        ):
            list(RecordReader(stream, "it", Framing(), kind))


def test_sort_ids_taken_for_messages_are_advised_on(example: Make) -> None:
    """Framing finds records there: what looks into them can ask."""
    frames = [u64(2) + b"u7" + plain(example(number)) for number in range(4)]
    reader = RecordReader(io.BytesIO(b"".join(frames)), "it", PLAIN, "example")
    first = next(iter(reader))
    assert isinstance(first, Records)
    assert first.message(0) == b"u7"
    assert reader.advice() == "it reads with framing sort_id"


def test_records_stay_as_they_are(example: Make) -> None:
    """Blocks that come later do not change what was given before."""
    messages = [example(number) for number in range(500)]
    parts = list(RecordReader(io.BytesIO(plain(*messages)), "it", PLAIN, "example", 300))
    assert len(parts) > 10
    assert [part.message(at) for part in parts for at in range(len(part))] == messages
    assert not any(part.data.flags.writeable for part in parts)
    assert all(part.start.dtype == np.int64 for part in parts)


def test_what_comes_before_the_end_of_cut_off_data_is_given(example: Make) -> None:
    noise = random.Random(1).randbytes(400_000)
    data = plain(*(noise[at : at + 100] for at in range(0, len(noise), 100)))
    for compression in ("gzip", "zstd", "zlib", "snappy"):
        packing = new_compressor(compression)
        packed = packing.compress(data) + packing.flush()
        raw = io.BytesIO(packed[: len(packed) * 3 // 4])
        stream = open_decompressed(raw, "it", compression)
        reader = iter(RecordReader(stream, "it", PLAIN, "example"))
        first = next(reader)
        assert isinstance(first, Records)
        assert len(first) > 1_000
        with pytest.raises(SourceError, match=rf"it: cut off: the {compression} data ends after"):
            next(reader)


def test_a_stream_that_fails_says_so_after_what_it_gave() -> None:
    class Fails(io.RawIOBase):
        def __init__(self, parts: list[bytes]) -> None:
            self.parts = parts

        def read(self, size: int = -1) -> bytes:
            if not self.parts:
                raise OSError("the disk is gone")
            return self.parts.pop(0)

    reader = iter(RecordReader(Fails([plain(b"one"), b"\1\0"]), "it", PLAIN, "example"))
    first = next(reader)
    assert isinstance(first, Records)
    assert first.message(0) == b"one"
    with pytest.raises(SourceError, match="it: cannot read it: the disk is gone"):
        next(reader)


def test_a_stream_without_bytes_yet_is_no_end() -> None:
    class Waits(io.RawIOBase):
        def read(self, size: int = -1) -> None:
            return None

    with pytest.raises(SourceError, match="open it in blocking mode"):
        list(RecordReader(Waits(), "it", PLAIN, "example"))


def mutated(data: bytes, chance: random.Random) -> bytes:
    """A stream with some of its bytes changed, cut out, doubled or put in."""
    out = bytearray(data)
    for _ in range(chance.randint(0, 3)):
        at = chance.randint(0, len(out))
        span = chance.choice((1, 1, 2, 8, 20))
        what = chance.randrange(5)
        if what == 0:
            out[at : at + 1] = bytes([chance.choice((0, 1, 255, chance.randrange(256)))])
        elif what == 1:
            del out[at : at + span]
        elif what == 2:
            out[at:at] = out[at : at + span]
        elif what == 3:
            sizes = (0, 1, 30, 0xFEFEFEFE, 2**63, 2**64 - 1, LIMIT, LIMIT + 1, 65_537)
            out[at : at + 8] = u64(chance.choice(sizes))
        else:
            out[at:at] = chance.randbytes(span)
    return bytes(out)


@pytest.mark.more
def test_mutated_streams_are_read_as_by_hand(read: Read, oracle: Any, drops: Any) -> None:
    """Two thousand of them: the same records, and every byte in one of them or in a Bad."""
    chance = random.Random(20)
    bad_ones = 0
    for _ in range(2_000):
        framing = chance.choice(FRAMINGS)
        messages = [chance.randbytes(chance.choice((1, 3, 9, 40))) for _ in range(5)]
        data = mutated(
            frame_records(records_of_messages(messages), framing, "example").tobytes(), chance
        )
        stream = chance.choice((io.BytesIO(data), drops(data, chance.choice((1, 7, 64)))))
        found, bads = read(stream, framing, "example", chance.choice((1, 9, 50, 1_000)))
        assert found == oracle(data, framing, "example")
        ends = [*(one.offset for one in found), len(data)]
        assert ends[0] == 0
        lengths = (end - begin for begin, end in itertools.pairwise(ends))
        assert all(one.bytes in (0, length) for one, length in zip(found, lengths, strict=True))
        assert all(bad.reason in REASONS for bad in bads)
        bad_ones += bool(bads)
    assert bad_ones > 1_000
