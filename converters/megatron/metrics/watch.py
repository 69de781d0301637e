"""Watch a running build: log, metrics and progress bar from its messages; alarms when it stalls."""

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from ingot.converters.megatron.metrics.messages import (
    Message,
    MessageTotals,
    Rates,
    message_amounts,
    queue_fields,
)
from ingot.converters.megatron.metrics.summary import (
    BuildMeasures,
    BuildSummary,
    MetricsState,
    Resources,
    ResourceSample,
    eta_seconds,
    metric_families,
    metric_fields,
    summarize_build,
)
from ingot.converters.megatron.options import WatchOptions
from ingot.converters.output.monitoring import LogStream, StallAlarm, Watcher
from ingot.converters.progress import is_stopping
from ingot.converters.settings import Level

if TYPE_CHECKING:
    from prometheus_client.core import Metric


class Trouble(NamedTuple):
    """Why a build is not healthy: the alarm, as logs name it, and what happened."""

    alarm: Literal["error_rate", "stall"]
    detail: str

    def __str__(self) -> str:
        return f"{self.alarm}: {self.detail}"


class Alarms:
    """Sees trouble in the messages, and says each once; not safe for threads.

    Every method gives the `log` messages that are to be written.
    """

    def __init__(self, options: WatchOptions, now: float) -> None:
        self._limits = options
        self._stall = StallAlarm(options.stall_seconds, now)
        self._streaks = {"records": 0, "files": 0}

    def take(self, message: Message, totals: MessageTotals, now: float) -> list[Message]:
        """Look at one message, which `totals` has in it."""
        match message.get("kind"):
            case "batch":
                return self._move(now, totals)
            case "phase" | "plan":
                return self._move(now, totals) if "worker" not in message else []
            case "count":
                return self._failures(message)
        return []

    def check(self, totals: MessageTotals, now: float) -> list[Message]:
        """Look at the time."""
        waited = self._stall.notice(now) if totals.phase == "read" else None
        if waited is None:
            return []
        queues = queue_fields(totals.depths())
        where = _waiting_stage(totals)
        return [_log_message("warn", "stall", seconds=waited, error=where, **queues)]

    def trouble(self, totals: MessageTotals, now: float) -> Trouble | None:
        """Return why the build is not healthy, None if it is."""
        for what, streak in self._streaks.items():
            if streak > self._limits.error_streak:
                return Trouble("error_rate", f"{streak} {what} failed in a row")
        waited = self._stall.waited(now) if totals.phase == "read" else None
        if waited is None:
            return None
        detail = f"no batch went through for {waited:.0f} s; {_waiting_stage(totals)}"
        return Trouble("stall", detail)

    def _move(self, now: float, totals: MessageTotals) -> list[Message]:
        waited = self._stall.move(now)
        if waited is None:
            return []
        queues = queue_fields(totals.depths())
        return [_log_message("info", "stall_over", seconds=waited, **queues)]

    def _failures(self, message: Message) -> list[Message]:
        """Count failures in a row; a message that holds a success as well ends the row."""
        amounts = message_amounts(message)
        failed, lost = amounts["failed_records"], amounts["failed_files"]
        good = amounts["records"] > failed or amounts["documents"] > 0
        said = self._streak("records", failed, good=good)
        return said + self._streak("files", lost, good=amounts["files"] > lost)

    def _streak(self, what: str, failed: int, *, good: bool) -> list[Message]:
        before, limit = self._streaks[what], self._limits.error_streak
        after = 0 if good else before + failed
        self._streaks[what] = after
        if before <= limit < after:
            error = f"{after} {what} failed in a row, none succeeded"
            return [_log_message("error", "error_rate", error=error, error_count=after)]
        if before > limit > after:
            return [_log_message("info", "error_rate_over", error_count=before)]
        return []


def _log_message(level: Level, event: str, **fields: object) -> dict[str, object]:
    named = {"kind": "log", "level": level, "component": "pipeline", "event": event}
    rounded = {n: round(v, 3) if isinstance(v, float) else v for n, v in fields.items()}
    return {**named, **rounded}


def _waiting_stage(totals: MessageTotals) -> str:
    reader, tokenizer = totals.depths()
    if tokenizer:
        return f"{tokenizer} tokenized batches wait for the writer or for an earlier batch"
    if reader:
        return f"{reader} batches wait for the tokenizers, none for the writer"
    return "both queues are empty: the reader gives nothing"


_LOOK: Final = 1.0  # seconds between two looks at the time
_DRAW: Final = 0.2  # with somebody who draws progress
_SHORTEST: Final = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildProgress:
    """How far a build is."""

    phase: str  # `start`, `read`, `merge`, `done`
    # bytes_read, bytes_total: of the input files, compressed; a total of 0 is unknown
    bytes_read: int
    bytes_total: int
    records: int  # records, tokens: so far
    tokens: int
    tokens_per_sec: float  # over the last half minute
    eta: float | None  # seconds until all input is read, None if unknown
    trouble: Trouble | None  # why the build is not healthy, None if it is


class Watch(Watcher):
    """The monitor of a token build that is watched.

    Messages come from any thread; those of another process carry `worker`.
    """

    def __init__(self, options: WatchOptions) -> None:
        pause = max(min(options.interval, _DRAW if options.progress else _LOOK), _SHORTEST)
        served = options.exporter == "prometheus"
        super().__init__(pause, (options.host, options.port) if served else None)
        now = options.clock()
        self._options = options
        self._clock = options.clock
        self._looking = threading.Lock()
        self._log = LogStream(options.log_stream, options.log_level)
        self._totals = MessageTotals(now)
        self._alarms = Alarms(options, now)
        self._rates = Rates()
        self._rates.look(now, self._totals.counts)
        self._resources = Resources(options.clock)
        self._sample = ResourceSample()
        self._due = now + options.interval
        self._progress = options.progress

    def __call__(self, message: Message) -> None:
        """Take one message."""
        if message.get("kind") == "log":
            self._say([message])
            return
        with self._lock:
            now = self._clock()
            self._totals.take(message, now)
            said = self._alarms.take(message, self._totals, now)
        self._say(said)

    def end(self, error: BaseException | None) -> None:
        """Look a last time."""
        self.look(last=True)

    def trouble(self) -> str | None:
        """Return why the build is not healthy, None if it is."""
        with self._lock:
            return self._trouble_text(self._clock())

    def _trouble_text(self, now: float) -> str | None:
        trouble = self._alarms.trouble(self._totals, now)
        return str(trouble) if trouble else None

    def ready(self) -> bool:
        """Whether the build has opened its inputs and destination, and is not asked to end."""
        return self._totals.phase != "start" and not is_stopping()

    def look(self, *, last: bool = False) -> None:
        """Look at the time: alarms, progress, and what is due every interval."""
        with self._looking:
            with self._lock:
                now = self._clock()
                self._rates.look(now, self._totals.counts)
                said = self._alarms.check(self._totals, now)
                progress = self._read_progress(now)
            self._say(said)
            if self._progress is not None:
                try:
                    self._progress(progress)
                except OSError:
                    self._progress = None
            if last or now >= self._due:
                self._due = now + self._options.interval
                self._measure()

    def summary(self, measured: BuildMeasures | None = None) -> BuildSummary:
        """What the build did until now."""
        with self._looking:
            self._sample = self._resources.sample()
            with self._lock:
                return summarize_build(
                    self._totals,
                    self._clock(),
                    measured or BuildMeasures(),
                    peak=self._resources.peak_rss,
                    lost=self._log.lost,
                )

    def summary_log(self, summary: BuildSummary) -> None:
        """Write the line `summary` of the log, whatever its level."""
        self._line("summary", summary.to_document())

    def _measure(self) -> None:
        self._sample = self._resources.sample()
        if self._options.exporter == "stdout":
            with self._lock:
                shown = metric_fields(self._state())
            self._line("metrics", shown)

    def _read_progress(self, now: float) -> BuildProgress:
        """The progress; the lock is held."""
        totals, rates = self._totals, self._rates
        return BuildProgress(
            phase=totals.phase,
            bytes_read=totals.counts["bytes_read"],
            bytes_total=totals.planned["bytes"],
            records=totals.counts["records"],
            tokens=totals.counts["tokens"],
            tokens_per_sec=rates.per_second("tokens"),
            eta=eta_seconds(totals, rates),
            trouble=self._alarms.trouble(totals, now),
        )

    def _state(self) -> MetricsState:
        now = self._clock()
        return MetricsState(
            now=now,
            totals=self._totals,
            rates=self._rates,
            sample=self._sample,
            trouble=self._trouble_text(now),
            lost=self._log.lost,
        )

    def metrics(self) -> list["Metric"]:
        """Every metric with its value."""
        with self._lock:
            return list(metric_families(self._state()))

    def _say(self, messages: list[Message]) -> None:
        """Write the lines whose level is high enough."""
        for message in messages:
            if self._log.heard(message):
                self._log.write(message)

    def _line(self, event: str, shown: dict[str, object]) -> None:
        self._log.write(_log_message("info", event, **shown))
