"""Reading and writing the parts of the wire format, for kernels.

Places are int64, and made unsigned where bytes are taken: a negative index would count from the
end, and asking whether it is one costs several times the rest. A reading kernel gives -1 for the
next place where the bytes do not hold what it reads.
Source: the encoding as https://protobuf.dev/programming-guides/encoding/ describes it.
"""

from typing import Final

import numpy as np

from ingot.converters.compiling import kernel
from ingot.converters.monolith.records import Bytes

VARINT: Final = 0
FIXED64: Final = 1
LENGTH: Final = 2
GROUP: Final = 3
END_GROUP: Final = 4
FIXED32: Final = 5

_LAST: Final = (1 << 29) - 1  # field number
_GROUPS: Final = 64  # within each other; protobuf takes 100, the messages around them counted
_MOST: Final = 5
"""Bytes of a tag at most."""


@kernel
def read_small(data: Bytes, at: int, stop: int) -> tuple[int, int]:
    """A tag, or a size of at most five bytes: its value and the next place."""
    if at < stop and data[np.uint64(at)] < 0x80:
        return np.int64(data[np.uint64(at)]), np.int64(at + 1)
    value = np.int64(0)
    shift = 0
    for _ in range(_MOST):
        if at >= stop:
            return value, np.int64(-1)
        byte = np.int64(data[np.uint64(at)])
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, np.int64(at)
        shift += 7
    return value, np.int64(-1)


@kernel
def read_varint(data: Bytes, at: int, stop: int) -> tuple[int, int]:
    """A number of at most ten bytes, as the bits of an int64, and the next place."""
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


@kernel
def _value_end(data: Bytes, at: int, stop: int, wire: int) -> int:
    """Where a value of one number ends; -1 where it is cut off, or no number."""
    end = np.int64(-1)
    if wire == VARINT:
        _, end = read_varint(data, at, stop)
    elif wire == FIXED64:
        end = np.int64(at + 8)
    elif wire == FIXED32:
        end = np.int64(at + 4)
    return end if end <= stop else np.int64(-1)


@kernel
def _sized(data: Bytes, at: int, stop: int) -> tuple[int, int]:
    """Where a value begins whose size is read first, and where it ends; -1 where it is cut off."""
    size, begin = read_small(data, at, stop)
    if begin < 0:  # longer than it needs to be, or cut off
        size, begin = read_varint(data, at, stop)
    if begin < 0 or size < 0 or size > stop - begin:
        return begin, np.int64(-1)
    return begin, begin + size


@kernel
def _group_end(data: Bytes, at: int, stop: int, number: int) -> int:
    """Where a group ends whose first tag was read; -1 where it does not."""
    open_groups = np.empty(_GROUPS, np.int64)
    open_groups[0] = number
    depth = 1
    while depth > 0:
        tag, at = read_small(data, at, stop)
        if at < 0 or tag < 8 or tag >> 3 > _LAST:
            return np.int64(-1)
        wire = tag & 7
        if wire == GROUP:
            if depth == _GROUPS:
                return np.int64(-1)
            open_groups[depth] = tag >> 3
            depth += 1
        elif wire == END_GROUP:
            depth -= 1
            if open_groups[depth] != tag >> 3:
                return np.int64(-1)
        else:
            at = _sized(data, at, stop)[1] if wire == LENGTH else _value_end(data, at, stop, wire)
            if at < 0:
                return np.int64(-1)
    return np.int64(at)


@kernel
def read_field(data: Bytes, at: int, stop: int) -> tuple[int, int, int, int]:
    """A field: its number, wire type, where its value begins, where it ends.

    The end is -1 for what is cut off, for field number 0, and for the end of a group.
    """
    # Nearly all have a tag and a size of one byte; a small function is built into its callers.
    if stop - at >= 2:
        tag, size = np.int64(data[np.uint64(at)]), np.int64(data[np.uint64(at + 1)])
        end = at + 2 + size
        if tag & 0x87 == LENGTH and tag >= 8 and size < 0x80 and end <= stop:
            return tag >> 3, np.int64(LENGTH), np.int64(at + 2), np.int64(end)
    return _read_any_field(data, at, stop)


@kernel
def _read_any_field(data: Bytes, at: int, stop: int) -> tuple[int, int, int, int]:
    tag, value_at = read_small(data, at, stop)
    number, wire = tag >> 3, tag & 7
    if value_at < 0 or number < 1 or number > _LAST:
        return number, wire, value_at, np.int64(-1)
    if wire == LENGTH:
        value_at, end = _sized(data, value_at, stop)
    elif wire == GROUP:
        end = _group_end(data, value_at, stop, number)
    else:
        end = _value_end(data, value_at, stop, wire)
    return number, wire, value_at, end


@kernel
def size_of(value: int) -> int:
    """Bytes of a number that is not negative, as a varint."""
    size = 1
    while value >= 0x80:
        value >>= 7
        size += 1
    return size


@kernel
def size_of_int32(value: int) -> int:
    """Bytes of an int32 as a varint: ten where it is negative."""
    return 10 if value < 0 else size_of(np.int64(value))


@kernel
def put_varint(out: Bytes, at: int, value: int) -> int:
    """Write a number that is not negative; the next place."""
    while value >= 0x80:
        out[np.uint64(at)] = np.uint8((value & 0x7F) | 0x80)
        value >>= 7
        at += 1
    out[np.uint64(at)] = np.uint8(value)
    return at + 1


@kernel
def put_int32(out: Bytes, at: int, value: int) -> int:
    """Write an int32, sign-extended to 64 bits; the next place."""
    if value >= 0:
        return put_varint(out, at, np.int64(value))
    bits = np.uint64(np.int64(value))
    for _ in range(9):
        out[at] = np.uint8((bits & np.uint64(0x7F)) | np.uint64(0x80))
        bits >>= np.uint64(7)
        at += 1
    out[at] = np.uint8(bits)
    return at + 1


@kernel
def put_bytes(out: Bytes, at: int, data: Bytes, start: int, stop: int) -> int:
    """Copy bytes; the next place."""
    to, origin = np.uint64(at), np.uint64(start)
    for place in range(np.uint64(stop - start)):
        out[to + place] = data[origin + place]
    return at + stop - start


@kernel
def put_number(out: Bytes, at: int, number: int, value: int) -> int:
    """Write a field of an int32 that is not 0; the next place."""
    if value == 0:
        return at
    return put_int32(out, put_varint(out, at, np.int64(number << 3 | VARINT)), value)


@kernel
def put_head(out: Bytes, at: int, number: int, size: int) -> int:
    """Write tag and size of a field with a length; the next place."""
    return put_varint(out, put_varint(out, at, np.int64((number << 3) | LENGTH)), size)


@kernel
def size_with_head(number: int, size: int) -> int:
    """Bytes of a field with a length, tag and size included."""
    return size_of(np.int64(number << 3)) + size_of(size) + size


@kernel
def same_bytes(
    data: Bytes, start: int, stop: int, other: Bytes, other_start: int, other_stop: int
) -> bool:
    """Whether two stretches of bytes are equal."""
    if stop - start != other_stop - other_start:
        return False
    one, two = np.uint64(start), np.uint64(other_start)
    for place in range(np.uint64(stop - start)):  # noqa: SIM110 - kernels have no generators
        if data[one + place] != other[two + place]:
            return False
    return True
