"""Progress of a run, its memory and its time, and the machine that it runs on."""

import os
import platform
import resource
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a run is: the stage (`convert`, `tokens`), shards done and planned, rows, records."""

    stage: str
    shards_done: int
    shards: int
    rows: int
    records: int


Watch = Callable[[Progress], None]


def peak_rss() -> int:
    """The most memory that this process has held, in bytes."""
    with suppress(OSError):  # only Linux has it; what getrusage tells there may be the parent's
        status = Path("/proc/self/status").read_text("ascii", "replace")
        for line in status.splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def host_facts() -> dict[str, str | int | None]:
    """The machine and the libraries, as far as they can matter for speed or bytes."""
    import pyarrow as pa

    return {
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "pyarrow": pa.__version__,
        "cores": os.cpu_count(),
    }


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
