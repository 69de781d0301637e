"""Compiled loops against plain Python."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ingot.converters.recsys.monolith.record_index import frozen
from ingot.converters.recsys.monolith.tables.keys import KeyParts, count_reordered, number_keys
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


ROWS = st.lists(
    st.lists(st.tuples(*[st.integers(0, 2)] * 4, st.booleans()), max_size=6), max_size=8
)
ROOM = 1000  # keys


def _number_keys(
    rows: list[list[tuple[int, ...]]], keys: NDArray[np.int64], count: int, table: NDArray[np.int32]
) -> tuple[int, list[int]]:
    entries = [entry for row in rows for entry in row]
    first = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    columns = np.array(entries, np.int32).reshape(-1, 5).T.copy()
    parts = KeyParts(*map(frozen, columns[:3]), frozen(columns[3].astype(np.uint8)))
    out, names = np.empty(len(entries), np.int32), frozen(10 + np.arange(3, dtype=np.int64))
    skipped = frozen(columns[4].astype(np.bool_))
    count = number_keys(frozen(first), parts, skipped, names, keys, count, table, out)
    return count, out.tolist()


@given(ROWS, ROWS)
def test_keys_are_numbered_as_they_are_first_seen(
    one: list[list[tuple[int, ...]]], other: list[list[tuple[int, ...]]]
) -> None:
    keys, table = np.zeros((ROOM, 5), np.int64), np.full(4 * ROOM, -1, np.int32)
    count, found, order = 0, [], {}
    expected = []
    for rows in (one, other):
        count, numbers = _number_keys(rows, keys, count, table)
        found += numbers
        for row in rows:
            seen: list[int] = []
            for name, ident, sorted_id, kind, skipped in row:
                if skipped:
                    expected.append(-1)
                    continue
                key = 10 + name, seen.count(name), ident, sorted_id, kind
                expected.append(order.setdefault(key, len(order)))
                seen.append(name)
    assert found == expected
    assert [tuple(key) for key in keys[:count].tolist()] == list(order)


def test_more_keys_than_there_is_room_for() -> None:
    keys, table = np.zeros((2, 5), np.int64), np.full(8, -1, np.int32)
    assert _number_keys([[(0, 0, 0, kind, False) for kind in range(3)]], keys, 0, table)[0] == 3


@given(ROWS)
def test_rows_whose_features_stand_in_another_order(rows: list[list[tuple[int, ...]]]) -> None:
    places = np.array([4, 2, 7], np.int64)
    first = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    numbers = np.array([entry[0] for row in rows for entry in row], np.int32)
    raw = np.array([entry[4] for row in rows for entry in row], np.bool_)
    orders = [[places[entry[0]] for entry in row if not entry[4]] for row in rows]
    expected = sum(order != sorted(order) for order in orders)
    assert count_reordered(frozen(first), frozen(raw), numbers, places) == expected


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
