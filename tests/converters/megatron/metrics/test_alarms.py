"""Stalls and streaks on a clock of the test's."""

from typing import Any

from ingot.converters.megatron.metrics.messages import MessageTotals
from ingot.converters.megatron.metrics.watch import Alarms
from ingot.converters.megatron.options import WatchOptions

BATCH = {"kind": "batch", "ms": 1.0}


class Build:
    """A build's totals and alarms, and what was said."""

    def __init__(self) -> None:
        self.now = 0.0
        self.totals = MessageTotals(0.0)
        self.alarms = Alarms(WatchOptions(stall_seconds=60, error_streak=3), 0.0)
        self.said: list[dict[str, Any]] = []

    def tell(self, **message: Any) -> None:
        self.totals.take(message, self.now)
        self.said += self.alarms.take(message, self.totals, self.now)

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.said += self.alarms.check(self.totals, self.now)

    @property
    def events(self) -> list[str]:
        return [one["event"] for one in self.said]

    @property
    def trouble(self) -> str | None:
        found = self.alarms.trouble(self.totals, self.now)
        return str(found) if found else None


def test_a_stall_is_said_once_and_its_end() -> None:
    build = Build()
    build.tell(kind="phase", phase="read")
    build.tell(kind="depth", reader=4, tokenizer=0)
    build.wait(60)
    assert build.events == []
    assert build.trouble is None
    build.wait(1)
    build.wait(100)
    assert build.events == ["stall"]
    assert build.said[0] == {
        "kind": "log",
        "level": "warn",
        "component": "pipeline",
        "event": "stall",
        "seconds": 61.0,
        "error": "4 batches wait for the tokenizers, none for the writer",
        "queue_depth_reader": 4,
        "queue_depth_tok": 0,
    }
    assert build.trouble == (
        "stall: no batch went through for 161 s; "
        "4 batches wait for the tokenizers, none for the writer"
    )
    build.tell(**BATCH)
    assert build.events == ["stall", "stall_over"]
    assert build.said[1]["seconds"] == 161.0
    assert build.trouble is None
    build.wait(61)
    assert build.events == ["stall", "stall_over", "stall"]


def test_a_stall_names_who_is_waited_for() -> None:
    for reader, tokenizer, who in ((0, 0, "reader"), (3, 0, "tokenizers"), (3, 2, "writer")):
        build = Build()
        build.tell(kind="depth", reader=reader, tokenizer=tokenizer, worker=0)
        build.wait(61)
        assert who in build.said[0]["error"]


def test_without_work_nothing_stalls() -> None:
    build = Build()
    build.wait(10_000)
    build.tell(kind="phase", phase="read")
    build.wait(50)
    build.tell(**BATCH)
    build.tell(kind="phase", phase="merge")
    build.wait(10_000)
    build.tell(kind="phase", phase="done")
    build.wait(10_000)
    assert build.events == []
    assert build.trouble is None


def test_trouble_is_seen_before_anyone_looked_at_the_time() -> None:
    build = Build()
    build.tell(**BATCH)
    build.now = 100.0
    assert build.trouble is not None
    assert build.events == []


def test_one_worker_that_moves_is_enough() -> None:
    build = Build()
    build.tell(kind="phase", phase="read", worker=0)
    for _ in range(10):
        build.wait(40)
        build.tell(**BATCH, worker=1)
    assert build.events == []


def test_a_streak_of_failed_records_is_said_once() -> None:
    build = Build()
    build.tell(kind="count", records=1, failed_records=1)
    build.tell(kind="count", records=2, failed_records=2, worker=1)
    assert build.trouble is None
    build.tell(kind="count", records=1, failed_records=1)
    build.tell(kind="count", records=1, failed_records=1)
    assert build.events == ["error_rate"]
    assert build.said[0]["level"] == "error"
    assert build.said[0]["error_count"] == 4
    assert build.trouble == "error_rate: 5 records failed in a row"
    build.tell(kind="count", bytes_read=5)
    build.tell(kind="count", records=10, failed_records=9)
    assert build.events == ["error_rate", "error_rate_over"]
    assert build.trouble is None
    build.tell(kind="count", failed_records=4)
    assert build.events[2:] == ["error_rate"]


def test_good_records_between_end_a_streak() -> None:
    build = Build()
    for _ in range(100):
        build.tell(kind="count", failed_records=3)
        build.tell(kind="count", documents=1)
    assert build.events == []


def test_a_streak_of_failed_files() -> None:
    build = Build()
    for _ in range(4):
        build.tell(kind="count", failed_files=1, files=1)
        build.tell(kind="count", records=100)
    assert build.events == ["error_rate"]
    assert build.trouble == "error_rate: 4 files failed in a row"
    build.tell(kind="count", files=1)
    assert build.trouble is None
