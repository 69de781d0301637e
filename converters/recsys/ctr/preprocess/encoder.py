"""Tokens to the ids and values of features, what is counted on the way, and the entities' store."""

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ingot.converters.output.files import output_errors
from ingot.converters.recsys.ctr import contract
from ingot.converters.recsys.ctr.featuremap import HASH, HYBRID, VOCAB, Feature
from ingot.converters.recsys.ctr.preprocess import selection_kernels as selection
from ingot.converters.recsys.ctr.preprocess.row_collector import RowCounts, Rows, Tokens
from ingot.converters.recsys.ctr.preprocess.vocabulary import Vocabulary
from ingot.converters.recsys.ctr.table.table_cells import MALFORMED
from ingot.converters.rows import Json

_NAMES: Final = ("missing", "tokens", "distinct_before", "cut_rows", "oov", "tail")
"""The columns of `FeatureSums.counts`, as the kernels number them."""

TOKENS: Final = ("read", *MALFORMED, "unmapped", "not_finite", "wrong_count")
"""The keys of `tokens`: pieces read, those dropped by reason, those of fields that no feature
reads, values that were NaN or infinite, lines whose stated number of tokens is another."""


class FeatureSums:
    """The sums of a feature over the rows of each split."""

    def __init__(self, feature: Feature) -> None:
        self._feature = feature
        # Rows without a token, tokens written, distinct tokens before the selection, rows that
        # lost tokens, out of vocabulary, in a tail; the sums of absolute values before and after.
        self.counts = np.zeros((len(contract.SPLITS), len(_NAMES)), np.int64)
        # The last axis: the sum, and what rounding took from it.
        self.values = np.zeros((len(contract.SPLITS), 2, 2), np.float64)
        self._lengths = np.zeros((len(contract.SPLITS), 1), np.int64)

    def add_lengths(
        self, lengths: NDArray[np.int32], splits: NDArray[np.uint8], weights: NDArray[np.int64]
    ) -> None:
        """Count lists by length: int32[n] lengths of rows that count `weights` times."""
        longest = int(lengths.max(initial=0))
        if longest >= self._lengths.shape[1]:
            larger = np.zeros((len(contract.SPLITS), longest + 1), np.int64)
            larger[:, : self._lengths.shape[1]] = self._lengths
            self._lengths = larger
        np.add.at(self._lengths, (splits, lengths), weights)

    def to_document(self) -> dict[str, Json]:
        """All sums, for `join`."""
        arrays = {"counts": self.counts, "values": self.values, "lengths": self._lengths}
        return {name: array.tolist() for name, array in arrays.items()}

    def join(self, document: dict[str, Json]) -> None:
        """Add the sums of other rows."""
        self.counts += np.array(document["counts"], np.int64)
        for at in np.ndindex(self.values.shape[:2]):
            for number in np.array(document["values"], np.float64)[at]:
                selection.add_exactly(self.values[at], number)
        for split, counts in enumerate(np.array(document["lengths"], np.int64)):
            splits = np.full(len(counts), split, np.uint8)
            self.add_lengths(np.arange(len(counts), dtype=np.int32), splits, counts)

    def to_json(self, split: int) -> dict[str, object]:
        """The feature's entry of a split in stats.json."""
        entry: dict[str, object] = dict(zip(_NAMES, self.counts[split].tolist(), strict=True))
        multi = self._feature.is_multi_hot
        if not multi:
            entry["distinct_before"] = None
        entry["lengths"] = lengths = (
            contract.length_figures(self._lengths[split]) if multi else None
        )
        if lengths is not None:
            lengths["mean"] = round(lengths["mean"], 4)
        before, kept = self.values[split].sum(axis=1).tolist()
        shown = multi and self._feature.use_value and before > 0
        entry["value_kept"] = round(kept / before, 6) if shown else None
        return entry


def vocabulary_entry(feature: Feature, vocabulary: Vocabulary) -> dict[str, int]:
    """A feature's entry in stats.json's `vocab`."""
    counts = np.sort(vocabulary.counts[vocabulary.counts > 0])[::-1]
    kept = 0 if feature.encoding == HASH else min(len(counts), feature.vocab_num_tokens or 0)
    return {
        "distinct": len(counts),
        "kept": kept,
        "occurrences": int(counts.sum()),
        "occurrences_kept": int(counts[:kept].sum()),
        "new_tokens": int(vocabulary.new.sum()),
        "new_unseen": vocabulary.new_unseen,
    }


class LabelSums:
    """Rows and labels of a split, summed."""

    def __init__(self) -> None:
        self.rows = 0
        self._sums = dict.fromkeys(contract.LABELS, 0)
        self._anomalies = 0

    def add(self, labels: Mapping[str, NDArray[np.float32]]) -> None:
        """Count rows; every label is 0.0 or 1.0."""
        self.rows += len(labels["y_ctr"])
        for name in contract.LABELS:
            self._sums[name] += int(np.count_nonzero(labels[name]))
        self._anomalies += int(np.count_nonzero(labels["y_cvr"] > labels["y_ctr"]))

    def join(self, document: dict[str, Json]) -> None:
        """Add the sums of other rows, which `to_json` gave."""
        self.rows += document["rows"]
        self._anomalies += document["funnel_anomalies"]
        for name in contract.LABELS:
            self._sums[name] += document[name]

    def to_json(self) -> dict[str, object]:
        """The labels' part of a split in stats.json."""
        return {"rows": self.rows, **self._sums, "funnel_anomalies": self._anomalies}


_STRATEGIES: Final = {
    "auto": selection.AUTO,
    "auto_mix": selection.AUTO_MIX,
    "topk_by_freq": selection.TOPK,
}


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """A feature's cells over n rows."""

    offsets: NDArray[np.int32] | None  # int32[n + 1] of the lists; None for single values
    ids: NDArray[np.int64]  # int64[n] or of all lists
    values: NDArray[np.float32]  # float32, as ids; may be empty for a feature without `use_value`

    def columns(self, feature: Feature) -> list[pa.Array]:
        """The contract's columns of the feature."""
        columns = [(pa.array(self.ids), contract.cell_type(feature, pa.int64()))]
        if feature.use_value:
            columns.append((pa.array(self.values), contract.cell_type(feature, pa.float32())))
        if self.offsets is None:
            return [elements for elements, _ in columns]
        offsets = pa.array(self.offsets)
        return [pa.ListArray.from_arrays(offsets, one, type=kind) for one, kind in columns]


class Encoder:
    """Selects and encodes the tokens of one feature; `arrays`: their ids, ranks and priorities."""

    def __init__(self, feature: Feature, *arrays: NDArray[Any]) -> None:
        self.feature, self.arrays = feature, arrays
        ids, ranks, priorities = arrays
        self.sums = FeatureSums(feature)
        # By rank: the contract's tail has the numbers of the head.
        tails = ranks >= (feature.vocab_num_tokens or 0)
        self._vocabulary = selection.TokenIds(
            ids=ids,
            priorities=priorities,
            tails=tails if feature.encoding == HYBRID else np.zeros_like(tails),
            oov=contract.OOV if feature.encoding == VOCAB else -1,
            missing_id=contract.MISSING,
            missing_value=contract.MISSING_VALUE,
        )
        select, longest = feature.token_select, feature.max_len or 0
        strategy = _STRATEGIES[select.strategy]
        self._choice = selection.Choice(
            longest=longest,
            # rounded, so that 2 / 3 of 3 is 2, not more
            first=math.ceil(round(longest * select.value_fraction, 9)),
            strategy=selection.TOPK
            if strategy == selection.AUTO and not feature.use_value
            else strategy,
            ratio=select.non_one_ratio_gte,
            deviation=select.value_std_gte,
        )

    def encode(
        self,
        tokens: Tokens,
        places: NDArray[np.uint32],
        splits: NDArray[np.uint8],
        weights: NDArray[np.int64],
    ) -> Encoded:
        """Encode the tokens of rows."""
        first = tokens.offsets[0]
        offsets = tokens.offsets - first
        part = slice(first, first + offsets[-1])
        lists = selection.TokenLists(offsets, places[tokens.codes[part]], tokens.values[part])
        rows, sums = selection.RowWeights(splits, weights), self.sums
        if self.feature.max_len is None:
            ids, values = selection.select_single(lists, self._vocabulary, rows, sums.counts)
            return Encoded(offsets=None, ids=ids, values=values)
        out, ids, values, before = selection.select_lists(
            lists, self._vocabulary, self._choice, rows, sums.counts, sums.values
        )
        sums.add_lengths(before, splits, weights)
        return Encoded(offsets=out, ids=ids, values=values)


_UNKNOWN: Final = len(contract.SPLITS)
"""Lines before those of the file: what an entity without common features has, for each split."""


class _Column:
    """The cells of one feature: written once, then opened."""

    def __init__(self, feature: Feature, path: Path) -> None:
        self._feature = feature
        self._paths = tuple(path.with_suffix(f".{name}") for name in ("ids", "values", "lengths"))
        self._files: list[BinaryIO] = []
        self._lengths: list[NDArray[np.int32]] = []
        self._offsets = np.zeros(1, np.int64)
        self._ids: NDArray[np.uint32] = np.empty(0, np.uint32)
        self._values: NDArray[np.float32] = np.empty(0, np.float32)

    def begin(self) -> None:
        with output_errors(self._paths[0]):
            self._files = [one.open("wb") for one in self._paths[:2]]

    def add(self, cells: Encoded) -> None:
        if cells.offsets is not None:
            self._lengths.append(np.diff(cells.offsets))
        with output_errors(self._paths[0]):
            cells.ids.astype(np.uint32).tofile(self._files[0])
            if self._feature.use_value:
                cells.values.tofile(self._files[1])

    def close(self) -> None:
        with output_errors(self._paths[0]), ExitStack() as files:
            for file in self._files:
                files.callback(file.close)

    def finish(self) -> None:
        self.close()
        if self._lengths:
            with output_errors(self._paths[2]):
                np.concatenate(self._lengths).tofile(self._paths[2])

    def open(self) -> None:
        """Map the files; the pages are the system's to drop."""
        self._ids = np.memmap(self._paths[0], np.uint32, "r")
        if self._feature.use_value:
            self._values = np.memmap(self._paths[1], np.float32, "r")
        if self._feature.is_multi_hot:
            lengths = np.fromfile(self._paths[2], np.int32)
            self._offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])

    def take(self, lines: NDArray[np.int64]) -> Encoded:
        if self._feature.is_multi_hot:
            offsets, ids, values = selection.gather_lists(
                lines, self._offsets, np.asarray(self._ids), np.asarray(self._values)
            )
            return Encoded(offsets=offsets, ids=ids, values=values)
        values = self._values[lines] if self._feature.use_value else self._values
        return Encoded(offsets=None, ids=self._ids[lines].astype(np.int64), values=values)


class EntityStore:
    """Every feature of common features, encoded once for every line, in a folder."""

    def __init__(self, folder: Path, features: Sequence[Feature]) -> None:
        places = (folder / str(at) for at in range(len(features)))
        self._columns = {one.name: _Column(one, next(places)) for one in features}
        with output_errors(folder):
            folder.mkdir(exist_ok=True)

    def open(self) -> Self:
        """Open what was filled, here or elsewhere."""
        for column in self._columns.values():
            column.open()
        return self

    def fill(
        self,
        encoders: Sequence[tuple[Encoder, int]],
        found: RowCounts,
        common: Iterable[Rows],
        places: NDArray[np.uint32],
    ) -> NDArray[np.int64]:
        """Encode the lines of `common` features; gives the line of each entity.

        `encoders`: each with the number of its field.
        """
        for column in self._columns.values():
            column.begin()
        entities = found.entities
        unknown = entities.lines < 0
        weights = [entities.rows[unknown & (entities.splits == at)].sum() for at in range(_UNKNOWN)]
        splits = np.arange(_UNKNOWN, dtype=np.uint8)
        no_tokens = Tokens(
            offsets=np.zeros(_UNKNOWN + 1, np.int32),
            codes=np.empty(0, np.int32),
            values=np.empty(0, np.float32),
        )
        for encoder, _ in encoders:
            cells = encoder.encode(no_tokens, places, splits, np.array(weights, np.int64))
            self._columns[encoder.feature.name].add(cells)
        by_line = found.weights()
        first = 0
        for rows in common:
            part = by_line[:, first : first + len(rows.rows)]
            first += len(rows.rows)
            # A line serves the rows of one entity, and they are all in one split.
            splits, times = part.argmax(axis=0).astype(np.uint8), part.max(axis=0)
            for encoder, field in encoders:
                cells = encoder.encode(rows.tokens[field], places, splits, times)
                self._columns[encoder.feature.name].add(cells)
        for column in self._columns.values():
            column.finish()
        return np.where(unknown, 0, entities.lines + _UNKNOWN)

    def close(self) -> None:
        """Close the files; again is no harm."""
        with ExitStack() as files:
            for column in self._columns.values():
                files.callback(column.close)

    def take(self, feature: Feature, lines: NDArray[np.int64]) -> Encoded:
        """The cells of a feature in lines."""
        return self._columns[feature.name].take(lines)
