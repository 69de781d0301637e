"""The ids of one column, numbered as values are first seen, and its stored vocabulary."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ingot.converters.errors import ConversionError, SourceError
from ingot.converters.json_yaml import load_json
from ingot.converters.output.files import MANIFEST, output_errors
from ingot.converters.recsys.criteo import contract
from ingot.converters.recsys.criteo.preprocess.part_files import append_values, map_values
from ingot.converters.recsys.criteo.preprocess.row_kernels import (
    assign_ids,
    look_up_ids,
    rehash_slots,
)
from ingot.converters.recsys.criteo.preprocess.settings import Settings
from ingot.converters.recsys.unseen_tokens import (
    describe_misfit,
    expected_unseen,
    refuse_misfits,
)

_SLOTS: Final = 1 << 10
_LOAD: Final = 0.7
_MOST: Final = (1 << 31) - 1 - contract.FIRST_ID
_SETTLED: Final = 1 << 31


class Ids:
    """Values to ids `FIRST_ID`, +1, ... by first sight, and how often each was seen.

    Memory: 8 bytes a slot, of which 35 to 70 % are used, and 4 bytes a value; while the table is
    doubled, half of the slots once more.
    """

    def __init__(self, key: str, *, grows: bool = True, settled: int = _SETTLED) -> None:
        self._key = key
        self._grows = grows
        self._settled = settled
        self._slots = np.zeros(_SLOTS, np.uint64)
        self._counts = np.zeros(int(_SLOTS * _LOAD), np.uint32)
        self._beyond: dict[int, int] = {}
        self._since = 0
        self.count = 0
        self.unseen = 0

    def restore(self, values: NDArray[np.uint32]) -> None:
        """Take values, distinct and in the order of their ids, as known but not counted yet."""
        before = self.count
        self._assign(np.ascontiguousarray(values), np.empty(len(values), np.int32))
        self._counts[before : self.count] = 0

    def ids(self, values: NDArray[np.uint32]) -> tuple[NDArray[np.int32], NDArray[np.uint32]]:
        """Return the ids of values, and the new values among these, in order."""
        self._settle(len(values))
        ids = np.empty(len(values), np.int32)
        if self._grows:
            return ids, self._assign(values, ids)
        self.unseen += look_up_ids(values, self._slots, self._counts, ids)
        return ids, values[:0]

    def seal(self) -> None:
        """Free the table: only counts are asked for from now on."""
        self._slots = np.zeros(0, np.uint64)

    def counts(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return int64[stop - start]: how often the values of these numbers were counted."""
        counts = self._counts[start:stop].astype(np.int64)
        for number, beyond in self._beyond.items():
            if start <= number < stop:
                counts[number - start] += beyond
        return counts

    def _assign(self, values: NDArray[np.uint32], ids: NDArray[np.int32]) -> NDArray[np.uint32]:
        before, position = self.count, 0
        fresh = np.empty(len(values), np.uint32)
        while position < len(values):
            known = self.count
            new = fresh[known - before :]
            position, self.count = assign_ids(
                values, position, self._slots, self.count, self._counts, ids, new
            )
            if position < len(values):
                self._grow()
        return fresh[: self.count - before]

    def _grow(self) -> None:
        if self.count >= _MOST:
            raise ConversionError("", f"{self._key} has more than {_MOST:,} distinct values")
        larger = np.zeros(2 * len(self._slots), np.uint64)
        rehash_slots(self._slots, larger)
        self._slots = larger
        counts = np.zeros(min(int(len(larger) * _LOAD), _MOST), np.uint32)
        counts[: self.count] = self._counts[: self.count]
        self._counts = counts

    def _settle(self, rows: int) -> None:
        """Take large counts out of their 32 bits before more rows could make one overflow."""
        self._since += rows
        if self._since < self._settled:
            return
        for number in np.flatnonzero(self._counts[: self.count] >= self._settled).tolist():
            self._beyond[number] = self._beyond.get(number, 0) + int(self._counts[number])
            self._counts[number] = 0
        self._since = rows


SCHEMA: Final = pa.schema(
    [
        pa.field("value", pa.uint32(), nullable=False),
        pa.field("id", pa.int32(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
    ]
)
_HINT: Final = "give the folder of an earlier run as it was written"


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """A saved vocabulary."""

    values: NDArray[np.uint32]  # [n], in first-seen order
    ids: NDArray[np.int32]
    counts: NDArray[np.int64]
    next_id: int


_NOTHING: Final = Vocabulary(
    values=np.empty(0, np.uint32),
    ids=np.empty(0, np.int32),
    counts=np.empty(0, np.int64),
    next_id=contract.FIRST_ID,
)


def load_vocabulary(folder: Path, key: str) -> Vocabulary:
    """Load the vocabulary of a column from the folder of a run."""
    path = contract.vocabulary_path(folder, key)
    try:
        with pq.ParquetFile(path) as file:
            table = file.read()
            metadata = json.loads(
                (file.metadata.metadata or {}).get(contract.METADATA_KEY, b"null")
            )
        if not isinstance(metadata, dict) or metadata.get("column") != key:
            raise ValueError(f"its metadata are not those of {key}")
        next_id = int(metadata["next_id"])
        for field in SCHEMA:
            column = table[field.name]
            if column.type != field.type or column.null_count:
                raise ValueError(f"the column {field.name} is not {field.type}")
        values, ids, counts = (table[name].to_numpy() for name in SCHEMA.names)
    except FileNotFoundError as error:
        raise SourceError(str(path), "this vocabulary does not exist", _HINT) from error
    except (OSError, pa.ArrowException, KeyError, TypeError, ValueError) as error:
        raise SourceError(str(path), f"is not a vocabulary of ingot: {error}", _HINT) from error
    vocabulary = Vocabulary(values=values, ids=ids, counts=counts, next_id=next_id)
    ids_in_use = vocabulary.ids[vocabulary.ids != contract.RARE_ID]
    lowest, highest = (
        ids_in_use.min(initial=contract.FIRST_ID),
        ids_in_use.max(initial=contract.FIRST_ID - 1),
    )
    unique = len(np.unique(vocabulary.values)) == len(vocabulary.values)
    complete = (
        len(ids_in_use) == vocabulary.next_id - contract.FIRST_ID == len(np.unique(ids_in_use))
    )
    if lowest < contract.FIRST_ID or highest >= vocabulary.next_id or not complete or not unique:
        raise SourceError(str(path), "is damaged: ids are missing, or stand in it twice", _HINT)
    return vocabulary


def vocabulary_digest(folder: Path) -> str:
    """Return the SHA-256 of a folder's vocabularies, checked against a manifest if there is one."""
    try:
        files = load_json(folder / MANIFEST, own=True)["files"]
        listed = {one["path"]: one["sha256"] for one in files}
    except (OSError, ValueError, KeyError, TypeError):
        listed = {}
    digest = hashlib.sha256()
    for key in contract.KEYS:
        path = contract.vocabulary_path(folder, key)
        try:
            with path.open("rb") as file:
                file_digest = hashlib.file_digest(file, "sha256")
        except OSError as error:
            raise SourceError(str(path), f"cannot be read: {error.strerror}", _HINT) from error
        if listed and listed.get(path.relative_to(folder).as_posix()) != file_digest.hexdigest():
            raise SourceError(str(path), "was changed since the run that wrote it", _HINT)
        digest.update(file_digest.digest())
    return digest.hexdigest()


_ROWS: Final = 1 << 20


class Column:
    """The map of a column, its log, and the vocabulary that it began with."""

    def __init__(self, log: Path, index: int, settings: Settings) -> None:
        self.key = contract.KEYS[index]
        self.prior = load_vocabulary(settings.vocab, self.key) if settings.vocab else _NOTHING
        self._map = Ids(self.key, grows=settings.unseen == "new")
        self._map.restore(self.prior.values)
        self._log = log
        self._file = cast("BinaryIO", log.open("wb", buffering=0))

    def encode(self, values: NDArray[np.uint32]) -> NDArray[np.int32]:
        """Return the ids of values; new values are logged."""
        ids, fresh = self._map.ids(np.ascontiguousarray(values))
        append_values(self._file, fresh)
        return ids

    def close(self) -> None:
        """Close the log."""
        self._file.close()

    def seal(self) -> int:
        """End the counting: free the lookup memory, and return the number of rows without an id."""
        self._map.seal()
        return self._map.unseen

    def pieces(self) -> Iterator[tuple[NDArray[np.uint32], NDArray[np.int64]]]:
        """Yield values in the order of their numbers, uint32, and their counts, int64."""
        known, count = len(self.prior.values), self._map.count
        logged = map_values(self._log, np.uint32)
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
    next_id: int  # after them


def _final_pieces(column: Column, settings: Settings) -> Iterator[_Piece]:
    """All values with their ids: those of the first vocabulary stay, new ones follow."""
    prior, first, next_id = column.prior, 0, column.prior.next_id
    for values, counts in column.pieces():
        part = slice(first, first + len(values))
        ids = np.full(len(values), contract.RARE_ID, np.int32)
        total = counts.copy()
        known = prior.ids[part]
        ids[: len(known)] = known
        total[: len(known)] += prior.counts[part]
        # A rare value gets an id once it was seen again and often enough.
        if settings.unseen == "new":
            new = (ids == contract.RARE_ID) & (counts > 0) & (total >= settings.threshold)
            after = next_id + int(np.count_nonzero(new))
            ids[new] = np.arange(next_id, after, dtype=np.int32)
            next_id = after
        yield _Piece(values=values, ids=ids, counts=counts, total=total, next_id=next_id)
        first += len(values)


@dataclass(kw_only=True)
class _Sums:
    """What stats.json says of a column; `remapped`: ids are not `FIRST_ID` + number."""

    distinct: int = 0
    vocabulary: int = 0
    rare: int = 0
    rare_rows: int = 0
    max_id: int = 0
    unseen_rows: int = 0  # whose values the vocabulary that it began with lacks
    remapped: bool = False

    def add(self, piece: _Piece, known: int) -> None:
        seen, rare = piece.counts > 0, piece.ids == contract.RARE_ID
        expected = contract.FIRST_ID + self.vocabulary + np.arange(len(piece.ids), dtype=np.int64)
        self.remapped |= not np.array_equal(piece.ids, expected)
        self.distinct += int(np.count_nonzero(seen))
        self.unseen_rows += int(piece.counts[max(0, known - self.vocabulary) :].sum())
        self.vocabulary += len(piece.values)
        self.rare += int(np.count_nonzero(rare))
        self.rare_rows += int(piece.counts[rare].sum())
        self.max_id = max(self.max_id, int(piece.ids[seen].max(initial=0)))


def finish_column(column: Column, remap: Path, settings: Settings, result: Path) -> dict[str, int]:
    """Save the vocabulary of a column, and a `remap` where numbers are not the ids yet."""
    unseen = column.seal()
    sums, next_id, rows = _Sums(), column.prior.next_id, unseen
    path = contract.vocabulary_path(result, column.key)
    with output_errors(path), ExitStack() as files:
        path.parent.mkdir(exist_ok=True)
        ids = files.enter_context(remap.open("wb"))
        writer = pq.ParquetWriter(path, SCHEMA, use_dictionary=False, compression="zstd")
        files.enter_context(writer)
        for piece in _final_pieces(column, settings):
            next_id = piece.next_id
            sums.add(piece, len(column.prior.values))
            rows += int(piece.counts.sum())
            piece.ids.tofile(ids)
            writer.write_table(pa.table([piece.values, piece.ids, piece.total], schema=SCHEMA))
        metadata = {
            "column": column.key,
            "frequency_threshold": settings.threshold,
            "next_id": next_id,
        }
        writer.add_key_value_metadata({contract.METADATA_KEY: json.dumps(metadata)})
    if not sums.remapped:
        remap.unlink()
    sums.rare_rows += unseen
    sums.unseen_rows += unseen
    sums.max_id = max(sums.max_id, contract.RARE_ID if unseen else 0)
    facts = vars(sums)
    if settings.vocab is None:
        del facts["unseen_rows"]
    elif not settings.accept_unseen:
        expected = expected_unseen(column.prior.counts)
        problem = describe_misfit(rows, sums.unseen_rows, expected, 0.0, None)
        refuse_misfits(str(settings.vocab), {column.key: problem})
    return facts
