"""Streams in pieces of whole lines."""

import io
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ingot.converters.errors import SourceError
from ingot.converters.recsys.criteo.preprocess.raw_lines import read_blocks
from ingot.converters.rows import read_ahead


@given(st.lists(st.sampled_from([b"a", b"bb", b"\n", b"\r\n", b"\t"]), max_size=60))
def test_whole_lines(pieces: list[bytes]) -> None:
    content = b"".join(pieces)
    for size in (1, 2, 3, 10, 1000):
        found = [one.tobytes() for one in read_blocks(io.BytesIO(content), size, "day_0")]
        assert b"".join(found) == content
        assert all(one.endswith(b"\n") for one in found[:-1])
        assert all(found)


@pytest.mark.parametrize("size", [1 << 10, 1 << 18, 1 << 20])
def test_a_line_without_an_end(size: int) -> None:
    pieces = read_blocks(io.BytesIO(b"short\n" + b"x" * (3 << 20)), size, "day_0")
    with pytest.raises(SourceError, match="day_0: a line is longer than 1 MiB"):
        deque(pieces, maxlen=0)


def test_read_ahead() -> None:
    """One piece ahead of who takes them, and errors come where they are."""

    def pieces() -> Iterator[NDArray[np.uint8]]:
        for number in range(4):
            yield np.full(1, number, np.uint8)
        raise SourceError("day_0", "cut off", "")

    with ThreadPoolExecutor(1) as reader:
        found = read_ahead(pieces(), reader)
        assert [int(next(found)[0]) for _ in range(3)] == [0, 1, 2]
        assert int(next(found)[0]) == 3
        with pytest.raises(SourceError, match="cut off"):
            next(found)
