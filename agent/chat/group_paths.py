"""Rewrite the paths of a mapping where `group` begins or ends.

A text or message then walks over the rows of its group (`[*]`), and what stands once comes from the
first (`[0]`). What cannot be rewritten stays, and the check of the mapping says so.
"""

import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from ingot.converters.mapping.language import Layout, Mapping, Message, Reach, Tree, Value
from ingot.converters.mapping.lookup import Lookup
from ingot.converters.paths import Path, compile_path

_Rewrite = Callable[[str], str]
_ChangeLayout = Callable[[Layout], Layout]
_Node = TypeVar("_Node")
_EVERY, _FIRST = "[*]", "[0]"
_AT = re.compile(r"\[(?:\*|0)\](?:\.|(?=\[)|$)")


def enter_group(mapping: Mapping) -> Mapping:
    """Return a mapping of single rows as one of lists of rows."""
    return _change_layouts(mapping, _enter_layout, _below(_EVERY))


def leave_group(mapping: Mapping) -> Mapping:
    """Return a mapping of lists of rows as one of single rows."""
    return _change_layouts(mapping, lambda layout: _at_start(layout, _above), _above)


def _change_layouts(mapping: Mapping, change: _ChangeLayout, outer: _Rewrite) -> Mapping:
    """Change the outer layout and the alternatives; of those below an `each` only its paths."""

    def change_layout(layout: Layout) -> Layout:
        if mapping.outer.each or layout.each:
            return replace(layout, each=_at_start(layout.each, outer))
        return change(layout)

    variants = tuple(map(change_layout, mapping.any_of))
    return replace(mapping, outer=change_layout(mapping.outer), any_of=variants)


def _below(prefix: str) -> _Rewrite:
    """Return what puts a path below `[*]` or `[0]`; marks and paths that lead there stay."""

    def rewrite(path: str) -> str:
        if path.startswith(("[*]", "[0]", "^", "~", "@file")):
            return path
        relative = path.removeprefix("$").removeprefix(".")
        return (
            f"{prefix}{relative}"
            if not relative or relative.startswith("[")
            else f"{prefix}.{relative}"
        )

    return rewrite


def _above(path: str) -> str:
    """Return a path without the `[*]` or `[0]` that it begins with."""
    return _AT.sub("", path, count=1) or "$" if _AT.match(path) else path


def _enter_layout(layout: Layout) -> Layout:
    outer = _at_start(replace(layout, text=None, messages=None), _below(_FIRST))
    messages = layout.messages and tuple(map(_enter_message, layout.messages))
    if messages and all(_walks_rows(one.each) for one in messages):
        # What held for a row now holds for a message.
        messages = tuple(replace(one, where=one.where + layout.where) for one in messages)
        outer = replace(outer, where=())
    text = layout.text and _value_of_rows(layout.text)
    return replace(outer, text=text, messages=messages)


def _walks_rows(each: tuple[Path, ...]) -> bool:
    return [one.text for one in each] == [_EVERY]


def _enter_message(message: Message) -> Message:
    content = message.content
    path = content.path if content and content.is_bare else None
    listed = path and not isinstance(path, Lookup) and ("[*]" in path.text or ".*" in path.text)
    if message.each or listed:  # a list is the short form of `each`
        return _at_start(message, _below(_EVERY))
    return replace(message, each=(compile_path(_EVERY),))


def _value_of_rows(value: Value) -> Value:
    """Return a value of a row as the texts of all rows of the group."""
    is_plain = value.is_bare and value.path and not isinstance(value.path, Lookup)
    if is_plain or value.kind == "literal" or value.each or value.picking_values():
        return _at_start(value, _below(_EVERY))
    return replace(value, each=(compile_path(_EVERY),))


def _at_start(part: _Node, change: _Rewrite) -> _Node:
    """Rewrite the paths in a part that start where it stands."""
    changed: Any = part
    if isinstance(part, Lookup):
        lookup, key, of, take = part.parts.values()
        changed = Lookup(_at_start(lookup, change), key, _at_start(of, change), take)
    elif isinstance(part, Path):
        changed = compile_path(change(part.text))
    elif isinstance(part, tuple):
        changed = tuple(_at_start(one, change) for one in part)
    elif isinstance(part, dict):
        changed = {key: _at_start(one, change) for key, one in part.items()}
    elif is_dataclass(part):
        changed = _node_at_start(part, change)
    rewritten: _Node = changed
    return rewritten


def _node_at_start(node: Any, change: _Rewrite) -> Any:  # noqa: ANN401 - any node of the tree
    """Rewrite the fields of a node that start where it stands; who leaves walks no rows."""
    each = getattr(node, "each", ())
    walks_rows = bool(each) or isinstance(node, Tree)
    started = [
        one.name
        for one in fields(node)
        if not walks_rows or one.metadata.get(Reach, Reach()).outside
    ]
    changed = replace(node, **{name: _at_start(getattr(node, name), change) for name in started})
    return replace(changed, each=()) if change is _above and _walks_rows(each) else changed
