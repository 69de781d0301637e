"""The ids of all columns: one map for each while days are read, or one map at a time."""

import os
from pathlib import Path
from typing import BinaryIO, Final, cast

import numpy as np
from numpy.typing import NDArray

from ingot.converters.commit import sync
from ingot.converters.criteo.contract import FIRST_ID, KEYS, RARE_ID
from ingot.converters.criteo.preprocessing.ids import Ids
from ingot.converters.criteo.preprocessing.part_files import append
from ingot.converters.criteo.preprocessing.settings import Settings
from ingot.converters.criteo.preprocessing.vocabulary import Vocabulary, final_ids, load, save
from ingot.converters.criteo.preprocessing.work import Work, mapped
from ingot.converters.errors import OutputError
from ingot.converters.rows import Json

_ROWS: Final = 1 << 20


class Column:
    """The map of a column, its log, and the vocabulary that it began with.

    Args:
        work: where the log is.
        at: number of the column.
        settings: which vocabulary, and whether the map grows.
    """

    def __init__(self, work: Work, at: int, settings: Settings) -> None:
        self.key = KEYS[at]
        self._work = work
        self.prior = load(settings.vocab, self.key) if settings.vocab else Vocabulary.empty()
        self._map = Ids(self.key, grows=settings.unseen == "new")
        self._map.restore(self.prior.values)
        self._log: BinaryIO | None = None

    def open_log(self, length: int) -> None:
        """Go on with the log at a length in values, and know the values up to there."""
        path = self._work.log(self.key)
        path.parent.mkdir(exist_ok=True)
        self._log = cast(BinaryIO, path.open("ab", buffering=0))
        if path.stat().st_size < 4 * length:
            problem = "is shorter than the run that was broken off left it"
            raise OutputError(str(path), problem, "begin anew: --no-resume")
        os.truncate(path, 4 * length)
        logged = cast(NDArray[np.uint32], mapped(path, np.uint32))
        for start in range(0, length, _ROWS):
            self._map.restore(logged[start : start + _ROWS])

    def encode(self, values: NDArray[np.uint32]) -> NDArray[np.int32]:
        """The ids of values; new ones are logged."""
        ids, fresh = self._map.ids(np.ascontiguousarray(values))
        if len(fresh):
            append(cast(BinaryIO, self._log), fresh)
        return ids

    def recount(self, part: str) -> None:
        """Count the ids of a part that was read before."""
        ids = mapped(self._work.column(part, self.key, "ids"), np.int32)
        for start in range(0, len(ids), _ROWS):
            self._map.recount(cast(NDArray[np.int32], ids[start : start + _ROWS]))

    @property
    def values(self) -> int:
        """Distinct values that it knows."""
        return self._map.count

    def logged(self) -> int:
        """Values in the log, which is on the disk afterwards."""
        sync(self._work.log(self.key))
        return self._map.count - len(self.prior.values)

    def close(self) -> None:
        """Close the log."""
        if self._log is not None:
            self._log.close()

    def totals(self) -> tuple[NDArray[np.int64], int]:
        """How often each value was seen and how many rows had none; the map is gone then."""
        counts, unseen = self._map.counts(), self._map.unseen
        del self._map
        return counts, unseen


def finish(column: Column, work: Work, settings: Settings, result: Path) -> dict[str, Json]:
    """Save the vocabulary of a column, and a remap where numbers are not the ids yet.

    Returns:
        What stats.json says of the column, and `remapped`.
    """
    counts, unseen = column.totals()
    prior = column.prior
    final = final_ids(prior, counts, settings.threshold, grows=settings.unseen == "new")
    logged = cast(NDArray[np.uint32], mapped(work.log(column.key), np.uint32))
    values = np.concatenate([prior.values, logged])
    save(result, column.key, values, final, settings.threshold)
    remapped = bool(np.any(np.diff(final.ids, prepend=np.int32(FIRST_ID - 1)) != 1))
    if remapped:
        path = work.remap(column.key)
        path.parent.mkdir(exist_ok=True)
        final.ids.tofile(path)
        sync(path)
    seen = counts > 0
    rare = final.ids == RARE_ID
    lowest = RARE_ID if unseen else 0
    return {
        "distinct": int(np.count_nonzero(seen)),
        "vocabulary": len(values),
        "rare": int(np.count_nonzero(rare)),
        "rare_rows": int(counts[rare].sum()) + unseen,
        "max_id": max(lowest, int(final.ids[seen].max(initial=0))),
        "remapped": remapped,
    }
