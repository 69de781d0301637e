"""Runs that are broken off, and what the next one makes of them: the bytes of an undisturbed run.

What a `kill -9` leaves is taken here as a copy of the hidden folder, at every word of a run about
how far it is; real kills: `test_kills.py`.
"""

import gzip
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from ingot.converters.errors import ConversionError, OutputError, SourceError
from ingot.converters.output.identity import CommittedResult
from ingot.converters.progress import Progress
from ingot.converters.recsys.criteo.preprocess.inputs import find_inputs
from ingot.converters.recsys.criteo.preprocess.job import preprocess
from ingot.converters.recsys.criteo.preprocess.settings import Settings
from tests.converters.recsys.criteo.lines import content
from tests.converters.recsys.criteo.preprocessed import hidden, run, tree, write
from tests.converters.recsys.criteo.reference import Raw

PARTS = [
    Raw("day_0", "day_0", content(60, 1) + b"short\n"),
    Raw("day_1", "day_1", content(40, 2, values=90)),
    Raw("day_2", "day_2", content(50, 3)),
]
SMALL: dict[str, Any] = {"block_bytes": 4000, "bucket_rows": 40, "threads": 2}
WAYS: list[dict[str, Any]] = [
    {"encode": "stream"},
    {"encode": "columns", "frequency_threshold": 3},
    {"encode": "stream", "frequency_threshold": 3, "dense": "min2", "compat": "torchrec_f32"},
    {"encode": "stream", "shuffle_seed": None},
]


class Stopped(BaseException):
    """Ends a run from within."""


class Scene:
    """Raw files, and runs over them into one destination."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder, self.settings = folder, {**SMALL, **settings}
        self.raw, self.out = write(folder / "raw", PARTS), folder / "out"

    def run(
        self, watch: Callable[[Progress], None] | None = None, **options: Any
    ) -> CommittedResult:
        settings = Settings(**self.settings)
        inputs = find_inputs(str(self.raw))
        return preprocess(inputs, settings, self.out, progress=watch, **options)

    def fresh(self) -> dict[str, bytes]:
        """What an undisturbed run makes of the files as they are."""
        run(self.raw, self.folder / "fresh", **self.settings)
        made = tree(self.folder / "fresh")
        shutil.rmtree(self.folder / "fresh")
        return made

    def stop(self, after: int) -> int:
        """Break a run off when it has spoken so many times; gives how many there were."""
        count = 0

        def watch(_: Progress) -> None:
            nonlocal count
            count += 1
            if count == after:
                raise Stopped

        with suppress(Stopped):
            self.run(watch)
        return count

    def stop_when_read(self, parts: int) -> None:
        """Break a run off when so many parts are read."""

        def watch(told: Progress) -> None:
            if (told.stage, told.shards_done) == ("read", parts):
                raise Stopped

        with pytest.raises(Stopped):
            self.run(watch)

    def check(self, expected: dict[str, bytes]) -> CommittedResult:
        """The next run makes it whole, and leaves nothing else."""
        done = self.run()
        assert tree(self.out) == expected
        assert hidden(self.folder) == []
        return done

    @property
    def stage(self) -> Path:
        (name,) = hidden(self.folder)
        return self.folder / name

    def done(self) -> dict[str, int]:
        """The pieces that a broken-off run has finished, and when it did."""
        pieces = (self.stage / "work").glob("[!.]*/piece.json")
        return {path.parent.name: path.stat().st_mtime_ns for path in pieces}


@pytest.mark.more
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_killed_whenever_it_speaks(quick: Path, way: dict[str, Any]) -> None:
    scene = Scene(quick, **way, threads=1)
    expected = scene.fresh()
    copies: list[Path] = []
    spoken = 0

    def keep(told: Progress) -> None:
        nonlocal spoken
        spoken += 1
        if told.stage == "columns" and threading.current_thread() is threading.main_thread():
            return  # the thread of the columns changes files meanwhile
        if spoken % (13 if way["encode"] == "columns" else 4) == 0:
            copies.append(quick / f"copy-{spoken}")
            stage = next(path for path in quick.iterdir() if "ingot-stage" in path.name)
            shutil.copytree(stage, copies[-1] / stage.name)

    scene.run(keep)
    assert spoken > 40
    for copy in copies:
        shutil.rmtree(scene.out, ignore_errors=True)
        (stage,) = copy.iterdir()
        stage.rename(quick / stage.name)
        scene.check(expected)


@pytest.mark.parametrize("encode", ["stream", "columns"])
def test_a_step_that_is_done_is_not_done_again(quick: Path, encode: str) -> None:
    scene = Scene(quick, encode=encode)
    expected = scene.fresh()
    times: dict[str, int] = {}
    for after in range(7, 400, 7):  # finished steps are told of too
        if scene.stop(after) < after:
            break
        before, times = times, scene.done()
        for step, time in before.items():
            assert times[step] == time, step
    assert {"read-000000", "read-000002", "columns-000000"} <= times.keys()
    assert tree(scene.out) == expected
    assert hidden(quick) == []


def test_it_says_what_it_found(quick: Path) -> None:
    scene = Scene(quick)
    expected = scene.fresh()
    scene.stop_when_read(1)
    done = scene.check(expected)
    assert done.notes == ("resumed a run that had read 1 of 3 files",)
    assert "resumed" in json.loads((scene.out / "run.json").read_bytes())["notes"][0]


@pytest.mark.more
def test_anew_where_that_is_wanted(quick: Path) -> None:
    scene = Scene(quick)
    expected = scene.fresh()
    scene.stop(20)
    assert "read-000002" in scene.done()
    read: list[Progress] = []
    assert scene.run(read.append, resume=False).notes == ()
    assert read[-1].rows
    assert sum(one.stage == "read" and one.shards_done == 0 for one in read) > 3
    assert tree(scene.out) == expected
    assert hidden(quick) == []


@pytest.mark.parametrize("encode", ["stream", "columns"])
def test_a_later_day_is_cut_off(quick: Path, encode: str) -> None:
    """Earlier days are kept; the file is mended, and the run goes on."""
    scene = Scene(quick, encode=encode)
    (scene.raw / "day_2").unlink()
    whole = gzip.compress(PARTS[2].content)
    (scene.raw / "day_2.gz").write_bytes(whole)
    expected = scene.fresh()
    (scene.raw / "day_2.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SourceError, match=r"day_2\.gz.*cut off"):
        scene.run()
    before = scene.done()
    assert set(before) == {"read-000000", "read-000001"}
    (scene.raw / "day_2.gz").write_bytes(whole)
    done = scene.check(expected)
    assert done.notes == ("resumed a run that had read 2 of 3 files",)


@pytest.mark.more
@pytest.mark.parametrize("encode", ["stream", "columns"])
@pytest.mark.parametrize("changed", [0, 1, 2])
@pytest.mark.parametrize("stopped", [11, 30])
def test_a_file_has_changed_meanwhile(quick: Path, encode: str, changed: int, stopped: int) -> None:
    scene = Scene(quick, encode=encode)
    scene.stop(stopped)
    (scene.raw / f"day_{changed}").write_bytes(content(45, 9, values=70))
    scene.check(scene.fresh())


@pytest.mark.more
@pytest.mark.parametrize("encode", ["stream", "columns"])
@pytest.mark.parametrize("again", [3, 5, 8])
def test_a_file_changes_and_the_next_run_is_broken_off_too(
    quick: Path, encode: str, again: int
) -> None:
    """What was read of the other files still counts, ids of the former one do not."""
    scene = Scene(quick, encode=encode)
    scene.stop_when_read(3)
    (scene.raw / "day_0").write_bytes(content(45, 9, values=70))
    scene.stop(again)
    scene.check(scene.fresh())


@pytest.mark.parametrize("encode", ["stream", "columns"])
def test_a_file_changes_and_changes_back(quick: Path, encode: str) -> None:
    scene = Scene(quick, encode=encode)
    expected, path = scene.fresh(), scene.raw / "day_1"
    before = path.stat()
    scene.stop_when_read(3)
    path.write_bytes(content(45, 9, values=70))
    scene.stop(2)
    path.write_bytes(PARTS[1].content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    scene.check(expected)


@pytest.mark.more
def test_a_file_changes_while_it_is_read(quick: Path) -> None:
    scene = Scene(quick)

    def watch(told: Progress) -> None:
        if told.shards_done == 1:
            with (scene.raw / "day_0").open("ab") as file:
                file.write(content(1, 8))

    with pytest.raises(SourceError, match="day_0: changed while it was read"):
        scene.run(watch)
    assert not scene.out.exists()
    scene.check(scene.fresh())


def test_a_file_goes_while_it_is_read(quick: Path) -> None:
    scene = Scene(quick)
    with pytest.raises(SourceError, match="holds no day_0"):
        scene.run(lambda told: told.rows and (scene.raw / "day_0").unlink(missing_ok=True))
    assert not scene.out.exists()


def test_values_that_lost_their_end(quick: Path) -> None:
    """As a power cut may leave it: better an error than wrong values."""
    scene = Scene(quick)
    expected = scene.fresh()
    scene.stop_when_read(1)
    raw = scene.stage / "work/read-000000/cat_3.raw"
    os.truncate(raw, raw.stat().st_size - 4)
    with pytest.raises(OutputError, match="without `resume`"):
        scene.run()
    scene.run(resume=False)
    assert tree(scene.out) == expected


def test_killed_while_the_manifest_is_written(quick: Path) -> None:
    """What is cut then lies among the files of the result."""
    scene = Scene(quick)
    expected = scene.fresh()
    scene.stop_when_read(3)
    (scene.stage / "result/.manifest.json.0123abcd.tmp").write_bytes(b"{")
    scene.check(expected)


def test_a_strict_run_meets_a_reject(quick: Path) -> None:
    scene = Scene(quick, strict=True)
    with pytest.raises(ConversionError, match=r"day_0: line 61: .* 1 columns: short"):
        scene.run()
    assert hidden(quick) == []
    (scene.raw / "day_0").write_bytes(content(60, 1))
    scene.check(scene.fresh())


def test_a_strict_run_after_one_that_was_not(quick: Path) -> None:
    """A result with rejects is none that a strict run would have made."""
    scene = Scene(quick)
    scene.run()
    scene.settings["strict"] = True
    with pytest.raises(OutputError, match="rejected"):
        scene.run()
    assert Scene(quick).run().already_done


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """The system takes no more bytes a file, as if the disk were full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.more
@pytest.mark.parametrize("encode", ["stream", "columns"])
def test_no_room_on_the_disk(quick: Path, encode: str) -> None:
    """Of 60 and 40 rows in two buckets; files of some sizes cannot be written whole."""
    scene = Scene(quick, encode=encode)
    expected = scene.fresh()
    for size in (100, 1000, 2500, 4000, 6000):
        with largest_file(size), pytest.raises(OutputError, match="cannot be written") as failed:
            scene.run()
        assert failed.value.where == str(scene.out)
    scene.check(expected)


def test_another_run_is_writing(quick: Path) -> None:
    scene = Scene(quick)

    def watch(_: Progress) -> None:
        with pytest.raises(OutputError, match="another run is writing there"):
            Scene(quick).run()
        raise Stopped

    with pytest.raises(Stopped):
        scene.run(watch)
    scene.check(scene.fresh())


def test_another_thread_or_way_takes_up_what_is_there(quick: Path) -> None:
    scene = Scene(quick)
    expected = scene.fresh()
    scene.stop_when_read(2)
    scene.settings |= {"threads": 1, "block_bytes": 1 << 20, "bucket_rows": 7}
    assert "resumed" in scene.check(expected).notes[0]


def test_named_from_another_folder(quick: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(quick)
    expected = scene.fresh()
    scene.stop_when_read(2)
    monkeypatch.chdir(quick)
    scene.raw = Path("raw")
    assert "resumed" in scene.check(expected).notes[0]


@pytest.mark.more
def test_other_choices_begin_anew(quick: Path) -> None:
    scene = Scene(quick)
    scene.stop(40)
    scene.settings["dense"] = "min2"
    done = scene.check(scene.fresh())
    assert done.notes == ("removed 1 unfinished run(s) with other inputs or options",)


@pytest.mark.more
def test_an_interrupt(quick: Path) -> None:
    """As with Ctrl-C: it ends quickly, keeps what is done, and leaves no lock."""
    scene = Scene(quick)
    expected = scene.fresh()

    def watch(told: Progress) -> None:
        if told.shards_done == 1:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        scene.run(watch)
    assert "read-000000" in scene.done()
    scene.check(expected)


STOPPING = Path(__file__).with_name("stopping.py")


@pytest.mark.more
def test_killed_between_two_changes(quick: Path) -> None:
    """Real kills, a few; all of them: `test_kills.py`."""
    scene = Scene(quick)
    expected = scene.fresh()
    words = [sys.executable, str(STOPPING), str(scene.raw), str(scene.out)]
    for step in (45, 400):
        command = [*words, json.dumps(scene.settings), str(step)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr
        scene.check(expected)
        shutil.rmtree(scene.out)
