"""The rules on a feature's ids and values, batch by batch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ingot.converters.ctr import contract
from ingot.converters.ctr.checking.cells import Lists, Scalars
from ingot.converters.ctr.checking.findings import At, Findings, Mask, Place
from ingot.converters.ctr.contract import Profile
from ingot.converters.ctr.featuremap import HASH, HYBRID, VOCAB, Feature


@dataclass(frozen=True, kw_only=True)
class IdRanges:
    """Which ids of a feature can occur.

    Attributes:
        end: one more than the largest.
        head_end: one more than the largest id that a vocabulary of full size has; 3 for a hash.
        given_end: one more than the largest id that the vocabulary at hand gives, or None.
        two: whether id 2 stands for anything.
        own: whether ids of the head stand for one token each.
    """

    end: int
    head_end: int
    given_end: int | None
    two: bool
    own: bool


def id_ranges(feature: Feature, profile: Profile | None, given: int | None) -> IdRanges:
    """The ids of a feature.

    Args:
        feature: of the featuremap.
        profile: None for files that carry none: a hybrid's tail is then taken in either place.
        given: tokens that have an id of their own in the vocabulary at hand, None if unknown.
    """
    tails = [profile.tail_ids] if profile else ["disjoint", "contract"]
    head_end = contract.VOCAB_FIRST + (feature.vocab_num_tokens or 0)
    hashes_low = feature.encoding == HASH or (feature.encoding == HYBRID and "contract" in tails)
    return IdRanges(
        end=max(feature.num_embeddings(one) for one in tails),
        head_end=head_end,
        given_end=None if given is None or hashes_low else contract.VOCAB_FIRST + given,
        two=feature.encoding == VOCAB or hashes_low,
        own=feature.encoding != HASH and not hashes_low,
    )


@dataclass(frozen=True, kw_only=True)
class FeatureRules:
    """Checks the columns of one feature.

    Attributes:
        feature: of the featuremap.
        ranges: the ids that it can have.
        decided: whether what the contract's text leaves open is checked too.
        found: takes what is wrong.
    """

    feature: Feature
    ranges: IdRanges
    decided: bool
    found: Findings

    def check(self, ids: Scalars | Lists | None, values: Scalars | Lists | None, at: At) -> None:
        """Checks a batch.

        Args:
            ids: the feature's `_idx` column, None where it cannot be looked into.
            values: its `_val` column, None where it cannot be looked into or there is none.
            at: where the batch begins.
        """
        names = contract.index_column(self.feature), contract.value_column(self.feature)
        for name, one in zip(names, (ids, values), strict=True):
            if one is not None:
                _Column(self.found, at, name, one).nulls()
        if ids is not None:
            self._ids(_Column(self.found, at, names[0], ids))
        if values is not None:
            column = _Column(self.found, at, names[1], values)
            self._values(column)
            if isinstance(values, Scalars) and isinstance(ids, Scalars):
                self._missing(column, column.cells.present(ids.present(ids.values == 1)))
            elif isinstance(values, Lists) and isinstance(ids, Lists):
                self._pairs(column, ids, values)

    def _ids(self, column: "_Column") -> None:
        ids, one = column.cells.values, column.cells
        if isinstance(one, Lists):
            self._lengths(column, one)
        if not len(ids):
            return
        ranges = self.ranges
        if ids.min() <= 0 or ids.max() >= ranges.end:
            column.elements("R3.4", ids == 0)
            outside = (ids < 0) | (ids >= ranges.end)
            column.elements("R3.5", outside, f", ids are below {ranges.end}")
        if not ranges.two:
            column.elements("R3.6", ids == contract.OOV, ", which stands for nothing here")
        if self.decided and ranges.given_end is not None and ranges.given_end < ranges.head_end:
            unknown = (ids >= ranges.given_end) & (ids < ranges.head_end)
            column.elements("R3.9", unknown, f", the vocabulary ends at {ranges.given_end - 1}")

    def _lengths(self, column: "_Column", one: Lists) -> None:
        lengths, most = one.lengths, self.feature.max_len or 0
        empty = lengths == 0
        if one.null is not None:
            empty &= ~one.null
        column.rows("R3.1", empty, lambda _: "[]")
        column.rows("R2.6", lengths > most, lambda i: f"{lengths[i]} elements, max_len {most}")
        if len(one.values):
            missing = one.present(one.values == contract.MISSING)
            if missing.any():
                alone = np.repeat(lengths == 1, lengths)
                column.elements("R3.2", missing & ~alone)
            if self.decided and self.ranges.own:
                column.elements("R3.8", self._repeated(one), ", as before in the list")

    def _repeated(self, one: Lists) -> Mask:
        """Elements whose id of the head stands in their list already."""
        end = self.ranges.head_end
        head = np.flatnonzero((one.values >= contract.VOCAB_FIRST) & (one.values < end))
        rows = np.repeat(np.arange(len(one.offsets) - 1), one.lengths)[head]
        keys = rows * end + one.values[head]
        if len(one.offsets) * end < 1 << 31:
            keys = keys.astype(np.int32)  # sorts in half the time
        repeated = np.zeros(len(one.values), np.bool_)
        ordered = np.sort(keys)
        if (ordered[1:] == ordered[:-1]).any():
            order = np.argsort(keys, kind="stable")
            again = keys[order][1:] == keys[order][:-1]
            repeated[head[order[1:][again]]] = True
        return repeated

    def _values(self, column: "_Column") -> None:
        values = column.cells.values
        if self.decided and len(values) and not np.isfinite(values).all():
            column.elements("R3.7", ~np.isfinite(values))

    def _pairs(self, column: "_Column", ids: Lists, values: Lists) -> None:
        """Lists of ids and values side by side."""
        lengths, others = values.lengths, ids.lengths
        uneven = lengths != others
        for null in (ids.null, values.null):
            if null is not None:
                uneven &= ~null
        column.rows("R2.7", uneven, lambda i: f"{lengths[i]} values, {others[i]} ids")
        if np.array_equal(lengths, others):
            self._missing(column, values.present(ids.present(ids.values == contract.MISSING)))

    def _missing(self, column: "_Column", missing: Mask) -> None:
        wrong = missing & (column.cells.values != contract.MISSING_VALUE)
        column.elements("R3.3", wrong, " beside the missing id")


@dataclass(frozen=True)
class _Column:
    """A column of a batch, and what to do with what is wrong in it."""

    found: Findings
    at: At
    name: str
    cells: Scalars | Lists

    def rows(self, rule: str, bad: Mask, found: Callable[[int], object]) -> None:
        self.found.rows(rule, self.at, self.name, bad, found)

    def nulls(self) -> None:
        if self.cells.null is not None:
            self.rows("R5.1", self.cells.null, lambda _: "null")
        if isinstance(self.cells, Lists) and self.cells.holes is not None:
            self._of_lists("R5.1", self.cells, self.cells.holes, lambda _: "null", "")

    def elements(self, rule: str, bad: Mask, why: str = "") -> None:
        """Notes scalars or elements of lists that are bad; those that are null are not."""
        bad = self.cells.present(bad)
        if not bad.any():
            return
        values: NDArray[Any] = self.cells.values
        if isinstance(self.cells, Lists):
            self._of_lists(rule, self.cells, bad, values.__getitem__, why)
        else:
            self.rows(rule, bad, lambda i: f"{values[i]}{why}")

    def _of_lists(
        self, rule: str, lists: Lists, bad: Mask, said: Callable[[int], object], why: str
    ) -> None:
        elements = np.flatnonzero(bad)
        rows = lists.row_of(elements)
        places = (
            Place(
                file=self.at.file,
                row=self.at.row + row,
                column=self.name,
                found=f"{said(element)} at [{element - int(lists.offsets[row])}]{why}",
            )
            for row, element in zip(map(int, rows), map(int, elements), strict=True)
        )
        self.found.several(rule, len(elements), places)
