"""Values and conditions of the mapping language, compiled to functions of a frame of Arrow columns.

The counterpart of evaluate.py for values that give at most one hit: paths of names and numbers,
literals, concatenations, templates, and the first of several that is not blank.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingot.converters.columnar_frame import (
    Frame,
    Mask,
    NotCarriedError,
    Places,
    as_mask,
    blank,
    plain_type,
    scalar_way,
    text_of,
    valid,
    without,
)
from ingot.converters.evaluate import PathStats
from ingot.converters.language import Condition, Scalar, Value
from ingot.converters.paths import Path, found_text

# A value at every place of a frame that the mask names: an array of scalars, or of text.
Scalars = Callable[[Frame, Mask], pa.Array]
Texts = Callable[[Frame, Mask], pa.Array]


@dataclass(frozen=True, kw_only=True, slots=True)
class Scope:
    """What values are compiled against: the type that their paths start at, and the counts."""

    kind: pa.DataType
    stats: PathStats


def compile_scalars(path: Path, scope: Scope) -> Scalars:
    """A path as a function that gives scalars of one type. Raises NotCarriedError."""
    way = scalar_way(path, scope.kind)
    counter = scope.stats.counter(path)
    return lambda frame, active: frame.look(way, counter, active)


def compile_texts(value: Value, scope: Scope) -> Texts:
    """A value as a function that gives its text, null for nothing. Raises NotCarriedError."""
    if not replace(value, sep="\n").bare:
        raise NotCarriedError("a value with modifiers")
    if value.kind == "literal":
        return _literal(value.literal)
    if value.kind == "template":
        return _template(value, scope)
    if value.kind == "concat":
        return _concat([compile_texts(part, scope) for part in value.parts], value.sep)
    if value.kind == "any_of":
        return _any_of(value, scope)
    return _path_texts(value.path, scope)


def _path_texts(path: Path | None, scope: Scope) -> Texts:
    if path is None:
        raise ValueError("a path value without a path")
    scalars = compile_scalars(path, scope)
    return lambda frame, active: text_of(scalars(frame, active))


def storable(text: str) -> pa.Scalar:
    """A text as an Arrow scalar. Raises NotCarriedError where it is no valid Unicode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise NotCarriedError("a text that is no valid Unicode") from None
    return pa.scalar(text, pa.string())


def _literal(text: str) -> Texts:
    scalar = storable(text)
    return lambda frame, _active: pa.repeat(scalar, frame.size)


def _template(value: Value, scope: Scope) -> Texts:
    pieces = [
        storable(piece) if isinstance(piece, str) else _path_texts(piece, scope)
        for piece in value.template
    ]

    def texts(frame: Frame, active: Mask) -> pa.Array:
        filled = []
        alive = active
        for piece in pieces:
            if not isinstance(piece, pa.Scalar):
                # The rows that a blank placeholder has voided do not look at the next one.
                piece = piece(frame, alive)
                alive = alive & ~blank(piece)
            filled.append(piece)
        whole = _joined(filled, "", frame.size)
        return without(whole, ~alive)

    return texts


def _joined(pieces: list[pa.Array | pa.Scalar], sep: str, size: int) -> pa.Array:
    """Pieces, at least one of them an array, joined row by row; null where one is null."""
    if len(pieces) == 1:
        return pieces[0]
    whole = pc.binary_join_element_wise(*pieces, pa.scalar(sep), null_handling="emit_null")
    return whole if isinstance(whole, pa.Array) else pa.repeat(whole, size)


def _concat(parts: list[Texts], sep: str) -> Texts:
    scalar = storable(sep)

    def texts(frame: Frame, active: Mask) -> pa.Array:
        found = [part(frame, active) for part in parts]
        said = [as_mask(pc.fill_null(pc.greater(pc.binary_length(t), 0), False)) for t in found]
        if all(mask.all() for mask in said):
            return _joined(found, sep, frame.size)
        return _uneven(found, said, scalar)

    return texts


def _uneven(found: list[pa.Array], said: list[Mask], sep: pa.Scalar) -> pa.Array:
    """Join what is there: a separator stands before a part that has one before it."""
    pieces: list[pa.Array] = []
    before = np.zeros(len(said[0]), np.bool_)
    empty = pa.scalar("", pa.string())
    for texts, mask in zip(found, said, strict=True):
        pieces.append(pc.if_else(pa.array(before & mask), sep, empty))
        pieces.append(pc.fill_null(texts, empty))
        before = before | mask
    return without(_joined(pieces, "", len(before)), ~before)


def _any_of(value: Value, scope: Scope) -> Texts:
    if any(part.kind not in ("path", "literal", "template") for part in value.parts):
        raise NotCarriedError("any_of over more than paths, literals and templates")
    parts = [compile_texts(part, scope) for part in value.parts]

    def texts(frame: Frame, active: Mask) -> pa.Array:
        best = pa.nulls(frame.size, pa.string())
        open_places = active
        for part in parts:
            found = part(frame, open_places)
            taken = open_places & ~blank(found)
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
    holds: Callable[[pa.Array], Mask]

    def found(self, array: pa.Array, places: Places) -> list[str]:
        """What stood at the places where the condition did not hold, as rejects show it."""
        return [found_text(value) for value in array.take(pa.array(places)).to_pylist()]


def compile_filter(condition: Condition, scope: Scope) -> Filter:
    """A condition as a filter. Raises NotCarriedError."""
    scalars = compile_scalars(condition.path, scope)
    if condition.op in ("in", "not_in"):
        among = _among(condition.values, scope.kind, condition.path)
        if condition.op == "in":
            return Filter(name=condition.path.text, scalars=scalars, holds=among)
        return Filter(name=condition.path.text, scalars=scalars, holds=lambda array: ~among(array))
    limit, least = condition.limit, condition.op == "min_chars"

    def measured(array: pa.Array) -> Mask:
        lengths = pc.fill_null(pc.utf8_length(text_of(array)), 0).to_numpy()
        held: Mask = lengths >= limit if least else lengths <= limit
        return held

    return Filter(name=condition.path.text, scalars=scalars, holds=measured)


def _among(values: tuple[Scalar, ...], kind: pa.DataType, path: Path) -> Callable[[pa.Array], Mask]:
    """Where a value is one of those stated, by exact JSON equality."""
    leaf = plain_type(scalar_way(path, kind).leaf)
    wanted = [same for v in values if v is not None and (same := _in_type(v, leaf)) is not None]
    null = None in values

    def among(array: pa.Array) -> Mask:
        held = ~valid(array) if null else np.zeros(len(array), np.bool_)
        for scalar in wanted:
            held = held | as_mask(pc.fill_null(pc.equal(array, scalar), False))
        return held

    return among


def _in_type(value: Scalar, leaf: pa.DataType) -> pa.Scalar | None:
    """The one value of a plain type that equals a JSON scalar; None where there is none."""
    types = pa.types
    if isinstance(value, str):
        return storable(value) if types.is_string(leaf) else None
    if isinstance(value, bool):
        return pa.scalar(value) if types.is_boolean(leaf) else None
    if value is None or not (types.is_integer(leaf) or types.is_floating(leaf)):
        return None
    try:
        same = float(value) if types.is_floating(leaf) else int(value)
        return pa.scalar(same, leaf) if same == value else None
    except (OverflowError, ValueError, pa.ArrowInvalid):  # no such number in this type
        return None
