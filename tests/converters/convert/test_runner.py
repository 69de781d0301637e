"""Runners: order, bounded queue, workers that die, and parents that do."""

import os
import pickle
import signal
import subprocess
import sys
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from ingot.converters.errors import ConversionError
from ingot.converters.output.worker_pool import (
    TaskFailure,
    WorkerDiedError,
    Workers,
    results_in_order,
)


class Lazy:
    """A runner whose work is done only when it is asked to: shows what was submitted."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Future[Any], Any, tuple[Any, ...]]] = []

    def submit(self, work: Any, /, *arguments: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        self.waiting.append((future, work, arguments))
        future.result = lambda timeout=None: work(*arguments)  # type: ignore[method-assign]
        return future


def test_results_come_in_order_and_no_more_than_the_window_is_submitted_ahead() -> None:
    lazy = Lazy()
    results = results_in_order(lazy, str, range(100), window=4)
    assert next(results) == "0"
    assert len(lazy.waiting) == 4
    assert list(results) == [str(n) for n in range(1, 100)]


def test_this_thread_works_too_and_no_result_overtakes_another() -> None:
    lazy, here = Lazy(), list[int]()

    def work_here(number: int) -> str:
        here.append(number)
        if number == 50:
            raise ValueError("the fiftieth")
        return str(number)

    results = results_in_order(lazy, str, range(100), window=4, work_here=work_here)
    found = [next(results) for _ in range(50)]
    assert found == [str(number) for number in range(50)]
    assert (len(lazy.waiting), here[0]) == (4, 4)
    with pytest.raises(ValueError, match="fiftieth"):
        next(results)


@pytest.mark.more
def test_a_pool_gives_results_and_raises_the_first_error_of_the_order() -> None:
    with Workers(2) as pool:
        assert list(results_in_order(pool, abs, [-3, 2, -1], window=8)) == [3, 2, 1]
    with pytest.raises(ValueError, match="'x'"), Workers(2) as pool:
        list(results_in_order(pool, int, ["1", "x", "y"], window=8))


def test_a_worker_that_dies_is_a_conversion_error() -> None:
    with pytest.raises(WorkerDiedError, match="a worker process died") as raised:  # noqa: SIM117
        with Workers(2) as pool:
            list(results_in_order(pool, os._exit, [3], window=8))
    assert isinstance(raised.value, ConversionError)
    for error in (raised.value, pickle.loads(pickle.dumps(raised.value))):
        assert (error.end_text, error.cause) == ("ended by exit status 3", "exit status 3")


def test_a_task_that_cannot_be_sent_is_a_failure_and_ends_no_other() -> None:
    with Workers(2) as pool:
        results = dict(pool.spread(len, [(1, 2), (print, lambda: 1)]))
    assert results.pop((1, 2)) == 2
    (failure,) = results.values()
    assert isinstance(failure, TaskFailure)
    assert "pickle" in failure.why


PARENT = """
import os, sys, time
from ingot.converters.output.worker_pool import Workers
with Workers(2) as pool:
    print(pool.submit(os.getpid).result(), flush=True)
    pool.submit(time.sleep, 60)
    time.sleep(60)
"""


def _alive(process: int) -> bool:
    # A process that has ended may wait as a zombie for somebody to ask how.
    status = Path(f"/proc/{process}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
def test_workers_end_when_their_parent_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        assert _alive(worker)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        deadline = time.monotonic() + 30
        while _alive(worker) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not _alive(worker)
