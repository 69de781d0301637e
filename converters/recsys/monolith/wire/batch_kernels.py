"""Kernels that walk an ExampleBatch: its lists first, then its rows.

Kernels that make the lists of an ExampleBatch of the features of its rows.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.kernels.compile import kernel
from ingot.converters.recsys.monolith.record_index import Bytes, Places
from ingot.converters.recsys.monolith.wire.example_kernels import (
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
    inner_message,
    special_number,
)
from ingot.converters.recsys.monolith.wire.format_kernels import (
    LENGTH,
    VARINT,
    equal_bytes,
    is_sound,
    is_text,
    read_field,
    read_varint,
    size_with_head,
)

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
    """Note the lists of an ExampleBatch."""
    batch[:] = 0
    batch[BATCH_REST_START] = batch[BATCH_REST_STOP] = start
    at, one = start, 0
    while at < stop:
        number, wire, value_at, end = read_field(data, at, stop)
        if end < 0:
            return ODD
        if number <= 2 and wire == LENGTH:
            content = inner_message(fields, inner_message(fields, batch_message, number), 2)
            raw = number == 2
            if not _walk_list(data, value_at, end, content, raw, lists, one, fields, stack):
                return ODD
            if not raw:
                begin, finish = lists[NAME_START, one], lists[NAME_STOP, one]
                lists[SPECIAL, one] = special_number(data, begin, finish, special, special_ends)
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
        elif not _extend_list(lists, one, at, end):
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
def _extend_list(lists: NDArray[np.int64], one: int, at: int, end: int) -> bool:
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
def take_batch_rows(
    data: Bytes,
    lists: NDArray[np.int64],
    cursors: Places,
    count: int,
    entries: NDArray[np.int64],
    rows: NDArray[np.int64],
) -> None:
    """Note the parts of the next rows of an ExampleBatch."""
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


_UNSET: Final = 2  # bytes of a feature without content, with its tag
_LIST_HEAD: Final = 64  # bytes that a list has at most beside name, features and unknown fields


@kernel
def group_rows(
    data: Bytes,
    name_first: Places,
    first: Places,
    name: NDArray[np.int32],
    raw: NDArray[np.bool_],
    start: Places,
    stop: Places,
    ident: NDArray[np.int32],
    sorted_id: NDArray[np.int32],
    extra_start: Places,
    extra_stop: Places,
    line_start: Places,
    source: NDArray[np.uint32],
    rest_start: Places,
    rest_stop: Places,
    begin: int,
    end: int,
    limit: int,
    most: int,
    list_of: NDArray[np.int32],
    example: Places,
    filled: Places,
    known: NDArray[np.int64],
) -> tuple[int, int]:
    """Which rows go into one batch, and to which of its lists their features belong.

    A batch ends before a row that says something else of what a batch or a list of it says once:
    data_source_key, unknown fields, ids, or that has a LineId where others have none; and before
    a row with which it would be larger than `limit`, or have more features than `most`.
    """
    end, lists, made = _group_row(
        data,
        name_first,
        first,
        name,
        raw,
        start,
        stop,
        ident,
        sorted_id,
        extra_start,
        extra_stop,
        line_start,
        source,
        rest_start,
        rest_stop,
        begin,
        end,
        limit,
        most,
        list_of,
        example,
        filled,
        known,
    )
    for at in range(made):
        known[:, 2 * name[example[at]] + raw[example[at]]] = -1
    return end, lists


@kernel
def _group_row(
    data: Bytes,
    name_first: Places,
    first: Places,
    name: NDArray[np.int32],
    raw: NDArray[np.bool_],
    start: Places,
    stop: Places,
    ident: NDArray[np.int32],
    sorted_id: NDArray[np.int32],
    extra_start: Places,
    extra_stop: Places,
    line_start: Places,
    source: NDArray[np.uint32],
    rest_start: Places,
    rest_stop: Places,
    begin: int,
    end: int,
    limit: int,
    most: int,
    list_of: NDArray[np.int32],
    example: Places,
    filled: Places,
    known: NDArray[np.int64],
) -> tuple[int, int, int]:
    """As `group_rows`, and how many lists were begun: the last row may go elsewhere."""
    # The lists of a name in order: a row can have a name several times.
    head, seen_in, last = known[0], known[1], known[2]
    following = np.empty(first[end] - first[begin], np.int32)
    lists, size = 0, rest_stop[begin] - rest_start[begin] + _LIST_HEAD
    for row in range(begin, end):
        if not _fits_list(data, row, begin, line_start, source, rest_start, rest_stop):
            return row, lists, lists
        before, added = lists, 0
        for entry in range(first[row], first[row + 1]):
            key = 2 * name[entry] + raw[entry]
            at = head[key] if seen_in[key] != row else following[last[key]]
            if at < 0:
                at = lists
                lists += 1
                following[at] = -1
                example[at], filled[at] = entry, 0
                if head[key] < 0:
                    head[key] = at
                else:  # the row has the name once more than any before it
                    following[last[key]] = at
                name_size = name_first[name[entry] + 1] - name_first[name[entry]]
                extra = extra_stop[entry] - extra_start[entry]
                added += _LIST_HEAD + name_size + extra + _UNSET * (row - begin)
            elif not _is_same_list(
                data, entry, example[at], ident, sorted_id, extra_start, extra_stop
            ):
                _forget_row(list_of, filled, first[row], entry)
                return row, before, lists
            seen_in[key], last[key] = row, at
            list_of[entry] = at
            filled[at] += 1
            added += size_with_head(2, max(stop[entry] - start[entry], 0))
        # Every list has a feature of every row, if only an unset one.
        added += _UNSET * (lists - (first[row + 1] - first[row]))
        many = first[row + 1] - first[begin] > most
        if (size + added > limit or many) and row > begin:
            _forget_row(list_of, filled, first[row], first[row + 1])
            return row, before, lists
        size += added
    return end, lists, lists


@kernel
def _forget_row(list_of: NDArray[np.int32], filled: Places, begin: int, end: int) -> None:
    """Take the features of a row that goes elsewhere out of the lists again."""
    for entry in range(begin, end):
        filled[list_of[entry]] -= 1


@kernel
def _fits_list(
    data: Bytes,
    row: int,
    other: int,
    line_start: Places,
    source: NDArray[np.uint32],
    rest_start: Places,
    rest_stop: Places,
) -> bool:
    """Whether two rows say the same of what a batch says once."""
    if source[row] != source[other] or (line_start[row] < 0) != (line_start[other] < 0):
        return False
    return equal_bytes(
        data, rest_start[row], rest_stop[row], data, rest_start[other], rest_stop[other]
    )


@kernel
def _is_same_list(
    data: Bytes,
    entry: int,
    other: int,
    ident: NDArray[np.int32],
    sorted_id: NDArray[np.int32],
    extra_start: Places,
    extra_stop: Places,
) -> bool:
    """Whether two features say the same of what a list says once."""
    if ident[entry] != ident[other] or sorted_id[entry] != sorted_id[other]:
        return False
    return equal_bytes(
        data, extra_start[entry], extra_stop[entry], data, extra_start[other], extra_stop[other]
    )


@kernel
def order_by_list(
    first_entry: int,
    last_entry: int,
    list_of: NDArray[np.int32],
    filled: Places,
    lists: int,
    order: Places,
    list_first: Places,
) -> None:
    """The features of a batch by list, within it in the order of the rows."""
    list_first[0] = 0
    for at in range(lists):
        list_first[at + 1] = list_first[at] + filled[at]
    ends = list_first[:lists].copy()
    for entry in range(first_entry, last_entry):
        at = list_of[entry]
        order[ends[at]] = entry
        ends[at] += 1
