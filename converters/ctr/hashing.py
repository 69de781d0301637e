"""The contract's token hash, for every distinct token once."""

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from ingot.converters.ctr.featuremap import Feature


def token_hash(token: bytes, feature: Feature, seed: int) -> int:
    """blake2b of "seed:src:field:token" as a big-endian number, modulo the feature's bucket."""
    text = b"%d:%d:%s:%s" % (seed, feature.src, feature.field.encode(), token)
    return int.from_bytes(blake2b(text, digest_size=16).digest(), "big") % (
        feature.hash_bucket or 1
    )


def token_hashes(tokens: Iterable[bytes], feature: Feature, seed: int) -> NDArray[np.int64]:
    """The hash of each token, int64."""
    return np.fromiter((token_hash(one, feature, seed) for one in tokens), np.int64)
