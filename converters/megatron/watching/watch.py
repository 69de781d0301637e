"""Watches a running build: takes its messages, tells the log, the metrics and the progress bar."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import IO, TYPE_CHECKING, Final, Literal

from ingot.converters.megatron.monitor import Level
from ingot.converters.megatron.watching.alarms import Alarms, Limits
from ingot.converters.megatron.watching.lines import LogStream
from ingot.converters.megatron.watching.metrics import (
    State,
    eta_seconds,
    families,
    fields,
    registry_of,
)
from ingot.converters.megatron.watching.resources import Resources, Sample
from ingot.converters.megatron.watching.serving import MetricsServer
from ingot.converters.megatron.watching.summary import Measured, Summary, summarize
from ingot.converters.megatron.watching.totals import Rates, Totals
from ingot.converters.rows import Json

if TYPE_CHECKING:
    from prometheus_client.core import Metric

Exporter = Literal["none", "stdout", "prometheus"]
_LOOK: Final = 1.0  # seconds between two looks at the time
_DRAW: Final = 0.2  # with somebody who draws progress
_SHORTEST: Final = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """How far a build is.

    Attributes:
        phase: `start`, `read`, `merge`, `done`.
        bytes_read, bytes_total: of the input files, compressed; a total of 0 is unknown.
        records, tokens: so far.
        tokens_per_sec: over the last half minute.
        eta: seconds until all input is read, None if unknown.
        trouble: why the build is not healthy, None if it is.
    """

    phase: str
    bytes_read: int
    bytes_total: int
    records: int
    tokens: int
    tokens_per_sec: float
    eta: float | None
    trouble: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class WatchOptions:
    """Where and how a build is shown.

    Attributes:
        log_level: lines below it are not written.
        log_stream: binary stream of the log, None = standard output; not closed.
        exporter: `stdout` writes a line `metrics` into the log, whatever its level, every
            `interval` and at the end; `prometheus` serves HTTP; `none` does neither.
        interval: seconds between two samples of the machine, over 0.
        host, port: of the HTTP server; all interfaces, as a pod needs it; port 0 = any free one.
        progress: called with the progress, from one thread; ended by an `OSError` of its own.
        stall_seconds: without a finished batch until the build counts as stalled.
        error_streak: records (or files) failed in a row that are still borne.
        clock: seconds that only grow.
    """

    log_level: Level = "info"
    log_stream: IO[bytes] | None = None
    exporter: Exporter = "stdout"
    interval: float = 5.0
    host: str = "0.0.0.0"
    port: int = 9464
    progress: Callable[[Progress], None] | None = None
    stall_seconds: float = 300.0
    error_streak: int = 1000
    clock: Callable[[], float] = time.monotonic


class Watch:
    """The monitor of a build that is watched; a context manager, whose thread looks at the time.

    Messages come from any thread; those of another process carry `worker`.

    Raises:
        ConversionError: on entering: the port of the metrics cannot be had.
    """

    def __init__(self, options: WatchOptions) -> None:
        now = options.clock()
        self._options = options
        self._clock = options.clock
        self._lock = threading.Lock()
        self._looking = threading.Lock()
        self._log = LogStream(options.log_stream, options.log_level)
        self._totals = Totals(now)
        self._alarms = Alarms(
            Limits(stall_seconds=options.stall_seconds, error_streak=options.error_streak), now
        )
        self._rates = Rates()
        self._rates.look(now, self._totals.counts)
        self._resources = Resources(options.clock)
        self._sample = Sample()
        self._due = now + options.interval
        self._progress = options.progress
        self._server: MetricsServer | None = None
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()

    def __call__(self, message: dict[str, Json]) -> None:
        """Take one message."""
        if message.get("kind") == "log":
            if self._log.heard(message):
                self._log.write(message)
            return
        with self._lock:
            now = self._clock()
            self._totals.take(message, now)
            said = self._alarms.take(message, self._totals, now)
        self._say(said)

    def __enter__(self) -> "Watch":
        if self._options.exporter == "prometheus":
            registry = registry_of(self._families)
            options = self._options
            self._server = MetricsServer(options.host, options.port, registry, self.trouble)
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def port(self) -> int | None:
        """The port that is served, None without a server."""
        return self._server.port if self._server else None

    def close(self) -> None:
        """Look a last time, stop the thread and the server; again is no harm."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._ended.set()
        thread.join()
        self.look(last=True)
        if self._server:
            self._server.close()

    def trouble(self) -> str | None:
        """Why the build is not healthy, None if it is."""
        with self._lock:
            return self._alarms.trouble(self._totals, self._clock())

    def look(self, *, last: bool = False) -> None:
        """Look at the time: alarms, progress, and what is due every interval.

        Args:
            last: all of it is due.
        """
        with self._looking:
            with self._lock:
                now = self._clock()
                self._rates.look(now, self._totals.counts)
                said = self._alarms.check(self._totals, now)
                progress = self._so_far(now)
            self._say(said)
            self._show(progress)
            if last or now >= self._due:
                self._due = now + self._options.interval
                self._measure()

    def summary(self, measured: Measured | None = None) -> Summary:
        """What the build did until now.

        Args:
            measured: the engine, and what engine and disk can do by themselves.
        """
        with self._looking:
            self._sample = self._resources.sample()
            with self._lock:
                return summarize(
                    self._totals,
                    self._clock(),
                    measured or Measured(),
                    peak=self._resources.peak_rss,
                    lost=self._log.lost,
                )

    def summary_log(self, summary: Summary) -> None:
        """Write the line `summary` of the log, whatever its level."""
        self._line("summary", summary.to_document())

    def _run(self) -> None:
        """Look until it is over."""
        pause = max(min(self._options.interval, _DRAW if self._progress else _LOOK), _SHORTEST)
        while not self._ended.wait(pause):
            self.look()

    def _measure(self) -> None:
        """Sample the machine; write the line `metrics`."""
        self._sample = self._resources.sample()
        if self._options.exporter == "stdout":
            with self._lock:
                shown = fields(self._state())
            self._line("metrics", shown)

    def _show(self, progress: Progress) -> None:
        """Tell who draws the progress, while there is a terminal to draw on."""
        if self._progress is None:
            return
        try:
            self._progress(progress)
        except OSError:
            self._progress = None

    def _so_far(self, now: float) -> Progress:
        """The progress; the lock is held."""
        totals, rates = self._totals, self._rates
        return Progress(
            phase=totals.phase,
            bytes_read=totals.counts["bytes_read"],
            bytes_total=totals.planned["bytes"],
            records=totals.counts["records"],
            tokens=totals.counts["tokens"],
            tokens_per_sec=rates.per_second("tokens"),
            eta=eta_seconds(totals, rates),
            trouble=self._alarms.trouble(totals, now),
        )

    def _state(self) -> State:
        """All there is to export; the lock is held."""
        now = self._clock()
        return State(
            now=now,
            totals=self._totals,
            rates=self._rates,
            sample=self._sample,
            trouble=self._alarms.trouble(self._totals, now),
            lost=self._log.lost,
        )

    def _families(self) -> list["Metric"]:
        """The metrics for one scrape."""
        with self._lock:
            return list(families(self._state()))

    def _say(self, messages: list[dict[str, Json]]) -> None:
        """Write the lines of alarms whose level is high enough."""
        for message in messages:
            if self._log.heard(message):
                self._log.write(message)

    def _line(self, event: str, shown: dict[str, Json]) -> None:
        """Write a line of the pipeline."""
        head = {"kind": "log", "level": "info", "component": "pipeline", "event": event}
        self._log.write({**head, **shown})
