"""The Criteo example: its files made again, preprocessed, and a DLRM that learns and goes on."""

import gzip
import json
import math
import runpy
import subprocess
import sys
from contextlib import redirect_stdout
from importlib import import_module
from io import StringIO
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed: make test-more brings it")
import torch

from ingot.converters.recsys.criteo import CriteoDataset, KeyedJaggedTensor, MultiHot

pytestmark = pytest.mark.more

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
DAYS = ("day_0.gz", "day_1.gz", "day_2")
PREPROCESS = "criteo preprocess --input-dir examples/criteo --out"
RUN = ("--epochs", "2", "--batch-size", "128", "--lr", "0.005")


@pytest.fixture(scope="module")
def dlrm() -> ModuleType:
    if str(EXAMPLES) not in sys.path:  # as where it is run
        sys.path.append(str(EXAMPLES))
    return import_module("train_dlrm")


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("criteo") / "out"
    argv = [sys.executable, "-m", "ingot", *PREPROCESS.split(), out]
    done = subprocess.run(
        argv, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr
    return out


def epochs(printed: str) -> list[tuple[float, float]]:
    """Loss and AUC of every epoch that was told."""
    told = [line.split() for line in printed.splitlines() if line.startswith("epoch ")]
    return [(float(words[3]), float(words[5])) for words in told]


def trained(dlrm: ModuleType, *argv: str | Path) -> list[tuple[float, float]]:
    with redirect_stdout(StringIO()) as printed:
        assert dlrm.main([str(one) for one in argv]) == 0
    return epochs(printed.getvalue())


@pytest.fixture(scope="module")
def told(dlrm, data) -> list[tuple[float, float]]:
    """What a run that is never stopped tells of its epochs."""
    return trained(dlrm, data, *RUN)


def content(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def test_the_raw_files_are_what_the_script_makes(tmp_path):
    runpy.run_path(str(EXAMPLES / "criteo" / "make.py"))["main"](tmp_path)
    for name in DAYS:
        assert content(tmp_path / name) == content(EXAMPLES / "criteo" / name)
    assert sum((EXAMPLES / "criteo" / name).stat().st_size for name in DAYS) < 1_000_000


def test_the_readme_tells_what_is_wrong_with_the_raw_files(data):
    rejects = [json.loads(line) for line in (data / "rejects.jsonl").read_text().splitlines()]
    assert [(one["file"], one["line"], one["reason"]) for one in rejects] == [
        ("day_0.gz", 700, "columns"),
        ("day_1.gz", 1200, "dense"),
        ("day_1.gz", 1900, "sparse"),
        ("day_2", 300, "columns"),
    ]
    readme = (EXAMPLES / "criteo" / "README.md").read_text(encoding="utf-8")
    assert all(f"line {one['line']}" in readme for one in rejects)
    assert json.loads((data / "stats.json").read_text())["rows"] == 6_796
    assert "6,796 lines are rows" in readme


def test_the_readme_shows_the_commands_that_are_run_here():
    shown = (EXAMPLES / "criteo" / "README.md").read_text(encoding="utf-8").splitlines()
    assert f"    ingot {PREPROCESS} demo/criteo" in shown
    assert "    python examples/train_dlrm.py demo/criteo" in shown


def test_the_model_learns_clicks(told):
    (first, _), (last, auc) = told
    assert last < 0.9 * first
    assert auc > 0.75


def test_with_several_ids_for_one_it_learns_too(dlrm, data, told):
    (first, _), (last, auc) = wide = trained(dlrm, data, *RUN, "--multi-hot", "3")
    assert wide != told
    assert last < 0.9 * first
    assert auc > 0.72


@pytest.mark.parametrize("more", [(), pytest.param(("--multi-hot", "2"), marks=pytest.mark.long)])
def test_a_stopped_run_goes_on_as_if_it_had_not_stopped(dlrm, data, told, tmp_path, more):
    whole = told if not more else trained(dlrm, data, *RUN, *more)
    kept = tmp_path / "kept.pt"
    # 41 steps an epoch; the checkpoint is that of step 18 of the second.
    stopped = (*RUN, *more, "--checkpoint", kept, "--every", "9", "--stop", "64")
    assert trained(dlrm, data, *stopped) == whole[:1]
    assert trained(dlrm, data, *RUN, *more, "--resume", kept) == whole[1:]


def test_tables_have_a_row_for_every_id(dlrm, data):
    sizes = dlrm.sizes(data, 200_000)
    largest = [
        max(int(np.load(data / f"day_{day}_sparse.npy")[:, k].max()) for day in range(3))
        for k in range(26)
    ]
    assert sizes == [one + 1 for one in largest]


def test_it_is_evaluated_on_the_last_day_alone(dlrm, data):
    model = dlrm.Dlrm(dlrm.sizes(data, 200_000))
    last = CriteoDataset(data, 500, split="all", parts=["day_2"])
    assert dlrm.evaluate(model, last).endswith("(1,599 rows of day_2)")


def test_vectors_meet_two_by_two(dlrm):
    torch.manual_seed(1)
    model = dlrm.Dlrm([5] * 26)
    ids = torch.randint(0, 5, (3, 26), dtype=torch.int32)
    dense = torch.rand(3, 13)
    sparse = KeyedJaggedTensor.from_matrix(ids)
    vectors = [model.bottom(dense)]
    vectors += [model.bags[f"cat_{k}"].weight[ids[:, k].long()] for k in range(26)]
    dots = [(vectors[i] * vectors[j]).sum(1) for i in range(27) for j in range(i)]
    wanted = model.top(torch.cat([vectors[0], torch.stack(dots, 1)], 1)).squeeze(1)
    assert torch.allclose(model(dense, sparse), wanted, atol=1e-6)


def test_a_bag_is_the_sum_of_its_ids(dlrm):
    model = dlrm.Dlrm([7] * 26)
    ids = torch.randint(0, 7, (2, 26), dtype=torch.int32)
    wide = MultiHot([7] * 26, 3, 1).convert(KeyedJaggedTensor.from_matrix(ids))
    pooled = model.pooled("cat_4", wide)
    rows = wide["cat_4"].values().reshape(2, 3).long()
    assert torch.allclose(pooled, model.bags["cat_4"].weight[rows].sum(1))


def test_ids_past_the_largest_table_share_rows(dlrm, data):
    assert max(dlrm.sizes(data, 50)) == 50
    argv = ("--epochs", "1", "--batch-size", "128", "--table-rows", "50")
    ((loss, auc),) = trained(dlrm, data, *argv)
    assert math.isfinite(loss)
    assert auc > 0.6
