"""Percentiles and buckets of latencies against numpy."""

import numpy as np
import pytest

from ingot.converters.megatron.metrics.messages import LATENCY_BUCKETS, Latencies


@pytest.mark.parametrize("count", [1, 2, 10, 99, 1000, 100_000])
@pytest.mark.parametrize("spread", [0.01, 0.5, 3.0])
def test_percentiles_are_those_of_numpy_within_one_percent(count: int, spread: float) -> None:
    values = np.random.default_rng(count).lognormal(4, spread, count).clip(1e-3)
    latencies = Latencies()
    for value in values:
        latencies.add(float(value))
    for share in (0.0, 0.5, 0.9, 0.99, 1.0):
        exact = np.percentile(values, 100 * share, method="inverted_cdf")
        assert latencies.percentile(share) == pytest.approx(exact, rel=0.0101)
    assert latencies.total == pytest.approx(values.sum())


def test_buckets_are_cumulative_and_include_their_bounds() -> None:
    latencies = Latencies()
    values = [0.0, 1.0, 1.1, 2.5, 250.0, 60_000.0, 60_001.0, 1e12]
    for value in values:
        latencies.add(value)
    counted = dict(latencies.buckets())
    for bound in LATENCY_BUCKETS:
        assert counted[str(float(bound))] == sum(value <= bound for value in values)
    assert counted["+Inf"] == latencies.count == 8


@pytest.mark.parametrize("odd", [0.0, -5.0, float("nan"), float("inf"), 1e300, 5e-324])
def test_odd_values_are_counted_in_a_fixed_room(odd: float) -> None:
    latencies = Latencies()
    latencies.add(odd)
    found = latencies.percentile(0.5)
    assert found is not None
    assert 0 < found <= 1.01e9


def test_no_batches_no_percentiles() -> None:
    assert Latencies().percentile(0.5) is None
