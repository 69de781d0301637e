"""Kernels that make the lists of an ExampleBatch of the features of its rows."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.compiling import kernel
from ingot.converters.monolith.records import Bytes, Places
from ingot.converters.monolith.wire.kernels.varints import (
    same_bytes,
    size_with_head,
)

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
