"""Figures of lengths are those of all lengths sorted, however they come in stretches."""

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.converters.megatron.inspect.inspection import LengthBin, measure_lengths

LENGTH = st.one_of(st.integers(0, 20), st.integers(0, 2**17), st.integers(0, 2**40))


@given(lengths=st.lists(LENGTH, min_size=1, max_size=50), stretch=st.integers(1, 20))
def test_figures_are_those_of_the_sorted_lengths(lengths: list[int], stretch: int) -> None:
    array = np.array(lengths)
    found = measure_lengths(lambda: (array[i : i + stretch] for i in range(0, len(array), stretch)))
    ordered = sorted(lengths)
    ranked = [ordered[max(1, math.ceil(len(ordered) * p / 100)) - 1] for p in (50, 90, 99)]
    assert [found.median, found.p90, found.p99] == ranked
    assert (found.count, found.least, found.most) == (len(ordered), ordered[0], ordered[-1])
    assert found.mean == pytest.approx(statistics.fmean(ordered))
    for one in found.bins:
        assert one.count == sum(one.low <= n <= one.high for n in ordered)
    assert sum(one.count for one in found.bins) == len(ordered)


def test_bins_are_powers_of_two_without_holes() -> None:
    found = measure_lengths(lambda: iter([np.array([0, 9]), np.array([1, 1], np.int32)]))
    assert found.bins == (
        LengthBin(low=0, high=0, count=1),
        LengthBin(low=1, high=1, count=2),
        LengthBin(low=2, high=3, count=0),
        LengthBin(low=4, high=7, count=0),
        LengthBin(low=8, high=15, count=1),
    )


def test_nothing_has_no_figures() -> None:
    found = measure_lengths(lambda: iter(()))
    assert (found.count, found.most, found.median, found.mean, found.bins) == (0, 0, 0, 0.0, ())
