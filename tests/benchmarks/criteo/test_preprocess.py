"""The benchmark of `ingot criteo preprocess` runs: it compares before it measures."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks" / "criteo"


def run(name: str, *argv: str | Path) -> str:
    """What a script prints."""
    command = [sys.executable, BENCHMARKS / f"{name}.py", *argv]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
def test_it_compares_measures_and_leaves_points_for_the_estimate(tmp_path):
    sizes = ("--slice", "2000", "--rows", "3000", "6000", "--modes", "stream", "columns", "--gz")
    told = run("preprocess", *sizes, "--keep", tmp_path / "kept", "--points", tmp_path / "points")
    assert "80,000 cells equal to torchrec's, 80,000 to those of plain Python" in told
    points = json.loads((tmp_path / "points").read_bytes())
    assert [(one["mode"], one["rows"], one["training"]) for one in points] == [
        *(("stream", 3000, 2000), ("columns", 3000, 2000)),
        *(("stream", 6000, 4000), ("columns", 6000, 4000)),
    ]
    small = ("--values", "200000", "--shuffled", "3000000", "--rows", "5000", "--buckets", "7")
    run("costs", *small, "--out", tmp_path / "costs")
    estimated = run("estimate", tmp_path / "points", "--costs", tmp_path / "costs")
    assert estimated.count("together") == 2


def test_arrays_that_differ_in_a_bit_end_it(benchmark, tmp_path):
    made = np.arange(6, dtype=np.int32).reshape(3, 2)
    for way, array in (("one", made), ("same", made.astype(np.int64)), ("other", made + 1)):
        folder = benchmark.result(tmp_path, way)
        folder.mkdir(parents=True)
        np.save(folder / "day_0_sparse.npy", array)
    assert benchmark.compare(tmp_path, "one", "same") == 6
    with pytest.raises(SystemExit, match=r"day_0_sparse\.npy: one and other differ"):
        benchmark.compare(tmp_path, "one", "other")


def test_rows_of_both_signs_of_nan_differ(benchmark, tmp_path):
    quiet = np.array([[np.nan]], np.float32)
    for way, array in (("one", quiet), ("other", np.negative(quiet))):
        benchmark.result(tmp_path, way).mkdir(parents=True)
        np.save(benchmark.result(tmp_path, way) / "day_0_dense.npy", array)
    with pytest.raises(SystemExit):
        benchmark.compare(tmp_path, "one", "other")
