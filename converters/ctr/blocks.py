"""What the sources of a build give: rows of a block with the raw tokens of every field."""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

MALFORMED: Final = ("no_id", "no_value", "bad_number", "not_utf8")
"""Why a token is dropped: no separator before its id, none before its value, a value that is no
number, bytes that are no UTF-8."""


@dataclass(frozen=True, kw_only=True)
class Reject:
    """A row that is not written.

    Attributes:
        file: its name.
        row: its number from 0 in the file.
        reason: columns | label | entity_id | ...
        found: what was there, shortened.
    """

    file: str
    row: int
    reason: str
    found: str


@dataclass(frozen=True, kw_only=True)
class RawTokens:
    """The tokens of one field over n rows, in the rows' order, as the data has them.

    Attributes:
        offsets: int32[n + 1]; row i has tokens offsets[i]:offsets[i + 1].
        tokens: Arrow large_binary[m], the token texts in UTF-8.
        values: float32[m], finite; what was NaN or infinite is 0.0.
    """

    offsets: NDArray[np.int32]
    tokens: pa.LargeBinaryArray
    values: NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class RawBlock:
    """Rows of a table.

    Attributes:
        rows: int64[n], the numbers of the rows in the file, from 0.
        clicks: uint8[n], 0 or 1.
        purchases: uint8[n], 0 or 1.
        entities: Arrow large_binary[n], UTF-8.
        samples: uint64[n], a hash of each sample's id, or None where there is none.
        tokens: one per source of the featuremap, in the order of `FeatureMap.sources`.
        malformed: tokens that were dropped, by reason.
        not_finite: values that were NaN or infinite.
        rejects: rows of the block that are left out of it.
    """

    rows: NDArray[np.int64]
    clicks: NDArray[np.uint8]
    purchases: NDArray[np.uint8]
    entities: pa.LargeBinaryArray
    samples: NDArray[np.uint64] | None
    tokens: tuple[RawTokens, ...]
    malformed: dict[str, int] = field(default_factory=dict)
    not_finite: int = 0
    rejects: tuple[Reject, ...] = ()
