"""The cache: the same rows, made once, checked, and left alone by those who make it meanwhile."""

import fcntl
import stat
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from ingot.converters.errors import OutputError, SourceError
from ingot.converters.recsys.ctr import build_dataloader
from ingot.converters.recsys.ctr.loader import stored_rows
from ingot.converters.recsys.ctr.loader.split_files import Split, locate_split
from ingot.converters.recsys.ctr.loader.stored_rows import (
    CachedRows,
    cache_file,
    ensure_cache,
)
from ingot.converters.recsys.training.batch_order import RowSequence, Span
from tests.converters.recsys.ctr.stored import (
    Row,
    assert_same,
    plain_batch,
    rows_of,
    write_split,
)
from tests.converters.recsys.ctr.stored import stored_rows as rows_at

ROWS = rows_of(40)


@pytest.fixture
def split(tmp_path: Path) -> Split:
    return locate_split(write_split(tmp_path / "train", ROWS, files=3, group=6))


def rows_in(split: Split, path: Path, start: int = 0, stop: int | None = None) -> list[Row]:
    sizes = np.array([group.rows for group in split.groups])
    source = CachedRows(split, path, split.features)
    stop = split.rows if stop is None else stop
    return rows_at(source, RowSequence(sizes, np.arange(len(sizes))), start, stop)


@pytest.mark.parametrize("block", [1, 5, 7, 40, 1000])
def test_it_holds_the_rows(split: Split, tmp_path: Path, block: int) -> None:
    path = tmp_path / "cache.arrow"
    stored_rows.write_cache(split, path, block=block)
    assert rows_in(split, path) == ROWS
    assert rows_in(split, path, 4, 15) == ROWS[4:15]


@pytest.mark.more
@pytest.mark.parametrize(("largest", "kind"), [((1 << 32) - 1, np.uint32), (1 << 32, np.int64)])
def test_ids_take_the_room_that_they_need(tmp_path: Path, largest: int, kind: type) -> None:
    rows = [row | {"f0_210_idx": [2, 3]} for row in rows_of(12)]
    for row in rows:
        row |= {
            "f0_508_idx": 7,
            "f1_121_idx": largest,
            "f1_110_14_idx": [5],
            "f1_110_14_val": [0.5],
        }
    split = locate_split(write_split(tmp_path / "train", rows))
    path = ensure_cache(split, tmp_path)
    assert rows_in(split, path) == rows
    (part, *_) = CachedRows(split, path, split.features).parts(Span(group=0, start=0, stop=7))
    assert part[0].cells["f0_210_idx"][0].dtype == kind
    (batch,) = build_dataloader(tmp_path / "train", 12, cache=tmp_path)
    assert_same(batch, plain_batch(rows))


def test_it_is_made_once(split: Split, tmp_path: Path) -> None:
    path = ensure_cache(split, tmp_path / "a" / "b")
    assert path == cache_file(split, tmp_path / "a" / "b")
    made = path.stat()
    assert ensure_cache(split, tmp_path / "a" / "b").stat().st_ino == made.st_ino
    assert stat.S_IMODE(made.st_mode) & 0o044 == 0o044
    assert [one.name for one in path.parent.iterdir() if one.suffix == ".arrow"] == [path.name]


def test_its_rows_are_views_of_the_file(split: Split, tmp_path: Path) -> None:
    path = ensure_cache(split, tmp_path)
    before = pa.total_allocated_bytes()
    source = CachedRows(split, path, split.features)
    (part,) = source.parts(Span(group=0, start=0, stop=6))
    nbytes = sum(values.nbytes for values, _ in part[0].cells.values())
    assert pa.total_allocated_bytes() - before < nbytes // 2


def test_another_build_gets_its_own(split: Split, tmp_path: Path) -> None:
    path = ensure_cache(split, tmp_path)
    other = locate_split(write_split(tmp_path / "train", rows_of(41), files=3, group=6))
    assert ensure_cache(other, tmp_path) != path
    with pytest.raises(SourceError, match="is no longer a cache of this split"):
        rows_in(other, path)


def test_a_damaged_one_is_made_again(split: Split, tmp_path: Path) -> None:
    path = ensure_cache(split, tmp_path)
    path.write_bytes(path.read_bytes()[:-50])
    assert rows_in(split, ensure_cache(split, tmp_path)) == ROWS


def test_damage_behind_the_head_is_told_by_the_file(split: Split, tmp_path: Path) -> None:
    path = ensure_cache(split, tmp_path)
    data = path.read_bytes()
    at = data.index(b"\xff\xff\xff\xff", 20)  # the first batch: its length is negative then
    path.write_bytes(data[: at + 4] + b"\xff\xff\xff\xff" + data[at + 8 :])
    with pytest.raises(SourceError, match=rf"{path.name}: the cache is damaged, delete it"):
        rows_in(split, path)


def test_what_a_killed_process_left_is_removed(split: Split, tmp_path: Path) -> None:
    target = cache_file(split, tmp_path)
    left = tmp_path / f".{target.name}.123.abc"
    left.write_text("half")
    ensure_cache(split, tmp_path)
    assert not left.exists()


@pytest.mark.more
def test_processes_that_make_it_at_the_same_time(split: Split, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    with (
        ProcessPoolExecutor(3, mp_context=get_context("spawn")) as pool,
        cache_file(split, folder).with_suffix(".lock").open("ab") as lock,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)  # all of them come while one is at it
        made = [pool.submit(ensure_cache, split, folder) for _ in range(3)]
        assert not wait(made, timeout=2).done
        fcntl.flock(lock, fcntl.LOCK_UN)
        assert {one.result() for one in made} == {cache_file(split, folder)}
    assert rows_in(split, cache_file(split, folder)) == ROWS
    assert len(list(folder.iterdir())) == 2


def test_a_cache_in_use_may_be_replaced(split: Split, tmp_path: Path) -> None:
    path = ensure_cache(split, tmp_path)
    sizes = np.array([group.rows for group in split.groups])
    sequence = RowSequence(sizes, np.arange(len(sizes)))
    source = CachedRows(split, path, split.features)
    first = rows_at(source, sequence, 0, 5)
    stored_rows.write_cache(split, path)  # as another one does where the storage knows no locks
    assert first == ROWS[:5]
    assert rows_at(source, sequence, 5, 40) == ROWS[5:]


def test_a_folder_that_cannot_be(split: Split, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot be written"):
        ensure_cache(split, tmp_path / "file")


def test_a_source_that_cannot_be_read_leaves_nothing(split: Split, tmp_path: Path) -> None:
    split.files[2].unlink()
    with pytest.raises(SourceError, match="was removed"):
        ensure_cache(split, tmp_path / "cache")
    assert [one.suffix for one in (tmp_path / "cache").iterdir()] == [".lock"]


FULL = """
import resource, sys
from pathlib import Path
from ingot.converters.recsys.ctr.loader.stored_rows import ensure_cache
from ingot.converters.recsys.ctr.loader.split_files import locate_split
from ingot.converters.errors import OutputError
split = locate_split(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
try:
    ensure_cache(split, Path(sys.argv[2]))
except OutputError as error:
    print(error)
"""


@pytest.mark.more
def test_a_disk_that_is_full_leaves_nothing(split: Split, tmp_path: Path) -> None:
    argv = [sys.executable, "-c", FULL, split.where, tmp_path / "cache"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert "cannot be written: File too large (give another folder" in done.stdout
    assert [one.suffix for one in (tmp_path / "cache").iterdir()] == [".lock"]
