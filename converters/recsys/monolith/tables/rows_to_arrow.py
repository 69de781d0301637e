"""Convert rows to Arrow a column at a time; read and write Parquet a bounded part at a time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ingot.converters.columnar.parquet import ParquetFile, open_parquet
from ingot.converters.errors import ConversionError
from ingot.converters.kernels.compile import kernel
from ingot.converters.recsys.monolith.contract import INSTANCE_WEIGHT, LABEL
from ingot.converters.recsys.monolith.convert.settings import Counts
from ingot.converters.recsys.monolith.features import (
    BYTES,
    DEPTH,
    LISTS,
    SCALAR,
    VALUES,
    VARINTS,
    Features,
    count_lists,
)
from ingot.converters.recsys.monolith.line_ids import LISTS as LINE_LISTS
from ingot.converters.recsys.monolith.line_ids import NUMBERS, LineIds
from ingot.converters.recsys.monolith.record_index import Bad, Bytes, Places, Rows, prefix_sums
from ingot.converters.recsys.monolith.tables import schema as c
from ingot.converters.recsys.monolith.wire.format_kernels import read_field, read_varint
from ingot.converters.recsys.monolith.wire.message_writer import example_records
from ingot.converters.recsys.monolith.wire.row_assembly import Spans, gather_spans

ROW_GROUP_ROWS: Final = 65_536
ROW_GROUP_BYTES: Final = 64 << 20
"""Rows and bytes, as Arrow holds them, of a row group; a row more is one whatever it holds."""
_READ_BYTES: Final = 8 << 20
_READ_ROWS: Final = 8_192
_READ_CELLS: Final = 1 << 18
"""What is read at a time: by the sizes that the file's footer gives."""


class TableSink:
    """Rows as the rows of a Parquet file in row groups, compressed by zstd.

    What it raises where the file cannot be written is `OSError`. With a `scan`, which takes note of
    rows, the schema is what the first rows tell: rows are written as long as their features have a
    column.
    """

    def __init__(
        self,
        stream: BinaryIO,
        schema: c.TableSchema,
        counts: Counts,
        scan: c.TableScan | None = None,
    ) -> None:
        self._writer = pq.ParquetWriter(stream, schema.arrow, compression="zstd")
        self._schema, self._counts, self._scan = schema, counts, scan
        self._batches: list[pa.RecordBatch] = []
        self._rows, self._bytes = 0, 0

    def add(self, rows: Rows) -> tuple[list[Bad], Callable[[], object]]:
        """Take rows; there is none that cannot be written."""
        self._counts.written += len(rows)
        return [], partial(self._write_rows, rows)

    def _write_rows(self, rows: Rows) -> None:
        for part in _split_table(rows, self._schema):
            seen = self._scan.see(part) if self._scan else c.see_rows(part, self._schema.keys)
            if not self._scan or self._scan.keys.count <= len(self._schema.column_of):
                self.write(decode_batch(part, self._schema, seen))

    def write(self, batch: pa.RecordBatch) -> None:
        """Append the rows of a batch of the table."""
        while batch.num_rows:
            part = batch.slice(0, ROW_GROUP_ROWS - self._rows)
            batch = batch.slice(part.num_rows)
            self._batches.append(part)
            self._rows += part.num_rows
            self._bytes += part.nbytes
            if self._rows >= ROW_GROUP_ROWS or self._bytes >= ROW_GROUP_BYTES:
                self._flush()

    def _flush(self) -> None:
        if self._batches:
            table = pa.Table.from_batches(self._batches)
            self._writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
        self._batches, self._rows, self._bytes = [], 0, 0

    def close(self) -> None:
        """Write what waits and the footer."""
        self._flush()
        self._writer.close()


@contextmanager
def open_table(
    stream: BinaryIO, where: str
) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """Yield the schema of a Parquet file and its rows in batches; the stream stays open."""
    with open_parquet(stream, where) as file:
        yield file.schema, (batch for batch, _ in file.batches(_batch_rows(file)))


def _batch_rows(file: ParquetFile) -> int:
    # The row group with the largest rows decides.
    largest: float = max((size / max(1, rows) for rows, size in file.groups), default=1)
    by_cells = int(_READ_CELLS / max(1, file.columns))
    by_bytes = int(_READ_BYTES / max(1.0, largest))
    return max(1, min(_READ_ROWS, by_cells, by_bytes))


_CELLS: Final = 1 << 22
"""Cells of features in a batch, or those of one row: empty ones take room too."""


def _split_table(rows: Rows, schema: c.TableSchema) -> Iterator[Rows]:
    return c.split_rows(rows, max(1, _CELLS // max(1, len(schema.columns))))


def decode_batches(rows: Rows, schema: c.TableSchema) -> Iterator[pa.RecordBatch]:
    """Yield rows as record batches of bounded size."""
    for part in _split_table(rows, schema):
        yield decode_batch(part, schema, c.see_rows(part, schema.keys))


def decode_batch(rows: Rows, schema: c.TableSchema, seen: c.SeenRows) -> pa.RecordBatch:
    """Decode rows to a record batch."""
    if schema.keys.count > len(schema.column_of):
        raise ConversionError("", "a row has a feature that was not there at first", "start again")
    column = np.append(schema.column_of, np.int32(-1))[seen.numbers]
    # A key of unset features that shares its column with values is what null says there.
    unset = seen.features.kind == c.UNSET
    shared = np.array([one.kind != c.UNSET for one in schema.columns] + [False])[column]
    column = np.where(unset & shared, -1, column)
    used = np.flatnonzero(column >= 0)
    entries = _FeatureColumns(rows, seen.features, schema.columns, used, column[used])
    arrays = {one.label: entries.array(number) for number, one in enumerate(schema.columns)}
    for field in schema.line_fields:
        arrays[c.LINE_COLUMNS[field]] = _line_array(seen.lines, field)
    for name in schema.special:
        arrays[name] = _special_array(rows, seen, name)
    return pa.RecordBatch.from_arrays(
        [arrays[field.name] for field in schema.arrow], schema=schema.arrow
    )


class _FeatureColumns:
    """Features of R rows by their C columns: what is alike is made of all columns at once."""

    def __init__(
        self,
        rows: Rows,
        features: Features,
        columns: tuple[c.Column, ...],
        used: Places,
        column: NDArray[np.int32],
    ) -> None:
        """Put the `used` entries, which are of these columns, in the order of kinds and columns."""
        kinds = np.array([one.kind for one in columns], np.int64)
        # Of columns by their kinds; numbers of 16 bits are sorted by counting.
        self._ranks = np.empty(len(columns), np.int16)
        self._ranks[np.argsort(kinds, kind="stable")] = np.arange(len(columns))
        order = np.argsort(self._ranks[column], kind="stable")
        entries, rank = used[order], self._ranks[column[order]]
        row, shape = rows.entry_row[entries], (len(columns), len(rows))
        self._columns, self._count = columns, len(rows)
        self._given = np.zeros(shape, np.bool_)
        self._given[rank, row] = True
        self._bits = np.packbits(self._given, axis=1, bitorder="little")
        counts = features.counts[entries]
        counts_by_row = np.zeros((shape[0], shape[1] + 1), np.int64)
        counts_by_row[rank, row + 1] = counts
        self._offsets = _check_offsets(np.cumsum(counts_by_row, axis=1))
        self._bounds = np.searchsorted(rank, np.arange(len(columns) + 1))
        self._ahead = prefix_sums(counts)  # values before each entry
        self._flat: dict[int, tuple[pa.Array, int]] = {}
        for kind in np.unique(kinds[kinds != c.UNSET]):
            of_kind = np.flatnonzero(features.kind[entries] == kind)  # one behind the other
            if len(of_kind):
                first, chosen = int(of_kind[0]), entries[of_kind]
                start, stop = features.start[chosen], features.stop[chosen]
                spans = Spans(data=features.data, start=start, stop=stop)
                flat = _flat_values(spans, counts[of_kind], int(kind))
                self._flat[int(kind)] = flat, int(self._ahead[first])

    def array(self, number: int) -> pa.Array:
        column, rank = self._columns[number], self._ranks[number]
        if column.kind == c.UNSET:
            return pa.array(self._given[rank])
        kind, (first, last) = c.TYPES[column.kind], self._bounds[rank : rank + 2]
        if first == last:
            return pa.nulls(self._count, kind)
        flat, offset = self._flat[column.kind]
        first_value, last_value = int(self._ahead[first]) - offset, int(self._ahead[last]) - offset
        values = flat.slice(first_value, last_value - first_value)
        if DEPTH[column.kind] == SCALAR:
            is_given = self._given[rank]
            return values.take(pa.array(np.cumsum(is_given) - 1, mask=~is_given))
        full = last - first == self._count
        buffers = [
            None if full else pa.py_buffer(self._bits[rank]),
            pa.py_buffer(self._offsets[rank]),
        ]
        return pa.Array.from_buffers(kind, self._count, buffers, children=[values])


@kernel
def split_fields(data: Bytes, start: Places, stop: Places, begins: Places, ends: Places) -> None:
    """Find where the contents of the fields of spans lie, one behind the other."""
    count = 0
    for one in range(len(start)):
        at = start[one]
        while at < stop[one] and count < len(begins):
            _, _, value_at, at = read_field(data, at, stop[one])
            if at < 0:
                break
            begins[count], ends[count] = value_at, at
            count += 1


@kernel
def inner_payloads(data: Bytes, start: Places, stop: Places) -> None:
    """Move the places of lists in lists from their messages to their packed numbers."""
    for one in range(len(start)):
        if start[one] < stop[one]:
            _, _, at, end = read_field(data, start[one], stop[one])
            start[one], stop[one] = (at, end) if end >= 0 else (stop[one], stop[one])


@kernel
def read_varints(data: Bytes, start: Places, stop: Places, out: NDArray[np.int64]) -> None:
    """Read the varints of spans, one behind the other."""
    count = 0
    for one in range(len(start)):
        at = start[one]
        while at < stop[one] and count < len(out):
            value, at = read_varint(data, at, stop[one])
            if at < 0:
                break
            out[count] = value
            count += 1


def _flat_values(spans: Spans, counts: Places, kind: int) -> pa.Array:
    """What the payloads of one kind hold, one behind the other: single values, or inner lists."""
    values, arrow = int(VALUES[kind]), c.TYPES[kind]
    if DEPTH[kind] == LISTS:
        inner = _split_fields(spans, int(counts.sum()))
        if values != BYTES:
            inner_payloads(inner.data, inner.start, inner.stop)
        lengths = np.empty(len(inner), np.int64)
        count_lists(inner.data, inner.start, inner.stop, values, lengths)
        flat = _value_array(inner, lengths, values, arrow.value_type.value_type)
        return pa.ListArray.from_arrays(_list_offsets(lengths), flat, arrow.value_type)
    if DEPTH[kind] == SCALAR and values == BYTES:
        return _binary_array(spans, arrow)
    arrow_type = arrow if DEPTH[kind] == SCALAR else arrow.value_type
    return _value_array(spans, counts, values, arrow_type)


def _split_fields(spans: Spans, count: int) -> Spans:
    """The contents of the fields in them, `count` in all."""
    start, stop = np.empty(count, np.int64), np.empty(count, np.int64)
    split_fields(spans.data, spans.start, spans.stop, start, stop)
    return Spans(data=spans.data, start=start, stop=stop)


def _value_array(spans: Spans, counts: Places, values: int, kind: pa.DataType) -> pa.Array:
    count = int(counts.sum())
    if values == BYTES:
        return _binary_array(_split_fields(spans, count), kind)
    if values == VARINTS:
        numbers = np.empty(count, np.int64)
        read_varints(spans.data, spans.start, spans.stop, numbers)
        return pa.array(numbers)
    data, _ = gather_spans(spans.data, spans.start, spans.stop)
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(data)])


def _binary_array(
    spans: Spans, kind: pa.DataType, mask: NDArray[np.bool_] | None = None
) -> pa.Array:
    """Stretches as byte strings or text, null where `mask` says so."""
    data, first = gather_spans(spans.data, spans.start, spans.stop)
    valid = None if mask is None else pa.array(~mask).buffers()[1]
    buffers = [valid, _list_offsets(np.diff(first)).buffers()[1], pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, len(first) - 1, buffers)


def _list_offsets(counts: Places) -> pa.Array:
    """int32[N + 1] of N lists; ConversionError as `_check_offsets`."""
    return pa.array(_check_offsets(prefix_sums(counts)))


def _check_offsets(offsets: Places) -> NDArray[np.int32]:
    largest = int(offsets.max(initial=0))
    if largest > np.iinfo(np.int32).max:
        problem = f"{largest:,} values of one feature in a batch of rows"
        raise ConversionError("", problem, "a table holds 2,147,483,647 in such a batch")
    return offsets.astype(np.int32)


def _line_array(lines: LineIds, field: str) -> pa.Array:
    if field in LINE_LISTS:
        first, values = lines.lists[field]
        counts = np.diff(first)
        null = pa.array(counts == 0) if not counts.all() else None
        offsets, kind = _list_offsets(counts), pa.list_(pa.int32())
        return pa.ListArray.from_arrays(offsets, pa.array(values), kind, mask=null)
    null = ~lines.given[field]
    if field in NUMBERS:
        return pa.array(lines.numbers[field], mask=null)
    start, stop = lines.texts[field]
    return _binary_array(Spans(data=lines.data, start=start, stop=stop), pa.string(), null)


def _special_array(rows: Rows, seen: c.SeenRows, name: str) -> pa.Array:
    if name == LABEL:
        flat = pa.array(rows.label)
        return pa.ListArray.from_arrays(_list_offsets(np.diff(rows.label_first)), flat)
    if name == INSTANCE_WEIGHT:
        return pa.array(rows.weight, mask=~rows.weighted)
    if name == c.SOURCE:
        return pa.array(rows.source, mask=rows.source == 0)
    if name == c.SORT_ID:
        spans = Spans(data=rows.data, start=rows.sort_start, stop=rows.sort_stop)
        return _binary_array(spans, pa.binary(), rows.sort_stop == rows.sort_start)
    if name == c.LINE_REST:
        lines = seen.lines
        first = lines.rest_first
        spans = Spans(data=lines.rest, start=first[:-1], stop=first[1:])
        return _binary_array(spans, pa.binary(), ~c.has_line_rest(lines))
    assert name == c.REST
    # Features that no column can hold and unknown fields of records, as Examples of just them.
    nothing, nowhere = np.zeros(len(rows), np.int64), np.full(len(rows), -1, np.int64)
    only = replace(
        rows.chosen(np.ones(len(rows), np.bool_), seen.strange),
        line_start=nowhere,
        line_stop=nowhere,
        label_first=np.zeros(len(rows) + 1, np.int64),
        label=np.zeros(0, np.float32),
        weighted=np.zeros(len(rows), np.bool_),
        source=np.zeros(len(rows), np.uint32),
        sort_start=nothing,
        sort_stop=nothing,
    )
    messages = example_records(only)
    spans = Spans(data=messages.data, start=messages.start, stop=messages.stop)
    return _binary_array(spans, pa.binary(), messages.stop == messages.start)
