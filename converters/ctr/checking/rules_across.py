"""The rules on rows that lie far apart: a row_id once in all, an entity in one split.

Memory is bounded: row ids are looked at in several passes over their column, each taking the ids
of a residue class, so that a pass holds some 8 million of them. Entities are held as 8 bytes per
distinct one; where two hashes meet, the texts decide.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from ingot.converters.ctr import contract
from ingot.converters.ctr.checking import folder
from ingot.converters.ctr.checking.cells import Scalars, cells
from ingot.converters.ctr.checking.findings import At, Findings, Place
from ingot.converters.ctr.checking.folder import Part
from ingot.converters.ctr.featuremap import FeatureMap
from ingot.converters.errors import SourceError

_IDS_PER_PASS: Final = 1 << 23
_BATCH: Final = 1 << 18  # rows: one column alone is read
_SCALE: Final = 2.0**-64
_MIX: Final = np.uint64(0x9E3779B97F4A7C15)
_Hashes = NDArray[np.uint64]


def check_row_ids(
    parts: Iterable[Part], found: Findings, ids_per_pass: int = _IDS_PER_PASS
) -> None:
    """Checks that no row_id stands twice in the files, whatever their order.

    Args:
        parts: files whose `row_id` column can be read as int64.
        found: takes what is wrong; a file that ends early is looked at as far as it goes.
        ids_per_pass: how many ids are held at once, about.
    """
    parts = list(parts)
    passes = max(1, -(-sum(map(_rows, parts)) // ids_per_pass))
    for residue in range(passes):
        held = [ids[_residues(ids, passes) == residue] for part in parts for _, ids in _ids(part)]
        ordered = np.concatenate(held) if held else np.zeros(0, np.int64)
        held.clear()
        ordered.sort()
        repeated = ordered[1:][ordered[1:] == ordered[:-1]]
        found.several("R1.8", len(repeated), _repetitions(parts, np.unique(repeated)))


def _residues(ids: NDArray[np.int64], passes: int) -> NDArray[np.uint64]:
    """In which pass an id is looked at; mixed, as ids may have a pattern."""
    mixed: NDArray[np.uint64] = (ids.view(np.uint64) * _MIX) >> np.uint64(32)
    return mixed % np.uint64(passes)


def _repetitions(parts: list[Part], repeated: NDArray[np.int64]) -> Iterator[Place]:
    """The places of ids that stood before."""
    first: dict[int, str] = {}
    for part in parts:
        for rows, ids in _ids(part):
            for i in np.flatnonzero(np.isin(ids, repeated)).tolist():
                number, row = int(ids[i]), int(rows[i])
                if number in first:
                    said = f"{number}, as in {first[number]}"
                    yield Place(file=part.name, row=row, column=contract.ROW_ID, found=said)
                first.setdefault(number, f"{part.name} row {row}")


def _rows(part: Part) -> int:
    try:
        return folder.row_count(part)
    except SourceError:
        return 0


def _ids(part: Part) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Rows and their ids, int64 both, without null ones, as far as the file can be read."""
    try:
        for start, batch in folder.batches(part, [contract.ROW_ID], _BATCH):
            column = cells(batch.column(0), pa.int64())
            if not isinstance(column, Scalars):
                continue  # R1.3 says so
            there = column.present(np.ones(len(column.values), np.bool_))
            yield start + np.flatnonzero(there), column.values[there]
    except SourceError:
        return  # R0.2 says so


@dataclass(kw_only=True)
class Entities:
    """The entities of the splits, as they come along.

    Attributes:
        featuremap: its seed and fraction say which entity belongs where.
        found: takes what is wrong.
    """

    featuremap: FeatureMap
    found: Findings
    _new: dict[str, list[_Hashes]] = field(default_factory=dict, init=False)
    _known: dict[str, _Hashes] = field(default_factory=dict, init=False)

    def check(self, split: str, column: pa.Array, at: At) -> None:
        """Takes a batch of entities, and checks that each is on its side.

        Args:
            split: train or valid.
            column: their texts; null ones are passed over.
            at: where the batch begins.
        """
        texts = column.to_pylist()
        hashes = entity_hashes(texts, self.featuremap.split_seed)
        trains = hashes.astype(np.float64) * _SCALE < self.featuremap.train_ratio
        there = np.array([text is not None for text in texts], np.bool_)
        wrong = there & (trains if split == "valid" else ~trains)
        self.found.rows("R1.11", at, contract.ENTITY_ID, wrong, lambda i: _shown(texts[i]))
        self._new.setdefault(split, []).append(hashes[there])
        if sum(map(len, self._new[split])) > max(_BATCH, self.distinct(split, settle=False)):
            self.distinct(split)

    def distinct(self, split: str, *, settle: bool = True) -> int:
        """How many distinct entities a split has so far."""
        known = self._known.get(split, np.zeros(0, np.uint64))
        if settle and self._new.get(split):
            known = self._known[split] = np.unique(np.concatenate([known, *self._new[split]]))
            self._new[split] = []
        return len(known)

    def check_splits(self, parts: Iterable[Part]) -> None:
        """Checks that no entity is in both splits, once all batches were taken."""
        for split in contract.SPLITS:
            self.distinct(split)
        sides = [self._known.get(split, np.zeros(0, np.uint64)) for split in contract.SPLITS]
        both = np.intersect1d(sides[0], sides[1], assume_unique=True)
        if not len(both):
            return
        parts = list(parts)
        seed = self.featuremap.split_seed
        trained = {
            text
            for part in parts
            if part.split == "train"
            for _, texts in _texts(part)
            for text, _ in _among(texts, seed, both)
        }
        for part in parts:
            for start, texts in _texts(part) if part.split == "valid" else ():
                for text, i in _among(texts, seed, both):
                    if text in trained:
                        self._in_both(part, start + i, text)

    def _in_both(self, part: Part, row: int, text: bytes) -> None:
        said = f"{_shown(text)}, also in train"
        place = Place(file=part.name, row=row, column=contract.ENTITY_ID, found=said)
        self.found.add("R1.10", place)


def entity_hashes(texts: Iterable[bytes | None], seed: int) -> _Hashes:
    """xxh64 of "seed:entity", uint64; of null that of the empty text."""
    prefix = b"%d:" % seed
    digest = xxhash.xxh64_intdigest
    return np.fromiter((digest(prefix + (text or b"")) for text in texts), np.uint64)


def _texts(part: Part) -> Iterator[tuple[int, list[bytes | None]]]:
    try:
        for start, batch in folder.batches(part, [contract.ENTITY_ID]):
            yield start, batch.column(0).cast(pa.binary()).to_pylist()
    except SourceError:
        return  # R0.2 says so


def _among(texts: list[bytes | None], seed: int, wanted: _Hashes) -> Iterator[tuple[bytes, int]]:
    """The texts whose hash is wanted, with their rows in the batch."""
    for i in np.flatnonzero(np.isin(entity_hashes(texts, seed), wanted)).tolist():
        text = texts[i]
        if text is not None:
            yield text, i


def _shown(text: bytes | None) -> str:
    return (text or b"").decode("utf-8", "replace")
