"""Data sets spread over processes: one that dies takes its data set with it, and no other.

All of them end when this process does, also when it is killed: each waits for the end of a pipe
that only this process can write to.
"""

import multiprocessing
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, TypeVar, cast

from ingot.converters.runner import start_worker

Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True, slots=True)
class Broken:
    """A task that gave no result, and why: its process died, or ingot made a mistake."""

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
    """Processes that work at one task each, begun when there is something to do.

    Args:
        jobs: how many there are at the most.
    """

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
        self, work: Callable[[Task], Result], tasks: Sequence[Task], *, jobs: int | None = None
    ) -> Iterator[tuple[Task, Result | Broken]]:
        """What `work` makes of every task, as it comes; at most `jobs` at a time.

        Whoever stops listening ends the processes at once.
        """
        pending, done = deque(tasks), False
        try:
            for one in self._needed(min(jobs or self.jobs, len(pending))):
                _give(one, work, pending)
            while busy := [one for one in self._workers if one.task is not None]:
                for ready in wait([one.pipe for one in busy]):
                    worker = next(one for one in busy if one.pipe is ready)
                    task, result = worker.task, _received(worker)
                    if result is None:
                        result, worker = Broken(why=_death(worker)), self._replaced(worker)
                    _give(worker, work, pending)
                    yield task, cast(Result | Broken, result)
            done = True
        finally:
            if not done:
                self.__exit__()

    def _needed(self, count: int) -> list[_Worker]:
        while len(self._workers) < count:
            self._workers.append(_begun())
        return self._workers[:count]

    def _replaced(self, dead: _Worker) -> _Worker:
        dead.end()
        self._workers.remove(dead)
        self._workers.append(_begun())
        return self._workers[-1]


def _begun() -> _Worker:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    reader, lifeline = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(there, reader))
    process.start()
    there.close()  # so that its death ends the pipe
    reader.close()
    return _Worker(process=process, pipe=here, lifeline=lifeline)


def _give(worker: _Worker, work: Callable[[Task], object], pending: deque[Task]) -> None:
    worker.task = pending.popleft() if pending else None
    if worker.task is not None:
        with suppress(OSError):  # that it has died is found out where its answer is waited for
            worker.pipe.send((work, worker.task))


def _received(worker: _Worker) -> object:
    """What a process answers; None where it has died."""
    try:
        return worker.pipe.recv()
    except (EOFError, OSError):
        return None


def _death(worker: _Worker) -> str:
    worker.process.join()
    code = worker.process.exitcode or 0
    how = f"by signal {-code}" if code < 0 else f"with status {code}"
    return f"the process that worked at it ended {how}: is there enough memory?"


def _serve(pipe: Connection, lifeline: Connection) -> None:
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
            pipe.send(Broken(why=said, details=traceback.format_exc()))
        else:
            pipe.send(result)
