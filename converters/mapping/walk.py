"""Walk over the tree of a mapping and rewrite it, as the fields of its nodes say."""

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, NamedTuple, TypeVar

from ingot.converters.mapping.language import Condition, Group, Layout, Mapping, Message, Value
from ingot.converters.mapping.lookup import Lookup
from ingot.converters.paths import Path

Kind = TypeVar("Kind")
Node = TypeVar("Node")
# What stands as one part of a mapping: a fact about the files is a text or several.
Part = Group | Condition | Message | Value | tuple[Path, ...] | str | tuple[str | int, ...]


def walk(node: object, kind: type[Kind]) -> Iterator[Kind]:
    """Yield what is of a kind in a part of a mapping, the part itself among it, field by field."""
    if isinstance(node, kind):
        yield node
    for inner in _inner_nodes(node):
        yield from walk(inner, kind)


def _inner_nodes(node: object) -> Iterator[object]:
    if is_dataclass(node):
        yield from (getattr(node, one.name) for one in fields(node))
    elif isinstance(node, dict):
        yield from node.values()
    elif isinstance(node, tuple):
        yield from node


def rewrite(node: Node, change: Callable[[str, Any], Any], name: str = "") -> Node:
    """Return a part of a mapping with `change` made of all that is in it, the innermost first.

    `change` takes the name of the field that something stands in, and what stands there.
    """
    made: Any = node
    if is_dataclass(node):
        inner = {one.name: getattr(node, one.name) for one in fields(node) if one.init}
        made = replace(
            made, **{key: rewrite(value, change, key) for key, value in inner.items() if value}
        )
    elif isinstance(node, dict):
        made = {key: rewrite(value, change, name) for key, value in node.items()}
    elif isinstance(node, tuple):
        made = tuple(rewrite(value, change, name) for value in node)
    changed: Node = change(name, made)
    return changed


class MappingPart(NamedTuple):
    """A stated part: its key (`source.root`, `where`, `meta.language`), JSON Pointer and value.

    Conditions have the key `where`, messages `messages`, one part each.
    """

    key: str
    pointer: str
    value: Part


def outer_parts(mapping: Mapping) -> Iterator[MappingPart]:
    """Walk over what holds for all alternatives and stands in no layout: `source` and `group`."""
    for one in fields(mapping.source):
        fact = getattr(mapping.source, one.name)
        if fact is not None:
            yield MappingPart(f"source.{one.name}", f"/source/{one.name}", fact)
    if mapping.group:
        yield MappingPart("group", "/group", mapping.group)


def mapping_layouts(mapping: Mapping) -> Iterator[tuple[str, Layout]]:
    """Walk over the outer layout and the alternatives as they are stated, each with its pointer."""
    yield "", mapping.outer
    for number, variant in enumerate(mapping.any_of):
        yield f"/any_of/{number}", variant


def layout_parts(layout: Layout, pointer: str = "") -> Iterator[MappingPart]:
    """Walk over the parts of a layout: the outer one, or one of the alternatives."""
    for key in (one.name for one in fields(layout)):
        stated, place = getattr(layout, key), f"{pointer}/{key}"
        if isinstance(stated, dict):
            for inner, value in stated.items():
                yield MappingPart(f"{key}.{inner}", f"{place}/{inner}", value)
        elif isinstance(stated, tuple) and key != "each":
            for number, one in enumerate(stated):
                yield MappingPart(key, f"{place}/{number}", one)
        elif stated:
            yield MappingPart(key, place, stated)


def select_parts(mapping: Mapping, *keys: str) -> Iterator[MappingPart]:
    """Walk over the parts of these keys, layout by layout, in the order of the keys."""
    for pointer, layout in mapping_layouts(mapping):
        found = [one for one in layout_parts(layout, pointer) if one.key in keys]
        yield from sorted(found, key=lambda one: keys.index(one.key))


def select_messages(mapping: Mapping) -> list[Message]:
    """List the messages of all layouts."""
    return [one for _, layout in mapping_layouts(mapping) for one in layout.messages or ()]


def select_conditions(mapping: Mapping) -> list[Condition]:
    """List the conditions that all layouts have on their rows."""
    return [one for _, layout in mapping_layouts(mapping) for one in layout.where]


def value_parts(value: Value | None) -> list[Value]:
    """List the parts that a value joins by line breaks."""
    if value is None:
        return []
    return list(value.parts) if value.kind == "concat" and value.is_bare else [value]


def value_paths(value: Value | None) -> Iterator[str]:
    """List the paths that a value takes, those of its parts and of what picks among it."""
    if value is None:
        return
    if value.path and not isinstance(value.path, Lookup):
        yield value.path.text
    if value.tree:
        yield value.tree.path.text
    yield from (piece.text for piece in value.template if isinstance(piece, Path))
    for inner in (*value.parts, *value.picking_values().values()):
        yield from value_paths(inner)
