"""Define the messages that a token build sends while it runs, and their sums.

A message is a flat JSON object. The kinds:

    {"kind": "log", "level", "component", "event", ...fields}      one line of the log
    {"kind": "count", NAME: int, ...}                              amounts to add to the counters
    {"kind": "stage", "stage", "seconds"}                          time spent in a stage
    {"kind": "batch", "ms"}                                        a batch went through, latency
    {"kind": "depth", "reader": int, "tokenizer": int}             batches waiting in the queues
    {"kind": "plan", "bytes", "files", "units"}                    what there is to do, once
    {"kind": "phase", "phase"}                                     `read`, `merge`, `done`

Counters are `COUNTERS` and `error.TYPE`; those of another process carry `worker`.
"""

import math
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final, Literal, get_args

from ingot.converters.settings import Level

Component = Literal["scanner", "reader", "tokenizer", "writer", "pipeline"]
Stage = Literal["reader", "preprocess", "tokenize", "write", "index"]

Message = Mapping[str, object]
Monitor = Callable[[Message], None]  # takes messages from any thread, quickly, and never raises


def message_amounts(message: Message) -> Counter[str]:
    """Return the numbers of a `count` or `plan` message by name."""
    return Counter({name: value for name, value in message.items() if isinstance(value, int)})


def ignore_message(message: Message) -> None:
    """The monitor of a build that nobody watches."""


def log_event(
    monitor: Monitor, level: Level, component: Component, event: str, **fields: object
) -> None:
    """Send one line of the log."""
    monitor({"kind": "log", "level": level, "component": component, "event": event, **fields})


def queue_fields(depths: tuple[int, int]) -> dict[str, object]:
    """Return the fields of a line that say how many batches wait to be tokenized and written."""
    return {"queue_depth_reader": depths[0], "queue_depth_tok": depths[1]}


_MOST_LINES: Final = 100  # of the log that a task sends


@dataclass(kw_only=True)
class MessageSummary:
    """What a task elsewhere says of its work: sums, and the lines that people should see."""

    counts: Counter[str] = field(default_factory=Counter)
    stages: Counter[str] = field(default_factory=Counter)
    lines: list[Message] = field(default_factory=list)

    def hear(self, message: Message) -> None:
        """Take a message."""
        match message:
            case {"kind": "count"}:
                self.counts.update(message_amounts(message))
            case {"kind": "stage", "stage": str(stage), "seconds": int() | float() as seconds}:
                self.stages[stage] += seconds  # type: ignore[assignment]
            case {"kind": "log", "level": "warn" | "error"} if len(self.lines) < _MOST_LINES:
                self.lines.append(message)

    def messages(self) -> list[Message]:
        """All of it as messages."""
        stages = self.stages.items()
        told = [{"kind": "stage", "stage": name, "seconds": spent} for name, spent in stages]
        return [*self.lines, *told, {"kind": "count", **self.counts}]


# Upper bounds in milliseconds; beyond the last is `+Inf`.
LATENCY_BUCKETS: Final = (
    *(1, 2.5, 5, 10, 25, 50, 100, 250, 500),
    *(1000, 2500, 5000, 10000, 30000, 60000),
)
_STEP: Final = math.log(1.02)  # a class reaches 2 % above its lower end: its middle is 1 % off
_SHORTEST: Final = 1e-3
_LONGEST: Final = 1e9


class Latencies:
    """Counts of latencies by classes of equal ratio; not safe for threads."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self._buckets = [0] * (len(LATENCY_BUCKETS) + 1)
        self._classes: Counter[int] = Counter()

    def add(self, ms: float) -> None:
        """Count a latency in milliseconds; below a microsecond and past 11 days are the same."""
        kept = min(max(ms, _SHORTEST), _LONGEST) if not math.isnan(ms) else _SHORTEST
        self.count += 1
        self.total += kept
        self._buckets[bisect_left(LATENCY_BUCKETS, kept)] += 1
        self._classes[math.ceil(math.log(kept) / _STEP)] += 1

    def percentile(self, share: float) -> float | None:
        """The latency in ms that `share` (0 to 1) of the batches did not exceed, None without any.

        The one of rank `ceil(share * count)` (numpy's `inverted_cdf`), within 1 %.
        """
        if not self.count:
            return None
        left = max(1, math.ceil(share * self.count))
        for number in sorted(self._classes):
            left -= self._classes[number]
            if left <= 0:
                break
        return math.exp((number - 0.5) * _STEP)

    def buckets(self) -> list[tuple[str, float]]:
        """Prometheus's cumulative counts by upper bound, `+Inf` last."""
        bounds = [*map(str, map(float, LATENCY_BUCKETS)), "+Inf"]
        return list(zip(bounds, map(float, accumulate(self._buckets)), strict=True))


COUNTERS: Final = {
    "bytes_read": "Bytes of the input files read, compressed",
    "text_bytes": "Bytes of text tokenized",
    "records": "Records read",
    "documents": "Documents written",
    "tokens": "Tokens written",
    "bytes_written": "Bytes written",
    "failed_records": "Records that could not be tokenized",
    "filtered": "Records left out by the options",
    "files": "Input files finished",
    "failed_files": "Input files that failed",
    "units": "Units of work finished",
}
_ERROR: Final = "error."
_MOST_TYPES: Final = 64  # of errors: a name made of data must not become a metric each
_WINDOW: Final = 30.0


class MessageTotals:
    """What the messages of a build add up to; not safe for threads."""

    def __init__(self, now: float) -> None:
        self.started = now
        self.counts: Counter[str] = Counter()  # by the names of `COUNTERS`
        self.errors: Counter[str] = Counter()
        # seconds by stage, over all threads and processes
        self.stages: dict[str, float] = dict.fromkeys(get_args(Stage), 0.0)
        self.latencies = Latencies()
        self.planned = {"bytes": 0, "files": 0, "units": 0}  # what there is to do, 0 = unknown
        self.phase = "start"  # then `read`, `merge`, `done`
        self._phase_at = now
        self._phases: dict[str, float] = {}
        self._depths: dict[object, tuple[int, int]] = {}

    def take(self, message: Message, now: float) -> None:
        """Add one message; one of another kind is passed over."""
        match message:
            case {"kind": "count"}:
                self._count(message)
            case {"kind": "stage", "stage": str(stage), "seconds": int() | float() as seconds}:
                self.stages[stage] = self.stages.get(stage, 0.0) + seconds
            case {"kind": "batch", "ms": int() | float() as ms}:
                self.latencies.add(ms)
                self._reading(now)
            case {"kind": "depth", "reader": int(reader), "tokenizer": int(tokenizer)}:
                self._depths[message.get("worker")] = reader, tokenizer
                self._reading(now)
            case {"kind": "plan"}:
                amounts = message_amounts(message)
                self.planned |= {name: amounts[name] for name in self.planned}
            case {"kind": "phase", "phase": str(phase)}:
                self._enter(phase, message.get("worker"), now)

    def depths(self) -> tuple[int, int]:
        """Batches that wait to be tokenized and to be written, over all processes."""
        known = list(self._depths.values())
        return sum(reader for reader, _ in known), sum(tokenizer for _, tokenizer in known)

    def phases(self, now: float) -> dict[str, float]:
        """Seconds in every phase so far, `done` left out."""
        spent = dict(self._phases)
        spent[self.phase] = spent.get(self.phase, 0.0) + now - self._phase_at
        return {phase: seconds for phase, seconds in spent.items() if phase != "done"}

    def _count(self, message: Message) -> None:
        for name, amount in message_amounts(message).items():
            if name.startswith(_ERROR):
                kind = name.removeprefix(_ERROR)
                known = kind in self.errors or len(self.errors) < _MOST_TYPES
                self.errors[kind if known else "other"] += amount
            elif name in COUNTERS:
                self.counts[name] += amount

    def _reading(self, now: float) -> None:
        """Batches move: whoever did not say so is reading."""
        if self.phase == "start":
            self._enter("read", None, now)

    def _enter(self, phase: str, worker: object, now: float) -> None:
        """Go on to a phase. A worker's is its own, but the first that reads begins to read."""
        if worker is not None:
            if phase == "read":
                self._reading(now)
            else:
                self._depths.pop(worker, None)
            return
        if phase != "read":
            self._depths.clear()
        self._phases = self.phases(now)
        self.phase, self._phase_at = phase, now


class Rates:
    """Amounts per second over the last half minute, or since it began."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, Counter[str]]] = deque()

    def look(self, now: float, counts: Counter[str]) -> None:
        """Take the counts as they are now."""
        self._seen.append((now, counts.copy()))
        while len(self._seen) > 2 and self._seen[1][0] < now - _WINDOW:
            self._seen.popleft()

    def per_second(self, name: str) -> float:
        """Growth of a counter per second; 0 before two looks."""
        if len(self._seen) < 2:
            return 0.0
        (first, before), (last, after) = self._seen[0], self._seen[-1]
        return (after[name] - before[name]) / max(last - first, 1e-9)
