"""The CTR example: its files made again, built, and a model that learns from them and goes on."""

import importlib.util
import json
import math
import shlex
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from itertools import product
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("torch", reason="torch is not installed: make test-more brings it")
import torch

from ingot.converters.recsys.ctr.featuremap import Feature

pytestmark = pytest.mark.more

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
RAW = ("sample_skeleton_train.csv", "common_features_train.csv", "impressions.csv")
BUILDS = {
    "raw": "--skeleton examples/ctr/sample_skeleton_train.csv "
    "--common examples/ctr/common_features_train.csv --featuremap examples/ctr/featuremap.yaml",
    "table": "--table examples/ctr/impressions.csv --featuremap examples/ctr/impressions.yaml",
}

RUN = ("--epochs", "2", "--batch-size", "128")


def script(name: str) -> ModuleType:
    """A script of examples/, imported by its path."""
    path = EXAMPLES / f"{name}.py"
    if str(EXAMPLES) not in sys.path:  # as where it is run
        sys.path.append(str(EXAMPLES))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def esmm() -> ModuleType:
    return script("train_esmm")


def build(kind: str, out: Path) -> Path:
    argv = [sys.executable, "-m", "ingot", "ctr", "build", *shlex.split(BUILDS[kind])]
    done = subprocess.run(
        [*argv, "--out", out],
        cwd=ROOT,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    return build("raw", tmp_path_factory.mktemp("ctr") / "out")


def epochs(printed: str) -> list[tuple[float, float, float]]:
    """Loss, AUC of clicks and AUC of purchases of every epoch that was told."""
    told = [line.split() for line in printed.splitlines() if line.startswith("epoch ")]
    return [(float(words[3]), float(words[6]), float(words[8])) for words in told]


def test_the_raw_files_are_what_the_script_makes(tmp_path):
    script("ctr/make").main(tmp_path)
    for name in RAW:
        assert (tmp_path / name).read_bytes() == (EXAMPLES / "ctr" / name).read_bytes()


def test_the_readme_tells_what_is_wrong_with_the_raw_files(built):
    stats = json.loads((built / "stats.json").read_text(encoding="utf-8"))
    assert stats["rows"]["read"] == 3_600
    assert (stats["entities"]["repeated"], stats["entities"]["rows_of_unknown"]) == (1, 2)
    assert stats["tokens"]["no_value"] == 2
    assert sum(split["funnel_anomalies"] for split in stats["splits"].values()) == 2


def test_the_readme_shows_the_commands_that_are_run_here():
    shown = (EXAMPLES / "ctr" / "README.md").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = {" ".join(line.split()) for line in shown.splitlines()}
    assert f"ingot ctr build {BUILDS['raw']} --out demo/ctr" in lines
    assert f"ingot ctr build {BUILDS['table']} --out demo/ctr_table" in lines


@pytest.fixture(scope="module")
def told(esmm, built) -> list[tuple[float, float, float]]:
    """What a run that is never stopped tells of its epochs."""
    with redirect_stdout(StringIO()) as printed:
        assert esmm.main([str(built), *RUN]) == 0
    return epochs(printed.getvalue())


def test_the_model_learns_clicks_and_purchases(told):
    (first, *_), (last, ctr, ctcvr) = told
    assert last < 0.9 * first
    assert ctr > 0.75
    assert ctcvr > 0.75


def test_a_stopped_run_goes_on_as_if_it_had_not_stopped(esmm, built, told, tmp_path, capsys):
    kept = str(tmp_path / "kept.pt")
    # 23 steps an epoch; the checkpoint is that of step 9 of the second.
    stopped = [str(built), *RUN, "--checkpoint", kept, "--every", "9", "--stop", "34"]
    assert esmm.main(stopped) == 0
    assert epochs(capsys.readouterr().out) == told[:1]
    assert esmm.main([str(built), *RUN, "--resume", kept]) == 0
    assert epochs(capsys.readouterr().out) == told[1:]


def test_it_learns_from_a_plain_table_too(esmm, tmp_path, capsys):
    assert esmm.main([str(build("table", tmp_path / "out")), "--epochs", "3"]) == 0
    assert epochs(capsys.readouterr().out)[-1][1] > 0.65


@pytest.mark.parametrize(
    ("scores", "labels"),
    [
        ([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1]),
        ([0.5, 0.5, 0.5, 0.5], [0, 1, 0, 1]),
        ([0.2, 0.2, 0.9, 0.2, 0.9, 0.1], [1, 0, 1, 0, 0, 1]),
        ([3.0, 2.0, 1.0], [0, 0, 1]),
    ],
)
def test_the_auc_is_the_share_of_pairs(esmm, scores, labels):
    good = [score for score, label in zip(scores, labels, strict=True) if label]
    bad = [score for score, label in zip(scores, labels, strict=True) if not label]
    pairs = [1.0 if a > b else 0.5 if a == b else 0.0 for a, b in product(good, bad)]
    found = esmm.auc(torch.tensor(scores), torch.tensor(labels, dtype=torch.float32))
    assert found == pytest.approx(sum(pairs) / len(pairs))


def test_the_auc_of_one_kind_of_label_is_none(esmm):
    assert math.isnan(esmm.auc(torch.tensor([0.1, 0.2]), torch.ones(2)))


def feature(**given: object) -> Feature:
    return Feature(**{"name": "f0_a", "src": 0, "field": "a", "encoding": "vocab", **given})


def test_a_list_is_its_weighted_mean_without_padding(esmm):
    pooled = esmm.Pooled(feature(vocab_num_tokens=5, max_len=3, use_value=True), "disjoint")
    rows = pooled.table.weight
    idx, val = torch.tensor([[3, 4, 0], [1, 0, 0]]), torch.tensor([[1.0, 3.0, 0.0], [1.0, 0, 0]])
    made = pooled({"type": "multi", "idx": idx, "val": val, "len": torch.tensor([2, 1])})
    assert torch.allclose(made[0], (rows[3] + 3 * rows[4]) / 4)
    assert torch.allclose(made[1], rows[1])
    plain = pooled({"type": "multi", "idx": idx, "val": None, "len": torch.tensor([2, 1])})
    assert torch.allclose(plain[0], (rows[3] + rows[4]) / 2)


def test_ids_past_the_largest_table_share_rows_but_not_the_special_ones(esmm):
    pooled = esmm.Pooled(feature(encoding="hash", hash_bucket=8_388_608), "disjoint")
    assert pooled.table.num_embeddings == esmm.MOST_ROWS
    ids = torch.tensor([0, 1, 2, esmm.MOST_ROWS - 1, esmm.MOST_ROWS, 8_388_609])
    made = pooled({"type": "single", "idx": ids, "val": None})
    assert torch.equal(made[:4], pooled.table.weight[ids[:4]] * (ids[:4] > 0).unsqueeze(1))
    shared = pooled.table.weight[[3 + esmm.MOST_ROWS % (esmm.MOST_ROWS - 3)]]
    assert torch.equal(made[4:5], shared)
