"""Rows as the build works on them: every token a code."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ingot.converters.ctr.blocks import RawBlock, Reject
from ingot.converters.ctr.building.interning import Interner


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """The tokens of one field over n rows.

    Attributes:
        offsets: int32[n + 1]; row i has tokens offsets[i]:offsets[i + 1].
        codes: int32[m], of the build's interner.
        values: float32[m], finite.
    """

    offsets: NDArray[np.int32]
    codes: NDArray[np.int32]
    values: NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Rows of a skeleton or a table, or lines of the common features.

    Attributes:
        rows: int64[n], their numbers in the file from 0.
        clicks: uint8[n], 0 or 1; all 0 for common features.
        purchases: uint8[n], 0 or 1; all 0 for common features.
        entities: int32[n], codes of the build's entities.
        samples: uint64[n], hashes of the samples' ids; None where there are none.
        tokens: one per field that the source gives.
        counts: what was dropped or odd, by the names of stats.json's `tokens`.
        rejects: rows that are left out.
        read: rows read, the rejected ones included.
    """

    rows: NDArray[np.int64]
    clicks: NDArray[np.uint8]
    purchases: NDArray[np.uint8]
    entities: NDArray[np.int32]
    samples: NDArray[np.uint64] | None
    tokens: tuple[Tokens, ...]
    counts: Counter[str] = field(default_factory=Counter)
    rejects: Sequence[Reject] = ()

    @property
    def read(self) -> int:
        """Rows read, the rejected ones included."""
        return len(self.rows) + len(self.rejects)


def coded(block: RawBlock, interner: Interner, entities: Interner) -> Rows:
    """A table's rows with codes in place of texts.

    Args:
        block: the rows.
        interner: of tokens; the field is the place in `FeatureMap.sources`.
        entities: of entities.
    """
    tokens = tuple(
        Tokens(offsets=one.offsets, codes=interner.add_array(one.tokens, at), values=one.values)
        for at, one in enumerate(block.tokens)
    )
    counts = Counter(block.malformed)
    counts["not_finite"] = block.not_finite
    counts["read"] = sum(len(one.codes) for one in tokens) + sum(block.malformed.values())
    return Rows(
        rows=block.rows,
        clicks=block.clicks,
        purchases=block.purchases,
        entities=entities.add_array(block.entities),
        samples=block.samples,
        tokens=tokens,
        counts=counts,
        rejects=block.rejects,
    )
