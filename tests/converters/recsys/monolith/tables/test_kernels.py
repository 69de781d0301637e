"""Compiled loops against plain Python."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ingot.converters.recsys.monolith.tables.schema import PARTS, count_occurrences, number_keys
from ingot.converters.recsys.monolith.wire.row_assembly import (
    Spans,
    join_spans,
    spans_of_numbers,
    spans_of_varints,
)

PIECES = st.lists(st.binary(max_size=200), max_size=6)


def _spans(pieces: list[bytes]) -> Spans:
    stop = np.cumsum([len(one) for one in pieces], dtype=np.int64)
    start = stop - np.array([len(one) for one in pieces], np.int64)
    return Spans(data=np.frombuffer(b"".join(pieces), np.uint8), start=start, stop=stop)


def _pieces(spans: Spans) -> list[bytes]:
    return [
        spans.data[start:stop].tobytes()
        for start, stop in zip(spans.start, spans.stop, strict=True)
    ]


def _varint(value: int) -> bytes:
    out, value = b"", value % (1 << 64)
    while value >= 128:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


@given(st.lists(st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=5), max_size=4))
def test_occurrences(rows: list[list[tuple[int, bool]]]) -> None:
    first = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    entries = [entry for row in rows for entry in row]
    names = np.array([name for name, _ in entries], np.int32)
    skipped = np.array([skip for _, skip in entries], np.bool_)
    expected = []
    for row in rows:
        seen: list[int] = []
        for name, skip in row:
            expected.append(0 if skip else seen.count(name))
            seen += [] if skip else [name]
    assert count_occurrences(first, names, skipped, 5).tolist() == expected


@given(st.lists(st.tuples(*[st.integers(-2, 3)] * PARTS), max_size=40), st.integers(0, 40))
def test_keys_are_numbered_as_they_are_first_seen(
    given_keys: list[tuple[int, ...]], cut: int
) -> None:
    parts = np.array(given_keys, np.int64).reshape(-1, PARTS)
    keys, table = np.zeros((64, PARTS), np.int64), np.full(256, -1, np.int32)
    count, found = 0, []
    for stretch in (parts[:cut], parts[cut:]):
        out = np.empty(len(stretch), np.int32)
        skipped = np.zeros(len(stretch), np.bool_)
        count = number_keys(stretch.T.copy(), skipped, keys, count, table, out)
        found += out.tolist()
    order = list(dict.fromkeys(given_keys))
    assert found == [order.index(one) for one in given_keys]
    assert [tuple(one) for one in keys[:count].tolist()] == order


def test_more_keys_than_there_is_room_for() -> None:
    keys, table = np.zeros((2, PARTS), np.int64), np.full(8, -1, np.int32)
    parts = np.arange(3 * PARTS, dtype=np.int64).reshape(PARTS, 3)
    out = np.empty(3, np.int32)
    assert number_keys(parts, np.zeros(3, np.bool_), keys, 0, table, out) == 3


@given(PIECES, st.integers(8, 1000), st.booleans(), st.booleans(), st.data())
def test_fields(
    pieces: list[bytes], tag: int, sized: bool, empty: bool, data: st.DataObject
) -> None:
    which = data.draw(st.lists(st.booleans(), min_size=len(pieces), max_size=len(pieces)))
    found = _spans(pieces).frame_fields(tag, np.array(which, np.bool_), sized=sized, empty=empty)
    assert _pieces(found) == [
        _varint(tag) + (_varint(len(one)) if sized else b"") + one
        if is_given and (one or empty)
        else b""
        for one, is_given in zip(pieces, which, strict=True)
    ]
    start = data.draw(st.integers(0, len(pieces)))
    stop = data.draw(st.integers(start, len(pieces)))
    between = found.join_between(np.array([start], np.int64), np.array([stop], np.int64))
    assert _pieces(between) == [b"".join(_pieces(found)[start:stop])]


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1)))
def test_varints(values: list[int]) -> None:
    assert _pieces(spans_of_varints(np.array(values, np.int64))) == [_varint(one) for one in values]


def test_numbers() -> None:
    assert _pieces(spans_of_numbers(np.array([1, 2], np.uint16))) == [b"\x01\x00", b"\x02\x00"]


@given(st.lists(st.tuples(st.binary(max_size=9), st.binary(max_size=9)), max_size=5))
def test_joined(pairs: list[tuple[bytes, bytes]]) -> None:
    parts = [_spans([pair[at] for pair in pairs]) for at in range(2)]
    assert _pieces(join_spans(parts)) == [one + other for one, other in pairs]
