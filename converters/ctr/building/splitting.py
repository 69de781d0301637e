"""Which entity belongs to which split: by a hash, so that no entity is in both."""

from collections.abc import Iterable

import numpy as np
import xxhash
from numpy.typing import NDArray

TRAIN, VALID = 0, 1
"""Places in `contract.SPLITS`."""
_RANGE = 2.0**64


def split_of(entity: bytes, seed: int, train_fraction: float) -> int:
    """TRAIN where xxh64("seed:entity") / 2^64 is below the fraction, else VALID."""
    digest = xxhash.xxh64_intdigest(b"%d:%s" % (seed, entity))
    return TRAIN if digest / _RANGE < train_fraction else VALID


def splits_of(entities: Iterable[bytes], seed: int, train_fraction: float) -> NDArray[np.uint8]:
    """The split of each entity, uint8."""
    return np.fromiter((split_of(one, seed, train_fraction) for one in entities), np.uint8)
