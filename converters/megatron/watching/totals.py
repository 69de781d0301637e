"""The sums of a build's messages: counters, errors, stages, latencies, queues, phases."""

from collections import Counter, deque
from typing import Final

from ingot.converters.megatron.monitor import STAGES
from ingot.converters.megatron.watching.latency import Latencies
from ingot.converters.rows import Json

# Counters of monitor.py; `error.TYPE` are counted apart.
COUNTERS: Final = (
    "bytes_read",
    "text_bytes",
    "records",
    "documents",
    "tokens",
    "bytes_written",
    "failed_records",
    "filtered",
    "files",
    "failed_files",
    "units",
)
_ERROR: Final = "error."
_MOST_TYPES: Final = 64  # of errors: a name made of data must not become a metric each
_WINDOW: Final = 30.0


class Totals:
    """What the messages of a build add up to; not safe for threads.

    Args:
        now: seconds on the clock that every other method is given the time by.

    Attributes:
        started: when the watch began.
        counts: by the names of `COUNTERS`.
        errors: by type.
        stages: seconds by stage, over all threads and processes.
        latencies: of batches.
        planned: bytes, files and units there are to do, 0 = unknown.
        phase: `start`, then the phases of monitor.py.
    """

    def __init__(self, now: float) -> None:
        self.started = now
        self.counts: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.stages: dict[str, float] = dict.fromkeys(STAGES, 0.0)
        self.latencies = Latencies()
        self.planned = {"bytes": 0, "files": 0, "units": 0}
        self.phase = "start"
        self._phase_at = now
        self._phases: dict[str, float] = {}
        self._depths: dict[Json, tuple[int, int]] = {}

    def take(self, message: dict[str, Json], now: float) -> None:
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
                self.planned |= {name: message.get(name, 0) for name in self.planned}
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

    def _count(self, message: dict[str, Json]) -> None:
        """Add the amounts of a `count` message."""
        for name, amount in message.items():
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

    def _enter(self, phase: str, worker: Json, now: float) -> None:
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
        self._seen: deque[tuple[float, dict[str, int]]] = deque()

    def look(self, now: float, counts: Counter[str]) -> None:
        """Take the counts as they are now."""
        self._seen.append((now, {name: counts[name] for name in COUNTERS}))
        while len(self._seen) > 2 and self._seen[1][0] < now - _WINDOW:
            self._seen.popleft()

    def per_second(self, name: str) -> float:
        """Growth of a counter per second; 0 before two looks."""
        if len(self._seen) < 2:
            return 0.0
        (first, before), (last, after) = self._seen[0], self._seen[-1]
        return (after[name] - before[name]) / max(last - first, 1e-9)
