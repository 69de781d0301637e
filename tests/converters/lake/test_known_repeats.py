"""What was found is told again, and looked for again where anything has changed."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ingot.converters.lake import duplicates
from ingot.converters.lake.duplicates import Duplicates, find_duplicates, find_or_recall


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one with every search that is made."""
    made: list[int] = []

    def counted(files: dict[str, Path], drops: Path | None, *, work: Path) -> Duplicates:
        made.append(len(files))
        return find_duplicates(files, drops, work=work)

    monkeypatch.setattr(duplicates, "find_duplicates", counted)
    return made


def hashes(file: Path, *values: int) -> Path:
    np.save(file, np.array([[value] * 16 for value in values], np.uint8).reshape(-1, 16))
    return file


def test_nothing_new_is_not_looked_for(tmp_path: Path, searches: list[int]) -> None:
    files = {"b": hashes(tmp_path / "b.npy", 1, 2, 2), "a": hashes(tmp_path / "a.npy", 2, 3)}
    drops, memory = tmp_path / "drops", tmp_path / "repeats.json"
    first = find_or_recall(files, memory, drops)
    again = find_or_recall(dict(reversed(files.items())), memory, drops)
    assert again == first == find_duplicates(files, drops)
    assert list(again.sets) == ["a", "b"]
    assert searches == [2]


@pytest.mark.parametrize(
    "change",
    [
        lambda at: hashes(at / "a.npy", 2, 4),
        lambda at: os.utime(at / "a.npy", (1, 1)),
        lambda at: (at / "drops/a.npy").unlink(),
        lambda at: (at / "drops/a.npy").write_bytes(b"x"),
        lambda at: (at / "repeats.json").write_text("{}"),
        lambda at: (at / "repeats.json").write_text('{"sets": [["a", {}]]}'),
        lambda at: (at / "repeats.json").unlink(),
    ],
)
def test_what_changed_is_looked_for(
    tmp_path: Path, searches: list[int], change: Callable[[Path], object]
) -> None:
    files = {"a": hashes(tmp_path / "a.npy", 2, 3), "b": hashes(tmp_path / "b.npy", 1, 2, 2)}
    drops, memory = tmp_path / "drops", tmp_path / "repeats.json"
    find_or_recall(files, memory, drops)
    change(tmp_path)
    assert find_or_recall(files, memory, drops) == find_duplicates(files, drops)
    assert searches == [2, 2]


def test_a_set_more_or_less_and_bitmaps_that_were_not_asked_for(
    tmp_path: Path, searches: list[int]
) -> None:
    files = {"a": hashes(tmp_path / "a.npy", 2, 3), "b": hashes(tmp_path / "b.npy", 1, 2, 2)}
    memory, drops = tmp_path / "repeats.json", tmp_path / "drops"
    assert find_or_recall({"a": files["a"]}, memory).drops == {}
    assert find_or_recall(files, memory).sets["b"].across == 1
    assert find_or_recall(files, memory, drops).drops["a"].exists()
    assert find_or_recall(files, memory).drops == {}
    assert find_or_recall({}, memory).sets == {}
    assert searches == [1, 2, 2, 0]
