"""Read the LineIds of rows field by field, and write them with another sample rate."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ingot.converters.kernels.compile import inner_kernel, kernel
from ingot.converters.recsys.monolith.record_index import (
    Bytes,
    Places,
    Rows,
    append_rewritten,
    prefix_sums,
)
from ingot.converters.recsys.monolith.wire.format_kernels import (
    FIXED32,
    FIXED64,
    LENGTH,
    VARINT,
    is_text,
    put_bytes,
    put_fixed,
    read_field,
    read_fixed,
    read_varint,
)


class Scalar(NamedTuple):
    """A field that is one number: its field number, wire type and numpy type."""

    number: int
    wire: int
    dtype: type[np.generic]


NUMBERS: Final[Mapping[str, Scalar]] = {
    "uid": Scalar(2, FIXED64, np.uint64),
    "req_time": Scalar(3, VARINT, np.int64),
    "item_id": Scalar(4, FIXED64, np.uint64),
    "chnid": Scalar(19, VARINT, np.int64),
    "generate_time": Scalar(20, VARINT, np.int64),
    "emit_type": Scalar(21, VARINT, np.int32),
    "sample_rate": Scalar(27, FIXED32, np.float32),
    "is_draw": Scalar(87, VARINT, np.bool_),
    "rank": Scalar(145, VARINT, np.int32),
}
TEXTS: Final[Mapping[str, int]] = {
    "req_id": 5,
    "model_names": 25,
    "device_type": 41,
    "cid": 48,
    "user_id": 49,
    "data_source_name": 235,
}
"""Fields that are one text, with their field numbers."""
LISTS: Final[Mapping[str, int]] = {"actions": 6, "pre_actions": 23, "special_strategies": 39}
"""Fields that are a list of int32, with their field numbers."""
FIELDS: Final[tuple[str, ...]] = tuple(
    sorted(
        (*NUMBERS, *TEXTS, *LISTS),
        key=lambda name: TEXTS.get(name) or LISTS.get(name) or NUMBERS[name].number,
    )
)
"""The fields of a LineId in the order of their numbers."""
MANDATORY: Final = ("uid", "req_time", "sample_rate")
"""Fields that the format asks of every row."""

UNKNOWN, NUMBER, TEXT, LIST = range(4)
KNOWN: Final = 256  # field numbers below which a field can be known


def _field_tables() -> tuple[NDArray[np.int8], NDArray[np.int8], NDArray[np.int8]]:
    """By field number: what it is, which of these it is, its wire type."""
    kind, column, wire = (np.zeros(KNOWN, np.int8) for _ in range(3))
    for column_number, scalar in enumerate(NUMBERS.values()):
        kind[scalar.number], column[scalar.number], wire[scalar.number] = (
            NUMBER,
            column_number,
            scalar.wire,
        )
    for numbers, sort in ((TEXTS, TEXT), (LISTS, LIST)):
        for column_number, number in enumerate(numbers.values()):
            kind[number], column[number], wire[number] = sort, column_number, LENGTH
    return kind, column, wire


KIND, COLUMN, WIRE = _field_tables()
"""int8[KNOWN] by field number: UNKNOWN, NUMBER, ...; which of these; the wire type."""

_SAMPLE_RATE: Final = NUMBERS["sample_rate"].number


class LineArrays(NamedTuple):
    """What a pass over the LineIds of R rows finds, by the places of fields in the tables above."""

    odd: NDArray[np.bool_]
    bits: NDArray[np.uint64]  # uint64[numbers, R] the bits of numbers; 0 where they are not given
    given: NDArray[np.bool_]
    # int64[3, texts, R] where the field, its text, and the end of it lie; -1: not given
    texts: Places
    counts: Places  # int64[lists, R] how many values lists have
    rest: Places  # int64[R] bytes of the fields that are none of these


@kernel
def put_sample_rates(
    data: Bytes,
    start: Places,
    stop: Places,
    bits: NDArray[np.uint32],
    out: Bytes,
    begins: Places,
    ends: Places,
) -> int:
    """Write LineIds with a `sample_rate` of these bits; returns the bytes written."""
    position: int = 0
    for row in range(len(start)):
        begins[row] = position
        at = start[row]
        while at < stop[row]:
            number, wire, _, end = read_field(data, at, stop[row])
            if end < 0:  # not read here, so it stays; of a field said twice the last one counts
                end = stop[row]
            elif number == _SAMPLE_RATE and wire == FIXED32:
                at = end
                continue
            position = put_bytes(out, position, data, at, end)
            at = end
        tag = (_SAMPLE_RATE << 3) | FIXED32
        out[position], out[position + 1] = (tag & 0x7F) | 0x80, tag >> 7
        position = put_fixed(out, position + 2, np.uint64(bits[row]), 4)
        ends[row] = position
    return position


@kernel
def read_lines(data: Bytes, start: Places, stop: Places, arrays: LineArrays) -> None:
    """Read all but the values of lists and the rest, of which only sizes."""
    is_odd, bits, is_given, texts, counts, rest = arrays
    for row in range(len(start)):
        at = start[row]
        while at < stop[row]:
            number, wire, value_at, end = read_field(data, at, stop[row])
            if end < 0:
                is_odd[row] = True
                rest[row] += stop[row] - at
                break
            kind = _field_kind(number, wire)
            column = COLUMN[number] if kind != UNKNOWN else 0
            if kind == NUMBER:
                is_given[column, row] = True
                bits[column, row] = _number_bits(data, value_at, end, wire)
            elif kind == TEXT:
                texts[0, column, row] = at
                texts[1, column, row], texts[2, column, row] = value_at, end
            elif kind == LIST:
                counts[column, row] += _count_varints(data, value_at, end)
            else:
                rest[row] += end - at
            at = end
        rest[row] += _drop_invalid_texts(data, texts, row)


@inner_kernel
def _field_kind(number: int, wire: int) -> int:
    """What a field is; one of another wire type than declared is unknown, as to protobuf."""
    if number >= KNOWN:
        return UNKNOWN
    kind: int = KIND[number]
    if wire == WIRE[number] or (kind == LIST and wire == VARINT):
        return kind
    return UNKNOWN


@inner_kernel
def _number_bits(data: Bytes, at: int, end: int, wire: int) -> np.uint64:
    if wire == VARINT:
        value, _ = read_varint(data, at, end)
        return np.uint64(value)
    bits: np.uint64 = read_fixed(data, at, end - at)
    return bits


@inner_kernel
def _count_varints(data: Bytes, at: int, end: int) -> int:
    many: int = 0
    for position in range(at, end):
        many += data[position] < 0x80
    return many


@inner_kernel
def _drop_invalid_texts(data: Bytes, texts: Places, row: int) -> int:
    """Take texts that are not UTF-8 for not given; returns the bytes of their fields."""
    size: int = 0
    for column in range(texts.shape[1]):
        at, end = texts[1, column, row], texts[2, column, row]
        if at >= 0 and not is_text(data, at, end):
            size += end - texts[0, column, row]
            texts[1, column, row], texts[2, column, row] = -1, -1
    return size


@kernel
def fill_lines(
    data: Bytes,
    start: Places,
    stop: Places,
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
                kind = _field_kind(number, wire)
            if kind == LIST:
                column = COLUMN[number]
                while value_at < end:
                    value, value_at = read_varint(data, value_at, end)
                    if value_at < 0:
                        break
                    values[places[column, row]] = np.int32(value & 0xFFFFFFFF)
                    places[column, row] += 1
            elif kind == UNKNOWN or (
                kind == TEXT
                and texts[0, COLUMN[number], row] == at
                and texts[1, COLUMN[number], row] < 0
            ):
                to = put_bytes(rest, to, data, at, end)
            at = end


@dataclass(frozen=True, kw_only=True)
class LineIds:
    """The LineIds of R rows; of a field that is said twice the last one counts.

    What is of any length (`lists`, `rest`) is made when it is asked for: what all rows of a batch
    share is then written for each of them.
    """

    data: Bytes  # uint8[B] that places point into; begins with the rows' own bytes
    start: Places  # int64[R] where LineIds begin; -1 where the row has none
    stop: Places  # int64[R] where they end
    present: NDArray[np.bool_]
    # by field of `NUMBERS`, [R] of its type; 0 where it is not given
    numbers: dict[str, NDArray[np.generic]]
    # by field of `TEXTS`, int64[R] where it begins and int64[R] where it ends
    texts: dict[str, tuple[Places, Places]]
    # by field of both, bool[R] whether it is given. Text that is not UTF-8 is not.
    given: dict[str, NDArray[np.bool_]]
    counts: dict[str, Places]  # by field of `LISTS`, int64[R] how many values it has
    rest_sizes: Places  # int64[R] bytes of `rest` of each row
    _text_places: Places

    @property
    def lists(self) -> dict[str, tuple[Places, NDArray[np.int32]]]:
        """Return by field of `LISTS` int64[R + 1] values before each row, and int32 values."""
        return self._filled[0]

    @property
    def rest(self) -> Bytes:
        """Return the serialized other fields of all rows, and text that is not UTF-8."""
        return self._filled[1]

    @property
    def rest_first(self) -> Places:
        """Return int64[R + 1]: the bytes of `rest` before each row."""
        return self._filled[2]

    @cached_property
    def _filled(self) -> tuple[dict[str, tuple[Places, NDArray[np.int32]]], Bytes, Places]:
        counts = np.concatenate(list(self.counts.values()))
        firsts, rest_first = prefix_sums(counts), prefix_sums(self.rest_sizes)
        values, rest = np.empty(int(firsts[-1]), np.int32), np.empty(int(rest_first[-1]), np.uint8)
        positions = firsts[:-1].reshape(len(LISTS), -1)
        filled = positions.copy(), values, rest_first, rest
        fill_lines(self.data, self.start, self.stop, self._text_places, *filled)
        lists = {}
        for number, (name, of_rows) in enumerate(self.counts.items()):
            offsets, first = prefix_sums(of_rows), int(firsts[number * len(of_rows)])
            lists[name] = offsets, values[first : first + int(offsets[-1])]
        return lists, rest, rest_first


def decode_line_ids(rows: Rows) -> LineIds:
    """Decode the LineIds of rows."""
    data, start, stop = rows.data, rows.line_start, rows.line_stop
    arrays = _read_arrays(data, start, stop)
    if arrays.odd.any():
        # Those that the kernel cannot read become what protobuf writes without groups.
        start, stop = start.copy(), stop.copy()
        odd_rows = np.flatnonzero(arrays.odd)
        data, start[odd_rows], stop[odd_rows] = append_rewritten(
            rows.data, start, odd_rows, lambda row: _reencode_line_id(rows.line_id(row) or b"")
        )
        arrays = _read_arrays(data, start, stop)
    numbers: dict[str, NDArray[np.generic]] = {}
    for row, (name, scalar) in zip(arrays.bits, NUMBERS.items(), strict=True):
        bits = row if np.dtype(scalar.dtype).itemsize == 8 else row.astype(np.uint32)
        numbers[name] = row != 0 if scalar.dtype is np.bool_ else bits.view(scalar.dtype)
    texts = arrays.texts
    given = dict(zip(NUMBERS, arrays.given, strict=True))
    given |= {name: texts[1, number] >= 0 for number, name in enumerate(TEXTS)}
    return LineIds(
        data=data,
        start=start,
        stop=stop,
        present=start >= 0,
        numbers=numbers,
        texts={name: (texts[1, number], texts[2, number]) for number, name in enumerate(TEXTS)},
        given=given,
        counts=dict(zip(LISTS, arrays.counts, strict=True)),
        rest_sizes=arrays.rest,
        _text_places=texts,
    )


def _read_arrays(data: Bytes, start: Places, stop: Places) -> LineArrays:
    rows = len(start)
    arrays = LineArrays(
        odd=np.zeros(rows, np.bool_),
        bits=np.zeros((len(NUMBERS), rows), np.uint64),
        given=np.zeros((len(NUMBERS), rows), np.bool_),
        texts=np.full((3, len(TEXTS), rows), -1, np.int64),
        counts=np.zeros((len(LISTS), rows), np.int64),
        rest=np.zeros(rows, np.int64),
    )
    read_lines(data, start, stop, arrays)
    return arrays


def find_incomplete(lines: LineIds) -> NDArray[np.bool_]:
    """Return bool[R]: which rows lack one of `MANDATORY`, or the LineId."""
    complete = [lines.present, *(lines.given[name] for name in MANDATORY)]
    lacks: NDArray[np.bool_] = ~np.all(complete, axis=0)
    return lacks


def with_sample_rate(rows: Rows, rate: NDArray[np.float32], where: NDArray[np.bool_]) -> Rows:
    """Return rows with another `sample_rate` in some of their LineIds.

    It is at the end of the LineId, the rest is unchanged; a row without a LineId gets one.
    """
    numbers = np.flatnonzero(where)
    start, stop = rows.line_start[numbers], rows.line_stop[numbers]
    tail = 2 + 4  # the tag of a field number of two bytes, and a float
    out = np.empty(int(np.sum(stop - start)) + tail * len(numbers), np.uint8)
    begins, ends = np.empty(len(numbers), np.int64), np.empty(len(numbers), np.int64)
    bits = np.ascontiguousarray(rate[numbers], np.float32).view(np.uint32)
    used = put_sample_rates(rows.data, start, stop, bits, out, begins, ends)
    line_start, line_stop = rows.line_start.copy(), rows.line_stop.copy()
    line_start[numbers], line_stop[numbers] = begins + len(rows.data), ends + len(rows.data)
    data = np.concatenate([rows.data, out[:used]])
    return replace(rows, data=data, line_start=line_start, line_stop=line_stop)


def _reencode_line_id(content: bytes) -> bytes:
    """A LineId with what is known of it first; groups are left as they are, at its end."""
    from ingot.converters.recsys.monolith.contract import DecodeError, line_id_pb2

    try:
        return line_id_pb2.LineId.FromString(content).SerializeToString()
    except DecodeError:
        return content
