"""Kernels that find the records of a stream, and that put records into frames.

A framing comes as `Framing.bits`: 1 sort_id, 2 kafka_dump, 4 kafka_dump_prefix, 8 lagrangex_header.
Input is hostile: a size is compared as an unsigned number before it is added to a place.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ingot.converters.kernels.compile import inner_kernel, kernel
from ingot.converters.recsys.monolith.contract import DEADBEEF
from ingot.converters.recsys.monolith.record_index import Bytes, Places
from ingot.converters.recsys.monolith.wire.format_kernels import put_bytes, put_fixed, read_fixed

FULL, MORE, SORT_ID, EMPTY, SIZE, NEVER_WRITTEN = range(6)
"""What ends a scan: the arrays are full, or all bytes are used up; the record goes on behind the
bytes that are there; the size of the sort_id is beyond its limit; the message has no bytes; the
size of the message is beyond its limit; it is 0xfefefefe."""

_DEADBEEF: Final = np.uint64(DEADBEEF)


class Frames(NamedTuple):
    """The arrays of `Records`; when frames are looked for, `offset` counts in the bytes at hand."""

    start: Places
    stop: Places
    sort_start: Places
    sort_stop: Places
    source: NDArray[np.uint32]
    offset: Places


@inner_kernel
def _read_sort_id(
    data: Bytes, at: int, bits: int, max_sort_id: int
) -> tuple[int, int, np.uint64, int, int]:
    """The parts up to the sort_id; gives what `_header` gives, without a key."""
    end = len(data)
    size = np.uint64(0)
    if bits & 4:
        if end - at < 8:
            return MORE, at + 8, size, at, at
        size = read_fixed(data, at, 8)
        at += 8
        if size == 0:
            if end - at < 8:
                return MORE, at + 8, size, at, at
            at += 8
    if not bits & 1:
        return FULL, at, np.uint64(0), at, at
    if size == 0:
        if end - at < 8:
            return MORE, at + 8, size, at, at
        size = read_fixed(data, at, 8)
        at += 8
    if size > np.uint64(max_sort_id):
        return SORT_ID, at, size, at, at
    stop = int(at + np.int64(size))
    if stop > end:
        return MORE, stop, size, at, at
    return FULL, stop, size, at, stop


@inner_kernel
def _read_header(
    data: Bytes, at: int, bits: int, max_sort_id: int
) -> tuple[int, int, np.uint64, int, int, np.uint32]:
    """The parts of the frame at `at` that come before its message."""
    none = np.uint32(0)
    end = len(data)
    state, sort_start, sort_stop, source = FULL, at, at, none
    if bits & 8:
        if end - at < 8:
            return MORE, at + 8, np.uint64(0), at, at, none
        source = np.uint32(read_fixed(data, at, 8) & np.uint64(0xFFFFFF00))
        at += 8
    else:
        state, at, size, sort_start, sort_stop = _read_sort_id(data, at, bits, max_sort_id)
        if state != FULL:
            return state, at, size, sort_start, sort_stop, source
    if bits & 2:
        at += 8
    if end - at < 8:
        return MORE, at + 8, np.uint64(0), sort_start, sort_stop, source
    return FULL, at + 8, read_fixed(data, at, 8), sort_start, sort_stop, source


@kernel
def scan_frames(
    data: Bytes, at: int, bits: int, max_sort_id: int, limit: int, frames: Frames
) -> tuple[int, int, int, int, np.uint64]:
    """Find the whole records of a buffer, one behind the other, up to the first that is none."""
    count = 0
    nothing = np.uint64(0)
    while count < len(frames.start) and at < len(data):
        state, position, size, first, last, key = _read_header(data, at, bits, max_sort_id)
        if state != FULL:
            return count, state, at, position, size
        if size == 0:
            return count, EMPTY, at, position, size
        if size == _DEADBEEF:
            return count, NEVER_WRITTEN, at, position, size
        if size > np.uint64(limit):
            return count, SIZE, at, position, size
        end = position + np.int64(size)
        if end > len(data):
            return count, MORE, at, end, size
        frames.offset[count], frames.start[count], frames.stop[count] = at, position, end
        frames.sort_start[count], frames.sort_stop[count] = first, last
        frames.source[count] = key
        count += 1
        at = end
    return count, FULL, at, at, nothing


@inner_kernel
def put_frame_head(
    out: Bytes,
    at: int,
    data: Bytes,
    sort_start: int,
    sort_stop: int,
    source: np.uint32,
    size: int,
    bits: int,
) -> int:
    """Write what Monolith's writer writes before a message of this size; the next place."""
    nothing = np.uint64(0)
    if bits & 8:
        at = put_fixed(out, at, np.uint64(source), 8)
    if bits & 4:
        at = put_fixed(out, at, nothing, 8)
        at = put_fixed(out, at, nothing, 8)
    if bits & 1:
        at = put_fixed(out, at, np.uint64(sort_stop - sort_start), 8)
        at = put_bytes(out, at, data, sort_start, sort_stop)
    if bits & 2:
        at = put_fixed(out, at, nothing, 8)
    end: int = put_fixed(out, at, np.uint64(size), 8)
    return end


@kernel
def write_frames(data: Bytes, frames: Frames, bits: int, out: Bytes) -> None:
    """Put records into frames."""
    start, stop, sort_start, sort_stop, source, _ = frames
    at = 0
    for one in range(len(start)):
        size, key = stop[one] - start[one], source[one]
        at = put_frame_head(out, at, data, sort_start[one], sort_stop[one], key, size, bits)
        at = put_bytes(out, at, data, start[one], stop[one])
