"""Ids without those that a piece of a text has only because it begins a text."""

import numpy as np

from ingot.converters.megatron.chats.masks import Mask
from ingot.converters.megatron.engines.engine import Encoded, Lengths


def without_skipped(
    encoded: Encoded, mask: Mask | None, skips: Lengths
) -> tuple[Encoded, Mask | None]:
    """Drop the first ids of each text, and what the mask says of them.

    Args:
        encoded: the texts as they were encoded.
        mask: one byte per id; or none.
        skips: ids to drop per text. Of a text that could not be encoded there are none.
    """
    skipped = np.minimum(skips, encoded.lengths)
    starts = np.cumsum(encoded.lengths) - encoded.lengths
    within = np.arange(len(encoded.ids)) - np.repeat(starts, encoded.lengths)
    kept = within >= np.repeat(skipped, encoded.lengths)
    left = Encoded(ids=encoded.ids[kept], lengths=encoded.lengths - skipped, failed=encoded.failed)
    return left, None if mask is None else mask[kept]
