"""What LineIds say, against protobuf's objects."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.converters.recsys.monolith import line_ids
from ingot.converters.recsys.monolith.record_index import Rows, records_of_messages
from ingot.converters.recsys.monolith.wire.row_index import index_examples
from ingot.schemas.monolith.example_pb2 import Example
from ingot.schemas.monolith.line_id_pb2 import LineId
from tests.converters.recsys.monolith.made import line_ids as made


def _rows(lines: list[bytes | None]) -> Rows:
    examples = [
        Example() if line is None else Example(line_id=LineId.FromString(line)) for line in lines
    ]
    rows, bad = index_examples(records_of_messages([one.SerializeToString() for one in examples]))
    assert not bad
    return rows


def _verbatim(lines: list[bytes]) -> Rows:
    """Rows whose LineIds are these bytes."""
    records = records_of_messages([b"\xa2\x06" + bytes([len(line)]) + line for line in lines])
    rows, bad = index_examples(records)
    assert not bad
    return rows


def _good(line: LineId, name: str) -> str | None:
    """A text field if it is given and UTF-8; protobuf gives bytes where it is not."""
    value = getattr(line, name)
    return value if line.HasField(name) and isinstance(value, str) else None


def _check(line: LineId | None, found: line_ids.LineIds, at: int) -> None:
    assert found.present[at] == (line is not None)
    line = LineId() if line is None else line
    for name, values in found.numbers.items():
        assert found.given[name][at] == line.HasField(name), name
        expected = getattr(line, name) if line.HasField(name) else 0
        assert values[at].tobytes() == values.dtype.type(expected).tobytes(), name
    for name in found.texts:
        text = _good(line, name)
        start, stop = (places[at] for places in found.texts[name])
        read = found.data[start:stop].tobytes().decode()
        assert (read if found.given[name][at] else None) == text
    for name, (first, values) in found.lists.items():
        assert values[first[at] : first[at + 1]].tolist() == list(getattr(line, name))
    rest = found.rest[found.rest_first[at] : found.rest_first[at + 1]].tobytes()
    left = LineId.FromString(line.SerializeToString())
    for name in line_ids.FIELDS:
        if name not in found.texts or isinstance(getattr(line, name), str):
            left.ClearField(name)
    assert LineId.FromString(rest).SerializeToString() == left.SerializeToString()
    lacks = not all(line.HasField(name) for name in line_ids.MANDATORY)
    assert line_ids.find_incomplete(found)[at] == lacks


@given(st.lists(st.one_of(st.none(), made()), max_size=5))
def test_as_protobuf_reads_them(lines: list[LineId | None]) -> None:
    found = line_ids.decode_line_ids(
        _rows([None if line is None else line.SerializeToString() for line in lines])
    )
    for at, line in enumerate(lines):
        _check(line, found, at)


@pytest.mark.parametrize(
    "content",
    [
        b"\x18\x01\x18\x02",  # said twice: the last one counts
        b"\x30\x07\x32\x02\x08\x09\x30\x0a",  # not packed, packed, not packed
        b"\x1a\x01\x00\x18\x03",  # a known number of another wire type
        b"\x18\x83\x80\x00",  # written longer than needed
        b"\xa8\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # emit_type -1
        b"\xa8\x01\xff\xff\xff\xff\x8f\x01",  # an int32 of more bits: the low ones
        b"\xb8\x05\x80\x02",  # a bool of 256
        b"\x2a\x01a\x2a\x01\xff",  # the text that counts is no UTF-8
        b"\x2a\x01\xff\x2a\x01a",  # only one that does not
        b"\x5b\x18\x05\x5c\x18\x07",  # a group, with what is no req_time in it
        b"\x9a\x80\x00\x01a\x18\x07",  # a long tag
        b"\x82\xf1\x04\x01x",  # a large field number
    ],
)
def test_unusual_ones(content: bytes) -> None:
    found = line_ids.decode_line_ids(_verbatim([content, b"\x18\x05"]))
    _check(LineId.FromString(content), found, 0)
    _check(LineId(req_time=5), found, 1)


@given(st.lists(st.tuples(st.one_of(st.none(), made()), st.booleans()), max_size=5))
def test_another_sample_rate(chosen: list[tuple[LineId | None, bool]]) -> None:
    lines = [None if line is None else line.SerializeToString() for line, _ in chosen]
    rows = _rows(lines)
    where = np.array([which for _, which in chosen], np.bool_)
    rates = np.arange(len(chosen), dtype=np.float32) / 8
    rated = line_ids.with_sample_rate(rows, rates, where)
    for at, (line, which) in enumerate(chosen):
        if not which:
            assert rated.line_id(at) == rows.line_id(at)
            continue
        expected = LineId() if line is None else LineId.FromString(line.SerializeToString())
        expected.sample_rate = at / 8
        found = rated.line_id(at)
        assert found is not None
        assert LineId.FromString(found).SerializeToString() == expected.SerializeToString()
        assert found.endswith(b"\xdd\x01" + np.float32(at / 8).tobytes())


def test_the_rest_of_a_line_stays_as_it_was() -> None:
    rows = _verbatim([b"\x18\x83\x00\xdd\x01\x00\x00\x80\x3f\xd8\x01\x05\x10\x07"])
    rated = line_ids.with_sample_rate(rows, np.array([0.5], np.float32), np.array([True]))
    tail = b"\xdd\x01\x00\x00\x00\x3f"
    assert rated.line_id(0) == b"\x18\x83\x00\xd8\x01\x05\x10\x07" + tail


def test_no_rows() -> None:
    found = line_ids.decode_line_ids(_rows([]))
    assert len(found.present) == 0
    assert all(len(first) == 1 for first, _ in found.lists.values())
