"""Example messages of rows.

ExampleBatch messages of rows.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.recsys.monolith.contract import (
    INSTANCE_WEIGHT,
    LABEL,
    LINE_ID,
    MAX_BATCH_FEATURES,
)
from ingot.converters.recsys.monolith.record_index import ENTRY_ARRAYS, Bytes, Places, Records, Rows
from ingot.converters.recsys.monolith.wire.batch_kernels import group_rows, order_by_list
from ingot.converters.recsys.monolith.wire.format_kernels import VARINT
from ingot.converters.recsys.monolith.wire.row_assembly import compact_rows, join_rows
from ingot.converters.recsys.monolith.wire.writer_kernels import (
    find_shared_lists,
    measure_examples,
    measure_features,
    measure_lists,
    write_examples,
    write_lists,
    write_row_fields,
)
from ingot.converters.sources.recognizers.monolith import MAX_RECORD


def name_bytes(rows: Rows) -> tuple[Bytes, Places]:
    """The distinct names as kernels take them: uint8[S], int64[N + 1] where each begins."""
    first = np.zeros(len(rows.names) + 1, np.int64)
    np.cumsum([len(name) for name in rows.names], out=first[1:])
    return np.frombuffer(b"".join(rows.names), np.uint8), first


def example_records(rows: Rows) -> Records:
    """Rows as Example messages, with the sort_ids and data_source_keys of their frames.

    What is written is what protobuf writes of an equal message, but for the order of unknown
    fields of LineIds and for values inside of features, which are copied as they came.
    """
    names, name_first = name_bytes(rows)
    weight = np.where(rows.weighted, rows.weight.view(np.uint32), 0).astype(np.uint32)
    features = (
        rows.start,
        rows.stop,
        rows.ident,
        rows.sorted_id,
        rows.extra_start,
        rows.extra_stop,
    )
    sizes, totals = np.empty(len(rows.name), np.int64), np.empty(len(rows), np.int64)
    measure_features(name_first, rows.name, *features, sizes)
    line, rest = (rows.line_start, rows.line_stop), (rows.rest_start, rows.rest_stop)
    measure_examples(rows.first, sizes, *line, rows.label_first, weight, rows.source, *rest, totals)
    out = np.empty(int(totals.sum()), np.uint8)
    label = rows.label.view(np.uint8)
    write_examples(
        rows.data,
        names,
        name_first,
        rows.first,
        rows.name,
        rows.raw,
        *features,
        sizes,
        *line,
        rows.label_first,
        label,
        weight,
        rows.source,
        *rest,
        out,
    )
    return _pack_records(rows, out, totals)


def _pack_records(rows: Rows, out: Bytes, totals: Places) -> Records:
    """Messages that lie one behind the other, with the sort_ids of the rows behind them."""
    stop = np.cumsum(totals)
    data, sort_start, sort_stop = append_sort_ids(rows, out)
    return Records(
        data=data,
        start=stop - totals,
        stop=stop,
        sort_start=sort_start,
        sort_stop=sort_stop,
        source=rows.source,
        offset=stop - totals,
        number=0,
    )


def append_sort_ids(rows: Rows, out: Bytes) -> tuple[Bytes, Places, Places]:
    """Bytes with the rows' sort_ids behind them, and int64[R] each where these begin and end."""
    from ingot.converters.recsys.monolith.wire.row_assembly import gather_spans

    sort_ids, first = gather_spans(rows.data, rows.sort_start, rows.sort_stop)
    data = np.concatenate([out, sort_ids]) if len(sort_ids) else out
    return data, len(out) + first[:-1], len(out) + first[1:]


_ROW_FIELDS: Final = tuple(name.encode() for name in (LINE_ID, LABEL, INSTANCE_WEIGHT))


def add_row_fields(rows: Rows) -> Rows:
    """Rows whose LineIds, labels and weights are features as well, behind the others.

    Rows that have no weight get one of 0 where others have one: that is what none reads as.
    """
    weight = np.where(rows.weighted, rows.weight.view(np.uint32), 0).astype(np.uint32)
    said = (rows.line_start, rows.line_stop, rows.label_first, rows.label.view(np.uint8), weight)
    weighted = bool(rows.weighted.any())
    start, stop = np.empty((3, len(rows)), np.int64), np.empty((3, len(rows)), np.int64)
    size = write_row_fields(rows.data, *said, weighted, np.empty(0, np.uint8), start, stop)
    out = np.empty(size, np.uint8)
    write_row_fields(rows.data, *said, weighted, out, start, stop)
    shift = len(rows.data)
    # Behind the features of each row, in the order of the three.
    row, which = np.nonzero(start.T >= 0)
    before = rows.first[row + 1]
    more = {
        "name": which + len(rows.names),
        "raw": np.zeros(len(row), np.bool_),
        "start": start[which, row] + shift,
        "stop": stop[which, row] + shift,
    }
    nothing = np.zeros(len(row), np.int64)
    arrays = {
        name: np.insert(getattr(rows, name), before, more.get(name, nothing))
        for name in ENTRY_ARRAYS
    }
    counts = np.diff(rows.first) + (start >= 0).sum(axis=0)
    first = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    names = (*rows.names, *_ROW_FIELDS)
    return replace(rows, data=np.concatenate([rows.data, out]), names=names, first=first, **arrays)


class BatchBuilder:
    """Makes ExampleBatches of rows that come bit by bit.

    A batch has `size` rows; fewer where rows differ in what a batch says once (data_source_key,
    unknown fields, the ids of a feature, whether there is a LineId), where it would be larger than
    Monolith's reader takes or have more than `MAX_BATCH_FEATURES`, and at the end.

    Attributes:
        early: batches that ended before they had `size` rows, the last one not counted.
        filled: unset features that stand for features that a row does not have.
        lost_sort_ids: rows whose sort_id their batch does not have.
    """

    def __init__(self, size: int, *, shared: bool = True) -> None:
        self._size, self._shared = size, shared
        self._waiting: list[Rows] = []
        self.early = self.filled = self.lost_sort_ids = 0

    def add(self, rows: Rows) -> Iterator[Records]:
        """Take rows, and give the batches that are full."""
        self._waiting.append(rows)
        if self._is_full():
            yield from self._batches(end=False)

    def finish(self) -> Iterator[Records]:
        """Give what is left."""
        if any(map(len, self._waiting)):
            yield from self._batches(end=True)

    def _is_full(self) -> bool:
        count = sum(map(len, self._waiting))
        held = sum({id(rows.data): len(rows.data) for rows in self._waiting}.values())
        features = sum(len(rows.name) for rows in self._waiting)
        large = held >= MAX_RECORD["examplebatch"] or features >= MAX_BATCH_FEATURES
        return large or count >= self._size

    def _batches(self, *, end: bool) -> Iterator[Records]:
        rows = join_rows(self._waiting)
        begin = 0
        grouped = _GroupedRows(add_row_fields(rows), shared=self._shared)
        while begin < len(rows):
            last = min(begin + self._size, len(rows))
            stop = grouped.group(begin, last)
            if stop == len(rows) and stop - begin < self._size and not end:
                break
            self.early += stop - begin < self._size and stop < len(rows)
            records, filled, lost = grouped.batch()
            self.filled += filled
            self.lost_sort_ids += lost
            yield records
            begin = stop
        left = rows.part(begin, len(rows))
        self._waiting = [compact_rows(left)] if len(left) else []


class _GroupedRows:
    """Rows of which batches are made."""

    def __init__(self, rows: Rows, *, shared: bool) -> None:
        self._rows, self._shared = rows, shared
        self._names, self._name_first = name_bytes(rows)
        self._row_of = rows.entry_row
        count = len(rows.name)
        self._list_of = np.empty(count, np.int32)
        self._example, self._filled = np.empty(count, np.int64), np.empty(count, np.int64)
        self._known = np.full((3, 2 * len(rows.names)), -1, np.int64)
        self._begin = self._end = self._lists = 0

    def group(self, begin: int, end: int) -> int:
        """Begin a batch; the row after the last one that it can have."""
        rows = self._rows
        self._begin = begin
        self._end, self._lists = group_rows(
            rows.data,
            self._name_first,
            rows.first,
            rows.name,
            rows.raw,
            rows.start,
            rows.stop,
            rows.ident,
            rows.sorted_id,
            rows.extra_start,
            rows.extra_stop,
            rows.line_start,
            rows.source,
            rows.rest_start,
            rows.rest_stop,
            begin,
            end,
            MAX_RECORD["examplebatch"],
            MAX_BATCH_FEATURES,
            self._list_of,
            self._example,
            self._filled,
            self._known,
        )
        return self._end

    def batch(self) -> tuple[Records, int, int]:
        """The batch; how many unset features fill it up; how many sort_ids are lost."""
        rows, count = self._rows, self._end - self._begin
        first, last = int(rows.first[self._begin]), int(rows.first[self._end])
        order, list_first = np.empty(last - first, np.int64), np.empty(self._lists + 1, np.int64)
        order_by_list(first, last, self._list_of, self._filled, self._lists, order, list_first)
        shared = self._may_be_shared()
        find_shared_lists(rows.data, rows.start, rows.stop, order, list_first, count, shared)
        sizes = self._sizes()
        lists = self._written(order, list_first, shared, count, sizes)
        filled = int((count - np.diff(list_first))[sizes >= 0].sum())
        records, lost = self._record(lists, count)
        return records, filled, lost

    def _sizes(self) -> Places:
        """int64[lists]: -1 for a list of weights where no row of the batch has one, else 0."""
        weights = len(self._rows.names) - 1
        names = self._rows.name[self._example[: self._lists]]
        without = not self._rows.weighted[self._begin : self._end].any()
        return np.where(without & (names == weights), -1, 0).astype(np.int64)

    def _may_be_shared(self) -> NDArray[np.bool_]:
        """Lists that say something of the row itself are never shared."""
        names = self._rows.name[self._example[: self._lists]]
        special = len(self._rows.names) - len(_ROW_FIELDS)
        return np.full(self._lists, self._shared) & (names < special)

    def _written(
        self,
        order: Places,
        list_first: Places,
        shared: NDArray[np.bool_],
        count: int,
        sizes: Places,
    ) -> Bytes:
        rows = self._rows
        features = (
            rows.start,
            rows.stop,
            rows.ident,
            rows.sorted_id,
            rows.extra_start,
            rows.extra_stop,
            order,
            list_first,
            shared,
        )
        measure_lists(self._name_first, rows.name, *features, count, sizes)
        out = np.empty(int(np.maximum(sizes, 0).sum()) + 11 * self._lists, np.uint8)
        written = write_lists(
            rows.data,
            self._names,
            self._name_first,
            self._row_of,
            rows.name,
            rows.raw,
            *features,
            self._begin,
            count,
            sizes,
            out,
        )
        return out[:written]

    def _record(self, lists: Bytes, count: int) -> tuple[Records, int]:
        rows, begin = self._rows, self._begin
        rest = rows.data[rows.rest_start[begin] : rows.rest_stop[begin]]
        numbers = _number_field(3, count) + _number_field(100, int(rows.source[begin]))
        message = np.concatenate([lists, np.frombuffer(numbers, np.uint8), rest])
        sort_id, lost = self._sort_id()
        size, whole = len(message), len(message) + len(sort_id)
        records = Records(
            data=np.concatenate([message, sort_id]),
            start=np.zeros(1, np.int64),
            stop=np.full(1, size, np.int64),
            sort_start=np.full(1, size, np.int64),
            sort_stop=np.full(1, whole, np.int64),
            source=rows.source[begin : begin + 1],
            offset=np.zeros(1, np.int64),
            number=0,
        )
        return records, lost

    def _sort_id(self) -> tuple[Bytes, int]:
        """The sort_id of the batch, and how many rows have another: then it has none."""
        rows = self._rows.part(self._begin, self._end)
        sizes = rows.sort_stop - rows.sort_start
        if not sizes.any():
            return np.empty(0, np.uint8), 0
        sort_ids, first = append_sort_ids(rows, np.empty(0, np.uint8))[:2]
        distinct = {
            sort_ids[at : at + size].tobytes() for at, size in zip(first, sizes, strict=True)
        }
        if len(distinct) == 1:
            return sort_ids[: sizes[0]], 0
        return np.empty(0, np.uint8), int((sizes > 0).sum())


def _number_field(field: int, value: int) -> bytes:
    """A field of a number that is not negative; nothing where it is 0."""
    if value == 0:
        return b""
    return _encode_varint(field << 3 | VARINT) + _encode_varint(value)


def _encode_varint(value: int) -> bytes:
    digits = []
    while value >= 0x80:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*digits, value])
