"""Numbers of values: as a dict gives them, however many there are and however they come."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ingot.converters.recsys.criteo.preprocess.vocabulary import Ids

EXTREMES = [0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32 - 2, 0x80000001, 0xFFFF, 0x10000, 0xFFFF0000]


def uint32(values: object) -> NDArray[np.uint32]:
    return np.array(values, np.uint32)


def counts(ids: Ids) -> list[int]:
    return ids.counts(0, ids.count).tolist()


def check(blocks: list[list[int]], ids: Ids) -> None:
    """Hold a map to a dict."""
    known: dict[int, int] = {}
    for block in blocks:
        before = len(known)
        expected = [known.setdefault(value, 2 + len(known)) for value in block]
        found, fresh = ids.ids(uint32(block))
        assert found.tolist() == expected
        assert fresh.tolist() == list(known)[before:]
        assert ids.count == len(known)
    seen = Counter(value for block in blocks for value in block)
    assert counts(ids) == [seen[value] for value in known]


values = st.one_of(st.sampled_from(EXTREMES), st.integers(0, 2**32 - 1), st.integers(0, 5))


@given(st.lists(st.lists(values, max_size=40), max_size=8), st.sampled_from((1, 2, 5, 1 << 31)))
@settings(max_examples=100)
def test_like_a_dict(blocks: list[list[int]], settled: int) -> None:
    check(blocks, Ids("cat_0", settled=settled))


def test_many_values_over_many_doublings() -> None:
    rng = np.random.default_rng(1)
    drawn = rng.integers(0, 2**32, 400_000, dtype=np.uint32)
    drawn = np.concatenate([drawn, uint32(EXTREMES), drawn[::-7]])
    distinct, first, back = np.unique(drawn, return_index=True, return_inverse=True)
    rank = np.empty(len(distinct), np.int64)
    rank[np.argsort(first)] = np.arange(len(distinct))
    ids = Ids("cat_0")
    pieces = np.array_split(drawn, [1, 700, 717, 718, 50_000, 350_000])
    found = np.concatenate([ids.ids(piece)[0] for piece in pieces])
    assert np.array_equal(found, 2 + rank[back])
    assert ids.count == len(distinct)
    assert np.array_equal(
        ids.counts(0, ids.count), np.bincount(rank[back], minlength=len(distinct))
    )


@pytest.mark.parametrize("step", [1, 1 << 10, 1 << 16, 1 << 20])
def test_values_in_steps(step: int) -> None:
    """As hashes and counters come: neighbours in the last or in the first bits."""
    number = min(20_000, 2**32 // step)
    sequence = (np.arange(number, dtype=np.uint64) * step).astype(np.uint32)
    ids = Ids("cat_0")
    assert np.array_equal(ids.ids(sequence)[0], np.arange(2, 2 + number))
    assert np.array_equal(ids.ids(sequence[::-1].copy())[0], np.arange(1 + number, 1, -1))


def test_values_that_collide() -> None:
    """All of one slot of the first table: found by inverting how values are spread."""

    def spread(value: int) -> int:
        value = ((value ^ (value >> 16)) * 0x85EBCA6B) & 0xFFFFFFFF
        value = ((value ^ (value >> 13)) * 0xC2B2AE35) & 0xFFFFFFFF
        return value ^ (value >> 16)

    same = [value for value in range(300_000) if spread(value) & 1023 == 1023][:250]
    assert len(same) > 200
    check([same, same[::-1], [*same, *EXTREMES]], Ids("cat_0"))


def test_nothing_to_number() -> None:
    ids = Ids("cat_0")
    found, fresh = ids.ids(uint32([]))
    assert (len(found), len(fresh), ids.count) == (0, 0, 0)
    assert counts(ids) == []


def test_values_of_before() -> None:
    ids = Ids("cat_0")
    ids.restore(uint32([7, 0, 2**32 - 1]))
    found, fresh = ids.ids(uint32([0, 5, 7, 5]))
    assert found.tolist() == [3, 5, 2, 5]
    assert fresh.tolist() == [5]
    assert counts(ids) == [1, 1, 0, 2]


def test_many_values_of_before() -> None:
    ids = Ids("cat_0")
    ids.restore(np.arange(5000, dtype=np.uint32)[::-1])
    assert ids.ids(uint32([0, 4999, 5000]))[0].tolist() == [5001, 2, 5002]
    assert ids.counts(0, 1).tolist() == [1]
    assert ids.counts(4999, 5001).tolist() == [1, 1]


def test_new_values_where_none_may_be() -> None:
    ids = Ids("cat_0", grows=False)
    ids.restore(uint32([9, 8]))
    found, fresh = ids.ids(uint32([8, 1, 9, 0, 8]))
    assert found.tolist() == [3, 1, 2, 1, 3]
    assert len(fresh) == 0
    assert (ids.count, ids.unseen, counts(ids)) == (2, 2, [1, 2])


def test_counts_beyond_their_bits() -> None:
    """A count that 32 bits hold only because it is taken out in time; here of two bits' worth."""
    ids, block = Ids("cat_0", settled=10), uint32([1] * 9 + [2])
    for _ in range(500):
        ids.ids(block)
    assert counts(ids) == [4500, 500]
    ids.seal()
    assert ids.counts(1, 2).tolist() == [500]
