"""The rows of a part as they lie in the work folder, with their final ids."""

from dataclasses import dataclass
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from ingot.converters.criteo.contract import DENSE, FIRST_ID, KEYS, SPARSE
from ingot.converters.criteo.preprocessing.arrays import HEADER
from ingot.converters.criteo.preprocessing.work import Work, mapped

_LEAST: Final = -(1 << 31)


@dataclass(frozen=True, kw_only=True)
class PartRows:
    """A part that was read.

    Attributes:
        work: where it lies.
        name: of the part.
        rows: that it has.
        remapped: columns whose ids are numbers that remaps make final.
        rounded: whether ids and labels go through float32.
    """

    work: Work
    name: str
    rows: int
    remapped: frozenset[str]
    rounded: bool

    def read(
        self, start: int, stop: int
    ) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32]]:
        """Rows start..stop-1, as bits.

        Returns:
            uint32[R] labels, uint32[R, 13] dense, uint32[26, R] sparse.
        """
        folder = self.work.part(self.name)
        labels = _part(folder / "labels.npy", HEADER, start, stop)
        dense = _part(folder / "dense.npy", HEADER, start * DENSE, stop * DENSE)
        if self.rounded:
            labels = _rounded(labels)
        return labels, dense.reshape(-1, DENSE), self.sparse(start, stop)

    def sparse(self, start: int, stop: int) -> NDArray[np.uint32]:
        """uint32[26, R], the ids of rows start..stop-1."""
        sparse = np.empty((SPARSE, stop - start), np.uint32)
        for at, key in enumerate(KEYS):
            ids = _part(self.work.column(self.name, key, "ids"), 0, start, stop)
            if key in self.remapped:
                ids = self._final(key, ids)
            sparse[at] = _rounded(ids) if self.rounded else ids
        return sparse

    def _final(self, key: str, ids: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Ids by number; those below the first one stay, they are of unseen values."""
        remap = cast(NDArray[np.uint32], mapped(self.work.remap(key), np.uint32))
        own = ids >= FIRST_ID
        final = ids.copy()
        final[own] = remap[ids[own] - FIRST_ID]
        return final


def _part(path: "object", offset: int, start: int, stop: int) -> NDArray[np.uint32]:
    return np.fromfile(str(path), np.uint32, stop - start, offset=offset + 4 * start)


def _rounded(values: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Through float32 and back, which loses what is beyond 24 bits."""
    floats = values.view(np.int32).astype(np.float32)
    floats[floats >= -_LEAST] = _LEAST  # where the reference runs, on x86
    return floats.astype(np.int32).view(np.uint32)
