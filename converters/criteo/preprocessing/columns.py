"""The ids of all columns: one map for each while days are read, or one map at a time."""

import os
from collections.abc import Iterator
from typing import BinaryIO, Final, cast

import numpy as np
from numpy.typing import NDArray

from ingot.converters.commit import sync
from ingot.converters.criteo.contract import KEYS
from ingot.converters.criteo.preprocessing.ids import Ids
from ingot.converters.criteo.preprocessing.part_files import append
from ingot.converters.criteo.preprocessing.settings import Settings
from ingot.converters.criteo.preprocessing.vocabulary import Vocabulary, load
from ingot.converters.criteo.preprocessing.work import Work, mapped
from ingot.converters.errors import OutputError

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

    def logged(self) -> int:
        """Values in the log, which is on the disk afterwards."""
        sync(self._work.log(self.key))
        return self._map.count - len(self.prior.values)

    def close(self) -> None:
        """Close the log."""
        if self._log is not None:
            self._log.close()

    def seal(self) -> int:
        """No more values: frees what finding them takes, and gives the rows that got no id."""
        self._map.seal()
        return self._map.unseen

    def pieces(self) -> Iterator[tuple[NDArray[np.uint32], NDArray[np.int64]]]:
        """The values in the order of their numbers, and how often each was seen.

        Gives:
            uint32[n] values, int64[n] counts.
        """
        known, count = len(self.prior.values), self._map.count
        logged = cast(NDArray[np.uint32], mapped(self._work.log(self.key), np.uint32))
        for values, offset in ((self.prior.values, 0), (logged[: count - known], known)):
            for start in range(0, len(values), _ROWS):
                piece = values[start : start + _ROWS]
                first = offset + start
                yield np.ascontiguousarray(piece), self._map.counts(first, first + len(piece))
