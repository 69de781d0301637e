"""Convert the rows of Arrow tables to Examples, a column at a time."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ingot.converters.recsys.monolith import features
from ingot.converters.recsys.monolith.contract import (
    FEATURE_KINDS,
    INSTANCE_WEIGHT,
    LABEL,
    MAX_FEATURES,
)
from ingot.converters.recsys.monolith.line_ids import FIELDS
from ingot.converters.recsys.monolith.record_index import Bad, Rows, prefix_sums
from ingot.converters.recsys.monolith.tables import cells as read
from ingot.converters.recsys.monolith.tables import schema as c
from ingot.converters.recsys.monolith.tables.column_plan import ColumnPlan, FeatureColumn
from ingot.converters.recsys.monolith.wire.format_kernels import LENGTH
from ingot.converters.recsys.monolith.wire.message_writer import ROW_FIELDS, example_records
from ingot.converters.recsys.monolith.wire.row_assembly import (
    Spans,
    empty_spans,
    find_unsound,
    gather_spans,
    join_spans,
    spans_of_numbers,
    spans_of_varints,
    stack_spans,
)
from ingot.converters.recsys.monolith.wire.row_index import index_examples

_VALUE: Final = 1 << 3 | LENGTH  # the tag of what lists, and lists of lists, hold


@dataclass(frozen=True, kw_only=True)
class FeatureCells:
    """A column as R features."""

    kind: str  # of `contract.FEATURE_KINDS`
    spans: Spans  # the contents of the `Feature` messages, empty for unset ones
    lists: read.Lists  # the values of each cell; valid where there is a feature
    bad: NDArray[np.bool_]
    bad_values: NDArray[np.bool_]

    def complaint(self, row: int) -> str:
        """Return what is wrong with a bad cell."""
        start, stop = int(self.lists.start[row]), int(self.lists.stop[row])
        bad_positions = np.flatnonzero(self.bad_values[start:stop])
        value = (
            self.lists.values[start + int(bad_positions[0])].as_py() if len(bad_positions) else None
        )
        value_text = "null inside a list" if value is None else repr(value)[:100]
        of_v1 = self.kind.startswith("fid_v2") and isinstance(value, int) and value >> 63 == 1
        hint = " (a fid of version 1?)" if of_v1 else ""
        return f"{value_text} does not fit {self.kind}{hint}"


def encode_features(column: FeatureColumn, array: pa.Array) -> FeatureCells:
    """Encode a column of R cells as features."""
    array = read.plain_array(array)
    if column.kind == c.UNSET:
        nothing, no = empty_spans(len(array)), np.zeros(len(array), np.bool_)
        present = array.cast(pa.bool_()).fill_null(False).to_numpy(zero_copy_only=False)
        return FeatureCells(
            kind=FEATURE_KINDS[c.UNSET],
            spans=nothing,
            lists=read.Lists(valid=present, start=nothing.start, stop=nothing.stop, values=array),
            bad=no,
            bad_values=no,
        )
    if pa.types.is_null(array.type):
        array = array.cast(c.TYPES[column.kind])
    cells = _encode_cells(column, array)
    if column.null == "unset":
        return replace(cells, lists=replace(cells.lists, valid=np.ones(len(array), np.bool_)))
    return cells


def _encode_cells(column: FeatureColumn, array: pa.Array) -> FeatureCells:
    depth = features.DEPTH[column.kind]
    lists = read.value_lists(array)
    if depth == features.LISTS:
        inner = lists.values
        if pa.types.is_null(inner.type):
            inner = inner.cast(c.TYPES[column.kind].value_type)
        return _encode_nested_lists(column, lists, read.column_lists(inner))
    values, bad_values = _encode_values(column, lists.values)
    is_bad = lists.any(bad_values)
    if depth == features.SCALAR:
        tag = column.kind << 3 | int(features.WIRES[features.VALUES[column.kind]])
        is_given, sized = lists.valid & ~is_bad, features.VALUES[column.kind] == features.BYTES
        spans = values.frame_fields(tag, is_given, sized=sized)
    else:
        content = _list_contents(column.kind, values, lists)
        spans = content.frame_fields(column.kind << 3 | LENGTH, lists.valid)
    kind = FEATURE_KINDS[column.kind]
    return FeatureCells(kind=kind, spans=spans, lists=lists, bad=is_bad, bad_values=bad_values)


def _encode_nested_lists(
    column: FeatureColumn, outer: read.Lists, inner: read.Lists
) -> FeatureCells:
    values, bad_values = _encode_values(column, inner.values)
    bad_lists = inner.any(bad_values) | ~inner.valid
    messages = _list_contents(column.kind, values, inner).frame_fields(_VALUE)
    content = messages.join_between(outer.start, outer.stop)
    first = np.append(inner.start, len(inner.values))
    last = np.append(0, np.maximum.accumulate(inner.stop))
    start, stop = first[outer.start], last[outer.stop]
    return FeatureCells(
        kind=FEATURE_KINDS[column.kind],
        spans=content.frame_fields(column.kind << 3 | LENGTH, outer.valid),
        lists=read.Lists(valid=outer.valid, start=start, stop=stop, values=inner.values),
        bad=outer.any(bad_lists),
        bad_values=bad_values,
    )


def _list_contents(kind: int, values: Spans, lists: read.Lists) -> Spans:
    if features.VALUES[kind] == features.BYTES:
        return values.frame_fields(_VALUE).join_between(lists.start, lists.stop)
    return values.join_between(lists.start, lists.stop).frame_fields(_VALUE, empty=False)


def _encode_values(column: FeatureColumn, values: pa.Array) -> tuple[Spans, NDArray[np.bool_]]:
    """Values as messages hold them, without tags, and which do not fit."""
    value_kind = features.VALUES[column.kind]
    if pa.types.is_null(values.type):
        values = values.cast(pa.binary() if value_kind == features.BYTES else pa.int64())
    if value_kind == features.BYTES:
        return read.byte_strings(values)
    numbers, is_bad = _converter(column)(values)
    return spans_of_varints(numbers) if value_kind == features.VARINTS else spans_of_numbers(
        numbers
    ), is_bad


def _converter(column: FeatureColumn) -> Callable[[pa.Array], read.Numbers]:
    name = FEATURE_KINDS[column.kind]
    if column.slot is not None:
        return read.fid_converter(column.slot, column.version, column.hashed)
    if name.startswith("fid_v1") or (name.startswith("fid") and column.own):
        return read.uint64_numbers
    if name.startswith("fid_v2"):
        return read.fid_numbers
    if name.startswith("int64"):
        return lambda values: read.numbers_in_range(values, *read.INT64)
    dtype = np.float32 if name.startswith("float") else np.float64
    return lambda values: read.float_numbers(values, dtype)


def encode_batch(
    batch: pa.RecordBatch, plan: ColumnPlan, number_of_first_row: int
) -> tuple[Rows, list[Bad]]:
    """Encode rows of a table as the rows of Examples."""
    encoding, first = _BatchEncoder(batch, plan), number_of_first_row
    rows, wrong = encoding.rows(first), list[Bad]()
    if encoding.must_be_read:
        rows, wrong = index_examples(example_records(rows))
        rows = replace(rows, offset=np.zeros(len(rows), np.int64))
    wrong += [
        Bad(offset=0, record=first + row, reason="cell", detail=complaint)
        for row, complaint in sorted(encoding.wrong.items())
    ]
    return rows, wrong


_GROUP_BYTES: Final = 16 << 20  # bytes of columns that are made one


class _BatchEncoder:
    """One batch on its way.

    Attributes:
        wrong: what does not fit, by the places of rows.
        must_be_read: whether columns hold messages whose parts only a walk over Examples finds.
    """

    def __init__(self, batch: pa.RecordBatch, plan: ColumnPlan) -> None:
        self._batch, self._plan, self._count = batch, plan, batch.num_rows
        self.wrong: dict[int, str] = {}
        names = {one.name for one in plan.features}
        self.must_be_read = not names.isdisjoint(ROW_FIELDS) or len(names) > MAX_FEATURES

    def rows(self, first: int) -> Rows:
        """Return the good rows, numbered from `first`."""
        planned = self._plan.features
        (line, has_line), label = self._lines(), self._labels()
        weight = self._numbers(INSTANCE_WEIGHT, INSTANCE_WEIGHT, np.float32)
        source = self._numbers(c.SOURCE, "data_source_key", np.uint32)
        row_spans = [line, self._bytes(c.SORT_ID, None), self._bytes(c.REST, "Example")]
        spans, order, present = self._features()
        good = np.ones(self._count, np.bool_)
        good[list(self.wrong)] = False
        pieces = len(planned) + len(row_spans)
        data, start, stop = stack_spans([*row_spans, *spans], pieces)
        span_order = np.empty(pieces, np.int64)
        span_order[[0, 1, 2, *(number + 3 for number in order)]] = np.arange(pieces)
        start, stop, present = (
            start[span_order][:, good],
            stop[span_order][:, good],
            present[:, good],
        )
        row, column = np.nonzero(present.T)
        labels, label_first = gather_spans(label.data, label.start[good], label.stop[good])
        names = dict[bytes, int]()
        numbers = [
            names.setdefault(one.name, len(names)) if has_feature.any() else -1
            for one, has_feature in zip(planned, present, strict=True)
        ]
        nothing, weight = np.zeros(len(row), np.int64), weight[good]
        zeros = np.zeros(int(good.sum()), np.int64)
        return Rows(
            data=data,
            names=tuple(names),
            first=prefix_sums(present.sum(axis=0, dtype=np.int64)),
            name=np.array(numbers, np.int32)[column],
            raw=np.zeros(len(row), np.bool_),
            start=start[3:][column, row],
            stop=stop[3:][column, row],
            ident=np.array([one.ident for one in planned], np.int32)[column],
            sorted_id=np.array([one.sorted_id for one in planned], np.int32)[column],
            extra_start=nothing,
            extra_stop=nothing,
            line_start=np.where(has_line[good], start[0], -1),
            line_stop=np.where(has_line[good], stop[0], -1),
            label_first=label_first // 4,
            label=labels.view(np.float32),
            weighted=weight.view(np.uint32) != 0,
            weight=weight,
            source=source[good],
            rest_start=start[2],
            rest_stop=stop[2],
            sort_start=start[1],
            sort_stop=stop[1],
            record=np.flatnonzero(good) + first,
            offset=zeros,
            row=zeros - 1,
        )

    def _column(self, number: int) -> pa.Array:
        return self._batch.column(number)

    def _complain(
        self, number: int, mask: NDArray[np.bool_], describe: Callable[[int], str]
    ) -> None:
        """Note rows whose cells of a column do not fit; the first complaint of a row counts."""
        label = self._batch.schema.field(number).name
        for row in np.flatnonzero(mask).tolist():
            if row not in self.wrong:
                self.wrong[row] = f"column {label}: {describe(row)}"

    def _complain_value(self, number: int, mask: NDArray[np.bool_], target: str) -> None:
        column = self._column(number)
        self._complain(number, mask, lambda row: f"{_cell_repr(column[row])} does not fit {target}")

    def _features(self) -> tuple[list[Spans], list[int], NDArray[np.bool_]]:
        """The messages of all columns, the columns' numbers, and bool[P, R] where a feature is."""
        planned = self._plan.features
        present = np.zeros((len(planned), self._count), np.bool_)
        spans, order = [], []
        for numbers in self._alike():
            columns = [planned[number] for number in numbers]
            arrays = [read.plain_array(self._column(column.at)) for column in columns]
            cells = encode_features(columns[0], pa.concat_arrays(arrays))
            shape = len(numbers), self._count
            present[numbers] = cells.lists.valid.reshape(shape)
            for index, bad in enumerate(cells.bad.reshape(shape)):
                offset = index * self._count
                self._complain(columns[index].at, bad, _complaint_by_row(cells, offset))
            spans.append(cells.spans)
            order += numbers
        return spans, order, present

    def _alike(self) -> Iterator[list[int]]:
        """The numbers of planned columns, some at a time, of which the same is made."""
        groups: dict[tuple[object, ...], list[int]] = {}
        sizes: dict[tuple[object, ...], int] = {}
        for number, one in enumerate(self._plan.features):
            kind = str(read.plain_type(self._batch.schema.field(one.at).type))
            key = kind, one.kind, one.null, one.slot, one.version, one.hashed, one.own
            groups.setdefault(key, []).append(number)
            sizes[key] = sizes.get(key, 0) + self._column(one.at).nbytes
            if sizes[key] > _GROUP_BYTES:
                yield groups.pop(key)
                sizes.pop(key)
        yield from groups.values()

    def _lines(self) -> tuple[Spans, NDArray[np.bool_]]:
        parts = [self._bytes(c.LINE_REST, "LineId")]
        number = self._plan.special.get(c.LINE_REST)
        is_given = (
            np.zeros(self._count, np.bool_)
            if number is None
            else read.valid_mask(self._column(number))
        )
        for name in reversed(FIELDS):
            if name in self._plan.line:
                number = self._plan.line[name]
                spans, bad = read.encode_line_field(name, self._column(number))
                self._complain_value(number, bad, f"{name} of a LineId")
                parts.append(spans)
                is_given |= spans.stop > spans.start
        return join_spans(parts[::-1]), is_given

    def _bytes(self, name: str, message: str | None) -> Spans:
        """A column of byte strings; those that are not such a message are bad."""
        number = self._plan.special.get(name)
        if number is None or pa.types.is_null(self._column(number).type):
            return empty_spans(self._count)
        spans, _ = read.byte_strings(read.plain_array(self._column(number)))
        if message is not None:
            is_bad = find_unsound(spans.data, spans.start, spans.stop, message)
            self.must_be_read |= bool(is_bad.any() or (message == "Example" and len(spans.data)))
            for row in np.flatnonzero(is_bad):
                content = spans.data[spans.start[row] : spans.stop[row]].tobytes()
                is_bad[row] = not _is_message(message, content)
            self._complain(number, is_bad, lambda _: f"its bytes cannot be read as {message}")
        return spans

    def _labels(self) -> Spans:
        numbers = self._plan.label
        columns = [read.plain_array(self._column(column_number)) for column_number in numbers]
        if len(columns) == 1:
            lists = read.value_lists(columns[0])
            values, is_bad = read.float_numbers(lists.values, np.float32)
            problem = f"null, or too large a number, in {LABEL}"
            self._complain(numbers[0], lists.any(is_bad), lambda _: problem)
            start, stop = lists.start * 4, lists.stop * 4
            return Spans(data=values.view(np.uint8), start=start, stop=stop)
        # A row has a label of each of them, or none at all.
        table = np.zeros((self._count, len(columns)), np.float32)
        null = np.zeros((len(columns), self._count), np.bool_)
        for number, (column_number, column) in enumerate(
            zip(self._plan.label, columns, strict=True)
        ):
            table[:, number], is_bad = read.float_numbers(column, np.float32)
            null[number] = ~read.valid_mask(column)
            self._complain_value(column_number, is_bad & ~null[number], "a label")
        none = null.all(axis=0) if columns else np.ones(self._count, np.bool_)
        for column_number, missing in zip(self._plan.label, null & ~none, strict=True):
            self._complain(column_number, missing, lambda _: "null, where other labels are given")
        width = 4 * len(columns)
        start = np.arange(self._count, dtype=np.int64) * width
        return Spans(data=table.reshape(-1).view(np.uint8), start=start, stop=start + width * ~none)

    def _numbers(self, name: str, target: str, dtype: type[np.float32 | np.uint32]) -> NDArray[Any]:
        """A column of one number for each row; 0 where there is none."""
        number = self._plan.special.get(name)
        if number is None:
            return np.zeros(self._count, dtype)
        column = read.plain_array(self._column(number))
        values, is_bad = (
            read.float_numbers(column, np.float32)
            if dtype is np.float32
            else read.numbers_in_range(column, *read.UINT32)
        )
        self._complain_value(number, is_bad & read.valid_mask(column), target)
        return values.astype(dtype)


def _complaint_by_row(cells: FeatureCells, offset: int) -> Callable[[int], str]:
    return lambda row: cells.complaint(offset + row)


def _cell_repr(cell: pa.Scalar) -> str:
    try:
        return repr(cell.as_py())[:100]
    except UnicodeDecodeError:
        return "text that is not UTF-8"


def _is_message(name: str, content: bytes) -> bool:
    from ingot.converters.recsys.monolith.contract import DecodeError, example_pb2, line_id_pb2

    message = line_id_pb2.LineId if name == "LineId" else example_pb2.Example
    try:
        message.FromString(content)
    except DecodeError:
        return False
    return True
