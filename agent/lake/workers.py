"""Data sets spread over processes: one that dies takes its data set with it, and no other.

All of them end when this process does, also when it is killed: each waits for the end of a pipe
that only this process can write to.
"""

import multiprocessing
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Generic, TypeVar, cast

from ingot.converters.runner import start_worker

Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True, slots=True)
class Broken:
    """A task that gave no result, and why: its process died, or ingot made a mistake."""

    why: str
    details: str = ""


@dataclass(kw_only=True, slots=True)
class _Worker(Generic[Task]):
    process: SpawnProcess
    pipe: Connection
    lifeline: Connection
    task: Task | None = None

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()
        self.lifeline.close()


def spread(
    work: Callable[[Task], Result], tasks: Sequence[Task], jobs: int
) -> Iterator[tuple[Task, Result | Broken]]:
    """What `work` makes of every task, as it comes, in at most so many processes at a time.

    Whoever stops listening ends the processes at once.
    """
    pending, workers = deque(tasks), list[_Worker[Task]]()
    try:
        workers += [_begun(work) for _ in range(min(jobs, len(pending)))]
        for one in workers:
            _give(one, pending)
        while busy := [one for one in workers if one.task is not None]:
            for ready in wait([one.pipe for one in busy]):
                worker = next(one for one in busy if one.pipe is ready)
                task, result = worker.task, _received(worker)
                if result is None:
                    result = Broken(why=_death(worker))
                    worker.end()
                    workers.remove(worker)
                    worker = _begun(work)
                    workers.append(worker)
                _give(worker, pending)
                yield cast(Task, task), cast(Result | Broken, result)
    finally:
        for one in workers:
            one.end()


def _begun(work: Callable[[Task], Result]) -> _Worker[Task]:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    reader, lifeline = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(work, there, reader))
    process.start()
    there.close()  # so that its death ends the pipe
    reader.close()
    return _Worker(process=process, pipe=here, lifeline=lifeline)


def _give(worker: _Worker[Task], pending: deque[Task]) -> None:
    worker.task = pending.popleft() if pending else None
    if worker.task is not None:
        worker.pipe.send(worker.task)


def _received(worker: _Worker[Task]) -> object:
    """What a process answers; None where it has died."""
    try:
        return worker.pipe.recv()
    except (EOFError, OSError):
        return None


def _death(worker: _Worker[Task]) -> str:
    worker.process.join()
    code = worker.process.exitcode or 0
    how = f"by signal {-code}" if code < 0 else f"with status {code}"
    return f"the process that worked at it ended {how}: is there enough memory?"


def _serve(work: Callable[[Task], Result], pipe: Connection, lifeline: Connection) -> None:
    start_worker(lifeline)
    while True:
        try:
            task = pipe.recv()
        except EOFError:
            return
        try:
            result = work(task)
        except Exception as error:  # noqa: BLE001 - a mistake at one data set must not end the others
            said = f"a mistake in ingot: {type(error).__name__}: {error}"
            pipe.send(Broken(why=said, details=traceback.format_exc()))
        else:
            pipe.send(result)
