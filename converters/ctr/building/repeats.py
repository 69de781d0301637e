"""How many sample ids stand more than once, in bounded memory."""

from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.commit import writing

PART: Final = 1 << 22  # hashes that are sorted at a time: 32 MiB


class Repeats:
    """Hashes of 64 bits, on disk, sorted part by part in the end.

    Two different ids have the same hash by chance once in 2^64 pairs: 5e-5 for 42 million rows.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._count = 0
        with writing(path):
            self._file = path.open("wb")

    def add(self, hashes: NDArray[np.uint64]) -> None:
        """Add uint64 hashes."""
        self._count += len(hashes)
        with writing(self._path):
            hashes.tofile(self._file)

    def close(self) -> None:
        """Close the file; again is no harm."""
        with writing(self._path):
            self._file.close()

    def count(self, part: int = PART) -> int | None:
        """Rows whose id stood before; None where no ids were added. Closes the file.

        Args:
            part: hashes that are sorted at a time.
        """
        self.close()
        if not self._count:
            return None
        parts = -(-self._count // part)
        distinct = 0
        for at in range(parts):
            hashes = self._part(at, parts, part)
            hashes.sort()
            distinct += int(np.count_nonzero(hashes[1:] != hashes[:-1])) + bool(len(hashes))
        return self._count - distinct

    def _part(self, at: int, parts: int, size: int) -> NDArray[np.uint64]:
        """The hashes that belong to a part."""
        held = []
        with self._path.open("rb") as file:
            while len(some := np.fromfile(file, np.uint64, size)):
                held.append(some[some % np.uint64(parts) == at])
        return np.concatenate(held)
