"""`--shard I/N` and `ingot merge`: the bytes of one machine, whatever the parts and their order."""

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ingot.converters.output.sharding import JobShard, parse_shard
from tests.scale.jobs import JOBS, RESULT, Job, ingot, tree


@pytest.fixture(scope="module", params=JOBS)
def job(request: pytest.FixtureRequest) -> Job:
    return JOBS[request.param]


@pytest.fixture
def whole(job: Job, tmp_path: Path) -> dict[str, bytes]:
    """What one machine makes of the input in the folder; it is cleared away."""
    job.prepare(tmp_path)
    done = ingot(tmp_path, *job.words)
    assert done.returncode == 0, done.stderr
    made = tree(tmp_path / RESULT)
    assert made
    shutil.rmtree(tmp_path / RESULT)
    return made


def run_parts(job: Job, folder: Path, count: int) -> list[str]:
    said = []
    for _ in range(job.phases):
        for number in reversed(range(count)):
            done = ingot(folder, *job.words, "--shard", f"{number}/{count}")
            assert done.returncode == 0, done.stderr
            said.append(done.stderr)
    return said


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
        assert done.returncode == 0, done.stderr
    made = len(list((tmp_path / RESULT).glob("sets/*/manifest.json")))
    assert made == {1: 0, 3: 3}[parts]
    done = ingot(tmp_path, "merge", job.target)
    assert done.returncode == 0, done.stderr
    assert f"{6 - made} of them new or changed" in done.stderr
    assert tree(tmp_path / RESULT) == whole


def test_parts_at_once_one_of_them_killed(job: Job, tmp_path: Path, whole: dict) -> None:
    from tests.scale.jobs import _PROGRAM

    def start(number: int) -> "subprocess.Popen[bytes]":
        words = [sys.executable, "-c", _PROGRAM, *job.words, "--shard", f"{number}/3"]
        quiet = subprocess.DEVNULL
        return subprocess.Popen(words, cwd=tmp_path, stdout=quiet, stderr=quiet)

    parts = [start(number) for number in range(3)]
    time.sleep(0.8)
    parts[1].send_signal(signal.SIGKILL)
    assert [part.wait() for part in parts][::2] == [0, 0]
    run_parts(job, tmp_path, 3)
    done = ingot(tmp_path, "merge", job.target)
    assert done.returncode == 0, done.stderr
    assert tree(tmp_path / RESULT) == whole


def test_parts_of_different_jobs_do_not_mix(tmp_path: Path) -> None:
    job = JOBS["convert"]
    job.prepare(tmp_path)
    ingot(tmp_path, *job.words, "--shard", "0/1")
    ingot(tmp_path, *job.words, "--language", "en", "--shard", "0/1")
    done = ingot(tmp_path, "merge", "o")
    assert done.returncode == 1
    assert "2 different jobs have parts there" in done.stderr
    done = ingot(tmp_path, *job.words, "--language", "en", "--shard", "merge")
    assert done.returncode == 0, done.stderr
    done = ingot(tmp_path, *job.words, "--language", "en")
    assert "nothing to do" in done.stdout + done.stderr


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
