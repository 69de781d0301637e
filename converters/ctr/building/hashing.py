"""The contract's token hash, for every distinct token once."""

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from ingot.converters.ctr.featuremap import Feature

_SIZE = 16
_STEP = 1 << 16


def token_hashes(tokens: Iterable[bytes], feature: Feature, seed: int) -> NDArray[np.int64]:
    """The hash of each token, int64.

    blake2b of "seed:src:field:token", 16 bytes, as a big-endian number, modulo the feature's
    bucket.

    Args:
        tokens: in UTF-8.
        feature: with a `hash_bucket`.
        seed: of the hash.
    """
    prefix = b"%d:%d:%s:" % (seed, feature.src, feature.field.encode())
    parts = list(_parts(iter(tokens), prefix, feature.hash_bucket or 1))
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _parts(tokens: Iterator[bytes], prefix: bytes, bucket: int) -> Iterator[NDArray[np.int64]]:
    while some := list(islice(tokens, _STEP)):
        digests = b"".join([blake2b(prefix + one, digest_size=_SIZE).digest() for one in some])
        high, low = np.frombuffer(digests, ">u8").reshape(-1, 2).T.astype(np.uint64)
        size = np.uint64(bucket)
        # A bucket is below 2^31, so that the product of two remainders fits 64 bits.
        carry = np.uint64((1 << 64) % bucket)
        yield ((high % size * carry + low % size) % size).astype(np.int64)
