"""Progress of a run, requests to end it, its memory and time, and the machine that it runs on."""

import os
import platform
import re
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from ingot.converters.errors import ConversionError, ExitCode


class Latencies(Protocol):
    """How long batches took, in milliseconds, as a histogram of Prometheus asks for it."""

    total: float

    def buckets(self) -> list[tuple[str, float]]:
        """Return cumulative counts by upper bound, `+Inf` last."""


@dataclass(frozen=True, kw_only=True)
class JobMeasures:
    """What only some jobs measure, by the names of metrics."""

    phase: str | None = None  # what a stage of several phases does now
    amounts: Mapping[str, float] = field(default_factory=dict)  # sums so far
    values: Mapping[str, float] = field(default_factory=dict)  # as they are now
    batches: Latencies | None = field(default=None, compare=False)


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a run is: the stage (`convert`, `tokens`), shards done and planned, and amounts."""

    stage: str
    shards_done: int
    shards: int
    rows: int
    records: int
    rejects: int | None = None  # rows and records; None = not known
    measures: JobMeasures = JobMeasures()


Watch = Callable[[Progress], None]


class ProgressTally:
    """Adds up how far the stages of a job are, and shows it; safe for threads.

    Args:
        watch: takes the progress.
        rejects: what a stage begins with: 0, or None in a job that does not count rejects.
    """

    def __init__(self, watch: Watch | None, rejects: int | None = None) -> None:
        self._watch, self._lock = watch or (lambda _: None), threading.Lock()
        self._none = Progress(stage="", shards_done=0, shards=0, rows=0, records=0, rejects=rejects)
        self._progress = self._none

    @property
    def rows(self) -> int:
        """Rows of the stage so far."""
        return self._progress.rows

    def begin(self, stage: str, shards: int) -> None:
        """Show that a stage of so many shards begins; one that begins anew keeps its rows."""
        with self._lock:
            before = self._progress if stage == self._progress.stage else self._none
            self._progress = replace(before, stage=stage, shards_done=0, shards=shards)
            self._watch(self._progress)

    def add(
        self, rows: int, records: int | None = None, rejects: int = 0, *, done: int = 0
    ) -> None:
        """Show so many more rows, as many records where none are given, rejects, done shards."""
        with self._lock:
            now = self._progress
            self._progress = replace(
                now,
                shards_done=now.shards_done + done,
                rows=now.rows + rows,
                records=now.records + (rows if records is None else records),
                rejects=None if now.rejects is None else now.rejects + rejects,
            )
            self._watch(self._progress)

    def show_shard(self, rows: int, records: int) -> None:
        """Show with the counts what a shard has so far that is added when it is done."""
        with self._lock:
            now = self._progress
            self._watch(replace(now, rows=now.rows + rows, records=now.records + records))


WAITING: Final = "waiting"  # the stage of a job that sleeps on purpose
_GRACE: Final = 20.0  # seconds; Kubernetes kills after 30
_AGAIN: Final = 5.0  # seconds until what did not end is asked once more
_Task = TypeVar("_Task")
_stopping = threading.Event()


class TerminatedError(KeyboardInterrupt):
    """SIGTERM ended the job. What is finished is kept, and the same command goes on."""


def is_stopping() -> bool:
    """Return whether the job is to end: nothing new is begun."""
    return _stopping.is_set()


def raise_if_stopping(wait: float = 0.0) -> None:
    """Raise TerminatedError if the job is to end, now or within `wait` seconds."""
    if _stopping.wait(wait):
        raise TerminatedError


def until_stopping(tasks: Iterable[_Task]) -> Iterator[_Task]:
    """Yield the tasks, and no more of them once the job is to end."""
    return takewhile(lambda _: not _stopping.is_set(), tasks)


@contextmanager
def drain_on_sigterm() -> Iterator[None]:
    """Take SIGTERM as a request to end the job: what is under way is finished.

    After INGOT_GRACE seconds (20) TerminatedError is raised; a second SIGTERM ends the process at
    once. In another thread than the main one signals stay as they are.
    """
    late, given = threading.Event(), os.environ.get("INGOT_GRACE") or str(_GRACE)
    if not re.fullmatch(r"\d{1,6}(\.\d+)?", given):
        raise ConversionError("INGOT_GRACE", f"takes seconds, not {given}")

    def begin(*_: object) -> None:
        if _stopping.is_set():
            os._exit(ExitCode.TERMINATED)  # worker processes end with their parent
        _stopping.set()
        signal.setitimer(signal.ITIMER_REAL, max(float(given), 1e-3), _AGAIN)

    def end(*_: object) -> None:
        late.set()
        raise TerminatedError

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = signal.signal(signal.SIGTERM, begin), signal.signal(signal.SIGALRM, end)
    try:
        yield
    except Exception as error:
        if late.is_set():  # a library made another error of it
            raise TerminatedError from error
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGTERM, former[0])
        signal.signal(signal.SIGALRM, former[1])
        _stopping.clear()


def peak_rss() -> int:
    """Return the most memory that this process has held, in bytes."""
    with suppress(OSError):  # only Linux has it; what getrusage tells there may be the parent's
        status = Path("/proc/self/status").read_text("ascii", "replace")
        for line in status.splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


class ProcessUse(NamedTuple):
    """What one process has used: seconds of processor time, and bytes."""

    seconds: float
    read: int  # from the disk itself; 0 where the system does not say
    written: int
    memory: int  # now; pages that processes share count in each


def measure_processes() -> dict[tuple[int, float], ProcessUse]:
    """Measure this process and its children, by id and start: ids are used again."""
    import psutil

    found: dict[tuple[int, float], ProcessUse] = {}
    own = psutil.Process()
    for one in (own, *own.children(recursive=True)):
        with suppress(psutil.Error), one.oneshot():  # it ended, or is another user's
            times, memory, disk = one.cpu_times(), one.memory_info().rss, _disk_bytes(one)
            found[one.pid, one.create_time()] = ProcessUse(times.user + times.system, *disk, memory)
    return found


def _disk_bytes(process: Any) -> tuple[int, int]:  # noqa: ANN401
    """Bytes read and written; not every system counts them, nor tells everybody."""
    import psutil

    try:
        counters = process.io_counters()
    except (AttributeError, psutil.AccessDenied, OSError, NotImplementedError):
        return 0, 0
    return counters.read_bytes, counters.write_bytes


def host_facts() -> dict[str, str | int | None]:
    """Return the machine and the libraries, as far as they can matter for speed or bytes."""
    import pyarrow as pa

    return {
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "pyarrow": pa.__version__,
        "cores": os.cpu_count(),
    }


class Clock:
    """Seconds by phase."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._phase, self._since = "start", time.monotonic()

    def start(self, phase: str) -> None:
        """End the phase before and begin, or go on with, this one."""
        now = time.monotonic()
        self._seconds[self._phase] = self._seconds.get(self._phase, 0.0) + now - self._since
        self._phase, self._since = phase, now

    def seconds(self) -> dict[str, float]:
        """Return seconds of every phase so far."""
        self.start(self._phase)
        return {phase: round(seconds, 3) for phase, seconds in self._seconds.items()}


@cache  # the first answer stays: a token build may bind its processes to shares of these cores
def core_numbers() -> list[int]:
    """Return the numbers of the cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):  # not everywhere
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def usable_cores() -> int:
    """Return the number of cores that this process may run on."""
    return len(core_numbers())
