"""Positions of groups one behind another, and orders that do not change."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.converters.recsys.training.batch_order import RowSequence, permutation


def test_an_order_is_that_of_its_seeds() -> None:
    assert permutation(8, 1, 2, 0).tolist() == [4, 6, 7, 3, 5, 0, 2, 1]
    assert permutation(8, 1, 2).tolist() != permutation(8, 2, 1).tolist()


@pytest.mark.more
@given(st.lists(st.integers(1, 9), min_size=1, max_size=9), st.data())
def test_spans_cover_positions_in_order(sizes: list[int], data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(sizes))))
    flat = [(group, row) for group in order for row in range(sizes[group])]
    start = data.draw(st.integers(0, len(flat)))
    stop = data.draw(st.integers(start, len(flat)))
    sequence = RowSequence(np.array(sizes), np.array(order))
    spans = sequence.spans(start, stop)
    got = [(span.group, row) for span in spans for row in range(span.start, span.stop)]
    assert got == flat[start:stop]
