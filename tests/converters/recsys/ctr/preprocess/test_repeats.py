"""Repeated sample ids, counted in parts."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.converters.recsys.ctr.preprocess.row_collector import count_repeats


def repeated(folder: Path, parts: list[list[int]], size: int) -> int | None:
    paths = [folder / str(at) for at in range(len(parts))]
    for path, part in zip(paths, parts, strict=True):
        np.array(part, np.uint64).tofile(path)
    return count_repeats(paths, size)


@given(
    st.lists(st.lists(st.integers(0, 9) | st.integers(0, 2**64 - 1), max_size=20), max_size=5),
    st.integers(1, 30),
)
def test_like_a_counter(
    tmp_path_factory: pytest.TempPathFactory, parts: list[list[int]], size: int
) -> None:
    ids = Counter(one for part in parts for one in part)
    expected = ids.total() - len(ids) if ids else None
    assert repeated(tmp_path_factory.mktemp("repeats"), parts, size) == expected


def test_no_ids(tmp_path: Path) -> None:
    assert repeated(tmp_path, [], 4) is None
    assert repeated(tmp_path, [[], []], 4) is None
