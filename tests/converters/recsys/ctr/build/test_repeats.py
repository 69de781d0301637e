"""Repeated sample ids, counted in parts."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.converters.recsys.ctr.build.row_collector import Repeats


def repeated(path: Path, parts: list[list[int]], size: int) -> int | None:
    repeats = Repeats(path)
    for part in parts:
        repeats.add(np.array(part, np.uint64))
    return repeats.count(size)


@given(
    st.lists(st.lists(st.integers(0, 9) | st.integers(0, 2**64 - 1), max_size=20), max_size=5),
    st.integers(1, 30),
)
def test_like_a_counter(
    tmp_path_factory: pytest.TempPathFactory, parts: list[list[int]], size: int
) -> None:
    path = tmp_path_factory.mktemp("repeats") / "samples"
    ids = Counter(one for part in parts for one in part)
    expected = ids.total() - len(ids) if ids else None
    assert repeated(path, parts, size) == expected


def test_no_ids(tmp_path: Path) -> None:
    assert repeated(tmp_path / "samples", [], 4) is None
    assert repeated(tmp_path / "samples", [[], []], 4) is None


def test_closing_twice(tmp_path: Path) -> None:
    repeats = Repeats(tmp_path / "samples")
    repeats.add(np.array([1, 1], np.uint64))
    repeats.close()
    repeats.close()
    assert repeats.count() == 1
