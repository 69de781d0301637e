"""Kernels that read, check and write the parts of protobuf's wire format.

Places are int64, and made unsigned where bytes are taken: a negative index would count from the
end, and asking whether it is one costs several times the rest. A reading kernel gives -1 for the
next place where the bytes do not hold what it reads.
Source: the encoding as https://protobuf.dev/programming-guides/encoding/ describes it.
"""

from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ingot.converters.kernels.compile import allocating_kernel, inner_kernel, kernel
from ingot.converters.recsys.monolith.contract import INSTANCE_WEIGHT, LABEL, LINE_ID
from ingot.converters.recsys.monolith.record_index import Bytes, Places

VARINT, FIXED64, LENGTH, GROUP, END_GROUP, FIXED32 = range(6)

_MAX_FIELD: Final = (1 << 29) - 1  # field number
_MAX_GROUPS: Final = 64  # within each other; protobuf takes 100, the messages around them counted
_MAX_SMALL_BYTES: Final = 5  # bytes of a tag at most


@inner_kernel
def read_small_varint(data: Bytes, at: int, stop: int) -> tuple[int, int]:
    """Read a tag, or a size of at most five bytes; return it and the next position."""
    if at < stop and data[np.uint64(at)] < 0x80:
        return np.int64(data[np.uint64(at)]), np.int64(at + 1)
    value = np.int64(0)
    shift = 0
    for _ in range(_MAX_SMALL_BYTES):
        if at >= stop:
            return value, np.int64(-1)
        byte = np.int64(data[np.uint64(at)])
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, np.int64(at)
        shift += 7
    return value, np.int64(-1)


@inner_kernel
def read_varint(data: Bytes, at: int, stop: int) -> tuple[int, int]:
    """Read a number of at most ten bytes as bits of an int64; return it and the next position."""
    value = np.uint64(0)
    shift = np.uint64(0)
    for _ in range(10):
        if at >= stop:
            return np.int64(0), np.int64(-1)
        byte = np.uint64(data[np.uint64(at)])
        at += 1
        value |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            return np.int64(value), np.int64(at)
        shift += np.uint64(7)
    return np.int64(0), np.int64(-1)


@inner_kernel
def _find_value_end(data: Bytes, at: int, stop: int, wire: int) -> int:
    """Where a value of one number ends; -1 where it is cut off, or no number."""
    end = np.int64(-1)
    if wire == VARINT:
        _, end = read_varint(data, at, stop)
    elif wire == FIXED64:
        end = np.int64(at + 8)
    elif wire == FIXED32:
        end = np.int64(at + 4)
    return end if end <= stop else np.int64(-1)


@inner_kernel
def _read_sized(data: Bytes, at: int, stop: int) -> tuple[int, int]:
    """Where a value begins whose size is read first, and where it ends; -1 where it is cut off."""
    size, begin = read_small_varint(data, at, stop)
    if begin < 0:  # longer than it needs to be, or cut off
        size, begin = read_varint(data, at, stop)
    if begin < 0 or size < 0 or size > stop - begin:
        return begin, np.int64(-1)
    return begin, begin + size


@allocating_kernel
def _find_group_end(data: Bytes, at: int, stop: int, number: int) -> int:
    """Where a group ends whose first tag was read; -1 where it does not."""
    open_groups = np.empty(_MAX_GROUPS, np.int64)
    open_groups[0] = number
    depth = 1
    while depth > 0:
        tag, at = read_small_varint(data, at, stop)
        if at < 0 or tag < 8 or tag >> 3 > _MAX_FIELD:
            return np.int64(-1)
        wire = tag & 7
        if wire == GROUP:
            if depth == _MAX_GROUPS:
                return np.int64(-1)
            open_groups[depth] = tag >> 3
            depth += 1
        elif wire == END_GROUP:
            depth -= 1
            if open_groups[depth] != tag >> 3:
                return np.int64(-1)
        else:
            at = (
                _read_sized(data, at, stop)[1]
                if wire == LENGTH
                else _find_value_end(data, at, stop, wire)
            )
            if at < 0:
                return np.int64(-1)
    return np.int64(at)


@inner_kernel
def read_field(data: Bytes, at: int, stop: int) -> tuple[int, int, int, int]:
    """Return the number and wire type of a field, and where its value begins and ends.

    The end is -1 for a field that is cut off, for field number 0, and for the end of a group.
    """
    # Nearly all have a tag and a size of one byte; a small function is built into its callers.
    if stop - at >= 2:
        tag, size = np.int64(data[np.uint64(at)]), np.int64(data[np.uint64(at + 1)])
        end = at + 2 + size
        if tag & 0x87 == LENGTH and tag >= 8 and size < 0x80 and end <= stop:
            return tag >> 3, np.int64(LENGTH), np.int64(at + 2), np.int64(end)
    return _read_any_field(data, at, stop)


@inner_kernel
def _read_any_field(data: Bytes, at: int, stop: int) -> tuple[int, int, int, int]:
    tag, value_at = read_small_varint(data, at, stop)
    number, wire = tag >> 3, tag & 7
    if value_at < 0 or number < 1 or number > _MAX_FIELD:
        return number, wire, value_at, np.int64(-1)
    if wire == LENGTH:
        value_at, end = _read_sized(data, value_at, stop)
    elif wire == GROUP:
        end = _find_group_end(data, value_at, stop, number)
    else:
        end = _find_value_end(data, value_at, stop, wire)
    return number, wire, value_at, end


@inner_kernel
def read_fixed(data: Bytes, at: int, size: int) -> np.uint64:
    """Return the bits of a number of four or eight bytes."""
    bits = np.uint64(0)
    for byte in range(size):
        bits |= np.uint64(data[at + byte]) << np.uint64(8 * byte)
    return bits


@inner_kernel
def varint_size(value: int) -> int:
    """Return the size in bytes of a non-negative number as a varint."""
    size = 1
    while value >= 0x80:
        value >>= 7
        size += 1
    return size


@inner_kernel
def signed_size(value: int) -> int:
    """Return the size in bytes of a number as a varint: ten if it is negative."""
    return 10 if value < 0 else varint_size(np.int64(value))


@inner_kernel
def put_varint(out: Bytes, at: int, value: int) -> int:
    """Write a number that is not negative; the next place."""
    while value >= 0x80:
        out[np.uint64(at)] = np.uint8((value & 0x7F) | 0x80)
        value >>= 7
        at += 1
    out[np.uint64(at)] = np.uint8(value)
    return at + 1


@inner_kernel
def put_signed(out: Bytes, at: int, value: int) -> int:
    """Write a number, sign-extended to 64 bits; the next place."""
    if value >= 0:
        return put_varint(out, at, np.int64(value))
    bits = np.uint64(np.int64(value))
    for _ in range(9):
        out[at] = np.uint8((bits & np.uint64(0x7F)) | np.uint64(0x80))
        bits >>= np.uint64(7)
        at += 1
    out[at] = np.uint8(bits)
    return at + 1


@inner_kernel
def put_bytes(out: Bytes, at: int, data: Bytes, start: int, stop: int) -> int:
    """Copy bytes; the next place."""
    target, origin = np.uint64(at), np.uint64(start)
    for index in range(np.uint64(stop - start)):
        out[target + index] = data[origin + index]
    return at + stop - start


@inner_kernel
def put_fixed(out: Bytes, at: int, bits: np.uint64, size: int) -> int:
    """Write a number of four or eight bytes; the next place."""
    for byte in range(size):
        out[at + byte] = np.uint8((bits >> np.uint64(8 * byte)) & np.uint64(0xFF))
    return at + size


@inner_kernel
def put_number(out: Bytes, at: int, number: int, value: int) -> int:
    """Write a field of an int32 that is not 0; the next place."""
    if value == 0:
        return at
    return put_signed(out, put_varint(out, at, np.int64(number << 3 | VARINT)), value)


@inner_kernel
def put_head(out: Bytes, at: int, number: int, size: int) -> int:
    """Write tag and size of a field with a length; the next place."""
    return put_varint(out, put_varint(out, at, np.int64((number << 3) | LENGTH)), size)


@inner_kernel
def size_with_head(number: int, size: int) -> int:
    """Return the size in bytes of a field with a length, tag and size included."""
    return varint_size(np.int64(number << 3)) + varint_size(size) + size


@inner_kernel
def equal_bytes(
    data: Bytes, start: int, stop: int, other: Bytes, other_start: int, other_stop: int
) -> bool:
    """Return whether two spans of bytes are equal."""
    if stop - start != other_stop - other_start:
        return False
    first, second = np.uint64(start), np.uint64(other_start)
    for index in range(np.uint64(stop - start)):
        if data[first + index] != other[second + index]:
            return False
    return True


NUMBERS: Final = 256  # field numbers below which a field can be known
UNKNOWN, SCALAR, SCALARS, TEXT, RAW, MESSAGE, MESSAGES = range(7)
"""What a field is: UNKNOWN; one number; numbers (packed or not); UTF-8; bytes or text that is not
checked; a message that occurs once; messages."""

_WIRES: Final = {
    **dict.fromkeys(("int32", "int64", "uint32", "bool", "enum"), VARINT),
    **dict.fromkeys(("fixed64", "double"), FIXED64),
    "float": FIXED32,
    **dict.fromkeys(("string", "bytes", "message"), LENGTH),
}

WIRE_SHIFT, MESSAGE_SHIFT = 8, 16


@cache
def message_shapes() -> tuple[dict[str, int], NDArray[np.int32]]:
    """Return the message types of an Example, an ExampleBatch and a LineId."""
    from ingot.converters.recsys.monolith.contract import example_pb2

    messages: dict[str, Any] = {}
    for name in ("Example", "ExampleBatch"):
        _collect_messages(example_pb2.DESCRIPTOR.message_types_by_name[name], messages)
    numbers = {name: index for index, name in enumerate(messages)}
    fields = np.zeros((len(messages), NUMBERS), np.int32)
    for name, message in messages.items():
        for field in message.fields:
            following = numbers[field.message_type.name] if field.message_type else 0
            wire = _WIRES[_field_type(field)] << WIRE_SHIFT
            number = numbers[name], field.number
            fields[number] = _field_kind(field, message) | wire | following << MESSAGE_SHIFT
    return numbers, fields


def _collect_messages(message: Any, messages: dict[str, Any]) -> None:  # noqa: ANN401 - descriptors have no types
    if message.name in messages:
        return
    messages[message.name] = message
    for field in message.fields:
        if field.message_type is not None:
            _collect_messages(field.message_type, messages)


def _field_type(field: Any) -> str:  # noqa: ANN401
    names = {
        value: name.removeprefix("TYPE_").lower()
        for name, value in vars(type(field)).items()
        if name.startswith("TYPE_")
    }
    return str(names[field.type])


def _field_kind(field: Any, message: Any) -> int:  # noqa: ANN401
    kind, repeated = _field_type(field), field.is_repeated
    if kind == "message":
        return MESSAGES if repeated else MESSAGE
    if kind in ("string", "bytes"):
        # proto2 takes any bytes for text
        return TEXT if kind == "string" and message.name != "LineId" else RAW
    return SCALARS if repeated else SCALAR


DEPTH: Final = 8
"""Messages within each other: a batch, its lists, raw features, features, lists of lists, lists."""


class Grammar(NamedTuple):
    """What a kernel needs to judge a message; one call of a kernel uses it at a time."""

    fields: NDArray[np.int32]  # int32[messages, NUMBERS], kind, wire type and message of each field
    stack: NDArray[np.int64]  # int64[2, DEPTH] that `is_sound` works with
    special: Bytes  # uint8[S] the names of the features that say something of the row
    special_ends: Places  # int64[3] where each of these names ends


def new_grammar() -> Grammar:
    """Return the grammar of an Example, an ExampleBatch and a LineId."""
    return Grammar(message_shapes()[1], np.empty((2, DEPTH), np.int64), *_special_names())


@cache
def _special_names() -> tuple[Bytes, Places]:
    names = [name.encode() for name in (LINE_ID, LABEL, INSTANCE_WEIGHT)]
    ends = np.cumsum([len(name) for name in names], dtype=np.int64)
    return np.frombuffer(b"".join(names), np.uint8), ends


@kernel
def is_text(data: Bytes, at: int, stop: int) -> bool:
    """Return whether bytes are UTF-8."""
    while at < stop:
        byte = data[np.uint64(at)]
        if byte < 0x80:
            at += 1
            continue
        continuation, minimum, value = _utf8_sequence(byte)
        if continuation == 0 or stop - at <= continuation:
            return False
        for _ in range(continuation):
            at += 1
            if data[at] & 0xC0 != 0x80:
                return False
            value = (value << 6) | (np.int64(data[at]) & 0x3F)
        if value < minimum or value > 0x10FFFF or 0xD800 <= value <= 0xDFFF:
            return False
        at += 1
    return True


@inner_kernel
def _utf8_sequence(byte: int) -> tuple[int, int, int]:
    """Bytes that follow the first of a character, the least such character, the first's bits."""
    if byte & 0xE0 == 0xC0:
        return 1, 0x80, np.int64(byte) & 0x1F
    if byte & 0xF0 == 0xE0:
        return 2, 0x800, np.int64(byte) & 0x0F
    if byte & 0xF8 == 0xF0:
        return 3, 0x10000, np.int64(byte) & 0x07
    return 0, 0, np.int64(0)


@inner_kernel
def count_packed_numbers(data: Bytes, at: int, stop: int, wire: int) -> int:
    """Count the packed numbers of a wire type in a span; -1 if the last one is cut off."""
    if wire == FIXED64:
        return (stop - at) // 8 if (stop - at) % 8 == 0 else -1
    if wire == FIXED32:
        return (stop - at) // 4 if (stop - at) % 4 == 0 else -1
    many = 0
    while at < stop:
        _, at = read_varint(data, at, stop)
        if at < 0:
            return -1
        many += 1
    return many


@inner_kernel
def _holds_value(data: Bytes, start: int, stop: int, wire: int, field: int) -> bool:
    """Whether the value of a known field that is no message is in order."""
    kind, declared = field & 0xFF, (field >> WIRE_SHIFT) & 0xFF
    if kind == TEXT:
        return wire != LENGTH or is_text(data, start, stop)
    if kind == SCALARS and wire == LENGTH:
        return count_packed_numbers(data, start, stop, declared) >= 0
    return True


@inner_kernel
def is_sound(
    data: Bytes,
    start: int,
    stop: int,
    message: int,
    fields: NDArray[np.int32],
    stack: NDArray[np.int64],
) -> bool:
    """Return whether bytes are a message as protobuf reads it; False also if that is unknown."""
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
        elif not _holds_value(data, value_at, end, wire, field):
            return False


@kernel
def find_known_fields(
    data: Bytes, start: Places, stop: Places, known: NDArray[np.int32], is_known: NDArray[np.bool_]
) -> None:
    """Find which unknown fields have numbers that another message knows."""
    for index in range(len(start)):
        position, is_known[index] = start[index], False
        while 0 <= position < stop[index]:
            number, wire, _, position = read_field(data, position, stop[index])
            if number < len(known) and known[number] & 0xFF:
                declared, packed = (known[number] >> WIRE_SHIFT) & 0xFF, wire == LENGTH
                packed &= known[number] & 0xFF == SCALARS
                is_known[index] |= packed or wire == declared
