"""Preprocessed folders for tests: made up, or torchrec's from the golden files."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ingot.converters.sources.recognizers.criteo import SPARSE, WIDTHS, array_name

GOLDEN = Path(__file__).parents[3] / "golden" / "criteo"
Array = npt.NDArray[Any]


def made_up(rows: int, seed: int = 0) -> dict[str, Array]:
    """Arrays of a part; the first sparse column numbers its rows from seed * 10**6."""
    rng = np.random.default_rng(seed)
    sparse = rng.integers(0, 50, (rows, SPARSE), dtype=np.int32)
    sparse[:, 0] = seed * 10**6 + np.arange(rows)
    return {
        "dense": rng.random((rows, WIDTHS["dense"]), dtype=np.float32),
        "labels": rng.integers(0, 2, (rows, 1), dtype=np.int32),
        "sparse": sparse,
    }


def write(folder: Path, parts: Mapping[str, Mapping[str, Array]]) -> Path:
    """A folder of these parts' arrays."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, arrays in parts.items():
        for kind, array in arrays.items():
            np.save(folder / array_name(part, kind), array)
    return folder


def write_days(folder: Path, *rows: int) -> Path:
    """A folder of days with so many rows each."""
    return write(folder, {f"day_{day}": made_up(count, day) for day, count in enumerate(rows)})


def write_torchrec(folder: Path) -> Path:
    """What torchrec's own scripts leave of three days: the last one's ids are int64."""
    parts: dict[str, dict[str, Array]] = {}
    with np.load(GOLDEN / "torchrec_now_shuffled.npz") as arrays:
        for name in arrays.files:
            part, kind = name.rsplit("_", 1)
            parts.setdefault(part, {})[kind] = arrays[name]
    return write(folder, parts)


def row_ids(batches: Iterable[Any]) -> list[list[int]]:
    """The numbers of the rows of each batch: the first column of `made_up`."""
    return [batch.sparse_features["cat_0"].values().tolist() for batch in batches]
