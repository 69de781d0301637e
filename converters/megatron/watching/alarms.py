"""When a running build is in trouble: nothing moves, or nothing succeeds any more."""

from dataclasses import dataclass

from ingot.converters.megatron.monitor import Level
from ingot.converters.megatron.watching.totals import Totals
from ingot.converters.rows import Json


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """How long and how often is too much.

    Attributes:
        stall_seconds: without a batch that went through, while there is work.
        error_streak: failures in a row, of records or of files, that are still borne.
    """

    stall_seconds: float
    error_streak: int


class Alarms:
    """Sees trouble in the messages, and says each once; not safe for threads.

    Every method gives the `log` messages that are to be written.
    """

    def __init__(self, limits: Limits, now: float) -> None:
        self._limits = limits
        self._moved = now
        self._stalled = False
        self._streaks = {"records": 0, "files": 0}

    def take(self, message: dict[str, Json], totals: Totals, now: float) -> list[dict[str, Json]]:
        """Look at one message, which `totals` has in it."""
        match message.get("kind"):
            case "batch":
                return self._move(now, totals)
            case "phase" | "plan":
                return self._move(now, totals) if "worker" not in message else []
            case "count":
                return self._failures(message)
        return []

    def check(self, totals: Totals, now: float) -> list[dict[str, Json]]:
        """Look at the time."""
        if self._stalled or self._stall(totals, now) is None:
            return []
        self._stalled = True
        where = _waiting(totals)
        return [_said("warn", "stall", seconds=now - self._moved, error=where, **_queues(totals))]

    def trouble(self, totals: Totals, now: float) -> str | None:
        """Why the build is not healthy, None if it is."""
        for what, streak in self._streaks.items():
            if streak > self._limits.error_streak:
                return f"error_rate: {streak} {what} failed in a row"
        return self._stall(totals, now)

    def _stall(self, totals: Totals, now: float) -> str | None:
        """The stall that there is now, in words."""
        waited = now - self._moved
        if totals.phase != "read" or waited <= self._limits.stall_seconds:
            return None
        return f"stall: no batch went through for {waited:.0f} s; {_waiting(totals)}"

    def _move(self, now: float, totals: Totals) -> list[dict[str, Json]]:
        """Something moved."""
        waited, stalled = now - self._moved, self._stalled
        self._moved, self._stalled = now, False
        if not stalled:
            return []
        return [_said("info", "stall_over", seconds=waited, **_queues(totals))]

    def _failures(self, message: dict[str, Json]) -> list[dict[str, Json]]:
        """Count failures in a row; a message that holds a success as well ends the row."""
        records, failed = message.get("records", 0), message.get("failed_records", 0)
        good = records > failed or message.get("documents", 0) > 0
        said = self._streak("records", failed, good=good)
        files, lost = message.get("files", 0), message.get("failed_files", 0)
        return said + self._streak("files", lost, good=files > lost)

    def _streak(self, what: str, failed: int, *, good: bool) -> list[dict[str, Json]]:
        """Go on with a row of failures, or end it."""
        before, limit = self._streaks[what], self._limits.error_streak
        after = 0 if good else before + failed
        self._streaks[what] = after
        if before <= limit < after:
            error = f"{after} {what} failed in a row, none succeeded"
            return [_said("error", "error_rate", error=error, error_count=after)]
        return (
            [_said("info", "error_rate_over", error_count=before)] if before > limit > after else []
        )


def _said(level: Level, event: str, **fields: Json) -> dict[str, Json]:
    """A `log` message of the pipeline."""
    named = {"kind": "log", "level": level, "component": "pipeline", "event": event}
    rounded = {n: round(v, 3) if isinstance(v, float) else v for n, v in fields.items()}
    return {**named, **rounded}


def _queues(totals: Totals) -> dict[str, Json]:
    """The queues' depths as the log names them."""
    reader, tokenizer = totals.depths()
    return {"queue_depth_reader": reader, "queue_depth_tok": tokenizer}


def _waiting(totals: Totals) -> str:
    """Which stage the batches wait for."""
    reader, tokenizer = totals.depths()
    if tokenizer:
        return f"{tokenizer} tokenized batches wait for the writer or for an earlier batch"
    if reader:
        return f"{reader} batches wait for the tokenizers, none for the writer"
    return "both queues are empty: the reader gives nothing"
