"""Paths that a mapping uses twice: for what is asked and for what is answered.

An answer that stands in its own question teaches nothing. Another use of the same path is no fault:
an option picked from a list that is shown, a number that is mapped to a word, parts with a label.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ingot.converters.language import Layout, Mapping, Message, Value, lay_over
from ingot.converters.paths import Path

_ASKED = ("user", "tool")
_IN_STEP = re.compile(r"\[([0-9]+)\]\.?(.*)")
_OPTION = re.compile(r"(?:^|\W)[(\[]?[A-Za-z0-9][.):\]]\s*$")

Leaf = tuple[str, tuple[str, ...]]  # a path from the row on, and how its hits are changed


@dataclass(frozen=True, kw_only=True, slots=True)
class Shared:
    """One path on both sides: where it answers, where it asks (JSON Pointers), and the path."""

    answer: str
    question: str
    path: str


def shared_paths(mapping: Mapping) -> Iterator[Shared]:
    """Every path that the user's side and the assistant's side of one layout both take plainly."""
    seen: set[tuple[str, str]] = set()
    for pointer, layout in _layouts(mapping):
        asked = {leaf: place for place, leaf in _leaves(layout, pointer, _ASKED)}
        for place, leaf in _leaves(layout, pointer, ("assistant",)):
            if leaf in asked and (place, leaf[0]) not in seen:
                seen.add((place, leaf[0]))
                yield Shared(answer=place, question=asked[leaf], path=leaf[0])


def _layouts(mapping: Mapping) -> Iterator[tuple[str, Layout]]:
    if not mapping.any_of:
        yield "", mapping.outer
    for number, variant in enumerate(mapping.any_of):
        pointer = f"/any_of/{number}" if variant.messages else ""
        yield pointer, lay_over(mapping.outer, variant)


def _leaves(layout: Layout, pointer: str, roles: tuple[str, ...]) -> Iterator[tuple[str, Leaf]]:
    for number, message in enumerate(layout.messages or ()):
        if message.role in roles and message.content:
            place = f"{pointer}/messages/{number}/content"
            for leaf in _message_leaves(message):
                yield place, leaf


def _message_leaves(message: Message) -> Iterator[Leaf]:
    if message.content is None:
        return
    for path, changes in _value_leaves(message.content):
        yield inside(message.each, path), changes


def _value_leaves(value: Value) -> Iterator[Leaf]:
    """The paths that a value always takes; of `any_of` nobody knows which it is."""
    if value.kind in ("any_of", "literal"):
        return
    changes = tuple(_changes(value))
    for path, inner in _own_leaves(value):
        yield inside(value.each, path), (*inner, *changes)


def _own_leaves(value: Value) -> Iterator[Leaf]:
    if value.path:
        yield value.path.text, ()
    for number, piece in enumerate(value.template):
        if isinstance(piece, Path):
            before = value.template[number - 1] if number else ""
            labelled = isinstance(before, str) and _OPTION.search(before)
            yield piece.text, ("option",) if labelled else ()
    for part in value.parts:
        yield from _value_leaves(part)


def _changes(value: Value) -> Iterator[str]:
    if value.pick:
        yield "pick"
    if value.label:
        yield "label"
    for word, table in (("map", value.map), ("replace", value.replace)):
        if table:
            yield f"{word} {sorted(table.items(), key=str)}"


def inside(each: tuple[Path, ...], path: str) -> str:
    """A path as seen from outside of its `each`."""
    if not each:
        return path
    around = each[0].text
    if len(each) > 1:
        step = _IN_STEP.fullmatch(path)
        if step is None or int(step[1]) >= len(each):
            return f"{' with '.join(one.text for one in each)} › {path}"
        around, path = each[int(step[1])].text, step[2] or "$"
    if path == "$":
        return around
    return f"{around}{path}" if path.startswith("[") else f"{around}.{path}"
