"""What a sample of a table says about each of its columns."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ingot.converters.ctr.drafting.counts import Distinct
from ingot.converters.ctr.drafting.shapes import MISSING, Shape, shape_of_cells, value_mark
from ingot.converters.ctr.tables import cells as read
from ingot.converters.ctr.tables.files import TableFile, open_table, pieces, with_columns
from ingot.converters.errors import SourceError
from ingot.converters.readers.arrowvalues import storage

LOOKED_AT: Final = 5000  # rows that the shape of a column is judged by
_LONGEST = 4096  # lengths of lists are counted up to here


@dataclass(kw_only=True)
class Profile:
    """A column.

    Attributes:
        name: the column's.
        shape: what its cells look like.
        rows: how many were looked at.
        missing: cells without a token.
        missing_texts: texts that seem to stand for nothing, and in how many cells they do.
        tokens: its tokens.
        lengths: int64[k]; cells by their number of tokens.
        labels: cells that are 0, that are 1, and others.
        odd: tokens without a value, or whose value is no number.
    """

    name: str
    shape: Shape
    rows: int = 0
    missing: int = 0
    missing_texts: Counter[str] = field(default_factory=Counter)
    tokens: Distinct = field(default_factory=Distinct)
    lengths: NDArray[np.int64] = field(default_factory=lambda: np.zeros(_LONGEST + 1, np.int64))
    labels: tuple[int, int, int] = (0, 0, 0)
    odd: int = 0

    @property
    def only_labels(self) -> bool:
        """Whether every cell is 0 or 1."""
        return self.rows > 0 and self.labels[2] == 0

    @property
    def is_label(self) -> bool:
        """Whether every cell is 0 or 1, and both occur."""
        return self.only_labels and min(self.labels[:2]) > 0

    def length(self, share: float) -> int:
        """The least length that this share of the cells does not pass."""
        sums = np.cumsum(self.lengths)
        return int(np.searchsorted(sums, share * sums[-1]))

    def add(self, column: pa.Array, where: str) -> None:
        """Count a stretch of the column."""
        self.rows += len(column)
        if not self.shape.nested:
            texts = read.texts(column, where)
            for text in MISSING:
                self.missing_texts[text] += int(read.among(texts, (text.encode(),)).sum())
            zeros = int(read.among(texts, _spelled(read.FALSE)).sum())
            ones = int(read.among(texts, _spelled(read.TRUE)).sum())
            before = self.labels
            rest = len(texts) - zeros - ones
            self.labels = (before[0] + zeros, before[1] + ones, before[2] + rest)
        found = read.read_tokens(column, self._reading(), where)
        self.odd += sum(found.malformed.values())
        lengths = np.diff(found.tokens.offsets)
        self.missing += int((lengths == 0).sum())
        self.lengths += np.bincount(np.minimum(lengths, _LONGEST), minlength=_LONGEST + 1)
        self.tokens.add(found.tokens.tokens)

    def _reading(self) -> read.Reading:
        shape = self.shape
        return read.Reading(
            many=shape.many,
            valued=shape.value_separator is not None,
            token_separator=(shape.separator or ",").encode(),
            value_separator=(shape.value_separator or ":").encode(),
            missing=_spelled(("", *MISSING)),
        )


def _spelled(texts: Sequence[str]) -> tuple[bytes, ...]:
    return tuple(text.encode() for text in texts)


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The beginning of a table, or all of it.

    Attributes:
        profiles: one per column that all of its files have.
        rows: how many were looked at.
        whole: whether there are no more.
        total: rows of the table where the files say it, else None.
        rejects: lines with another number of cells.
        head: the first rows.
    """

    profiles: tuple[Profile, ...]
    rows: int
    whole: bool
    total: int | None
    rejects: int
    head: tuple[pa.RecordBatch, ...]


def take(path: str, rows: int | None) -> Sample:
    """Look at a table.

    Args:
        path: as `read_table` takes it.
        rows: the first so many, None = all.

    Raises:
        SourceError: it cannot be read, or has no rows.
    """
    source = open_table(path)
    files = [with_columns(file, ()) for file in source.files]
    names = [name for name in files[0].columns if all(name in one.columns for one in files)]
    stretches = _stretches(files, names, rows)
    head = list(_head(stretches))
    if not any(len(batch) for batch, _ in head):
        raise SourceError(path, "no rows in it", "draft needs some to look at")
    batches = tuple(batch for batch, _ in head)
    profiles = tuple(_profile(name, batches, path) for name in names)
    seen, rejects = _count(profiles, chain(head, stretches), path)
    counts = [file.facts.rows for file in source.files]
    total = sum(one for one in counts if one is not None) if None not in counts else None
    return Sample(
        profiles=profiles,
        rows=seen,
        whole=rows is None or seen + rejects < rows or total == seen + rejects,
        total=total,
        rejects=rejects,
        head=batches,
    )


_Stretch: TypeAlias = tuple[pa.RecordBatch, int]


def _head(stretches: Iterator[_Stretch]) -> Iterator[_Stretch]:
    """The first rows; what follows them stays in the iterator."""
    seen = 0
    for batch, bad in stretches:
        yield batch, bad
        seen += len(batch)
        if seen >= LOOKED_AT:
            return


def _count(
    profiles: Sequence[Profile], stretches: Iterable[_Stretch], path: str
) -> tuple[int, int]:
    """Count every column; gives the rows that could be read, and the others."""
    seen = rejects = 0
    for batch, bad in stretches:
        seen, rejects = seen + len(batch), rejects + bad
        for one in profiles:
            if not one.shape.unread:
                one.add(batch[one.name], f"{path}: column {one.name}")
    for one in profiles:
        one.rows = seen
    return seen, rejects


def _stretches(
    files: Sequence[TableFile], names: Sequence[str], most: int | None
) -> Iterator[_Stretch]:
    """Rows and the number of broken ones among them, at most so many in all."""
    left = most
    for file in files:
        done = 0
        for piece in pieces(file, names):
            count = piece.read if left is None else min(left, piece.read)
            part = piece.part(done, done + count)
            yield part.columns, len(part.rejects)
            done += piece.read
            left = None if left is None else left - count
            if left == 0:
                return


def _profile(name: str, head: Sequence[pa.RecordBatch], path: str) -> Profile:
    columns = [storage(batch[name]) for batch in head]
    kind = columns[0].type
    if pa.types.is_struct(kind) or pa.types.is_union(kind):
        return Profile(name=name, shape=Shape(unread=f"cells of type {kind}"))
    if pa.types.is_temporal(kind):
        return Profile(name=name, shape=Shape(unread="a date or time"))
    if pa.types.is_nested(kind):
        return Profile(name=name, shape=_nested(columns, f"{path}: column {name}"))
    cells = [text for one in columns for text in _texts(one, name)]
    known = [text for text in cells[:LOOKED_AT] if text and text not in MISSING]
    return Profile(name=name, shape=shape_of_cells(name, known))


def _texts(column: pa.Array, where: str) -> list[str]:
    found = read.texts(column, where).drop_null().to_pylist()
    return [text.decode("utf-8", "replace") for text in found]


def _nested(columns: Sequence[pa.Array], where: str) -> Shape:
    """The shape of a column of lists."""
    kind = columns[0].type
    if pa.types.is_map(kind):
        return Shape(nested=True, value_separator="")
    inner = [storage(one.flatten()) for one in columns]
    if pa.types.is_struct(inner[0].type):
        try:
            read.read_tokens(columns[0].slice(0, 0), read.Reading(), where)
        except SourceError as error:
            return Shape(unread=error.problem)
        return Shape(nested=True, value_separator="")
    if pa.types.is_nested(inner[0].type):
        return Shape(unread=f"cells of type {kind}")
    texts = [text for one in inner for text in _texts(one, where)][: 10 * LOOKED_AT]
    fractions = pa.types.is_floating(inner[0].type) and not all(
        float(text).is_integer() for text in texts
    )
    if fractions:
        return Shape(unread="lists of numbers with fractions: a vector")
    return Shape(nested=True, value_separator=value_mark(texts))
