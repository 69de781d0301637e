"""What the product writes against what the public program wrote, byte by byte."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.converters.recsys.criteo import reference
from tests.converters.recsys.criteo.preprocessed import GOLDEN, check, run
from tests.converters.recsys.criteo.reference import Choices, Raw

DAYS = ("day_0", "day_1", "day_2")
MD5 = json.loads((GOLDEN / "npy_md5.json").read_bytes())


def check_md5(folder: Path, published: str, name: str) -> None:
    digest = hashlib.md5((folder / name).read_bytes(), usedforsecurity=False).hexdigest()
    assert digest == MD5[published], published


def as_int32(published: str) -> bool:
    """Newer versions leave ids that they did not shuffle in int64."""
    stage, name = published.split("/")[1:]
    shuffled = stage == "shuffled" and not name.startswith("day_2")
    return published.startswith("nov2022/") or not name.endswith("sparse.npy") or shuffled


@pytest.mark.parametrize("encode", ["stream", "columns"])
@pytest.mark.parametrize("compat", ["exact", "torchrec_f32"])
@pytest.mark.parametrize(("version", "dense"), [("nov2022", "ln3"), ("now", "min2")])
def test_shuffled_files(quick: Path, version: str, dense: str, compat: str, encode: str) -> None:
    """All of it: parsed, numbered, transformed, shuffled."""
    run(GOLDEN, quick / "out", dense=dense, compat=compat, encode=encode)
    for day in DAYS:
        for kind in ("dense", "labels", "sparse"):
            name = f"{day}_{kind}.npy"
            if as_int32(published := f"{version}/shuffled/{name}"):
                check_md5(quick / "out", published, name)
    with np.load(GOLDEN / f"torchrec_{version}_shuffled.npz") as file:
        ids = np.load(quick / "out/day_2_sparse.npy")
        assert np.array_equal(ids, file["day_2_sparse"])
        assert ids.dtype == np.int32


@pytest.mark.parametrize("threshold", [0, 3])
@pytest.mark.parametrize(("version", "dense"), [("nov2022", "ln3"), ("now", "min2")])
def test_files_in_order(quick: Path, version: str, dense: str, threshold: int) -> None:
    """Before the shuffle."""
    settings: dict[str, Any] = {"dense": dense, "frequency_threshold": threshold}
    run(GOLDEN, quick / "out", **settings, shuffle_seed=None)
    contiguous = f"contig{threshold}"
    with np.load(GOLDEN / f"torchrec_{version}_{contiguous}.npz") as file:
        for day in DAYS:
            for kind in ("dense", "labels"):
                name = f"{day}_{kind}.npy"
                check_md5(quick / "out", f"{version}/step1/{name}", name)
            ids = np.load(quick / f"out/{day}_sparse.npy")
            assert np.array_equal(ids, file[f"{day}_sparse"])
            if version == "nov2022":
                published = f"nov2022/{contiguous}/{day}_sparse_contig_freq.npy"
                check_md5(quick / "out", published, f"{day}_sparse.npy")


@pytest.mark.more
def test_everything_else_too(quick: Path) -> None:
    """Vocabularies and statistics of the golden days."""
    parts = [Raw(day, day, (GOLDEN / day).read_bytes()) for day in DAYS]
    run(GOLDEN, quick / "out", frequency_threshold=3)
    check(quick / "out", reference.run(parts, Choices(threshold=3)))
