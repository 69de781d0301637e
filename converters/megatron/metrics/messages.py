"""Define the messages that a token build sends while it runs, their sums and the lines of its log.

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

import json
import math
import sys
import threading
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from itertools import accumulate
from typing import IO, Final, Literal, get_args

import orjson

from ingot.converters.json_yaml import shorten_text
from ingot.converters.megatron.options import Level

Component = Literal["scanner", "reader", "tokenizer", "writer", "pipeline"]
Stage = Literal["reader", "preprocess", "tokenize", "write", "index"]

LOG_LEVELS: Final[tuple[Level, ...]] = get_args(Level)

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


MAX_LINE: Final = 16_384
_LARGEST: Final = 2**63 - 1
# Characters of a text and members of a list or object: as a rule, and where the line is too long.
_ROOMY: Final = (2_000, 64)
_TIGHT: Final = (100, 8)
_DEPTH: Final = 4
_CUT: Final = "…"  # how many more there were follows
_HEAD: Final = ("level", "component", "event")


def log_line(message: Message, moment: datetime) -> bytes:
    """The line of a `log` message, with its line break: valid JSON, at most `MAX_LINE` bytes."""
    named = {name: message.get(name, "") for name in _HEAD}
    rest = {n: v for n, v in message.items() if n not in named and n not in ("kind", "ts")}
    ts = moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    for text, members in (_ROOMY, _TIGHT):
        fields = _tidy_fields({**named, **rest}, text, members + len(named), _DEPTH)
        line = _escape_line(orjson.dumps({"ts": ts, **fields}))
        if len(line) <= MAX_LINE:
            return line
    head = _tidy_fields(named, _TIGHT[0], len(named), 1)
    return _escape_line(orjson.dumps({"ts": ts, **head, "fields_left_out": len(rest)}))


class LogStream:
    """Where the lines of a build go; takes messages from any thread and never raises."""

    def __init__(self, stream: IO[bytes] | None, level: Level) -> None:
        self.lost = 0
        self._stream: IO[bytes] | None = _unbuffered_stream(stream)
        self._lowest = LOG_LEVELS.index(level)
        self._torn = False
        self._lock = threading.Lock()

    def heard(self, message: Message) -> bool:
        """Whether the level of a message is high enough; an unknown level is."""
        level = message.get("level")
        return level not in LOG_LEVELS or LOG_LEVELS.index(level) >= self._lowest

    def write(self, message: Message) -> None:
        """Write the line of a `log` message, whatever its level, or count it as lost."""
        line = log_line(message, datetime.now(UTC))
        with self._lock:
            if self._stream is None:
                self.lost += 1
                return
            try:  # a torn line is ended before the next
                self._torn = not _write_whole(self._stream, b"\n" + line if self._torn else line)
            except (BrokenPipeError, ValueError):
                self._stream = None  # nobody reads it any more, or it is closed
                self._torn = True
            except OSError:
                self._torn = True
            self.lost += self._torn


def _unbuffered_stream(stream: IO[bytes] | None) -> IO[bytes] | None:
    """The stream below the buffers: what a failed write leaves in a buffer fails again at exit."""
    buffered = getattr(sys.stdout, "buffer", None) if stream is None else stream
    if buffered is None:
        return None
    try:
        (sys.stdout if stream is None else buffered).flush()
    except (OSError, ValueError):
        return None
    raw: IO[bytes] = getattr(buffered, "raw", buffered)
    return raw


def _write_whole(stream: IO[bytes], line: bytes) -> bool:
    """Whether the whole line went out; a stream may take a part of it."""
    left = memoryview(line)
    while left:
        taken = stream.write(left)
        if not taken:
            return False
        left = left[taken:]
    stream.flush()
    return True


def _tidy_fields(
    fields: dict[str, object], text: int, members: int, depth: int
) -> dict[str, object]:
    some = list(fields.items())[:members]
    kept = {_cut_text(str(k), _TIGHT[0]): _tidy_value(v, text, members, depth - 1) for k, v in some}
    return kept if len(fields) <= members else {**kept, _CUT: len(fields) - members}


def _tidy_value(value: object, text: int, members: int, depth: int) -> object:
    """The value as orjson takes it: texts valid and cut, few members, no depth."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        return float(value)
    if isinstance(value, int):
        return int(value) if -_LARGEST <= value <= _LARGEST else _cut_text(hex(value), text)
    if depth and isinstance(value, dict):
        return _tidy_fields(value, text, members, depth)
    if depth and isinstance(value, list | tuple):
        several = [_tidy_value(one, text, members, depth - 1) for one in value[:members]]
        return several if len(value) <= members else [*several, f"{_CUT} {len(value) - members}"]
    return _cut_text(value if isinstance(value, str) else f"({type(value).__name__})", text)


def _cut_text(text: str, limit: int) -> str:
    """The text without lone surrogates, cut with a mark."""
    return shorten_text(text, limit).encode("utf-8", "backslashreplace").decode()


def _escape_line(line: bytes) -> bytes:
    """The line with its break; what no terminal should be sent is escaped as JSON does."""
    shown = line.decode()
    if not shown.isprintable():
        shown = "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in shown)
    return shown.encode() + b"\n"
