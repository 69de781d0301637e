"""Define the messages that a token build sends while it runs, and add them up to its progress.

A message is a flat JSON object. The kinds:

    {"kind": "log", "level", "component", "event", ...fields}      one line of the log
    {"kind": "count", NAME: number, ...}                           amounts to add to the counters
    {"kind": "batch", "ms", "queue_depth_reader", "queue_depth_tok"}   a batch went through
    {"kind": "plan", "bytes", "files", "units"}                    what there is to do
    {"kind": "phase", "phase"}                                     `read`, `merge`, `done`

The counters are `COUNTERS`; messages of another process carry `worker`.
"""

import math
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final, Literal

from ingot.converters.progress import Clock, JobMeasures, Progress, Watch
from ingot.converters.settings import Level

Component = Literal["scanner", "reader", "tokenizer", "writer", "pipeline"]

Message = Mapping[str, object]
Monitor = Callable[[Message], None]  # takes messages from any thread, quickly, and never raises


def ignore_message(message: Message) -> None:
    """Ignore a message: the monitor of a build that nobody watches."""


def log_event(
    monitor: Monitor, level: Level, component: Component, event: str, **fields: object
) -> None:
    """Send one line of the log."""
    monitor({"kind": "log", "level": level, "component": component, "event": event, **fields})


def queue_fields(depths: tuple[int, int]) -> dict[str, int]:
    """Return the fields that say how many batches wait to be tokenized and written."""
    return {"queue_depth_reader": depths[0], "queue_depth_tok": depths[1]}


def _read_numbers(message: Message) -> Counter[str]:
    """Return the numbers of a message by name."""
    numbers: Counter[str] = Counter()
    for name, value in message.items():
        if isinstance(value, int | float) and name != "worker":
            numbers[name] = value  # type: ignore[assignment]
    return numbers


_MOST_LINES: Final = 100  # of the log that a task sends


@dataclass(kw_only=True)
class MessageSummary:
    """What a task elsewhere says of its work: sums, and the lines that people should see."""

    counts: Counter[str] = field(default_factory=Counter)
    lines: list[Message] = field(default_factory=list)

    def hear(self, message: Message) -> None:
        """Take a message."""
        match message:
            case {"kind": "count"}:
                self.counts.update(_read_numbers(message))
            case {"kind": "log", "level": "warn" | "error"} if len(self.lines) < _MOST_LINES:
                self.lines.append(message)

    def messages(self) -> list[Message]:
        """Return all of it as messages."""
        return [*self.lines, {"kind": "count", **self.counts}]


# Upper bounds in milliseconds; beyond the last is `+Inf`.
LATENCY_BUCKETS: Final = (
    *(1, 2.5, 5, 10, 25, 50, 100, 250, 500),
    *(1000, 2500, 5000, 10000, 30000, 60000),
)
_STEP: Final = math.log(1.02)  # a class reaches 2 % above its lower end: its middle is 1 % off
_SHORTEST: Final = 1e-3
_LONGEST: Final = 1e9


class BatchTimes:
    """Counts of latencies by classes of equal ratio; not safe for threads."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self._buckets = [0] * (len(LATENCY_BUCKETS) + 1)
        self._classes: Counter[int] = Counter()

    def add(self, ms: float) -> None:
        """Count a latency in milliseconds; below a microsecond and past 11 days are the same."""
        bounded = min(max(ms, _SHORTEST), _LONGEST) if not math.isnan(ms) else _SHORTEST
        self.count += 1
        self.total += bounded
        self._buckets[bisect_left(LATENCY_BUCKETS, bounded)] += 1
        self._classes[math.ceil(math.log(bounded) / _STEP)] += 1

    def percentile(self, share: float) -> float | None:
        """Return the ms that `share` (0 to 1) of the batches did not exceed, None without any.

        The one of rank `ceil(share * count)` (numpy's `inverted_cdf`), within 1 %.
        """
        if not self.count:
            return None
        remaining = max(1, math.ceil(share * self.count))
        for number in sorted(self._classes):
            remaining -= self._classes[number]
            if remaining <= 0:
                break
        return math.exp((number - 0.5) * _STEP)

    def buckets(self) -> list[tuple[str, float]]:
        """Return Prometheus's cumulative counts by upper bound, `+Inf` last."""
        bounds = [*map(str, map(float, LATENCY_BUCKETS)), "+Inf"]
        return list(zip(bounds, map(float, accumulate(self._buckets)), strict=True))


STAGES: Final = ("reader", "preprocess", "tokenize", "write", "index")
ERRORS: Final = ("engine", "read", "worker")
# Those that `Progress` has names of its own for stand first.
COUNTERS: Final = (
    *("records", "documents", "failed_records", "units"),
    *("bytes_read", "text_bytes", "tokens", "bytes_written", "filtered", "files", "failed_files"),
    *(f"{stage}_seconds" for stage in STAGES),  # over all threads and processes
    *(f"{kind}_errors" for kind in ERRORS),
)
_OWN: Final = 4


class BuildMeter:
    """Adds the messages of a token build up to a progress, and shows it; a `Monitor`.

    Rows are the records that were read, records the documents that were written, shards the units.

    Args:
        watch: takes the progress.
        log: takes the lines of the log.
    """

    def __init__(self, watch: Watch, log: Monitor = ignore_message) -> None:
        self.counts: Counter[str] = Counter(dict.fromkeys(COUNTERS, 0))
        self.batches = BatchTimes()
        self._watch, self._log = watch, log
        self._lock = threading.Lock()
        self._clock, self._phase = Clock(), "start"
        self._planned: Counter[str] = Counter()
        self._depths: dict[object, tuple[int, int]] = {}  # by process, after its last batch

    def __call__(self, message: Message) -> None:
        """Take one message, from any thread."""
        if message["kind"] == "log":
            self._log(message)
            return
        with self._lock:
            self._add(message)
            if self._planned:
                self._watch(self._progress())

    def phases(self) -> dict[str, float]:
        """Return the seconds of every phase so far, `done` left out."""
        return {name: spent for name, spent in self._clock.seconds().items() if name != "done"}

    def _add(self, message: Message) -> None:
        match message:
            case {"kind": "count"}:
                self.counts.update(_read_numbers(message))
            case {
                "kind": "batch",
                "ms": int() | float() as ms,
                "queue_depth_reader": int(reader),
                "queue_depth_tok": int(tokenizer),
            }:
                self.batches.add(ms)
                self._depths[message.get("worker")] = reader, tokenizer
            case {"kind": "plan"}:
                self._planned = _read_numbers(message)
            case {"kind": "phase", "phase": str(phase)}:
                self._phase = phase
                self._clock.start(phase)
                self._depths.clear()

    def _progress(self) -> Progress:
        counts, planned = self.counts, self._planned
        reader, tokenizer = (sum(one[number] for one in self._depths.values()) for number in (0, 1))
        planned_input = {"input_bytes": planned["bytes"], "input_files": planned["files"]}
        measures = JobMeasures(
            phase=self._phase,
            amounts={name: counts[name] for name in COUNTERS[_OWN:]},
            values={**planned_input, **queue_fields((reader, tokenizer))},
            batches=self.batches,
        )
        return Progress(
            stage="tokens",
            shards_done=counts["units"],
            shards=planned["units"],
            rows=counts["records"],
            records=counts["documents"],
            rejects=counts["failed_records"],
            measures=measures,
        )
