"""Watch a long job: log lines, metrics, alarms and a bar, from its progress and its processes."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Self

from ingot.converters.errors import PartDone, error_text
from ingot.converters.output.monitoring import (
    LogStream,
    MetricKind,
    MetricsServer,
    make_metric,
    make_registry,
)
from ingot.converters.progress import (
    WAITING,
    ProcessUse,
    Progress,
    TerminatedError,
    is_stopping,
    measure_processes,
    peak_rss,
)
from ingot.converters.settings import Level

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_BUSY: Final = 1.0  # seconds of processor time that count as a sign of life
_DRAW: Final = 0.2  # seconds between two drawings of a bar
_WINDOW: Final = 30.0  # seconds that rates are of
_LEAST: Final = 1.0  # seconds that use of the machine is measured over
MB: Final = 1_000_000
_RATED: Final = ("rows", "bytes_read", "text_bytes", "tokens")
_STAGE_METRICS: Final[tuple[tuple[MetricKind, str, str], ...]] = (
    ("counter", "rows", "Rows read"),
    ("counter", "records", "Records written"),
    ("counter", "rejects", "Rows and records rejected"),
    ("gauge", "shards_done", "Shards, files or data sets finished"),
    ("gauge", "shards", "Shards, files or data sets there are"),
)


class Trouble(NamedTuple):
    """Why a job is not healthy: the alarm, as logs name it, and what happened."""

    alarm: Literal["error_rate", "stall"]
    detail: str

    def __str__(self) -> str:
        return f"{self.alarm}: {self.detail}"


class JobState(NamedTuple):
    """What a bar shows: the progress once there is any, amounts a second, and the time left."""

    progress: Progress | None
    rates: Mapping[str, float]
    seconds_left: float | None
    trouble: Trouble | None


@dataclass(frozen=True, kw_only=True)
class Watching:
    """How a job is watched."""

    log: LogStream | None = None  # where lines of JSON go
    port: int | None = None  # of the HTTP server, 0 = any free one, None = no server
    interval: float = 5.0  # seconds between two looks, and lines of progress
    progress_lines: bool = True
    stall_seconds: float = 300.0
    error_streak: int | None = None  # failures in a row until an alarm
    draw: Callable[[JobState], None] | None = None  # ended by an `OSError` of its own
    redact: Callable[[str], str] = str  # makes the text of an error safe to show


class Pace:
    """How fast a job has been over the last half minute; not safe for threads."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, Mapping[str, float]]] = deque()

    def look(self, moment: float, progress: Progress) -> None:
        """Take the progress as it is now."""
        self._seen.append((moment, {"rows": progress.rows, **progress.measures.amounts}))
        while len(self._seen) > 2 and self._seen[1][0] < moment - _WINDOW:
            self._seen.popleft()

    def rates(self) -> dict[str, float]:
        """Return amounts a second, of those that are worth it; 0 before two looks."""
        if not self._seen:
            return {}
        (first, before), (last, after) = self._seen[0], self._seen[-1]
        seconds = max(last - first, 1e-9)
        return {
            name: (after[name] - before.get(name, 0)) / seconds for name in _RATED if name in after
        }

    def seconds_left(self, progress: Progress) -> float | None:
        """Return the seconds until all input is read, None if unknown or if it is."""
        known = progress.measures
        bytes_left = known.values.get("input_bytes", 0) - known.amounts.get("bytes_read", 0)
        rate = self.rates().get("bytes_read", 0.0)
        return bytes_left / rate if bytes_left > 0 and rate > 0 else None


class MachineUse(NamedTuple):
    """Use of the machine by this process and its children."""

    cpu_pct: float = 0.0  # 100 = one core busy all the time
    # MB/s from and to the disk itself (what the page cache serves is not in it); 0 where the
    # system does not say
    disk_read: float = 0.0
    disk_write: float = 0.0
    processes: int = 1
    memory: int = 0  # bytes now; pages that processes share count in each


class Machine:
    """Measures this process and its children."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.peak_memory = 0
        self.cpu_seconds = 0.0  # of the processes that there are now
        self.use = MachineUse()
        self._clock = clock
        self._at = clock()
        self._before = measure_processes()

    def measure(self) -> None:
        """Look now. A process that ended since the look before is left out of the rates."""
        moment, spent = self._clock(), measure_processes()
        memory = sum(one.memory for one in spent.values())
        self.peak_memory = max(self.peak_memory, memory, peak_rss())
        self.cpu_seconds = sum(one.seconds for one in spent.values())
        self.use = self.use._replace(processes=len(spent), memory=memory)
        seconds = moment - self._at
        if seconds < _LEAST:
            return
        pairs = [(one, self._before.get(key, _UNUSED)) for key, one in spent.items()]
        cpu, read, written = (
            sum(one[i] - former[i] for one, former in pairs) / seconds for i in range(3)
        )
        self._at, self._before = moment, spent
        self.use = self.use._replace(
            cpu_pct=100 * cpu, disk_read=read / MB, disk_write=written / MB
        )

    def fields(self) -> dict[str, float]:
        """Return the fields of a log line."""
        use = self.use
        rates = {"disk_read_MBps": use.disk_read, "disk_write_MBps": use.disk_write}
        return {"cpu_pct": use.cpu_pct, "mem_rss_bytes": use.memory, **rates}


_UNUSED: Final = ProcessUse(0.0, 0, 0, 0)


class JobWatch:
    """Shows a job while it runs; a `Watch` for its progress, from any thread.

    It is a context manager whose thread looks at the time, and at the processes every interval.

    Args:
        job: its name, a label of every metric.
        watching: how it is watched.
    """

    def __init__(self, job: str, watching: Watching) -> None:
        self.machine = Machine()
        self._job, self._watching, self._draw = job, watching, watching.draw
        self._lock, self._ended = threading.RLock(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._server: MetricsServer | None = None
        self._stages: dict[str, Progress] = {}
        self._now: Progress | None = None
        self._shown: object = None
        self._begun = self._moved = time.monotonic()
        self._cpu, self._stalled, self._streak = 0.0, False, 0
        self._pace = Pace()

    def __call__(self, progress: Progress) -> None:
        """Take the progress."""
        with self._lock:
            before, self._now = self._now, progress
            self._stages[progress.stage] = progress
            if progress != before:
                self._move()
            if before is None or before.stage != progress.stage:
                self._say("info", "stage")
            else:
                self._count_failures(before, progress)

    def __enter__(self) -> Self:
        self._say("info", "started")
        if self._watching.port is not None:
            registry = make_registry(self.metrics)
            # every interface, as a pod needs it
            address = ("0.0.0.0", self._watching.port)
            self._server = MetricsServer(*address, registry, self.trouble, self.ready)
            self._say("info", "serving", port=self.port)
        self._thread.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        """Stop the thread, write how the job ended, and stop the server."""
        self._ended.set()
        self._thread.join()
        self._draw_bar()
        self._end(error)
        if self._server:
            self._server.close()

    @property
    def port(self) -> int | None:
        """The port that is served, None without a server."""
        return self._server.port if self._server else None

    @property
    def seconds(self) -> float:
        """Seconds since the job began."""
        return time.monotonic() - self._begun

    def trouble(self) -> Trouble | None:
        """Return why the job is not healthy, None if it is."""
        self._measure()
        return self._find_trouble()

    def ready(self) -> bool:
        """Return whether the job has opened its inputs and destination and is not asked to end."""
        return self._now is not None and not is_stopping()

    def look(self) -> None:
        """Measure the processes; write a line where anything changed or a stall begins."""
        self._measure()
        with self._lock:
            trouble = self._find_trouble()
            if trouble and trouble.alarm == "stall" and not self._stalled:
                self._stalled = True
                self._say("warn", "stall", seconds=time.monotonic() - self._moved)
        if (state := (self._now, is_stopping())) != self._shown:
            self._shown = state
            if is_stopping():
                self._say("warn", "draining")
            elif self._watching.log and self._watching.progress_lines:  # whatever its level
                fields = {**self._rate_fields(), **self.machine.fields()}
                self._watching.log.write(self._line("info", "progress", fields))

    def metrics(self) -> Iterator["Metric"]:
        """Yield every metric with its value, by stage."""
        trouble = self.trouble()
        with self._lock:
            stages, machine = dict(self._stages), self.machine.use
        yield from self._job_metrics(trouble, machine)
        for kind, name, text in _STAGE_METRICS:
            amounts = [((self._job, stage), getattr(one, name)) for stage, one in stages.items()]
            yield make_metric(kind, f"ingot_{name}", text, amounts, ("job", "stage"))
        measure_kinds: tuple[tuple[MetricKind, str], ...] = (
            ("counter", "amounts"),
            ("gauge", "values"),
        )
        for kind, attribute in measure_kinds:
            measures = {stage: getattr(one.measures, attribute) for stage, one in stages.items()}
            for name in {name: None for one in measures.values() for name in one}:
                labelled = [((self._job, stage), one.get(name)) for stage, one in measures.items()]
                text = name.replace("_", " ").capitalize()
                yield make_metric(kind, f"ingot_{name}", text, labelled, ("job", "stage"))
        yield from self._batch_metrics(stages)

    def _run(self) -> None:
        pause, due = self._watching.interval, time.monotonic() + self._watching.interval
        while not self._ended.wait(min(pause, _DRAW) if self._draw else pause):
            self._draw_bar()
            if time.monotonic() >= due:
                due = time.monotonic() + pause
                self.look()

    def _draw_bar(self) -> None:
        with self._lock:
            self._follow_pace()
            state = JobState(
                progress=self._now,
                rates=self._pace.rates(),
                seconds_left=self._pace.seconds_left(self._now) if self._now else None,
                trouble=self._find_trouble(),
            )
        if self._draw is not None:
            try:
                self._draw(state)
            except OSError:
                self._draw = None

    def _follow_pace(self) -> None:
        if self._now is not None:
            self._pace.look(time.monotonic(), self._now)

    def _end(self, error: BaseException | None) -> None:
        """Write the last line: how the job ended."""
        self.machine.measure()
        fields = {**self.machine.fields(), "seconds": self.seconds}
        if error is None or isinstance(error, PartDone):
            self._say("info", "finished", **fields)
        elif isinstance(error, KeyboardInterrupt):
            event = "terminated" if isinstance(error, TerminatedError) else "interrupted"
            self._say("warn", event, **fields)
        else:
            text = self._watching.redact(error_text(error))
            self._say("error", "failed", **fields, error=text)

    def _measure(self) -> None:
        """Measure the processes. A job that uses the processor moves, also within a large shard."""
        with self._lock:
            self.machine.measure()
            if abs(self.machine.cpu_seconds - self._cpu) >= _BUSY:
                self._cpu = self.machine.cpu_seconds
                self._move()

    def _move(self) -> None:
        """Note a sign of life; the lock is held."""
        moment = time.monotonic()
        if self._stalled:
            self._say("info", "stall_over", seconds=moment - self._moved)
        self._moved, self._stalled = moment, False

    def _find_trouble(self) -> Trouble | None:
        """Return the trouble that is known: failures in a row, or nothing moves and works."""
        limit, current = self._watching.error_streak, self._now
        if limit is not None and self._streak > limit:
            return Trouble("error_rate", f"{self._streak} rows and files failed in a row")
        waited = time.monotonic() - self._moved
        if waited <= self._watching.stall_seconds or current is None or current.stage == WAITING:
            return None
        return Trouble("stall", f"no progress for {waited:.0f} s in stage {current.stage}")

    def _count_failures(self, before: Progress, current: Progress) -> None:
        """Count failures in a row; a success beside them ends the row. The lock is held."""
        limit = self._watching.error_streak
        if limit is None:
            return
        rejects = (current.rejects or 0) - (before.rejects or 0)
        files = [one.measures.amounts.get("failed_files", 0) for one in (before, current)]
        former = self._streak
        good = current.rows - before.rows > rejects or current.records > before.records
        self._streak = 0 if good else former + rejects + int(files[1] - files[0])
        if former <= limit < self._streak:
            error = f"{self._streak} rows and files failed in a row, none succeeded"
            self._say("error", "error_rate", error=error, error_count=self._streak)
        elif former > limit >= self._streak:
            self._say("info", "error_rate_over", error_count=former)

    def _rate_fields(self) -> dict[str, float | None]:
        """Return amounts a second of a job that is measured in bytes, and the time left."""
        with self._lock:
            self._follow_pace()
            if self._now is None or not self._now.measures.amounts:
                return {}
            rates = {f"{name}_per_sec": rate for name, rate in self._pace.rates().items()}
            return {**rates, "eta_seconds": self._pace.seconds_left(self._now)}

    def _say(self, level: Level, event: str, **fields: object) -> None:
        if self._watching.log:
            self._watching.log.log(self._line(level, event, fields))

    def _line(self, level: Level, event: str, fields: Mapping[str, object]) -> dict[str, object]:
        head = {"level": level, "component": self._job, "event": event}
        line = {**head, **(_progress_fields(self._now) if self._now else {}), **fields}
        return {n: round(v, 3) if isinstance(v, float) else v for n, v in line.items()}

    def _job_metrics(self, trouble: Trouble | None, use: MachineUse) -> Iterator["Metric"]:
        lost = self._watching.log.lost if self._watching.log else 0
        disk = "the disk itself, MB/s"
        job_values: tuple[tuple[MetricKind, str, str, float], ...] = (
            ("gauge", "up", "1 while the job runs", 1),
            ("gauge", "healthy", "1 while the job is healthy", 0 if trouble else 1),
            ("gauge", "run_seconds", "Seconds since the start", self.seconds),
            ("gauge", "memory_bytes", "Memory of all processes", use.memory),
            ("gauge", "cpu_pct", "CPU of all processes, 100 = one core", use.cpu_pct),
            ("gauge", "disk_read_mb_per_sec", f"Read from {disk}", use.disk_read),
            ("gauge", "disk_write_mb_per_sec", f"Written to {disk}", use.disk_write),
            ("gauge", "processes", "Processes at work", use.processes),
            ("counter", "log_lines_lost", "Lines of the log lost", lost),
        )
        for kind, name, text, value in job_values:
            yield make_metric(kind, f"ingot_{name}", text, [((self._job,), value)], ("job",))
        for name, rate in self._rate_fields().items():
            text = name.replace("_", " ").capitalize()
            yield make_metric("gauge", f"ingot_{name}", text, [((self._job,), rate)], ("job",))

    def _batch_metrics(self, stages: Mapping[str, Progress]) -> Iterator["Metric"]:
        from prometheus_client.core import HistogramMetricFamily as Histogram

        batches = {stage: known for stage, one in stages.items() if (known := one.measures.batches)}
        if batches:
            text = "Milliseconds that a batch took"
            metric = Histogram("ingot_batch_latency_ms", text, labels=("job", "stage"))
            for stage, one in batches.items():
                metric.add_metric((self._job, stage), one.buckets(), one.total)
            yield metric


def _progress_fields(progress: Progress) -> dict[str, object]:
    """Return what a line says of the progress."""
    names = ("stage", "shards_done", "shards", "rows", "records", "rejects")
    known = progress.measures
    phase = {} if known.phase is None else {"phase": known.phase}
    same = {name: getattr(progress, name) for name in names}
    return {**phase, **same, **known.amounts, **known.values}
