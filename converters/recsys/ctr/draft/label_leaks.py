"""Columns that give a label away: as the values show, they are known only after it."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ingot.converters.recsys.ctr.draft.column_profile import Profile, read_stretches
from ingot.converters.recsys.ctr.table import table_cells as read

ROWS: Final = 200_000  # the most rows that are compared with the labels
_LEAST = 5  # rows of a value or label: fewer agree by chance
_LEAST_ROWS = 50
_MOST_VALUES = 0.2  # of the rows: more values than that are ids
_NEARLY_ALL = 0.99
# Rows of the other label that chance would give; none is seen then once in a million columns.
_BY_CHANCE = 14.0


def find_leaks(
    path: str, profiles: Sequence[Profile], labels: Sequence[str], rows: int | None
) -> dict[str, str]:
    """Return why a column gives a label away, for each that does, from the first rows of a table.

    Such a column determines a label (each of its values, or each side of a threshold, has one), or
    it is filled, or other than 0, only where a label is 1.
    """
    profiles = [one for one in profiles if one.name not in labels and not one.shape.unread]
    columns = {one.name: _Column(one, len(labels)) for one in profiles}
    beside: list[NDArray[np.int8]] = []  # int8[labels, rows]
    names = [*labels, *columns]
    for batch, _ in read_stretches(path, names, ROWS if rows is None else min(rows, ROWS)):
        beside.append(np.stack([read.read_labels(batch[name], name) for name in labels]))
        for name, column in columns.items():
            column.add(batch[name], beside[-1], f"{path}: column {name}")
    every = np.concatenate(beside, axis=1) if beside else np.empty((len(labels), 0), np.int8)
    found = {}
    for name, column in columns.items():
        reasons = (column.reason(place, one, every[place]) for place, one in enumerate(labels))
        if (reason := next(filter(None, reasons), None)) is not None:
            found[name] = reason
    return found


class _Column:
    """What the cells of a column are beside every label."""

    def __init__(self, profile: Profile, labels: int) -> None:
        shape = (labels, 2)
        self.profile = profile
        self.filled = np.zeros(shape, np.int64)  # cells with a token
        self.active = np.zeros(shape, np.int64)  # those other than 0
        self.low, self.high = np.full(shape, np.inf), np.full(shape, -np.inf)  # of the numbers
        self.coded: list[pa.DictionaryArray] = []

    def add(self, cells: pa.Array, labels: NDArray[np.int8], where: str) -> None:
        """Compare a stretch of the column with its labels, int8[labels, rows]."""
        filled = np.diff(read.read_tokens(cells, self.profile.cell_format(), where).offsets) > 0
        active, numbers = filled, None
        if not self.profile.shape.nested:
            texts = read.cell_texts(cells, where)
            active = filled & ~read.is_among(texts, read.FALSE)
            if self.profile.tokens.distinct <= _MOST_VALUES * self.profile.rows:
                self.coded.append(texts.dictionary_encode(null_encoding="encode"))
            if self.profile.shape.number and (numbers := _numbers(texts)) is not None:
                active &= numbers != 0
        for place, beside in enumerate(labels):
            for label in (0, 1):
                rows = beside == label
                self.filled[place, label] += int((filled & rows).sum())
                self.active[place, label] += int((active & rows).sum())
                if numbers is None or not (known := numbers[rows & ~np.isnan(numbers)]).size:
                    continue
                self.low[place, label] = min(self.low[place, label], known.min())
                self.high[place, label] = max(self.high[place, label], known.max())

    def reason(self, place: int, label: str, beside: NDArray[np.int8]) -> str | None:
        """How the column gives a label away; None where it does not."""
        counts = np.array([(beside == 0).sum(), (beside == 1).sum()])
        if counts.min() < _LEAST or counts.sum() < _LEAST_ROWS:
            return None
        (low, high), filled = (self.low[place], self.high[place]), self.filled[place]
        for what, some in (("filled", filled), ("other than 0", self.active[place])):
            if _is_only_beside_one(some, counts):
                share = f"{some[1]:,} of {some.sum():,} such rows"
                return f"tells {label}: it is {what} only where {label} is 1 ({share})"
        if self.coded and _determines(self.coded, beside):
            return f"tells {label}: each of its values stands beside one value of {label} only"
        apart = np.isfinite(low).all() and (high[0] < low[1] or high[1] < low[0])
        if filled.min() >= _LEAST and filled.sum() >= _LEAST_ROWS and apart:
            spans = (f"{low[one]:g} to {high[one]:g} where {label} is {one}" for one in (0, 1))
            return f"tells {label}: its numbers are {' and '.join(spans)}"
        return None


def _is_only_beside_one(some: NDArray[np.int64], counts: NDArray[np.int64]) -> bool:
    """Whether nearly all of some rows have label 1, and that is not by chance."""
    expected = some.sum() * counts[0] / counts.sum()
    few = some[0] <= (1 - _NEARLY_ALL) * some.sum() and some[0] <= 0.05 * expected
    return bool(some[1] >= _LEAST and expected >= _BY_CHANCE and few)


def _determines(coded: Sequence[pa.DictionaryArray], beside: NDArray[np.int8]) -> bool:
    """Whether every value has one label: for nearly all rows of label 0, and of label 1."""
    whole = pa.chunked_array(coded).unify_dictionaries()
    codes = np.concatenate([chunk.indices.to_numpy() for chunk in whole.chunks])
    values = len(whole.chunk(0).dictionary)
    known = beside >= 0
    rows = np.bincount(codes[known], minlength=values)
    ones = np.bincount(codes[known], beside[known], values)
    some = rows >= _LEAST
    ones_told, zeros_told = ones[some & (ones == rows)].sum(), rows[some & (ones == 0)].sum()
    zeros = rows.sum() - ones.sum()
    return bool(ones_told >= _NEARLY_ALL * ones.sum() and zeros_told >= _NEARLY_ALL * zeros)


def _numbers(texts: pa.LargeBinaryArray) -> NDArray[np.float64] | None:
    """float64[n], NaN where a cell is empty; None where a cell is no number."""
    missing = read.is_among(texts, (b"",))
    try:
        plain = pc.if_else(pa.array(missing), pa.scalar(None, texts.type), texts)
        numbers = plain.cast(pa.large_string()).cast(pa.float64())
    except pa.ArrowInvalid:
        return None
    return np.asarray(numbers.to_numpy(zero_copy_only=False), dtype=np.float64)
