"""From tokens to a feature's ids and values."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ingot.converters.ctr.building.kernels.selecting import (
    AUTO,
    AUTO_MIX,
    TOPK,
    select_lists,
    select_single,
)
from ingot.converters.ctr.building.rows import Tokens
from ingot.converters.ctr.building.statistics import FeatureSums
from ingot.converters.ctr.building.vocabulary import Vocabulary, ids_of
from ingot.converters.ctr.contract import MISSING, MISSING_VALUE, OOV, index_type, value_type
from ingot.converters.ctr.featuremap import HYBRID, VOCAB, Feature, FeatureMap

_STRATEGIES: Final = {"auto": AUTO, "auto_mix": AUTO_MIX, "topk_by_freq": TOPK}
_MISSING: Final = (MISSING, MISSING_VALUE)


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """A feature's cells over n rows.

    Attributes:
        offsets: int32[n + 1] of the lists; None for single values.
        ids: int64[n] or of all lists.
        values: float32, as ids; may be empty for a feature without `use_value`.
    """

    offsets: NDArray[np.int32] | None
    ids: NDArray[np.int64]
    values: NDArray[np.float32]

    def columns(self, feature: Feature) -> list[pa.Array]:
        """The contract's columns of the feature."""
        columns = [(pa.array(self.ids), index_type(feature))]
        if feature.use_value:
            columns.append((pa.array(self.values), value_type(feature)))
        if self.offsets is None:
            return [elements for elements, _ in columns]
        offsets = pa.array(self.offsets)
        return [pa.ListArray.from_arrays(offsets, one, type=kind) for one, kind in columns]


class Encoder:
    """Selects and encodes the tokens of one feature.

    Attributes:
        feature: whose.
        ids: int64, the id of each token of the field, sorted by text.
        sums: what was encoded, counted.
    """

    def __init__(self, feature: Feature, featuremap: FeatureMap, vocabulary: Vocabulary) -> None:
        self.feature = feature
        self.ids = ids_of(feature, featuremap, vocabulary.texts, vocabulary.ranks)
        self.sums = FeatureSums(feature)
        self._priorities = vocabulary.priorities
        self._oov = OOV if feature.encoding == VOCAB else -1
        # By rank: the contract's tail has the numbers of the head.
        tails = vocabulary.ranks >= (feature.vocab_num_tokens or 0)
        self._tails = tails if feature.encoding == HYBRID else np.zeros_like(tails)

    def encode(
        self,
        tokens: Tokens,
        places: NDArray[np.uint32],
        splits: NDArray[np.uint8],
        weights: NDArray[np.int64],
    ) -> Encoded:
        """Cells of rows.

        Args:
            tokens: of the rows.
            places: for each code its place among the sorted tokens of its field.
            splits: uint8[n], for the sums.
            weights: int64[n], how often each row counts in the sums.
        """
        first = tokens.offsets[0]
        offsets = tokens.offsets - first
        codes = tokens.codes[first : first + offsets[-1]]
        values = tokens.values[first : first + offsets[-1]]
        own = places[codes]
        if self.feature.max_len is None:
            ids, values = select_single(
                offsets,
                own,
                values,
                self._priorities,
                self.ids,
                self._oov,
                self._tails,
                _MISSING,
                splits,
                weights,
                self.sums.counts,
            )
            return Encoded(offsets=None, ids=ids, values=values)
        select = self.feature.token_select
        out, ids, values, before = select_lists(
            offsets,
            own,
            values,
            self._priorities,
            self.ids,
            self.feature.max_len,
            self._first(self.feature.max_len),
            self._strategy(),
            select.non_one_ratio_gte,
            select.value_std_gte,
            self._oov,
            self._tails,
            _MISSING,
            splits,
            weights,
            self.sums.counts,
            self.sums.values,
        )
        self.sums.add_lengths(before, splits, weights)
        return Encoded(offsets=out, ids=ids, values=values)

    def _first(self, longest: int) -> int:
        """How many tokens auto_mix takes by value; rounded, so that 2 / 3 of 3 is 2, not more."""
        return math.ceil(round(longest * self.feature.token_select.value_fraction, 9))

    def _strategy(self) -> int:
        strategy = _STRATEGIES[self.feature.token_select.strategy]
        return TOPK if strategy == AUTO and not self.feature.use_value else strategy
