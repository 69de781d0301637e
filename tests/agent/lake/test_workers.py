"""Work spread over processes that may die."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ingot.converters.output.worker_pool import TaskFailure, Workers


def lives(pid):
    return Path(f"/proc/{pid}").exists()


def square(number):
    if number == 13:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 14:
        raise ValueError("not this one")
    return number * number


def test_every_task_has_its_result_whatever_becomes_of_others():
    with Workers(2) as workers:
        found = dict(workers.spread(square, [1, 13, 2, 14, 3, 13 * 2]))
        assert dict(workers.spread(square, [5, 6, 7])) == {5: 25, 6: 36, 7: 49}
    well = {task: result for task, result in found.items() if not isinstance(result, TaskFailure)}
    assert well == {1: 1, 2: 4, 3: 9, 26: 676}
    assert found[13].why.startswith("the worker process ended by signal 9")
    assert found[14].why == "internal error: ValueError: not this one"
    assert "in square" in found[14].details


def test_without_tasks_there_is_nothing():
    with Workers(3) as workers:
        assert list(workers.spread(square, [])) == []


def pid_and_wait(number):
    if number == 1:
        time.sleep(600)
    return os.getpid()


def test_whoever_stops_listening_ends_the_processes():
    results = Workers(1).spread(pid_and_wait, [0, 1])
    _, pid = next(results)
    results.close()
    assert not lives(pid)


SCRIPT = """
from tests.agent.lake.test_workers import pid_and_wait
from ingot.converters.output.worker_pool import Workers
if __name__ == "__main__":
    for _, pid in Workers(1).spread(pid_and_wait, [0, 1]):
        print(pid, flush=True)
"""


@pytest.mark.more
def test_no_orphan_outlives_a_killed_run(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])}
    run = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, env=environment)
    with run:
        assert run.stdout is not None
        pid = int(run.stdout.readline())
        run.kill()
    deadline = time.monotonic() + 30
    while lives(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not lives(pid)
