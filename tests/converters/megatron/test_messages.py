"""What the messages of a build add up to, and the latencies of its batches against numpy."""

from typing import Any

import numpy as np
import pytest

from ingot.converters.megatron.messages import (
    COUNTERS,
    LATENCY_BUCKETS,
    BatchTimes,
    BuildMeter,
    MessageSummary,
    log_event,
)
from ingot.converters.progress import Progress

PLAN = {"kind": "plan", "bytes": 1000, "files": 2, "units": 3}


def shown(*messages: dict[str, Any]) -> list[Progress]:
    """What a watch is told."""
    seen: list[Progress] = []
    meter = BuildMeter(seen.append)
    for message in messages:
        meter(message)
    return seen


def batch(reader: int, tokenizer: int, **more: int) -> dict[str, Any]:
    depths = {"queue_depth_reader": reader, "queue_depth_tok": tokenizer}
    return {"kind": "batch", "ms": 10.0, **depths, **more}


def test_amounts_add_up_over_workers() -> None:
    one = {"kind": "count", **{name: n for n, name in enumerate(COUNTERS, 1)}}
    last = shown(PLAN, one, {**one, "worker": 3}, {"kind": "count", "reader_seconds": 0.5})[-1]
    assert (last.rows, last.records, last.rejects, last.shards_done, last.shards) == (2, 4, 6, 8, 3)
    amounts = {name: 2 * n for n, name in enumerate(COUNTERS[4:], 5)}
    assert last.measures.amounts == amounts | {"reader_seconds": amounts["reader_seconds"] + 0.5}
    assert (last.stage, last.measures.phase) == ("tokens", "start")


def test_nothing_is_shown_before_it_is_known_what_there_is_to_do() -> None:
    begun = {"kind": "count", "tokens": 5}
    (one,) = shown(begun, PLAN)
    known = one.measures
    assert known.amounts["tokens"] == 5
    assert (known.values["input_bytes"], known.values["input_files"]) == (1000, 2)


def test_queues_are_summed_over_workers_and_end_with_a_phase() -> None:
    seen = shown(
        PLAN,
        {"kind": "phase", "phase": "read"},
        batch(3, 1, worker=0),
        batch(9, 9, worker=1),
        batch(2, 5, worker=1),
        {"kind": "phase", "phase": "merge"},
    )
    names = ("queue_depth_reader", "queue_depth_tok")
    depths = [tuple(one.measures.values[name] for name in names) for one in seen]
    assert depths == [(0, 0), (0, 0), (3, 1), (12, 10), (5, 6), (0, 0)]
    assert [one.measures.phase for one in seen[-2:]] == ["read", "merge"]


def test_lines_of_the_log_go_to_the_log_and_batches_are_timed() -> None:
    lines: list[Any] = []
    meter = BuildMeter(lambda _: None, lines.append)
    log_event(meter, "warn", "reader", "odd", file_path="a")
    meter(batch(0, 0))
    assert [one["event"] for one in lines] == ["odd"]
    assert (meter.batches.count, meter.batches.total) == (1, 10.0)


def test_what_a_task_elsewhere_says_is_the_same_in_sum() -> None:
    heard = MessageSummary()
    log_event(heard.hear, "info", "reader", "unheard")
    for _ in range(200):
        log_event(heard.hear, "warn", "reader", "heard")
        heard.hear({"kind": "count", "tokens": 2, "write_seconds": 0.25})
    *lines, sums = heard.messages()
    assert len(lines) == 100
    assert sums == {"kind": "count", "tokens": 400, "write_seconds": 50.0}


@pytest.mark.parametrize("odd", [{"kind": "new"}, {"kind": "batch"}, {"kind": "phase"}])
def test_messages_of_another_kind_are_passed_over(odd: dict[str, Any]) -> None:
    first, second = shown(PLAN, odd)
    assert first == second


@pytest.mark.parametrize("count", [1, 2, 10, 99, 1000, 100_000])
@pytest.mark.parametrize("spread", [0.01, 0.5, 3.0])
def test_percentiles_are_those_of_numpy_within_one_percent(count: int, spread: float) -> None:
    values = np.random.default_rng(count).lognormal(4, spread, count).clip(1e-3)
    times = BatchTimes()
    for value in values:
        times.add(float(value))
    for share in (0.0, 0.5, 0.9, 0.99, 1.0):
        exact = np.percentile(values, 100 * share, method="inverted_cdf")
        assert times.percentile(share) == pytest.approx(exact, rel=0.0101)
    assert times.total == pytest.approx(values.sum())


def test_buckets_are_cumulative_and_include_their_bounds() -> None:
    times = BatchTimes()
    values = [0.0, 1.0, 1.1, 2.5, 250.0, 60_000.0, 60_001.0, 1e12]
    for value in values:
        times.add(value)
    counted = dict(times.buckets())
    for bound in LATENCY_BUCKETS:
        assert counted[str(float(bound))] == sum(value <= bound for value in values)
    assert counted["+Inf"] == times.count == 8


@pytest.mark.parametrize("odd", [0.0, -5.0, float("nan"), float("inf"), 1e300, 5e-324])
def test_odd_values_are_counted_in_a_fixed_room(odd: float) -> None:
    times = BatchTimes()
    times.add(odd)
    found = times.percentile(0.5)
    assert found is not None
    assert 0 < found <= 1.01e9


def test_no_batches_no_percentiles() -> None:
    assert BatchTimes().percentile(0.5) is None
