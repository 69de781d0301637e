"""Vocabularies: a small number for every distinct token, its frequency and its ids."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ingot.converters.errors import ConversionError, SourceError
from ingot.converters.output.files import output_errors
from ingot.converters.recsys.ctr.build.token_kernels import TokenTable, intern_tokens, rehash_slots
from ingot.converters.recsys.ctr.contract import ids_of
from ingot.converters.recsys.ctr.featuremap import Feature, FeatureMap

_SLOTS = 1 << 10
_MOST = (1 << 31) - 1


class Interner:
    """Codes 0, 1, 2, ... for (field, bytes) in order of appearance; no Python object per token.

    Memory: about 30 bytes and the token's own for each distinct token.
    """

    def __init__(self) -> None:
        self.count = 0
        self._table = TokenTable(
            slots=np.full(_SLOTS, -1, np.int32),
            hashes=np.empty(_SLOTS // 2, np.uint64),
            owners=np.empty(_SLOTS // 2, np.int16),
            arena=np.empty(_SLOTS, np.uint8),
            ends=np.zeros(_SLOTS // 2 + 1, np.int64),
        )

    def add(
        self,
        text: NDArray[np.uint8],
        starts: NDArray[np.int64],
        lengths: NDArray[np.int32],
        fields: NDArray[np.int16] | int = 0,
    ) -> NDArray[np.int32]:
        """The codes of tokens, new ones included."""
        if isinstance(fields, int):
            fields = np.full(len(starts), fields, np.int16)
        codes = np.empty(len(starts), np.int32)
        # In steps, so that room for tokens that are all new stays small.
        step = max(1 << 16, self.count // 4)
        for first in range(0, len(starts), step):
            part = slice(first, first + step)
            self._make_room(len(starts[part]), int(lengths[part].sum(dtype=np.int64)))
            self.count = intern_tokens(
                text,
                starts[part],
                lengths[part],
                fields[part],
                self._table,
                self.count,
                codes[part],
            )
        return codes

    def add_array(self, tokens: pa.Array, field: int = 0) -> NDArray[np.int32]:
        """The codes of an Arrow large_binary array without nulls."""
        buffers = tokens.buffers()
        offsets = np.frombuffer(buffers[1], np.int64, len(tokens) + 1, tokens.offset * 8)
        text = np.frombuffer(buffers[2] or b"", np.uint8)
        return self.add(text, offsets[:-1], np.diff(offsets).astype(np.int32), field)

    def owners(self) -> NDArray[np.int16]:
        """The field of each code."""
        return self._table.owners[: self.count]

    def arena(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """The bytes of all codes, uint8, and where each code's end, int64[n + 1] from 0."""
        ends = self._table.ends[: self.count + 1]
        return self._table.arena[: ends[-1]], ends

    def texts(self) -> pa.LargeBinaryArray:
        """The bytes of each code, without a copy."""
        return join_texts(*self.arena())

    def _make_room(self, tokens: int, size: int) -> None:
        most = self.count + tokens
        if most > _MOST:
            raise ConversionError("", f"there are more than {_MOST:,} distinct tokens")
        table = self._table
        if most > len(table.hashes):
            room = max(most, 2 * len(table.hashes))
            table = table._replace(
                hashes=grow_array(table.hashes, room),
                owners=grow_array(table.owners, room),
                ends=grow_array(table.ends, room + 1),
            )
        wanted = int(table.ends[self.count] + size)
        if wanted > len(table.arena):
            arena = grow_array(table.arena, max(wanted, 2 * len(table.arena)))
            table = table._replace(arena=arena)
        if 2 * most > len(table.slots):
            slots = np.full(1 << (2 * most - 1).bit_length(), -1, np.int32)
            table = table._replace(slots=slots)
            rehash_slots(slots, table.hashes, self.count)
        self._table = table


def join_texts(arena: NDArray[np.uint8], ends: NDArray[np.int64]) -> pa.LargeBinaryArray:
    """The texts that `Interner.arena` gives, without a copy."""
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(arena)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(ends) - 1, buffers)


_Element = TypeVar("_Element", bound=np.generic)


def grow_array(array: NDArray[_Element], size: int) -> NDArray[_Element]:
    """A copy with zeros behind it, `size` elements in all."""
    larger = np.zeros(size, array.dtype)
    larger[: len(array)] = array
    return larger


SCHEMA: Final = pa.schema(
    [
        pa.field("token", pa.string(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("id", pa.int64(), nullable=False),
    ]
)
_UNSEEN = np.iinfo(np.int64).max


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """The tokens of one field, sorted by text."""

    texts: pa.LargeBinaryArray
    counts: NDArray[np.int64]  # int64[n], occurrences in train rows; 0 where there are none
    ranks: NDArray[np.int64]  # int64[n], from 0; `_UNSEEN` for tokens that are in no train row
    priorities: NDArray[np.uint32]  # uint32[n], the place of each in the order of (rank, text)

    @property
    def ranked(self) -> NDArray[np.int64]:
        """The places of all ranked tokens, by rank."""
        places = np.flatnonzero(self.ranks != _UNSEEN)
        return places[np.argsort(self.ranks[places])]


def fit_vocabularies(
    interner: Interner,
    counts: NDArray[np.int64],
    fields: int,
    known: Sequence[pa.Table] | None = None,
) -> tuple[NDArray[np.uint32], list[Vocabulary]]:
    """Sort and rank the tokens of every field."""
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
            vocabularies.append(_fit_field(sorted_texts, counts[codes[order]]))
        else:
            vocabularies.append(_look_up_saved(sorted_texts, known[field]))
    return places, vocabularies


def _fit_field(texts: pa.LargeBinaryArray, counts: NDArray[np.int64]) -> Vocabulary:
    order = np.argsort(-counts, kind="stable")  # equal counts keep the order of the texts
    ranks = np.full(len(counts), _UNSEEN)
    seen = int(np.count_nonzero(counts))
    ranks[order[:seen]] = np.arange(seen)
    priorities = np.empty(len(counts), np.uint32)
    priorities[order] = np.arange(len(counts), dtype=np.uint32)
    return Vocabulary(texts=texts, counts=counts, ranks=ranks, priorities=priorities)


def _look_up_saved(texts: pa.LargeBinaryArray, known: pa.Table) -> Vocabulary:
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


def save_vocabulary(path: Path, table: pa.Table) -> None:
    """Write a vocabulary's table."""
    with output_errors(path):
        pq.write_table(table, path, compression="zstd")


def vocabulary_table(vocabulary: Vocabulary, ids: NDArray[np.int64]) -> pa.Table:
    """What is saved of a vocabulary: its ranked tokens, by rank."""
    ranked = vocabulary.ranked
    columns = [
        vocabulary.texts.take(pa.array(ranked)).cast(pa.string()),
        pa.array(vocabulary.counts[ranked]),
        pa.array(ids[ranked]),
    ]
    return pa.table(columns, schema=SCHEMA)


def load_vocabularies(folder: Path, featuremap: FeatureMap) -> dict[str, pa.Table]:
    """Saved vocabularies, by feature."""
    if (folder / "vocab").is_dir():
        folder = folder / "vocab"
    tables = {}
    of_source: dict[tuple[int, str], pa.Table] = {}
    for one in featuremap.features:
        path = folder / f"{one.name}.parquet"
        table = _load_vocabulary(path, one, featuremap)
        first = of_source.setdefault(one.source, table)
        if not table["token"].equals(first["token"]):
            problem = f"has other tokens than another feature of field {one.field!r}"
            raise SourceError(str(path), problem, "take the whole vocab folder of one build")
        tables[one.name] = table
    return tables


def _load_vocabulary(path: Path, feature: Feature, featuremap: FeatureMap) -> pa.Table:
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        said = str(error).splitlines()[0][:200]
        hint = "`vocab` takes the vocab folder of a finished build"
        raise SourceError(str(path), f"cannot be read as a vocabulary: {said}", hint) from error
    if not table.schema.remove_metadata().equals(SCHEMA):
        raise SourceError(str(path), "is not a vocabulary: its columns must be token, count and id")
    if pc.count_distinct(table["token"], mode="all").as_py() != len(table):
        raise SourceError(str(path), "is not a vocabulary: it holds a token twice")
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
