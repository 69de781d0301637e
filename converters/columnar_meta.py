"""The six meta values of records as one Arrow struct column."""

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingot.converters.columnar_frame import (
    Frame,
    Mask,
    NotCarriedError,
    as_mask,
    blank,
    valid,
    without,
)
from ingot.converters.columnar_values import Scope, compile_scalars, compile_texts, storable
from ingot.converters.language import META_KEYS, Value
from ingot.converters.paths import RowError
from ingot.converters.record_kinds import META_TYPE
from ingot.converters.unify import CASTS

_NUMERIC = ("token_count", "quality_score")

# A meta value for every row, and why it failed where it did: reason -> the rows.
_Cast = tuple[pa.Array, dict[str, Mask]]
_Column = Callable[[Frame, Mask], _Cast]


class Meta(NamedTuple):
    """The meta column of a batch, and per `key: reason` the rows in which a value failed."""

    column: pa.StructArray
    failures: dict[str, Mask]

    def failed(self, kept: Mask) -> Counter[str]:
        """How often values failed in the kept rows."""
        counts = {name: int((rows & kept).sum()) for name, rows in self.failures.items()}
        return Counter({name: count for name, count in counts.items() if count})


def compile_meta(
    values: dict[str, Value], defaults: dict[str, str | None], scope: Scope
) -> Callable[[Frame, Mask], Meta]:
    """The meta values of a layout as one function. Raises NotCarriedError."""
    columns: dict[str, _Column] = {
        key: _numbers(key, value, scope) if key in _NUMERIC else _texts(value, scope)
        for key, value in values.items()
    }
    fallback = {key: storable(text) for key, text in defaults.items() if text is not None}

    def meta(frame: Frame, active: Mask) -> Meta:
        failures: dict[str, Mask] = {}
        arrays: dict[str, pa.Array] = {}
        for key, column in columns.items():
            arrays[key], failed = column(frame, active)
            failures |= {f"{key}: {reason}": rows for reason, rows in failed.items()}
        for key in META_KEYS:
            arrays[key] = _filled(arrays.get(key), key, fallback.get(key), frame.size)
        fields = list(META_TYPE)
        ordered = [arrays[child.name] for child in fields]
        return Meta(pa.StructArray.from_arrays(ordered, fields=fields), failures)

    return meta


def _filled(array: pa.Array | None, key: str, default: pa.Scalar | None, size: int) -> pa.Array:
    if array is None:
        kind = META_TYPE.field(key).type
        return pa.nulls(size, kind) if default is None else pa.repeat(default, size)
    return array if default is None else pc.fill_null(array, default)


def _texts(value: Value, scope: Scope) -> _Column:
    texts = compile_texts(value, scope)

    def column(frame: Frame, active: Mask) -> _Cast:
        found = texts(frame, active)
        return without(found, blank(found)), {}

    return column


def _numbers(key: str, value: Value, scope: Scope) -> _Column:
    if value.kind == "any_of":
        raise NotCarriedError("a number from any_of")
    kind = META_TYPE.field(key).type
    bare = value.path is not None and value.bare
    found = compile_scalars(value.path, scope) if bare and value.path else None
    scalars = found or compile_texts(value, scope)
    exact = {"token_count": _whole, "quality_score": _score}[key]

    def column(frame: Frame, active: Mask) -> _Cast:
        array = scalars(frame, active)
        if pa.types.is_null(array.type):
            return pa.nulls(frame.size, kind), {}
        quick = exact(array)
        return _one_by_one(key, array, kind) if quick is None else quick

    return column


def _whole(array: pa.Array) -> _Cast | None:
    signed = pa.types.is_signed_integer(array.type)
    return (array.cast(pa.int64()), {}) if signed else None


def _score(array: pa.Array) -> _Cast | None:
    if not pa.types.is_floating(array.type):
        return None
    inside = pc.and_(pc.greater_equal(array, 0.0), pc.less_equal(array, 1.0))
    outside = ~as_mask(pc.fill_null(inside, True))
    return without(array, outside), {"not_a_number": outside}


def _one_by_one(key: str, array: pa.Array, kind: pa.DataType) -> _Cast:
    """Texts and rarer types of numbers by the very function of the row executor."""
    cast = CASTS[key]
    there = valid(array)
    values = array.to_pylist()
    result = [None] * len(values)
    failed: dict[str, Mask] = {}
    for place in np.flatnonzero(there):
        if values[place] == "":
            continue
        try:
            result[place] = cast(values[place])
        except RowError as error:
            failed.setdefault(error.reason, np.zeros(len(values), np.bool_))[place] = True
    return pa.array(result, kind), failed
