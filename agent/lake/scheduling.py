"""Data sets spread over processes: one that dies takes its data set with it, and no other.

All of them end when this process does, also when it is killed: each waits for the end of a pipe
that only this process can write to.

In which order data sets get their turn, so that one model answer serves all of a shape.
"""

import multiprocessing
import traceback
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, TypeVar, cast

from ingot.converters.convert.worker_pool import start_worker
from ingot.converters.lake.survey import DataSet

Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskFailure:
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
    """Processes that work at one task each, begun when there is something to do."""

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
    ) -> Iterator[tuple[Task, Result | TaskFailure]]:
        """What `work` makes of every task, as it comes; at most `jobs` at a time.

        Whoever stops listening ends the processes at once.
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
                    yield task, cast(Result | TaskFailure, result)
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
    return f"the process that worked at it ended {how}: is there enough memory?"


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


@dataclass(frozen=True, kw_only=True, slots=True)
class QueuedSet:
    """A data set whose turn it is.

    Attributes:
        data_set: the data set.
        after: the data set that is to ask a model first if both have one shape, "" = none.
        pending: names of all that have not come to their end.
    """

    data_set: DataSet
    after: str
    pending: frozenset[str]


class TurnQueue:
    """Data sets that wait for their turn."""

    def __init__(self, sets: Iterable[DataSet]) -> None:
        self._waiting = {one.name: one for one in sets}
        self._shapes: dict[str, str] = {}
        self._led: set[str] = set()  # shapes of which one has come to its end
        self._stuck = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def runs_alone(self) -> bool:
        """Whether all were in the way of each other when several had their turn at a time."""
        return self._stuck == 1

    def next(self) -> list[QueuedSet]:
        """Whose turn it is now; everybody's, where nobody came to an end one by one either."""
        if self._stuck > 1:
            return [self._turn(one, "", frozenset()) for one in self._waiting.values()]
        pending, firsts = frozenset(self._waiting), self._firsts()
        turns = []
        for one in self._waiting.values():
            first, shape = firsts[self._likeness(one)], self._shapes.get(one.name)
            if first == one.name or shape in self._led:
                turns.append(self._turn(one, "", pending))
            elif shape is None:
                turns.append(self._turn(one, first, pending))
        return turns

    def _turn(self, one: DataSet, after: str, pending: frozenset[str]) -> QueuedSet:
        return QueuedSet(data_set=one, after=after, pending=pending)

    def _firsts(self) -> dict[object, str]:
        """The first by name of those that are, or may be, alike."""
        alike: dict[object, list[str]] = defaultdict(list)
        for one in self._waiting.values():
            alike[self._likeness(one)].append(one.name)
        return {likeness: min(names) for likeness, names in alike.items()}

    def _likeness(self, one: DataSet) -> object:
        return self._shapes.get(one.name) or shape_keys(one)

    def settle(self, ended: Mapping[str, str], put_off: Mapping[str, str]) -> None:
        """What came of a round, each with its shape ("" = unknown): who ended, who was put off."""
        for name in ended:
            del self._waiting[name]
        self._led.update(ended.values())
        self._shapes |= {name: shape for name, shape in put_off.items() if shape}
        self._stuck = 0 if ended else self._stuck + 1


def shape_keys(one: DataSet) -> frozenset[str]:
    """What is known of the shape of a data set's rows before they are sampled."""
    return frozenset(name for file in one.source.files for name in file.facts.shape)
