"""The tests' reference against what the public program wrote."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.converters.recsys.criteo import reference
from tests.converters.recsys.criteo.preprocessed import GOLDEN, same_bits
from tests.converters.recsys.criteo.reference import Choices, Raw, Result

DAYS = ("day_0", "day_1", "day_2")


@cache
def golden(name: str) -> dict[str, NDArray[Any]]:
    with np.load(GOLDEN / f"torchrec_{name}.npz") as file:
        return dict(file)


@cache
def result(**choices: Any) -> Result:
    parts = [Raw(day, day, (GOLDEN / day).read_bytes()) for day in DAYS]
    return reference.run(parts, Choices(**choices))


@pytest.mark.parametrize(("version", "dense"), [("nov2022", "ln3"), ("now", "min2")])
def test_numbers(version: str, dense: str) -> None:
    made = result(dense=dense, seed=None).arrays
    for day in DAYS:
        for kind in ("dense", "labels"):
            assert same_bits(made[f"{day}_{kind}.npy"], golden(f"{version}_step1")[f"{day}_{kind}"])


@pytest.mark.parametrize("threshold", [0, 3])
@pytest.mark.parametrize("version", ["nov2022", "now"])
def test_ids(version: str, threshold: int) -> None:
    made = result(threshold=threshold, seed=None).arrays
    for day in DAYS:
        ids = golden(f"{version}_contig{threshold}")[f"{day}_sparse"]
        assert np.array_equal(made[f"{day}_sparse.npy"], ids)


@pytest.mark.parametrize("compat", ["exact", "torchrec_f32"])
@pytest.mark.parametrize(("version", "dense"), [("nov2022", "ln3"), ("now", "min2")])
def test_shuffled(version: str, dense: str, compat: str) -> None:
    made = result(dense=dense, compat=compat).arrays
    for name, array in golden(f"{version}_shuffled").items():
        own = made[f"{name}.npy"]
        assert own.tobytes() == array.astype(own.dtype).tobytes()
        assert own.shape == array.shape


@pytest.mark.parametrize("compat", ["exact", "torchrec_f32"])
def test_big_ids(compat: str) -> None:
    """As the file holds them: rounded through float32; exact, where that is chosen."""
    with np.load(GOLDEN / "shuffle_big_ids.npz") as file:
        big = dict(file)
    whole = {
        kind: np.concatenate([big[f"in_{day}_{kind}"] for day in DAYS[:2]])
        for kind in ("dense", "labels", "sparse")
    }
    dense, labels, sparse = reference.shuffled(**whole, choices=Choices(compat=compat))
    assert same_bits(dense, np.concatenate([big[f"out_{day}_dense"] for day in DAYS[:2]]))
    assert same_bits(labels, np.concatenate([big[f"out_{day}_labels"] for day in DAYS[:2]]))
    rounded = np.concatenate([big[f"out_{day}_sparse"] for day in DAYS[:2]])
    assert same_bits(sparse, rounded) == (compat == "torchrec_f32")
    assert same_bits(sparse.astype(np.float32), rounded.astype(np.float32))
