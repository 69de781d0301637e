"""The end of a column: final ids, its vocabulary, what stats.json says of it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ingot.converters.commit import sync, writing
from ingot.converters.criteo.contract import (
    FIRST_ID,
    METADATA_KEY,
    RARE_ID,
    vocabulary_path,
)
from ingot.converters.criteo.preprocessing.columns import Column
from ingot.converters.criteo.preprocessing.settings import Settings
from ingot.converters.criteo.preprocessing.vocabulary import SCHEMA
from ingot.converters.criteo.preprocessing.work import Work
from ingot.converters.rows import Json


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

    Attributes:
        next_id: of the next new value.
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


def finish(column: Column, work: Work, settings: Settings, result: Path) -> dict[str, Json]:
    """Save the vocabulary of a column, and a remap where numbers are not the ids yet.

    Memory: a piece, beside the column's counts and its first vocabulary.

    Returns:
        What stats.json says of the column, and `remapped`.

    Raises:
        OutputError: it cannot be written.
    """
    unseen = column.seal()
    final, sums = _FinalIds(column, settings), _Sums()
    path, remap = vocabulary_path(result, column.key), work.remap(column.key)
    with (
        writing(path),
        _made(remap).open("wb") as ids,
        pq.ParquetWriter(_made(path), SCHEMA, use_dictionary=False, compression="zstd") as writer,
    ):
        for piece in final.pieces():
            sums.add(piece)
            piece.ids.tofile(ids)
            writer.write_table(_table(piece))
        told = {
            "column": column.key,
            "frequency_threshold": settings.threshold,
            "next_id": final.next_id,
        }
        writer.add_key_value_metadata({METADATA_KEY: json.dumps(told)})
    if sums.remapped:
        sync(remap)
    else:
        remap.unlink()
    sync(path)
    sums.rare_rows += unseen
    sums.max_id = max(sums.max_id, RARE_ID if unseen else 0)
    return vars(sums)


def _made(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    return path


def _table(piece: _Piece) -> pa.Table:
    return pa.table([piece.values, piece.ids, piece.total], schema=SCHEMA)
