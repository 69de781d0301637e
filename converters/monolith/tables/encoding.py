"""Arrow to Examples: a column at a time, by kernels."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ingot.converters.monolith.contract import INSTANCE_WEIGHT, LABEL
from ingot.converters.monolith.line_ids import FIELDS
from ingot.converters.monolith.records import Bad, Records
from ingot.converters.monolith.rows import Rows
from ingot.converters.monolith.tables import columns as c
from ingot.converters.monolith.tables.cells import (
    UINT32,
    Lists,
    byte_strings,
    floats,
    in_range,
    is_list,
    lists_of,
    ones_of,
    plain,
    plain_type,
    valid_of,
)
from ingot.converters.monolith.tables.plan import FeatureColumn, Plan
from ingot.converters.monolith.tables.spans import Spans, joined, stacked
from ingot.converters.monolith.tables.writing_features import Cells, features_of
from ingot.converters.monolith.tables.writing_lines import line_field
from ingot.converters.monolith.wire.assembling import gathered
from ingot.converters.monolith.wire.examples import example_records


def examples_of(
    batch: pa.RecordBatch, plan: Plan, number_of_first_row: int
) -> tuple[Records, list[Bad]]:
    """Rows of a table as Example messages.

    Args:
        batch: R rows.
        plan: what becomes of the columns.
        number_of_first_row: of the batch's first row in the table, from 0.

    Returns:
        The good rows in order, their numbers and offsets those in the batch; and one `Bad` for each
        other row, whose `record` is the row's number in the table.

    Raises:
        ConversionError: numba or protobuf is not installed.
    """
    encoding, first = _Encoding(batch, plan), number_of_first_row
    records = example_records(encoding.rows(first))
    wrong = [
        Bad(offset=0, bytes=0, record=first + row, row=None, reason="cell", detail=said)
        for row, said in sorted(encoding.wrong.items())
    ]
    return replace(records, number=first), wrong


_ALIKE_BYTES: Final = 16 << 20
"""Bytes of columns that are made one."""


@dataclass(frozen=True, kw_only=True)
class _Features:
    """The features of P columns and R rows.

    Attributes:
        spans: the contents of their messages, R of each column, columns one behind the other.
        order: the number in the plan of each of these columns.
        present: bool[P, R], in the plan's order, where there is a feature.
    """

    spans: list[Spans]
    order: list[int]
    present: NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class _Parts:
    """R rows, the bad ones among them, as stretches of bytes and numbers."""

    line: Spans
    has_line: NDArray[np.bool_]
    label: Spans
    weight: NDArray[np.float32]
    source: NDArray[np.uint32]
    sort_id: Spans
    rest: Spans
    features: _Features


class _Encoding:
    """One batch on its way; `wrong` says of rows, by their places, what does not fit."""

    def __init__(self, batch: pa.RecordBatch, plan: Plan) -> None:
        self._batch, self._plan, self._count = batch, plan, batch.num_rows
        self.wrong: dict[int, str] = {}

    def rows(self, first: int) -> Rows:
        """The good rows, numbered from `first` on."""
        line, has_line = self._lines()
        parts = _Parts(
            line=line,
            has_line=has_line,
            label=self._labels(),
            weight=self._weights(),
            source=self._sources(),
            sort_id=self._bytes(c.SORT_ID, None),
            rest=self._bytes(c.REST, _is_example),
            features=self._features(),
        )
        good = np.ones(self._count, np.bool_)
        good[list(self.wrong)] = False
        return _rows(parts, self._plan.features, good, first)

    def _column(self, at: int) -> pa.Array:
        return self._batch.column(at)

    def _complain(self, at: int, bad: NDArray[np.bool_], said: Callable[[int], str]) -> None:
        """Note rows whose cells of a column do not fit; the first complaint of a row counts."""
        label = self._batch.schema.field(at).name
        for row in np.flatnonzero(bad).tolist():
            if row not in self.wrong:
                self.wrong[row] = f"column {label}: {said(row)}"

    def _complain_value(self, at: int, bad: NDArray[np.bool_], what: str) -> None:
        column = self._column(at)
        self._complain(at, bad, lambda row: f"{_shown(column[row])} does not fit {what}")

    def _features(self) -> _Features:
        """Of all columns; those that are alike are one long column on the way."""
        planned = self._plan.features
        present = np.zeros((len(planned), self._count), np.bool_)
        spans, order = [], []
        for numbers in self._alike():
            columns = [planned[number] for number in numbers]
            arrays = [plain(self._column(column.at)) for column in columns]
            cells = features_of(columns[0], pa.concat_arrays(arrays))
            shape = len(numbers), self._count
            present[numbers] = cells.present.reshape(shape)
            for place, bad in enumerate(cells.bad.reshape(shape)):
                ahead = place * self._count
                self._complain(columns[place].at, bad, _complaints(cells, ahead))
            spans.append(cells.spans)
            order += numbers
        return _Features(spans=spans, order=order, present=present)

    def _alike(self) -> Iterator[list[int]]:
        """The numbers of planned columns, some at a time, of which the same is made."""
        groups: dict[tuple[object, ...], list[int]] = {}
        sizes: dict[tuple[object, ...], int] = {}
        for number, one in enumerate(self._plan.features):
            kind = str(plain_type(self._batch.schema.field(one.at).type))
            key = kind, one.kind, one.null, one.slot, one.version, one.hashed, one.own
            groups.setdefault(key, []).append(number)
            sizes[key] = sizes.get(key, 0) + self._column(one.at).nbytes
            if sizes[key] > _ALIKE_BYTES:
                yield groups.pop(key)
                sizes.pop(key)
        yield from groups.values()

    def _lines(self) -> tuple[Spans, NDArray[np.bool_]]:
        parts = [self._bytes(c.LINE_REST, _is_line)]
        given = self._given(c.LINE_REST)
        for name in reversed(FIELDS):
            if name in self._plan.line:
                at = self._plan.line[name]
                spans, bad = line_field(name, self._column(at))
                self._complain_value(at, bad, f"{name} of a LineId")
                parts.append(spans)
                given |= spans.stop > spans.start
        return joined(parts[::-1]), given

    def _given(self, name: str) -> NDArray[np.bool_]:
        at = self._plan.special.get(name)
        return np.zeros(self._count, np.bool_) if at is None else valid_of(self._column(at))

    def _bytes(self, name: str, test: Callable[[bytes], bool] | None) -> Spans:
        """A column of byte strings; those that do not pass a test are bad."""
        at = self._plan.special.get(name)
        if at is None or pa.types.is_null(self._column(at).type):
            nowhere = np.zeros(self._count, np.int64)
            return Spans(data=np.zeros(0, np.uint8), start=nowhere, stop=nowhere)
        spans, _ = byte_strings(plain(self._column(at)))
        if test is not None:
            bad = np.zeros(self._count, np.bool_)
            for row in np.flatnonzero(spans.stop > spans.start):
                bad[row] = not test(spans.data[spans.start[row] : spans.stop[row]].tobytes())
            self._complain(at, bad, lambda _: "no message of the kind that belongs there")
        return spans

    def _labels(self) -> Spans:
        """The float32 labels of each row."""
        places = self._plan.label
        columns = [plain(self._column(at)) for at in places]
        if len(columns) == 1 and is_list(columns[0].type):
            return self._label_lists(places[0], lists_of(columns[0]))
        if len(columns) == 1:
            return self._label_lists(places[0], ones_of(columns[0]))
        return self._label_columns(columns)

    def _label_lists(self, at: int, lists: Lists) -> Spans:
        values, bad = floats(lists.values, np.float32)
        self._complain(at, lists.any(bad), lambda _: f"null or too large a number in {LABEL}")
        start, stop = lists.start * 4, lists.stop * 4
        return Spans(data=values.view(np.uint8), start=start, stop=stop)

    def _label_columns(self, columns: Sequence[pa.Array]) -> Spans:
        """Several columns: a row has a label of each of them, or none at all."""
        table = np.zeros((self._count, len(columns)), np.float32)
        null = np.zeros((len(columns), self._count), np.bool_)
        for number, (at, column) in enumerate(zip(self._plan.label, columns, strict=True)):
            table[:, number], bad = floats(column, np.float32)
            null[number] = ~valid_of(column)
            self._complain_value(at, bad & ~null[number], "a label")
        none = null.all(axis=0) if columns else np.ones(self._count, np.bool_)
        for at, missing in zip(self._plan.label, null & ~none, strict=True):
            self._complain(at, missing, lambda _: "null, where other labels are given")
        width = 4 * len(columns)
        start = np.arange(self._count, dtype=np.int64) * width
        return Spans(data=table.reshape(-1).view(np.uint8), start=start, stop=start + width * ~none)

    def _weights(self) -> NDArray[np.float32]:
        """Weights, 0 where there are none."""
        at = self._plan.special.get(INSTANCE_WEIGHT)
        if at is None:
            return np.zeros(self._count, np.float32)
        column = plain(self._column(at))
        values, bad = floats(column, np.float32)
        self._complain_value(at, bad & valid_of(column), INSTANCE_WEIGHT)
        return values

    def _sources(self) -> NDArray[np.uint32]:
        """The data_source_keys, 0 where there are none."""
        at = self._plan.special.get(c.SOURCE)
        if at is None:
            return np.zeros(self._count, np.uint32)
        column = plain(self._column(at))
        values, bad = in_range(column, *UINT32)
        self._complain_value(at, bad & valid_of(column), "data_source_key")
        return values.astype(np.uint32)


def _complaints(cells: Cells, ahead: int) -> Callable[[int], str]:
    return lambda row: cells.complaint(ahead + row)


def _shown(cell: pa.Scalar) -> str:
    try:
        return repr(cell.as_py())[:100]
    except UnicodeDecodeError:
        return "text that is not UTF-8"


def _is_line(content: bytes) -> bool:
    from ingot.converters.monolith.messages import DecodeError, line_id_pb2

    try:
        line_id_pb2.LineId.FromString(content)
    except DecodeError:
        return False
    return True


def _is_example(content: bytes) -> bool:
    from ingot.converters.monolith.messages import DecodeError, example_pb2

    try:
        example_pb2.Example.FromString(content)
    except DecodeError:
        return False
    return True


def _rows(
    parts: _Parts, planned: Sequence[FeatureColumn], good: NDArray[np.bool_], first: int
) -> Rows:
    features = parts.features
    others, pieces = [parts.line, parts.sort_id, parts.rest], len(planned) + 3
    data, start, stop = stacked([*others, *features.spans], pieces)
    place = np.empty(pieces, np.int64)
    place[[0, 1, 2, *(number + 3 for number in features.order)]] = np.arange(pieces)
    start, stop, present = start[place][:, good], stop[place][:, good], features.present[:, good]
    row, column = np.nonzero(present.T)
    entries = np.concatenate([[0], np.cumsum(present.sum(axis=0, dtype=np.int64))])
    label, label_first = gathered(parts.label.data, parts.label.start[good], parts.label.stop[good])
    names = {name: at for at, name in enumerate(dict.fromkeys(one.name for one in planned))}
    nothing, weight = np.zeros(len(row), np.int64), parts.weight[good]
    zeros = np.zeros(int(good.sum()), np.int64)
    return Rows(
        data=data,
        names=tuple(names),
        first=entries.astype(np.int64),
        name=_each([names[one.name] for one in planned], column),
        raw=np.zeros(len(row), np.bool_),
        start=start[3:][column, row],
        stop=stop[3:][column, row],
        ident=_each([one.ident for one in planned], column),
        sorted_id=_each([one.sorted_id for one in planned], column),
        extra_start=nothing,
        extra_stop=nothing,
        line_start=np.where(parts.has_line[good], start[0], -1),
        line_stop=np.where(parts.has_line[good], stop[0], -1),
        label_first=label_first // 4,
        label=label.view(np.float32),
        weighted=weight.view(np.uint32) != 0,
        weight=weight,
        source=parts.source[good],
        rest_start=start[2],
        rest_stop=stop[2],
        sort_start=start[1],
        sort_stop=stop[1],
        record=np.flatnonzero(good) + first,
        offset=zeros,
        row=zeros - 1,
    )


def _each(values: list[int], column: NDArray[np.int64]) -> NDArray[np.int32]:
    return np.array(values, np.int32)[column]
