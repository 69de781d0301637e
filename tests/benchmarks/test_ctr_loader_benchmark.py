"""The benchmark of the loader runs: it compares the batches of all ways before it measures."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.more

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "ctr" / "loader.py"


def test_it_tells_ratios() -> None:
    argv = [sys.executable, SCRIPT, "--rows", "300", "--group", "100", "--batch-size", "64"]
    argv += ["--runs", "1"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    head, *lines = done.stdout.splitlines()
    assert head.split()[:4] == ["rows/s", "ratio", "rows/CPU", "s"]
    assert [line[:24].strip() for line in lines] == [
        *("row dicts, collate_fn", "build_dataloader", "shuffled", "jagged"),
        *("cache", "cache, shuffled", "cache, jagged", "decoding alone", "copying alone"),
    ]
