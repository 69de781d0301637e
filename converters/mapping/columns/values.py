"""Values and conditions of the mapping language, compiled to functions of a frame of Arrow columns.

The counterpart of rows/values.py. What gives at most one hit at a place (paths of names and
numbers, literals, templates, concatenations, the first of several that is not blank) is an array
over the frame; what may give several, or takes labels and picks, is hits with their owners.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingot.converters.mapping.columns import frame as frames
from ingot.converters.mapping.columns.scope import (
    NotColumnarError,
    Scope,
    locate_each,
    locate_lists,
    locate_scalar,
)
from ingot.converters.mapping.language import Condition, Scalar, Value
from ingot.converters.mapping.rows.conditions import compile_condition
from ingot.converters.mapping.rows.values import (
    choice_index,
    compile_replace,
    json_text,
    number_label,
)
from ingot.converters.paths import Path
from ingot.converters.sources.documents import html_text

# A value at every place of a frame that the mask names: an array of scalars, or of text.
Scalars = Callable[[frames.Frame, frames.Mask], pa.Array]
Texts = Callable[[frames.Frame, frames.Mask], pa.Array]


class Hits(NamedTuple):
    """What a value finds, hit by hit: null is a place that holds nothing."""

    array: pa.Array
    owners: frames.Places  # in the frame, in order
    numbers: frames.Places  # count the hits of each from 0


_HitsOf = Callable[[frames.Frame, frames.Mask], Hits]
_Stage = Callable[[frames.Frame, Hits], Hits]


def compile_scalars(path: Path, scope: Scope) -> Scalars:
    """Return a path as a function that gives scalars of one type. Raises NotColumnarError."""
    way = locate_scalar(path, scope)
    counter = scope.stats.counter(path)
    return lambda frame, active: frame.look(way, counter, active)


def compile_texts(value: Value, scope: Scope) -> Texts:
    """Return a value as a function that gives its text, null for nothing.

    Raises NotColumnarError.
    """
    if replace(value, sep="\n", as_json=False).is_bare and not _may_be_several(value):
        return _compile_form(value, scope)
    hits, sep = _compile_hits(value, scope), text_scalar(value.sep)
    return lambda frame, active: _join_hits(hits(frame, active), frame.size, sep)


def _may_be_several(value: Value) -> bool:
    path = value.path
    return bool(value.each) or (path is not None and path.first_wildcard is not None)


def _compile_form(value: Value, scope: Scope) -> Texts:
    if value.kind == "tree":
        raise NotColumnarError("a tree")
    if value.kind == "literal":
        literal = text_scalar(value.literal)
        return lambda frame, _active: _repeat_literal(literal, frame)
    if value.kind == "template":
        return _compile_template(value, scope)
    if value.kind == "concat":
        return _compile_concat([compile_texts(part, scope) for part in value.parts], value.sep)
    if value.kind == "any_of":
        return _compile_any_of(value, scope)
    if value.path is None:
        raise ValueError("a path value without a path")
    scalars = compile_scalars(value.path, scope)
    return lambda frame, active: frames.to_text(scalars(frame, active))


def _repeat_literal(scalar: pa.Scalar, frame: frames.Frame) -> pa.Array:
    frame.count_repeated(scalar.as_buffer().size * frame.size)
    return pa.repeat(scalar, frame.size)


# --- values with several hits


def _compile_hits(value: Value, scope: Scope) -> _HitsOf:
    hits = _compile_each(value, scope) if value.each else _compile_form_hits(value, scope)
    if value.pick is not None:
        hits = _compile_pick(hits, value.pick, scope)
    stages = list(_hit_stages(value))

    def staged(frame: frames.Frame, active: frames.Mask) -> Hits:
        found = hits(frame, active)
        found = found._replace(array=frames.to_text(found.array))
        for stage in stages:
            found = stage(frame, found)
        return found

    return staged if stages else hits


def _compile_each(value: Value, scope: Scope) -> _HitsOf:
    ways, inner = locate_each(value.each, scope)
    form = _compile_form_hits(value, inner)

    def hits(frame: frames.Frame, active: frames.Mask) -> Hits:
        elements, owners = frames.spread_each(ways, replace(frame, active=active))
        found = form(elements, elements.active)
        owners = owners[found.owners]
        return Hits(found.array, owners, frames.number_places(owners))

    return hits


def _compile_form_hits(value: Value, scope: Scope) -> _HitsOf:
    if value.kind == "path" and value.path:
        return _compile_path_hits(value.path, scope)
    if value.kind == "any_of":
        raise NotColumnarError("any_of with modifiers")
    if value.kind == "concat":
        parts = [compile_texts(part, scope) for part in value.parts]

        return lambda frame, active: _interleave([part(frame, active) for part in parts], active)
    texts = _compile_form(value, scope)

    def find_hits(frame: frames.Frame, active: frames.Mask) -> Hits:
        found = texts(frame, active)
        there = frames.valid_mask(found) & active
        owners = np.flatnonzero(there)
        return Hits(frames.filter_array(found, there), owners, np.zeros(len(owners), np.int64))

    return find_hits


def _interleave(parts: list[pa.Array], active: frames.Mask) -> Hits:
    """The texts of several parts as hits, part by part; an empty one says nothing."""
    size = len(active)
    chosen = np.arange(len(parts) * size).reshape(len(parts), size).T[active].ravel()
    array = pa.concat_arrays(parts).take(pa.array(chosen))
    array = frames.null_where(array, ~frames.said_mask(array))
    return Hits(array, chosen % max(size, 1), chosen // max(size, 1))


def _compile_path_hits(path: Path, scope: Scope) -> _HitsOf:
    ways, rest, inner = locate_lists(path, scope)
    way, counter = locate_scalar(rest, inner), scope.stats.counter(path)

    def hits(frame: frames.Frame, active: frames.Mask) -> Hits:
        elements, owners = frames.spread_each(ways, replace(frame, active=active))
        array, there = elements.scalars(way)
        kept = elements.active if there is None else elements.active & there
        owners = owners[kept]
        found = Hits(frames.filter_array(array, kept), owners, frames.number_places(owners))
        some, said = (np.zeros(frame.size, np.bool_) for _ in range(2))
        some[owners] = True
        said[owners[frames.valid_mask(found.array)]] = True
        frame.looks.append(frames.Evaluation(counter, active, some, said, frame.rows))
        return found

    return hits


def _by_value(array: pa.Array, of: Callable[[Any], Any], kind: type[np.generic]) -> Any:  # noqa: ANN401
    """What a function gives for each value, called once for each that differs."""
    if pa.types.is_null(array.type):
        return np.full(len(array), of(None), kind)
    found = array.dictionary_encode()
    by_value = np.array([*map(of, found.dictionary.to_pylist()), of(None)], kind)
    return by_value[pc.fill_null(found.indices, len(by_value) - 1).to_numpy()]


_NOTHING, _BAD = -1, -2


def _compile_pick(hits: _HitsOf, pick: Value, scope: Scope) -> _HitsOf:
    """The one hit that a number or a letter names; it keeps its number."""
    if pick.path is None or not replace(pick, count_from=0).is_bare:
        raise NotColumnarError("a pick that is no path")
    scalars = compile_scalars(pick.path, scope)

    def place_of(choice: object) -> int:
        if choice is None or choice == "":
            return _NOTHING
        place = choice_index(choice, pick.count_from)
        return _BAD if place is None or place > np.iinfo(np.int64).max else place

    def picked(frame: frames.Frame, active: frames.Mask) -> Hits:
        chosen = _by_value(scalars(frame, active), place_of, np.int64)
        asked = active & (chosen != _NOTHING)
        array, owners, numbers = hits(frame, asked)
        counts = np.bincount(owners, minlength=frame.size)
        frame.fail(asked & ((chosen == _BAD) | (chosen >= counts)))
        kept = numbers == chosen[owners]
        return Hits(frames.filter_array(array, kept), owners[kept], numbers[kept])

    return picked


def _hit_stages(value: Value) -> Iterator[_Stage]:
    if value.map is not None:
        yield _compile_map(value.map)
    if value.text_of_html:
        yield _show_html
    if value.replace:
        swap = compile_replace(value.replace)
        yield lambda _frame, hits: hits._replace(
            array=pa.array(
                [None if t is None else swap(t) for t in hits.array.to_pylist()], pa.string()
            )
        )
    if value.label is not None:
        label = value.label
        yield lambda _frame, hits: hits._replace(array=_labelled(label, hits))


def _show_html(frame: frames.Frame, hits: Hits) -> Hits:
    """The text that HTML shows; the row executor gets what is counted, and what is refused."""
    shown = [
        text if text is None or html_text.may_hold_data(text) else html_text.shown_text(text)
        for text in hits.array.to_pylist()
    ]
    refused = np.zeros(frame.size, np.bool_)
    refused[hits.owners[np.array([isinstance(one, str) for one in shown], np.bool_)]] = True
    frame.fail(refused)
    texts = [one.text if isinstance(one, html_text.ShownText) else None for one in shown]
    return hits._replace(array=pa.array(texts, pa.string()))


def _compile_map(table: dict[str, Scalar]) -> _Stage:
    keys = pa.array([text_scalar(key).as_py() for key in table], pa.string())
    texts = [None if meant is None else json_text(meant) for meant in table.values()]
    other = texts[list(table).index("*")] if "*" in table else None
    meant = pa.array([t and text_scalar(t).as_py() for t in (*texts, other)], pa.string())

    def mapped(frame: frames.Frame, hits: Hits) -> Hits:
        there = frames.valid_mask(hits.array)
        found = pc.fill_null(pc.index_in(hits.array, keys, skip_nulls=True), len(table))
        if "*" not in table:
            unknown = np.zeros(frame.size, np.bool_)
            unknown[hits.owners[there & (found.to_numpy() == len(table))]] = True
            frame.fail(unknown)
        return hits._replace(array=frames.null_where(meant.take(found), ~there))

    return mapped


def _labelled(label: str, hits: Hits) -> pa.Array:
    """Hits behind the labels of their numbers, null for those that say nothing."""
    most = int(hits.numbers.max(initial=-1)) + 1
    labels = pa.array([number_label(label, number) for number in range(most)], pa.string())
    whole = pc.binary_join_element_wise(labels.take(pa.array(hits.numbers)), hits.array, "")
    return frames.null_where(whole, ~frames.said_mask(hits.array))


def _join_hits(hits: Hits, size: int, sep: pa.Scalar) -> pa.Array:
    """The text of the hits of each place, null for none; those that say nothing are dropped."""
    texts = frames.to_text(hits.array)
    said = frames.said_mask(texts)
    counts = np.bincount(hits.owners[said], minlength=size)
    offsets = pa.array(np.concatenate(([0], np.cumsum(counts))), pa.int32())
    lists = pa.ListArray.from_arrays(offsets, frames.filter_array(texts, said))
    return frames.null_where(pc.binary_join(lists, sep), counts == 0)


def text_scalar(text: str) -> pa.Scalar:
    """Return a text as an Arrow scalar. Raises NotColumnarError if it is no valid Unicode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise NotColumnarError("a text that is no valid Unicode") from None
    return pa.scalar(text, pa.string())


def _compile_template(value: Value, scope: Scope) -> Texts:
    pieces = [
        text_scalar(piece)
        if isinstance(piece, str)
        else compile_texts(Value(kind="path", path=piece), scope)
        for piece in value.template
    ]
    width = sum(piece.as_buffer().size for piece in pieces if isinstance(piece, pa.Scalar))

    def texts(frame: frames.Frame, active: frames.Mask) -> pa.Array:
        frame.count_repeated(width * frame.size)
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
        if all(frames.said_mask(texts).all() for texts in found):
            return _join_pieces(found, sep, frame.size)
        return _join_hits(_interleave(found, active), frame.size, scalar)

    return texts


def _compile_any_of(value: Value, scope: Scope) -> Texts:
    if any(part.kind not in ("path", "literal", "template") for part in value.parts):
        raise NotColumnarError("any_of over more than paths, literals and templates")
    if value.sep != "\n" and any(_may_be_several(part) for part in value.parts):
        raise NotColumnarError("any_of with a separator")
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


def compile_filter(condition: Condition, scope: Scope) -> Filter:
    """Return a condition as a filter. Raises NotColumnarError."""
    scalars = compile_scalars(condition.path, scope)
    if condition.op in ("in", "not_in"):
        holds = partial(
            _by_value, of=compile_condition(condition, scope.stats).holds, kind=np.bool_
        )
        return Filter(name=condition.path.text, scalars=scalars, holds=holds)
    limit, least = condition.limit, condition.op == "min_chars"

    def measured(array: pa.Array) -> frames.Mask:
        lengths = pc.fill_null(pc.utf8_length(frames.to_text(array)), 0).to_numpy()
        held: frames.Mask = lengths >= limit if least else lengths <= limit
        return held

    return Filter(name=condition.path.text, scalars=scalars, holds=measured)
