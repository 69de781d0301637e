"""The most frequent ids and what they cover, against plain counting."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.converters.recsys.criteo.inspect.figures import Frequencies

COUNTS = st.lists(st.integers(0, 12), max_size=60)


def found(counts, top, cuts):
    told = Frequencies(top)
    ids = np.arange(len(counts))
    for some in np.split(ids, cuts):
        values = np.where(some % 3, some * 10, -1)
        told.add(some, np.array(counts, np.int64)[some], values)
    return told


@given(COUNTS, st.integers(0, 9), st.lists(st.integers(0, 60), max_size=4).map(sorted))
def test_they_are_those_of_plain_counting(counts, top, cuts):
    told = found(counts, top, cuts)
    seen = sorted((-count, at) for at, count in enumerate(counts) if count)
    assert (told.ids, told.rows) == (len(seen), sum(counts))
    wanted = [(at, at * 10 if at % 3 else None, -count) for count, at in seen[:top]]
    assert [(one.id, one.value, one.count) for one in told.top()] == wanted
    for number, share in told.coverage():
        assert share == sum(-count for count, _ in seen[:number]) / sum(counts)
    if seen:
        assert told.coverage()[-1] == (len(seen), 1.0)
        assert [number for number, _ in told.coverage()][:-1] == [
            number for number in (1, 2, 5, 10, 20, 50, 100) if number < len(seen)
        ]


def test_nothing_covers_nothing():
    told = Frequencies(3)
    assert (told.top(), told.coverage(), told.ids, told.rows) == ((), (), 0, 0)


@pytest.mark.parametrize("rows", [1, 1000, 1 << 40])
def test_counts_may_be_large(rows):
    told = Frequencies(1)
    told.add(np.array([7]), np.array([rows]))
    assert told.top()[0].count == rows
    assert told.top()[0].raw is None
    assert told.coverage() == ((1, 1.0),)
