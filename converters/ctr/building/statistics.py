"""What a build counts: `stats.json`."""

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.ctr.blocks import MALFORMED
from ingot.converters.ctr.building.vocabulary import Vocabulary
from ingot.converters.ctr.contract import LABELS, SPLITS
from ingot.converters.ctr.featuremap import HASH, Feature
from ingot.converters.rows import Json

_NAMES: Final = ("missing", "tokens", "distinct_before", "cut_rows", "oov", "tail")
"""The columns of `FeatureSums.counts`, as the kernels number them."""

TOKENS: Final = (
    "read",
    *MALFORMED,
    "unmapped",
    "not_finite",
    "wrong_count",
)
"""The keys of `tokens`: pieces read, those dropped by reason, those of fields that no feature
reads, values that were NaN or infinite, lines whose stated number of tokens is another."""


class FeatureSums:
    """The sums of a feature over the rows of each split.

    Attributes:
        counts: int64[splits, 6]: rows without a token, tokens written, distinct tokens before the
            selection, rows that lost tokens, out of vocabulary, in a tail.
        values: float64[splits, 2]: sum of absolute values before and after the selection.
    """

    def __init__(self, feature: Feature) -> None:
        self._feature = feature
        self.counts = np.zeros((len(SPLITS), len(_NAMES)), np.int64)
        self.values = np.zeros((len(SPLITS), 2), np.float64)
        self._lengths = np.zeros((len(SPLITS), 1), np.int64)

    def add_lengths(
        self, lengths: NDArray[np.int32], splits: NDArray[np.uint8], weights: NDArray[np.int64]
    ) -> None:
        """Count lists by length: int32[n] lengths of rows that count `weights` times."""
        longest = int(lengths.max(initial=0))
        if longest >= self._lengths.shape[1]:
            larger = np.zeros((len(SPLITS), longest + 1), np.int64)
            larger[:, : self._lengths.shape[1]] = self._lengths
            self._lengths = larger
        np.add.at(self._lengths, (splits, lengths), weights)

    def to_json(self, split: int) -> dict[str, Json]:
        """The feature's entry of a split in stats.json."""
        entry: dict[str, Json] = dict(zip(_NAMES, self.counts[split].tolist(), strict=True))
        multi = self._feature.is_multi_hot
        if not multi:
            entry["distinct_before"] = None
        entry["lengths"] = _percentiles(self._lengths[split]) if multi else None
        before, kept = self.values[split].tolist()
        shown = multi and self._feature.use_value and before > 0
        entry["value_kept"] = round(kept / before, 6) if shown else None
        return entry


def _percentiles(histogram: NDArray[np.int64]) -> dict[str, Json] | None:
    """Lengths by how many lists have them, as a few numbers; None where there is no list."""
    total = int(histogram.sum())
    if not total:
        return None
    reached = np.cumsum(histogram)
    there = np.flatnonzero(histogram)
    places = {
        f"p{share}": int(np.searchsorted(reached, total * share / 100)) for share in (50, 90, 99)
    }
    mean = float(histogram @ np.arange(len(histogram))) / total
    return {"min": int(there[0]), "mean": round(mean, 4), **places, "max": int(there[-1])}


def vocabulary_entry(feature: Feature, vocabulary: Vocabulary) -> dict[str, Json]:
    """A feature's entry in stats.json's `vocab`."""
    counts = np.sort(vocabulary.counts[vocabulary.counts > 0])[::-1]
    kept = 0 if feature.encoding == HASH else min(len(counts), feature.vocab_num_tokens or 0)
    return {
        "distinct": len(counts),
        "kept": kept,
        "occurrences": int(counts.sum()),
        "occurrences_kept": int(counts[:kept].sum()),
    }


class LabelSums:
    """Rows and labels of a split, summed."""

    def __init__(self) -> None:
        self.rows = 0
        self._sums = dict.fromkeys(LABELS, 0)
        self._anomalies = 0

    def add(self, labels: Mapping[str, NDArray[np.float32]]) -> None:
        """Count rows; every label is 0.0 or 1.0."""
        self.rows += len(labels["y_ctr"])
        for name in LABELS:
            self._sums[name] += int(np.count_nonzero(labels[name]))
        self._anomalies += int(np.count_nonzero(labels["y_cvr"] > labels["y_ctr"]))

    def to_json(self) -> dict[str, Json]:
        """The labels' part of a split in stats.json."""
        return {"rows": self.rows, **self._sums, "funnel_anomalies": self._anomalies}
