"""Kernels that walk messages and note where their parts lie."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.compiling import kernel
from ingot.converters.monolith.records import Bytes, Places
from ingot.converters.monolith.wire.kernels.checking import is_sound, is_text
from ingot.converters.monolith.wire.kernels.varints import (
    FIXED32,
    LENGTH,
    VARINT,
    read_field,
    read_varint,
    same_bytes,
)
from ingot.converters.monolith.wire.shapes import MESSAGE_SHIFT

SOUND, ODD, TWICE = 0, 1, 2
"""What a record is: understood; left to protobuf; with a special feature said twice."""
EXTRA: Final = 6
"""With unknown fields beside a special feature."""

# Rows of the table of entries: places and numbers of a named feature.
NAME, RAW, START, STOP, IDENT, SORTED_ID, EXTRA_START, EXTRA_STOP = range(8)
ENTRY: Final = 8
# Rows of the table of rows: what an Example says beside its features. -1: not there.
LINE, LABELS, WEIGHT, SOURCE, REST = 0, 2, 4, 5, 6
LINE_FEATURE, LABEL_FEATURE, WEIGHT_FEATURE = 8, 10, 12
ROW: Final = 14
_NAMED, _NAMED_RAW = 1, 2  # field numbers


@kernel
def message_of(fields: NDArray[np.int32], message: int, number: int) -> int:
    """The number of the message that a field is."""
    return fields[message, number] >> MESSAGE_SHIFT


@kernel
def special_of(data: Bytes, start: int, stop: int, special: Bytes, ends: Places) -> int:
    """The number of a name among the special ones, from 1; 0 for others.

    Args:
        data: uint8[B].
        start: where the name begins.
        stop: where it ends.
        special: uint8[S], the special names one behind the other.
        ends: int64[3], where each ends.
    """
    begin = 0
    for at, end in enumerate(ends):
        if same_bytes(data, start, stop, special, begin, end):
            return at + 1
        begin = end
    return 0


@kernel
def count_entries(data: Bytes, start: Places, stop: Places, counts: Places) -> None:
    """Fields 1 and 2 of messages; those of a message that is cut off, up to there.

    Args:
        data: uint8[B].
        start: int64[R] where they begin.
        stop: int64[R] where they end.
        counts: int64[R], filled.
    """
    for record in range(len(start)):
        at = start[record]
        counts[record] = 0
        while 0 <= at < stop[record]:
            number, _, _, at = read_field(data, at, stop[record])
            counts[record] += at >= 0 and number <= _NAMED_RAW


@kernel
def _extended(places: NDArray[np.int64], at: int, row: int, start: int, stop: int) -> bool:
    """Add a stretch of bytes to the one before it; False where it is not adjacent to that."""
    if places[row, at] == places[row + 1, at]:
        places[row, at] = start
    elif places[row + 1, at] != start:
        return False
    places[row + 1, at] = stop
    return True


@kernel
def walk_named(
    data: Bytes,
    at: int,
    stop: int,
    entries: NDArray[np.int64],
    entry: int,
    content: int,
    raw: bool,
    fields: NDArray[np.int32],
    stack: NDArray[np.int64],
) -> tuple[bool, int, int]:
    """Note the parts of a named (raw) feature.

    Args:
        data: uint8[B].
        at: where the message begins.
        stop: where it ends.
        entries: int64[ENTRY, E].
        entry: the column that is filled, but for its name.
        content: number of the message that its feature is.
        raw: whether it is a raw feature, which has no sorted_id.
        fields: as `shapes` gives them.
        stack: as `is_sound` takes it.

    Returns:
        Whether it was understood, and where its name, which was not checked, begins and ends.
    """
    name_start, name_stop = at, at
    entries[START, entry] = entries[STOP, entry] = -1
    entries[IDENT, entry] = entries[SORTED_ID, entry] = 0
    entries[EXTRA_START, entry] = entries[EXTRA_STOP, entry] = at
    while at < stop:
        number, wire, value_at, end = read_field(data, at, stop)
        if end < 0:
            return False, name_start, name_stop
        if number == 1 and wire == LENGTH:
            if not is_text(data, name_start, name_stop):
                return False, name_start, name_stop
            name_start, name_stop = value_at, end
        elif number == 2 and wire == LENGTH and entries[START, entry] < 0:
            entries[START, entry], entries[STOP, entry] = value_at, end
        elif number == 3 and wire == VARINT:
            entries[IDENT, entry] = np.int32(read_varint(data, value_at, end)[0])
        elif number == 6 and wire == VARINT and not raw:
            entries[SORTED_ID, entry] = np.int32(read_varint(data, value_at, end)[0])
        elif (number == 2 and wire == LENGTH) or not _extended(
            entries, entry, EXTRA_START, at, end
        ):
            return False, name_start, name_stop
        at = end
    start, end = entries[START, entry], entries[STOP, entry]
    sound = start == end or is_sound(data, start, end, content, fields, stack)
    return sound, name_start, name_stop


@kernel
def _note_special(
    rows: NDArray[np.int64], row: int, which: int, entries: NDArray[np.int64], entry: int
) -> int:
    """Note where a special feature lies; TWICE where the row has one already, else SOUND.

    EXTRA where it has unknown fields beside its value: a row has no place for them.
    """
    if entries[EXTRA_STOP, entry] > entries[EXTRA_START, entry]:
        return EXTRA
    at = LINE_FEATURE + 2 * (which - 1)
    if rows[at + 1, row] >= 0:
        return TWICE
    rows[at, row] = max(entries[START, entry], 0)
    rows[at + 1, row] = max(entries[STOP, entry], 0)
    return SOUND


@kernel
def _note_field(
    data: Bytes, rows: NDArray[np.int64], row: int, at: int, field: tuple[int, int, int, int]
) -> int:
    """Note a field of an Example that is no feature; ODD or SOUND."""
    number, wire, value_at, end = field
    odd = False
    if (number == 100 or number == 101) and wire == LENGTH:
        place = LINE if number == 100 else LABELS
        odd = rows[place, row] >= 0 or (number == 101 and (end - value_at) % 4 != 0)
        rows[place, row], rows[place + 1, row] = value_at, end
    elif number == 102 and wire == FIXED32:
        rows[WEIGHT, row] = bits_at(data, value_at)
    elif number == 103 and wire == VARINT:
        rows[SOURCE, row] = np.uint32(read_varint(data, value_at, end)[0])
    else:
        # One label alone is put with the others by protobuf.
        odd = (number == 101 and wire == FIXED32) or not _extended(rows, row, REST, at, end)
    return ODD if odd else SOUND


@kernel
def bits_at(data: Bytes, at: int) -> int:
    """The four bytes of a float, as a number."""
    bits = np.int64(0)
    for byte in range(4):
        bits |= np.int64(data[at + byte]) << (8 * byte)
    return bits


@kernel
def walk_examples(
    data: Bytes,
    start: Places,
    stop: Places,
    special: Bytes,
    special_ends: Places,
    fields: NDArray[np.int32],
    stack: NDArray[np.int64],
    first: Places,
    entries: NDArray[np.int64],
    rows: NDArray[np.int64],
    status: NDArray[np.int8],
    name_start: Places,
    name_stop: Places,
    table: NDArray[np.int32],
    seed: int,
) -> int:
    """Note the parts of Examples.

    Args:
        data: uint8[B].
        start: int64[R] where they begin.
        stop: int64[R] where they end.
        special: names of special features, as `special_of` takes them.
        special_ends: of these names.
        fields: as `shapes` gives them.
        stack: as `is_sound` takes it.
        first: int64[R + 1], filled: entries before each row.
        entries: int64[ENTRY, E], filled; E as `count_entries` gives it.
        rows: int64[ROW, R], filled.
        status: int8[R], filled: SOUND, ODD or TWICE. Others than sound ones have no entries.
        name_start: int64[E], filled: where the distinct names begin.
        name_stop: int64[E], filled: where they end.
        table: int32[2^k], -1: the names by their hash; more than E.
        seed: of the hash, so that nobody can choose names that all have one hash.

    Returns:
        How many distinct names there are.
    """
    entry, names, before = 0, 0, -1
    first[0] = 0
    for row in range(len(start)):
        at, begun = start[row], entry
        rows[:, row] = -1
        rows[WEIGHT, row] = rows[SOURCE, row] = 0
        rows[REST, row] = rows[REST + 1, row] = at
        status[row] = SOUND
        while at < stop[row] and status[row] == SOUND:
            number, wire, value_at, end = read_field(data, at, stop[row])
            if end < 0:
                status[row] = ODD
            elif number > _NAMED_RAW or wire != LENGTH:
                status[row] = _note_field(data, rows, row, at, (number, wire, value_at, end))
            else:
                raw = number == _NAMED_RAW
                content = message_of(fields, message_of(fields, 0, number), 2)
                sound, begin, finish = walk_named(
                    data, value_at, end, entries, entry, content, raw, fields, stack
                )
                which = 0 if raw else special_of(data, begin, finish, special, special_ends)
                if which and sound:
                    status[row] = _note_special(rows, row, which, entries, entry)
                elif sound:
                    before, names = number_of_name(
                        data, begin, finish, before, name_start, name_stop, names, table, seed
                    )
                    sound = before >= 0
                    entries[RAW, entry], entries[NAME, entry] = raw, before
                    entry += 1
                if not sound:
                    status[row] = ODD
            at = end
        if not _has_sound_line(data, rows, row, fields, stack):
            status[row] = ODD
        if status[row] != SOUND:
            entry = begun
        first[row + 1] = entry
    return names


@kernel
def _has_sound_line(
    data: Bytes,
    rows: NDArray[np.int64],
    row: int,
    fields: NDArray[np.int32],
    stack: NDArray[np.int64],
) -> bool:
    """Whether the LineId in a row's field is one, or there is none."""
    start, stop = rows[LINE, row], rows[LINE + 1, row]
    return start == stop or is_sound(data, start, stop, message_of(fields, 0, 100), fields, stack)


@kernel
def number_of_name(
    data: Bytes,
    start: int,
    stop: int,
    before: int,
    name_start: Places,
    name_stop: Places,
    names: int,
    table: NDArray[np.int32],
    seed: int,
) -> tuple[int, int]:
    """The number of a name, a new one if it was not there, and how many there are.

    The number is -1 where the name is not UTF-8. The name after the one `before` is tried first:
    rows mostly repeat the order of the last one.
    """
    guess = before + 1 if before + 1 < names else 0
    if guess < names and same_bytes(data, start, stop, data, name_start[guess], name_stop[guess]):
        return guess, names
    mask = len(table) - 1
    value = np.uint64(0xCBF29CE484222325) ^ np.uint64(seed)
    for place in range(start, stop):
        value = (value ^ np.uint64(data[np.uint64(place)])) * np.uint64(0x100000001B3)
    slot = np.int64((value ^ (value >> np.uint64(32))) & np.uint64(mask))
    while table[slot] >= 0:
        number = table[slot]
        if same_bytes(data, start, stop, data, name_start[number], name_stop[number]):
            return np.int64(number), names
        slot = (slot + 1) & mask
    if not is_text(data, start, stop):
        return np.int64(-1), names
    table[slot] = names
    name_start[names], name_stop[names] = start, stop
    return np.int64(names), names + 1
