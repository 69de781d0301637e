"""The rules on the vocabularies: their order, their ids, no token twice."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from numpy.typing import NDArray

from ingot.converters.ctr import contract
from ingot.converters.ctr.building.hashing import token_hashes
from ingot.converters.ctr.checking import folder
from ingot.converters.ctr.checking.findings import At, Findings, Mask, Place
from ingot.converters.ctr.checking.folder import Part
from ingot.converters.ctr.checking.rules_columns import parquet_type
from ingot.converters.ctr.featuremap import HASH, VOCAB, Feature, FeatureMap
from ingot.converters.errors import SourceError

_BATCH: Final = 1 << 16
COLUMNS: Final = {"token": pa.string(), "count": pa.int64(), "id": pa.int64()}
_RULE: Final = "R7.3"


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """What the vocabulary of a feature holds.

    Attributes:
        distinct: its tokens.
        kept: those that have an id of their own; 0 for a hash.
        occurrences: sum of all counts.
        occurrences_kept: sum of the counts of those that have an id of their own.
    """

    distinct: int
    kept: int
    occurrences: int
    occurrences_kept: int


def check_vocabularies(
    root: Path, featuremap: FeatureMap, found: Findings
) -> dict[str, Vocabulary]:
    """Checks `vocab/` of a processed folder.

    Args:
        root: the folder.
        featuremap: its features have a vocabulary each.
        found: takes what is wrong.

    Returns:
        What they hold, by feature, of those that are as they have to be.
    """
    known = {}
    for feature in featuremap.features:
        name = f"{folder.VOCAB}/{feature.name}.parquet"
        part = Part(split=folder.VOCAB, path=root / name, name=name)
        before = found.counts[_RULE]
        try:
            held = _Check(part, feature, featuremap, found).run()
        except SourceError as error:
            found.add(_RULE, Place(file=name, found=error.problem))
            continue
        if held and found.counts[_RULE] == before:
            known[feature.name] = held
    return known


@dataclass
class _Check:
    """The check of one file."""

    part: Part
    feature: Feature
    featuremap: FeatureMap
    found: Findings
    _last: tuple[int, bytes] | None = None

    def run(self) -> Vocabulary | None:
        if not self._columns():
            return None
        counts, hashes = [], []
        for start, batch in folder.batches(self.part, rows=_BATCH):
            table = {name: batch.column(name) for name in COLUMNS}
            if not self._nulls(table, start):
                return None
            tokens = table["token"].cast(pa.binary())
            numbers = table["count"].to_numpy(zero_copy_only=False)
            self._order(tokens, numbers, start)
            texts = tokens.to_pylist()
            self._ids(texts, table["id"].to_numpy(zero_copy_only=False), start)
            hashes.append(_hashes(texts))
            counts.append(numbers)
        self._distinct(np.concatenate(hashes) if hashes else np.zeros(0, np.uint64))
        return self._held(np.concatenate(counts) if counts else np.zeros(0, np.int64))

    def _held(self, counts: NDArray[np.int64]) -> Vocabulary:
        kept = min(len(counts), self.feature.vocab_num_tokens or 0)
        return Vocabulary(
            distinct=len(counts),
            kept=kept,
            occurrences=int(counts.sum()),
            occurrences_kept=int(counts[:kept].sum()),
        )

    def _columns(self) -> bool:
        schema = folder.schema(self.part)
        there = {one.name: parquet_type(one.type) for one in schema}
        if there == COLUMNS and len(schema.names) == len(COLUMNS):
            return True
        said = ", ".join(f"{one.name} {one.type}" for one in schema)
        wanted = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
        self.found.add(_RULE, Place(file=self.part.name, found=f"columns {said}, not {wanted}"))
        return False

    def _nulls(self, table: dict[str, pa.Array], start: int) -> bool:
        for name, column in table.items():
            null = column.is_null().to_numpy(zero_copy_only=False)
            self._rows(name, null, start, lambda _: "null")
            if null.any():
                return False
        return True

    def _rows(self, column: str, bad: Mask, start: int, said: Any) -> None:  # noqa: ANN401
        self.found.rows(_RULE, At(file=self.part.name, row=start), column, bad, said)

    def _order(self, tokens: pa.Array, counts: NDArray[np.int64], start: int) -> None:
        """Counts fall; where they are equal, tokens rise."""
        self._rows("count", counts < 1, start, lambda i: f"{counts[i]}, at least 1")
        if not len(counts):
            return
        last = (int(counts[0]) + 1, b"") if self._last is None else self._last
        before = pa.concat_arrays([pa.array([last[1]], pa.binary()), tokens[:-1]])
        rises = pc.greater(tokens, before).to_numpy(zero_copy_only=False)
        earlier = np.concatenate([[last[0]], counts[:-1]])
        bad = (counts > earlier) | ((counts == earlier) & ~rises)
        self._rows("token", bad, start, lambda i: f"{_text(tokens[i].as_py())} out of order")
        self._last = int(counts[-1]), tokens[-1].as_py()

    def _ids(self, texts: list[bytes], ids: NDArray[np.int64], start: int) -> None:
        wanted = self._wanted(texts, start)
        self._rows(
            "id", ids != wanted, start, lambda i: f"{ids[i]}, not {wanted[i]}: {_text(texts[i])}"
        )

    def _wanted(self, texts: list[bytes], start: int) -> NDArray[np.int64]:
        """The ids that the feature's encoding gives to the tokens of these ranks."""
        ranks = np.arange(start, start + len(texts))
        size = self.feature.vocab_num_tokens or 0
        wanted = contract.VOCAB_FIRST + ranks
        rest = ranks >= size
        if self.feature.encoding == VOCAB:
            wanted[rest] = contract.OOV
        elif rest.any():
            tail = self.feature.encoding != HASH and self.featuremap.tail_ids == "disjoint"
            first = contract.VOCAB_FIRST + size if tail else contract.HASH_FIRST
            others = texts[max(0, size - start) :]
            wanted[rest] = first + token_hashes(others, self.feature, self.featuremap.hash_seed)
        return wanted

    def _distinct(self, hashes: NDArray[np.uint64]) -> None:
        ordered = np.sort(hashes)
        twice = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
        if not len(twice):
            return
        seen: set[bytes] = set()
        for start, batch in folder.batches(self.part, rows=_BATCH):
            texts = batch.column("token").cast(pa.binary()).to_pylist()
            for i in np.flatnonzero(np.isin(_hashes(texts), twice)).tolist():
                if texts[i] in seen:
                    said = f"{_text(texts[i])} twice"
                    place = Place(file=self.part.name, row=start + i, column="token", found=said)
                    self.found.add(_RULE, place)
                seen.add(texts[i])


def _hashes(texts: list[bytes]) -> NDArray[np.uint64]:
    return np.fromiter(map(xxhash.xxh3_64_intdigest, texts), np.uint64)


def _text(token: bytes) -> str:
    return repr(token.decode("utf-8", "replace"))
