"""Which paths a mapping uses, where, and what the absence of each costs."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ingot.converters.language import (
    Layout,
    Mapping,
    Message,
    RoleFromData,
    Value,
    lay_over,
    value_document,
)
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


def uses(mapping: Mapping) -> Iterator[PathUse]:
    """Every path of a mapping with its pointer into the version 2 document."""
    if mapping.group:
        keys = {f"/group/by/{n}": path for n, path in enumerate(mapping.group.by)}
        if mapping.group.sort:
            keys["/group/sort"] = mapping.group.sort
        for pointer, path in keys.items():
            yield PathUse(pointer=pointer, path=path, scope=(), need="required", of_row=True)
    yield from _layout_uses(mapping.outer, mapping.outer.each, "")
    for number, variant in enumerate(mapping.any_of):
        each = lay_over(mapping.outer, variant).each
        yield from _layout_uses(variant, each, f"/any_of/{number}")


def _layout_uses(layout: Layout, each: Path | None, pointer: str) -> Iterator[PathUse]:
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


def _message_uses(message: Message, pointer: str, scope: Scope) -> Iterator[PathUse]:
    yield from _each_uses(message.each, pointer, scope, "required")
    inner = (*scope, message.each) if message.each else scope
    if isinstance(message.role, RoleFromData):
        path = message.role.path
        yield PathUse(pointer=f"{pointer}/role/path", path=path, scope=inner, need="required")
    if message.content:
        yield from _value_uses(message.content, f"{pointer}/content", inner, "required")
    if isinstance(message.loss_mask, Value):
        yield from _value_uses(message.loss_mask, f"{pointer}/loss_mask", inner, "optional")


def _each_uses(each: tuple[Path, ...], pointer: str, scope: Scope, need: Need) -> Iterator[PathUse]:
    for number, path in enumerate(each):
        place = f"{pointer}/each/{number}" if len(each) > 1 else f"{pointer}/each"
        yield PathUse(pointer=place, path=path, scope=scope, need=need)


def _value_uses(value: Value, pointer: str, scope: Scope, need: Need) -> Iterator[PathUse]:
    yield from _each_uses(value.each, pointer, scope, need)
    inner = (*scope, value.each) if value.each else scope
    spelt = value_document(value)
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
