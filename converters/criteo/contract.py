"""What preprocessed Criteo data are: files, columns and ids. Text and decisions: `docs/criteo.md`.

A part is one input file: `day_0` to `day_23` of the terabyte set, `train` and `test` of Kaggle's.
"""

from pathlib import Path
from typing import Final

import numpy as np

DENSE: Final = 13
SPARSE: Final = 26
KEYS: Final = tuple(f"cat_{k}" for k in range(SPARSE))
"""The sparse columns, as a KeyedJaggedTensor names them."""
DENSE_NAMES: Final = tuple(f"int_{k}" for k in range(DENSE))
RARE_ID: Final = 1
"""Of values rarer than the frequency threshold, and of unseen ones where no id is given to them."""
FIRST_ID: Final = 2

DTYPES: Final = {
    "dense": np.dtype("<f4"),
    "labels": np.dtype("<i4"),
    "sparse": np.dtype("<i4"),
}
WIDTHS: Final = {"dense": DENSE, "labels": 1, "sparse": SPARSE}

STATS: Final = "stats.json"
REJECTS: Final = "rejects.jsonl"
VOCAB: Final = "vocab"
METADATA_KEY: Final = b"ingot.criteo"
"""Of a vocabulary's Parquet file: {"column", "frequency_threshold", "next_id"} as JSON."""


def array_name(part: str, kind: str) -> str:
    """The file of a part's `dense`, `labels` or `sparse`: shape (rows, width of the kind)."""
    return f"{part}_{kind}.npy"


def vocabulary_path(folder: Path, key: str) -> Path:
    """The vocabulary of a column: value uint32, id int32, count int64, in first-seen order."""
    return folder / VOCAB / f"{key}.parquet"
