"""What benchmarks share: seconds, memory and disk of a process, and rows. Not run itself."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

BLOCK = 1 << 24
EVERY = 0.2  # seconds between looks at memory and disk; a look takes the kernel some time
ONE_CORE = frozenset({0})
READER = f"""
import sys
for path in sys.argv[1:]:
    with open(path, "rb", buffering=0) as file:
        while file.read({BLOCK}):
            pass
"""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Of one process and its children: seconds, and peaks of memory and disk in MB."""

    seconds: float
    cpu_seconds: float
    memory: float
    own_memory: float
    disk: float


@dataclass(frozen=True, kw_only=True)
class Row:
    """One job of `make bench`: a line of docs/performance.md."""

    job: str
    data: str  # what it was measured on
    unit: str  # of `ours` and of `peers`: more is faster
    ours: float
    peers: dict[str, float]
    wanted: str  # "0.9 of DuckDB"; as told when the work began
    peak_mb: float | None = None
    ceiling: str = ""  # what no way of doing it can be faster than, with its arithmetic


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that `run.py` gives every benchmark of its list."""
    parser.add_argument("--quick", action="store_true", help="a tenth of the size")
    parser.add_argument("--keep-rows", type=Path, metavar="FILE", help="append the rows as JSON")


def keep_rows(rows: list[Row], target: Path | None) -> None:
    """Append rows to the file of `--keep-rows`, a JSON object a line."""
    if target:
        with target.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(asdict(row)) + "\n" for row in rows)


def family(pid: int) -> Iterator[int]:
    """A process and all below it."""
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            yield from family(int(child))


def memory(pid: int) -> tuple[float, float]:
    """Proportional set size of a process and all below it in MB, whole and without files."""
    whole = own = 0
    with suppress(OSError):
        for member in family(pid):
            for line in Path(f"/proc/{member}/smaps_rollup").read_text().splitlines():
                name, _, rest = line.partition(":")
                whole += int(rest.split()[0]) if name == "Pss" else 0
                own += int(rest.split()[0]) if name == "Pss_Anon" else 0
    return whole * 1024 / 1e6, own * 1024 / 1e6


def used(folder: Path) -> float:
    """What lies in a folder, in MB."""
    total = 0
    for base, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += (Path(base) / name).stat().st_size
    return total / 1e6


def timed(
    argv: list[str], out: Path | None = None, cores: frozenset[int] | None = None
) -> Measured:
    """Run a process that writes into `out` to its end; its output is shown only if it fails."""
    started, before = time.monotonic(), os.times()
    peaks = [0.0, 0.0, 0.0]
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(argv, stdout=said, stderr=said)
        if cores and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(process.pid, cores)
        while True:
            try:
                code = process.wait(EVERY)
                break
            except subprocess.TimeoutExpired:
                seen = (*memory(process.pid), used(out) if out else 0.0)
                peaks = [max(pair) for pair in zip(peaks, seen, strict=True)]
        seconds, after = time.monotonic() - started, os.times()
        if code != 0:
            said.seek(0)
            sys.exit(f"{' '.join(argv)}\n{said.read().decode(errors='replace')}")
    cpu = (
        after.children_user + after.children_system - before.children_user - before.children_system
    )
    whole, own, disk = peaks
    return Measured(seconds=seconds, cpu_seconds=cpu, memory=whole, own_memory=own, disk=disk)
