"""Kernels that make the lists of an ExampleBatch of the features of its rows."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.compiling import kernel
from ingot.converters.monolith.records import Bytes, Places
from ingot.converters.monolith.wire.kernels.varints import (
    LENGTH,
    VARINT,
    put_bytes,
    put_head,
    put_number,
    put_varint,
    read_field,
    same_bytes,
    size_of_int32,
    size_with_head,
)
from ingot.converters.monolith.wire.kernels.writing import put_named
from ingot.converters.monolith.wire.shapes import SCALARS, WIRE_SHIFT

_UNSET: Final = 2  # bytes of a feature without content, with its tag
_HEAD: Final = 64  # bytes that a list has at most beside name, features and unknown fields


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

    Args:
        data: uint8[B].
        name_first: int64[N + 1] where each name begins.
        first: int64[R + 1], this and others as in `Rows`.
        name: int32[E].
        raw: bool[E].
        start: int64[E].
        stop: int64[E].
        ident: int32[E].
        sorted_id: int32[E].
        extra_start: int64[E].
        extra_stop: int64[E].
        line_start: int64[R].
        source: uint32[R].
        rest_start: int64[R].
        rest_stop: int64[R].
        begin: the first row of the batch.
        end: the row after the last one that it may have.
        limit: bytes that it may have.
        most: features that it may have.
        list_of: int32[E], filled for the batch's rows: the list that each feature belongs to.
        example: int64[E], filled: a feature of each list, the first one.
        filled: int64[E], filled: how many features each list has.
        known: int64[3, 2 * N], all -1, and again when it is done: of each name, raw or not, its
            first list, the row that it was last seen in, and its last list in that row.

    Returns:
        The row after the last one of the batch, and how many lists it has.
    """
    end, lists, made = _group(
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
def _group(
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
    lists, size = 0, rest_stop[begin] - rest_start[begin] + _HEAD
    for row in range(begin, end):
        if not _fits(data, row, begin, line_start, source, rest_start, rest_stop):
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
                added += _HEAD + name_size + extra + _UNSET * (row - begin)
            elif not _same_list(
                data, entry, example[at], ident, sorted_id, extra_start, extra_stop
            ):
                _forget(list_of, filled, first[row], entry)
                return row, before, lists
            seen_in[key], last[key] = row, at
            list_of[entry] = at
            filled[at] += 1
            added += size_with_head(2, max(stop[entry] - start[entry], 0))
        # Every list has a feature of every row, if only an unset one.
        added += _UNSET * (lists - (first[row + 1] - first[row]))
        many = first[row + 1] - first[begin] > most
        if (size + added > limit or many) and row > begin:
            _forget(list_of, filled, first[row], first[row + 1])
            return row, before, lists
        size += added
    return end, lists, lists


@kernel
def _forget(list_of: NDArray[np.int32], filled: Places, begin: int, end: int) -> None:
    """Take the features of a row that goes elsewhere out of the lists again."""
    for entry in range(begin, end):
        filled[list_of[entry]] -= 1


@kernel
def _fits(
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
    return same_bytes(
        data, rest_start[row], rest_stop[row], data, rest_start[other], rest_stop[other]
    )


@kernel
def _same_list(
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
    return same_bytes(
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
    """The features of a batch by list, within it in the order of the rows.

    Args:
        first_entry: the first feature of the batch.
        last_entry: the one after its last.
        list_of: int32[E] as `group_rows` fills it.
        filled: int64[E] as `group_rows` fills it.
        lists: how many there are.
        order: int64[E], filled from its start.
        list_first: int64[lists + 1], filled: where each list begins in it.
    """
    list_first[0] = 0
    for at in range(lists):
        list_first[at + 1] = list_first[at] + filled[at]
    ends = list_first[:lists].copy()
    for entry in range(first_entry, last_entry):
        at = list_of[entry]
        order[ends[at]] = entry
        ends[at] += 1


@kernel
def find_shared(
    data: Bytes,
    start: Places,
    stop: Places,
    order: Places,
    list_first: Places,
    rows: int,
    shared: NDArray[np.bool_],
) -> None:
    """Take off the mark of lists whose features are not all there and equal.

    Args:
        data: uint8[B].
        start: int64[E].
        stop: int64[E].
        order: int64[E] as `order_by_list` fills it.
        list_first: int64[lists + 1] as `order_by_list` fills it.
        rows: of the batch.
        shared: bool[lists], true for lists that may be shared.
    """
    for at in range(len(shared)):
        begin, end = list_first[at], list_first[at + 1]
        shared[at] = shared[at] and rows > 1 and end - begin == rows
        if not shared[at]:
            continue
        one = order[begin]
        for place in range(begin + 1, end):
            other = order[place]
            if not same_bytes(data, start[one], stop[one], data, start[other], stop[other]):
                shared[at] = False
                break


@kernel
def measure_lists(
    name_first: Places,
    name: NDArray[np.int32],
    start: Places,
    stop: Places,
    ident: NDArray[np.int32],
    sorted_id: NDArray[np.int32],
    extra_start: Places,
    extra_stop: Places,
    order: Places,
    list_first: Places,
    shared: NDArray[np.bool_],
    rows: int,
    sizes: Places,
) -> None:
    """Bytes of the lists of a batch, without tag and size.

    Args:
        name_first: int64[N + 1] where each name begins among the names.
        name: int32[E], this and the following as in `Rows`.
        start: int64[E].
        stop: int64[E].
        ident: int32[E].
        sorted_id: int32[E].
        extra_start: int64[E].
        extra_stop: int64[E].
        order: int64[E] as `order_by_list` fills it.
        list_first: int64[lists + 1] as `order_by_list` fills it.
        shared: bool[lists], which are shared.
        rows: of the batch.
        sizes: int64[lists], filled; those that are -1 before are left out.
    """
    for at in range(len(sizes)):
        if sizes[at] < 0:
            continue
        begin, end = list_first[at], list_first[at + 1]
        one = order[begin]
        size = extra_stop[one] - extra_start[one]
        name_size = name_first[name[one] + 1] - name_first[name[one]]
        if name_size:
            size += size_with_head(1, name_size)
        if ident[one]:
            size += 1 + size_of_int32(ident[one])
        if sorted_id[one]:
            size += 1 + size_of_int32(sorted_id[one])
        if shared[at]:
            end = begin + 1
            size += 2
        else:
            size += _UNSET * (rows - (end - begin))
        for place in range(begin, end):
            entry = order[place]
            size += size_with_head(2, max(stop[entry] - start[entry], 0))
        sizes[at] = size


@kernel
def write_lists(
    data: Bytes,
    names: Bytes,
    name_first: Places,
    row_of: Places,
    name: NDArray[np.int32],
    raw: NDArray[np.bool_],
    start: Places,
    stop: Places,
    ident: NDArray[np.int32],
    sorted_id: NDArray[np.int32],
    extra_start: Places,
    extra_stop: Places,
    order: Places,
    list_first: Places,
    shared: NDArray[np.bool_],
    begin_row: int,
    rows: int,
    sizes: Places,
    out: Bytes,
) -> int:
    """Write the lists of a batch, those of raw features last.

    Args:
        data: uint8[B].
        names: uint8[S], the distinct names one behind the other.
        name_first: int64[N + 1] where each begins.
        row_of: int64[E], the row of each feature.
        name: int32[E], this and the following as in `Rows`.
        raw: bool[E].
        start: int64[E].
        stop: int64[E].
        ident: int32[E].
        sorted_id: int32[E].
        extra_start: int64[E].
        extra_stop: int64[E].
        order: int64[E] as `order_by_list` fills it.
        list_first: int64[lists + 1] as `order_by_list` fills it.
        shared: bool[lists], which are shared.
        begin_row: the first row of the batch.
        rows: how many it has.
        sizes: int64[lists] as `measure_lists` fills it.
        out: uint8[...], filled.

    Returns:
        How many bytes were written.
    """
    to = 0
    for wanted in (False, True):
        for at in range(len(sizes)):
            one = order[list_first[at]]
            if raw[one] != wanted or sizes[at] < 0:
                continue
            to = put_head(out, to, 2 if wanted else 1, sizes[at])
            name_begin, name_end = name_first[name[one]], name_first[name[one] + 1]
            to = put_named(out, to, 1, names, name_begin, name_end)
            if shared[at]:
                to = _put_feature(out, to, data, start[one], stop[one])
                to = put_varint(out, to, np.int64(3 << 3 | VARINT))
                to = put_varint(out, to, np.int64(1))
            else:
                row = begin_row
                for place in range(list_first[at], list_first[at + 1]):
                    entry = order[place]
                    to = _put_unset(out, to, row_of[entry] - row)
                    to = _put_feature(out, to, data, start[entry], stop[entry])
                    row = row_of[entry] + 1
                to = _put_unset(out, to, begin_row + rows - row)
            to = put_number(out, to, 4, ident[one])
            to = put_number(out, to, 6, sorted_id[one])
            to = put_bytes(out, to, data, extra_start[one], extra_stop[one])
    return to


@kernel
def _put_unset(out: Bytes, to: int, count: int) -> int:
    """Write features without content."""
    for _ in range(count):
        to = put_head(out, to, 2, np.int64(0))
    return to


@kernel
def _put_feature(out: Bytes, to: int, data: Bytes, start: int, stop: int) -> int:
    to = put_head(out, to, 2, np.int64(max(stop - start, 0)))
    return put_bytes(out, to, data, start, stop) if stop > start else to


@kernel
def knows_any(
    data: Bytes, start: Places, stop: Places, known: NDArray[np.int32], found: NDArray[np.bool_]
) -> None:
    """Whether unknown fields have numbers that another message knows.

    Args:
        data: uint8[B].
        start: int64[N] where the unknown fields begin.
        stop: int64[N] where they end.
        known: int32[NUMBERS] the fields of the other message, as `shapes` gives them.
        found: bool[N], filled.
    """
    for at in range(len(start)):
        place, found[at] = start[at], False
        while 0 <= place < stop[at]:
            number, wire, _, place = read_field(data, place, stop[at])
            if number < len(known) and known[number] & 0xFF:
                declared, packed = (known[number] >> WIRE_SHIFT) & 0xFF, wire == LENGTH
                packed &= known[number] & 0xFF == SCALARS
                found[at] |= packed or wire == declared
