"""A folder appears whole or not at all: what crashes leave, which destinations are taken."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ingot.converters.errors import ConversionError, OutputError, SourceError
from ingot.converters.output import commit
from ingot.converters.output.commit import (
    FinishedResult,
    StagedResult,
    check_destination,
    exchange_folders,
    find_finished,
    replace_folder,
    stage,
)
from ingot.converters.output.files import encode_json, write_file

KEY = "0123456789abcdef0123"


def manifest(text: str) -> dict:
    size = len(text.encode())
    return {"versions": {"ingot": "1"}, "files": [{"path": "data/a.txt", "bytes": size}]}


def fill(staged: StagedResult, text: str) -> dict:
    (staged.result / "data").mkdir(exist_ok=True)
    (staged.result / "data/a.txt").write_text(text)
    return manifest(text)


def run(out: Path, text: str = "one", *, key: str = KEY, overwrite: bool = False) -> StagedResult:
    def difference(there: FinishedResult) -> str | None:
        return None if (there.folder / "data/a.txt").read_text() == text else "another text"

    with stage(out, key=key, difference=difference, overwrite=overwrite) as staged:
        if staged.done is None:
            staged.commit(fill(staged, text), {"seconds": 1})
    return staged


def tree(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text() for path in files}


def content(out: Path) -> str:
    return (out / "data/a.txt").read_text()


def test_a_commit_leaves_the_result_and_nothing_else(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    run(out)
    assert [p.name for p in out.parent.iterdir()] == ["out"]
    assert tree(out).keys() == {"data/a.txt", "manifest.json", "run.json"}
    found = find_finished(out)
    assert found is not None
    assert (found.manifest, found.run) == (manifest("one"), {"seconds": 1})


def test_nothing_is_visible_before_the_commit(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with stage(out, key=KEY, difference=lambda _: "all") as staged:
        fill(staged, "one")
        assert not out.exists()
        assert all(p.name.startswith(".out.ingot-") for p in tmp_path.iterdir())


def test_an_equal_result_is_done_with_and_without_overwrite(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(out)
    before = out.stat().st_ino
    for overwrite in (False, True):
        staged = run(out, overwrite=overwrite)
        assert staged.done is not None
        assert out.stat().st_ino == before
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_another_result_needs_overwrite(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(out)
    with pytest.raises(OutputError, match=r"holds another result: another text .*`overwrite`"):
        run(out, "two")
    assert content(out) == "one"
    run(out, "two", overwrite=True)
    assert content(out) == "two"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_a_damaged_result_is_not_finished(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(out)
    (out / "data/a.txt").write_text("o")
    assert find_finished(out) is None
    with pytest.raises(OutputError, match="damaged"):
        run(out)
    run(out, overwrite=True)
    assert content(out) == "one"


@pytest.mark.parametrize("overwrite", [False, True])
def test_foreign_files_are_never_replaced(tmp_path: Path, overwrite: bool) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("three years")
    (out / "manifest.json").write_text('{"name": "a browser extension"}')
    with pytest.raises(OutputError, match="did not write"):
        run(out, overwrite=overwrite)
    assert (out / "thesis.txt").read_text() == "three years"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_a_file_is_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(OutputError, match="is a file"):
        run(tmp_path / "out", overwrite=True)


def test_an_empty_folder_and_a_link_to_one_are_free(tmp_path: Path) -> None:
    real = tmp_path / "elsewhere" / "real"
    real.mkdir(parents=True)
    (tmp_path / "link").symlink_to(real)
    run(tmp_path / "link")
    assert content(real) == "one"
    assert (tmp_path / "link").is_symlink()


@pytest.mark.parametrize("error", [SourceError("a", "b"), ConversionError("a", "b")])
def test_after_an_error_of_the_data_nothing_stays(tmp_path: Path, error: Exception) -> None:
    def attempt() -> None:
        with stage(tmp_path / "out", key=KEY, difference=lambda _: "all") as staged:
            (staged.work / "00000").mkdir()
            raise error

    with pytest.raises(type(error)):
        attempt()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("error", [OutputError("a", "disk full"), KeyboardInterrupt()])
def test_after_other_errors_finished_work_serves_the_next_equal_run(
    tmp_path: Path, error: BaseException
) -> None:
    def attempt(work: bool) -> None:
        with stage(tmp_path / "out", key=KEY, difference=lambda _: "all") as staged:
            if work:
                (staged.work / "00000").mkdir()
            raise error

    with pytest.raises(type(error)):
        attempt(work=False)
    assert not list(tmp_path.iterdir())
    with pytest.raises(type(error)):
        attempt(work=True)
    with stage(tmp_path / "out", key=KEY, difference=lambda _: "all") as staged:
        assert staged.resumed
        assert (staged.work / "00000").is_dir()


def test_unfinished_work_of_another_key_is_removed_with_a_note(tmp_path: Path) -> None:
    (tmp_path / ".out.ingot-stage-ffff" / "work" / "00000").mkdir(parents=True)
    (tmp_path / ".out2.ingot-stage-ffff").mkdir()  # of another destination
    staged = run(tmp_path / "out")
    assert any("removed 1 unfinished" in note for note in staged.notes)
    assert {p.name for p in tmp_path.iterdir()} == {"out", ".out2.ingot-stage-ffff"}


class TestCrashWhileReplacing:
    """The states between the renames of a replacement; the next run goes on from each."""

    def prepare(self, tmp_path: Path) -> Path:
        out = tmp_path / "out"
        run(out)
        ready = tmp_path / f".out.ingot-stage-{KEY[:16]}" / "result"
        (ready.parent / "work").mkdir(parents=True)
        run(tmp_path / "new", "two")
        (tmp_path / "new").rename(ready)
        return out

    def test_before_the_first_rename(self, tmp_path: Path) -> None:
        out = self.prepare(tmp_path)
        assert run(out).done is not None
        assert content(out) == "one"

    def test_between_the_renames(self, tmp_path: Path) -> None:
        out = self.prepare(tmp_path)
        out.rename(tmp_path / ".out.ingot-old")
        staged = run(out, "two")
        assert staged.done is not None
        assert any("crash" in note for note in staged.notes)
        assert [p.name for p in tmp_path.iterdir()] == ["out"]
        assert content(out) == "two"

    def test_between_the_renames_with_a_new_result_that_is_not_whole(self, tmp_path: Path) -> None:
        out = self.prepare(tmp_path)
        out.rename(tmp_path / ".out.ingot-old")
        (tmp_path / f".out.ingot-stage-{KEY[:16]}" / "result" / "data/a.txt").unlink()
        assert run(out).done is not None
        assert content(out) == "one"

    def test_before_the_old_one_was_deleted(self, tmp_path: Path) -> None:
        out = self.prepare(tmp_path)
        out.rename(tmp_path / ".out.ingot-old")
        (tmp_path / f".out.ingot-stage-{KEY[:16]}" / "result").rename(out)
        (tmp_path / ".out.ingot-trash-1").mkdir()
        assert run(out, "two").done is not None
        assert [p.name for p in tmp_path.iterdir()] == ["out"]

    def test_foreign_files_have_come_in_between(self, tmp_path: Path) -> None:
        out = self.prepare(tmp_path)
        out.rename(tmp_path / ".out.ingot-old")
        out.mkdir()
        (out / "thesis.txt").write_text("three years")
        with pytest.raises(OutputError, match="did not write"):
            run(out, "two", overwrite=True)
        assert content(tmp_path / ".out.ingot-old") == "one"


def test_a_failed_rename_puts_the_old_result_back(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(out)
    with stage(out, key=KEY, difference=lambda _: "all", overwrite=True) as staged:
        new = fill(staged, "two")
        # The operating system refuses to rename a folder by its `..`.
        gone = StagedResult(out=staged.out, work=staged.work, result=staged.result / "data" / "..")
        with pytest.raises(OutputError):
            gone.commit(new, {})
        assert content(out) == "one"
        assert not (tmp_path / ".out.ingot-old").exists()


HOLD = """
import sys, time
from pathlib import Path
from ingot.converters.output.commit import stage
with stage(Path(sys.argv[1]), key="0" * 20, difference=lambda _: "all"):
    print("ready", flush=True)
    time.sleep(60)
"""


def test_two_runs_into_one_destination_do_not_mix_and_a_dead_one_frees_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path / "out")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        with pytest.raises(OutputError, match=f"another run is writing there .process {other.pid}"):
            run(tmp_path / "out")
        other.kill()
    run(tmp_path / "out")
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("out", "problem"),
    [
        ("/proc/ingot/out", "cannot be written"),
        ("{tmp}/file/out", r"cannot be written.*a part of the path is a file"),
        ("{tmp}/" + "n" * 255, r"cannot be written.*shorter"),
    ],
)
def test_destinations_that_cannot_be(tmp_path: Path, out: str, problem: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=problem):
        run(Path(out.format(tmp=tmp_path)))
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_parent_that_may_not_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(OutputError, match="that you may write to"):
        run(tmp_path / "out")


FULL = """
import resource, signal, sys
from pathlib import Path
from ingot.converters.output.commit import stage
from ingot.converters.errors import OutputError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with stage(Path(sys.argv[1]), key="0" * 20, difference=lambda _: "all", overwrite=True) as staged:
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))
    manifest = {"versions": {"ingot": "1"}, "files": [], "long": "x" * 1000}
    try:
        staged.commit(manifest, {})
    except OutputError as error:
        sys.exit(str(error))
"""


@pytest.mark.more
def test_no_room_for_the_manifest(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(out)
    done = subprocess.run([sys.executable, "-c", FULL, str(out)], capture_output=True, text=True)
    assert done.returncode == 1
    assert os.strerror(errno.EFBIG) in done.stderr
    assert content(out) == "one"
    assert find_finished(out) is not None
    run(out, "two", overwrite=True)
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_file(path, encode_json({"b": "\u4e2d", "a": 1}))
    assert path.read_bytes() == '{\n  "a": 1,\n  "b": "中"\n}\n'.encode()
    with pytest.raises(TypeError):
        write_file(path, "text")  # type: ignore[arg-type]
    assert json.loads(path.read_text())["a"] == 1
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_a_destination_is_seen_to_be_usable_before_anything_costly(tmp_path: Path) -> None:
    check_destination(tmp_path / "new" / "deep")
    check_destination(tmp_path)  # an empty folder
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "notes.txt").write_text("mine")
    with pytest.raises(OutputError, match="did not write"):
        check_destination(foreign)
    with pytest.raises(OutputError, match="is a file"):
        check_destination(foreign / "notes.txt")
    with pytest.raises(OutputError, match="cannot be written"):
        check_destination(foreign / "notes.txt" / "inside")


def test_folders_trade_places(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        (folder / "name").write_text(folder.name)
    assert exchange_folders(one, other) is (sys.platform == "linux")
    if sys.platform == "linux":
        assert ((one / "name").read_text(), (other / "name").read_text()) == ("other", "one")
    assert exchange_folders(one, tmp_path / "missing") is False


@pytest.mark.parametrize("at_once", [True, False])
def test_a_folder_takes_the_place_of_another(at_once, tmp_path: Path, monkeypatch) -> None:
    if not at_once:
        monkeypatch.setattr(commit, "exchange_folders", lambda *_: False)
    new, place, aside = tmp_path / "new", tmp_path / "place", tmp_path / "aside"
    for folder in (new, place):
        folder.mkdir()
        (folder / "name").write_text(folder.name)
    old = replace_folder(new, place, old_path=aside)
    assert ((place / "name").read_text(), (old / "name").read_text()) == ("new", "place")
    with pytest.raises(OSError, match="missing"):
        replace_folder(tmp_path / "missing", place, old_path=tmp_path / "other")
    assert (place / "name").read_text() == "new"


def test_a_link_in_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    (tmp_path / ".out.ingot-lock").symlink_to(tmp_path / "victim")
    with pytest.raises(OutputError, match="symbolic link"):
        run(tmp_path / "out")
    assert (tmp_path / "victim").read_text() == "precious"


@pytest.mark.parametrize("name", [".out.ingot-stage-abc", ".out.ingot-old", ".out.ingot-trash-x"])
def test_folders_of_others_that_are_named_like_unfinished_runs_stay(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "mine.txt").write_text("mine")
    run(tmp_path / "out")
    assert content(tmp_path / "out") == "one"
    assert (tmp_path / name / "mine.txt").read_text() == "mine"


def test_a_link_inside_a_result_is_not_deleted(tmp_path: Path) -> None:
    run(tmp_path / "out")
    (tmp_path / "out/data/link").symlink_to(tmp_path)
    with pytest.raises(OutputError, match="not part of the result, such as data/link"):
        run(tmp_path / "out", "two", overwrite=True)
    assert (tmp_path / "out/data/link").is_symlink()


@pytest.mark.parametrize("part", ["rows", "warnings", "inputs", "tokens"])
def test_a_manifest_of_records_without_a_part_is_a_damaged_result(
    tmp_path: Path, part: str
) -> None:
    counts = {"read": 1, "converted": 1, "written": 1, "rejected": 0, "filtered": 0}
    whole = {"decision": "pt", "rows": counts, "records": counts, "rejects": {}, "options": {}}
    whole |= {"warnings": {"paths": {}, "meta": {}}, "inputs": [], "tokens": None}
    whole |= {"versions": {"ingot": "1"}, "files": []}
    (tmp_path / "manifest.json").write_text(json.dumps(whole))
    assert find_finished(tmp_path) is not None
    if part != "tokens":
        (tmp_path / "manifest.json").write_text(json.dumps({**whole, part: {}}))
        assert find_finished(tmp_path) is None
    (tmp_path / "manifest.json").write_text(json.dumps({k: whole[k] for k in whole if k != part}))
    assert find_finished(tmp_path) is None
