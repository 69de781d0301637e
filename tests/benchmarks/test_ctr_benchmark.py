"""What the CTR benchmark compares with: right on the golden set; the benchmark itself runs."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pyarrow.parquet as pq
import pytest

from ingot.converters.recsys.ctr.featuremap import load

pytestmark = pytest.mark.more

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "benchmarks" / "ctr"
GOLDEN = ROOT / "tests" / "golden" / "ctr"
RAW = (GOLDEN / "sample_skeleton_train.csv", GOLDEN / "common_features_train.csv")


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    path = BENCHMARKS / "reference.py"
    spec = importlib.util.spec_from_file_location("ctr_reference", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["ctr_reference"] = module
    spec.loader.exec_module(module)
    return module


def test_plain_python_gives_the_golden_set_in_every_cell(reference, tmp_path):
    reference.build(*RAW, load(GOLDEN / "featuremap_small.yaml"), tmp_path)
    for split in ("train", "valid"):
        made = pq.read_table(tmp_path / f"{split}.parquet")
        golden = pq.read_table(GOLDEN / f"upstream_fullrank_{split}.parquet")
        assert set(made.column_names) == set(golden.column_names)
        for name in golden.column_names:
            assert made[name].to_pylist() == golden[name].to_pylist(), name


def test_the_join_of_public_pipelines_reads_every_row(reference, tmp_path):
    common, skeleton = tmp_path / "common.csv", tmp_path / "skeleton.csv"
    common.write_text("e,2,101\x025\x031.0\x01110_14\x026\x030.69315\n")
    skeleton.write_text("1,0,0,e,1,205\x027\x031.0\n2,1,0,e,1,205\x028\x031.0\n")
    assert reference.join(skeleton, common) == 2


@pytest.mark.long
def test_the_benchmark_compares_and_prints_its_table(tmp_path):
    argv = [sys.executable, BENCHMARKS / "build.py", "--scale", "0.0003", "--slice", "0.0001"]
    done = subprocess.run(
        [*argv, "--keep", tmp_path], capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr
    assert "156,510 cells equal to those of plain Python" in done.stdout
    assert done.stdout.count("ingot ctr build") == 3  # the title and two scales
