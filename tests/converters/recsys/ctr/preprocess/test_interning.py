"""Codes of tokens: what a dict would give, however many tokens there are and however they come."""

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingot.converters.recsys.ctr.preprocess.vocabulary import Interner

TOKENS = st.lists(st.tuples(st.binary(max_size=3), st.integers(0, 2)), max_size=60)


def added(interner: Interner, tokens: list[tuple[bytes, int]]) -> list[int]:
    """The codes of (text, field) pairs that stand one after the other."""
    text = np.frombuffer(b"".join(one for one, _ in tokens), np.uint8)
    lengths = np.array([len(one) for one, _ in tokens], np.int32)
    starts = np.cumsum(lengths, dtype=np.int64) - lengths
    fields = np.array([field for _, field in tokens], np.int16)
    codes: list[int] = interner.add(text, starts, lengths, fields).tolist()
    return codes


@settings(max_examples=100)
@given(st.lists(TOKENS, max_size=5))
def test_like_a_dict(parts: list[list[tuple[bytes, int]]]) -> None:
    interner, known = Interner(), dict[tuple[bytes, int], int]()
    for part in parts:
        assert added(interner, part) == [known.setdefault(one, len(known)) for one in part]
    assert interner.count == len(known)
    assert interner.texts().to_pylist() == [text for text, _ in known]
    assert interner.owners().tolist() == [field for _, field in known]


def check_many(count: int, steps: int) -> Interner:
    """Numbers, each twice, in a random order."""
    order = np.random.default_rng(5).permutation(np.repeat(np.arange(count), 2))
    interner, known = Interner(), dict[bytes, int]()
    for part in np.array_split(order, steps):
        tokens = [b"%d" % number for number in part.tolist()]
        codes = interner.add_array(pa.array(tokens, pa.large_binary()))
        assert codes.tolist() == [known.setdefault(one, len(known)) for one in tokens]
    assert interner.count == count
    assert interner.texts().to_pylist() == list(known)
    return interner


def test_growth() -> None:
    check_many(70_000, 3)


@pytest.mark.long
def test_much_growth() -> None:
    check_many(3_000_000, 11)


def test_one_token_very_often_takes_no_room() -> None:
    text = np.frombuffer(b"token", np.uint8)
    count = 2_000_000
    starts, lengths = np.zeros(count, np.int64), np.full(count, 5, np.int32)
    interner = Interner()
    interner.add(text, starts[:1], lengths[:1])
    tracemalloc.start()
    codes = interner.add(text, starts, lengths)
    largest = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert interner.count == 1
    assert not codes.any()
    # 4 bytes for each code, 2 for its field, and room for one step of tokens that are all new.
    assert largest < count * 6 + (8 << 20)


def test_memory_of_a_token() -> None:
    count = 400_000
    text = (np.arange(count, dtype=np.int64)[:, None] // 10 ** np.arange(10) % 10).astype(np.uint8)
    starts, lengths = np.arange(count, dtype=np.int64) * 10, np.full(count, 10, np.int32)
    fields = np.zeros(count, np.int16)
    interner = Interner()
    tracemalloc.start()
    for first in range(0, count, 50_000):
        some = slice(first, first + 50_000)
        interner.add(text.ravel(), starts[some], lengths[some], fields[some])
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert interner.count == count
    # Arrays double, so that up to half of each is free; 10 bytes are the token's own.
    assert held / count < 2 * (30 + 10)


def test_slices_of_arrays() -> None:
    interner = Interner()
    tokens = pa.array([b"a", b"bc", b"", b"bc", b"a"], pa.large_binary())
    assert interner.add_array(tokens[1:4]).tolist() == [0, 1, 0]
    assert interner.add_array(tokens).tolist() == [2, 0, 1, 0, 2]
    assert interner.add_array(tokens[:0]).tolist() == []
    assert interner.add_array(tokens, 1).tolist() == [3, 4, 5, 4, 3]


def test_nothing() -> None:
    interner = Interner()
    assert added(interner, []) == []
    assert interner.texts().to_pylist() == []
    assert added(interner, [(b"", 0), (b"", 1), (b"", 0)]) == [0, 1, 0]
