"""What is counted of a part while it is read, and stats.json."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.criteo.contract import DENSE, DENSE_NAMES, KEYS, SPARSE
from ingot.converters.criteo.preprocessing.kernels.measuring import BUCKETS, measure
from ingot.converters.rows import Json

_INT64: Final = np.iinfo(np.int64)


@dataclass(kw_only=True)
class DenseSums:
    """Sums over raw dense values, each int64[13]; `histogram` int64[13, 34], see `measure`."""

    least: NDArray[np.int64] = field(default_factory=lambda: np.full(DENSE, _INT64.max))
    most: NDArray[np.int64] = field(default_factory=lambda: np.full(DENSE, _INT64.min))
    total: NDArray[np.int64] = field(default_factory=lambda: np.zeros(DENSE, np.int64))
    nonfinite: NDArray[np.int64] = field(default_factory=lambda: np.zeros(DENSE, np.int64))
    histogram: NDArray[np.int64] = field(
        default_factory=lambda: np.zeros((DENSE, BUCKETS), np.int64)
    )

    def add(self, raw: NDArray[np.int32]) -> None:
        """Add rows; int32[R, 13]."""
        measure(raw, self.least, self.most, self.total, self.histogram)


@dataclass(kw_only=True)
class PartCounts:
    """What was counted of a part."""

    rows: int = 0
    lines: int = 0
    rejects: Counter[str] = field(default_factory=Counter)
    labels: Counter[str] = field(default_factory=Counter)
    missing: NDArray[np.int64] = field(default_factory=lambda: np.zeros(DENSE + SPARSE, np.int64))
    dense: DenseSums = field(default_factory=DenseSums)

    def add_labels(self, labels: NDArray[np.int32]) -> None:
        """Count labels; int32[R]."""
        ones, zeros = int(np.count_nonzero(labels == 1)), int(np.count_nonzero(labels == 0))
        self.labels.update({"0": zeros, "1": ones, "other": len(labels) - ones - zeros})

    def facts(self) -> dict[str, Json]:
        """As the marker of a finished part holds them."""
        dense = self.dense
        return {
            "rows": self.rows,
            "lines": self.lines,
            "rejects": dict(sorted(self.rejects.items())),
            "labels": {name: self.labels[name] for name in ("0", "1", "other")},
            "nonfinite": dense.nonfinite.tolist(),
            "missing": self.missing.tolist(),
            "least": dense.least.tolist() if self.rows else None,
            "most": dense.most.tolist() if self.rows else None,
            "total": [int(one) for one in dense.total],
            "histogram": dense.histogram.tolist(),
        }


def part_entry(name: str, file: str, facts: dict[str, Json], *, shuffled: bool) -> dict[str, Json]:
    """A part in stats.json."""
    return {
        "name": name,
        "file": file,
        "lines": facts["lines"],
        "rows": facts["rows"],
        "rejects": facts["rejects"],
        "labels": facts["labels"],
        "nonfinite": sum(facts["nonfinite"]),
        "dense_min": min(facts["least"]) if facts["rows"] else None,
        "shuffled": shuffled,
    }


def stats_document(
    parts: Sequence[dict[str, Json]],
    facts: Sequence[dict[str, Json]],
    columns: Sequence[dict[str, Json]],
) -> dict[str, Json]:
    """stats.json.

    Args:
        parts: its entries of parts.
        facts: of the same parts, see `PartCounts.facts`.
        columns: what was counted of each sparse column.
    """
    rejects: Counter[str] = Counter()
    for part in parts:
        rejects.update(part["rejects"])
    missing = _added([one["missing"] for one in facts])
    return {
        "rows": sum(part["rows"] for part in parts),
        "lines": sum(part["lines"] for part in parts),
        "rejects": dict(sorted(rejects.items())),
        "parts": list(parts),
        "dense": [_dense_entry(at, facts, missing[at]) for at in range(DENSE)],
        "sparse": [
            {"name": KEYS[at], "missing": missing[DENSE + at], **columns[at]}
            for at in range(SPARSE)
        ],
    }


def _dense_entry(at: int, facts: Sequence[dict[str, Json]], missing: int) -> dict[str, Json]:
    filled = [one for one in facts if one["rows"]]
    histogram = _added([one["histogram"][at] for one in facts])
    bounds = ["negative", "0", *(str(1 << power) for power in range(BUCKETS - 2))]
    return {
        "name": DENSE_NAMES[at],
        "missing": missing,
        "nonfinite": sum(one["nonfinite"][at] for one in facts),
        "min": min((one["least"][at] for one in filled), default=None),
        "max": max((one["most"][at] for one in filled), default=None),
        "sum": sum(one["total"][at] for one in facts),
        "histogram": {name: n for name, n in zip(bounds, histogram, strict=True) if n},
    }


def _added(counts: Sequence[Sequence[int]]) -> list[int]:
    """Counts of the same things, added."""
    return [sum(column) for column in zip(*counts, strict=True)]
