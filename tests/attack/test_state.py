"""Two runs into one folder; state that is locked, damaged or deleted: clean ends, whole results."""

import os
import random
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.attack.kills import tree
from tests.attack.raw_data import lines, sentence
from tests.conftest import SURE

SEED = int(os.environ.get("ATTACK_SEED", "1"))
RUN = ("run", "raw", "--out", "o", *SURE)
LAKE = ("lake", "run", "lake", "--out", "l", *SURE, "--mapper", "rules", "--jobs", "2")


class Place:
    """A folder with raw data in it, and runs there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("raw", "lake/one", "lake/two"):
            (folder / name).mkdir(parents=True)
            rows = [{"question": f"What is {n}?", "answer": sentence(n)} for n in range(2000)]
            (folder / name / "s.jsonl").write_bytes(lines(rows))

    def start(self, *words: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "ingot", *words],
            cwd=self.folder,
            env={**os.environ, "INGOT_HOME": str(self.folder / "home"), "NO_COLOR": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self, process: "subprocess.Popen[str]", *codes: int) -> int:
        """Wait for a run; it has to end with one of the codes and say why in words."""
        said, errors = process.communicate()
        assert process.returncode in codes, said + errors
        assert "Traceback" not in errors, errors
        return process.returncode

    def run(self, *words: str, codes: tuple[int, ...] = (0,)) -> int:
        return self.end(self.start(*words), *codes)

    def hidden(self) -> list[str]:
        return [path.name for path in self.folder.iterdir() if path.name.startswith(".")]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def _check_two_runs(place: Place, words: tuple[str, ...], out: str, wait: float) -> None:
    first = place.start(*words)
    time.sleep(wait)
    second = place.start(*words)
    assert 0 in {place.end(first, 0, 1), place.end(second, 0, 1)}
    place.run(*words)
    assert place.hidden() == []
    both = tree(place.folder / out)
    shutil.rmtree(place.folder / out)
    place.run(*words)
    assert tree(place.folder / out) == both


@pytest.mark.more
def test_two_runs_into_one_folder(place: Place) -> None:
    _check_two_runs(place, RUN, "o", 0.0)


@pytest.mark.attack
@pytest.mark.parametrize(("words", "out"), [(RUN, "o"), (LAKE, "l")], ids=["run", "lake"])
@pytest.mark.parametrize("number", range(4))
def test_two_runs_into_one_folder_at_random_moments(
    place: Place, words: tuple[str, ...], out: str, number: int
) -> None:
    _check_two_runs(place, words, out, random.Random(f"{SEED}:{number}").uniform(0.0, 1.5))


def _write(content: bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(content) and None


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:2000])


def _make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _make_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/nonexistent/x")


def _fill_with_other_tables(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as base:
        base.executescript("create table checkpoints(a); create table writes(b);")
    base.close()


DAMAGES = {
    "noise": _write(random.Random(1).randbytes(9000)),
    "text": _write(b"hello " * 300),
    "nothing": _write(b""),
    "cut": _cut,
    "folder": _make_folder,
    "dangling link": _make_link,
    "other tables": _fill_with_other_tables,
}


def sets(folder: Path) -> list[dict[str, bytes] | None]:
    """The results; a lake's page and catalog tell that a mapping is an approved one now."""
    return [tree(folder / name) for name in ("o", "l/sets", "l/mappings")]


@pytest.mark.attack
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(
    ("words", "state"), [(RUN, "home/runs.sqlite"), (LAKE, "l/.ingot-lake/state.sqlite")]
)
def test_damaged_state_is_told_and_what_was_deleted_is_made_anew(
    place: Place, words: tuple[str, ...], state: str, damage: str
) -> None:
    place.run(*words)
    whole = sets(place.folder)
    path = place.folder / state
    DAMAGES[damage](path)
    shutil.rmtree(place.folder / "o", ignore_errors=True)
    place.run(*words, codes=(0, 1))
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)
    place.run(*words)
    assert sets(place.folder) == whole


@pytest.mark.attack
def test_locked_state_is_waited_for_or_told(place: Place) -> None:
    place.run(*RUN)
    shutil.rmtree(place.folder / "o")
    base = sqlite3.connect(place.folder / "home/runs.sqlite", isolation_level=None)
    base.execute("begin exclusive")
    place.run(*RUN, codes=(0, 1))
    base.execute("rollback")
    base.close()
    place.run(*RUN)


@pytest.mark.attack
@pytest.mark.parametrize("number", range(4))
def test_state_that_is_deleted_while_a_run_goes_on(place: Place, number: int) -> None:
    place.run(*RUN)
    whole = tree(place.folder / "o")
    shutil.rmtree(place.folder / "o")
    process = place.start(*RUN)
    time.sleep(random.Random(f"{SEED}:{number}").uniform(0.1, 1.5))
    shutil.rmtree(place.folder / "home", ignore_errors=True)
    place.end(process, 0, 1)
    place.run(*RUN)
    assert tree(place.folder / "o") == whole
