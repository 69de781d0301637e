"""SIGTERM at random moments: the job drains and ends with 143, and the same command goes on."""

import os
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ingot.converters import progress
from tests.attack.kills import JOBS, Job, Scene, tree
from tests.conftest import first_more

BY_NAME = {job.name: job for job in JOBS}
LONG_JOBS = [name for name in BY_NAME if name != "export"]  # one small file each
QUICK_JOBS = ("convert, 2 workers", "tokens, 2 processes", "lake", "convert")
TERMINATED = 143
BEFORE = -signal.SIGTERM  # before the job began


def catches_sigterm(pid: int) -> bool:
    """Whether a process has begun what it drains; true where the system does not say."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True
    mask = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(mask.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


def terminate(scene: Scene, grace: str, *more: str) -> int:
    """Send SIGTERM to a run, or as Slurm does to all its processes; the exit code."""
    group = scene.dice.random() < 0.5
    early, wait = scene.dice.random() < 0.1, scene.dice.uniform(0, 0.5) * scene.seconds
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INGOT_GRACE", grace)
        process = scene.start(*more)
    while process.poll() is None and not (early or catches_sigterm(process.pid)):
        time.sleep(0.001)
    end = time.monotonic() + wait
    while process.poll() is None and time.monotonic() < end:
        time.sleep(0.001)
    if process.poll() is None:
        (os.killpg if group else os.kill)(process.pid, signal.SIGTERM)
    code = process.wait(60)
    errors = (scene.folder / "errors").read_text()
    assert code in (0, TERMINATED, BEFORE), (code, errors[-2000:])
    assert "Traceback" not in errors
    if code == TERMINATED:
        (line,) = [one for one in errors.splitlines() if one.startswith("error: ")]
        assert line.startswith("error: terminated: ")
        assert "the same command" in line
    scene._await_processes()
    return code


def check_terminations(job: Job, folder: Path, count: int, seed: int) -> Counter[int]:
    """End `count` runs by SIGTERM, each with its next run; the exit codes."""
    scene = Scene(job, folder, random.Random(f"{job.name}:{seed}"))
    codes: Counter[int] = Counter()
    for _ in range(8 * count):
        grace = scene.dice.choice(("0", "0.2", "20"))
        for more in ((), job.resume)[: scene.dice.choice((1, 2))]:
            codes[terminate(scene, grace, *more)] += 1
        scene.hold_next_run()
        if codes[TERMINATED] >= count:
            return codes
    raise AssertionError(f"{job.name}: {codes}")


@pytest.mark.more
@pytest.mark.parametrize("name", first_more(QUICK_JOBS, 3))
def test_a_terminated_job_goes_on(name: str, tmp_path: Path) -> None:
    check_terminations(BY_NAME[name], tmp_path, 1, seed=1)


@pytest.mark.attack
@pytest.mark.parametrize("name", LONG_JOBS)
def test_terminated_jobs_go_on(name: str, tmp_path: Path) -> None:
    check_terminations(BY_NAME[name], tmp_path, 5, seed=2)


def shards(scene: Scene, *, finished: bool) -> int:
    """Shards in the work folder that are finished, or are being written."""
    names = [one.name for one in scene.folder.glob(".o.ingot-stage-*/work/*") if one.is_dir()]
    return sum(name.startswith(".") != finished for name in names)


@pytest.mark.more
def test_a_shard_that_is_under_way_is_finished_within_the_grace(tmp_path: Path) -> None:
    scene = Scene(BY_NAME["convert, 2 workers"], tmp_path, random.Random(3))
    for _ in range(20):
        process = scene.start()
        while process.poll() is None and not shards(scene, finished=True):
            time.sleep(0.001)
        begun = shards(scene, finished=True) + shards(scene, finished=False)
        process.send_signal(signal.SIGTERM)
        if process.wait(60) == TERMINATED:
            break
    assert process.returncode == TERMINATED
    assert shards(scene, finished=False) == 0
    assert begun <= shards(scene, finished=True) < 8
    scene.hold_next_run()


@pytest.mark.more
def test_a_second_sigterm_ends_at_once(tmp_path: Path) -> None:
    scene = Scene(BY_NAME["convert"], tmp_path, random.Random(4))
    process = scene.start()
    while process.poll() is None and not shards(scene, finished=True):
        time.sleep(0.001)
    process.send_signal(signal.SIGSTOP)  # nothing of the shard is done between the two
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGCONT)
    time.sleep(0.002)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) in (TERMINATED, 0, BEFORE)  # or behind it: what drains may be done
    scene._await_processes()
    scene.run()
    assert tree(scene.out) == scene.whole


@pytest.mark.more
def test_a_wrong_grace_is_an_error(tmp_path: Path) -> None:
    scene_job = BY_NAME["convert"]
    scene_job.prepare(tmp_path)
    for grace in ("soon", "-1", "nan"):
        done = subprocess.run(
            scene_job.command(),
            cwd=tmp_path,
            env={**os.environ, "INGOT_GRACE": grace},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 1, grace
        assert done.stderr == f"error: INGOT_GRACE: takes seconds, not {grace}\n"


def test_what_a_library_makes_of_the_end_is_still_the_end(monkeypatch: Any) -> None:
    monkeypatch.setenv("INGOT_GRACE", "0.05")

    def end() -> None:
        with progress.drain_on_sigterm():
            signal.raise_signal(signal.SIGTERM)
            assert progress.is_stopping()
            assert list(progress.until_stopping([1, 2])) == []
            try:
                time.sleep(5)
            except KeyboardInterrupt as error:
                raise OSError("a callback failed") from error

    with pytest.raises(progress.TerminatedError):
        end()
    assert not progress.is_stopping()
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
