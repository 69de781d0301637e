"""Permutations turned round, rows sorted into buckets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.converters.recsys.criteo.preprocess.shuffle import count_buckets, invert_permutation


@given(st.integers(0, 200).flatmap(lambda n: st.permutations(range(n))))
def test_inverse(permutation: list[int]) -> None:
    places = np.array(permutation, np.uint32)
    invert_permutation(places, np.zeros(len(places) // 8 + 1, np.uint8))
    assert places.tolist() == np.argsort(permutation).tolist()


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_rows_of_buckets(size: int) -> None:
    places = np.random.default_rng(1).permutation(50).astype(np.uint32)[:30]
    counts = np.ones(-(-50 // size), np.int64)
    count_buckets(places, size, counts)
    assert counts.tolist() == (1 + np.bincount(places // size, minlength=len(counts))).tolist()
