"""Kernels that walk Examples and note where their parts lie."""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ingot.converters.kernels.compile import inner_kernel, kernel
from ingot.converters.recsys.monolith.record_index import Bytes, Places
from ingot.converters.recsys.monolith.wire.format_kernels import (
    FIXED32,
    LENGTH,
    MESSAGE_SHIFT,
    VARINT,
    Grammar,
    equal_bytes,
    is_sound,
    is_text,
    read_field,
    read_fixed,
    read_varint,
)

SOUND, ODD, TWICE = 0, 1, 2
"""What a record is: understood; left to protobuf; with a special feature said twice."""
EXTRA: Final = 6  # with unknown fields beside a special feature

# Rows of the table of entries: places and numbers of a named feature.
NAME, RAW, START, STOP, IDENT, SORTED_ID, EXTRA_START, EXTRA_STOP = range(8)
ENTRY: Final = 8
# Rows of the table of rows: what an Example says beside its features. -1: not there.
LINE, LABELS, WEIGHT, SOURCE, REST = 0, 2, 4, 5, 6
LINE_FEATURE, LABEL_FEATURE, WEIGHT_FEATURE = 8, 10, 12
ROW: Final = 14
_NAMED, _NAMED_RAW, _LINE_FIELD = 1, 2, 100  # field numbers


class Noted(NamedTuple):
    """What a walk over R Examples notes, with E features at most."""

    first: Places  # int64[R + 1] entries before each row
    entries: NDArray[np.int64]  # int64[ENTRY, E]
    rows: NDArray[np.int64]  # int64[ROW, R]
    status: NDArray[np.int8]  # int8[R]
    name_places: NDArray[np.int64]  # int64[2, E] where each distinct name begins, and where it ends
    table: NDArray[np.int32]  # int32[a power of two over E] of -1: the hash table of the names


@inner_kernel
def inner_message(fields: NDArray[np.int32], message: int, number: int) -> int:
    """Return the number of the message that a field is."""
    return fields[message, number] >> MESSAGE_SHIFT


@inner_kernel
def special_number(data: Bytes, start: int, stop: int, special: Bytes, ends: Places) -> int:
    """Return the number of a name among the special ones, from 1; 0 for others."""
    begin = 0
    for number, end in enumerate(ends):
        if equal_bytes(data, start, stop, special, begin, end):
            return number + 1
        begin = end
    return 0


@kernel
def find_unsound_messages(
    data: Bytes,
    start: Places,
    stop: Places,
    message: int,
    fields: NDArray[np.int32],
    stack: NDArray[np.int64],
    unsound: NDArray[np.bool_],
) -> None:
    """Find which spans are not such a message, or may not be."""
    for index in range(len(start)):
        unsound[index] = not is_sound(data, start[index], stop[index], message, fields, stack)


@kernel
def count_entries(data: Bytes, start: Places, stop: Places, counts: Places) -> None:
    """Count fields 1 and 2 of messages; of one that is cut off, the fields before the cut."""
    for record in range(len(start)):
        at = start[record]
        counts[record] = 0
        while 0 <= at < stop[record]:
            number, _, _, at = read_field(data, at, stop[record])
            counts[record] += at >= 0 and number <= _NAMED_RAW


@inner_kernel
def extend_extra(
    positions: NDArray[np.int64], column: int, row: int, start: int, stop: int
) -> bool:
    """Add a stretch of bytes to the one before it; False where it is not adjacent to that."""
    if positions[row, column] == positions[row + 1, column]:
        positions[row, column] = start
    elif positions[row + 1, column] != start:
        return False
    positions[row + 1, column] = stop
    return True


@inner_kernel
def _walk_named(
    data: Bytes, at: int, stop: int, entries: NDArray[np.int64], entry: int, raw: bool
) -> tuple[bool, int, int]:
    """Note the parts of a named (raw) feature, and where its name lies; False where it is odd."""
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
        elif (number == 2 and wire == LENGTH) or not extend_extra(
            entries, entry, EXTRA_START, at, end
        ):
            return False, name_start, name_stop
        at = end
    return True, name_start, name_stop


@inner_kernel
def _note_special(
    rows: NDArray[np.int64], row: int, which: int, entries: NDArray[np.int64], entry: int
) -> int:
    """Note where a special feature lies: SOUND, TWICE, or EXTRA with unknown fields beside it."""
    if entries[EXTRA_STOP, entry] > entries[EXTRA_START, entry]:
        return EXTRA
    position = LINE_FEATURE + 2 * (which - 1)
    if rows[position + 1, row] >= 0:
        return TWICE
    rows[position, row] = max(entries[START, entry], 0)
    rows[position + 1, row] = max(entries[STOP, entry], 0)
    return SOUND


@inner_kernel
def _note_field(
    data: Bytes, rows: NDArray[np.int64], row: int, at: int, field: tuple[int, int, int, int]
) -> int:
    """Note a field of an Example that is no feature; ODD or SOUND."""
    number, wire, value_at, end = field
    is_odd = False
    if (number == 100 or number == 101) and wire == LENGTH:
        field_row = LINE if number == 100 else LABELS
        is_odd = rows[field_row, row] >= 0 or (number == 101 and (end - value_at) % 4 != 0)
        rows[field_row, row], rows[field_row + 1, row] = value_at, end
    elif number == 102 and wire == FIXED32:
        rows[WEIGHT, row] = read_fixed(data, value_at, 4)
    elif number == 103 and wire == VARINT:
        rows[SOURCE, row] = np.uint32(read_varint(data, value_at, end)[0])
    else:
        # One label alone is put with the others by protobuf.
        is_odd = (number == 101 and wire == FIXED32) or not extend_extra(rows, row, REST, at, end)
    return ODD if is_odd else SOUND


@kernel
def walk_examples(
    data: Bytes, start: Places, stop: Places, grammar: Grammar, noted: Noted, seed: int
) -> int:
    """Note the parts of Examples; returns how many distinct names there are."""
    # A structure is taken apart once: for a kernel that is called often it would cost too much.
    first, entries, rows, status, name_places, table = noted
    fields, stack, special, special_ends = grammar
    entry, names, before = 0, 0, -1
    first[0], line_id = 0, inner_message(fields, 0, _LINE_FIELD)
    for row in range(len(start)):
        at, first_entry = start[row], entry
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
                content = inner_message(fields, inner_message(fields, 0, number), 2)
                sound, begin, finish = _walk_named(data, value_at, end, entries, entry, raw)
                first_at, last_at = entries[START, entry], entries[STOP, entry]
                sound = sound and (
                    first_at == last_at or is_sound(data, first_at, last_at, content, fields, stack)
                )
                which = 0 if raw else special_number(data, begin, finish, special, special_ends)
                if which and sound:
                    status[row] = _note_special(rows, row, which, entries, entry)
                elif sound:
                    before, names = _find_name_number(
                        data, begin, finish, before, names, name_places, table, seed
                    )
                    sound = before >= 0
                    entries[RAW, entry], entries[NAME, entry] = raw, before
                    entry += 1
                if not sound:
                    status[row] = ODD
            at = end
        line_at, line_end = rows[LINE, row], rows[LINE + 1, row]
        if line_at != line_end and not is_sound(data, line_at, line_end, line_id, fields, stack):
            status[row] = ODD
        if status[row] != SOUND:
            entry = first_entry
        first[row + 1] = entry
    return names


@inner_kernel
def _find_name_number(
    data: Bytes,
    start: int,
    stop: int,
    before: int,
    names: int,
    positions: NDArray[np.int64],
    table: NDArray[np.int32],
    seed: int,
) -> tuple[int, int]:
    """The number of a name, a new one if it was not there, and how many there are.

    The number is -1 where the name is not UTF-8. The name after the one `before` is tried first:
    rows mostly repeat the order of the last one.
    """
    name_start, name_stop = positions[0], positions[1]
    guess = before + 1 if before + 1 < names else 0
    if guess < names and equal_bytes(data, start, stop, data, name_start[guess], name_stop[guess]):
        return guess, names
    mask = len(table) - 1
    value = np.uint64(0xCBF29CE484222325) ^ np.uint64(seed)
    for index in range(start, stop):
        value = (value ^ np.uint64(data[np.uint64(index)])) * np.uint64(0x100000001B3)
    slot = np.int64((value ^ (value >> np.uint64(32))) & np.uint64(mask))
    while table[slot] >= 0:
        number = table[slot]
        if equal_bytes(data, start, stop, data, name_start[number], name_stop[number]):
            return np.int64(number), names
        slot = (slot + 1) & mask
    if not is_text(data, start, stop):
        return np.int64(-1), names
    table[slot] = names
    name_start[names], name_stop[names] = start, stop
    return np.int64(names), names + 1


BAD_LINE, BAD_LABEL, BAD_WEIGHT = 3, 4, 5
LINES_DIFFER = 7
"""What a row is whose special feature is not as expected: statuses beside those of `examples`.

LINES_DIFFER: the bytes of its LineId in field and feature do."""

_ONE: Final = 0x3F800000  # the bits of 1.0
_BYTES_LIST, _FLOAT_LIST = 6, 3  # fields of Feature


@inner_kernel
def _read_only_field(data: Bytes, start: int, stop: int, number: int) -> tuple[int, int]:
    """Where the content of the one field of a message lies; -1 where it is not that one field."""
    actual, wire, value_at, end = read_field(data, start, stop)
    if end != stop or actual != number or wire != LENGTH:
        return np.int64(-1), np.int64(-1)
    return value_at, end


@inner_kernel
def _read_values(data: Bytes, start: int, stop: int, number: int) -> tuple[int, int, bool]:
    """Where the value of a feature with one list lies (-1: something else), and if it has any."""
    if start == stop:
        return start, stop, False
    first, last = _read_only_field(data, start, stop, number)
    if first < 0 or first == last:
        return first, last, False
    first, last = _read_only_field(data, first, last, 1)
    return first, last, first >= 0


@inner_kernel
def _take_payload(
    data: Bytes, rows: NDArray[np.int64], row: int, field_row: int, start: int, stop: int
) -> bool:
    """Note what a special feature says; False where a field says otherwise."""
    if rows[field_row, row] >= 0:
        return equal_bytes(data, start, stop, data, rows[field_row, row], rows[field_row + 1, row])
    rows[field_row, row], rows[field_row + 1, row] = start, stop
    return True


@kernel
def read_special(
    data: Bytes, rows: NDArray[np.int64], status: NDArray[np.int8], line_id: int, grammar: Grammar
) -> None:
    """Move what special features say to where an Example's fields are noted."""
    for row in range(rows.shape[1]):
        if status[row] == SOUND and rows[LINE_FEATURE, row] >= 0:
            status[row] = _read_line(data, rows, row, line_id, grammar.fields, grammar.stack)
        if status[row] == SOUND and rows[LABEL_FEATURE, row] >= 0:
            status[row] = _read_labels(data, rows, row)
        if status[row] == SOUND and rows[WEIGHT_FEATURE, row] >= 0:
            status[row] = _read_weight(data, rows, row)


@inner_kernel
def _read_line(
    data: Bytes,
    rows: NDArray[np.int64],
    row: int,
    line_id: int,
    fields: NDArray[np.int32],
    stack: NDArray[np.int64],
) -> int:
    first, last = rows[LINE_FEATURE, row], rows[LINE_FEATURE + 1, row]
    first, last, has_value = _read_values(data, first, last, _BYTES_LIST)
    if not has_value or not is_sound(data, first, last, line_id, fields, stack):
        return BAD_LINE
    return SOUND if _take_payload(data, rows, row, LINE, first, last) else LINES_DIFFER


@inner_kernel
def _read_labels(data: Bytes, rows: NDArray[np.int64], row: int) -> int:
    first, last = rows[LABEL_FEATURE, row], rows[LABEL_FEATURE + 1, row]
    first, last, _ = _read_values(data, first, last, _FLOAT_LIST)
    if first < 0 or (last - first) % 4 != 0:
        return BAD_LABEL
    return SOUND if _take_payload(data, rows, row, LABELS, first, last) else TWICE


@inner_kernel
def _read_weight(data: Bytes, rows: NDArray[np.int64], row: int) -> int:
    """A list without values stands for 1, as Monolith has it."""
    first, last = rows[WEIGHT_FEATURE, row], rows[WEIGHT_FEATURE + 1, row]
    first, last, _ = _read_values(data, first, last, _FLOAT_LIST)
    size = last - first
    if first < 0 or (size != 0 and size != 4):
        return BAD_WEIGHT
    bits = np.int64(_ONE) if size == 0 else np.int64(read_fixed(data, first, 4))
    if rows[WEIGHT, row] not in (0, bits):
        return TWICE
    rows[WEIGHT, row] = bits
    return SOUND
