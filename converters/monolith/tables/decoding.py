"""Rows to Arrow: a column at a time, by kernels."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ingot.converters.errors import ConversionError
from ingot.converters.monolith.contract import INSTANCE_WEIGHT, LABEL
from ingot.converters.monolith.features import (
    BYTES,
    DEPTH,
    LISTS,
    SCALAR,
    VALUES,
    VARINTS,
    Features,
    simple,
)
from ingot.converters.monolith.line_ids import LISTS as LINE_LISTS
from ingot.converters.monolith.line_ids import NUMBERS, LineIds, decode
from ingot.converters.monolith.records import Places
from ingot.converters.monolith.rows import Rows
from ingot.converters.monolith.tables.columns import (
    LINE_COLUMNS,
    LINE_REST,
    REST,
    SORT_ID,
    SOURCE,
    TYPES,
    UNSET,
    Column,
)
from ingot.converters.monolith.tables.kernels import inner_payloads, read_varints
from ingot.converters.monolith.tables.parts import bounded
from ingot.converters.monolith.tables.schema import TableSchema, is_strange, with_line_rest
from ingot.converters.monolith.tables.spans import Spans
from ingot.converters.monolith.wire.assembling import gathered
from ingot.converters.monolith.wire.examples import example_records

_CELLS: Final = 1 << 22
"""Cells of features in a batch, or those of one row: empty ones take room too."""


def to_batches(rows: Rows, schema: TableSchema) -> Iterator[pa.RecordBatch]:
    """Rows as record batches of bounded size; see `to_batch`."""
    for part in bounded(rows, max(1, _CELLS // max(1, len(schema.columns)))):
        yield to_batch(part, schema)


def to_batch(rows: Rows, schema: TableSchema) -> pa.RecordBatch:
    """Rows as a record batch.

    Args:
        rows: R rows that the scan for the schema has seen.
        schema: the columns.

    Raises:
        ConversionError: a feature has no column, or numba or protobuf is missing.
    """
    arrays = _feature_arrays(rows, schema)
    lines = decode(rows)
    for field in schema.line_fields:
        arrays[LINE_COLUMNS[field]] = _line_array(lines, field)
    for name in schema.special:
        arrays[name] = _special_array(rows, lines, schema, name)
    return pa.RecordBatch.from_arrays(
        [arrays[field.name] for field in schema.arrow], schema=schema.arrow
    )


def _feature_arrays(rows: Rows, schema: TableSchema) -> dict[str, pa.Array]:
    features = simple(rows)
    strange = is_strange(rows, features)
    numbers = schema.keys.numbered(rows, features, strange)
    if schema.keys.count > len(schema.column_of):
        raise ConversionError("", "a row has a feature that was not there at first", "start again")
    column = np.append(schema.column_of, np.int32(-1))[numbers]
    # A key of unset features that shares its column with values is what null says there.
    unset = features.kind == UNSET
    shared = np.array([one.kind != UNSET for one in schema.columns] + [False])[column]
    column = np.where(unset & shared, -1, column)
    used = np.flatnonzero(column >= 0)
    entries = _Entries(rows, features, schema.columns, used, column[used])
    return {one.label: entries.array(at) for at, one in enumerate(schema.columns)}


class _Entries:
    """Features of R rows by their C columns: what is alike is made of all columns at once."""

    def __init__(
        self,
        rows: Rows,
        features: Features,
        columns: tuple[Column, ...],
        used: Places,
        column: NDArray[np.int32],
    ) -> None:
        """Put the `used` entries, which are of these columns, in the order of kinds and columns."""
        kinds = np.array([one.kind for one in columns], np.int64)
        self._ranks = np.empty(len(columns), np.int64)  # of columns by their kinds
        self._ranks[np.argsort(kinds, kind="stable")] = np.arange(len(columns))
        order = np.argsort(self._ranks[column], kind="stable")
        entries, rank = used[order], self._ranks[column[order]]
        row, shape = rows.entry_row[entries], (len(columns), len(rows))
        self._columns, self._count = columns, len(rows)
        self._given = np.zeros(shape, np.bool_)
        self._given[rank, row] = True
        self._bits = np.packbits(self._given, axis=1, bitorder="little")
        counts = features.count[entries]
        ends = np.zeros((shape[0], shape[1] + 1), np.int64)
        ends[rank, row + 1] = counts
        self._offsets = _checked(np.cumsum(ends, axis=1))
        self._bounds = np.searchsorted(rank, np.arange(len(columns) + 1))
        self._ahead = np.concatenate([[0], np.cumsum(counts)])  # values before each entry
        self._flat: dict[int, tuple[pa.Array, int]] = {}
        for kind in np.unique(kinds[kinds != UNSET]):
            of_kind = np.flatnonzero(features.kind[entries] == kind)  # one behind the other
            if len(of_kind):
                first, chosen = int(of_kind[0]), entries[of_kind]
                start, stop = features.start[chosen], features.stop[chosen]
                spans = Spans(data=features.data, start=start, stop=stop)
                flat = _flat(spans, counts[of_kind], int(kind))
                self._flat[int(kind)] = flat, int(self._ahead[first])

    def array(self, at: int) -> pa.Array:
        """A column."""
        column, rank = self._columns[at], self._ranks[at]
        if column.kind == UNSET:
            return pa.array(self._given[rank])
        kind, (first, last) = TYPES[column.kind], self._bounds[rank : rank + 2]
        if first == last:
            return pa.nulls(self._count, kind)
        flat, ahead = self._flat[column.kind]
        begin, end = int(self._ahead[first]) - ahead, int(self._ahead[last]) - ahead
        values = flat.slice(begin, end - begin)
        if DEPTH[column.kind] == SCALAR:
            given = self._given[rank]
            return values.take(pa.array(np.cumsum(given) - 1, mask=~given))
        full = last - first == self._count
        buffers = [
            None if full else pa.py_buffer(self._bits[rank]),
            pa.py_buffer(self._offsets[rank]),
        ]
        return pa.Array.from_buffers(kind, self._count, buffers, children=[values])


def _flat(spans: Spans, counts: Places, kind: int) -> pa.Array:
    """What the payloads of one kind hold, one behind the other: single values, or inner lists."""
    values, arrow = int(VALUES[kind]), TYPES[kind]
    if DEPTH[kind] == LISTS:
        return _inner_lists(spans, counts, values, arrow.value_type)
    if DEPTH[kind] == SCALAR:
        return _binary(spans, arrow) if values == BYTES else _values(spans, counts, values, arrow)
    return _values(spans, counts, values, arrow.value_type)


def _inner_lists(spans: Spans, counts: Places, values: int, kind: pa.DataType) -> pa.Array:
    """The lists in lists, one behind the other."""
    inner = spans.fields(int(counts.sum()))
    if values != BYTES:
        inner_payloads(inner.data, inner.start, inner.stop)
    lengths = inner.counts(values)
    flat = _values(inner, lengths, values, kind.value_type)
    return pa.ListArray.from_arrays(_offsets(lengths), flat, kind)


def _values(spans: Spans, counts: Places, values: int, kind: pa.DataType) -> pa.Array:
    """The values in stretches, one behind the other."""
    count = int(counts.sum())
    if values == BYTES:
        return _binary(spans.fields(count), kind)
    if values == VARINTS:
        numbers = np.empty(count, np.int64)
        read_varints(spans.data, spans.start, spans.stop, numbers)
        return pa.array(numbers)
    data, _ = gathered(spans.data, spans.start, spans.stop)
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(data)])


def _binary(spans: Spans, kind: pa.DataType, mask: NDArray[np.bool_] | None = None) -> pa.Array:
    """Stretches as byte strings or text, null where `mask` says so."""
    data, first = gathered(spans.data, spans.start, spans.stop)
    valid = None if mask is None else pa.array(~mask).buffers()[1]
    buffers = [valid, _offsets(np.diff(first)).buffers()[1], pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, len(first) - 1, buffers)


def _offsets(counts: Places) -> pa.Array:
    """int32[N + 1] of N lists; ConversionError as `_checked`."""
    return pa.array(_checked(np.concatenate([[0], np.cumsum(counts)])))


def _checked(ends: Places) -> NDArray[np.int32]:
    """Ends of lists as Arrow holds them.

    Raises:
        ConversionError: there is more than a batch can hold.
    """
    most = int(ends.max(initial=0))
    if most > np.iinfo(np.int32).max:
        problem = f"{most:,} values of one feature in a batch of rows"
        raise ConversionError("", problem, "a table holds 2,147,483,647 in such a batch")
    return ends.astype(np.int32)


def _mask(null: NDArray[np.bool_]) -> pa.Array | None:
    return pa.array(null) if null.any() else None


def _line_array(lines: LineIds, field: str) -> pa.Array:
    if field in LINE_LISTS:
        first, values = lines.lists[field]
        counts = np.diff(first)
        kind = pa.list_(pa.int32())
        return pa.ListArray.from_arrays(
            _offsets(counts), pa.array(values), kind, mask=_mask(counts == 0)
        )
    null = ~lines.given[field]
    if field in NUMBERS:
        return pa.array(lines.numbers[field], mask=null)
    start, stop = lines.texts[field]
    return _binary(Spans(data=lines.data, start=start, stop=stop), pa.string(), null)


def _special_array(rows: Rows, lines: LineIds, schema: TableSchema, name: str) -> pa.Array:
    if name == LABEL:
        flat = pa.array(rows.label)
        return pa.ListArray.from_arrays(_offsets(np.diff(rows.label_first)), flat)
    if name == INSTANCE_WEIGHT:
        return pa.array(rows.weight, mask=~rows.weighted)
    if name == SOURCE:
        return pa.array(rows.source, mask=rows.source == 0)
    if name == SORT_ID:
        spans = Spans(data=rows.data, start=rows.sort_start, stop=rows.sort_stop)
        return _binary(spans, pa.binary(), rows.sort_stop == rows.sort_start)
    if name == LINE_REST:
        first = lines.rest_first
        spans = Spans(data=lines.rest, start=first[:-1], stop=first[1:])
        return _binary(spans, pa.binary(), ~with_line_rest(lines))
    assert name == REST
    return _rest_array(rows)


def _rest_array(rows: Rows) -> pa.Array:
    """Features that no column can hold and unknown fields of records, as Examples of just them."""
    features = simple(rows)
    strange = is_strange(rows, features)
    nothing, nowhere = np.zeros(len(rows), np.int64), np.full(len(rows), -1, np.int64)
    only = replace(
        rows.chosen(np.ones(len(rows), np.bool_), strange),
        line_start=nowhere,
        line_stop=nowhere,
        label_first=np.zeros(len(rows) + 1, np.int64),
        label=np.zeros(0, np.float32),
        weighted=np.zeros(len(rows), np.bool_),
        source=np.zeros(len(rows), np.uint32),
        sort_start=nothing,
        sort_stop=nothing,
    )
    made = example_records(only)
    spans = Spans(data=made.data, start=made.start, stop=made.stop)
    return _binary(spans, pa.binary(), made.stop == made.start)
