"""Write mappings as documents: the shortest spelling, in a fixed order, without defaults."""

from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

from ingot.converters.mapping.language import (
    Condition,
    Mapping,
    RoleInTurn,
    RoleSplit,
    Tree,
    Value,
)
from ingot.converters.mapping.lookup import Lookup
from ingot.converters.paths import Path
from ingot.converters.rows import Json, MappingDocument


def path_document(path: Path) -> Json:
    """Return a path, or a lookup in its place, as a document holds it."""
    if isinstance(path, Lookup):
        return {name: part.text for name, part in path.parts.items()}
    return path.text


def value_document(value: Value) -> Json:
    """Return the shortest spelling of a value in a version 2 document."""
    body = _form_document(value)
    if value.is_spelled_short:
        return body
    stated = {
        one.key: one.word or _stated_document(one.key, said)
        for one, said in value.modifiers().items()
    }
    return {value.kind: body, **_tree_document(value.tree), **stated}


def _form_document(value: Value) -> Json:
    if value.kind == "literal":
        return value.literal
    if value.kind == "template":
        return template_text(value)
    return part_document(value.parts or (value.tree.path if value.tree else value.path))


def template_text(value: Value) -> str:
    """Write a template with its paths in {{ }}."""
    return "".join(p if isinstance(p, str) else f"{{{{{p.text}}}}}" for p in value.template)


def _tree_document(tree: Tree | None) -> MappingDocument:
    if tree is None:
        return {}
    text, children = value_document(tree.text), tree.children.text
    return {"text": text, "children": children, "depth": tree.depth}


def _stated_document(key: str, stated: Any) -> Json:  # noqa: ANN401 - what a field holds
    """What a field holds as it stands in a document; one path of `each` stands alone."""
    return part_document(stated[0] if key == "each" and len(stated) == 1 else stated)


def _node_document(node: Any) -> MappingDocument:  # noqa: ANN401 - any node of the tree
    stated = {one.name: getattr(node, one.name) for one in fields(node)}
    return {
        one.name: _stated_document(one.name, stated[one.name])
        for one in fields(node)
        if _is_required(one) or stated[one.name] not in (None, (), {})
    }


def _is_required(one: Field[Any]) -> bool:
    return one.default is MISSING and one.default_factory is MISSING


def _condition_document(one: Condition) -> MappingDocument:
    return {"path": path_document(one.path), one.op: list(one.values) if one.values else one.limit}


# What is not an object with the fields of its node as keys.
_SPELLINGS: dict[type, Callable[[Any], Json]] = {
    Path: path_document,
    Lookup: path_document,
    Value: value_document,
    Condition: _condition_document,
    RoleInTurn: lambda role: list(role.roles),
    RoleSplit: lambda role: {"split": role.markers},
}


def part_document(part: object) -> Json:
    """Return a part of a mapping as it stands in a document; what is not a node stays as it is."""
    if type(part) in _SPELLINGS:
        return _SPELLINGS[type(part)](part)
    if is_dataclass(part):
        return _node_document(part)
    if isinstance(part, dict):
        return {key: part_document(one) for key, one in part.items()}
    return [part_document(one) for one in part] if isinstance(part, tuple) else part


def to_document(mapping: Mapping) -> MappingDocument:
    """Return a mapping's version 2 document: unambiguous, in fixed order, without defaults.

    A draft is given back as it was written.
    """
    if mapping.draft is not None:
        return mapping.draft
    stated = {
        "version": 2,
        "source": part_document(mapping.source),
        "group": part_document(mapping.group),
        **part_document(mapping.outer),
        "any_of": part_document(mapping.any_of),
    }
    document = {key: one for key, one in stated.items() if one not in (None, [], {})}
    if not mapping.any_of and mapping.kind == "irrelevant":
        document["text"] = None
    return document | ({"provenance": mapping.provenance} if mapping.provenance is not None else {})


def plain_document(mapping: Mapping) -> MappingDocument:
    """Return a mapping's document without its provenance."""
    return {key: one for key, one in to_document(mapping).items() if key != "provenance"}
