"""How long the phases of a run take, and on how many cores."""

import os
import time


class Clock:
    """Seconds by phase."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._phase, self._since = "start", time.monotonic()

    def start(self, phase: str) -> None:
        """End the phase before and begin, or go on with, this one."""
        now = time.monotonic()
        self._seconds[self._phase] = self._seconds.get(self._phase, 0.0) + now - self._since
        self._phase, self._since = phase, now

    def seconds(self) -> dict[str, float]:
        """Seconds of every phase so far."""
        self.start(self._phase)
        return {phase: round(seconds, 3) for phase, seconds in self._seconds.items()}


def usable_cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):  # not everywhere
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
