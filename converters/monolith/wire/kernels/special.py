"""A kernel that reads the features that say something of the row itself."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.compiling import kernel
from ingot.converters.monolith.records import Bytes
from ingot.converters.monolith.wire.kernels.checking import is_sound
from ingot.converters.monolith.wire.kernels.examples import (
    LABEL_FEATURE,
    LABELS,
    LINE,
    LINE_FEATURE,
    SOUND,
    TWICE,
    WEIGHT,
    WEIGHT_FEATURE,
    bits_at,
)
from ingot.converters.monolith.wire.kernels.varints import LENGTH, read_field, same_bytes

BAD_LINE, BAD_LABEL, BAD_WEIGHT = 3, 4, 5
LINES_DIFFER = 7
"""What a row is whose special feature is not as expected: statuses beside those of `examples`.

LINES_DIFFER: the bytes of its LineId in field and feature do."""

_ONE: Final = 0x3F800000  # the bits of 1.0
_BYTES_LIST, _FLOAT_LIST = 6, 3  # fields of Feature


@kernel
def _only_field(data: Bytes, start: int, stop: int, number: int) -> tuple[int, int]:
    """Where the content of the one field of a message lies; -1 where it is not that one field."""
    found, wire, value_at, end = read_field(data, start, stop)
    if end != stop or found != number or wire != LENGTH:
        return np.int64(-1), np.int64(-1)
    return value_at, end


@kernel
def _values(data: Bytes, start: int, stop: int, number: int) -> tuple[int, int, bool]:
    """Where the packed (or single) value of a feature with one list lies, and if it has any.

    An unset feature and an empty list have none. -1 where the feature is something else.
    """
    if start == stop:
        return start, stop, False
    begin, end = _only_field(data, start, stop, number)
    if begin < 0 or begin == end:
        return begin, end, False
    begin, end = _only_field(data, begin, end, 1)
    return begin, end, begin >= 0


@kernel
def _take(
    data: Bytes, rows: NDArray[np.int64], row: int, place: int, start: int, stop: int
) -> bool:
    """Note what a special feature says; False where a field says otherwise."""
    if rows[place, row] >= 0:
        return same_bytes(data, start, stop, data, rows[place, row], rows[place + 1, row])
    rows[place, row], rows[place + 1, row] = start, stop
    return True


@kernel
def read_special(
    data: Bytes,
    rows: NDArray[np.int64],
    status: NDArray[np.int8],
    line_id: int,
    fields: NDArray[np.int32],
    stack: NDArray[np.int64],
) -> None:
    """Move what special features say to where an Example's fields are noted.

    Args:
        data: uint8[B].
        rows: int64[ROW, R]; places of LineId, labels and weight are filled.
        status: int8[R]; of sound rows set to TWICE or one of those above.
        line_id: number of the message.
        fields: as `shapes` gives them.
        stack: as `is_sound` takes it.
    """
    for row in range(rows.shape[1]):
        if status[row] == SOUND and rows[LINE_FEATURE, row] >= 0:
            status[row] = _read_line(data, rows, row, line_id, fields, stack)
        if status[row] == SOUND and rows[LABEL_FEATURE, row] >= 0:
            status[row] = _read_labels(data, rows, row)
        if status[row] == SOUND and rows[WEIGHT_FEATURE, row] >= 0:
            status[row] = _read_weight(data, rows, row)


@kernel
def _read_line(
    data: Bytes,
    rows: NDArray[np.int64],
    row: int,
    line_id: int,
    fields: NDArray[np.int32],
    stack: NDArray[np.int64],
) -> int:
    begin, end = rows[LINE_FEATURE, row], rows[LINE_FEATURE + 1, row]
    begin, end, there = _values(data, begin, end, _BYTES_LIST)
    if not there or not is_sound(data, begin, end, line_id, fields, stack):
        return BAD_LINE
    return SOUND if _take(data, rows, row, LINE, begin, end) else LINES_DIFFER


@kernel
def _read_labels(data: Bytes, rows: NDArray[np.int64], row: int) -> int:
    begin, end = rows[LABEL_FEATURE, row], rows[LABEL_FEATURE + 1, row]
    begin, end, _ = _values(data, begin, end, _FLOAT_LIST)
    if begin < 0 or (end - begin) % 4 != 0:
        return BAD_LABEL
    return SOUND if _take(data, rows, row, LABELS, begin, end) else TWICE


@kernel
def _read_weight(data: Bytes, rows: NDArray[np.int64], row: int) -> int:
    """A list without values stands for 1, as Monolith has it."""
    begin, end = rows[WEIGHT_FEATURE, row], rows[WEIGHT_FEATURE + 1, row]
    begin, end, _ = _values(data, begin, end, _FLOAT_LIST)
    size = end - begin
    if begin < 0 or (size != 0 and size != 4):
        return BAD_WEIGHT
    bits = np.int64(_ONE) if size == 0 else bits_at(data, begin)
    if rows[WEIGHT, row] not in (0, bits):
        return TWICE
    rows[WEIGHT, row] = bits
    return SOUND
