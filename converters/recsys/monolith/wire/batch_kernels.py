"""Kernels that walk ExampleBatches, and that group rows into new ones."""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ingot.converters.kernels.compile import allocating_kernel, inner_kernel, kernel
from ingot.converters.recsys.monolith.record_index import Bytes, Places, RowArrays
from ingot.converters.recsys.monolith.wire import example_kernels as w
from ingot.converters.recsys.monolith.wire.format_kernels import (
    LENGTH,
    VARINT,
    Grammar,
    equal_bytes,
    is_sound,
    is_text,
    read_field,
    read_varint,
    size_with_head,
)
from ingot.converters.recsys.monolith.wire.writer_kernels import Lists

# Rows of the table of lists, a column a list; NAME to EXTRA_STOP as those of entries, START and
# STOP of the list. One array, for kernels extend lists and entries by the same code.
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
    grammar: Grammar,
    lists: NDArray[np.int64],
    batch: Places,
) -> int:
    """Note the lists of an ExampleBatch."""
    batch[:] = 0
    batch[BATCH_REST_START] = batch[BATCH_REST_STOP] = start
    at, column = start, 0
    while at < stop:
        number, wire, value_at, end = read_field(data, at, stop)
        if end < 0:
            return w.ODD
        if number <= 2 and wire == LENGTH:
            content = w.inner_message(
                grammar.fields, w.inner_message(grammar.fields, batch_message, number), 2
            )
            raw = number == 2
            if not _walk_list(data, value_at, end, content, raw, grammar, lists, column):
                return w.ODD
            if not raw:
                begin, finish = lists[NAME_START, column], lists[NAME_STOP, column]
                lists[SPECIAL, column] = w.special_number(
                    data, begin, finish, grammar.special, grammar.special_ends
                )
            column += 1
            batch[BATCH_LISTS] = column
        elif (number == 3 or number == 100) and wire == VARINT:
            value = read_varint(data, value_at, end)[0]
            batch[BATCH_SIZE if number == 3 else BATCH_SOURCE] = (
                np.int32(value) if number == 3 else np.int64(np.uint32(value))
            )
        elif not w.extend_extra(batch.reshape(-1, 1), 0, BATCH_REST_START, at, end):
            return w.ODD
        at = end
    return w.SOUND


@inner_kernel
def _walk_list(
    data: Bytes,
    at: int,
    stop: int,
    content: int,
    raw: bool,
    grammar: Grammar,
    lists: NDArray[np.int64],
    column: int,
) -> bool:
    fields, stack = grammar.fields, grammar.stack
    lists[:, column] = 0
    lists[w.RAW, column] = raw
    lists[w.START, column], lists[w.STOP, column] = at, stop
    lists[w.EXTRA_START, column] = lists[w.EXTRA_STOP, column] = at
    lists[NAME_START, column] = lists[NAME_STOP, column] = at
    while at < stop:
        number, wire, value_at, end = read_field(data, at, stop)
        if end < 0:
            return False
        if number == 1 and wire == LENGTH:
            if not is_text(data, lists[NAME_START, column], lists[NAME_STOP, column]):
                return False
            lists[NAME_START, column], lists[NAME_STOP, column] = value_at, end
        elif number == 2 and wire == LENGTH:
            if not is_sound(data, value_at, end, content, fields, stack):
                return False
            lists[FIRST, column] = lists[FIRST, column] if lists[COUNT, column] else at
            lists[COUNT, column] += 1
        elif wire == VARINT and (number == 3 or number == 4 or (number == _SORTED_ID and not raw)):
            value = np.int64(np.int32(read_varint(data, value_at, end)[0]))
            if number == 3:
                lists[SHARED, column] = value == 1
            else:
                lists[w.IDENT if number == 4 else w.SORTED_ID, column] = value
        elif not w.extend_extra(lists, column, w.EXTRA_START, at, end):
            return False
        at = end
    return is_text(data, lists[NAME_START, column], lists[NAME_STOP, column])


@inner_kernel
def _next_feature(data: Bytes, at: int, stop: int) -> tuple[int, int]:
    """Where the next feature of a list begins and ends; the list has one."""
    while True:
        number, wire, value_at, end = read_field(data, at, stop)
        if number == 2 and wire == LENGTH:
            return value_at, end
        at = end


@kernel
def take_batch_rows(
    data: Bytes,
    lists: NDArray[np.int64],
    cursors: Places,
    count: int,
    entries: NDArray[np.int64],
    entry: int,
    rows: NDArray[np.int64],
    first: int,
) -> None:
    """Note the parts of the next rows of an ExampleBatch, from an entry and a row on."""
    for row in range(first, first + count):
        for column in range(lists.shape[1]):
            start, stop = _next_feature(data, cursors[column], lists[w.STOP, column])
            if not lists[SHARED, column]:
                cursors[column] = stop
            if lists[SPECIAL, column]:
                at = w.LINE_FEATURE + 2 * (lists[SPECIAL, column] - 1)
                rows[at, row], rows[at + 1, row] = start, stop
                continue
            entries[w.NAME, entry], entries[w.RAW, entry] = (
                lists[w.NAME, column],
                lists[w.RAW, column],
            )
            entries[w.START, entry], entries[w.STOP, entry] = start, stop
            entries[w.IDENT, entry] = lists[w.IDENT, column]
            entries[w.SORTED_ID, entry] = lists[w.SORTED_ID, column]
            entries[w.EXTRA_START, entry] = lists[w.EXTRA_START, column]
            entries[w.EXTRA_STOP, entry] = lists[w.EXTRA_STOP, column]
            entry += 1


_UNSET: Final = 2  # bytes of a feature without content, with its tag
_LIST_HEAD: Final = 64  # bytes that a list has at most beside name, features and unknown fields


class Groups(NamedTuple):
    """How `group_rows` puts the E features of rows with N names into lists."""

    list_of: NDArray[np.int32]  # int32[E] the list of each feature
    example: Places  # int64[E] by list, the first feature in it
    filled: Places  # int64[E] by list, how many features are in it
    # int64[3, 2 N] of -1, by name: its first list, the last row with it, its last list
    known: NDArray[np.int64]


@kernel
def group_rows(
    rows: RowArrays, first_row: int, end: int, limit: int, max_features: int, groups: Groups
) -> tuple[int, int]:
    """Put rows from `first_row` on into one batch: the row after its last one, and how many lists.

    A batch ends before a row that says something else of what a batch or a list of it says once:
    data_source_key, unknown fields, ids, or that has a LineId where others have none; and before
    a row with which it would be larger than `limit`, or have more features than `max_features`.
    """
    end, lists, list_count = _group_row(rows, first_row, end, limit, max_features, groups)
    for number in range(list_count):
        entry = groups.example[number]
        groups.known[:, 2 * rows.name[entry] + rows.raw[entry]] = -1
    return end, lists


@allocating_kernel
def _group_row(
    rows: RowArrays, first_row: int, end: int, limit: int, max_features: int, groups: Groups
) -> tuple[int, int, int]:
    """As `group_rows`, and how many lists were begun: the last row may go elsewhere."""
    # The lists of a name in order: a row can have a name several times.
    head, seen_in, last = groups.known[0], groups.known[1], groups.known[2]
    # Structures are taken apart once: for a kernel that is called often they would cost too much.
    first, name, raw, start, stop = rows.first, rows.name, rows.raw, rows.start, rows.stop
    data, ident, sorted_id = rows.data, rows.ident, rows.sorted_id
    extra_start, extra_stop = rows.extra_start, rows.extra_stop
    list_of, example, filled = groups.list_of, groups.example, groups.filled
    following = np.empty(first[end] - first[first_row], np.int32)
    lists, size = 0, rows.rest_stop[first_row] - rows.rest_start[first_row] + _LIST_HEAD
    for row in range(first_row, end):
        if not _fits_batch(rows, row, first_row):
            return row, lists, lists
        before, added = lists, 0
        for entry in range(first[row], first[row + 1]):
            key = 2 * name[entry] + raw[entry]
            list_number = head[key] if seen_in[key] != row else following[last[key]]
            if list_number < 0:
                list_number = lists
                lists += 1
                following[list_number] = -1
                example[list_number], filled[list_number] = entry, 0
                if head[key] < 0:
                    head[key] = list_number
                else:  # the row has the name once more than any before it
                    following[last[key]] = list_number
                number = name[entry]
                added += _LIST_HEAD + rows.name_first[number + 1] - rows.name_first[number]
                added += extra_stop[entry] - extra_start[entry] + _UNSET * (row - first_row)
            elif (
                ident[entry] != ident[example[list_number]]
                or sorted_id[entry] != sorted_id[example[list_number]]
                or not equal_bytes(
                    data,
                    extra_start[entry],
                    extra_stop[entry],
                    data,
                    extra_start[example[list_number]],
                    extra_stop[example[list_number]],
                )
            ):
                _forget_row(list_of, filled, first[row], entry)
                return row, before, lists
            seen_in[key], last[key] = row, list_number
            list_of[entry] = list_number
            filled[list_number] += 1
            added += size_with_head(2, max(stop[entry] - start[entry], 0))
        # Every list has a feature of every row, if only an unset one.
        added += _UNSET * (lists - (first[row + 1] - first[row]))
        many = first[row + 1] - first[first_row] > max_features
        if (size + added > limit or many) and row > first_row:
            _forget_row(list_of, filled, first[row], first[row + 1])
            return row, before, lists
        size += added
    return end, lists, lists


@inner_kernel
def _forget_row(list_of: NDArray[np.int32], filled: Places, first: int, end: int) -> None:
    """Take the features of a row that goes elsewhere out of the lists again."""
    for entry in range(first, end):
        filled[list_of[entry]] -= 1


@inner_kernel
def _fits_batch(rows: RowArrays, row: int, other: int) -> bool:
    """Whether two rows say the same of what a batch says once."""
    has_line, other_has_line = rows.line_start[row] >= 0, rows.line_start[other] >= 0
    if rows.source[row] != rows.source[other] or has_line != other_has_line:
        return False
    start, stop, data = rows.rest_start, rows.rest_stop, rows.data
    return equal_bytes(data, start[row], stop[row], data, start[other], stop[other])


@allocating_kernel
def order_by_list(first_entry: int, last_entry: int, groups: Groups, lists: Lists) -> None:
    """Fill in the features of a batch by list, within it in the order of the rows."""
    order, first, list_of = lists.order, lists.first, groups.list_of
    first[0] = 0
    for number in range(len(first) - 1):
        first[number + 1] = first[number] + groups.filled[number]
    positions = first[:-1].copy()
    for entry in range(first_entry, last_entry):
        number = list_of[entry]
        order[positions[number]] = entry
        positions[number] += 1
