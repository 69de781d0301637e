"""What the LineIds of rows say, field by field, and LineIds with another sample rate."""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.compiling import kernel
from ingot.converters.monolith.line_id_fields import (
    COLUMN,
    FIELDS,
    KIND,
    KNOWN,
    LIST,
    LISTS,
    MANDATORY,
    NUMBER,
    NUMBERS,
    TEXT,
    TEXTS,
    UNKNOWN,
    WIRE,
)
from ingot.converters.monolith.records import Bytes, Places
from ingot.converters.monolith.rows import Rows
from ingot.converters.monolith.wire.kernels.checking import is_text
from ingot.converters.monolith.wire.kernels.varints import FIXED32, VARINT, read_field, read_varint

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

_SAMPLE_RATE: Final = NUMBERS["sample_rate"].number


@dataclass(frozen=True, kw_only=True)
class LineIds:
    """The LineIds of R rows; of a field that is said twice the last one counts.

    Attributes:
        data: uint8[B] that places point into; begins with the rows' own bytes.
        present: bool[R] whether the row has a LineId.
        numbers: by field of `NUMBERS`, [R] of its type; 0 where it is not given.
        texts: by field of `TEXTS`, int64[R] where it begins and int64[R] where it ends.
        given: by field of both, bool[R] whether it is given. Text that is not UTF-8 is not.
        lists: by field of `LISTS`, int64[R + 1] values before each row, and int32 values.
        rest: uint8 serialized fields that are none of these, and text that is not UTF-8.
        rest_first: int64[R + 1] bytes of `rest` before each row.
    """

    data: Bytes
    present: NDArray[np.bool_]
    numbers: dict[str, NDArray[np.generic]]
    texts: dict[str, tuple[Places, Places]]
    given: dict[str, NDArray[np.bool_]]
    lists: dict[str, tuple[Places, NDArray[np.int32]]]
    rest: Bytes
    rest_first: Places

    def text(self, name: str, at: int) -> str:
        """A text field of row `at`; empty where it is not given."""
        start, stop = self.texts[name]
        return self.data[start[at] : stop[at]].tobytes().decode()


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
    used = _rated(rows.data, start, stop, bits, out, begins, ends)
    line_start, line_stop = rows.line_start.copy(), rows.line_stop.copy()
    line_start[which], line_stop[which] = begins + len(rows.data), ends + len(rows.data)
    data = np.concatenate([rows.data, out[:used]])
    return replace(rows, data=data, line_start=line_start, line_stop=line_stop)


@kernel
def _rated(
    data: Bytes,
    start: Places,
    stop: Places,
    bits: NDArray[np.uint32],
    out: Bytes,
    begins: Places,
    ends: Places,
) -> int:
    """Write LineIds with a `sample_rate` of these bits; returns the bytes written."""
    to: int = 0
    for row in range(len(start)):
        begins[row] = to
        at = start[row]
        while at < stop[row]:
            number, wire, _, end = read_field(data, at, stop[row])
            if end < 0:  # not read here, so it stays; of a field said twice the last one counts
                end = stop[row]
            elif number == _SAMPLE_RATE and wire == FIXED32:
                at = end
                continue
            for place in range(at, end):
                out[to] = data[place]
                to += 1
            at = end
        tag = (_SAMPLE_RATE << 3) | FIXED32
        out[to], out[to + 1] = (tag & 0x7F) | 0x80, tag >> 7
        for byte in range(4):
            out[to + 2 + byte] = (bits[row] >> np.uint32(8 * byte)) & np.uint32(0xFF)
        to += 6
        ends[row] = to
    return to


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
        _read(data, start, stop, *tables, *found)

    def result(self, data: Bytes, start: Places, stop: Places) -> LineIds:
        """With the values of lists and the rest."""
        ends = np.cumsum(self.counts.ravel(), dtype=np.int64)
        values = np.empty(int(ends[-1]) if len(ends) else 0, np.int32)
        firsts = _ahead(self.counts.ravel())[:-1].reshape(self.counts.shape)
        rest_first = _ahead(self.rest)
        rest = np.empty(int(rest_first[-1]), np.uint8)
        tables, texts = (KIND, COLUMN, WIRE), self.texts
        _fill(data, start, stop, *tables, texts, firsts.copy(), values, rest_first, rest)
        return LineIds(
            data=data,
            present=start >= 0,
            numbers=self._numbers(),
            texts={name: (texts[1, at], texts[2, at]) for at, name in enumerate(TEXTS)},
            given=self._given(),
            lists=self._lists(values, firsts),
            rest=rest,
            rest_first=rest_first,
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

    def _lists(
        self, values: NDArray[np.int32], firsts: Places
    ) -> dict[str, tuple[Places, NDArray[np.int32]]]:
        lists = {}
        for at, name in enumerate(LISTS):
            ahead = _ahead(self.counts[at])
            first = int(firsts[at, 0]) if firsts.size else 0
            lists[name] = ahead, values[first : first + int(ahead[-1])]
        return lists


def _ahead(counts: Places) -> Places:
    """How much there is before each place, and in all."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])


def _rewritten(rows: Rows, odd: NDArray[np.bool_]) -> tuple[Bytes, Places, Places]:
    """The LineIds, those that the kernel cannot read as protobuf writes them without groups."""
    start, stop = rows.line_start.copy(), rows.line_stop.copy()
    pieces, at = [rows.data], len(rows.data)
    for row in np.flatnonzero(odd):
        piece = np.frombuffer(_anew(rows.data[start[row] : stop[row]].tobytes()), np.uint8)
        start[row], stop[row] = at, at + len(piece)
        pieces.append(piece)
        at += len(piece)
    return np.concatenate(pieces), start, stop


def _anew(content: bytes) -> bytes:
    """A LineId with what is known of it first; groups are left as they are, at its end."""
    from google.protobuf.message import DecodeError

    from ingot.converters.monolith.messages import line_id_pb2

    try:
        return line_id_pb2.LineId.FromString(content).SerializeToString()
    except DecodeError:
        return content


@kernel
def _read(
    data: Bytes,
    start: Places,
    stop: Places,
    kinds: NDArray[np.int8],
    columns: NDArray[np.int8],
    wires: NDArray[np.int8],
    odd: NDArray[np.bool_],
    bits: NDArray[np.uint64],
    given: NDArray[np.bool_],
    texts: Places,
    counts: Places,
    rest: Places,
) -> None:
    """Fill in the arrays of `_Reading`; rows that cannot be read to their end are odd."""
    for row in range(len(start)):
        at = start[row]
        while at < stop[row]:
            number, wire, value_at, end = read_field(data, at, stop[row])
            if end < 0:
                odd[row] = True
                rest[row] += stop[row] - at
                break
            kind = _kind_of(kinds, wires, number, wire)
            column = columns[number] if kind != UNKNOWN else 0
            if kind == NUMBER:
                given[column, row] = True
                bits[column, row] = _bits_at(data, value_at, end, wire)
            elif kind == TEXT:
                texts[0, column, row] = at
                texts[1, column, row], texts[2, column, row] = value_at, end
            elif kind == LIST:
                counts[column, row] += _whole_numbers(data, value_at, end)
            else:
                rest[row] += end - at
            at = end
        rest[row] += _no_texts(data, texts, row)


@kernel
def _kind_of(kinds: NDArray[np.int8], wires: NDArray[np.int8], number: int, wire: int) -> int:
    """What a field is; one of another wire type than declared is unknown, as to protobuf."""
    if number >= KNOWN:
        return UNKNOWN
    kind: int = kinds[number]
    if wire == wires[number] or (kind == LIST and wire == VARINT):
        return kind
    return UNKNOWN


@kernel
def _bits_at(data: Bytes, at: int, end: int, wire: int) -> np.uint64:
    """The bits of a number."""
    if wire == VARINT:
        value, _ = read_varint(data, at, end)
        return np.uint64(value)
    bits = np.uint64(0)
    for byte in range(end - at):
        bits |= np.uint64(data[at + byte]) << np.uint64(8 * byte)
    return bits


@kernel
def _whole_numbers(data: Bytes, at: int, end: int) -> int:
    """Varints that end in a stretch of bytes."""
    many: int = 0
    for place in range(at, end):
        many += data[place] < 0x80
    return many


@kernel
def _no_texts(data: Bytes, texts: Places, row: int) -> int:
    """Take texts that are not UTF-8 for not given; returns the bytes of their fields."""
    size: int = 0
    for column in range(texts.shape[1]):
        at, end = texts[1, column, row], texts[2, column, row]
        if at >= 0 and not is_text(data, at, end):
            size += end - texts[0, column, row]
            texts[1, column, row], texts[2, column, row] = -1, -1
    return size


@kernel
def _fill(
    data: Bytes,
    start: Places,
    stop: Places,
    kinds: NDArray[np.int8],
    columns: NDArray[np.int8],
    wires: NDArray[np.int8],
    texts: Places,
    places: Places,
    values: NDArray[np.int32],
    rest_first: Places,
    rest: Bytes,
) -> None:
    """Fill in the values of lists, each from its place on, and the rest."""
    for row in range(len(start)):
        at, to = start[row], rest_first[row]
        while at < stop[row]:
            number, wire, value_at, end = read_field(data, at, stop[row])
            kind = UNKNOWN
            if end < 0:
                end = stop[row]
            else:
                kind = _kind_of(kinds, wires, number, wire)
            if kind == LIST:
                column = columns[number]
                while value_at < end:
                    value, value_at = read_varint(data, value_at, end)
                    if value_at < 0:
                        break
                    values[places[column, row]] = np.int32(value & 0xFFFFFFFF)
                    places[column, row] += 1
            elif kind == UNKNOWN or (
                kind == TEXT
                and texts[0, columns[number], row] == at
                and texts[1, columns[number], row] < 0
            ):
                for place in range(at, end):
                    rest[to] = data[place]
                    to += 1
            at = end
