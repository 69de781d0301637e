"""Ids modulo the sizes of their tables, as `%` has it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.converters.recsys.criteo.contract import take_modulo

MOST = (1 << 31) - 1


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@given(data=st.data())
def test_results_are_those_of_python(kind: type, data: st.DataObject) -> None:
    limits = np.iinfo(kind)
    some = st.one_of(st.integers(int(limits.min), int(limits.max)), st.integers(-9, 99))
    columns = data.draw(st.lists(st.lists(some, min_size=5, max_size=5), min_size=3, max_size=3))
    sizes = data.draw(st.lists(st.integers(1, MOST) | st.integers(1, 9), min_size=3, max_size=3))
    array = np.array(columns, kind)
    take_modulo(array, sizes)
    wanted = [[one % size for one in row] for row, size in zip(columns, sizes, strict=True)]
    assert array.tolist() == wanted


def test_no_rows() -> None:
    take_modulo(np.empty((3, 0), np.int32), [1, 2, 3])
