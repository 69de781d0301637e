"""Latencies of batches in a fixed room: percentiles within 1 %, and Prometheus's buckets."""

import math
from bisect import bisect_left
from collections import Counter
from typing import Final

# Upper bounds in milliseconds; beyond the last is `+Inf`.
BUCKETS: Final = (1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000)

_STEP: Final = math.log(1.02)  # a class reaches 2 % above its lower end: its middle is 1 % off
_SHORTEST: Final = 1e-3
_LONGEST: Final = 1e9


class Latencies:
    """Counts of latencies by classes of equal ratio; not safe for threads."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self._buckets = [0] * (len(BUCKETS) + 1)
        self._classes: Counter[int] = Counter()

    def add(self, ms: float) -> None:
        """Count a latency in milliseconds; below a microsecond and past 11 days are the same."""
        kept = min(max(ms, _SHORTEST), _LONGEST) if not math.isnan(ms) else _SHORTEST
        self.count += 1
        self.total += kept
        self._buckets[bisect_left(BUCKETS, kept)] += 1
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
        bounds = [*(str(float(bound)) for bound in BUCKETS), "+Inf"]
        so_far, cumulative = 0, []
        for bound, count in zip(bounds, self._buckets, strict=True):
            so_far += count
            cumulative.append((bound, float(so_far)))
        return cumulative
