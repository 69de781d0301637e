"""How often each id came, before a multi-hot conversion and after it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.commit import writing

_SPARSE: Final = 4
"""A table of more than this many rows per id that came is not gone through as a whole."""


class Frequencies:
    """Counts of all F features: `pre` and `post` are lists of int64 [num_embeddings]."""

    def __init__(self, num_embeddings: Sequence[int]) -> None:
        # Zeroed pages take no memory before they are written.
        self.pre = [np.zeros(rows, np.int64) for rows in num_embeddings]
        self.post = [np.zeros(rows, np.int64) for rows in num_embeddings]

    def add(self, feature: int, before: NDArray[np.integer], after: NDArray[np.integer]) -> None:
        """Count ids of a feature, which are below its num_embeddings."""
        _count(self.pre[feature], before)
        _count(self.post[feature], after)

    def save(self, folder: Path, distribution: str) -> list[Path]:
        """Write both files as the reference does: a dict of "0", "1", ... to counts, pickled.

        They are read with `numpy.load(path, allow_pickle=True).item()`.

        Raises:
            OutputError: they cannot be written.
        """
        paths = []
        for when, counts in (("pre", self.pre), ("post", self.post)):
            path = folder / f"stats_{when}_hash_{distribution}.npy"
            document = {str(place): one for place, one in enumerate(counts)}
            with writing(path):
                np.save(path, np.array(document, dtype=object), allow_pickle=True)
            paths.append(path)
        return paths


def _count(counts: NDArray[np.int64], ids: NDArray[np.integer]) -> None:
    if len(counts) <= _SPARSE * len(ids):
        counts += np.bincount(ids, minlength=len(counts))
    else:
        came, often = np.unique(ids, return_counts=True)
        counts[came] += often
