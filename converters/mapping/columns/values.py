"""Values and conditions of the mapping language, compiled to functions of a frame of Arrow columns.

The counterpart of rows/values.py for values that give at most one hit: paths of names and numbers,
literals, concatenations, templates, and the first of several that is not blank.

The six meta values of records as one Arrow struct column.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingot.converters.json_yaml import found_text
from ingot.converters.mapping.columns import frame as frames
from ingot.converters.mapping.language import META_KEYS, Condition, Scalar, Value
from ingot.converters.mapping.rows.executor import CASTS
from ingot.converters.mapping.rows.values import PathStats
from ingot.converters.paths import Path
from ingot.converters.records.schema import META_TYPE
from ingot.converters.rows import RowError

# A value at every place of a frame that the mask names: an array of scalars, or of text.
Scalars = Callable[[frames.Frame, frames.Mask], pa.Array]
Texts = Callable[[frames.Frame, frames.Mask], pa.Array]


@dataclass(frozen=True, kw_only=True, slots=True)
class Scope:
    """What values are compiled against: the type that their paths start at, and the counts."""

    kind: pa.DataType
    stats: PathStats


def compile_scalars(path: Path, scope: Scope) -> Scalars:
    """A path as a function that gives scalars of one type. Raises NotColumnarError."""
    way = frames.locate_scalar(path, scope.kind)
    counter = scope.stats.counter(path)
    return lambda frame, active: frame.look(way, counter, active)


def compile_texts(value: Value, scope: Scope) -> Texts:
    """A value as a function that gives its text, null for nothing. Raises NotColumnarError."""
    if not replace(value, sep="\n").is_bare:
        raise frames.NotColumnarError("a value with modifiers")
    if value.kind == "tree":
        raise frames.NotColumnarError("a tree")
    if value.kind == "literal":
        scalar = text_scalar(value.literal)
        return lambda frame, _active: pa.repeat(scalar, frame.size)
    if value.kind == "template":
        return _compile_template(value, scope)
    if value.kind == "concat":
        return _compile_concat([compile_texts(part, scope) for part in value.parts], value.sep)
    if value.kind == "any_of":
        return _compile_any_of(value, scope)
    return _compile_path_texts(value.path, scope)


def _compile_path_texts(path: Path | None, scope: Scope) -> Texts:
    if path is None:
        raise ValueError("a path value without a path")
    scalars = compile_scalars(path, scope)
    return lambda frame, active: frames.to_text(scalars(frame, active))


def text_scalar(text: str) -> pa.Scalar:
    """A text as an Arrow scalar. Raises NotColumnarError where it is no valid Unicode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise frames.NotColumnarError("a text that is no valid Unicode") from None
    return pa.scalar(text, pa.string())


def _compile_template(value: Value, scope: Scope) -> Texts:
    pieces = [
        text_scalar(piece) if isinstance(piece, str) else _compile_path_texts(piece, scope)
        for piece in value.template
    ]

    def texts(frame: frames.Frame, active: frames.Mask) -> pa.Array:
        filled = []
        alive = active
        for piece in pieces:
            if not isinstance(piece, pa.Scalar):
                # The rows that a blank placeholder has voided do not look at the next one.
                piece = piece(frame, alive)
                alive = alive & ~frames.blank_mask(piece)
            filled.append(piece)
        whole = _join_pieces(filled, "", frame.size)
        return frames.null_where(whole, ~alive)

    return texts


def _join_pieces(pieces: list[pa.Array | pa.Scalar], sep: str, size: int) -> pa.Array:
    """Pieces, at least one of them an array, joined row by row; null where one is null."""
    if len(pieces) == 1:
        return pieces[0]
    whole = pc.binary_join_element_wise(*pieces, pa.scalar(sep), null_handling="emit_null")
    return whole if isinstance(whole, pa.Array) else pa.repeat(whole, size)


def _compile_concat(parts: list[Texts], sep: str) -> Texts:
    scalar = text_scalar(sep)

    def texts(frame: frames.Frame, active: frames.Mask) -> pa.Array:
        found = [part(frame, active) for part in parts]
        said = [frames.said_mask(texts) for texts in found]
        if all(mask.all() for mask in said):
            return _join_pieces(found, sep, frame.size)
        return _join_present(found, said, scalar)

    return texts


def _join_present(found: list[pa.Array], said: list[frames.Mask], sep: pa.Scalar) -> pa.Array:
    """Join what is there: a separator stands before a part that has one before it."""
    pieces: list[pa.Array] = []
    before = np.zeros(len(said[0]), np.bool_)
    empty = pa.scalar("", pa.string())
    for texts, mask in zip(found, said, strict=True):
        pieces.append(pc.if_else(pa.array(before & mask), sep, empty))
        pieces.append(pc.fill_null(texts, empty))
        before = before | mask
    return frames.null_where(_join_pieces(pieces, "", len(before)), ~before)


def _compile_any_of(value: Value, scope: Scope) -> Texts:
    if any(part.kind not in ("path", "literal", "template") for part in value.parts):
        raise frames.NotColumnarError("any_of over more than paths, literals and templates")
    parts = [compile_texts(part, scope) for part in value.parts]

    def texts(frame: frames.Frame, active: frames.Mask) -> pa.Array:
        best = pa.nulls(frame.size, pa.string())
        open_places = active
        for part in parts:
            found = part(frame, open_places)
            taken = open_places & ~frames.blank_mask(found)
            best = pc.if_else(pa.array(taken), found, best)
            open_places = open_places & ~taken
        return best

    return texts


# --- conditions


@dataclass(frozen=True, kw_only=True, slots=True)
class Filter:
    """A condition of `where`: its path, the value that is looked at, and where it holds."""

    name: str
    scalars: Scalars
    holds: Callable[[pa.Array], frames.Mask]

    def found_texts(self, array: pa.Array, places: frames.Places) -> list[str]:
        """What stood at the places where the condition did not hold, as rejects show it."""
        return [found_text(value) for value in array.take(pa.array(places)).to_pylist()]


def compile_filter(condition: Condition, scope: Scope) -> Filter:
    """A condition as a filter. Raises NotColumnarError."""
    scalars = compile_scalars(condition.path, scope)
    if condition.op in ("in", "not_in"):
        among = _compile_equality(condition.values, scope.kind, condition.path)
        if condition.op == "in":
            return Filter(name=condition.path.text, scalars=scalars, holds=among)
        return Filter(name=condition.path.text, scalars=scalars, holds=lambda array: ~among(array))
    limit, least = condition.limit, condition.op == "min_chars"

    def measured(array: pa.Array) -> frames.Mask:
        lengths = pc.fill_null(pc.utf8_length(frames.to_text(array)), 0).to_numpy()
        held: frames.Mask = lengths >= limit if least else lengths <= limit
        return held

    return Filter(name=condition.path.text, scalars=scalars, holds=measured)


def _compile_equality(
    values: tuple[Scalar, ...], kind: pa.DataType, path: Path
) -> Callable[[pa.Array], frames.Mask]:
    """Where a value is one of those stated, by exact JSON equality."""
    leaf = frames.plain_type(frames.locate_scalar(path, kind).leaf)
    wanted = [
        same for v in values if v is not None and (same := _typed_scalar(v, leaf)) is not None
    ]
    null = None in values

    def among(array: pa.Array) -> frames.Mask:
        held = ~frames.valid_mask(array) if null else np.zeros(len(array), np.bool_)
        for scalar in wanted:
            held = held | frames.as_mask(pc.fill_null(pc.equal(array, scalar), False))
        return held

    return among


def _typed_scalar(value: Scalar, leaf: pa.DataType) -> pa.Scalar | None:
    """The one value of a plain type that equals a JSON scalar; None where there is none."""
    types = pa.types
    if isinstance(value, str):
        return text_scalar(value) if types.is_string(leaf) else None
    if isinstance(value, bool):
        return pa.scalar(value) if types.is_boolean(leaf) else None
    if value is None or not (types.is_integer(leaf) or types.is_floating(leaf)):
        return None
    try:
        same = float(value) if types.is_floating(leaf) else int(value)
        return pa.scalar(same, leaf) if same == value else None
    except (OverflowError, ValueError, pa.ArrowInvalid):  # no such number in this type
        return None


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
        """How often values failed in the kept rows."""
        counts = {name: int((rows & kept).sum()) for name, rows in self.failures.items()}
        return Counter({name: count for name, count in counts.items() if count})


def compile_meta(
    values: dict[str, Value], defaults: dict[str, str | None], scope: Scope
) -> Callable[[frames.Frame, frames.Mask], Meta]:
    """The meta values of a layout as one function. Raises NotColumnarError."""
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
        raise frames.NotColumnarError("a number from any_of")
    kind = META_TYPE.field(key).type
    bare = value.path is not None and value.is_bare
    found = compile_scalars(value.path, scope) if bare and value.path else None
    scalars = found or compile_texts(value, scope)
    exact = {"token_count": _integer_column, "quality_score": _score_column}[key]

    def column(frame: frames.Frame, active: frames.Mask) -> _Cast:
        array = scalars(frame, active)
        if pa.types.is_null(array.type):
            return pa.nulls(frame.size, kind), {}
        quick = exact(array)
        return _cast_each(key, array, kind) if quick is None else quick

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


def _cast_each(key: str, array: pa.Array, kind: pa.DataType) -> _Cast:
    """Texts and rarer types of numbers by the very function of the row executor."""
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
