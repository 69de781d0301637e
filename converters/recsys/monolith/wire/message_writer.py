"""Write rows as Example and ExampleBatch messages."""

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
from ingot.converters.recsys.monolith.frames.framing import Framing
from ingot.converters.recsys.monolith.record_index import (
    ENTRY_ARRAYS,
    Bytes,
    Places,
    Records,
    Rows,
    kernel_rows,
    prefix_sums,
)
from ingot.converters.recsys.monolith.wire import row_assembly
from ingot.converters.recsys.monolith.wire import writer_kernels as kernels
from ingot.converters.recsys.monolith.wire.batch_kernels import Groups, group_rows, order_by_list
from ingot.converters.recsys.monolith.wire.format_kernels import LENGTH
from ingot.converters.sources.recognizers.monolith import MAX_RECORD


class ExampleWriter:
    """Writes rows as Examples.

    What is written is what protobuf writes of an equal message, but for the order of unknown
    fields of LineIds and for values inside of features, which are copied as they came.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows, self._arrays = rows, kernel_rows(rows)
        self._features = np.empty(len(rows.name), np.int64)
        self.sizes = np.empty(len(rows), np.int64)  # bytes of each Example
        kernels.measure_examples(self._arrays, self._features, self.sizes)

    def frames(self, framing: Framing) -> tuple[bytearray, Places]:
        """Return the Examples as a stream has them, and where each ends: int64[R]."""
        lengths = self.sizes + framing.head_bytes
        if framing.sort_id:
            lengths += self._rows.sort_stop - self._rows.sort_start
        stops = np.cumsum(lengths)
        out = bytearray(int(stops[-1]) if len(stops) else 0)
        arguments = self._arrays, self._features, self.sizes, framing.bits
        kernels.write_examples(*arguments, np.frombuffer(out, np.uint8))
        return out, stops


def example_records(rows: Rows) -> Records:
    """Return rows as Example messages, with the sort_ids and data_source_keys of their frames."""
    writer = ExampleWriter(rows)
    out, stop = writer.frames(Framing())
    start = stop - writer.sizes
    sort_stop = start - 8  # a size is between them
    return Records(
        data=np.frombuffer(out, np.uint8),
        start=start,
        stop=stop,
        sort_start=sort_stop - (rows.sort_stop - rows.sort_start),
        sort_stop=sort_stop,
        source=rows.source,
        offset=start,
        record=rows.record,
    )


_LIST_FIELDS: Final = (6, 3, 3)  # of a `Feature`: bytes_list, float_list
ROW_FIELDS: Final = tuple(name.encode() for name in (LINE_ID, LABEL, INSTANCE_WEIGHT))


def add_row_fields(rows: Rows) -> Rows:
    """Return rows whose LineIds, labels and weights are also features, behind the others.

    Rows that have no weight get a weight of 0 if others have one: a missing weight reads as 0.
    """
    labels = 4 * rows.label_first
    weight = np.where(rows.weighted, rows.weight, np.float32(0))
    is_given = np.stack(
        [rows.line_start >= 0, labels[1:] > labels[:-1], np.full(len(rows), rows.weighted.any())]
    )
    contents = (
        row_assembly.Spans(data=rows.data, start=rows.line_start, stop=rows.line_stop),
        row_assembly.Spans(data=rows.label.view(np.uint8), start=labels[:-1], stop=labels[1:]),
        row_assembly.spans_of_numbers(weight),
    )
    features = [
        spans.frame_fields(1 << 3 | LENGTH).frame_fields(number << 3 | LENGTH, which)
        for spans, number, which in zip(contents, _LIST_FIELDS, is_given, strict=True)
    ]
    out, start, stop = row_assembly.stack_spans(features, len(features))
    shift = len(rows.data)
    # Behind the features of each row, in the order of the three.
    row, which = np.nonzero(is_given.T)
    before = rows.first[row + 1]
    values_by_name = {
        "name": which + len(rows.names),
        "raw": np.zeros(len(row), np.bool_),
        "start": start[which, row] + shift,
        "stop": stop[which, row] + shift,
    }
    nothing = np.zeros(len(row), np.int64)
    arrays = {
        name: np.insert(getattr(rows, name), before, values_by_name.get(name, nothing))
        for name in ENTRY_ARRAYS
    }
    counts = np.diff(rows.first) + is_given.sum(axis=0)
    names, data = (*rows.names, *ROW_FIELDS), np.concatenate([rows.data, out])
    return replace(rows, data=data, names=names, first=prefix_sums(counts), **arrays)


class BatchBuilder:
    """Makes ExampleBatches of rows that come bit by bit.

    A batch has `size` rows; fewer where rows differ in what a batch says once (data_source_key,
    unknown fields, the ids of a feature, whether there is a LineId), where it would be larger than
    Monolith's reader takes or have more than `MAX_BATCH_FEATURES`, and at the end. `early` counts
    the former, `filled` unset features, added for those that a row does not have.
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
        bytes_held = sum({id(rows.data): len(rows.data) for rows in self._waiting}.values())
        features = sum(len(rows.name) for rows in self._waiting)
        large = bytes_held >= MAX_RECORD["examplebatch"] or features >= MAX_BATCH_FEATURES
        return large or count >= self._size

    def _batches(self, *, end: bool) -> Iterator[Records]:
        rows = row_assembly.join_rows(self._waiting)
        start = 0
        grouped = _GroupedRows(add_row_fields(rows), shared=self._shared)
        while start < len(rows):
            last = min(start + self._size, len(rows))
            stop = grouped.group(start, last)
            if stop == len(rows) and stop - start < self._size and not end:
                break
            self.early += stop - start < self._size and stop < len(rows)
            records, filled, lost = grouped.batch()
            self.filled += filled
            self.lost_sort_ids += lost
            yield records
            start = stop
        remaining = rows.part(start, len(rows))
        self._waiting = [row_assembly.compact_rows(remaining)] if len(remaining) else []


class _GroupedRows:
    def __init__(self, rows: Rows, *, shared: bool) -> None:
        self._rows, self._shared = rows, shared
        self._arrays = kernel_rows(rows)
        self._row_of = rows.entry_row
        count = len(rows.name)
        self._groups = Groups(
            list_of=np.empty(count, np.int32),
            example=np.empty(count, np.int64),
            filled=np.empty(count, np.int64),
            known=np.full((3, 2 * len(rows.names)), -1, np.int64),
        )
        self._begin = self._end = self._lists = 0

    def group(self, begin: int, end: int) -> int:
        """Begin a batch; the row after the last one that it can have."""
        limit = MAX_RECORD["examplebatch"]
        self._begin = begin
        self._end, self._lists = group_rows(
            self._arrays, begin, end, limit, MAX_BATCH_FEATURES, self._groups
        )
        return self._end

    def batch(self) -> tuple[Records, int, int]:
        """Return the batch, the number of unset features that fill it up, and of lost sort_ids."""
        rows, count = self._rows, self._end - self._begin
        first, last = int(rows.first[self._begin]), int(rows.first[self._end])
        # Lists that say something of the row itself are never shared.
        special = len(self._rows.names) - len(ROW_FIELDS)
        lists = kernels.Lists(
            order=np.empty(last - first, np.int64),
            first=np.empty(self._lists + 1, np.int64),
            shared=np.full(self._lists, self._shared) & (self._names_of_lists() < special),
        )
        order_by_list(first, last, self._groups, lists)
        # -1 for a list of weights where no row of the batch has one, else 0.
        weights = len(self._rows.names) - 1
        has_no_weight = not self._rows.weighted[self._begin : self._end].any()
        sizes = np.where(has_no_weight & (self._names_of_lists() == weights), -1, 0).astype(
            np.int64
        )
        kernels.measure_lists(self._arrays, lists, count, sizes)
        out = np.empty(int(np.maximum(sizes, 0).sum()) + 11 * self._lists, np.uint8)
        written = kernels.write_lists(
            self._arrays, self._row_of, lists, self._begin, count, sizes, out
        )
        filled = int((count - np.diff(lists.first))[sizes >= 0].sum())
        records, lost = self._record(out[:written], count)
        return records, filled, lost

    def _names_of_lists(self) -> NDArray[np.int32]:
        return self._rows.name[self._groups.example[: self._lists]]

    def _record(self, lists: Bytes, count: int) -> tuple[Records, int]:
        from ingot.converters.recsys.monolith.contract import example_pb2

        rows, begin = self._rows, self._begin
        rest = rows.data[rows.rest_start[begin] : rows.rest_stop[begin]]
        numbers = example_pb2.ExampleBatch(
            batch_size=count, data_source_key=int(rows.source[begin])
        ).SerializeToString()
        sort_id, lost = self._sort_id()
        data = np.concatenate([lists, np.frombuffer(numbers, np.uint8), rest, sort_id])
        nothing, stops = np.zeros(1, np.int64), np.array([len(data) - len(sort_id), len(data)])
        records = Records(
            data=data,
            start=nothing,
            stop=stops[:1],
            sort_start=stops[:1],
            sort_stop=stops[1:],
            source=rows.source[begin : begin + 1],
            offset=nothing,
            record=nothing,
        )
        return records, lost

    def _sort_id(self) -> tuple[Bytes, int]:
        """The sort_id of the batch, and how many rows have another: then it has none."""
        rows = self._rows.part(self._begin, self._end)
        sizes = rows.sort_stop - rows.sort_start
        if not sizes.any():
            return np.empty(0, np.uint8), 0
        spans = zip(rows.sort_start.tolist(), rows.sort_stop.tolist(), strict=True)
        distinct = {rows.data[start:stop].tobytes() for start, stop in spans}
        if len(distinct) == 1:
            return rows.data[rows.sort_start[0] : rows.sort_stop[0]], 0
        return np.empty(0, np.uint8), int((sizes > 0).sum())
