"""Which token is how frequent, and which id it gets.

A vocabulary is fitted on train rows alone: tokens of a field by (-occurrences, text). `token`,
`count` and `id` of every such token, in that order, are kept as `vocab/<feature>.parquet`, and can
be used again for new data.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ingot.converters.commit import writing
from ingot.converters.ctr.building.hashing import token_hashes
from ingot.converters.ctr.building.interning import Interner
from ingot.converters.ctr.contract import HASH_FIRST, OOV, VOCAB_FIRST
from ingot.converters.ctr.featuremap import HASH, VOCAB, Feature, FeatureMap
from ingot.converters.errors import SourceError

SCHEMA: Final = pa.schema(
    [
        pa.field("token", pa.string(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("id", pa.int64(), nullable=False),
    ]
)
_STEP = 1 << 16
_UNSEEN = np.iinfo(np.int64).max


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """The tokens of one field, sorted by text.

    Attributes:
        texts: Arrow large_binary[n].
        counts: int64[n], occurrences in train rows; 0 where there are none.
        ranks: int64[n], from 0; `_UNSEEN` for tokens that are in no train row.
        priorities: uint32[n], the place of each in the order of (rank, text).
    """

    texts: pa.LargeBinaryArray
    counts: NDArray[np.int64]
    ranks: NDArray[np.int64]
    priorities: NDArray[np.uint32]

    @property
    def ranked(self) -> NDArray[np.int64]:
        """The places of all ranked tokens, by rank."""
        places = np.flatnonzero(self.ranks != _UNSEEN)
        return places[np.argsort(self.ranks[places])]


def fit(
    interner: Interner,
    counts: NDArray[np.int64],
    fields: int,
    known: Sequence[pa.Table] | None = None,
) -> tuple[NDArray[np.uint32], list[Vocabulary]]:
    """Sort and rank the tokens of every field.

    Args:
        interner: of all tokens, train or not.
        counts: occurrences of each code in train rows.
        fields: how many there are.
        known: saved vocabularies, one per field, that take the place of the counts.

    Returns:
        For each code its place among the sorted tokens of its field, and the vocabularies.
    """
    places = np.empty(interner.count, np.uint32)
    texts, owners = interner.texts(), interner.owners()
    vocabularies = []
    for field in range(fields):
        codes = np.flatnonzero(owners == field)
        own = texts.take(pa.array(codes))
        order = pc.array_sort_indices(own).to_numpy()
        places[codes[order]] = np.arange(len(codes), dtype=np.uint32)
        sorted_texts = own.take(pa.array(order))
        if known is None:
            vocabularies.append(_fitted(sorted_texts, counts[codes[order]]))
        else:
            vocabularies.append(_looked_up(sorted_texts, known[field]))
    return places, vocabularies


def _fitted(texts: pa.LargeBinaryArray, counts: NDArray[np.int64]) -> Vocabulary:
    order = np.argsort(-counts, kind="stable")  # equal counts keep the order of the texts
    ranks = np.full(len(counts), _UNSEEN)
    seen = int(np.count_nonzero(counts))
    ranks[order[:seen]] = np.arange(seen)
    priorities = np.empty(len(counts), np.uint32)
    priorities[order] = np.arange(len(counts), dtype=np.uint32)
    return Vocabulary(texts=texts, counts=counts, ranks=ranks, priorities=priorities)


def _looked_up(texts: pa.LargeBinaryArray, known: pa.Table) -> Vocabulary:
    saved = known["token"].combine_chunks().cast(pa.large_binary())
    found = pc.index_in(texts, saved)
    there = found.is_valid().to_numpy(zero_copy_only=False)
    ranks = np.full(len(texts), _UNSEEN)
    ranks[there] = found.drop_null().to_numpy()
    order = np.argsort(ranks, kind="stable")
    priorities = np.empty(len(texts), np.uint32)
    priorities[order] = np.arange(len(texts), dtype=np.uint32)
    counts = np.zeros(len(texts), np.int64)
    counts[there] = known["count"].to_numpy()[ranks[there]]
    return Vocabulary(texts=texts, counts=counts, ranks=ranks, priorities=priorities)


def tail_start(feature: Feature, tail_ids: str) -> int:
    """The id of a feature's hash 0."""
    if feature.encoding == HASH or tail_ids == "contract":
        return HASH_FIRST
    return VOCAB_FIRST + (feature.vocab_num_tokens or 0)


def ids_of(
    feature: Feature,
    featuremap: FeatureMap,
    texts: pa.LargeBinaryArray,
    ranks: NDArray[np.int64],
) -> NDArray[np.int64]:
    """The id of each token under a feature's encoding.

    Args:
        feature: whose encoding.
        featuremap: says seed and place of tails.
        texts: of the tokens.
        ranks: of the tokens.
    """
    head = ranks < (feature.vocab_num_tokens or 0)
    ids = np.full(len(texts), OOV, np.int64)
    ids[head] = VOCAB_FIRST + ranks[head]
    if feature.encoding == VOCAB:
        return ids
    rest = np.flatnonzero(~head)
    start = tail_start(feature, featuremap.tail_ids)
    hashed = token_hashes(_pieces(texts.take(pa.array(rest))), feature, featuremap.hash_seed)
    ids[rest] = start + hashed
    return ids


def _pieces(texts: pa.LargeBinaryArray) -> Iterator[bytes]:
    for first in range(0, len(texts), _STEP):
        yield from texts.slice(first, _STEP).to_pylist()


def save(path: Path, table: pa.Table) -> None:
    """Write a vocabulary's table.

    Raises:
        OutputError: it cannot be written.
    """
    with writing(path):
        pq.write_table(table, path, compression="zstd")


def as_table(vocabulary: Vocabulary, ids: NDArray[np.int64]) -> pa.Table:
    """What is saved of a vocabulary: its ranked tokens, by rank."""
    ranked = vocabulary.ranked
    columns = [
        vocabulary.texts.take(pa.array(ranked)).cast(pa.string()),
        pa.array(vocabulary.counts[ranked]),
        pa.array(ids[ranked]),
    ]
    return pa.table(columns, schema=SCHEMA)


def load(folder: Path, featuremap: FeatureMap) -> dict[str, pa.Table]:
    """Saved vocabularies, by feature.

    Args:
        folder: with `<feature>.parquet`; or a built one, with `vocab/`.
        featuremap: that they are to be used with.

    Raises:
        SourceError: a file is missing or is no vocabulary, or was made by a featuremap that gives
            its tokens other ids.
    """
    if (folder / "vocab").is_dir():
        folder = folder / "vocab"
    tables = {}
    of_source: dict[tuple[int, str], pa.Table] = {}
    for one in featuremap.features:
        path = folder / f"{one.name}.parquet"
        table = _load(path, one, featuremap)
        first = of_source.setdefault(one.source, table)
        if not table["token"].equals(first["token"]):
            problem = f"has other tokens than another feature of field {one.field!r}"
            raise SourceError(str(path), problem, "take the whole vocab folder of one build")
        tables[one.name] = table
    return tables


def _load(path: Path, feature: Feature, featuremap: FeatureMap) -> pa.Table:
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        said = str(error).splitlines()[0][:200]
        hint = "--vocab takes the vocab folder of a finished build"
        raise SourceError(str(path), f"cannot be read as a vocabulary: {said}", hint) from error
    if not table.schema.remove_metadata().equals(SCHEMA):
        raise SourceError(str(path), "is no vocabulary: it needs token, count and id")
    if pc.count_distinct(table["token"], mode="all").as_py() != len(table):
        raise SourceError(str(path), "is no vocabulary: a token stands twice in it")
    ranks = np.arange(len(table), dtype=np.int64)
    texts = table["token"].combine_chunks().cast(pa.large_binary())
    ids = ids_of(feature, featuremap, texts, ranks)
    saved = table["id"].to_numpy()
    if not np.array_equal(ids, saved):
        at = int(np.flatnonzero(ids != saved)[0])
        token = table["token"][at].as_py()
        problem = f"token {token!r} has id {saved[at]}, this featuremap gives {ids[at]}"
        hint = f"use the featuremap that the vocabulary was made with: {path.parent.parent}"
        raise SourceError(str(path), problem, hint)
    return table
