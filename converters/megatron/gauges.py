"""What a pipeline measures of itself: time by stage, and how full its queues are."""

import threading
import time
from collections.abc import Iterator

from ingot.converters.megatron.monitor import Monitor
from ingot.converters.megatron.reading import Rows
from ingot.converters.megatron.shards import Shard


class Clock:
    """Time in the reader, and in what prepares its rows."""

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        self._reading = 0.0

    def inner(self, rows: Iterator[Rows]) -> Iterator[Rows]:
        """The same rows; their time is the reader's."""
        while True:
            started = time.monotonic()
            item = next(rows, None)
            self._reading += time.monotonic() - started
            if item is None:
                return
            yield item

    def outer(self, shards: Iterator[Shard]) -> Iterator[Shard]:
        """The same shards; their time without that of their rows is the preparation's."""
        while True:
            started, self._reading = time.monotonic(), 0.0
            item = next(shards, None)
            spent = time.monotonic() - started - self._reading
            self._monitor({"kind": "stage", "stage": "reader", "seconds": self._reading})
            self._monitor({"kind": "stage", "stage": "preprocess", "seconds": spent})
            if item is None:
                return
            yield item


class Depths:
    """Shards that wait for a tokenizer, and for the writer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._before = self._behind = 0

    def read(self) -> None:
        """One more waits for a tokenizer."""
        with self._lock:
            self._before += 1

    def tokenized(self) -> None:
        """One of them waits for the writer now."""
        with self._lock:
            self._before -= 1
            self._behind += 1

    def written(self) -> None:
        """One is done."""
        with self._lock:
            self._behind -= 1

    def depths(self) -> tuple[int, int]:
        """How many wait for a tokenizer, and for the writer."""
        with self._lock:
            return self._before, self._behind
