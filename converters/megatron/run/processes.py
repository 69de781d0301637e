"""Do the units of a build in several processes: one that dies is replaced, and nothing is lost.

A process works in a lane of its own. On standard input it gets its `Assignment`, then the units, at
last None; on standard output it sends `Ready` when it is going to begin, `UnitDone`, messages for
the monitor, or the error that ended it. When its input ends without that None, its supervisor is
gone, and it ends on the spot.
"""

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, TypeAlias

import ingot
from ingot.converters.errors import ConversionError, IngotError, OutputError, SourceError
from ingot.converters.megatron.engines.engine import EngineChoice, EngineWrongError
from ingot.converters.megatron.metrics.messages import log_event
from ingot.converters.megatron.options import BuildOptions, WorkOptions
from ingot.converters.megatron.read.input_files import InputFile, InputLayout, Unit
from ingot.converters.megatron.run.pipeline import run_units
from ingot.converters.megatron.run.recipe import FileTally, Recipe, UnitRun, make_recipe
from ingot.converters.megatron.tokenizer.tokenizer import load_tokenizer
from ingot.converters.megatron.write.lanes import Lane, read_journal
from ingot.converters.megatron.write.unit_writer import UnitWriter
from ingot.converters.output.files import output_errors
from ingot.converters.rows import Json

_SENT_ERRORS: Final = (ConversionError, SourceError, OutputError, EngineWrongError)
_ORPHANED: Final = 1


@dataclass(frozen=True, slots=True)
class Ready:
    """A process is going to begin."""


@dataclass(frozen=True, slots=True)
class UnitDone:
    """A process has finished a unit, or failed to read its file."""

    unit: int
    failed: bool


WorkerMessage: TypeAlias = Ready | UnitDone | IngotError | dict[str, Json]


@dataclass(frozen=True, kw_only=True, slots=True)
class Assignment:
    """What a process has to know."""

    lane: int
    processes: int
    prefix: Path
    base: Path
    files: tuple[InputFile, ...]
    tokenizer: Path
    made_of: list[str]  # what the recipe has to be made of, see `ingredients`
    options: BuildOptions
    layout: InputLayout
    work: WorkOptions
    choice: EngineChoice

    def recipe(self) -> Recipe:
        """What makes documents."""
        recipe = make_recipe(load_tokenizer(self.tokenizer), self.options, self.layout)
        if ingredient_hashes(recipe) != self.made_of:
            raise ConversionError(
                str(self.tokenizer),
                "it or the chat template changed while the build ran",
                "put back what was there, then build again with `resume`",
            )
        return recipe


def ingredient_hashes(recipe: Recipe) -> list[str]:
    """What files beside the inputs a recipe is made of: sha256 of tokenizer and template."""
    template = recipe.template
    return [recipe.loaded.sha256, "" if template is None else template.sha256]


class _MessageWriter:
    """Sends messages to the supervisor, from any thread."""

    def __init__(self, out: "Connection[WorkerMessage, None]") -> None:
        self._out = out
        self._lock = threading.Lock()

    def send(self, message: WorkerMessage) -> None:
        try:
            with self._lock:
                self._out.send(message)
        except BrokenPipeError:
            os._exit(_ORPHANED)


class _UnitQueue:
    """The units as they come, received by a thread of its own so that the end is heard at once."""

    def __init__(self, units: "Connection[None, Unit | None]") -> None:
        self._received = units
        self._units: queue.SimpleQueue[Unit | None] = queue.SimpleQueue()
        threading.Thread(target=self._listen, name="supervisor", daemon=True).start()

    def _listen(self) -> None:
        try:
            while (unit := self._received.recv()) is not None:
                self._units.put(unit)
        except (EOFError, OSError):
            os._exit(_ORPHANED)  # so that a successor finds nobody writing
        self.close()

    def close(self) -> None:
        self._units.put(None)

    def __iter__(self) -> Iterator[Unit]:
        return iter(self._units.get, None)


def _do_units(assignment: Assignment, given: _UnitQueue, voice: _MessageWriter) -> None:
    options, work = assignment.options, assignment.work
    recipe = assignment.recipe()
    stages = recipe.stages(assignment.files, work, assignment.choice, voice.send)
    with (
        output_errors(assignment.prefix),
        Lane(base=assignment.base, number=assignment.lane) as lane,
    ):
        writer = UnitWriter(lane, recipe.rules, pack=options.pack, fail_fast=work.fail_fast)
        voice.send(Ready())
        done = run_units(stages, given, writer, fail_fast=work.fail_fast, no_more=given.close)
        for unit, stretch in done:
            voice.send(UnitDone(unit.number, stretch.failed is not None))


def _bind_cores(assignment: Assignment) -> None:
    """Keep to a share of the cores."""
    cores = sorted(os.sched_getaffinity(0))
    own = cores[assignment.lane % len(cores) :: assignment.processes]
    os.sched_setaffinity(0, own or cores)


def main() -> int:
    """Work until the supervisor has nothing more to do; gives the exit status."""
    voice = _MessageWriter(Connection(os.dup(1), readable=False))
    os.dup2(2, 1)  # whatever a library prints goes to standard error from now on
    received: Connection[None, Any] = Connection(os.dup(0), writable=False)
    try:
        assignment: Assignment = received.recv()
    except (EOFError, OSError):
        return _ORPHANED
    given = _UnitQueue(received)
    if assignment.work.affinity:
        _bind_cores(assignment)
    try:
        _do_units(assignment, given, voice)
    except _SENT_ERRORS as error:
        voice.send(error)
        return 1
    return 0


UNITS_AHEAD: Final = 2  # units that a process has at a time
MOST_DEATHS: Final = 3
_END_SECONDS: Final = 10.0
_START: Final = (
    "import os; from ingot.converters.megatron.run.processes import main; os._exit(main())"
)
_PACKAGES: Final = Path(ingot.__file__).parents[1]


@dataclass(kw_only=True, slots=True)
class _Worker:
    """A process, and the units that it was given and has not finished."""

    lane: int
    process: subprocess.Popen[bytes]
    sent: "Connection[Assignment | Unit | None, None]"
    received: "Connection[None, WorkerMessage]"
    ready: bool = False
    given: deque[Unit] = field(default_factory=deque)

    def send(self, message: Assignment | Unit | None) -> None:
        """Send a message; a process that is gone is found out by the end of what it sends."""
        with contextlib.suppress(OSError):
            self.sent.send(message)

    def close(self) -> None:
        self.sent.close()
        self.received.close()


def _start_worker(lane: int, lock: int) -> _Worker:
    # This very package, whatever lies in the folder that the build was started in.
    found = os.pathsep.join([str(_PACKAGES), os.environ.get("PYTHONPATH", "")])
    own_input, sent = os.pipe()
    received, own_output = os.pipe()
    with _ignore_interrupts():
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", _START],
            stdin=own_input,
            stdout=own_output,
            pass_fds=(lock,),
            env={**os.environ, "PYTHONPATH": found.rstrip(os.pathsep)},
        )
    os.close(own_input)
    os.close(own_output)
    return _Worker(
        lane=lane,
        process=process,
        sent=Connection(sent, readable=False),
        received=Connection(received, writable=False),
    )


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
        for lane in range(min(self._job.work.processes, len(self._left))):
            self._start(lane)
        while self._open:
            worker, message = self._said.get()
            if self._workers.get(worker.lane) is not worker:
                continue  # it was replaced
            if message is None:
                self._handle_death(worker)
            else:
                self._heard(worker, message)
        return self._failures

    def _start(self, lane: int) -> None:
        worker = self._workers[lane] = _start_worker(lane, self._job.place.lock)
        threading.Thread(target=self._listen, args=(worker,), daemon=True).start()
        worker.send(self._assignment(lane))
        self._give(worker)

    def _assignment(self, lane: int) -> Assignment:
        job = self._job
        return Assignment(
            lane=lane,
            processes=job.work.processes,
            prefix=job.place.prefix.absolute(),
            base=job.place.base.absolute(),
            files=tuple(job.files),
            tokenizer=job.recipe.loaded.path.absolute(),
            made_of=ingredient_hashes(job.recipe),
            options=job.recipe.options,
            layout=job.recipe.layout,
            work=job.work,
            choice=self._choice,
        )

    def _listen(self, worker: _Worker) -> None:
        # A last message that is cut off, or a connection that was closed, ends it.
        with contextlib.suppress(EOFError, OSError):
            while True:
                self._said.put((worker, worker.received.recv()))
        worker.process.wait()
        self._said.put((worker, None))

    def _give(self, worker: _Worker) -> None:
        """Units up to `AHEAD`; one that was in a process that died is given alone."""
        while self._left and len(worker.given) < UNITS_AHEAD:
            alone = self._deaths[self._left[0].number] or any(
                self._deaths[unit.number] for unit in worker.given
            )
            if alone and worker.given:
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
        worker.close()
        finished = read_journal(self._job.place.base, worker.lane).stretches
        self._done(worker, {number: one.failed is not None for number, one in finished.items()})
        ending = _describe_exit(worker.process.returncode)
        monitor = self._job.monitor
        log_event(monitor, "error", "pipeline", "worker_died", worker=worker.lane, error=ending)
        monitor({"kind": "count", "error.worker": 1})
        if worker.ready:
            self._blame(worker, ending)
        else:
            self._count_stillborn(ending)
        self._left.extendleft(reversed(worker.given))
        if self._left:
            self._start(worker.lane)
        for other in self._workers.values():
            self._give(other)

    def _count_stillborn(self, ending: str) -> None:
        self._stillborn += 1
        if self._stillborn >= MOST_DEATHS * self._job.work.processes:
            raise ConversionError(
                str(self._job.place.prefix),
                f"processes end before they begin ({ending})",
                "read what they wrote to standard error, or build with `processes` 1",
            )

    def _blame(self, worker: _Worker, ending: str) -> None:
        """Count the death against the units that were being done; the third ends a unit."""
        for unit in worker.given:
            self._deaths[unit.number] += 1
        guilty = [unit for unit in worker.given if self._deaths[unit.number] >= MOST_DEATHS]
        for unit in guilty:
            worker.given.remove(unit)
            self._open -= 1
            self._failures[unit.file] = (
                f"{MOST_DEATHS} worker processes crashed on this file ({ending})"
            )
            self._files.done(unit, failed=True)

    def end(self) -> None:
        """End all processes: those that have nothing to do by themselves, the others now."""
        for worker in self._workers.values():
            if worker.given:
                worker.process.kill()
            else:
                worker.send(None)
        for worker in self._workers.values():
            try:
                worker.process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                worker.process.kill()
                worker.process.wait()
            worker.close()


@contextlib.contextmanager
def _ignore_interrupts() -> Iterator[None]:
    """What is started here never hears an interrupt from the terminal: its supervisor does."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _describe_exit(code: int | None) -> str:
    return f"signal {-code}" if code is not None and code < 0 else f"exit status {code}"
