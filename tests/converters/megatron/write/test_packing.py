"""Packing: nothing lost or split, deterministic, close to the bound, bounded memory."""

import math
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.converters.errors import ConversionError
from ingot.converters.megatron.documents import ShapedDocuments
from ingot.converters.megatron.write.unit_writer import Packer


def packed(lengths: list[int], size: int, open_packs: int = 32) -> list[ShapedDocuments]:
    """Packs of texts that are told apart by their first id; the mask is 1 on odd positions."""
    packer, packs = Packer(size, open_packs), []
    for number, length in enumerate(lengths):
        ids = np.arange(number, number + length, dtype=np.uint32)
        packs += packer.add(ids, (np.arange(length) % 2).astype(np.uint8))
    return packs + packer.finish()


def parts(values: np.ndarray[Any, Any], pack: ShapedDocuments) -> list[np.ndarray[Any, Any]]:
    """Ids or masks of the texts of a pack."""
    assert pack.sizes.tolist() == [len(pack.lengths)]
    return np.split(values, np.cumsum(pack.lengths)[:-1])


@given(
    lengths=st.lists(st.integers(1, 20), max_size=60),
    size=st.integers(20, 40),
    open_packs=st.integers(1, 5),
)
def test_every_text_is_whole_in_one_pack(lengths: list[int], size: int, open_packs: int) -> None:
    packs = packed(lengths, size, open_packs)
    texts = {}
    for pack in packs:
        assert int(pack.lengths.sum()) == len(pack.tokens) <= size
        assert pack.mask is not None
        assert len(pack.mask) == len(pack.tokens)
        for text, mask in zip(parts(pack.tokens, pack), parts(pack.mask, pack), strict=True):
            assert mask.tolist() == [i % 2 for i in range(len(text))]
            texts[int(text[0])] = text.tolist()
    assert texts == {n: list(range(n, n + length)) for n, length in enumerate(lengths)}
    again = packed(lengths, size, open_packs)
    assert [p.tokens.tolist() for p in again] == [p.tokens.tolist() for p in packs]
    assert sum(len(p.lengths) for p in packs) == len(lengths)


def test_a_text_goes_where_it_leaves_the_least_room() -> None:
    found = [pack.lengths.tolist() for pack in packed([6, 8, 2, 4], 10)]
    assert found == [[8, 2], [6, 4]]


def test_of_equal_places_the_older_pack_is_taken() -> None:
    packs = packed([6, 6, 2], 10)
    assert [pack.lengths.tolist() for pack in packs] == [[6, 2], [6]]


def test_the_fullest_pack_makes_room_for_a_new_one() -> None:
    packer = Packer(10, open_packs=2)
    given_away = [packer.add(np.ones(n, np.uint32)) for n in (7, 8, 9)]
    assert [[pack.lengths.tolist() for pack in packs] for packs in given_away] == [[], [], [[8]]]
    assert [pack.lengths.tolist() for pack in packer.finish()] == [[7], [9]]
    assert packer.finish() == []


def test_a_text_as_long_as_a_pack_may_finish_two() -> None:
    packer = Packer(10, open_packs=1)
    assert packer.add(np.ones(4, np.uint32)) == []
    first, second = packer.add(np.ones(10, np.uint32))
    assert (len(first.tokens), len(second.tokens)) == (4, 10)
    assert second.mask is None


@pytest.mark.parametrize(
    ("median", "sigma", "most", "next_fit_is"), [(300, 1.0, 0.004, 0.10), (500, 1.3, 0.004, 0.15)]
)
def test_real_length_distributions_are_packed_close_to_the_bound(
    median: int, sigma: float, most: float, next_fit_is: float
) -> None:
    drawn = np.random.default_rng(0).lognormal(math.log(median), sigma, 10_000)
    lengths = np.clip(drawn, 1, 4096).astype(int).tolist()
    bound = math.ceil(sum(lengths) / 4096)
    assert len(packed(lengths, 4096)) <= bound * (1 + most) + 32
    assert next_fit(lengths, 4096) >= bound * (1 + next_fit_is)


def next_fit(lengths: list[int], size: int) -> int:
    packs = room = 0
    for length in lengths:
        if length > room:
            packs, room = packs + 1, size
        room -= length
    return packs


def test_memory_is_that_of_the_open_packs() -> None:
    """A text that is a view of a large batch does not keep the batch alive."""
    packer = Packer(1_000, open_packs=4)
    packer.add(np.ones(1, np.uint32))
    tracemalloc.start()
    for _ in range(200):
        batch = np.ones(100_000, np.uint32)
        packer.add(batch[:3])
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 600_000


@pytest.mark.parametrize(
    ("ids", "mask", "problem"),
    [
        (0, None, "a text of 0 tokens"),
        (11, None, "a text of 11 tokens"),
        (3, 2, "a mask of 2 for 3 tokens"),
        (3, 3, "some texts have a mask"),
    ],
)
def test_wrong_texts_are_refused(ids: int, mask: int | None, problem: str) -> None:
    packer = Packer(10)
    packer.add(np.ones(2, np.uint32))
    with pytest.raises(ConversionError, match=problem):
        packer.add(np.ones(ids, np.uint32), None if mask is None else np.ones(mask, np.uint8))
    assert [pack.lengths.tolist() for pack in packer.finish()] == [[2]]


@pytest.mark.parametrize(("size", "open_packs"), [(0, 1), (5, 0)])
def test_a_packer_needs_room(size: int, open_packs: int) -> None:
    with pytest.raises(ConversionError, match="give positive numbers"):
        Packer(size, open_packs)
