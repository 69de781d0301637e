"""Caches without a bound of their own: an engine is made anew when the process has grown too far.

What an instance holds cannot be asked for, so the resident memory of the process is watched: what
it grew by since the engines were opened, or made anew, counts as theirs. Threads have an instance
each; when one sees the limit passed, all are made anew, each before its next batch. The memory of
a dropped instance goes back to the system (measured: 530 MB of gigatoken's, to 10 MB).
"""

import ctypes
import threading
from collections.abc import Callable

import pyarrow as pa

from ingot.converters.megatron.engines.engine import Encoded, Engine
from ingot.converters.megatron.monitor import Monitor, log


class _Meter:
    """Growth of this process, shared by the engines in its threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._base: int | None = None
        self.generation = 0

    def opened(self) -> None:
        """Engines are opened: the first one sets what growth is counted from."""
        with self._lock:
            if self._base is None:
                self._base = resident()

    def dropped(self) -> None:
        """An engine was made anew: growth is counted from here."""
        trim()
        with self._lock:
            self._base = resident()

    def check(self, limit: int, generation: int) -> None:
        """Ask all engines of this generation to be made anew if the process grew past the limit."""
        now = resident()
        with self._lock:
            if generation == self.generation and now - (self._base or now) > limit:
                self.generation += 1


_METER = _Meter()


def resident() -> int:
    """Bytes of this process in memory."""
    from psutil import Process

    return int(Process().memory_info().rss)


def trim() -> None:
    """Give freed memory back to the system, where the C library has a call for that."""
    call = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if call is not None:
        call(0)
    pa.default_memory_pool().release_unused()


class Rebuilt:
    """An engine that is made anew when the engines of the process have grown past a limit.

    Args:
        make: makes the engine.
        limit: bytes that all of them may grow by.
        monitor: takes `engine_rebuilt`.
    """

    def __init__(self, make: Callable[[], Engine], limit: int, monitor: Monitor) -> None:
        self._make = make
        self._limit = limit
        self._monitor = monitor
        self._generation = _METER.generation
        self._engine: Engine | None = make()
        self.name = self._engine.name
        _METER.opened()

    def encode(self, texts: pa.LargeStringArray) -> Encoded:
        """Encode texts, with a new engine if the limit was passed."""
        engine = self._engine
        if engine is None or self._generation != _METER.generation:
            engine = None
            engine = self._renewed()
        encoded = engine.encode(texts)
        _METER.check(self._limit, self._generation)
        return encoded

    def _renewed(self) -> Engine:
        before = resident()
        self._generation = _METER.generation
        self._engine = None  # gone before the next one is made
        _METER.dropped()
        self._engine = self._make()
        log(
            self._monitor,
            "info",
            "tokenizer",
            "engine_rebuilt",
            engine=self.name,
            rss_before=before,
            rss_after=resident(),
        )
        return self._engine
