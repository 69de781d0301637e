"""Where an unfinished data set lies: its lock, what it is compared by, and its names."""

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from ingot.converters.errors import OutputError
from ingot.converters.json_yaml import find_json
from ingot.converters.megatron.write import staging as module
from ingot.converters.megatron.write.staging import Staging, identity_difference, open_staging

IDENTITY = {"version": 2, "options": {"pack": None, "strip": True}, "files": {"b": 1, "a": 2}}


def noted_identity(place: Staging) -> Any:
    """What is being built at a place."""
    noted = find_json(place.prefix.with_name(f"{place.prefix.name}.build.tmp"), own=True)
    return (noted or {}).get("identity")


# Commits a data set over an older one and kills itself at the n-th call that changes a folder.
DRIVER = """
import os, signal, sys
from pathlib import Path
from ingot.converters.megatron.write.staging import open_staging

def hook(event, arguments):
    global left
    if event in ("os.rename", "os.remove"):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

def die_at(count, folder):
    prefix = folder / "a"
    with open_staging(prefix, folder / "tmp") as place:
        if place.finish_commit():
            return
        place.begin({"new": 1})
        kinds = ("bin", "mask", "mask_idx", "rejects", "run", "meta", "idx")
        for kind in kinds:
            place.file(kind).write_text(f"new {kind}")
        global left
        left = count
        sys.addaudithook(hook)
        names = [folder / f"a.{kind}" for kind in kinds]
        stale = [folder / "a.idx", folder / "a.mask_idx", folder / "a.mask", folder / "a.rejects"]
        place.commit([(place.file(kind), to) for kind, to in zip(kinds, names)], stale)

out = Path(sys.argv[1])
for count in range(1, 100):
    folder = out / str(count)
    folder.mkdir()
    for kind in ("bin", "mask", "mask_idx", "rejects", "run", "meta", "idx"):
        (folder / f"a.{kind}").write_text(f"old {kind}")
    child = os.fork()
    if child == 0:
        die_at(count, folder)
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        break
"""


def names(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.more
def test_a_commit_is_finished_wherever_it_was_broken_off(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", DRIVER, str(tmp_path)], check=True)
    kinds = ("bin", "mask", "mask_idx", "rejects", "run", "meta", "idx")
    new = {f"a.{kind}": f"new {kind}" for kind in kinds}
    old = {f"a.{kind}": f"old {kind}" for kind in kinds}
    folders = sorted(tmp_path.iterdir(), key=lambda folder: int(folder.name))
    assert len(folders) > 4 + 7  # at each of the four old files, of the seven names
    for folder in folders:
        left = {name: text for name, text in names(folder).items() if not name.endswith(".tmp")}
        if "a.idx" in left:  # a data set that is there is whole
            assert left in (old, new), folder
        committed = (folder / "a.commit.tmp").exists() or left == new
        assert committed or left == old
        with open_staging(folder / "a", folder / "tmp") as place:
            place.finish_commit()
            if not committed:
                place.clear()
        assert names(folder) == (new if committed else old), folder


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Staging]:
    with open_staging(tmp_path / "out" / "a", None) as held:
        yield held


def test_what_is_built_is_noted_in_the_order_of_its_files(place: Staging) -> None:
    assert noted_identity(place) is None
    place.begin(IDENTITY)
    noted = noted_identity(place)
    assert noted == IDENTITY
    assert noted is not None
    assert list(noted["files"]) == ["b", "a"]
    assert identity_difference(IDENTITY, noted) == ""


@pytest.mark.parametrize("content", [b"", b"\0" * 50, b'{"base": "/x", "iden', b"[]"])
def test_a_note_that_was_broken_off_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.build.tmp").write_bytes(content)
    with open_staging(tmp_path / "a", None) as place:
        assert noted_identity(place) is None
        assert place.base == tmp_path / "a"
    assert list(tmp_path.iterdir()) == []


def test_a_second_build_is_told_and_harms_nothing(
    tmp_path: Path, place: Staging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOCK_SECONDS", 0.0)
    place.begin(IDENTITY)
    for tmp_dir in (None, tmp_path / "elsewhere"):
        with pytest.raises(OutputError, match="another build is writing it"):
            open_staging(place.prefix, tmp_dir).__enter__()
    assert noted_identity(place) == IDENTITY


def test_the_lock_is_waited_for(tmp_path: Path) -> None:
    lock = tmp_path / "a.build.tmp"
    holder = subprocess.Popen(
        ["flock", str(lock), sys.executable, "-c", "input()"],
        stdin=subprocess.PIPE,
    )
    assert holder.stdin is not None
    while not lock.exists():
        os.sched_yield()
    holder.stdin.close()
    with open_staging(tmp_path / "a", None) as place:
        assert noted_identity(place) is None
    holder.wait()


def test_the_lock_file_goes_with_the_lock(tmp_path: Path) -> None:
    with (
        open_staging(tmp_path / "a", None),
        (tmp_path / "a.build.tmp").open() as other,
        pytest.raises(BlockingIOError),
    ):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert list(tmp_path.iterdir()) == []


def test_what_is_unfinished_stays_and_is_cleared_by_a_new_build(tmp_path: Path) -> None:
    mine = ("bin.tmp", "bin-1.tmp", "journal-12.tmp", "merged_bin.tmp", "idx.tmp", "order.tmp")
    foreign = (
        *("a.b.bin.tmp", "a.b.build.tmp", "a.lane-1.bin.tmp", "ab.bin.tmp", "a.bin", "a.idx"),
        *("a.bin.tmp.tmp", "a.x.tmp", "a.bin-x.tmp", "a.bin-.tmp", "a.tmp", "a.bin-٣.tmp"),
    )
    with open_staging(tmp_path / "a", None) as place:
        place.begin(IDENTITY)
        for name in (*(f"a.{kind}" for kind in mine), *foreign):
            (tmp_path / name).touch()
    assert (tmp_path / "a.build.tmp").exists()
    with open_staging(tmp_path / "a", None) as place:
        assert noted_identity(place) == IDENTITY
        place.begin({})
        assert {path.name for path in tmp_path.iterdir()} == {"a.build.tmp", *foreign}
    assert {path.name for path in tmp_path.iterdir()} == set(foreign)


def test_a_folder_for_temporary_files(tmp_path: Path) -> None:
    with open_staging(tmp_path / "out" / "a", tmp_path / "tmp") as place:
        place.begin(IDENTITY)
        place.file("bin").touch()
        assert place.beside == ""
        assert place.base.parent == tmp_path / "tmp"
    with open_staging(tmp_path / "other" / "a", tmp_path / "tmp") as other:
        assert other.base != place.base
        assert noted_identity(other) is None
    # What is unfinished is found where it lies, whatever is said now; a new build goes elsewhere.
    with open_staging(tmp_path / "out" / "a", None) as again:
        assert (noted_identity(again), again.base) == (IDENTITY, place.base)
        again.begin({})
        assert again.base == tmp_path / "out" / "a"
        assert list((tmp_path / "tmp").iterdir()) == []


def test_another_file_system_is_not_used(tmp_path: Path) -> None:
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no other file system")
    folder = memory / f"ingot-{uuid4().hex}"
    try:
        with open_staging(tmp_path / "a", folder) as place:
            assert place.base == tmp_path / "a"
            assert "another file system" in place.beside
        assert list(folder.iterdir()) == []
    finally:
        folder.rmdir()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["..", "/", "out/x.loss_mask"])
def test_prefixes_that_name_no_data_set(tmp_path: Path, name: str) -> None:
    with pytest.raises(OutputError, match=r"names no data set|name for loss masks"):
        open_staging(Path("/") if name == "/" else tmp_path / name, None).__enter__()
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="a part of the path is a file"):
        open_staging(tmp_path / "file" / "a", None).__enter__()
    with pytest.raises(OutputError, match="cannot be written"):
        open_staging(tmp_path / "a", tmp_path / "file").__enter__()
    with open_staging(tmp_path / "a", None):
        pass  # the lock is free


def test_differences_in_words() -> None:
    then = json.loads(json.dumps(IDENTITY))
    now = {**IDENTITY, "options": {"pack": 128, "strip": True}, "files": {"a": 3, "c": 1}}
    assert identity_difference(now, then) == (
        "options.pack is not set (requested: 128); files.a is 2 (requested: 3); "
        "files.c is not set (requested: 1); files.b is 1 (requested: not set)"
    )
    order = {**IDENTITY, "files": {"a": 2, "b": 1}}
    assert identity_difference(order, then) == "the files are in another order"
    many = {f"{number}": number for number in range(9)}
    assert identity_difference(many, {}).endswith("4 is not set (requested: 4) and 4 more")
    assert len(identity_difference({"x": "y" * 500}, {})) < 120
