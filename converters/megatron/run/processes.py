"""Do the units of a build in several processes: one that dies is replaced, and nothing is lost.

A process works in a lane of its own. It gets its `Assignment`, then the units, at last None. It
sends `Ready` when it begins, `UnitDone`, messages for the monitor, or the error that ended it.
"""

import contextlib
import os
import queue
import threading
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from ingot.converters.errors import ConversionError, IngotError, OutputError, SourceError
from ingot.converters.megatron.engines.engine import EngineChoice, EngineWrongError
from ingot.converters.megatron.metrics.messages import log_event
from ingot.converters.megatron.read.input_files import Unit
from ingot.converters.megatron.run.pipeline import LaneWork, run_units
from ingot.converters.megatron.run.recipe import FileTally, Ingredients, UnitRun
from ingot.converters.megatron.write.lanes import read_journal
from ingot.converters.output.worker_pool import Inbox, Send, WorkerProcess
from ingot.converters.progress import is_stopping

_SENT_ERRORS: Final = (ConversionError, SourceError, OutputError, EngineWrongError)


@dataclass(frozen=True, slots=True)
class Ready:
    """A process is going to begin."""


@dataclass(frozen=True, slots=True)
class UnitDone:
    """A process has finished a unit, or failed to read its file."""

    unit: int
    failed: bool


WorkerMessage: TypeAlias = Ready | UnitDone | IngotError | dict[str, object]


@dataclass(frozen=True, kw_only=True, slots=True)
class Assignment:
    """What a process has to know."""

    job: LaneWork
    made_of: Ingredients

    def in_lane(self, lane: int) -> LaneWork:
        """The same work in another lane."""
        return replace(self.job, lane=lane)


def make_assignment(job: UnitRun, choice: EngineChoice, lane: int) -> Assignment:
    """What the process of a lane has to know."""
    prefix, base = job.place.prefix.absolute(), job.place.base.absolute()
    return Assignment(
        job=replace(job.lane_work(choice, lane), prefix=prefix, base=base),
        made_of=job.recipe.ingredients(),
    )


def _do_units(inbox: Inbox, send: Send) -> int:
    assignment: Assignment | None = next(iter(inbox), None)
    if assignment is None:
        return 0
    job = assignment.job
    if job.work.affinity:  # a share of the cores
        cores = sorted(os.sched_getaffinity(0))
        own = cores[job.lane % len(cores) :: job.work.processes]
        os.sched_setaffinity(0, own or cores)
    try:
        for unit, stretch in run_units(
            assignment.made_of.recipe(),
            job,
            inbox,
            send,
            begin=lambda: send(Ready()),
            end=inbox.close,
        ):
            send(UnitDone(unit.number, stretch.failed is not None))
    except _SENT_ERRORS as error:
        send(error)
        return 1
    return 0


UNITS_AHEAD: Final = 2  # units that a process has at a time
MOST_DEATHS: Final = 3
_END_SECONDS: Final = 10.0


class _Worker(WorkerProcess):
    """A process, and the units that it was given and has not finished."""

    def __init__(self, lane: int, lock: int) -> None:
        super().__init__(_do_units, pass_fds=(lock,))
        self.lane = lane
        self.ready = False
        self.given: deque[Unit] = deque()


def run_processes(job: UnitRun, pending: Sequence[Unit], choice: EngineChoice) -> dict[int, str]:
    """Do the units in `job.work.processes` processes."""
    supervisor = _Supervisor(job, pending, choice)
    try:
        return supervisor.run()
    finally:
        supervisor.end()


class _Supervisor:
    def __init__(self, job: UnitRun, pending: Sequence[Unit], choice: EngineChoice) -> None:
        self._job = job
        self._choice = choice
        self._left = deque(pending)
        self._files = FileTally(pending, job.monitor)
        self._open = len(pending)
        self._said: queue.Queue[tuple[_Worker, WorkerMessage | None]] = queue.Queue()
        self._workers: dict[int, _Worker] = {}
        self._deaths: Counter[int] = Counter()  # by unit
        self._stillborn = 0  # processes in a row that ended before they began
        self._failures: dict[int, str] = {}

    def run(self) -> dict[int, str]:
        for lane in self._job.lanes[: len(self._left)]:
            self._start(lane)
        while self._open and not (is_stopping() and self._is_idle()):
            worker, message = self._said.get()
            if self._workers.get(worker.lane) is not worker:
                continue  # it was replaced
            if message is None:
                self._handle_death(worker)
            else:
                self._heard(worker, message)
        return self._failures

    def _is_idle(self) -> bool:
        return not any(worker.given for worker in self._workers.values())

    def _start(self, lane: int) -> None:
        worker = self._workers[lane] = _Worker(lane, self._job.place.lock)
        threading.Thread(target=self._listen, args=(worker,), daemon=True).start()
        worker.send(make_assignment(self._job, self._choice, lane))
        self._give(worker)

    def _listen(self, worker: _Worker) -> None:
        # A last message that is cut off, or a connection that was closed, ends it.
        with contextlib.suppress(EOFError, OSError):
            while True:
                self._said.put((worker, worker.received.recv()))
        worker.wait_for_end()
        self._said.put((worker, None))

    def _give(self, worker: _Worker) -> None:
        """Units up to `AHEAD`; one that was in a process that died is given alone."""
        while not is_stopping() and self._left and len(worker.given) < UNITS_AHEAD:
            units = (self._left[0], *worker.given)
            if worker.given and any(self._deaths[unit.number] for unit in units):
                return
            unit = self._left.popleft()
            worker.given.append(unit)
            worker.send(unit)

    def _heard(self, worker: _Worker, message: WorkerMessage) -> None:
        if isinstance(message, UnitDone):
            self._done(worker, {message.unit: message.failed})
            self._give(worker)
        elif isinstance(message, Ready):
            worker.ready, self._stillborn = True, 0
        elif isinstance(message, IngotError):
            raise message
        else:
            self._job.monitor({**message, "worker": worker.lane})

    def _done(self, worker: _Worker, failed: dict[int, bool]) -> None:
        """Units are done: by number, whether their file could not be read."""
        for unit in worker.given:
            if unit.number in failed:
                self._open -= 1
                self._files.done(unit, failed=failed[unit.number])
        worker.given = deque(unit for unit in worker.given if unit.number not in failed)

    def _handle_death(self, worker: _Worker) -> None:
        """Take what it finished from its journal, give the rest out again, replace it."""
        del self._workers[worker.lane]
        worker.end()
        finished = read_journal(self._job.place.base, worker.lane).stretches
        self._done(worker, {number: one.failed is not None for number, one in finished.items()})
        ending = worker.wait_for_end()
        monitor = self._job.monitor
        log_event(monitor, "error", "pipeline", "worker_died", worker=worker.lane, error=ending)
        monitor({"kind": "count", "error.worker": 1})
        self._stillborn += not worker.ready
        if worker.ready:
            self._blame(worker, ending)
        elif self._stillborn >= MOST_DEATHS * self._job.work.processes:
            problem = f"processes end before they begin ({ending})"
            hint = "read what they wrote to standard error, or build with `processes` 1"
            raise ConversionError(str(self._job.place.prefix), problem, hint)
        self._left.extendleft(reversed(worker.given))
        if self._left and not is_stopping():
            self._start(worker.lane)
        for other in self._workers.values():
            self._give(other)

    def _blame(self, worker: _Worker, ending: str) -> None:
        """Count the death against the units that were being done; the third ends a unit."""
        for unit in worker.given:
            self._deaths[unit.number] += 1
        guilty = [unit for unit in worker.given if self._deaths[unit.number] >= MOST_DEATHS]
        why = f"{MOST_DEATHS} worker processes crashed on this file ({ending})"
        self._failures |= {unit.file: why for unit in guilty}
        self._done(worker, {unit.number: True for unit in guilty})

    def end(self) -> None:
        """End all processes: those that have nothing to do by themselves, the others now."""
        for worker in self._workers.values():
            if worker.given:
                worker.process.kill()
            else:
                worker.send(None)
        for worker in self._workers.values():
            worker.end(_END_SECONDS)
