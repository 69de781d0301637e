"""Compiled loops over the fields of LineIds."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.compiling import kernel
from ingot.converters.monolith.line_id_fields import KNOWN, LIST, NUMBER, NUMBERS, TEXT, UNKNOWN
from ingot.converters.monolith.records import Bytes, Places
from ingot.converters.monolith.wire.kernels.checking import is_text
from ingot.converters.monolith.wire.kernels.varints import FIXED32, VARINT, read_field, read_varint

_SAMPLE_RATE: Final = NUMBERS["sample_rate"].number


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


@kernel
def read_lines(
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
def fill_lines(
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
