"""Several processes at the units of one build: one that dies is replaced, and nothing is lost.

Every process writes a lane of its own and speaks with the supervisor in lines of JSON over its
standard streams. It gets a few units ahead; what it has finished stands in its lane's journal. When
it dies, its journal is read, a new process takes the lane over, and what was not finished is given
out again: one unit at a time now, so that it shows which of them takes processes with it. One that
does so three times makes its file a failed one.
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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

import ingot
from ingot.converters.errors import ConversionError, IngotError
from ingot.converters.megatron.engines.choice import Choice
from ingot.converters.megatron.journal import read_journal
from ingot.converters.megatron.monitor import log
from ingot.converters.megatron.running import FileMeter, Run
from ingot.converters.megatron.units import Unit
from ingot.converters.megatron.worker import ERRORS, Assignment, ingredients, unit_document
from ingot.converters.rows import Json

AHEAD: Final = 2  # units that a process has at a time
MOST_DEATHS: Final = 3
_END_SECONDS: Final = 10.0
_START: Final = "import os; from ingot.converters.megatron.worker import main; os._exit(main())"
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


_Said = tuple[_Worker, dict[str, Json] | None]


def run_processes(job: Run, pending: Sequence[Unit], choice: Choice) -> dict[int, str]:
    """Do the units in `job.work.processes` processes.

    Returns:
        The files that were given up, and why.

    Raises:
        EngineWrongError: the engine gave wrong ids in one of them.
        ConversionError: a process found that the build cannot go on; processes end as they begin.
        SourceError: likewise.
        OutputError: likewise.
    """
    supervisor = _Supervisor(job, pending, choice)
    try:
        return supervisor.run()
    finally:
        supervisor.end()


class _Supervisor:
    def __init__(self, job: Run, pending: Sequence[Unit], choice: Choice) -> None:
        self._job = job
        self._choice = choice
        self._left = deque(pending)
        self._files = FileMeter(pending, job.monitor)
        self._open = len(pending)
        self._said: queue.Queue[_Said] = queue.Queue()
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
                self._died(worker)
            else:
                self._heard(worker, message)
        return self._failures

    def _start(self, lane: int) -> None:
        # This very package, whatever lies in the folder that the build was started in.
        found = os.pathsep.join([str(_PACKAGES), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONPATH": found.rstrip(os.pathsep)}
        with _deaf_to_interrupts():
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
            made_of=ingredients(job.recipe),
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
        while self._left and len(worker.given) < AHEAD:
            alone = self._deaths[self._left[0].number] or any(
                self._deaths[unit.number] for unit in worker.given
            )
            if alone and worker.given:
                return
            unit = self._left.popleft()
            worker.given.append(unit)
            worker.send({"unit": unit_document(unit)})

    def _heard(self, worker: _Worker, message: dict[str, Json]) -> None:
        if "done" in message:
            self._done(worker, {message["done"]: message["failed"]})
            self._give(worker)
        elif "ready" in message:
            worker.ready, self._stillborn = True, 0
        elif "error" in message:
            raise _error(message["error"])
        else:
            self._job.monitor({**message["said"], "worker": worker.lane})

    def _done(self, worker: _Worker, failed: dict[int, bool]) -> None:
        """Units are done: by number, whether their file could not be read."""
        for unit in worker.given:
            if unit.number in failed:
                self._open -= 1
                self._files.done(unit, failed=failed[unit.number])
        worker.given = deque(unit for unit in worker.given if unit.number not in failed)

    def _died(self, worker: _Worker) -> None:
        """Take what it finished from its journal, give the rest out again, replace it."""
        del self._workers[worker.lane]
        worker.close()
        finished = read_journal(self._job.place.base, worker.lane).stretches
        self._done(worker, {number: one.failed is not None for number, one in finished.items()})
        ending = _ending(worker.process.returncode)
        monitor = self._job.monitor
        log(monitor, "error", "pipeline", "worker_died", worker=worker.lane, error=ending)
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
                "see what they said on standard error; --processes 1 does without them",
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
def _deaf_to_interrupts() -> Iterator[None]:
    """What is started here never hears an interrupt from the terminal: its supervisor does."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _ending(code: int | None) -> str:
    return f"signal {-code}" if code is not None and code < 0 else f"exit status {code}"


def _error(document: dict[str, Json]) -> IngotError:
    return ERRORS[document["kind"]](*document["fields"])
