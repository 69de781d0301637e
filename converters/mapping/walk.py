"""Every path that a mapping uses: where, what its absence costs, and which side it serves."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ingot.converters.mapping import language
from ingot.converters.paths import Path

Need = Literal["required", "part", "optional"]
Scope = tuple[tuple[Path, ...], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class PathUse:
    """One path of a mapping in its place.

    `scope` are the `each` around it, outermost first; `need` says what its absence costs: the
    record (`required`), a part of a text (`part`), or an optional value. `of_row` marks the keys of
    `group`, which are looked up in the rows before they are grouped.
    """

    pointer: str
    path: Path
    scope: Scope
    need: Need
    of_row: bool = False


def path_uses(mapping: language.Mapping) -> Iterator[PathUse]:
    """Every path of a mapping with its pointer into the version 2 document."""
    if mapping.group:
        keys = {f"/group/by/{n}": path for n, path in enumerate(mapping.group.by)}
        if mapping.group.sort:
            keys["/group/sort"] = mapping.group.sort
        for pointer, path in keys.items():
            yield PathUse(pointer=pointer, path=path, scope=(), need="required", of_row=True)
    yield from _layout_uses(mapping.outer, mapping.outer.each, "")
    for number, variant in enumerate(mapping.any_of):
        each = language.merge_layout(mapping.outer, variant).each
        yield from _layout_uses(variant, each, f"/any_of/{number}")


def _layout_uses(layout: language.Layout, each: Path | None, pointer: str) -> Iterator[PathUse]:
    if layout.each:
        yield PathUse(pointer=f"{pointer}/each", path=layout.each, scope=(), need="required")
    scope: Scope = ((each,),) if each else ()
    for number, condition in enumerate(layout.where):
        place = f"{pointer}/where/{number}/path"
        yield PathUse(pointer=place, path=condition.path, scope=scope, need="part")
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


def _message_uses(message: language.Message, pointer: str, scope: Scope) -> Iterator[PathUse]:
    yield from _each_uses(message.each, pointer, scope, "required")
    inner = (*scope, message.each) if message.each else scope
    if isinstance(message.role, language.RoleFromData):
        path = message.role.path
        yield PathUse(pointer=f"{pointer}/role/path", path=path, scope=inner, need="required")
    if message.content:
        yield from _value_uses(message.content, f"{pointer}/content", inner, "required")
    if isinstance(message.loss_mask, language.Value):
        yield from _value_uses(message.loss_mask, f"{pointer}/loss_mask", inner, "optional")


def _each_uses(each: tuple[Path, ...], pointer: str, scope: Scope, need: Need) -> Iterator[PathUse]:
    for number, path in enumerate(each):
        place = f"{pointer}/each/{number}" if len(each) > 1 else f"{pointer}/each"
        yield PathUse(pointer=place, path=path, scope=scope, need=need)


def _value_uses(value: language.Value, pointer: str, scope: Scope, need: Need) -> Iterator[PathUse]:
    yield from _each_uses(value.each, pointer, scope, need)
    inner = (*scope, value.each) if value.each else scope
    spelt = language.value_document(value)
    if value.path:
        place = pointer if isinstance(spelt, str) else f"{pointer}/path"
        yield PathUse(pointer=place, path=value.path, scope=inner, need=need)
    part_need: Need = "part" if need == "required" else need
    for path in value.template:
        if isinstance(path, Path):
            yield PathUse(pointer=f"{pointer}/template", path=path, scope=inner, need=part_need)
    base = pointer if isinstance(spelt, list) else f"{pointer}/{value.kind}"
    for number, part in enumerate(value.parts):
        yield from _value_uses(part, f"{base}/{number}", inner, part_need)
    if value.pick:
        yield from _value_uses(value.pick, f"{pointer}/pick", scope, part_need)


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


def shared_paths(mapping: language.Mapping) -> Iterator[SharedPath]:
    """Every path that the user's side and the assistant's side of one layout both take plainly."""
    seen: set[tuple[str, str]] = set()
    for pointer, layout in _layouts(mapping):
        asked = {leaf: place for place, leaf in _leaves(layout, pointer, _ASKING_ROLES)}
        for place, leaf in _leaves(layout, pointer, ("assistant",)):
            if leaf in asked and (place, leaf[0]) not in seen:
                seen.add((place, leaf[0]))
                yield SharedPath(answer=place, question=asked[leaf], path=leaf[0])


def _layouts(mapping: language.Mapping) -> Iterator[tuple[str, language.Layout]]:
    if not mapping.any_of:
        yield "", mapping.outer
    for number, variant in enumerate(mapping.any_of):
        pointer = f"/any_of/{number}" if variant.messages else ""
        yield pointer, language.merge_layout(mapping.outer, variant)


def _leaves(
    layout: language.Layout, pointer: str, roles: tuple[str, ...]
) -> Iterator[tuple[str, Leaf]]:
    for number, message in enumerate(layout.messages or ()):
        if message.role in roles and message.content:
            place = f"{pointer}/messages/{number}/content"
            for leaf in _message_leaves(message):
                yield place, leaf


def _message_leaves(message: language.Message) -> Iterator[Leaf]:
    if message.content is None:
        return
    for path, changes in _value_leaves(message.content):
        yield outer_path(message.each, path), changes


def _value_leaves(value: language.Value) -> Iterator[Leaf]:
    """The paths that a value always takes; of `any_of` nobody knows which it is."""
    if value.kind in ("any_of", "literal"):
        return
    changes = tuple(_modifier_texts(value))
    for path, inner in _own_leaves(value):
        yield outer_path(value.each, path), (*inner, *changes)


def _own_leaves(value: language.Value) -> Iterator[Leaf]:
    if value.path:
        yield value.path.text, ()
    for number, piece in enumerate(value.template):
        if isinstance(piece, Path):
            before = value.template[number - 1] if number else ""
            labelled = isinstance(before, str) and _OPTION.search(before)
            yield piece.text, ("option",) if labelled else ()
    for part in value.parts:
        yield from _value_leaves(part)


def _modifier_texts(value: language.Value) -> Iterator[str]:
    if value.pick:
        yield "pick"
    if value.label:
        yield "label"
    for word, table in (("map", value.map), ("replace", value.replace)):
        if table:
            yield f"{word} {sorted(table.items(), key=str)}"


def outer_path(each: tuple[Path, ...], path: str) -> str:
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
