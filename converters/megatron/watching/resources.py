"""What a build takes of the machine: CPU, memory and disk of this process and its children."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

MB: Final = 1_000_000
_STATUS: Final = Path("/proc/self/status")


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """Use of the machine over the time since the sample before.

    Attributes:
        cpu_pct: 100 = one core busy all the time.
        rss: bytes in memory now; pages that processes share count in each.
        disk_read, disk_write: MB/s from and to the disk itself (what the page cache serves is not
            in it); 0 where the system does not say.
        processes: how many there are.
    """

    cpu_pct: float = 0.0
    rss: int = 0
    disk_read: float = 0.0
    disk_write: float = 0.0
    processes: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class _Spent:
    """What a process has used since its start; seconds and bytes."""

    cpu: float = 0.0
    read: int = 0
    written: int = 0
    rss: int = 0


class Resources:
    """Samples this process and its children.

    Args:
        clock: seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        import psutil

        self.peak_rss = 0
        self._process = psutil.Process()
        self._clock = clock
        self._at = clock()
        self._before: dict[tuple[int, float], _Spent] = {}
        self._before = self._look()

    def sample(self) -> Sample:
        """Look now. A process that ended since the sample before is left out of the rates."""
        now, spent = self._clock(), self._look()
        seconds = max(now - self._at, 1e-9)
        pairs = [(one, self._before.get(key, _Spent())) for key, one in spent.items()]
        self._at, self._before = now, spent
        rss = sum(one.rss for one in spent.values())
        self.peak_rss = max(self.peak_rss, rss, _own_peak())
        return Sample(
            cpu_pct=100 * sum(one.cpu - was.cpu for one, was in pairs) / seconds,
            rss=rss,
            disk_read=sum(one.read - was.read for one, was in pairs) / seconds / MB,
            disk_write=sum(one.written - was.written for one, was in pairs) / seconds / MB,
            processes=len(spent),
        )

    def _look(self) -> dict[tuple[int, float], _Spent]:
        """What every process has used, by its id and start: ids are used again."""
        import psutil

        found = {}
        for process in (self._process, *self._process.children(recursive=True)):
            try:
                with process.oneshot():
                    found[process.pid, process.create_time()] = _spent(process)
            except psutil.Error:  # it ended, or is another user's
                continue
        return found


def _spent(process: Any) -> _Spent:  # noqa: ANN401
    """What a psutil process has used."""
    times = process.cpu_times()
    read, written = _disk(process)
    cpu = times.user + times.system
    return _Spent(cpu=cpu, read=read, written=written, rss=process.memory_info().rss)


def _disk(process: Any) -> tuple[int, int]:  # noqa: ANN401
    """Bytes read and written; not every system counts them, nor tells everybody."""
    import psutil

    if not hasattr(process, "io_counters"):
        return 0, 0
    try:
        counters = process.io_counters()
    except (psutil.AccessDenied, OSError, NotImplementedError):
        return 0, 0
    return counters.read_bytes, counters.write_bytes


def _own_peak() -> int:
    """The most bytes this process ever had in memory; 0 where the system does not say."""
    try:
        status = _STATUS.read_text()
    except OSError:
        return 0
    peaks = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(peaks[0]) * 1024 if peaks else 0
