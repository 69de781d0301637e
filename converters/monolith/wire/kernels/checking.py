"""Whether bytes are a message as protobuf reads it: a kernel that says yes, or does not know.

What it does not know (deep groups, damage) is left to protobuf itself, which is slow and right. A
field of another wire type than declared is an unknown one, as protobuf has it.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.compiling import kernel
from ingot.converters.monolith.records import Bytes
from ingot.converters.monolith.wire.kernels.varints import (
    FIXED32,
    FIXED64,
    LENGTH,
    read_field,
    read_varint,
)
from ingot.converters.monolith.wire.shapes import (
    MESSAGE,
    MESSAGE_SHIFT,
    NUMBERS,
    SCALARS,
    TEXT,
    UNKNOWN,
    WIRE_SHIFT,
)

DEPTH: Final = 8
"""Messages within each other: a batch, its lists, raw features, features, lists of lists, lists."""


@kernel
def is_text(data: Bytes, at: int, stop: int) -> bool:
    """Whether bytes are UTF-8."""
    while at < stop:
        byte = data[np.uint64(at)]
        if byte < 0x80:
            at += 1
            continue
        more, least, value = _sequence(byte)
        if more == 0 or stop - at <= more:
            return False
        for _ in range(more):
            at += 1
            if data[at] & 0xC0 != 0x80:
                return False
            value = (value << 6) | (np.int64(data[at]) & 0x3F)
        if value < least or value > 0x10FFFF or 0xD800 <= value <= 0xDFFF:
            return False
        at += 1
    return True


@kernel
def _sequence(byte: int) -> tuple[int, int, int]:
    """Bytes that follow the first of a character, the least such character, the first's bits."""
    if byte & 0xE0 == 0xC0:
        return 1, 0x80, np.int64(byte) & 0x1F
    if byte & 0xF0 == 0xE0:
        return 2, 0x800, np.int64(byte) & 0x0F
    if byte & 0xF8 == 0xF0:
        return 3, 0x10000, np.int64(byte) & 0x07
    return 0, 0, np.int64(0)


@kernel
def _are_packed(data: Bytes, at: int, stop: int, wire: int) -> bool:
    """Whether bytes are whole numbers of a wire type, one behind the other."""
    if wire == FIXED64:
        return (stop - at) % 8 == 0
    if wire == FIXED32:
        return (stop - at) % 4 == 0
    while at < stop:
        _, at = read_varint(data, at, stop)
        if at < 0:
            return False
    return True


@kernel
def _holds(data: Bytes, start: int, stop: int, wire: int, field: int) -> bool:
    """Whether the value of a known field that is no message is in order."""
    kind, declared = field & 0xFF, (field >> WIRE_SHIFT) & 0xFF
    if kind == TEXT:
        return wire != LENGTH or is_text(data, start, stop)
    if kind == SCALARS and wire == LENGTH:
        return _are_packed(data, start, stop, declared)
    return True


@kernel
def is_sound(
    data: Bytes,
    start: int,
    stop: int,
    message: int,
    fields: NDArray[np.int32],
    stack: NDArray[np.int64],
) -> bool:
    """Whether bytes are a message.

    Args:
        data: uint8[B].
        start: where the message begins.
        stop: where it ends.
        message: its number.
        fields: int32[messages, NUMBERS], as `shapes` gives it.
        stack: int64[2, DEPTH], overwritten.
    """
    depth, at = 0, start
    while True:
        while at == stop:
            if depth == 0:
                return True
            depth -= 1
            stop, message = stack[0, depth], stack[1, depth]
        number, wire, value_at, end = read_field(data, at, stop)
        if end < 0:
            return False
        at = end
        field = fields[message, number] if number < NUMBERS else UNKNOWN
        if wire == LENGTH and (field & 0xFF) >= MESSAGE:
            if depth == DEPTH:
                return False
            stack[0, depth], stack[1, depth] = stop, message
            depth += 1
            at, stop, message = value_at, end, field >> MESSAGE_SHIFT
        elif not _holds(data, value_at, end, wire, field):
            return False


def scratch() -> NDArray[np.int64]:
    """The stack that `is_sound` works with."""
    return np.empty((2, DEPTH), np.int64)
