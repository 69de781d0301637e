"""The state of a build as fields of a line and as families; the values over HTTP: test_watch."""

from collections import Counter

import pytest
from prometheus_client import generate_latest
from prometheus_client.openmetrics import exposition
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families

from ingot.converters.megatron.metrics.messages import MessageTotals, Rates
from ingot.converters.megatron.metrics.summary import (
    MetricsState,
    ResourceSample,
    eta_seconds,
    metric_families,
    metric_fields,
)
from ingot.converters.output.monitoring import make_registry


def state_of(
    totals: MessageTotals, rates: Rates | None = None, trouble: str | None = None
) -> MetricsState:
    return MetricsState(
        now=20.0,
        totals=totals,
        rates=rates or Rates(),
        sample=ResourceSample(cpu_pct=151.26, rss=5, disk_read=1.5, disk_write=0.25, processes=3),
        trouble=trouble,
        lost=4,
    )


def test_a_build_that_has_not_begun() -> None:
    shown = metric_fields(state_of(MessageTotals(0.0)))
    assert shown["phase"] == "start"
    assert shown["latency_ms_p50"] is shown["eta_seconds"] is None
    assert shown["cpu_pct"] == 151.3
    assert "error" not in shown
    assert metric_fields(state_of(MessageTotals(0.0), trouble="stall: x"))["error"] == "stall: x"


def test_time_left_is_that_of_the_input_at_the_last_rate() -> None:
    totals, rates = MessageTotals(0.0), Rates()
    assert eta_seconds(totals, rates) is None
    totals.take({"kind": "plan", "bytes": 1000}, 0.0)
    totals.take({"kind": "phase", "phase": "read"}, 0.0)
    rates.look(0.0, Counter())
    assert eta_seconds(totals, rates) is None
    totals.take({"kind": "count", "bytes_read": 400}, 10.0)
    rates.look(10.0, totals.counts)
    assert eta_seconds(totals, rates) == pytest.approx(15)
    totals.take({"kind": "count", "bytes_read": 700}, 10.0)
    assert eta_seconds(totals, rates) == 0
    totals.take({"kind": "phase", "phase": "merge"}, 10.0)
    assert eta_seconds(totals, rates) is None


def test_hostile_types_of_errors_are_labels() -> None:
    totals = MessageTotals(0.0)
    hostile = ['a"b\\c\nd', "\udcff", "x" * 10_000, "\x1b[31m", ""]
    totals.take({"kind": "count", **{f"error.{one}": 1 for one in hostile}}, 1.0)
    registry = make_registry(lambda: list(metric_families(state_of(totals))))
    text = generate_latest(registry).decode()
    assert [*open_metrics(exposition.generate_latest(registry).decode())]
    found = {one.name: one for one in text_string_to_metric_families(text)}["parquet2mbt_error"]
    labels = {one.labels["type"] for one in found.samples if one.name.endswith("_total")}
    assert labels == {'a"b\\c\nd', "\\udcff", "x" * 100, "\x1b[31m", ""}
