"""`--shard I/N` and `ingot merge`: the bytes of one machine, whatever the parts and their order."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ingot.cli.app import app
from ingot.cli.commands.merge import find_commands
from ingot.converters.convert import plan, result
from ingot.converters.output import sharding
from ingot.converters.output.sharding import OTHER_PARTS, JobShard, parse_shard
from tests.conftest import first_more
from tests.scale.jobs import JOBS, RESULT, Job, ingot, program, tree


@pytest.fixture(scope="module", params=JOBS)
def job(request: pytest.FixtureRequest) -> Job:
    return JOBS[request.param]


@pytest.fixture(scope="module")
def made(job: Job, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    """A folder with the input, and what one machine makes of it."""
    folder = tmp_path_factory.mktemp("made")
    job.prepare(folder)
    done = ingot(folder, *job.words)
    assert done.returncode == 0, done.stderr
    result = tree(folder / RESULT)
    assert result
    shutil.rmtree(folder / RESULT)
    return folder, result


@pytest.fixture
def whole(made: tuple[Path, dict[str, bytes]], tmp_path: Path) -> dict[str, bytes]:
    """What one machine makes of the input in the folder."""
    shutil.copytree(made[0], tmp_path, dirs_exist_ok=True)
    return made[1]


def run_parts(job: Job, folder: Path, count: int) -> list[str]:
    said = []
    for _ in range(job.phases):
        for number in reversed(range(count)):
            done = ingot(folder, *job.words, "--shard", f"{number}/{count}")
            assert done.returncode == 5, done.stderr
            said.append(done.stderr)
    return said


@pytest.mark.more
def test_parts_give_the_bytes_of_one_machine(job: Job, tmp_path: Path, whole: dict) -> None:
    said = run_parts(job, tmp_path, 3)
    assert "ingot merge" in said[-1]
    done = ingot(tmp_path, "merge", job.target)
    assert done.returncode == 0, done.stderr
    assert tree(tmp_path / RESULT) == whole
    again = ingot(tmp_path, "merge", job.target)
    assert again.returncode == 0, again.stderr
    left = {path.name for path in tmp_path.iterdir()} - {"src", "m.json", RESULT}
    assert not left


@pytest.mark.more
@pytest.mark.parametrize("job", [name for name in JOBS if name != "lake"], indirect=True)
def test_a_merge_before_all_parts_are_done(job: Job, tmp_path: Path, whole: dict) -> None:
    done = ingot(tmp_path, "merge", job.target)
    assert done.returncode == 1
    assert "has no parts" in done.stderr
    ingot(tmp_path, *job.words, "--shard", "0/2")
    done = ingot(tmp_path, "merge", job.target)
    assert done.returncode == 1
    assert "pieces are not done" in done.stderr
    assert not (tmp_path / RESULT / "manifest.json").exists()
    ingot(tmp_path, *job.words, "--shard", "1/2")
    done = ingot(tmp_path, "merge", job.target)
    assert done.returncode == 0, done.stderr
    assert tree(tmp_path / RESULT) == whole


@pytest.mark.more
@pytest.mark.parametrize("job", ["lake"], indirect=True)
@pytest.mark.parametrize("parts", [1, 3])
def test_the_merge_of_a_lake_does_what_is_left(
    job: Job, tmp_path: Path, whole: dict, parts: int
) -> None:
    done = ingot(tmp_path, "merge", job.target)
    assert done.returncode == 1
    assert "has no parts" in done.stderr
    for number in (0, 1, 1)[:parts]:  # both phases of the second part only
        done = ingot(tmp_path, *job.words, "--shard", f"{number}/2")
        assert done.returncode == 5, done.stderr
    made = len(list((tmp_path / RESULT).glob("sets/*/manifest.json")))
    assert made == {1: 0, 3: 3}[parts]
    done = ingot(tmp_path, "merge", job.target)
    assert done.returncode == 0, done.stderr
    assert f"{6 - made} of them new or changed" in done.stderr
    assert tree(tmp_path / RESULT) == whole


@pytest.mark.more
@pytest.mark.parametrize("job", first_more(["convert", "tokens", "lake"], 2), indirect=True)
def test_parts_at_once_one_of_them_killed(job: Job, tmp_path: Path, whole: dict) -> None:
    def start(number: int) -> "subprocess.Popen[bytes]":
        words = [sys.executable, "-c", program(job.words), *job.words, "--shard", f"{number}/3"]
        quiet = subprocess.DEVNULL
        return subprocess.Popen(words, cwd=tmp_path, stdout=quiet, stderr=quiet)

    parts = [start(number) for number in range(3)]
    time.sleep(0.8)
    parts[1].send_signal(signal.SIGKILL)
    assert [part.wait() for part in parts][::2] == [5, 5]
    run_parts(job, tmp_path, 3)
    done = ingot(tmp_path, "merge", job.target)
    assert done.returncode == 0, done.stderr
    assert tree(tmp_path / RESULT) == whole


def run_here(*words: str) -> tuple[int, str]:
    """Run the command line in this process; its exit code, and what it said."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sharding, "_COMMAND", [*words])
        done = CliRunner().invoke(app, list(words))
    return done.exit_code, done.output


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder where one of two parts of a conversion is done, of five shards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plan, "SHARD_BYTES", 2_000)
    (tmp_path / "src").mkdir()
    for number in range(5):
        rows = [json.dumps({"id": f"{number}-{row}", "text": "t " * 20}) for row in range(60)]
        (tmp_path / f"src/{number}.jsonl").write_text("\n".join([*rows, ""]))
    (tmp_path / "m.json").write_text('{"version": 2, "text": "text", "meta": {}}')
    assert run_here(*CONVERT, "--shard", "0/2")[0] == 5
    return tmp_path


CONVERT = ("convert", "m.json", "src", "--out", "o")
OTHER_JOBS = {
    "records": (("--records", "jsonl"), 'options.records is "parquet" (requested: "jsonl")'),
    "language": (("--language", "en"), 'options.language is not set (requested: "en")'),
    "mapping": ((), 'another mapping; mapping.text is "text" (requested: ["id", "text"])'),
    "more input": ((), 'inputs.files.9.jsonl is not set (requested: {"bytes": 3, '),
    "less input": ((), "(requested: not set)"),
    "changed input": ((), "inputs.files.4.jsonl.bytes is "),
    "version": ((), 'versions.ingot is "0.1.0" (requested: "9.9.9")'),
}


@pytest.mark.more
@pytest.mark.parametrize("name", OTHER_JOBS)
def test_parts_of_another_job_are_refused_and_stay(
    name: str, begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def parts() -> dict[str, bytes]:
        files = [one for one in begun.rglob("*") if one.is_file() and ".ingot-stage-" in str(one)]
        return {one.relative_to(begun).as_posix(): one.read_bytes() for one in files}

    before, (options, differs) = parts(), OTHER_JOBS[name]
    match name:
        case "mapping":
            document = {"version": 2, "text": {"concat": ["id", "text"]}, "meta": {}}
            (begun / "m.json").write_text(json.dumps(document))
        case "more input":
            (begun / "src/9.jsonl").write_text("{}\n")
        case "less input":
            (begun / "src/4.jsonl").unlink()
        case "changed input":
            (begun / "src/4.jsonl").write_text('{"id": "1", "text": "other"}\n')
        case "version":
            monkeypatch.setitem(result.VERSIONS, "ingot", "9.9.9")
    for end in (("--shard", "1/2"), ()):
        code, said = run_here(*CONVERT, *options, *end)
        assert code == 1
        assert f"{begun}/o: {OTHER_PARTS}: " in said
        assert differs in said
        assert "--overwrite" in said
        assert parts() == before


@pytest.mark.more
def test_workers_are_no_difference(begun: Path) -> None:
    assert run_here(*CONVERT, "--workers", "1", "--shard", "1/2")[0] == 5
    assert run_here("merge", "o")[0] == 0
    code, said = run_here("merge", "o")
    assert (code, "nothing to do" in said) == (0, True)


@pytest.mark.more
def test_a_run_of_the_whole_job_takes_over_what_a_part_has_done(begun: Path) -> None:
    assert run_here(*CONVERT)[0] == 0
    assert json.loads((begun / "o/run.json").read_text())["resumed"] is True
    assert {path.name for path in begun.iterdir()} == {"src", "m.json", "o"}


@pytest.mark.more
def test_other_parts_make_way_when_told(begun: Path) -> None:
    english = (*CONVERT, "--language", "en", "--overwrite")
    assert run_here(*english, "--shard", "0/2")[0] == 5
    (stage,) = begun.glob(".o.ingot-stage-*")
    code, said = run_here(*CONVERT)
    assert code == 1
    assert 'options.language is "en" (requested: not set)' in said
    code, said = run_here(*CONVERT, "--overwrite")
    assert code == 0
    assert "removed the parts of another job" in said
    assert not stage.exists()


@pytest.mark.more
def test_an_equal_result_leaves_the_parts_of_another_job(begun: Path) -> None:
    assert run_here(*CONVERT)[0] == 0
    assert run_here(*CONVERT, "--language", "en", "--overwrite", "--shard", "0/2")[0] == 5
    (stage,) = begun.glob(".o.ingot-stage-*")
    code, said = run_here(*CONVERT)
    assert code == 0
    assert f"left the parts of another job in {stage}" in said
    assert (stage / "work/command.json").exists()


@pytest.mark.more
def test_a_merge_never_removes_the_parts_of_another_job(begun: Path) -> None:
    """Also where the command of the parts says `--overwrite`, and the input changed in between."""
    words = (*CONVERT, "--language", "en", "--overwrite")
    for number in range(2):
        assert run_here(*words, "--shard", f"{number}/2")[0] == 5
    moved = begun / "src/4.jsonl"
    moved.rename(begun / "4.jsonl")
    code, said = run_here("merge", "o")
    assert code == 1
    assert 'inputs.files.4.jsonl is {"bytes": ' in said
    (begun / "4.jsonl").rename(moved)
    assert run_here("merge", "o")[0] == 0


@pytest.mark.more
def test_a_merge_says_how_two_jobs_differ(begun: Path) -> None:
    """As two versions of before left them: now the second job is refused."""
    (first,) = begun.glob(".o.ingot-stage-*")
    first.rename(begun / "aside")
    english = (*CONVERT, "--language", "en")
    assert run_here(*english, "--shard", "0/1")[0] == 5
    (begun / "aside").rename(first)
    code, said = run_here("merge", "o")
    assert code == 1
    assert "2 different jobs have parts there: options.language is " in said
    assert re.search('is ("en" in the first and not set|not set in the first and "en") in', said)
    assert "ingot convert m.json src --out o --language en --shard merge\n" in said
    code, said = run_here(*english, "--shard", "merge")
    assert code == 0
    assert f"left the parts of another job in {first}" in said


@pytest.mark.more
def test_parts_of_a_lake_with_other_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    JOBS["lake"].prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    words = JOBS["lake"].words
    assert run_here(*words, "--shard", "0/2")[0] == 5
    differs = f'{tmp_path}/o: {OTHER_PARTS}: records is "parquet" (requested: "jsonl")'
    for end in (("--shard", "1/2"), (), ("--shard", "merge")):
        code, said = run_here(*words, "--records", "jsonl", *end)
        assert (code, differs in said) == (1, True), said
    assert run_here(*words, "--shard", "1/2", "--jobs", "2")[0] == 5
    assert run_here("merge", "o")[0] == 0
    assert run_here(*words, "--records", "jsonl")[0] == 0  # after the merge it is a lake's change
    assert run_here(*words, "--mode", "pt", "--shard", "0/2")[0] == 5
    assert find_commands("o")[0][0][-4:] == ["--mode", "pt", "--shard", "merge"]


@pytest.mark.more
def test_parts_of_tokens_with_other_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    JOBS["tokens"].prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    words = JOBS["tokens"].words
    assert run_here(*words, "--shard", "0/2")[0] == 5
    unfinished = sorted(path.name for path in (tmp_path / "o").iterdir())
    differs = f"o/t: {OTHER_PARTS}: options.pack is not set (requested: 64)"
    for end in (("--shard", "1/2"), (), ("--resume",), ("--shard", "merge", "--overwrite")):
        code, said = run_here(*words, "--pack", "64", *end)
        assert (code, differs in said) == (1, True), said
    assert sorted(path.name for path in (tmp_path / "o").iterdir()) == unfinished
    assert run_here(*words)[0] == 0  # of the same job: it goes on
    assert run_here(*words, "--overwrite", "--pack", "64", "--shard", "0/2")[0] == 5
    assert run_here(*words, "--pack", "32", "--overwrite")[0] == 0


def test_every_piece_belongs_to_one_part() -> None:
    sizes = [5, 0, 9, 1, 1, 40, 2, 2, 2]
    for count in (1, 2, 3, 7, 20):
        own = [JobShard(number, count).own(sizes) for number in range(count)]
        assert [piece for part in own for piece in part] == list(range(len(sizes)))
    assert [len(JobShard(number, 3).own([10] * 9)) for number in range(3)] == [3, 3, 3]
    assert list(JobShard(0, 2).own([])) == []


@pytest.mark.parametrize("text", ["", "3", "3/3", "-1/2", "1/0", "a/b", "1/2/3"])
def test_what_names_no_part(text: str) -> None:
    with pytest.raises(ValueError, match="I/N"):
        parse_shard(text)
