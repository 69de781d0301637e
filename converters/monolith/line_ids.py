"""What the LineIds of rows say, field by field, and LineIds with another sample rate."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ingot.converters.monolith.line_id_fields import (
    COLUMN,
    FIELDS,
    KIND,
    LISTS,
    MANDATORY,
    NUMBERS,
    TEXTS,
    WIRE,
)
from ingot.converters.monolith.line_id_kernels import fill_lines, put_sample_rates, read_lines
from ingot.converters.monolith.records import Bytes, Places
from ingot.converters.monolith.rows import Rows

__all__ = [
    "FIELDS",
    "LISTS",
    "MANDATORY",
    "NUMBERS",
    "TEXTS",
    "LineIds",
    "decode",
    "lacking",
    "with_sample_rate",
]


@dataclass(frozen=True, kw_only=True)
class LineIds:
    """The LineIds of R rows; of a field that is said twice the last one counts.

    What is of any length (`lists`, `rest`) is made when it is asked for: what all rows of a batch
    share is then written for each of them.

    Attributes:
        data: uint8[B] that places point into; begins with the rows' own bytes.
        start: int64[R] where LineIds begin; -1 where the row has none.
        stop: int64[R] where they end.
        present: bool[R] whether the row has a LineId.
        numbers: by field of `NUMBERS`, [R] of its type; 0 where it is not given.
        texts: by field of `TEXTS`, int64[R] where it begins and int64[R] where it ends.
        given: by field of both, bool[R] whether it is given. Text that is not UTF-8 is not.
        counts: by field of `LISTS`, int64[R] how many values it has.
        rest_sizes: int64[R] bytes of `rest` of each row.
    """

    data: Bytes
    start: Places
    stop: Places
    present: NDArray[np.bool_]
    numbers: dict[str, NDArray[np.generic]]
    texts: dict[str, tuple[Places, Places]]
    given: dict[str, NDArray[np.bool_]]
    counts: dict[str, Places]
    rest_sizes: Places
    _text_places: Places

    def text(self, name: str, at: int) -> str:
        """A text field of row `at`; empty where it is not given."""
        start, stop = self.texts[name]
        return self.data[start[at] : stop[at]].tobytes().decode()

    @property
    def lists(self) -> dict[str, tuple[Places, NDArray[np.int32]]]:
        """By field of `LISTS`, int64[R + 1] values before each row, and int32 values."""
        return self._filled[0]

    @property
    def rest(self) -> Bytes:
        """Serialized fields that are none of these, and text that is not UTF-8, of all rows."""
        return self._filled[1]

    @property
    def rest_first(self) -> Places:
        """int64[R + 1] bytes of `rest` before each row."""
        return self._filled[2]

    @cached_property
    def _filled(self) -> tuple[dict[str, tuple[Places, NDArray[np.int32]]], Bytes, Places]:
        counts = np.concatenate(list(self.counts.values()))
        firsts, rest_first = _ahead(counts), _ahead(self.rest_sizes)
        values, rest = np.empty(int(firsts[-1]), np.int32), np.empty(int(rest_first[-1]), np.uint8)
        places = firsts[:-1].reshape(len(LISTS), -1)
        tables, texts = (KIND, COLUMN, WIRE), self._text_places
        fill_lines(
            self.data,
            self.start,
            self.stop,
            *tables,
            texts,
            places.copy(),
            values,
            rest_first,
            rest,
        )
        lists = {}
        for at, (name, of_rows) in enumerate(self.counts.items()):
            ahead, first = _ahead(of_rows), int(firsts[at * len(of_rows)])
            lists[name] = ahead, values[first : first + int(ahead[-1])]
        return lists, rest, rest_first


def decode(rows: Rows) -> LineIds:
    """What the LineIds of rows say.

    Raises:
        ConversionError: numba or protobuf are not installed.
    """
    data, start, stop = rows.data, rows.line_start, rows.line_stop
    read = _Reading(len(rows))
    read.pass_over(data, start, stop)
    if read.odd.any():
        data, start, stop = _rewritten(rows, read.odd)
        read = _Reading(len(rows))
        read.pass_over(data, start, stop)
    return read.result(data, start, stop)


def lacking(lines: LineIds) -> NDArray[np.bool_]:
    """bool[R], which rows lack one of `MANDATORY`, or the LineId."""
    lacks = ~lines.present
    for name in MANDATORY:
        lacks = lacks | ~lines.given[name]
    return lacks


def with_sample_rate(rows: Rows, rate: NDArray[np.float32], where: NDArray[np.bool_]) -> Rows:
    """Rows with another `sample_rate` in some of their LineIds.

    It stands at the end of them, the rest is as it was; a row without a LineId gets one.

    Args:
        rows: R rows.
        rate: float32[R], used where `where` says so.
        where: bool[R].

    Raises:
        ConversionError: numba is not installed.
    """
    which = np.flatnonzero(where)
    start, stop = rows.line_start[which], rows.line_stop[which]
    tail = 2 + 4  # the tag of a field number of two bytes, and a float
    out = np.empty(int(np.sum(stop - start)) + tail * len(which), np.uint8)
    begins, ends = np.empty(len(which), np.int64), np.empty(len(which), np.int64)
    bits = np.ascontiguousarray(rate[which], np.float32).view(np.uint32)
    used = put_sample_rates(rows.data, start, stop, bits, out, begins, ends)
    line_start, line_stop = rows.line_start.copy(), rows.line_stop.copy()
    line_start[which], line_stop[which] = begins + len(rows.data), ends + len(rows.data)
    data = np.concatenate([rows.data, out[:used]])
    return replace(rows, data=data, line_start=line_start, line_stop=line_stop)


class _Reading:
    """The arrays that a pass over LineIds fills."""

    def __init__(self, rows: int) -> None:
        self.odd = np.zeros(rows, np.bool_)
        self.bits = np.zeros((len(NUMBERS), rows), np.uint64)
        self.given = np.zeros((len(NUMBERS), rows), np.bool_)
        self.texts = np.full((3, len(TEXTS), rows), -1, np.int64)
        self.counts = np.zeros((len(LISTS), rows), np.int64)
        self.rest = np.zeros(rows, np.int64)

    def pass_over(self, data: Bytes, start: Places, stop: Places) -> None:
        """Read all but the values of lists and the rest, of which only sizes."""
        tables = KIND, COLUMN, WIRE
        found = self.odd, self.bits, self.given, self.texts, self.counts, self.rest
        read_lines(data, start, stop, *tables, *found)

    def result(self, data: Bytes, start: Places, stop: Places) -> LineIds:
        """What was read."""
        texts = self.texts
        return LineIds(
            data=data,
            start=start,
            stop=stop,
            present=start >= 0,
            numbers=self._numbers(),
            texts={name: (texts[1, at], texts[2, at]) for at, name in enumerate(TEXTS)},
            given=self._given(),
            counts=dict(zip(LISTS, self.counts, strict=True)),
            rest_sizes=self.rest,
            _text_places=texts,
        )

    def _numbers(self) -> dict[str, NDArray[np.generic]]:
        numbers: dict[str, NDArray[np.generic]] = {}
        for at, (name, scalar) in enumerate(NUMBERS.items()):
            low = self.bits[at].astype(np.uint32)
            whole = self.bits[at] if np.dtype(scalar.dtype).itemsize == 8 else low
            is_bool = scalar.dtype is np.bool_
            numbers[name] = self.bits[at] != 0 if is_bool else whole.view(scalar.dtype)
        return numbers

    def _given(self) -> dict[str, NDArray[np.bool_]]:
        given = dict(zip(NUMBERS, self.given, strict=True))
        return {**given, **{name: self.texts[1, at] >= 0 for at, name in enumerate(TEXTS)}}


def _ahead(counts: Places) -> Places:
    """How much there is before each place, and in all."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])


def _rewritten(rows: Rows, odd: NDArray[np.bool_]) -> tuple[Bytes, Places, Places]:
    """The LineIds, those that the kernel cannot read as protobuf writes them without groups."""
    start, stop = rows.line_start.copy(), rows.line_stop.copy()
    which = np.flatnonzero(odd)
    # What all rows of a batch share lies in one place, and is written once.
    _, sample, of_place = np.unique(start[which], return_index=True, return_inverse=True)
    pieces = [_anew(rows.line_id(int(row)) or b"") for row in which[sample]]
    sizes = np.array([len(piece) for piece in pieces], np.int64)
    ends = len(rows.data) + np.cumsum(sizes)
    start[which], stop[which] = (ends - sizes)[of_place], ends[of_place]
    return np.concatenate([rows.data, np.frombuffer(b"".join(pieces), np.uint8)]), start, stop


def _anew(content: bytes) -> bytes:
    """A LineId with what is known of it first; groups are left as they are, at its end."""
    from ingot.converters.monolith.messages import DecodeError, line_id_pb2

    try:
        return line_id_pb2.LineId.FromString(content).SerializeToString()
    except DecodeError:
        return content
