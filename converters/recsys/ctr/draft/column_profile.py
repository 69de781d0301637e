"""What a sample of a table shows of each column: how its cells look, its tokens, their counts."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from ingot.converters.errors import SourceError
from ingot.converters.recsys.ctr.draft.cell_shapes import (
    MISSING,
    TIMES,
    Shape,
    are_times,
    shape_of_cells,
    value_mark,
)
from ingot.converters.recsys.ctr.table import table_cells as read
from ingot.converters.recsys.ctr.table.table_files import (
    TableFile,
    open_table,
    read_pieces,
    with_columns,
)
from ingot.converters.rows import Json
from ingot.converters.sources.formats.arrow import storage_array
from ingot.converters.sources.sample import draw_sample

_HASHES: Final = 2.0**64
MOST: Final = 1 << 18


class Distinct:
    """Counts of distinct tokens: all of them up to `most`, beyond an even sample of that size.

    The sample is of the tokens with the smallest hashes, so that each has its exact count.
    """

    def __init__(self, max_hashes: int = MOST) -> None:
        self._most = max_hashes
        self._limit = 0  # hashes from here on are not in the sample; 0: all are
        self._hashes = np.empty(0, dtype=np.uint64)
        self._counts = np.empty(0, dtype=np.int64)
        self._pending: list[tuple[NDArray[np.uint64], NDArray[np.int64]]] = []
        self._waiting = 0
        self.occurrences = 0

    def add(self, tokens: pa.LargeBinaryArray) -> None:
        """Count tokens; null is none."""
        coded = tokens.drop_null().dictionary_encode()
        counts = np.bincount(coded.indices.to_numpy(), minlength=len(coded.dictionary))
        words = coded.dictionary.to_pylist()
        hashes = np.array([xxhash.xxh3_64_intdigest(word) for word in words], dtype=np.uint64)
        self.occurrences += int(counts.sum())
        if self._limit:
            in_sample = hashes < np.uint64(self._limit)
            hashes, counts = hashes[in_sample], counts[in_sample]
        self._pending.append((hashes, counts))
        self._waiting += len(hashes)
        if self._waiting > self._most:
            self._settle()

    def _settle(self) -> None:
        if not self._pending:
            return
        hashes = np.concatenate([self._hashes, *(one for one, _ in self._pending)])
        counts = np.concatenate([self._counts, *(one for _, one in self._pending)])
        self._pending, self._waiting = [], 0
        self._hashes, inverse = np.unique(hashes, return_inverse=True)
        self._counts = np.bincount(inverse, counts, len(self._hashes)).astype(np.int64)
        if len(self._hashes) > self._most:
            self._limit = int(self._hashes[self._most])
            self._hashes = self._hashes[: self._most]
            self._counts = self._counts[: self._most]

    @property
    def exact(self) -> bool:
        """Return whether every token is counted."""
        self._settle()
        return not self._limit

    @property
    def distinct(self) -> int:
        """Return the number of distinct tokens; an estimate if not `exact`."""
        self._settle()
        return round(len(self._hashes) * self._scale)

    @property
    def _scale(self) -> float:
        return _HASHES / self._limit if self._limit else 1.0

    @property
    def once(self) -> int:
        """Return the number of tokens that occur once."""
        self._settle()
        return round(int((self._counts == 1).sum()) * self._scale)

    def holding(self, share: float) -> int:
        """Return the least number of tokens that make up this share of all occurrences."""
        self._settle()
        if not len(self._counts):
            return 0
        sums = np.cumsum(np.sort(self._counts)[::-1])
        rank = int(np.searchsorted(sums, share * sums[-1] - 1e-9)) + 1
        return round(min(rank, len(sums)) * self._scale)


LOOKED_AT: Final = 5000  # rows all over the table that the shape of a column is judged by
_LOOKED_BYTES: Final = 4 << 20
_LONGEST = 4096  # lengths of lists are counted up to here


@dataclass(kw_only=True)
class Profile:
    """A column."""

    name: str
    shape: Shape
    rows: int = 0
    missing: int = 0
    missing_texts: Counter[str] = field(default_factory=Counter)
    tokens: Distinct = field(default_factory=Distinct)
    # int64[k]; cells by their number of tokens
    lengths: NDArray[np.int64] = field(default_factory=lambda: np.zeros(_LONGEST + 1, np.int64))
    # the same of lists all over a table that is not read to its end
    spread_lengths: NDArray[np.int64] = field(
        default_factory=lambda: np.zeros(_LONGEST + 1, np.int64)
    )
    labels: tuple[int, int, int] = (0, 0, 0)  # cells that are 0, that are 1, and others
    odd: int = 0

    @property
    def only_labels(self) -> bool:
        """Return whether every cell is 0 or 1."""
        return self.rows > 0 and self.labels[2] == 0

    @property
    def is_label(self) -> bool:
        """Return whether every cell is 0 or 1, and both occur."""
        return self.only_labels and min(self.labels[:2]) > 0

    def length(self, share: float) -> int:
        """Return the length that this share of the cells does not exceed."""
        sums = np.cumsum([self.lengths, self.spread_lengths], axis=1)
        return max(int(np.searchsorted(one, share * one[-1])) for one in sums)

    def add(self, column: pa.Array, where: str) -> None:
        """Count a stretch of the column."""
        self.rows += len(column)
        if not self.shape.nested:
            texts = read.cell_texts(column, where)
            for text in MISSING:
                self.missing_texts[text] += int(read.is_among(texts, (text.encode(),)).sum())
            negatives = int(read.is_among(texts, read.FALSE).sum())
            positives = int(read.is_among(texts, read.TRUE).sum())
            before = self.labels
            rest = len(texts) - negatives - positives
            self.labels = (before[0] + negatives, before[1] + positives, before[2] + rest)
        tokens = read.read_tokens(column, self.cell_format(), where)
        self.odd += tokens.counts.total() - tokens.counts["not_finite"]
        lengths = np.diff(tokens.offsets)
        self.missing += int((lengths == 0).sum())
        self.lengths += np.bincount(np.minimum(lengths, _LONGEST), minlength=_LONGEST + 1)
        self.tokens.add(tokens.tokens)

    def add_spread(self, cells: Sequence[Json]) -> None:
        """Count the lengths of lists all over the table."""
        mark = self.shape.separator
        lists = (one.split(mark) if isinstance(one, str) else one or () for one in cells)
        lengths = [min(sum(part not in (None, "") for part in one), _LONGEST) for one in lists]
        self.spread_lengths += np.bincount(lengths, minlength=_LONGEST + 1)

    def cell_format(self) -> read.CellFormat:
        """Return how its cells become tokens."""
        shape = self.shape
        return read.CellFormat(
            many=shape.many,
            valued=shape.value_separator is not None,
            token_separator=(shape.separator or ",").encode(),
            value_separator=(shape.value_separator or ":").encode(),
            missing=tuple(text.encode() for text in ("", *MISSING)),
        )


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The beginning of a table, or all of it."""

    profiles: tuple[Profile, ...]
    rows: int
    whole: bool
    total: int | None  # rows of the table where the files say it, else None
    rejects: int


_Stretch: TypeAlias = tuple[pa.RecordBatch, int]


def take_sample(path: str, rows: int | None) -> Sample:
    """Look at a table."""
    source = open_table(path)
    files = [with_columns(file, ()) for file in source.files]
    names = [name for name in files[0].columns if all(name in one.columns for one in files)]
    stretches = _read_rows(files, names, rows)
    head: list[_Stretch] = []  # up to the first rows; what follows them stays in the iterator
    while not any(len(batch) for batch, _ in head) and (stretch := next(stretches, None)):
        head.append(stretch)
    if not any(len(batch) for batch, _ in head):
        raise SourceError(path, "no rows in it", "draft needs some to look at")
    first = head[-1][0]
    sample_rows = [
        one.value for one in draw_sample(source, rows=LOOKED_AT, max_bytes=_LOOKED_BYTES).rows
    ]
    profiles = tuple(
        _new_profile(name, first[name], [row.get(name) for row in sample_rows], path)
        for name in names
    )
    seen = rejects = 0
    for batch, broken_rows in chain(head, stretches):
        seen, rejects = seen + len(batch), rejects + broken_rows
        for one in profiles:
            if not one.shape.unread:
                one.add(batch[one.name], f"{path}: column {one.name}")
    counts = [file.facts.rows for file in source.files]
    total = sum(one for one in counts if one is not None) if None not in counts else None
    is_complete = rows is None or seen + rejects < rows or total == seen + rejects
    for one in profiles:
        one.rows = seen
        if one.shape.many and not is_complete:
            one.add_spread([row.get(one.name) for row in sample_rows])
    return Sample(
        profiles=profiles,
        rows=seen,
        whole=is_complete,
        total=total,
        rejects=rejects,
    )


def read_stretches(path: str, names: Sequence[str], max_rows: int | None) -> Iterator[_Stretch]:
    """Yield these columns of the first rows, with the number of broken rows among them."""
    return _read_rows([with_columns(one, names) for one in open_table(path).files], names, max_rows)


def _read_rows(
    files: Sequence[TableFile], names: Sequence[str], max_rows: int | None
) -> Iterator[_Stretch]:
    remaining = max_rows
    for file in files:
        done = 0
        for piece in read_pieces(file, names):
            count = piece.read if remaining is None else min(remaining, piece.read)
            part = piece.part(done, done + count)
            yield part.columns, len(part.rejects)
            done += piece.read
            remaining = None if remaining is None else remaining - count
            if remaining == 0:
                return


def _new_profile(name: str, column: pa.Array, cells: Sequence[Json], path: str) -> Profile:
    """A column by its type and by cells all over the table."""
    column = storage_array(column)
    kind = column.type
    if pa.types.is_struct(kind) or pa.types.is_union(kind):
        return Profile(name=name, shape=Shape(unread=f"cells of type {kind}"))
    if pa.types.is_temporal(kind):
        return Profile(name=name, shape=Shape(unread="a date or time"))
    if pa.types.is_nested(kind):
        return Profile(name=name, shape=_nested_shape(name, column, cells, path))
    return Profile(name=name, shape=shape_of_cells(name, _cell_texts(cells)))


def _cell_texts(cells: Iterable[Json]) -> list[str]:
    """The cells that hold something, as `read.cell_texts` spells them."""
    texts = (one if isinstance(one, str) else json.dumps(one) for one in cells if one is not None)
    return [text for text in texts if text and text not in MISSING]


def _nested_shape(name: str, column: pa.Array, cells: Sequence[Json], path: str) -> Shape:
    if pa.types.is_map(column.type):
        return Shape(nested=True, value_separator="")
    inner = storage_array(column.flatten()).type
    if pa.types.is_struct(inner):
        try:
            read.read_tokens(column.slice(0, 0), read.CellFormat(), f"{path}: column {name}")
        except SourceError as error:
            return Shape(unread=error.problem)
        return Shape(nested=True, value_separator="")
    if pa.types.is_nested(inner):
        return Shape(unread=f"cells of type {column.type}")
    if pa.types.is_temporal(inner):
        return Shape(unread=TIMES)
    texts = _cell_texts(one for cell in cells for one in cell or ())[: 10 * LOOKED_AT]
    if pa.types.is_floating(inner) and not all(float(text).is_integer() for text in texts):
        return Shape(unread="lists of numbers with fractions: a vector")
    if are_times(name, texts):
        return Shape(unread=TIMES)
    return Shape(nested=True, value_separator=value_mark(texts))
