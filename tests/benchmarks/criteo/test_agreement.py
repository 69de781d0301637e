"""`ingot criteo preprocess` and the reference in plain Python agree on generated, dirty files."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from ingot.converters.recsys.criteo.contract import KEYS, REJECTS, vocabulary_path
from ingot.converters.recsys.criteo.preprocess.inputs import find_inputs
from ingot.converters.recsys.criteo.preprocess.job import preprocess
from ingot.converters.recsys.criteo.preprocess.settings import Settings

pytestmark = pytest.mark.more

ROWS, DIRT = "9000", "0.08"


@pytest.fixture(scope="module", params=[("--days", "3"), ("--days", "2", "--crlf"), ("--kaggle",)])
def raw(request, generator, tmp_path_factory) -> Path:
    """Files with wrong lines of every kind, the first one packed."""
    out = tmp_path_factory.mktemp("raw")
    for packed in ("--gz",), ():
        generator.main([str(out), "--rows", ROWS, "--dirt", DIRT, *packed, *request.param])
    first, *others = sorted(out.glob("*.gz"))
    first.with_suffix("").unlink()
    for other in others:
        other.unlink()
    return out


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"dense": "min2", "compat": "torchrec_f32", "frequency_threshold": 3},
        {"encode": "columns", "shuffle_seed": None, "block_bytes": 4_000},
        {"encode": "columns", "frequency_threshold": 2, "shuffle_seed": 9, "threads": 3},
        {"block_bytes": 70_000, "threads": 1, "dense": "min2"},
    ],
)
def test_they_agree(reference, raw, tmp_path, given):
    preprocess(find_inputs(str(raw)), Settings(**given), tmp_path / "out")
    options = {name: value for name, value in given.items() if name not in TECHNICAL}
    wanted = reference.preprocess(reference.inputs(raw), **options)
    assert arrays_that_differ(tmp_path / "out", wanted) == []
    assert vocabularies_that_differ(tmp_path / "out", wanted) == []
    assert rejects(tmp_path / "out") == sorted(
        (part.name, *reject) for part in wanted.parts for reject in part.rejects
    )


TECHNICAL = ("encode", "block_bytes", "threads")


def arrays_that_differ(out: Path, wanted) -> list[str]:
    made = {name: np.load(out / name) for name, _ in wanted.arrays()}
    assert sorted(made) == sorted(path.name for path in out.glob("*.npy"))
    return [
        name
        for name, array in wanted.arrays()
        if made[name].shape != array.shape or made[name].tobytes() != array.tobytes()
    ]


def vocabularies_that_differ(out: Path, wanted) -> list[str]:
    differing = []
    for key, known in zip(KEYS, wanted.known, strict=True):
        table = pq.read_table(vocabulary_path(out, key))
        columns = (table[name].to_pylist() for name in ("value", "id", "count"))
        rows = list(zip(*columns, strict=True))
        if rows != [(value, *both) for value, both in known.items()]:
            differing.append(key)
    return differing


def rejects(out: Path) -> list[tuple[str, int, str]]:
    told = [json.loads(line) for line in (out / REJECTS).read_text("utf-8").splitlines()]
    name = {one["file"]: one["file"].removesuffix(".gz").removesuffix(".txt") for one in told}
    return sorted((name[one["file"]], one["line"], one["reason"]) for one in told)
