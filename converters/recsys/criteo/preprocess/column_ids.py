"""The ids of all columns while days are read, and what is written when a column is finished."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ingot.converters.errors import OutputError
from ingot.converters.output.files import output_errors, sync_path
from ingot.converters.recsys.criteo.contract import (
    FIRST_ID,
    KEYS,
    METADATA_KEY,
    RARE_ID,
    vocabulary_path,
)
from ingot.converters.recsys.criteo.preprocess.settings import Settings
from ingot.converters.recsys.criteo.preprocess.vocabulary import (
    SCHEMA,
    Ids,
    Vocabulary,
    load_vocabulary,
)
from ingot.converters.recsys.criteo.preprocess.work_folder import (
    WorkFolder,
    append_values,
    map_values,
)
from ingot.converters.rows import Json

_ROWS: Final = 1 << 20


class Column:
    """The map of a column, its log, and the vocabulary that it began with."""

    def __init__(self, work: WorkFolder, at: int, settings: Settings) -> None:
        self.key = KEYS[at]
        self._work = work
        self.prior = (
            load_vocabulary(settings.vocab, self.key) if settings.vocab else Vocabulary.empty()
        )
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
            raise OutputError(str(path), problem, "start again without `resume`")
        os.truncate(path, 4 * length)
        logged = cast(NDArray[np.uint32], map_values(path, np.uint32))
        for start in range(0, length, _ROWS):
            self._map.restore(logged[start : start + _ROWS])

    def encode(self, values: NDArray[np.uint32]) -> NDArray[np.int32]:
        """The ids of values; new ones are logged."""
        ids, fresh = self._map.ids(np.ascontiguousarray(values))
        if len(fresh):
            append_values(cast(BinaryIO, self._log), fresh)
        return ids

    def recount(self, part: str) -> None:
        """Count the ids of a part that was read before."""
        ids = map_values(self._work.column(part, self.key, "ids"), np.int32)
        for start in range(0, len(ids), _ROWS):
            self._map.recount(cast(NDArray[np.int32], ids[start : start + _ROWS]))

    def logged(self) -> int:
        """Values in the log, which is on the disk afterwards."""
        sync_path(self._work.log(self.key))
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
        logged = cast(NDArray[np.uint32], map_values(self._work.log(self.key), np.uint32))
        for values, offset in ((self.prior.values, 0), (logged[: count - known], known)):
            for start in range(0, len(values), _ROWS):
                piece = values[start : start + _ROWS]
                first = offset + start
                yield np.ascontiguousarray(piece), self._map.counts(first, first + len(piece))


@dataclass(frozen=True, kw_only=True)
class _Piece:
    """Values one behind another: uint32 values, int32 ids, int64 counts here and in all."""

    values: NDArray[np.uint32]
    ids: NDArray[np.int32]
    counts: NDArray[np.int64]
    total: NDArray[np.int64]


class _FinalIds:
    """Ids by number of a value: those of the first vocabulary stay, new ones follow.

    A value that is rare in it gets an id once it was seen again and reaches the threshold.
    """

    def __init__(self, column: Column, settings: Settings) -> None:
        self._column, self._threshold = column, settings.threshold
        self._grows = settings.unseen == "new"
        self.next_id = column.prior.next_id

    def pieces(self) -> Iterator[_Piece]:
        """All values with their ids, in order."""
        prior, first = self._column.prior, 0
        for values, counts in self._column.pieces():
            part = slice(first, first + len(values))
            ids = np.full(len(values), RARE_ID, np.int32)
            total = counts.copy()
            known = prior.ids[part]
            ids[: len(known)] = known
            total[: len(known)] += prior.counts[part]
            self._add(ids, counts, total)
            yield _Piece(values=values, ids=ids, counts=counts, total=total)
            first += len(values)

    def _add(
        self, ids: NDArray[np.int32], counts: NDArray[np.int64], total: NDArray[np.int64]
    ) -> None:
        if not self._grows:
            return
        new = (ids == RARE_ID) & (counts > 0) & (total >= self._threshold)
        after = self.next_id + int(np.count_nonzero(new))
        ids[new] = np.arange(self.next_id, after, dtype=np.int32)
        self.next_id = after


@dataclass(kw_only=True)
class _Sums:
    """What stats.json says of a column; `remapped`: ids are not `FIRST_ID` + number."""

    distinct: int = 0
    vocabulary: int = 0
    rare: int = 0
    rare_rows: int = 0
    max_id: int = 0
    remapped: bool = False

    def add(self, piece: _Piece) -> None:
        seen, rare = piece.counts > 0, piece.ids == RARE_ID
        expected = FIRST_ID + self.vocabulary + np.arange(len(piece.ids), dtype=np.int64)
        self.remapped |= not np.array_equal(piece.ids, expected)
        self.distinct += int(np.count_nonzero(seen))
        self.vocabulary += len(piece.values)
        self.rare += int(np.count_nonzero(rare))
        self.rare_rows += int(piece.counts[rare].sum())
        self.max_id = max(self.max_id, int(piece.ids[seen].max(initial=0)))


def finish_column(
    column: Column, work: WorkFolder, settings: Settings, result: Path
) -> dict[str, Json]:
    """Save the vocabulary of a column, and a remap where numbers are not the ids yet.

    Memory: a piece, beside the column's counts and its first vocabulary.
    """
    unseen = column.seal()
    final, sums = _FinalIds(column, settings), _Sums()
    path, remap = vocabulary_path(result, column.key), work.remap(column.key)
    with (
        output_errors(path),
        _make_file(remap).open("wb") as ids,
        pq.ParquetWriter(
            _make_file(path), SCHEMA, use_dictionary=False, compression="zstd"
        ) as writer,
    ):
        for piece in final.pieces():
            sums.add(piece)
            piece.ids.tofile(ids)
            writer.write_table(_piece_table(piece))
        told = {
            "column": column.key,
            "frequency_threshold": settings.threshold,
            "next_id": final.next_id,
        }
        writer.add_key_value_metadata({METADATA_KEY: json.dumps(told)})
    if sums.remapped:
        sync_path(remap)
    else:
        remap.unlink()
    sync_path(path)
    sums.rare_rows += unseen
    sums.max_id = max(sums.max_id, RARE_ID if unseen else 0)
    return vars(sums)


def _make_file(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    return path


def _piece_table(piece: _Piece) -> pa.Table:
    return pa.table([piece.values, piece.ids, piece.total], schema=SCHEMA)
