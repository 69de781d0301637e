"""Many small files are listed within bounds, and the benchmark that says so runs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.more

LISTING = Path(__file__).resolve().parents[2] / "benchmarks" / "lake" / "listing.py"


def measured(files: int) -> dict[str, tuple[int, int]]:
    """By place: files found and the peak of memory in MiB."""
    argv = [sys.executable, LISTING, "--files", str(files), "--looked-at", "60"]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    found = re.findall(r"(\S+) +([\d,]+) files .* peak +(\d+) MiB", said)
    assert len(re.findall(r"looked at", said)) == 6
    return {place: (int(count.replace(",", "")), int(peak)) for place, count, peak in found}


def test_the_benchmark_runs() -> None:
    assert {place: count for place, (count, _) in measured(1300).items()} == {
        "local": 1300,
        "memory://": 1300,
        "s3://": 1300,
    }


@pytest.mark.long
def test_a_hundred_thousand_files_take_less_than_a_gibibyte() -> None:
    figures = measured(100_000)
    assert [count for count, _ in figures.values()] == [100_000] * 3
    assert max(peak for _, peak in figures.values()) < 1024
