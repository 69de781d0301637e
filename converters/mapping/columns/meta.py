"""The six meta values of records as one Arrow struct column."""

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingot.converters.mapping.columns import frame as frames
from ingot.converters.mapping.columns.scope import NotColumnarError, Scope
from ingot.converters.mapping.columns.values import compile_scalars, compile_texts, text_scalar
from ingot.converters.mapping.language import META_KEYS, Value
from ingot.converters.mapping.rows.executor import CASTS
from ingot.converters.records.schema import META_TYPE
from ingot.converters.rows import RowError

_META_FIELDS = list(META_TYPE)
_NUMERIC = ("token_count", "quality_score")

# A meta value for every row, and why it failed where it did: reason -> the rows.
_Cast = tuple[pa.Array, dict[str, frames.Mask]]
_Column = Callable[[frames.Frame, frames.Mask], _Cast]


class Meta(NamedTuple):
    """The meta column of a batch, and per `key: reason` the rows in which a value failed."""

    column: pa.StructArray
    failures: dict[str, frames.Mask]

    def failed(self, kept: frames.Mask) -> Counter[str]:
        """Return how often values failed in the kept rows."""
        counts = {name: int((rows & kept).sum()) for name, rows in self.failures.items()}
        return Counter({name: count for name, count in counts.items() if count})


def compile_meta(
    values: dict[str, Value], defaults: dict[str, str | None], scope: Scope
) -> Callable[[frames.Frame, frames.Mask], Meta]:
    """Return the meta values of a layout as one function. Raises NotColumnarError."""
    columns: dict[str, _Column] = {
        key: _compile_number_column(key, value, scope)
        if key in _NUMERIC
        else _compile_text_column(value, scope)
        for key, value in values.items()
    }
    fallback = {key: text_scalar(text) for key, text in defaults.items() if text is not None}

    def meta(frame: frames.Frame, active: frames.Mask) -> Meta:
        failures: dict[str, frames.Mask] = {}
        arrays: dict[str, pa.Array] = {}
        for key, column in columns.items():
            arrays[key], failed = column(frame, active)
            failures |= {f"{key}: {reason}": rows for reason, rows in failed.items()}
        for key in META_KEYS:
            arrays[key] = _fill_default(arrays.get(key), key, fallback.get(key), frame.size)
        ordered = [arrays[child.name] for child in _META_FIELDS]
        return Meta(pa.StructArray.from_arrays(ordered, fields=_META_FIELDS), failures)

    return meta


def _fill_default(
    array: pa.Array | None, key: str, default: pa.Scalar | None, size: int
) -> pa.Array:
    if array is None:
        kind = META_TYPE.field(key).type
        return pa.nulls(size, kind) if default is None else pa.repeat(default, size)
    return array if default is None else pc.fill_null(array, default)


def _compile_text_column(value: Value, scope: Scope) -> _Column:
    texts = compile_texts(value, scope)

    def column(frame: frames.Frame, active: frames.Mask) -> _Cast:
        found = texts(frame, active)
        return frames.null_where(found, frames.blank_mask(found)), {}

    return column


def _compile_number_column(key: str, value: Value, scope: Scope) -> _Column:
    if value.kind == "any_of":
        raise NotColumnarError("a number from any_of")
    kind = META_TYPE.field(key).type
    bare = value.path if value.is_bare else None
    scalars = compile_scalars(bare, scope) if bare else compile_texts(value, scope)
    exact = {"token_count": _integer_column, "quality_score": _score_column}[key]

    def column(frame: frames.Frame, active: frames.Mask) -> _Cast:
        array = scalars(frame, active)
        if pa.types.is_null(array.type):
            return pa.nulls(frame.size, kind), {}
        if (quick := exact(array)) is not None:
            return quick
        # Texts and rarer types of numbers by the very function of the row executor.
        cast = CASTS[key]
        there = frames.valid_mask(array)
        values = array.to_pylist()
        result = [None] * len(values)
        failed: dict[str, frames.Mask] = {}
        for place in np.flatnonzero(there):
            if values[place] == "":
                continue
            try:
                result[place] = cast(values[place])
            except RowError as error:
                failed.setdefault(error.reason, np.zeros(len(values), np.bool_))[place] = True
        return pa.array(result, kind), failed

    return column


def _integer_column(array: pa.Array) -> _Cast | None:
    signed = pa.types.is_signed_integer(array.type)
    return (array.cast(pa.int64()), {}) if signed else None


def _score_column(array: pa.Array) -> _Cast | None:
    if not pa.types.is_floating(array.type):
        return None
    inside = pc.and_(pc.greater_equal(array, 0.0), pc.less_equal(array, 1.0))
    outside = ~frames.as_mask(pc.fill_null(inside, True))
    return frames.null_where(array, outside), {"not_a_number": outside}
