"""Every path of a mapping in its place, and paths that both sides of a conversation take."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ingot.converters.mapping.language import (
    Condition,
    Layout,
    Mapping,
    Message,
    RoleFromData,
    Tree,
    Value,
    merge_layout,
    path_document,
    value_document,
)
from ingot.converters.mapping.lookup import Lookup
from ingot.converters.paths import Path

Need = Literal["required", "part", "optional"]
# What lies around a path: an `each`, a tree, or the elements for which a message is said.
Around = tuple[Path, ...] | Tree | Message
Scope = tuple[Around, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class PathUse:
    """One path of a mapping in its place."""

    pointer: str
    path: Path
    scope: Scope  # what lies around it, outermost first
    need: Need  # what its absence costs: the record, a part of a text, or an optional value
    of_row: bool = False  # a key of `group`, looked up in the rows before they are grouped


def path_uses(mapping: Mapping) -> Iterator[PathUse]:
    """Yield every path of a mapping with its pointer into the version 2 document."""
    if mapping.group:
        keys = {f"/group/by/{n}": path for n, path in enumerate(mapping.group.by)}
        if mapping.group.sort:
            keys["/group/sort"] = mapping.group.sort
        for pointer, path in keys.items():
            yield PathUse(pointer=pointer, path=path, scope=(), need="required", of_row=True)
    yield from _layout_uses(mapping.outer, mapping.outer.each, "")
    for number, variant in enumerate(mapping.any_of):
        each = merge_layout(mapping.outer, variant).each
        yield from _layout_uses(variant, each, f"/any_of/{number}")


def _layout_uses(layout: Layout, each: tuple[Path, ...], pointer: str) -> Iterator[PathUse]:
    yield from _each_uses(layout.each, pointer, (), "required")
    scope: Scope = (each,) if each else ()
    yield from _where_uses(layout.where, pointer, scope)
    if layout.text:
        yield from _value_uses(layout.text, f"{pointer}/text", scope, "required")
    for number, message in enumerate(layout.messages or ()):
        yield from _message_uses(message, f"{pointer}/messages/{number}", scope)
    for key in ("system", "tools"):
        value = getattr(layout, key)
        if value:
            yield from _value_uses(value, f"{pointer}/{key}", scope, "optional")
    for key, value in layout.meta.items():
        yield from _value_uses(value, f"{pointer}/meta/{key}", scope, "optional")


def _message_uses(message: Message, pointer: str, scope: Scope) -> Iterator[PathUse]:
    yield from _each_uses(message.each, pointer, scope, "required")
    elements = (*scope, message.each) if message.each else scope
    yield from _where_uses(message.where, pointer, elements)
    inner = message_scope(message, scope)
    if isinstance(message.role, RoleFromData):
        yield from _place_uses(message.role.path, f"{pointer}/role/path", inner, "required")
    if message.content:
        yield from _value_uses(message.content, f"{pointer}/content", inner, "required")
    if isinstance(message.loss_mask, Value):
        yield from _value_uses(message.loss_mask, f"{pointer}/loss_mask", inner, "optional")


def message_scope(message: Message, scope: Scope) -> Scope:
    """Return the scope of the role and content of a message."""
    return (*scope, message) if message.each or message.where else scope


def _where_uses(where: tuple[Condition, ...], pointer: str, scope: Scope) -> Iterator[PathUse]:
    for number, condition in enumerate(where):
        place = f"{pointer}/where/{number}/path"
        yield from _place_uses(condition.path, place, scope, "part")


def _each_uses(each: tuple[Path, ...], pointer: str, scope: Scope, need: Need) -> Iterator[PathUse]:
    for number, path in enumerate(each):
        place = f"{pointer}/each/{number}" if len(each) > 1 else f"{pointer}/each"
        yield PathUse(pointer=place, path=path, scope=scope, need=need)


def _place_uses(path: Path, pointer: str, scope: Scope, need: Need) -> Iterator[PathUse]:
    """A path; before a lookup its parts."""
    if isinstance(path, Lookup):
        for name, part in path.parts.items():
            inside = scope if name in ("lookup", "of") else (*scope, (path.parts["lookup"],))
            yield PathUse(pointer=f"{pointer}/{name}", path=part, scope=inside, need=need)
    yield PathUse(pointer=pointer, path=path, scope=scope, need=need)


def _value_uses(value: Value, pointer: str, scope: Scope, need: Need) -> Iterator[PathUse]:
    yield from _each_uses(value.each, pointer, scope, need)
    inner = (*scope, value.each) if value.each else scope
    spelt = value_document(value)
    if value.path:
        place = pointer if spelt == path_document(value.path) else f"{pointer}/path"
        yield from _place_uses(value.path, place, inner, need)
    part_need: Need = "part" if need == "required" else need
    for path in value.template:
        if isinstance(path, Path):
            yield PathUse(pointer=f"{pointer}/template", path=path, scope=inner, need=part_need)
    if value.tree:
        path, below = value.tree.path, (*inner, value.tree)
        yield PathUse(pointer=f"{pointer}/tree", path=path, scope=inner, need=need)
        path = value.tree.children
        yield PathUse(pointer=f"{pointer}/children", path=path, scope=below, need=part_need)
        yield from _value_uses(value.tree.text, f"{pointer}/text", below, part_need)
    base = pointer if isinstance(spelt, list) else f"{pointer}/{value.kind}"
    for number, part in enumerate(value.parts):
        yield from _value_uses(part, f"{base}/{number}", inner, part_need)
    for key, one in value.picking_values().items():
        yield from _value_uses(one, f"{pointer}/{key}", scope, part_need)


_ASKING_ROLES = ("user", "tool")
_IN_STEP = re.compile(r"\[([0-9]+)\]\.?(.*)")
_OPTION = re.compile(r"(?:^|\W)[(\[]?[A-Za-z0-9][.):\]]\s*$")

Leaf = tuple[str, tuple[str, ...]]  # a path from the row on, and how its hits are changed


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedPath:
    """One path on both sides: where it answers, where it asks (JSON Pointers), and the path."""

    answer: str
    question: str
    path: str


def shared_paths(mapping: Mapping) -> Iterator[SharedPath]:
    """Yield every path that the user's and the assistant's side of a layout both use plainly."""
    seen: set[tuple[str, str]] = set()
    for pointer, layout in _layouts(mapping):
        asked = list(_leaves(layout, pointer, _ASKING_ROLES))
        for place, leaf, where in _leaves(layout, pointer, ("assistant",)):
            # Entries with other conditions may split one list between the sides.
            alike = ((p, other) for p, one, other in asked if one == leaf)
            twins = (p for p, other in alike if not (where and other) or where == other)
            question = next(twins, None)
            if question is not None and (place, leaf[0]) not in seen:
                seen.add((place, leaf[0]))
                yield SharedPath(answer=place, question=question, path=leaf[0])


def _layouts(mapping: Mapping) -> Iterator[tuple[str, Layout]]:
    if not mapping.any_of:
        yield "", mapping.outer
    for number, variant in enumerate(mapping.any_of):
        pointer = f"/any_of/{number}" if variant.messages else ""
        yield pointer, merge_layout(mapping.outer, variant)


def _leaves(
    layout: Layout, pointer: str, roles: tuple[str, ...]
) -> Iterator[tuple[str, Leaf, tuple[Condition, ...]]]:
    for number, message in enumerate(layout.messages or ()):
        if message.role in roles and message.content:
            place = f"{pointer}/messages/{number}/content"
            for path, changes in _value_leaves(message.content):
                yield place, (outer_path(message.each, path), changes), message.where


def _value_leaves(value: Value) -> Iterator[Leaf]:
    """The paths that a value always takes; of `any_of` nobody knows which it is."""
    if value.kind in ("any_of", "literal"):
        return
    changes = tuple(
        f"{one.key} {sorted(said.items(), key=str)}" if isinstance(said, dict) else one.key
        for one, said in value.modifiers().items()
        if one.alters
    )
    for path, inner in _own_leaves(value):
        yield outer_path(value.each, path), (*inner, *changes)


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
    if value.tree:
        for path, inner in _value_leaves(value.tree.text):
            yield outer_path((value.tree.path,), path), inner


def outer_path(each: tuple[Path, ...], path: str) -> str:
    """Return a path as seen from outside of its `each`."""
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
