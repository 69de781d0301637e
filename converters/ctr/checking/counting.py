"""Counts what the rows of a split say: labels, and missing, OOV, tail and lengths per feature.

What a build counts of its raw data goes into stats.json; this counts the written rows, for folders
without one and to see that one adds up.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ingot.converters.ctr import contract
from ingot.converters.ctr.checking.cells import Lists, Scalars
from ingot.converters.ctr.featuremap import HYBRID, VOCAB, Feature

_LONGEST = 1 << 20  # of a list whose length is told apart; max_len is at most 1,000,000


@dataclass(kw_only=True)
class FeatureCounts:
    """What the ids of a feature say.

    Attributes:
        feature: of the featuremap.
        tail_ids: disjoint or contract: then a hybrid's tail cannot be told from its head.
        missing: rows whose only id is the missing one.
        tokens: ids that are not the missing one.
        oov: ids 2 of a vocabulary.
        tail: ids of a hybrid's tail, where they are told apart.
        lengths: how many rows have lists of 0, 1, 2, ... tokens; empty for a single value.
    """

    feature: Feature
    tail_ids: str
    missing: int = 0
    tokens: int = 0
    oov: int = 0
    tail: int = 0
    lengths: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def has_tail(self) -> bool:
        """Whether ids of a tail can be told."""
        return self.feature.encoding == HYBRID and self.tail_ids == "disjoint"

    def add(self, ids: Scalars | Lists) -> None:
        """Takes the `_idx` column of a batch."""
        missing = ids.present(ids.values == contract.MISSING)
        tokens = ids.present(~missing)
        self.missing += int(np.count_nonzero(missing))
        self.tokens += int(np.count_nonzero(tokens))
        if self.feature.encoding == VOCAB:
            self.oov += int(np.count_nonzero(ids.values == contract.OOV))
        if self.has_tail:
            start = contract.VOCAB_FIRST + (self.feature.vocab_num_tokens or 0)
            self.tail += int(np.count_nonzero(ids.values >= start))
        if isinstance(ids, Lists):
            self._add_lengths(ids, tokens)

    def _add_lengths(self, ids: Lists, tokens: NDArray[np.bool_]) -> None:
        before = np.zeros(len(tokens) + 1, np.int64)
        np.cumsum(tokens, out=before[1:])
        lengths = np.minimum(np.diff(before[ids.offsets]), _LONGEST)
        counted = np.bincount(lengths, minlength=len(self.lengths))
        counted[: len(self.lengths)] += self.lengths
        self.lengths = counted


@dataclass(kw_only=True)
class SplitCounts:
    """What the rows of a split say.

    Attributes:
        features: by name.
        rows: in all.
        labels: sums of the four labels, of cells that are 1.
        funnel_anomalies: rows with y_cvr 1 and y_ctr 0.
    """

    features: dict[str, FeatureCounts]
    rows: int = 0
    labels: dict[str, int] = field(default_factory=lambda: dict.fromkeys(contract.LABELS, 0))
    funnel_anomalies: int = 0

    def add(self, rows: int, columns: dict[str, Scalars | Lists]) -> None:
        """Takes a batch: its number of rows, and the columns that can be looked into."""
        self.rows += rows
        ones = {
            name: columns[name].present(columns[name].values == 1)
            for name in contract.LABELS
            if name in columns
        }
        for name, one in ones.items():
            self.labels[name] += int(np.count_nonzero(one))
        if {"y_ctr", "y_cvr"} <= set(ones):
            self.funnel_anomalies += int(np.count_nonzero(ones["y_cvr"] & ~ones["y_ctr"]))
        for counts in self.features.values():
            ids = columns.get(contract.index_column(counts.feature))
            if ids is not None:
                counts.add(ids)


def quantile(lengths: NDArray[np.int64], share: float) -> int:
    """The smallest length that at least a share of the rows do not exceed.

    Args:
        lengths: how many rows have each length, from 0.
        share: above 0, at most 1.
    """
    total = int(lengths.sum())
    wanted = max(1, int(np.ceil(share * total)))
    return int(np.searchsorted(np.cumsum(lengths), wanted)) if total else 0
