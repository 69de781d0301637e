"""Kernels that walk an ExampleBatch: its lists first, then its rows."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.compiling import kernel
from ingot.converters.monolith.records import Bytes, Places
from ingot.converters.monolith.wire.kernels.checking import is_sound, is_text
from ingot.converters.monolith.wire.kernels.examples import (
    EXTRA_START,
    EXTRA_STOP,
    IDENT,
    LINE_FEATURE,
    NAME,
    ODD,
    RAW,
    SORTED_ID,
    SOUND,
    START,
    STOP,
    message_of,
    special_of,
)
from ingot.converters.monolith.wire.kernels.varints import LENGTH, VARINT, read_field, read_varint

# Rows of the table of lists; NAME to EXTRA_STOP as those of entries, START and STOP of the list.
COUNT, SHARED, SPECIAL, NAME_START, NAME_STOP, FIRST = range(8, 14)
LIST: Final = 14
# What a batch says beside its lists.
BATCH_SIZE, BATCH_SOURCE, BATCH_REST_START, BATCH_REST_STOP, BATCH_LISTS = range(5)
BATCH: Final = 5

_SORTED_ID: Final = 6


@kernel
def walk_lists(
    data: Bytes,
    start: int,
    stop: int,
    batch_message: int,
    special: Bytes,
    special_ends: Places,
    fields: NDArray[np.int32],
    stack: NDArray[np.int64],
    lists: NDArray[np.int64],
    batch: Places,
) -> int:
    """Note the lists of an ExampleBatch.

    Args:
        data: uint8[B].
        start: where it begins.
        stop: where it ends.
        batch_message: number of the message.
        special: names of special features, as `special_of` takes them.
        special_ends: of these names.
        fields: as `shapes` gives them.
        stack: as `is_sound` takes it.
        lists: int64[LIST, L], filled but for NAME; L at least as `count_entries` gives it.
        batch: int64[BATCH], filled.

    Returns:
        SOUND or ODD.
    """
    batch[:] = 0
    batch[BATCH_REST_START] = batch[BATCH_REST_STOP] = start
    at, one = start, 0
    while at < stop:
        number, wire, value_at, end = read_field(data, at, stop)
        if end < 0:
            return ODD
        if number <= 2 and wire == LENGTH:
            content = message_of(fields, message_of(fields, batch_message, number), 2)
            raw = number == 2
            if not _walk_list(data, value_at, end, content, raw, lists, one, fields, stack):
                return ODD
            if not raw:
                begin, finish = lists[NAME_START, one], lists[NAME_STOP, one]
                lists[SPECIAL, one] = special_of(data, begin, finish, special, special_ends)
            one += 1
            batch[BATCH_LISTS] = one
        elif (number == 3 or number == 100) and wire == VARINT:
            value = read_varint(data, value_at, end)[0]
            batch[BATCH_SIZE if number == 3 else BATCH_SOURCE] = (
                np.int32(value) if number == 3 else np.int64(np.uint32(value))
            )
        elif batch[BATCH_REST_START] == batch[BATCH_REST_STOP]:
            batch[BATCH_REST_START], batch[BATCH_REST_STOP] = at, end
        elif batch[BATCH_REST_STOP] == at:
            batch[BATCH_REST_STOP] = end
        else:
            return ODD
        at = end
    return SOUND


@kernel
def _walk_list(
    data: Bytes,
    at: int,
    stop: int,
    content: int,
    raw: bool,
    lists: NDArray[np.int64],
    one: int,
    fields: NDArray[np.int32],
    stack: NDArray[np.int64],
) -> bool:
    """Note the parts of a list of (raw) features, and check these; False where it is odd."""
    lists[:, one] = 0
    lists[RAW, one] = raw
    lists[START, one], lists[STOP, one] = at, stop
    lists[EXTRA_START, one] = lists[EXTRA_STOP, one] = at
    lists[NAME_START, one] = lists[NAME_STOP, one] = at
    while at < stop:
        number, wire, value_at, end = read_field(data, at, stop)
        if end < 0:
            return False
        if number == 1 and wire == LENGTH:
            if not is_text(data, lists[NAME_START, one], lists[NAME_STOP, one]):
                return False
            lists[NAME_START, one], lists[NAME_STOP, one] = value_at, end
        elif number == 2 and wire == LENGTH:
            if not is_sound(data, value_at, end, content, fields, stack):
                return False
            _count_feature(lists, one, at)
        elif wire == VARINT and (number == 3 or number == 4 or (number == _SORTED_ID and not raw)):
            value = np.int64(np.int32(read_varint(data, value_at, end)[0]))
            if number == 3:
                lists[SHARED, one] = value == 1
            else:
                lists[IDENT if number == 4 else SORTED_ID, one] = value
        elif not _extended_list(lists, one, at, end):
            return False
        at = end
    return is_text(data, lists[NAME_START, one], lists[NAME_STOP, one])


@kernel
def _count_feature(lists: NDArray[np.int64], one: int, at: int) -> None:
    """Note that a list has one more feature, and where its first one begins."""
    if lists[COUNT, one] == 0:
        lists[FIRST, one] = at
    lists[COUNT, one] += 1


@kernel
def _extended_list(lists: NDArray[np.int64], one: int, at: int, end: int) -> bool:
    """Add an unknown field to those before it; False where it is not adjacent to them."""
    if lists[EXTRA_START, one] == lists[EXTRA_STOP, one]:
        lists[EXTRA_START, one] = at
    elif lists[EXTRA_STOP, one] != at:
        return False
    lists[EXTRA_STOP, one] = end
    return True


@kernel
def _next_feature(data: Bytes, at: int, stop: int) -> tuple[int, int]:
    """Where the next feature of a list begins and ends; the list has one."""
    while True:
        number, wire, value_at, end = read_field(data, at, stop)
        if number == 2 and wire == LENGTH:
            return value_at, end
        at = end


@kernel
def take_rows(
    data: Bytes,
    lists: NDArray[np.int64],
    cursors: Places,
    count: int,
    entries: NDArray[np.int64],
    rows: NDArray[np.int64],
) -> None:
    """Note the parts of the next rows of an ExampleBatch.

    Args:
        data: uint8[B].
        lists: int64[LIST, L] as `walk_lists` fills it, with enough features in each of them.
        cursors: int64[L], where each list's next feature is looked for (a shared list's one
            feature): where its first one begins; moved on.
        count: rows to take.
        entries: int64[ENTRY, count * lists that are not special], filled.
        rows: int64[ROW, count], of which the places of special features are filled.
    """
    entry = 0
    for row in range(count):
        for one in range(lists.shape[1]):
            start, stop = _next_feature(data, cursors[one], lists[STOP, one])
            if not lists[SHARED, one]:
                cursors[one] = stop
            if lists[SPECIAL, one]:
                at = LINE_FEATURE + 2 * (lists[SPECIAL, one] - 1)
                rows[at, row], rows[at + 1, row] = start, stop
                continue
            entries[NAME, entry], entries[RAW, entry] = lists[NAME, one], lists[RAW, one]
            entries[START, entry], entries[STOP, entry] = start, stop
            entries[IDENT, entry] = lists[IDENT, one]
            entries[SORTED_ID, entry] = lists[SORTED_ID, one]
            entries[EXTRA_START, entry] = lists[EXTRA_START, one]
            entries[EXTRA_STOP, entry] = lists[EXTRA_STOP, one]
            entry += 1
