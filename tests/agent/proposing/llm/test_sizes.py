"""The ladder of sizes."""

from itertools import pairwise

import pytest

from ingot.agent.proposing.llm.inventory import size_ladder


@pytest.mark.parametrize("small", [True, False])
def test_sizes_go_down(small: bool) -> None:
    sizes = size_ladder(small=small)
    for richer, poorer in pairwise(sizes):
        assert richer.paths >= poorer.paths
        assert richer.facts >= poorer.facts
        assert richer.rows >= poorer.rows
    assert {size.words for size in sizes} == {not small}
    assert sizes[-1].rows == 0
