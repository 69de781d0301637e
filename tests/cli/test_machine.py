"""Use of the machine, of real processes."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from ingot.cli.job_watch import Machine

BUSY = "import time\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass\n"
WAITING = f"{BUSY}print('ready', flush=True)\ninput()"


class Clock:
    """A clock that the test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.more
def test_cpu_time_of_this_process_over_the_interval() -> None:
    clock = Clock()
    machine = Machine(clock)
    before = sum(os.times()[:2])
    exec(BUSY, {})
    spent = sum(os.times()[:2]) - before
    clock.now = 10.0
    machine.measure()
    use = machine.use
    assert use.cpu_pct == pytest.approx(10 * spent, abs=1)
    clock.now = 20.0
    machine.measure()
    assert machine.use.cpu_pct < use.cpu_pct


@pytest.mark.more
def test_children_are_counted_also_those_born_between() -> None:
    clock = Clock()
    machine = Machine(clock)
    with subprocess.Popen(
        [sys.executable, "-c", WAITING], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout
        assert child.stdout.readline() == b"ready\n"
        clock.now = 1.0
        machine.measure()
        use = machine.use
        assert use.cpu_pct >= 45
        assert use.processes >= 2
        assert use.memory > psutil.Process().memory_info().rss
        child.communicate(b"\n")
    clock.now = 2.0
    machine.measure()
    assert machine.use.cpu_pct < 45
    assert machine.peak_memory >= use.memory


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="needs /proc")
def test_what_is_written_to_the_disk(tmp_path: Path) -> None:
    clock = Clock()
    machine = Machine(clock)
    with (tmp_path / "data").open("wb") as file:
        file.write(os.urandom(8_000_000))
        file.flush()
        os.fsync(file.fileno())
    clock.now = 2.0
    written = int(Path("/proc/self/io").read_text().split("write_bytes: ")[1].split()[0])
    machine.measure()
    use = machine.use
    # A file system in memory writes to no disk.
    assert use.disk_write == 0 or 3.9 <= use.disk_write <= written / 2e6


def test_without_time_between_two_looks_the_rates_stay() -> None:
    clock = Clock()
    machine = Machine(clock)
    clock.now = 2.0
    machine.measure()
    before = machine.use
    machine.measure()
    assert machine.use.cpu_pct == before.cpu_pct >= 0
    assert machine.use.memory > 0
