"""The real torchrec on the same generated files, and its reader on what is written.

Its own sparse arrays are int64 until they are shuffled; the values are the same.
"""

import contextlib
import io
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.converters.recsys.criteo.lines import content
from tests.converters.recsys.criteo.preprocessed import run, same_bits, write
from tests.converters.recsys.criteo.reference import Raw

# It leaves its files to be closed by whoever comes.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

ROWS = (130, 70, 90)
DAYS = [
    Raw(f"day_{d}", f"day_{d}", content(rows, 40 + d, values=30 + 9 * d))
    for d, rows in enumerate(ROWS)
]


@pytest.fixture(scope="module")
def torchrec() -> ModuleType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own, at the first import
        pytest.importorskip("torchrec", reason="torchrec is not installed: Linux alone has wheels")
        from torchrec.datasets import criteo
    return criteo  # type: ignore[no-any-return]


def by_torchrec(criteo: ModuleType, raw: Path, folder: Path, threshold: int) -> dict[str, Any]:
    """All three steps of the public script."""
    made = criteo.BinaryCriteoUtils
    for step in ("npy", "ids", "shuffled"):
        (folder / step).mkdir(parents=True)
    for day in DAYS:
        kinds = (folder / f"npy/{day.name}_{kind}.npy" for kind in ("dense", "sparse", "labels"))
        made.tsv_to_npys(str(raw / day.file), *map(str, kinds))
    sparse = [str(folder / f"npy/{day.name}_sparse.npy") for day in DAYS]
    made.sparse_to_contiguous(sparse, str(folder / "ids"), threshold, output_file_suffix=".npy")
    made.shuffle(
        str(folder / "npy"),
        str(folder / "ids"),
        str(folder / "shuffled"),
        dict(enumerate(ROWS[:2])),
        days=3,
        random_seed=5,
    )
    return {path.name: np.load(path) for path in (folder / "shuffled").iterdir()}


@pytest.mark.parametrize("threshold", [0, 4])
def test_all_steps(quick: Path, torchrec: ModuleType, threshold: int) -> None:
    raw = write(quick / "raw", DAYS)
    with contextlib.redirect_stdout(io.StringIO()):
        expected = by_torchrec(torchrec, raw, quick / "theirs", threshold)
    chosen = {"dense": "min2", "frequency_threshold": threshold, "shuffle_seed": 5}
    run(raw, quick / "out", **chosen, compat="torchrec_f32")
    for name, array in expected.items():
        ours = np.load(quick / "out" / name)
        assert same_bits(ours, array.astype(ours.dtype)), name
        assert np.array_equal(ours, array)


def test_kaggle_without_labels(quick: Path, torchrec: ModuleType) -> None:
    test = b"".join(line[line.index(b"\t") + 1 :] + b"\n" for line in content(40, 3).splitlines())
    raw = write(quick / "raw", [Raw("test", "test.txt", test)])
    run(raw, quick / "out", dense="min2", shuffle_seed=None)
    kinds = [str(quick / f"{kind}.npy") for kind in ("dense", "sparse", "labels")]
    torchrec.BinaryCriteoUtils.tsv_to_npys(str(raw / "test.txt"), *kinds, "criteo_kaggle")
    assert same_bits(np.load(quick / "out/test_dense.npy"), np.load(kinds[0]))
    assert same_bits(np.load(quick / "out/test_labels.npy"), np.load(kinds[2]))


@pytest.mark.parametrize("mmap", [False, True])
def test_read_by_torchrec(quick: Path, torchrec: ModuleType, mmap: bool) -> None:
    """Batch by batch, as they are."""
    run(write(quick / "raw", DAYS), quick / "out")
    names = [
        [str(quick / f"out/{day.name}_{kind}.npy") for day in DAYS[:2]]
        for kind in ("dense", "sparse", "labels")
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipe = torchrec.InMemoryBinaryCriteoIterDataPipe(
            "train", *names, batch_size=25, rank=0, world_size=1, mmap_mode=mmap
        )
        batches = list(pipe)
    assert len(batches) == len(pipe) == 8
    dense, sparse, labels = (np.concatenate([np.load(n) for n in kind]) for kind in names)
    rows = np.concatenate([one.dense_features.numpy() for one in batches])
    assert same_bits(rows, dense)
    ids = [one.sparse_features.values().numpy().reshape(26, -1).T for one in batches]
    assert np.array_equal(np.concatenate(ids), sparse)
    assert np.array_equal(np.concatenate([one.labels.numpy() for one in batches]), labels[:, 0])
