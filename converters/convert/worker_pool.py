"""Spread work over processes: a runner is anything with `submit`; results come back in order.

Nothing that a job writes depends on which runner it had. `Workers` are for tasks that may crash: a
process that dies fails its own task only.
"""

import multiprocessing
import os
import signal
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, Protocol, TypeVar, cast

from ingot.converters.errors import ConversionError

Task = TypeVar("Task")
Done = TypeVar("Done")


class Runner(Protocol):
    """What a job needs to spread its work; `concurrent.futures.Executor` is one."""

    def submit(self, work: Callable[..., Any], /, *arguments: Any) -> "Future[Any]":  # noqa: ANN401
        """Have `work(*arguments)` done, here and now or elsewhere and later."""


def results_in_order(
    runner: Runner, work: Callable[[Task], Done], tasks: Iterable[Task], *, window: int
) -> Iterator[Done]:
    """The result of `work` for each task, in the order of the tasks.

    At most `window` tasks are under way or waiting to be taken, so memory does not grow with their
    number. The first error in the order of the tasks is raised, whichever happened first.
    """
    waiting: deque[Future[Done]] = deque()
    for task in tasks:
        waiting.append(runner.submit(work, task))
        if len(waiting) >= window:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


@contextmanager
def process_pool(workers: int) -> Iterator[Runner]:
    """A pool of fresh processes that end with the block, and at once if the block fails.

    They also end when this process is killed: each waits for the end of a pipe that only this
    process can write to, so no orphan goes on writing.
    """
    context = multiprocessing.get_context("spawn")
    reader, writer = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(
        workers, mp_context=context, initializer=start_worker, initargs=(reader,)
    )
    try:
        yield pool
    except BaseException as error:
        writer.close()
        pool.shutdown(cancel_futures=True)
        if isinstance(error, BrokenProcessPool):
            hint = "check the free memory; a script that calls ingot needs "
            hint += "`if __name__ == '__main__':` around its work"
            raise ConversionError("workers", "a worker process died", hint) from error
        raise
    else:
        pool.shutdown()
        writer.close()
    finally:
        reader.close()


def start_worker(reader: Connection) -> None:
    """Leave the keyboard to the parent, and end when the parent does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, args=(reader,), daemon=True).start()


def _end_with_parent(reader: Connection) -> None:
    try:
        reader.recv_bytes()
    except (EOFError, OSError):
        # No clean-up on purpose: whoever takes the work up discards what is half written.
        os._exit(1)


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskFailure:
    """A task without a result, and why: its process died, or its work raised an error."""

    why: str
    details: str = ""


@dataclass(kw_only=True, slots=True, eq=False)
class _Worker:
    process: SpawnProcess
    pipe: Connection
    lifeline: Connection
    task: Any = None

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()
        self.lifeline.close()


class Workers:
    """Processes that work at one task each: one that dies takes its task with it, and no other."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._workers: list[_Worker] = []

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._workers:
            one.end()
        self._workers.clear()

    def spread(
        self, work: Callable[[Task], Done], tasks: Sequence[Task], *, jobs: int | None = None
    ) -> Iterator[tuple[Task, Done | TaskFailure]]:
        """Yield every task with its result as it comes; at most `jobs` are under way at a time.

        The processes end at once where the caller stops taking results.
        """
        pending, done = deque(tasks), False
        try:
            for one in self._needed(min(jobs or self.jobs, len(pending))):
                _send_task(one, work, pending)
            while busy := [one for one in self._workers if one.task is not None]:
                for ready in wait([one.pipe for one in busy]):
                    worker = next(one for one in busy if one.pipe is ready)
                    task, result = worker.task, _receive_result(worker)
                    if result is None:
                        result, worker = (
                            TaskFailure(why=_death_reason(worker)),
                            self._replaced(worker),
                        )
                    _send_task(worker, work, pending)
                    yield task, cast(Done | TaskFailure, result)
            done = True
        finally:
            if not done:
                self.__exit__()

    def _needed(self, count: int) -> list[_Worker]:
        while len(self._workers) < count:
            self._workers.append(_launch_worker())
        return self._workers[:count]

    def _replaced(self, dead: _Worker) -> _Worker:
        dead.end()
        self._workers.remove(dead)
        self._workers.append(_launch_worker())
        return self._workers[-1]


def _launch_worker() -> _Worker:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    reader, lifeline = context.Pipe(duplex=False)
    process = context.Process(target=_serve_tasks, args=(there, reader))
    process.start()
    there.close()  # so that its death ends the pipe
    reader.close()
    return _Worker(process=process, pipe=here, lifeline=lifeline)


def _send_task(worker: _Worker, work: Callable[[Task], object], pending: deque[Task]) -> None:
    worker.task = pending.popleft() if pending else None
    if worker.task is not None:
        with suppress(OSError):  # that it has died is found out where its answer is waited for
            worker.pipe.send((work, worker.task))


def _receive_result(worker: _Worker) -> object:
    """What a process answers; None where it has died."""
    try:
        return worker.pipe.recv()
    except (EOFError, OSError):
        return None


def _death_reason(worker: _Worker) -> str:
    worker.process.join()
    code = worker.process.exitcode or 0
    how = f"by signal {-code}" if code < 0 else f"with status {code}"
    return f"the worker process ended {how}: is there enough memory?"


def _serve_tasks(pipe: Connection, lifeline: Connection) -> None:
    start_worker(lifeline)
    while True:
        try:
            work, task = pipe.recv()
        except EOFError:
            return
        try:
            result = work(task)
        except Exception as error:  # noqa: BLE001 - a mistake at one task must not end the others
            said = f"a mistake in ingot: {type(error).__name__}: {error}"
            pipe.send(TaskFailure(why=said, details=traceback.format_exc()))
        else:
            pipe.send(result)
