"""Ranks that are given, found or refused, and arguments that are whole numbers."""

from typing import Any

import numpy as np
import pytest

from ingot.converters.recsys.training.environment import check_integer, resolve_rank


def test_given_ranks_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "8")
    assert resolve_rank(3, 4) == (3, 4)
    for rank, world_size in ((1, None), (None, 2), (2, 2), (-1, 2), (0, 0)):
        with pytest.raises(ValueError, match="rank"):
            resolve_rank(rank, world_size)


@pytest.mark.more
def test_ranks_are_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="torch is not installed: make test-more brings it")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="init_process_group first, or give rank and world_size"):
        resolve_rank(None, None)
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert resolve_rank(None, None) == (0, 1)


def test_whole_numbers() -> None:
    given: Any = np.int64(3)
    assert check_integer("n", given, 1) == 3
    assert type(check_integer("n", given, 1)) is int


@pytest.mark.parametrize(
    ("value", "most", "said"),
    [
        (True, 9, "n: True is not an integer"),
        (2.0, 9, "n: 2.0 is not an integer"),
        (0, 9, "n: 0 is not between 1 and 9"),
        (1 << 64, (1 << 64) - 1, r"is not between 1 and 2\*\*64 - 1"),
        (1 << 32, (1 << 32) - 1, r"is not between 1 and 2\*\*32 - 1"),
    ],
)
def test_what_is_no_whole_number(value: Any, most: int, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        check_integer("n", value, 1, most)
