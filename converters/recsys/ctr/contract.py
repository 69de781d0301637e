"""The processed contract: its columns, their types, the ids that mean something, its profile.

Columns of a split, in this order: `y_ctr`, `y_cvr`, `y_ctcvr`, `click_mask` (float32), `row_id`
(int64), `entity_id` (string), then for every feature of the featuremap `<name>_idx` (int64, or a
list of them) and, where the featuremap says `use_value`, `<name>_val` (float32, or a list of them).
No cell and no element is null.

What the contract's text leaves open is a choice of the featuremap, kept in the files' metadata
under `ingot.ctr` as JSON: a `Profile`. Splits are by a hash of the entity: no entity is in both.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Final

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from ingot.converters.recsys.ctr.featuremap import HASH, VOCAB, Feature, FeatureMap

SCHEMA_VERSION: Final = 2
SPLITS: Final = ("train", "valid")

PAD: Final = 0  # fills lists up to the longest of a batch; never in a file
MISSING: Final = 1  # stands for no token at all
OOV: Final = 2  # stands for a token outside of the vocabulary; of encoding `vocab` alone
VOCAB_FIRST: Final = 3  # the id of the most frequent token of a vocabulary
HASH_FIRST: Final = 2  # the id of hash 0
MISSING_VALUE: Final = 1.0
PAD_VALUE: Final = 0.0

LABELS: Final = ("y_ctr", "y_cvr", "y_ctcvr", "click_mask")
ROW_ID: Final = "row_id"
ENTITY_ID: Final = "entity_id"
REQUIRED: Final = (*LABELS, ROW_ID, ENTITY_ID)
METADATA_KEY: Final = b"ingot.ctr"


@dataclass(frozen=True, kw_only=True)
class Profile:
    """How files read the contract where its text leaves a choice."""

    schema_version: int = SCHEMA_VERSION
    click_mask: str = "clicked"
    tail_ids: str = "disjoint"
    funnel: str = "keep"

    @classmethod
    def of(cls, featuremap: FeatureMap) -> "Profile":
        """Return the profile that a featuremap chooses."""
        return cls(
            click_mask=featuremap.click_mask, tail_ids=featuremap.tail_ids, funnel=featuremap.funnel
        )


def index_column(feature: Feature) -> str:
    """Return the column of a feature's ids."""
    return f"{feature.name}_idx"


def value_column(feature: Feature) -> str:
    """Return the column of a feature's values, which files have if `use_value` is set."""
    return f"{feature.name}_val"


def cell_type(feature: Feature, element: pa.DataType) -> pa.DataType:
    """Return the Arrow type of a feature: int64 ids or float32 values, or lists of them."""
    of_list = pa.list_(pa.field("element", element, nullable=False))
    return of_list if feature.is_multi_hot else element


def processed_schema(featuremap: FeatureMap) -> pa.Schema:
    """Return the Arrow schema of a split of the contract, with its profile in the metadata."""
    fields = [pa.field(name, pa.float32(), nullable=False) for name in LABELS]
    fields.append(pa.field(ROW_ID, pa.int64(), nullable=False))
    fields.append(pa.field(ENTITY_ID, pa.string(), nullable=False))
    for feature in featuremap.features:
        fields.append(
            pa.field(index_column(feature), cell_type(feature, pa.int64()), nullable=False)
        )
        if feature.use_value:
            fields.append(
                pa.field(value_column(feature), cell_type(feature, pa.float32()), nullable=False)
            )
    profile = json.dumps(asdict(Profile.of(featuremap)), sort_keys=True)
    return pa.schema(fields, metadata={METADATA_KEY: profile.encode()})


def length_figures(histogram: NDArray[np.int64]) -> dict[str, float] | None:
    """Return lengths by how many lists have them, as a few numbers; None if there is no list."""
    total, occurring = int(histogram.sum()), np.flatnonzero(histogram)
    if not total:
        return None
    reached = np.cumsum(histogram)
    percentiles = {
        f"p{share}": int(np.searchsorted(reached, total * share / 100)) for share in (50, 90, 99)
    }
    mean = float(histogram @ np.arange(len(histogram))) / total
    return {"min": int(occurring[0]), "mean": mean, **percentiles, "max": int(occurring[-1])}


_SIZE = 16
_STEP = 1 << 16


def token_hashes(tokens: Iterable[bytes], feature: Feature, seed: int) -> NDArray[np.int64]:
    """Return the hash of each token, int64.

    blake2b of "seed:src:field:token", 16 bytes, as a big-endian number, modulo the feature's
    bucket.
    """
    prefix = b"%d:%d:%s:" % (seed, feature.src, feature.field.encode())
    digests = b"".join([blake2b(prefix + one, digest_size=_SIZE).digest() for one in tokens])
    bucket = np.uint64(feature.hash_bucket or 1)  # below 2^31: no product is beyond 64 bits
    high, low = np.frombuffer(digests, ">u8").reshape(-1, 2).T.astype(np.uint64) % bucket
    hashes: NDArray[np.uint64] = (high * np.uint64((1 << 64) % int(bucket)) + low) % bucket
    return hashes.astype(np.int64)


def ids_of(
    feature: Feature, featuremap: FeatureMap, texts: pa.Array, ranks: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the id of each token, int64, by its rank in the vocabulary; `texts` are binary."""
    size = feature.vocab_num_tokens or 0
    head = ranks < size
    ids = np.full(len(texts), OOV, np.int64)
    ids[head] = VOCAB_FIRST + ranks[head]
    if feature.encoding == VOCAB:
        return ids
    rest = np.flatnonzero(~head)
    behind_head = feature.encoding != HASH and featuremap.tail_ids == "disjoint"
    hashed = texts.take(pa.array(rest))
    for start in range(0, len(hashed), _STEP):
        tokens = hashed.slice(start, _STEP).to_pylist()
        ids[rest[start : start + _STEP]] = token_hashes(tokens, feature, featuremap.hash_seed)
    ids[rest] += VOCAB_FIRST + size if behind_head else HASH_FIRST
    return ids


TRAIN, VALID = 0, 1  # places in `contract.SPLITS`
_RANGE = 2.0**64


def entity_hashes(entities: Iterable[bytes | None], seed: int) -> NDArray[np.uint64]:
    """Return xxh64 of "seed:entity", uint64; null hashes as the empty text."""
    prefix, digest = b"%d:" % seed, xxhash.xxh64_intdigest
    return np.fromiter((digest(prefix + (one or b"")) for one in entities), np.uint64)


def splits_of(hashes: NDArray[np.uint64], train_fraction: float) -> NDArray[np.uint8]:
    """Return TRAIN where an entity's hash / 2^64 is below the fraction, else VALID: uint8."""
    in_train = hashes.astype(np.float64) / _RANGE < train_fraction
    return np.where(in_train, np.uint8(TRAIN), np.uint8(VALID))
