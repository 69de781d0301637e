"""One process of a build with several: does the units that it is given, in a lane of its own.

It is started by the supervisor and reads lines of JSON from standard input: its assignment, the
units, at last `{"end": true}`. On standard output it says `{"ready": true}` when it is going to
begin, `{"done": UNIT, "failed": BOOL}`, `{"said": MESSAGE}` and `{"error": ...}`. When its input
ends without that last line, its supervisor is gone, and it ends on the spot.

Several processes at the units of one build: one that dies is replaced, and nothing is lost.
"""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Final

import ingot
from ingot.converters.errors import ConversionError, IngotError, OutputError, SourceError
from ingot.converters.megatron.engines.engine import EngineChoice, EngineWrongError
from ingot.converters.megatron.metrics.messages import log_event
from ingot.converters.megatron.options import BuildOptions, WorkOptions
from ingot.converters.megatron.read.input_files import (
    InputFile,
    InputLayout,
    Unit,
    name_to_text,
    text_to_name,
)
from ingot.converters.megatron.run.pipeline import run_units
from ingot.converters.megatron.run.recipe import FileTally, Recipe, UnitRun, make_recipe
from ingot.converters.megatron.tokenizer.tokenizer import load_tokenizer
from ingot.converters.megatron.write.lanes import Lane, read_journal
from ingot.converters.megatron.write.unit_writer import UnitWriter
from ingot.converters.output.commit import output_errors
from ingot.converters.rows import Json

SENT_ERRORS: Final[dict[str, type[IngotError]]] = {
    "ConversionError": ConversionError,
    "SourceError": SourceError,
    "OutputError": OutputError,
    "EngineWrongError": EngineWrongError,
}
_ORPHANED: Final = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Assignment:
    """What a process has to know.

    Attributes:
        lane: its lane.
        processes: how many there are.
        prefix: of the data set.
        base: where the lanes lie.
        files: all files, by number.
        tokenizer: the tokenizer's file.
        made_of: what the recipe has to be made of, see `ingredients`.
        options: what decides the bytes.
        layout: what is read.
        work: how the work is done.
        choice: the engine.
    """

    lane: int
    processes: int
    prefix: Path
    base: Path
    files: tuple[InputFile, ...]
    tokenizer: Path
    made_of: list[str]
    options: BuildOptions
    layout: InputLayout
    work: WorkOptions
    choice: EngineChoice

    def to_document(self) -> dict[str, Json]:
        """As JSON."""
        return {
            "lane": self.lane,
            "processes": self.processes,
            "prefix": name_to_text(self.prefix.absolute()),
            "base": name_to_text(self.base.absolute()),
            "files": [file.to_document() for file in self.files],
            "tokenizer": name_to_text(self.tokenizer.absolute()),
            "made_of": self.made_of,
            "options": self.options.to_document(),
            "layout": self.layout.to_document(),
            "work": self.work.to_document(),
            "choice": self.choice.to_document(),
        }

    @staticmethod
    def from_document(document: dict[str, Json]) -> "Assignment":
        """The assignment of such a document."""
        return Assignment(
            lane=document["lane"],
            processes=document["processes"],
            prefix=Path(text_to_name(document["prefix"])),
            base=Path(text_to_name(document["base"])),
            files=tuple(InputFile.from_document(one) for one in document["files"]),
            tokenizer=Path(text_to_name(document["tokenizer"])),
            made_of=document["made_of"],
            options=BuildOptions.from_document(document["options"]),
            layout=InputLayout.from_document(document["layout"]),
            work=WorkOptions(**document["work"]),
            choice=EngineChoice.from_document(document["choice"]),
        )

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


def unit_to_document(unit: Unit) -> dict[str, Json]:
    """A unit as JSON."""
    return asdict(unit)


def _unit_from_document(document: dict[str, Json]) -> Unit:
    groups = document["row_groups"]
    return Unit(**{**document, "row_groups": None if groups is None else tuple(groups)})


class _MessageWriter:
    """Says lines of JSON, from any thread."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out = out
        self._lock = threading.Lock()

    def say(self, document: dict[str, Json]) -> None:
        line = json.dumps(document, default=_plain_value).encode() + b"\n"
        try:
            with self._lock:
                self._out.write(line)
                self._out.flush()
        except BrokenPipeError:
            os._exit(_ORPHANED)

    def monitor(self, message: dict[str, Json]) -> None:
        self.say({"said": message})


def _plain_value(value: Json) -> Json:
    """A number of numpy as one of Python; a path and the like as text."""
    return value.item() if hasattr(value, "item") else str(value)


class _UnitQueue:
    """The units as they come, heard by a thread of its own so that the end is heard at once."""

    def __init__(self, heard: IO[bytes]) -> None:
        self._heard = heard
        self._units: queue.SimpleQueue[Unit | None] = queue.SimpleQueue()
        threading.Thread(target=self._listen, name="supervisor", daemon=True).start()

    def _listen(self) -> None:
        for line in self._heard:
            document = json.loads(line)
            if "end" in document:
                self.close()
                return
            self._units.put(_unit_from_document(document["unit"]))
        os._exit(_ORPHANED)  # so that a successor finds nobody writing

    def close(self) -> None:
        """There are no more."""
        self._units.put(None)

    def __iter__(self) -> Iterator[Unit]:
        return iter(self._units.get, None)


def _claim_streams() -> tuple[IO[bytes], IO[bytes]]:
    """The supervisor's lines; whatever a library prints goes to standard error from now on."""
    said = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return sys.stdin.buffer, said


def _do_units(assignment: Assignment, given: _UnitQueue, voice: _MessageWriter) -> None:
    options, work = assignment.options, assignment.work
    recipe = assignment.recipe()
    stages = recipe.stages(assignment.files, work, assignment.choice, voice.monitor)
    with (
        output_errors(assignment.prefix),
        Lane(base=assignment.base, number=assignment.lane) as lane,
    ):
        writer = UnitWriter(lane, recipe.rules, pack=options.pack, fail_fast=work.fail_fast)
        voice.say({"ready": True})
        done = run_units(stages, given, writer, fail_fast=work.fail_fast, no_more=given.close)
        for unit, stretch in done:
            voice.say({"done": unit.number, "failed": stretch.failed is not None})


def _bind_cores(assignment: Assignment) -> None:
    """Keep to a share of the cores."""
    cores = sorted(os.sched_getaffinity(0))
    own = cores[assignment.lane % len(cores) :: assignment.processes]
    os.sched_setaffinity(0, own or cores)


def _report_outcome(work: Callable[[], None], voice: _MessageWriter) -> int:
    """Work; gives the exit status."""
    try:
        work()
    except tuple(SENT_ERRORS.values()) as error:
        kind = next(name for name, one in SENT_ERRORS.items() if isinstance(error, one))
        voice.say({"error": {"kind": kind, "fields": list(error.args)}})
        return 1
    return 0


def main() -> int:
    """Work until the supervisor has nothing more to do; gives the exit status."""
    heard, out = _claim_streams()
    voice = _MessageWriter(out)
    line = heard.readline()
    if not line.endswith(b"\n"):
        return _ORPHANED
    assignment = Assignment.from_document(json.loads(line))
    given = _UnitQueue(heard)
    if assignment.work.affinity:
        _bind_cores(assignment)
    return _report_outcome(lambda: _do_units(assignment, given, voice), voice)


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
    ready: bool = False
    given: deque[Unit] = field(default_factory=deque)

    def send(self, document: dict[str, Json]) -> None:
        """Send a line; a process that is gone is found out by the end of what it says."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.write(json.dumps(document).encode() + b"\n")
            self.process.stdin.flush()

    def close(self) -> None:
        """Close its streams."""
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


_WorkerMessage = tuple[_Worker, dict[str, Json] | None]


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
        self._said: queue.Queue[_WorkerMessage] = queue.Queue()
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
        # This very package, whatever lies in the folder that the build was started in.
        found = os.pathsep.join([str(_PACKAGES), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONPATH": found.rstrip(os.pathsep)}
        with _ignore_interrupts():
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", _START],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=(self._job.place.lock,),
                env=environment,
            )
        worker = _Worker(lane=lane, process=process)
        self._workers[lane] = worker
        assert process.stdout is not None
        threading.Thread(target=self._listen, args=(worker, process.stdout), daemon=True).start()
        worker.send(self._assignment(lane).to_document())
        self._give(worker)

    def _assignment(self, lane: int) -> Assignment:
        job = self._job
        return Assignment(
            lane=lane,
            processes=job.work.processes,
            prefix=job.place.prefix,
            base=job.place.base,
            files=tuple(job.files),
            tokenizer=job.recipe.loaded.path,
            made_of=ingredient_hashes(job.recipe),
            options=job.recipe.options,
            layout=job.recipe.layout,
            work=job.work,
            choice=self._choice,
        )

    def _listen(self, worker: _Worker, said: IO[bytes]) -> None:
        # A last line that is cut off, or streams that were closed, end it.
        with contextlib.suppress(OSError, ValueError):
            for line in said:
                self._said.put((worker, json.loads(line)))
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
            worker.send({"unit": unit_to_document(unit)})

    def _heard(self, worker: _Worker, message: dict[str, Json]) -> None:
        if "done" in message:
            self._done(worker, {message["done"]: message["failed"]})
            self._give(worker)
        elif "ready" in message:
            worker.ready, self._stillborn = True, 0
        elif "error" in message:
            raise _restore_error(message["error"])
        else:
            self._job.monitor({**message["said"], "worker": worker.lane})

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
            self._failures[unit.file] = f"{MOST_DEATHS} processes died of it ({ending})"
            self._files.done(unit, failed=True)

    def end(self) -> None:
        """End all processes: those that have nothing to do by themselves, the others now."""
        for worker in self._workers.values():
            if worker.given:
                worker.process.kill()
            else:
                worker.send({"end": True})
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


def _restore_error(document: dict[str, Json]) -> IngotError:
    return SENT_ERRORS[document["kind"]](*document["fields"])
