"""Every path of a mapping in its place, and paths that both sides of a conversation take."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from ingot.converters.mapping.language import (
    NEEDS,
    Condition,
    Layout,
    Mapping,
    Message,
    Need,
    Reach,
    Tree,
    Value,
    merge_layout,
)
from ingot.converters.mapping.lookup import Lookup
from ingot.converters.paths import Path

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
    for use in _uses(mapping.group, "/group", (), "required"):
        yield replace(use, of_row=True)
    yield from _uses(mapping.outer, "", (), "required")
    outer = mapping.outer.each
    for number, variant in enumerate(mapping.any_of):
        around: Scope = (outer,) if outer and not variant.each else ()
        yield from _uses(variant, f"/any_of/{number}", around, "required")


def _uses(part: object, pointer: str, scope: Scope, need: Need) -> Iterator[PathUse]:
    """The paths of what stands at a pointer, field by field; before a lookup its parts."""
    inner: Iterable[tuple[object, str, Scope, Need]] = ()
    if isinstance(part, Lookup):
        inner = _lookup_parts(part, pointer, scope, need)
    elif is_dataclass(part):
        inner = _field_parts(part, pointer, scope, need)
    elif isinstance(part, dict):
        inner = [(one, f"{pointer}/{key}", scope, need) for key, one in part.items()]
    elif isinstance(part, tuple):
        inner = [(one, f"{pointer}/{number}", scope, need) for number, one in enumerate(part)]
    for one in inner:
        yield from _uses(*one)
    if isinstance(part, Path):
        yield PathUse(pointer=pointer, path=part, scope=scope, need=need)


def _lookup_parts(
    path: Lookup, pointer: str, scope: Scope, need: Need
) -> Iterator[tuple[object, str, Scope, Need]]:
    for name, part in path.parts.items():
        inside = scope if name in ("lookup", "of") else (*scope, (path.parts["lookup"],))
        yield part, f"{pointer}/{name}", inside, need


def _field_parts(
    node: Any,  # noqa: ANN401 - any node of the tree
    pointer: str,
    scope: Scope,
    need: Need,
) -> Iterator[tuple[object, str, Scope, Need]]:
    for one in fields(node):
        reach = one.metadata.get(Reach, Reach())
        place = f"{pointer}{_field_key(node, one.name)}"
        inside = scope if reach.outside else _inner_scope(node, one.name, scope)
        weaker = max(need, reach.need, key=NEEDS.index)
        stated = getattr(node, one.name)
        if one.name == "template" or (one.name == "each" and len(stated) == 1):
            yield from ((piece, place, inside, weaker) for piece in stated)
        else:
            yield stated, place, inside, weaker


def _field_key(node: object, name: str) -> str:
    """The step from a node to a field of it; there is none where the node is spelled short."""
    if isinstance(node, Tree):
        return "/tree" if name == "path" else f"/{name}"
    if not isinstance(node, Value):
        return f"/{name}"
    if name == "tree" or (name in ("path", "parts") and node.is_spelled_short):
        return ""
    return f"/{node.kind}" if name == "parts" else f"/{name}"


def _inner_scope(node: object, name: str, scope: Scope) -> Scope:
    """What lies around a field that starts at the elements of its node."""
    if isinstance(node, Tree):
        return (*scope, node)
    if isinstance(node, Message) and name != "where":
        return message_scope(node, scope)
    each = getattr(node, "each", ())
    return (*scope, each) if each else scope


def message_scope(message: Message, scope: Scope) -> Scope:
    """Return the scope of the role and content of a message."""
    return (*scope, message) if message.each or message.where else scope


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
