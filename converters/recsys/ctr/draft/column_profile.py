"""What a sample of a table shows of each column: how its cells look, its tokens, their counts."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from ingot.converters.errors import SourceError
from ingot.converters.recsys.ctr.table import table_cells as read
from ingot.converters.recsys.ctr.table.table_files import (
    TableFile,
    open_table,
    read_pieces,
    with_columns,
)
from ingot.converters.sources.formats.arrow import storage_array

_HASHES: Final = 2.0**64
MOST: Final = 1 << 18


class Distinct:
    """Counts of distinct tokens: all of them up to `most`, beyond an even sample of that size.

    The sample is of the tokens with the smallest hashes, so that each has its exact count.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
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
            kept = hashes < np.uint64(self._limit)
            hashes, counts = hashes[kept], counts[kept]
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
        self._hashes, places = np.unique(hashes, return_inverse=True)
        self._counts = np.bincount(places, counts, len(self._hashes)).astype(np.int64)
        if len(self._hashes) > self._most:
            self._limit = int(self._hashes[self._most])
            self._hashes = self._hashes[: self._most]
            self._counts = self._counts[: self._most]

    @property
    def exact(self) -> bool:
        """Whether every token is counted."""
        self._settle()
        return not self._limit

    @property
    def distinct(self) -> int:
        """How many tokens differ; an estimate where not `exact`."""
        self._settle()
        return round(len(self._hashes) * self._scale)

    @property
    def _scale(self) -> float:
        return _HASHES / self._limit if self._limit else 1.0

    @property
    def once(self) -> int:
        """How many tokens occur once."""
        self._settle()
        return round(int((self._counts == 1).sum()) * self._scale)

    def holding(self, share: float) -> int:
        """The least number of tokens that hold this share of all occurrences together."""
        self._settle()
        if not len(self._counts):
            return 0
        sums = np.cumsum(np.sort(self._counts)[::-1])
        place = int(np.searchsorted(sums, share * sums[-1] - 1e-9)) + 1
        return round(min(place, len(sums)) * self._scale)


MISSING: Final = ("NULL", "null", "\\N", "NaN", "nan", "None", "NA", "N/A", "<NA>")
"""Texts that stand for nothing in many tables; NA may also be a country."""
_SEPARATORS = (" | ", ", ", "; ", "|", "\x01", ";", ",", "^", " ")
_VALUE_MARKS = (":", "=")
_THOUSANDS = re.compile(r"-?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_CLOCK = re.compile(r"\d{1,2}:\d\d(?::\d\d)?")
_DAY = re.compile(
    r"(?:(?:19|20)\d\d[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](?:19|20)\d\d)"
    r"(?:[T ]\d{1,2}:\d\d.*)?"
)
_BARE = re.compile(r"-?\d+|[0-9A-Fa-f]{6,}|\S+[:=]-?\d[\d.eE+-]*")
_WRITTEN = (("[", "]"), ("{", "}"), ("(", ")"))
_TIME_NAME = re.compile(
    r"(?:^|_)(?:ts|time|timestamp|date|datetime|dt|created|updated|at)(?:_|$)|time(?:stamp)?$"
)
_EPOCHS = ((3e8, 2.5e9), (3e11, 2.5e12), (3e14, 2.5e15))
_TIMES = "lists of dates or times"
_MOST = 0.95
_NEARLY_ALL = 0.98


@dataclass(frozen=True, kw_only=True)
class Shape:
    """How the cells of a column look."""

    nested: bool = False
    separator: str | None = None  # between the tokens of a text cell, None where it holds one
    # between a token and its value, None where there are no values, "" where they are objects of
    # both
    value_separator: str | None = None
    number: bool = False
    fraction: bool = False
    unread: str = ""  # why they are no tokens, "" where they are
    doubt: str = ""  # what should be looked at, "" where nothing

    @property
    def many(self) -> bool:
        """Whether a cell holds several tokens."""
        return self.nested or self.separator is not None


def words_of(name: str) -> str:
    """A name of a column in lower case, its words joined by `_` (`userId` = `user_id`)."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.sub(r"\W+", "_", apart).strip("_").lower()


def shape_of_cells(name: str, cells: Sequence[str]) -> Shape:
    """The shape of a column of texts."""
    if not cells:
        return Shape(unread="no values in the sample")
    if _share_of(cells, _DAY.fullmatch) >= _MOST:
        return Shape(unread="a date or time")
    if _share_of(cells, lambda cell: (cell[:1], cell[-1:]) in _WRITTEN) >= 0.9:
        return Shape(unread="lists or objects written out as text: their brackets are no tokens")
    if (number := _number_shape(name, cells)) is not None:
        return number
    distinct = list(dict.fromkeys(cells))
    separator = next((mark for mark in _SEPARATORS if _separates(mark, cells, distinct)), None)
    long = separator is None and sum(map(len, cells)) > 25 * len(cells)
    if long and _share_of(cells, lambda cell: cell.count(" ") >= 3) > 0.5:
        return Shape(unread="running text")
    pieces = [one for cell in cells for one in cell.split(separator) if one] if separator else cells
    if separator is not None and _are_times(name, pieces):
        return Shape(unread=_TIMES)
    mark = value_mark(pieces)
    doubt = ""
    unusual = separator is not None and separator.strip() in ("", ",", ";")
    if unusual and mark is None and sum(" " in one.strip() for one in pieces) * 5 > len(pieces):
        doubt = f"its cells are split at {separator!r}, and the parts hold blanks"
    return Shape(separator=separator, value_separator=mark, doubt=doubt)


def _are_times(name: str, pieces: Sequence[str]) -> bool:
    """Whether the elements of lists are times, as texts or as numbers in a column named so."""
    if _share_of(pieces, lambda one: _DAY.fullmatch(one) or _CLOCK.fullmatch(one)) >= _MOST:
        return bool(pieces)
    shape = _number_shape(name, pieces) if pieces else None
    return shape is not None and bool(shape.unread)


def value_mark(pieces: Sequence[str]) -> str | None:
    """The sign between tokens and their values, None where there are no values."""
    for mark in _VALUE_MARKS:
        parts = [one.rpartition(mark) for one in pieces]
        if not parts or sum(bool(p[1]) and _is_number(p[2]) for p in parts) < _MOST * len(parts):
            continue
        if _share_of(pieces, _CLOCK.fullmatch) >= _MOST:
            continue
        tokens, values = {p[0] for p in parts}, {p[2] for p in parts}
        if len(tokens) <= 5 and len(values) > 10 * len(tokens) and "." not in "".join(values):
            continue  # `shop:17`: a prefix of the id
        return mark
    return None


def _share_of(cells: Sequence[str], holds: object) -> float:
    return sum(bool(holds(cell)) for cell in cells) / max(1, len(cells))  # type: ignore[operator]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _number_shape(name: str, cells: Sequence[str]) -> Shape | None:
    plain = [cell.replace(",", "") if _THOUSANDS.fullmatch(cell) else cell for cell in cells]
    if _share_of(plain, _is_number) < _NEARLY_ALL:
        return None
    values = [float(one) for one in plain if _is_number(one)]
    epoch = any(all(low <= one <= high for one in values) for low, high in _EPOCHS)
    if epoch and _TIME_NAME.search(words_of(name)):
        return Shape(unread="a time, in seconds or parts of them")
    fraction = any(not one.is_integer() for one in values if one == one and abs(one) < 1e300)
    return Shape(number=True, fraction=fraction)


def _separates(mark: str, cells: Sequence[str], distinct: Sequence[str]) -> bool:
    held = [cell for cell in cells if mark in cell]
    if len(held) < max(2, 0.05 * len(cells)):
        return False
    bare = mark.strip() or mark
    if mark != bare and any(cell.count(bare) != cell.count(mark) for cell in held):
        return False
    pieces = [one for cell in held for one in cell.split(mark) if one]
    if mark == " ":
        return _share_of(pieces, _BARE.fullmatch) >= _NEARLY_ALL
    if not pieces or max(map(len, pieces)) > 200:
        return False
    if _share_of(pieces, lambda one: not re.search(r"\s", one)) >= _NEARLY_ALL:
        return True
    # Parts with blanks in them are tokens where they come again in other cells, unlike the parts
    # of a title; a bracket that is open in one part shows that it is not whole.
    pieces = [one for cell in distinct for one in cell.split(mark) if one]
    if _share_of(pieces, lambda one: one.count("(") == one.count(")")) < _MOST:
        return False
    short = sum(map(len, pieces)) <= 40 * len(pieces)
    return short and len(held) >= 10 and 2 * len(set(pieces)) <= len(pieces)


LOOKED_AT: Final = 5000  # rows that the shape of a column is judged by
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
    labels: tuple[int, int, int] = (0, 0, 0)  # cells that are 0, that are 1, and others
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
            texts = read.cell_texts(column, where)
            for text in MISSING:
                self.missing_texts[text] += int(read.is_among(texts, (text.encode(),)).sum())
            zeros = int(read.is_among(texts, read.FALSE).sum())
            ones = int(read.is_among(texts, read.TRUE).sum())
            before = self.labels
            rest = len(texts) - zeros - ones
            self.labels = (before[0] + zeros, before[1] + ones, before[2] + rest)
        found = read.read_tokens(column, self.cell_format(), where)
        self.odd += found.counts.total() - found.counts["not_finite"]
        lengths = np.diff(found.offsets)
        self.missing += int((lengths == 0).sum())
        self.lengths += np.bincount(np.minimum(lengths, _LONGEST), minlength=_LONGEST + 1)
        self.tokens.add(found.tokens)

    def cell_format(self) -> read.CellFormat:
        """How its cells become tokens."""
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
    head: list[_Stretch] = []  # the first rows; what follows them stays in the iterator
    while sum(len(one) for one, _ in head) < LOOKED_AT and (more := next(stretches, None)):
        head.append(more)
    if not any(len(batch) for batch, _ in head):
        raise SourceError(path, "no rows in it", "draft needs some to look at")
    batches = tuple(batch for batch, _ in head)
    profiles = tuple(_new_profile(name, batches, path) for name in names)
    seen = rejects = 0
    for batch, bad in chain(head, stretches):
        seen, rejects = seen + len(batch), rejects + bad
        for one in profiles:
            if not one.shape.unread:
                one.add(batch[one.name], f"{path}: column {one.name}")
    for one in profiles:
        one.rows = seen
    counts = [file.facts.rows for file in source.files]
    total = sum(one for one in counts if one is not None) if None not in counts else None
    return Sample(
        profiles=profiles,
        rows=seen,
        whole=rows is None or seen + rejects < rows or total == seen + rejects,
        total=total,
        rejects=rejects,
    )


def read_stretches(path: str, names: Sequence[str], most: int | None) -> Iterator[_Stretch]:
    """Yield these columns of the first rows, with the number of broken rows among them."""
    return _read_rows([with_columns(one, names) for one in open_table(path).files], names, most)


def _read_rows(
    files: Sequence[TableFile], names: Sequence[str], most: int | None
) -> Iterator[_Stretch]:
    left = most
    for file in files:
        done = 0
        for piece in read_pieces(file, names):
            count = piece.read if left is None else min(left, piece.read)
            part = piece.part(done, done + count)
            yield part.columns, len(part.rejects)
            done += piece.read
            left = None if left is None else left - count
            if left == 0:
                return


def _new_profile(name: str, head: Sequence[pa.RecordBatch], path: str) -> Profile:
    columns = [storage_array(batch[name]) for batch in head]
    kind = columns[0].type
    if pa.types.is_struct(kind) or pa.types.is_union(kind):
        return Profile(name=name, shape=Shape(unread=f"cells of type {kind}"))
    if pa.types.is_temporal(kind):
        return Profile(name=name, shape=Shape(unread="a date or time"))
    if pa.types.is_nested(kind):
        return Profile(name=name, shape=_nested_shape(name, columns, f"{path}: column {name}"))
    cells = [text for one in columns for text in _column_texts(one, name)]
    known = [text for text in cells[:LOOKED_AT] if text and text not in MISSING]
    return Profile(name=name, shape=shape_of_cells(name, known))


def _column_texts(column: pa.Array, where: str) -> list[str]:
    found = read.cell_texts(column, where).drop_null().to_pylist()
    return [text.decode("utf-8", "replace") for text in found]


def _nested_shape(name: str, columns: Sequence[pa.Array], where: str) -> Shape:
    kind = columns[0].type
    if pa.types.is_map(kind):
        return Shape(nested=True, value_separator="")
    inner = [storage_array(one.flatten()) for one in columns]
    if pa.types.is_struct(inner[0].type):
        try:
            read.read_tokens(columns[0].slice(0, 0), read.CellFormat(), where)
        except SourceError as error:
            return Shape(unread=error.problem)
        return Shape(nested=True, value_separator="")
    if pa.types.is_nested(inner[0].type):
        return Shape(unread=f"cells of type {kind}")
    if pa.types.is_temporal(inner[0].type):
        return Shape(unread=_TIMES)
    texts = [text for one in inner for text in _column_texts(one, where)][: 10 * LOOKED_AT]
    fractions = pa.types.is_floating(inner[0].type) and not all(
        float(text).is_integer() for text in texts
    )
    if fractions:
        return Shape(unread="lists of numbers with fractions: a vector")
    if _are_times(name, texts):
        return Shape(unread=_TIMES)
    return Shape(nested=True, value_separator=value_mark(texts))
