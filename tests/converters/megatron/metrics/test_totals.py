"""What messages add up to."""

from collections import Counter
from typing import Any

import pytest

from ingot.converters.megatron.metrics.messages import COUNTERS, MessageTotals, Rates


def totals_of(*messages: dict[str, Any]) -> MessageTotals:
    totals = MessageTotals(0.0)
    for at, message in enumerate(messages):
        totals.take(message, float(at))
    return totals


def test_amounts_add_up_over_workers() -> None:
    one = {
        "kind": "count",
        **{name: n for n, name in enumerate(COUNTERS, 1)},
        "error.bad_utf8": 2,
    }
    totals = totals_of(one, {**one, "worker": 3}, {"kind": "count", "error.too_long": 1})
    assert totals.counts == {name: 2 * n for n, name in enumerate(COUNTERS, 1)}
    assert totals.errors == {"bad_utf8": 4, "too_long": 1}


def test_types_of_errors_are_few() -> None:
    totals = totals_of(*({"kind": "count", f"error.e{n}": 1} for n in range(1000)))
    assert len(totals.errors) == 65
    assert totals.errors["other"] == 936


def test_stages_and_latencies() -> None:
    totals = totals_of(
        {"kind": "stage", "stage": "tokenize", "seconds": 1.5},
        {"kind": "stage", "stage": "tokenize", "seconds": 1, "worker": 1},
        {"kind": "batch", "ms": 10.0},
    )
    assert totals.stages == {"reader": 0, "preprocess": 0, "tokenize": 2.5, "write": 0, "index": 0}
    assert totals.latencies.count == 1


def test_queues_are_summed_over_workers_and_end_with_them() -> None:
    totals = totals_of(
        {"kind": "depth", "reader": 3, "tokenizer": 1, "worker": 0},
        {"kind": "depth", "reader": 9, "tokenizer": 9, "worker": 1},
        {"kind": "depth", "reader": 2, "tokenizer": 5, "worker": 1},
    )
    assert totals.depths() == (5, 6)
    totals.take({"kind": "phase", "phase": "done", "worker": 1}, 4.0)
    assert totals.depths() == (3, 1)
    assert totals.phase == "read"
    totals.take({"kind": "phase", "phase": "merge"}, 5.0)
    assert totals.depths() == (0, 0)


def test_time_by_phase() -> None:
    totals = totals_of(
        {"kind": "plan", "bytes": 10, "files": 2, "units": 3},
        {"kind": "count"},
        {"kind": "phase", "phase": "read"},
        {"kind": "batch", "ms": 1},
        {"kind": "batch", "ms": 1},
        {"kind": "phase", "phase": "merge"},
        {"kind": "phase", "phase": "done"},
    )
    assert totals.phases(100.0) == {"start": 2.0, "read": 3.0, "merge": 1.0}
    assert totals.planned == {"bytes": 10, "files": 2, "units": 3}


@pytest.mark.parametrize(
    "first",
    [
        {"kind": "batch", "ms": 1},
        {"kind": "depth", "reader": 1, "tokenizer": 0},
        {"kind": "phase", "phase": "read", "worker": 2},
    ],
)
def test_the_first_batch_begins_to_read(first: dict[str, Any]) -> None:
    assert totals_of({"kind": "plan"}, first).phase == "read"


@pytest.mark.parametrize(
    "odd", [{}, {"kind": "new"}, {"kind": "batch"}, {"kind": "depth", "reader": "x"}, {"kind": 5}]
)
def test_messages_of_another_kind_are_passed_over(odd: dict[str, Any]) -> None:
    totals = totals_of(odd)
    assert (totals.phase, totals.latencies.count, totals.depths()) == ("start", 0, (0, 0))


def test_rates_are_those_of_the_last_half_minute() -> None:
    rates = Rates()
    assert rates.per_second("tokens") == 0
    for second in range(101):
        slow = 100 * min(second, 50) + 10 * max(second - 50, 0)
        rates.look(float(second), Counter(tokens=slow))
    assert rates.per_second("tokens") == pytest.approx(10)
    rates.look(100.0, Counter(tokens=slow))
    assert rates.per_second("tokens") == pytest.approx(10)
