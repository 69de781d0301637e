"""Vocabularies: a small number for every distinct token, its frequency and its ids."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ingot.converters.errors import ConversionError, SourceError
from ingot.converters.json_yaml import find_json
from ingot.converters.output.files import output_errors
from ingot.converters.output.identity import STATS
from ingot.converters.recsys.ctr.contract import ids_of
from ingot.converters.recsys.ctr.featuremap import Feature, FeatureMap
from ingot.converters.recsys.ctr.preprocess.token_kernels import (
    TokenTable,
    intern_tokens,
    rehash_slots,
)
from ingot.converters.recsys.unseen_tokens import (
    RESPELLED,
    describe_misfit,
    expected_unseen,
    plain_spelling,
)
from ingot.converters.rows import Json

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
        """Return the codes of tokens; unknown tokens get new ones."""
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
        """Return the codes of an Arrow large_binary array without nulls."""
        buffers = tokens.buffers()
        offsets = np.frombuffer(buffers[1], np.int64, len(tokens) + 1, tokens.offset * 8)
        text = np.frombuffer(buffers[2] or b"", np.uint8)
        return self.add(text, offsets[:-1], np.diff(offsets).astype(np.int32), field)

    def owners(self) -> NDArray[np.int16]:
        """Return the field of each code."""
        return self._table.owners[: self.count]

    def arena(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return the bytes of all codes, uint8, and where each code's end, int64[n + 1] from 0."""
        ends = self._table.ends[: self.count + 1]
        return self._table.arena[: ends[-1]], ends

    def texts(self) -> pa.LargeBinaryArray:
        """Return the bytes of each code, without a copy."""
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
    """Return the texts of `Interner.arena`, without a copy."""
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(arena)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(ends) - 1, buffers)


_Element = TypeVar("_Element", bound=np.generic)


def grow_array(array: NDArray[_Element], size: int) -> NDArray[_Element]:
    """Return a copy with zeros at its end, `size` elements in all."""
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
    new: NDArray[np.int64]  # int64[n], occurrences in rows that it was not made of

    @property
    def new_unseen(self) -> int:
        """Count the tokens without a rank in rows that the vocabulary was not built from."""
        return int(self.new[self.ranks == _UNSEEN].sum())

    @property
    def ranked(self) -> NDArray[np.int64]:
        """Return the positions of all ranked tokens, by rank."""
        places = np.flatnonzero(self.ranks != _UNSEEN)
        return places[np.argsort(self.ranks[places])]


def fit_vocabularies(
    interner: Interner,
    counts: NDArray[np.int64],
    fields: int,
    known: Sequence[pa.Table] | None = None,
    new: NDArray[np.int64] | None = None,
) -> tuple[NDArray[np.uint32], list[Vocabulary]]:
    """Sort and rank the tokens of every field.

    `counts` are those of train rows, `new` those of rows that the vocabularies are not made of.
    """
    places = np.empty(interner.count, np.uint32)
    new = np.zeros_like(counts) if new is None else new
    texts, owners = interner.texts(), interner.owners()
    vocabularies = []
    for field in range(fields):
        codes = np.flatnonzero(owners == field)
        own = texts.take(pa.array(codes))
        order = pc.array_sort_indices(own).to_numpy()
        places[codes[order]] = np.arange(len(codes), dtype=np.uint32)
        sorted_texts, others = own.take(pa.array(order)), new[codes[order]]
        if known is None:
            vocabularies.append(_fit_field(sorted_texts, counts[codes[order]], others))
        else:
            vocabularies.append(_look_up_saved(sorted_texts, known[field], others))
    return places, vocabularies


def _fit_field(
    texts: pa.LargeBinaryArray, counts: NDArray[np.int64], new: NDArray[np.int64]
) -> Vocabulary:
    order = np.argsort(-counts, kind="stable")  # equal counts keep the order of the texts
    ranks = np.full(len(counts), _UNSEEN)
    seen = int(np.count_nonzero(counts))
    ranks[order[:seen]] = np.arange(seen)
    priorities = np.empty(len(counts), np.uint32)
    priorities[order] = np.arange(len(counts), dtype=np.uint32)
    return Vocabulary(texts=texts, counts=counts, ranks=ranks, priorities=priorities, new=new)


def _look_up_saved(
    texts: pa.LargeBinaryArray, known: pa.Table, new: NDArray[np.int64]
) -> Vocabulary:
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
    return Vocabulary(texts=texts, counts=counts, ranks=ranks, priorities=priorities, new=new)


def save_vocabulary(path: Path, table: pa.Table) -> None:
    """Write a vocabulary's table."""
    with output_errors(path):
        pq.write_table(table, path, compression="zstd")


def vocabulary_table(vocabulary: Vocabulary, ids: NDArray[np.int64]) -> pa.Table:
    """Return what is saved of a vocabulary: its ranked tokens, by rank."""
    ranked = vocabulary.ranked
    columns = [
        vocabulary.texts.take(pa.array(ranked)).cast(pa.string()),
        pa.array(vocabulary.counts[ranked]),
        pa.array(ids[ranked]),
    ]
    return pa.table(columns, schema=SCHEMA)


@dataclass(frozen=True, kw_only=True)
class Known:
    """The vocabularies of an earlier build, by feature, and what it said of its rows."""

    tables: dict[str, pa.Table]
    stats: dict[str, Json]  # its stats.json, empty where there is none
    accept: bool  # new rows that do not fit to them

    @staticmethod
    def load(folder: Path | None, featuremap: FeatureMap, *, accept: bool) -> "Known | None":
        """Load what lies in the folder of a build, or in its folder `vocab`."""
        if folder is None:
            return None
        root = folder if (folder / "vocab").is_dir() else folder.parent
        stats = find_json(root / STATS) or {}
        return Known(tables=load_vocabularies(folder, featuremap), stats=stats, accept=accept)

    def compare(
        self, feature: Feature, vocabulary: Vocabulary, rows: int, kinds: Mapping[str, str]
    ) -> tuple[dict[str, int], str]:
        """Compare the tokens of so many new rows with the earlier build.

        Gives what is counted for stats.json, and why they do not fit, if so. `kinds`: of columns.
        """
        table, name, column = self.tables[feature.name], feature.name, feature.column
        tokens, unseen, spelled = int(vocabulary.new.sum()), vocabulary.new_unseen, ""
        vocab = _find_figure(lambda: self.stats["vocab"][name]) or {}
        before = _find_figure(lambda: vocab["new_unseen"] / vocab["new_tokens"]) or 0.0
        expected = max(before, expected_unseen(table["count"].to_numpy()))
        respelled = 0
        if unseen > RESPELLED * tokens:
            respelled, spelled = _count_respelled(vocabulary, table)
        missing = 1.0 - min(1.0, tokens / max(1, rows))
        if not len(table) or (feature.is_multi_hot and tokens):
            missing = 0.0
        missing_before = _find_figure(lambda: _missing_share(self.stats["splits"].values(), name))
        problem = describe_misfit(tokens, unseen, expected, missing, missing_before)
        if respelled > RESPELLED * tokens and 2 * respelled > unseen:
            share = respelled / tokens
            problem = f"{share:.1%} of its tokens are known in another spelling ({spelled})"
        kind = kinds.get(column or feature.field)
        there = _find_figure(lambda: self.stats["columns"][column or feature.field]) or kind
        if problem and kind != there:
            problem += f"; the column is {kind} here, {there} there"
        return {"new_expected": round(expected * tokens), "new_respelled": respelled}, problem


_Counted = TypeVar("_Counted")


def _missing_share(splits: Iterable[dict[str, Json]], name: str) -> float:
    counts = [(one["features"][name]["missing"], one["rows"]) for one in splits]
    missing, rows = map(sum, zip(*counts, strict=True))
    return missing / rows


def _find_figure(tell: Callable[[], _Counted]) -> _Counted | None:
    """What a stats.json tells, which may be of another version or of anyone; None: nothing."""
    try:
        return tell()
    except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError):
        return None


def _count_respelled(vocabulary: Vocabulary, saved: pa.Table) -> tuple[int, str]:
    """Count new tokens that are saved in another spelling, and name the most frequent."""
    new = vocabulary.new
    odd = np.flatnonzero((vocabulary.ranks == _UNSEEN) & (new > 0))
    texts = vocabulary.texts.take(pa.array(odd)).cast(pa.large_string())
    tokens = saved["token"].combine_chunks()
    found = pc.index_in(plain_spelling(texts), plain_spelling(tokens))
    counts = np.where(found.is_valid().to_numpy(zero_copy_only=False), new[odd], 0)
    if not counts.any():
        return 0, ""
    most = int(counts.argmax())
    here, there = texts[most].as_py(), tokens[found[most].as_py()].as_py()
    return int(counts.sum()), f"{here[:40]!r} here, {there[:40]!r} there"


def load_vocabularies(folder: Path, featuremap: FeatureMap) -> dict[str, pa.Table]:
    """Load saved vocabularies by feature."""
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
