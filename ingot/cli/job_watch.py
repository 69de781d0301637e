"""Watch a long command: log lines and metrics of its progress, until it ends."""

import time
from collections.abc import Callable, Iterator
from typing import IO, TYPE_CHECKING, Final, Self

from ingot.converters.errors import PartDone, error_text
from ingot.converters.output.monitoring import (
    LogStream,
    MetricKind,
    StallAlarm,
    Watcher,
    make_metric,
)
from ingot.converters.progress import (
    WAITING,
    Progress,
    TerminatedError,
    is_stopping,
    measure_processes,
)
from ingot.converters.settings import Level

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_INTERVAL: Final = 5.0  # seconds between two looks, and lines of progress
_STALL: Final = 300.0  # seconds
_BUSY: Final = 1.0  # seconds of processor time that count as a sign of life
_MEMORY_TEXT: Final = "Memory of all processes"
_STAGE_METRICS: Final[tuple[tuple[MetricKind, str, str], ...]] = (
    ("counter", "rows", "Rows read"),
    ("counter", "records", "Records written"),
    ("counter", "rejects", "Rows and records rejected"),
    ("gauge", "shards_done", "Shards, files or data sets finished"),
    ("gauge", "shards", "Shards, files or data sets there are"),
)


class JobWatch(Watcher):
    """Shows a job by log lines and metrics; a `Watch` for its progress.

    Args:
        job: its name, a label of every metric.
        port: of the HTTP server, 0 = any free one, None = no server.
        log: where lines of JSON go, None = nowhere.
        redact: what makes a text of an error safe to show.
    """

    def __init__(
        self, job: str, port: int | None, log: IO[bytes] | None, redact: Callable[[str], str]
    ) -> None:
        # every interface, as a pod needs it
        super().__init__(_INTERVAL, None if port is None else ("0.0.0.0", port))
        self._job, self._redact = job, redact
        self._log = LogStream(log, "info") if log else None
        self._stages: dict[str, Progress] = {}
        self._now: Progress | None = None
        self._shown: object = None
        self._begun = time.monotonic()
        self._alarm = StallAlarm(_STALL, self._begun)
        self._cpu = self._memory = 0.0

    def __call__(self, progress: Progress) -> None:
        """Take the progress, from any thread."""
        with self._lock:
            before, self._now = self._now, progress
            stalled = self._alarm.move(time.monotonic()) if progress != before else None
            self._stages[progress.stage] = progress
        self._tell_stall("info", "stall_over", stalled)
        if before is None or before.stage != progress.stage:
            self._say("info", "stage")

    def __enter__(self) -> Self:
        self._say("info", "started")
        super().__enter__()
        if self._server is not None:
            self._say("info", "serving", port=self.port)
        return self

    def end(self, error: BaseException | None) -> None:
        """Write the last line: how the job ended."""
        seconds = round(time.monotonic() - self._begun, 3)
        if error is None or isinstance(error, PartDone):
            self._say("info", "finished", seconds=seconds)
        elif isinstance(error, KeyboardInterrupt):
            event = "terminated" if isinstance(error, TerminatedError) else "interrupted"
            self._say("warn", event, seconds=seconds)
        else:
            text = self._redact(error_text(error))
            self._say("error", "failed", seconds=seconds, error=text)

    def trouble(self) -> str | None:
        """Return why the job is not healthy, None if it is: nothing moves, and no process works."""
        self._measure()
        waited, now = self._alarm.waited(time.monotonic()), self._now
        if waited is None or now is None or now.stage == WAITING:
            return None
        return f"stall: no progress for {waited:.0f} s in stage {now.stage}"

    def ready(self) -> bool:
        """Return whether the job has opened its inputs and destination and is not asked to end."""
        return self._now is not None and not is_stopping()

    def look(self) -> None:
        """Measure the processes; write a line where anything changed or a stall begins."""
        self._measure()
        if self._now is not None and self._now.stage != WAITING:
            with self._lock:
                waited = self._alarm.notice(time.monotonic())
            self._tell_stall("warn", "stall", waited)
        if (now := (self._now, is_stopping())) != self._shown:
            self._shown = now
            self._say(*(("warn", "draining") if is_stopping() else ("info", "progress")))

    def _measure(self) -> None:
        """Measure the processes. A job that uses the processor moves, also within a large shard."""
        spent = measure_processes().values()
        stalled, cpu = None, sum(one.seconds for one in spent)
        with self._lock:
            self._memory = sum(one.memory for one in spent)
            if abs(cpu - self._cpu) >= _BUSY:
                self._cpu, stalled = cpu, self._alarm.move(time.monotonic())
        self._tell_stall("info", "stall_over", stalled)

    def _tell_stall(self, level: Level, event: str, seconds: float | None) -> None:
        if seconds is not None:
            self._say(level, event, seconds=round(seconds, 3))

    def _say(self, level: Level, event: str, **fields: object) -> None:
        if self._log:
            head = {"level": level, "component": self._job, "event": event}
            self._log.write({**head, **(vars(self._now) if self._now else {}), **fields})

    def metrics(self) -> Iterator["Metric"]:
        """Yield every metric with its value, by stage."""
        self._measure()
        with self._lock:
            stages = dict(self._stages)
        own = {"up": ("1 while the job runs", 1), "memory_bytes": (_MEMORY_TEXT, self._memory)}
        for name, (text, value) in own.items():
            yield make_metric("gauge", f"ingot_{name}", text, [((self._job,), value)], ("job",))
        for kind, name, text in _STAGE_METRICS:
            amounts = [((self._job, stage), getattr(one, name)) for stage, one in stages.items()]
            yield make_metric(kind, f"ingot_{name}", text, amounts, ("job", "stage"))
