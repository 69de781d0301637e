"""Features out of columns: the contents of their messages, and which cells do not fit."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ingot.converters.monolith.contract import FEATURE_KINDS
from ingot.converters.monolith.features import BYTES, DEPTH, LISTS, SCALAR, VALUES, VARINTS
from ingot.converters.monolith.records import Places
from ingot.converters.monolith.tables import columns as c
from ingot.converters.monolith.tables.cells import (
    INT64,
    Lists,
    Numbers,
    byte_strings,
    fids_in,
    fids_v2,
    floats,
    in_range,
    is_list,
    lists_of,
    ones_of,
    plain,
    uint64,
)
from ingot.converters.monolith.tables.plan import FeatureColumn
from ingot.converters.monolith.tables.spans import Spans, of_numbers, of_varints
from ingot.converters.monolith.wire.kernels.varints import FIXED32, FIXED64, LENGTH, VARINT

_VALUE: Final = 1 << 3 | LENGTH
"""The tag of what lists, and lists of lists, hold."""
_WIRES: Final = (FIXED64, FIXED32, VARINT, LENGTH)
"""The wire types of single values, by what they are."""


@dataclass(frozen=True, kw_only=True)
class Cells:
    """A column as R features.

    Attributes:
        kind: of `contract.FEATURE_KINDS`.
        spans: the contents of the `Feature` messages, empty for unset ones.
        present: bool[R], where there is a feature.
        bad: bool[R], which cells do not fit.
        values: all values of the column.
        bad_values: which of them do not fit.
        start: int64[R] where the values of each cell begin.
        stop: int64[R] where they end.
    """

    kind: str
    spans: Spans
    present: NDArray[np.bool_]
    bad: NDArray[np.bool_]
    values: pa.Array
    bad_values: NDArray[np.bool_]
    start: Places
    stop: Places

    def complaint(self, row: int) -> str:
        """What is wrong with a bad cell."""
        start, stop = int(self.start[row]), int(self.stop[row])
        found = np.flatnonzero(self.bad_values[start:stop])
        value = self.values[start + int(found[0])].as_py() if len(found) else None
        what = "null inside a list" if value is None else repr(value)[:100]
        more = " (a fid of version 1?)" if self._may_be_v1(value) else ""
        return f"{what} does not fit {self.kind}{more}"

    def _may_be_v1(self, value: object) -> bool:
        return self.kind.startswith("fid_v2") and isinstance(value, int) and value >> 63 == 1


def features_of(column: FeatureColumn, array: pa.Array) -> Cells:
    """The features of a column of R cells."""
    array = plain(array)
    if column.kind == c.UNSET:
        return _unset(array)
    if pa.types.is_null(array.type):
        array = array.cast(c.TYPES[column.kind])
    cells = _cells(column, array)
    if column.null == "unset":
        return replace(cells, present=np.ones(len(array), np.bool_))
    return cells


def _unset(array: pa.Array) -> Cells:
    nothing = np.zeros(len(array), np.int64)
    present = array.cast(pa.bool_()).fill_null(False).to_numpy(zero_copy_only=False)
    return Cells(
        kind=FEATURE_KINDS[c.UNSET],
        spans=Spans(data=np.zeros(0, np.uint8), start=nothing, stop=nothing),
        present=present,
        bad=np.zeros(len(array), np.bool_),
        values=array,
        bad_values=np.zeros(len(array), np.bool_),
        start=nothing,
        stop=nothing,
    )


def _cells(column: FeatureColumn, array: pa.Array) -> Cells:
    depth = DEPTH[column.kind]
    lists = lists_of(array) if is_list(array.type) else ones_of(array)
    if depth == LISTS:
        return _of_lists(column, lists, lists_of(_as_lists(lists.values, column.kind)))
    values, bad_values = _encoded(column, lists.values)
    bad = lists.any(bad_values)
    if depth == SCALAR:
        tag = column.kind << 3 | _WIRES[VALUES[column.kind]]
        given, sized = lists.valid & ~bad, VALUES[column.kind] == BYTES
        spans = values.framed(tag, given, sized=sized)
    else:
        content = _content(column.kind, values, lists)
        spans = content.framed(column.kind << 3 | LENGTH, lists.valid)
    return Cells(
        kind=FEATURE_KINDS[column.kind],
        spans=spans,
        present=lists.valid,
        bad=bad,
        values=lists.values,
        bad_values=bad_values,
        start=lists.start,
        stop=lists.stop,
    )


def _as_lists(array: pa.Array, kind: int) -> pa.Array:
    return array.cast(c.TYPES[kind].value_type) if pa.types.is_null(array.type) else array


def _of_lists(column: FeatureColumn, outer: Lists, inner: Lists) -> Cells:
    values, bad_values = _encoded(column, inner.values)
    bad_lists = inner.any(bad_values) | ~inner.valid
    messages = _content(column.kind, values, inner).framed(_VALUE)
    content = messages.between(outer.start, outer.stop)
    first = np.append(inner.start, len(inner.values))
    last = np.append(0, np.maximum.accumulate(inner.stop))
    return Cells(
        kind=FEATURE_KINDS[column.kind],
        spans=content.framed(column.kind << 3 | LENGTH, outer.valid),
        present=outer.valid,
        bad=outer.any(bad_lists),
        values=inner.values,
        bad_values=bad_values,
        start=first[outer.start],
        stop=last[outer.stop],
    )


def _content(kind: int, values: Spans, lists: Lists) -> Spans:
    """The contents of list messages."""
    if VALUES[kind] == BYTES:
        return values.framed(_VALUE).between(lists.start, lists.stop)
    return values.between(lists.start, lists.stop).framed(_VALUE, empty=False)


def _encoded(column: FeatureColumn, values: pa.Array) -> tuple[Spans, NDArray[np.bool_]]:
    """Values as messages hold them, without tags, and which do not fit."""
    what = VALUES[column.kind]
    if pa.types.is_null(values.type):
        values = values.cast(pa.binary() if what == BYTES else pa.int64())
    if what == BYTES:
        return byte_strings(values)
    numbers, bad = _converter(column)(values)
    return of_varints(numbers) if what == VARINTS else of_numbers(numbers), bad


def _converter(column: FeatureColumn) -> Callable[[pa.Array], Numbers]:
    name = FEATURE_KINDS[column.kind]
    if column.slot is not None:
        return fids_in(column.slot, column.version, column.hashed)
    if name.startswith("fid_v1") or (name.startswith("fid") and column.own):
        return uint64
    if name.startswith("fid_v2"):
        return fids_v2
    if name.startswith("int64"):
        return lambda values: in_range(values, *INT64)
    dtype = np.float32 if name.startswith("float") else np.float64
    return lambda values: floats(values, dtype)
