"""The same batches as torchrec's own class gives of the same files."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed: make test-more brings it")
import torch

from ingot.converters.recsys.criteo import CriteoDataset
from tests.command_line import ingot
from tests.conftest import first_more
from tests.converters.recsys.criteo.arrays import GOLDEN, write_days, write_torchrec

# torchrec makes tensors of read-only maps, and its import warns of deprecated parts of torch.
pytestmark = [
    pytest.mark.more,
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning"),
]

HASHES = [3, 7, 20, 49, 50, 51, 10**9, 1, 2, *range(5, 22)]
WITHOUT = "torchrec is not installed: it has wheels for Linux alone"
FIELDS = ("values", "lengths", "offsets")


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_days(tmp_path_factory.mktemp("days"), 53, 1, 31, 27)


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_torchrec(tmp_path_factory.mktemp("golden"))


def reference(
    folder: Path, days: int, batch_size: int, stage: str = "train", **options: Any
) -> Any:
    pytest.importorskip("torchrec", reason=WITHOUT)
    from torchrec.datasets.criteo import InMemoryBinaryCriteoIterDataPipe

    chosen = range(days - 1) if stage == "train" else [days - 1]
    paths = [
        [str(folder / f"day_{day}_{kind}.npy") for day in chosen]
        for kind in ("dense", "sparse", "labels")
    ]
    place = {"rank": 0, "world_size": 1, **options}
    return InMemoryBinaryCriteoIterDataPipe(stage, *paths, batch_size=batch_size, **place)


def assert_same(ours: Iterator[Any], theirs: Iterator[Any]) -> int:
    """Hold batches to torchrec's, field by field; how many there are."""
    pairs = list(zip(ours, theirs, strict=True))
    for one, two in pairs:
        assert one.dense_features.numpy().tobytes() == two.dense_features.numpy().tobytes()
        assert one.dense_features.shape == two.dense_features.shape
        assert_equal(one.labels, two.labels)
        for field in FIELDS:
            mine, other = (getattr(each.sparse_features, field)() for each in (one, two))
            assert_equal(mine, other.to(torch.int32))  # int64 of int64 files, and of mapped hashes
        for field in ("keys", "stride", "length_per_key", "offset_per_key"):
            mine, other = (getattr(each.sparse_features, field)() for each in (one, two))
            assert mine == other
    return len(pairs)


def assert_equal(one: torch.Tensor, two: torch.Tensor) -> None:
    assert one.dtype == two.dtype
    assert torch.equal(one, two)


@pytest.mark.parametrize("batch_size", first_more([7, 85, 1, 10, 54, 99], 2))
@pytest.mark.parametrize("world_size", first_more([1, 3, 2, 5], 2))
@pytest.mark.parametrize("drop_last", [False, True])
def test_every_rank(days: Path, batch_size: int, world_size: int, drop_last: bool) -> None:
    if drop_last and 85 // (batch_size * world_size) == 0:
        pytest.skip("no full batch for each rank: refused here, nothing there")
    for rank in range(world_size):
        place = {"rank": rank, "world_size": world_size, "drop_last": drop_last}
        ours = CriteoDataset(days, batch_size, **place)
        theirs = reference(days, 4, batch_size, **place)
        assert len(ours) == len(theirs) == assert_same(iter(ours), iter(theirs))


@pytest.mark.parametrize("stage", ["val", "test"])
def test_halves_of_the_last_day(days: Path, stage: str) -> None:
    ours = CriteoDataset(days, 4, split=stage)
    assert ours.rows == {"val": 14, "test": 13}[stage]
    assert assert_same(iter(ours), iter(reference(days, 4, 4, stage)))


@pytest.mark.parametrize("mmap_mode", [False, True])
@pytest.mark.parametrize("stage", ["train", "val"])
def test_hashes(golden: Path, mmap_mode: bool, stage: str) -> None:
    ours = CriteoDataset(golden, 100, split=stage, num_embeddings=HASHES)
    theirs = reference(golden, 3, 100, stage, hashes=HASHES, mmap_mode=mmap_mode)
    assert assert_same(iter(ours), iter(theirs))


def test_files_of_torchrecs_own_scripts(golden: Path) -> None:
    for stage in ("train", "val", "test"):
        ours = CriteoDataset(golden, 64, split=stage)
        assert assert_same(iter(ours), iter(reference(golden, 3, 64, stage)))


def test_rows_shuffled_as_its_training_set(days: Path) -> None:
    theirs = reference(days, 4, 10, shuffle_training_set=True, shuffle_training_set_random_seed=5)
    ours = CriteoDataset(days, 10, shuffle_rows=True, seed=5)
    assert assert_same(iter(ours), iter(theirs)) == 9


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `ingot criteo preprocess` makes of the raw days."""
    out = tmp_path_factory.mktemp("written") / "out"
    words = ["--input-dir", GOLDEN, "--out", out, "--days", "0-2", "--dense", "min2"]
    ingot("criteo", "preprocess", *words)
    return out


@pytest.mark.parametrize("of", ["golden", "written"])
def test_the_reference_batches(of: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(of)
    batches = list(CriteoDataset(folder, 64, parts=["day_0"], split="all"))
    assert len(batches) == 29
    with np.load(GOLDEN / "kjt_day_0_batch64.npz") as stored:
        for number in (0, 1, 28):
            sparse = batches[number].sparse_features
            got = {field: getattr(sparse, field)() for field in FIELDS}
            got |= {"dense": batches[number].dense_features, "labels": batches[number].labels}
            for field, tensor in got.items():
                wanted = stored[f"batch_{number}_{field}"]
                assert tensor.numpy().dtype == wanted.dtype
                assert tensor.numpy().tobytes() == wanted.tobytes()
            assert sparse.stride() == stored[f"batch_{number}_stride"]
            assert sparse.length_per_key() == stored[f"batch_{number}_length_per_key"].tolist()
            assert sparse.offset_per_key() == stored[f"batch_{number}_offset_per_key"].tolist()


def test_a_batch_becomes_torchrecs(days: Path) -> None:
    pytest.importorskip("torchrec", reason=WITHOUT)
    from torchrec.datasets.utils import Batch

    one = next(iter(CriteoDataset(days, 8)))
    batch = one.to_torchrec()
    assert isinstance(batch, Batch)
    assert assert_same(iter([one]), iter([batch]))
    assert batch.sparse_features.to_dict()["cat_25"].values().shape == (8,)
