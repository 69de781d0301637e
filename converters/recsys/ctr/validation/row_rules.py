"""The rules on rows: labels, row numbers, ids and values batch by batch, and rows far apart."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ingot.converters.errors import SourceError
from ingot.converters.recsys.ctr import contract
from ingot.converters.recsys.ctr.contract import Profile
from ingot.converters.recsys.ctr.featuremap import HASH, HYBRID, VOCAB, Feature, FeatureMap
from ingot.converters.recsys.ctr.validation import processed_folder
from ingot.converters.recsys.ctr.validation.findings import BatchStart, Findings, Mask, Place
from ingot.converters.recsys.ctr.validation.processed_folder import (
    Lists,
    Part,
    Scalars,
    cell_arrays,
)

Columns = dict[str, Scalars | Lists]


class RowRules:
    """Checks the labels and row numbers of one split."""

    def __init__(self, *, profile: Profile | None, findings: Findings) -> None:
        """Take what the files say of themselves, None where they say nothing."""
        self.profile, self.found, self._last = profile, findings, -1

    def check(self, columns: Columns, start: BatchStart) -> None:
        """Check a batch; batches come in the order of the split."""
        for name in contract.REQUIRED:
            column = columns.get(name)
            if column is not None and column.null is not None:
                self.found.rows("R5.1", start, name, column.null, lambda _: "null")
        for name in contract.LABELS:
            label = _scalar_columns(columns, name)
            if label is not None:
                invalid = label.present(~_is_binary(label.values))
                self.found.rows("R1.4", start, name, invalid, label.values.__getitem__)
        self._check_labels(columns, start)
        row_ids = _scalar_columns(columns, contract.ROW_ID)
        if self.profile and row_ids is not None and len(row_ids.values):
            self._check_rising(row_ids, start)

    def _check_labels(self, columns: Columns, start: BatchStart) -> None:
        """Check each row's labels against each other, where they are 0 or 1."""
        note, profile = self.found.rows, self.profile
        if labels := _binary_labels(columns, "y_ctr", "y_cvr", "y_ctcvr"):
            (ctr, cvr, ctcvr), good = labels
            broken = good & (ctcvr != ctr * cvr)
            template = "{:g} at y_ctr {:g}, y_cvr {:g}"
            note(
                "R1.5",
                start,
                "y_ctcvr",
                broken,
                lambda i: template.format(ctcvr[i], ctr[i], cvr[i]),
            )
        if profile and (labels := _binary_labels(columns, "y_ctr", "click_mask")):
            (ctr, mask), good = labels
            broken = good & (mask != (1 if profile.click_mask == "exposed" else ctr))
            of_mask = f"{{:g}} at y_ctr {{:g}}, the profile is {profile.click_mask}"
            note("R1.6", start, "click_mask", broken, lambda i: of_mask.format(mask[i], ctr[i]))
        funnel = profile.funnel if profile else "keep"
        if funnel != "keep" and (labels := _binary_labels(columns, "y_ctr", "y_cvr")):
            (ctr, cvr), good = labels
            broken = good & (cvr == 1) & (ctr == 0)
            note(
                "R1.7", start, "y_cvr", broken, lambda _: f"1 at y_ctr 0, the profile says {funnel}"
            )

    def _check_rising(self, row_ids: Scalars, start: BatchStart) -> None:
        ids: NDArray[np.int64] = row_ids.values
        previous = np.empty_like(ids)
        previous[0] = self._last
        previous[1:] = ids[:-1]
        broken = row_ids.present((ids <= previous) | (ids < 0))
        self.found.rows(
            "R1.9", start, contract.ROW_ID, broken, lambda i: f"{ids[i]} after {previous[i]}"
        )
        self._last = int(ids[-1])


def _scalar_columns(columns: Columns, name: str) -> Scalars | None:
    column = columns.get(name)
    return column if isinstance(column, Scalars) else None


def _is_binary(values: NDArray[np.float32]) -> Mask:
    binary: Mask = (values == 0) | (values == 1)
    return binary


def _binary_labels(
    columns: Columns, *names: str
) -> tuple[tuple[NDArray[np.float32], ...], Mask] | None:
    named_columns = [_scalar_columns(columns, name) for name in names]
    scalars = [one for one in named_columns if one is not None]
    if len(scalars) < len(names):
        return None
    good = np.ones(len(scalars[0].values), np.bool_)
    for one in scalars:
        good &= one.present(_is_binary(one.values))
    return tuple(one.values for one in scalars), good


class FeatureRules:
    """Checks the columns of one feature."""

    def __init__(
        self, feature: Feature, profile: Profile | None, given: int | None, findings: Findings
    ) -> None:
        """Take `given`, how many ids of its own the vocabulary at hand gives, if that is known."""
        self.feature, self._found = feature, findings
        tails = [profile.tail_ids] if profile else ["disjoint", "contract"]
        low = feature.encoding == HASH or (feature.encoding == HYBRID and "contract" in tails)
        self._end = max(feature.num_embeddings(one) for one in tails)
        # One more than the largest id of a vocabulary of full size, and of the one at hand.
        self._head_end = contract.VOCAB_FIRST + (feature.vocab_num_tokens or 0)
        self._given_end = None if given is None or low else contract.VOCAB_FIRST + given
        self._two = feature.encoding == VOCAB or low  # whether id 2 stands for anything
        self._own = feature.encoding != HASH and not low
        self._decided = profile is not None

    def check(
        self, ids: Scalars | Lists | None, values: Scalars | Lists | None, start: BatchStart
    ) -> None:
        """Check a batch."""
        names = contract.index_column(self.feature), contract.value_column(self.feature)
        for name, one in zip(names, (ids, values), strict=True):
            if one is not None:
                _Column(self._found, start, name, one).nulls()
        if ids is not None:
            self._ids(_Column(self._found, start, names[0], ids))
        if values is not None:
            column = _Column(self._found, start, names[1], values)
            if self._decided and not np.isfinite(values.values).all():
                column.elements("R3.7", ~np.isfinite(values.values))
            if isinstance(values, Scalars) and isinstance(ids, Scalars):
                self._missing(column, column.cells.present(ids.present(ids.values == 1)))
            elif isinstance(values, Lists) and isinstance(ids, Lists):
                self._pairs(column, ids, values)

    def _ids(self, column: "_Column") -> None:
        ids, cells = column.cells.values, column.cells
        if isinstance(cells, Lists):
            self._lengths(column, cells)
        if not len(ids):
            return
        if ids.min() <= 0 or ids.max() >= self._end:
            column.elements("R3.4", ids == 0)
            outside = (ids < 0) | (ids >= self._end)
            column.elements("R3.5", outside, f", ids are below {self._end}")
        if not self._two:
            column.elements("R3.6", ids == contract.OOV, ", which stands for nothing here")
        given_end = self._given_end
        if self._decided and given_end is not None and given_end < self._head_end:
            unknown = (ids >= given_end) & (ids < self._head_end)
            column.elements("R3.9", unknown, f", the vocabulary ends at {given_end - 1}")

    def _lengths(self, column: "_Column", lists: Lists) -> None:
        lengths, limit = lists.lengths, self.feature.max_len or 0
        empty = lengths == 0
        if lists.null is not None:
            empty &= ~lists.null
        column.rows("R3.1", empty, lambda _: "[]")
        column.rows("R2.6", lengths > limit, lambda i: f"{lengths[i]} elements, max_len {limit}")
        if len(lists.values):
            missing = lists.present(lists.values == contract.MISSING)
            if missing.any():
                alone = np.repeat(lengths == 1, lengths)
                column.elements("R3.2", missing & ~alone)
            if self._decided and self._own:
                column.elements("R3.8", self._repeated(lists), ", as before in the list")

    def _repeated(self, lists: Lists) -> Mask:
        """Elements whose id of the head stands in their list already."""
        end = self._head_end
        head = np.flatnonzero((lists.values >= contract.VOCAB_FIRST) & (lists.values < end))
        rows = np.repeat(np.arange(len(lists.offsets) - 1), lists.lengths)[head]
        keys = rows * end + lists.values[head]
        if len(lists.offsets) * end < 1 << 31:
            keys = keys.astype(np.int32)  # sorts in half the time
        repeated = np.zeros(len(lists.values), np.bool_)
        ordered = np.sort(keys)
        if (ordered[1:] == ordered[:-1]).any():
            order = np.argsort(keys, kind="stable")
            equal_next = keys[order][1:] == keys[order][:-1]
            repeated[head[order[1:][equal_next]]] = True
        return repeated

    def _pairs(self, column: "_Column", ids: Lists, values: Lists) -> None:
        lengths, id_lengths = values.lengths, ids.lengths
        uneven = lengths != id_lengths
        for null in (ids.null, values.null):
            if null is not None:
                uneven &= ~null
        column.rows("R2.7", uneven, lambda i: f"{lengths[i]} values, {id_lengths[i]} ids")
        if np.array_equal(lengths, id_lengths):
            self._missing(column, values.present(ids.present(ids.values == contract.MISSING)))

    def _missing(self, column: "_Column", missing: Mask) -> None:
        wrong = missing & (column.cells.values != contract.MISSING_VALUE)
        column.elements("R3.3", wrong, " beside the missing id")


@dataclass(frozen=True)
class _Column:
    """A column of a batch, and what to do with what is wrong in it."""

    found: Findings
    at: BatchStart
    name: str
    cells: Scalars | Lists

    def rows(self, rule: str, mask: Mask, describe: Callable[[int], object]) -> None:
        self.found.rows(rule, self.at, self.name, mask, describe)

    def nulls(self) -> None:
        if self.cells.null is not None:
            self.rows("R5.1", self.cells.null, lambda _: "null")
        if isinstance(self.cells, Lists) and self.cells.holes is not None:
            self._of_lists("R5.1", self.cells, self.cells.holes, lambda _: "null", "")

    def elements(self, rule: str, mask: Mask, suffix: str = "") -> None:
        """Note bad scalars or elements of lists, unless they are null."""
        mask = self.cells.present(mask)
        if not mask.any():
            return
        values: NDArray[Any] = self.cells.values
        if isinstance(self.cells, Lists):
            self._of_lists(rule, self.cells, mask, values.__getitem__, suffix)
        else:
            self.rows(rule, mask, lambda i: f"{values[i]}{suffix}")

    def _of_lists(
        self, rule: str, lists: Lists, mask: Mask, describe: Callable[[int], object], suffix: str
    ) -> None:
        elements = np.flatnonzero(mask)
        rows = lists.row_of(elements)
        places = (
            Place(
                file=self.at.file,
                row=self.at.row + row,
                column=self.name,
                found=f"{describe(element)} at [{element - int(lists.offsets[row])}]{suffix}",
            )
            for row, element in zip(map(int, rows), map(int, elements), strict=True)
        )
        self.found.add_several(rule, len(elements), places)


_IDS_PER_PASS: Final = 1 << 22
_ENTITIES_PER_PASS: Final = 1 << 22
_BATCH: Final = 1 << 18  # rows: one column alone is read
_MIX: Final = np.uint64(0x9E3779B97F4A7C15)
_Hashes = NDArray[np.uint64]


def check_row_ids(
    parts: Iterable[Part], findings: Findings, ids_per_pass: int = _IDS_PER_PASS
) -> None:
    """Check that no row_id occurs twice in the files, whatever their order."""
    parts = list(parts)
    passes = max(1, -(-sum(map(_row_batches, parts)) // ids_per_pass))
    for residue in range(passes):
        batches = []
        for _, ids in (batch for part in parts for batch in _id_batches(part)):
            mixed = (ids.view(np.uint64) * _MIX) >> np.uint64(32)  # ids may have a pattern
            batches.append(ids[mixed % np.uint64(passes) == residue])
        ordered = np.concatenate(batches) if batches else np.zeros(0, np.int64)
        batches.clear()
        ordered.sort()
        repeated = ordered[1:][ordered[1:] == ordered[:-1]]
        shown = np.unique(repeated)[: findings.max_shown]
        findings.add_several("R1.8", len(repeated), _repetitions(parts, shown))


def _repetitions(parts: list[Part], repeated: NDArray[np.int64]) -> Iterator[Place]:
    """The places of ids that stood before."""
    first: dict[int, str] = {}
    for part in parts:
        for rows, ids in _id_batches(part):
            for i in np.flatnonzero(np.isin(ids, repeated)).tolist():
                number, row = int(ids[i]), int(rows[i])
                if number in first:
                    repetition = f"{number}, as in {first[number]}"
                    yield Place(file=part.name, row=row, column=contract.ROW_ID, found=repetition)
                first.setdefault(number, f"{part.name} row {row}")


def _row_batches(part: Part) -> int:
    try:
        return processed_folder.read_row_count(part)
    except SourceError:
        return 0


def _id_batches(part: Part) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Rows and their ids, int64 both, without null ones, as far as the file can be read."""
    try:
        for start, batch in processed_folder.read_batches(part, [contract.ROW_ID], _BATCH):
            column = cell_arrays(batch.column(0), pa.int64())
            if not isinstance(column, Scalars):
                continue  # R1.3 says so
            present = column.present(np.ones(len(column.values), np.bool_))
            yield start + np.flatnonzero(present), column.values[present]
    except SourceError:
        return  # R0.2 says so


class Entities:
    """The entities of the splits, as they come along.

    Those of more than `per_pass` hashes are read again and compared in passes.
    """

    def __init__(
        self, *, featuremap: FeatureMap, findings: Findings, per_pass: int = _ENTITIES_PER_PASS
    ) -> None:
        self.featuremap, self.found, self.per_pass = featuremap, findings, per_pass
        self.distinct: Counter[str] = Counter()  # by split, in the end
        self._passes = 1
        self._forget()

    def _forget(self) -> None:
        self._new: dict[str, list[_Hashes]] = {split: [] for split in contract.SPLITS}
        self._known = {split: np.zeros(0, np.uint64) for split in contract.SPLITS}

    def check(self, split: str, column: pa.Array, start: BatchStart) -> None:
        """Count a batch of entities, and check that each is in its split."""
        texts = column.to_pylist()
        hashes = contract.entity_hashes(texts, self.featuremap.split_seed)
        right = contract.SPLITS.index(split)
        present = _is_present(texts)
        wrong = present & (contract.splits_of(hashes, self.featuremap.train_ratio) != right)
        self.found.rows("R1.11", start, contract.ENTITY_ID, wrong, lambda i: _short_text(texts[i]))
        self._take(split, hashes[present], 0)

    def _take(self, split: str, hashes: _Hashes, residue: int) -> None:
        self._new[split].append(hashes)
        if sum(map(len, self._new[split])) > max(_BATCH, len(self._known[split])):
            self._settle(residue)

    def _settle(self, residue: int) -> None:
        """Bring the hashes of this pass together; if the first has too many, there are more."""
        for split, new in self._new.items():
            known = np.concatenate([self._known.pop(split), *new])
            new.clear()
            if self._passes > 1:
                known = known[known % np.uint64(self._passes) == residue]
            known.sort()
            first = np.ones(len(known), np.bool_)
            first[1:] = known[1:] != known[:-1]
            self._known[split] = known[first]
        if residue == 0 and sum(map(len, self._known.values())) > self.per_pass:
            self._passes *= 2
            self._settle(0)

    def check_splits(self, parts: Iterable[Part]) -> None:
        """Check that no entity is in both splits, once all batches were checked."""
        parts = list(parts)
        self._settle(0)
        for residue in range(self._passes):
            for part in parts if residue else ():
                for _, texts, hashes in self._hash_batches(part):
                    self._take(part.split, hashes[_is_present(texts)], residue)
            self._settle(residue)
            self.distinct.update({split: len(known) for split, known in self._known.items()})
            train, valid = self._known.values()
            common = np.intersect1d(train, valid, assume_unique=True)
            self._forget()
            for part in parts if len(common) else ():
                if part.split == "valid":
                    self._note_trained(part, common)

    def _note_trained(self, part: Part, common: _Hashes) -> None:
        for start, texts, hashes in self._hash_batches(part):
            index = np.minimum(np.searchsorted(common, hashes), len(common) - 1)
            mask = (common[index] == hashes) & _is_present(texts)
            batch_start = BatchStart(file=part.name, row=start)
            self.found.rows(
                "R1.10", batch_start, contract.ENTITY_ID, mask, partial(_trained_text, texts)
            )

    def _hash_batches(self, part: Part) -> Iterator[tuple[int, list[bytes | None], _Hashes]]:
        try:
            for start, batch in processed_folder.read_batches(part, [contract.ENTITY_ID]):
                texts = batch.column(0).cast(pa.binary()).to_pylist()
                yield start, texts, contract.entity_hashes(texts, self.featuremap.split_seed)
        except SourceError:
            return  # R0.2 says so


def _is_present(texts: Sequence[bytes | None]) -> Mask:
    return np.array([text is not None for text in texts], np.bool_)


def _trained_text(texts: Sequence[bytes | None], row: int) -> str:
    return f"{_short_text(texts[row])}, also in train"


def _short_text(text: bytes | None) -> str:
    return (text or b"").decode("utf-8", "replace")
