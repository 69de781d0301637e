"""The normal form of a mapping: two files that mean the same are equal in it."""

import codecs
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TypeVar

from ingot.agent.review.diff.change_rules import exact_text
from ingot.converters.errors import Problem
from ingot.converters.mapping.bind import LiteralBinder, bind, infer_roles, parse
from ingot.converters.mapping.language import (
    ROLES,
    Condition,
    Group,
    Layout,
    Mapping,
    Message,
    RoleFromData,
    RoleInTurn,
    Scalar,
    Tree,
    Value,
    to_document,
)
from ingot.converters.mapping.lookup import Lookup
from ingot.converters.mapping.parser import Parser
from ingot.converters.mapping.rows.messages import expand_zip
from ingot.converters.paths import (
    Key,
    Names,
    Path,
    PathSyntaxError,
    Step,
    compile_path,
    quote_name,
    steps_text,
)
from ingot.converters.rows import Json, MappingDocument
from ingot.converters.sources.facts import SourceSpec

MapValue = TypeVar("MapValue", bound=Scalar)


def _simplest_path(path: Path) -> Path:
    """Unquote every key that can be unquoted: a name alone is exactly that key, too."""
    if isinstance(path, Lookup):
        return Lookup(*map(_simplest_path, path.parts.values()))
    if path.is_file:
        return path
    exact = [
        Key(step.names[0]) if isinstance(step, Names) and len(step.names) == 1 else step
        for step in path.steps
    ]
    steps: list[Step] = []
    for step, following in zip(exact, [*exact[1:], None], strict=False):
        alone = not isinstance(following, Names) and not (steps and isinstance(steps[-1], Names))
        if isinstance(step, Key) and alone and quote_name(step.name) == step.name:
            step = Names((step.name,))
        steps.append(step)
    return compile_path(steps_text(tuple(steps)))


def normal_form(document: MappingDocument, values: Sequence[Json] = ()) -> MappingDocument:
    """Return the normal form of a mapping document of version 1 or 2."""
    mapping = _read_mapping(document, values)
    if mapping.kind == "irrelevant":
        return {"text": None, "version": 2}
    settled = replace(
        mapping,
        outer=_layout(mapping.outer),
        any_of=tuple(_layout(variant) for variant in mapping.any_of),
        source=_source(mapping.source),
        group=_group(mapping.group) if mapping.group else None,
        provenance=None,
    )
    return dict(_sort_lists(to_document(settled)))


def _sort_lists(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _sort_lists(value[key]) for key in sorted(value)}
    return [_sort_lists(one) for one in value] if isinstance(value, list) else value


# --- version 1


def _read_mapping(document: MappingDocument, values: Sequence[Json]) -> Mapping:
    checked = parse(document, where="mapping")
    if "version" in checked:
        return bind(checked)
    settled, _ = infer_roles(checked, values)
    return Parser(_literal_rule(values)).version1(settled)


def _literal_rule(values: Sequence[Json]) -> Callable[[str, str, str], Value | Problem]:
    binder = LiteralBinder(values)

    def rule(key: str, text: str, pointer: str) -> Value | Problem:
        """Settle as the binder does; what resolves nowhere is a path."""
        settled = binder(key, text, pointer)
        if not isinstance(settled, Problem):
            return settled
        try:
            return Value(kind="path", path=compile_path(text))
        except PathSyntaxError:
            return settled

    return rule


# --- values


def _value(value: Value, *, text: bool) -> Value:
    """Simplify a value; `text`: its text is wanted, not its type."""
    settled = replace(
        value,
        path=_simplest_path(value.path) if value.path else None,
        parts=tuple(_value(part, text=value.kind == "concat") for part in value.parts),
        template=tuple(
            piece if isinstance(piece, str) else _placeholder(piece) for piece in value.template
        ),
        tree=_tree(value.tree) if value.tree else None,
        each=tuple(map(_simplest_path, value.each)),
        pick=_value(value.pick, text=False) if value.pick else None,
        map=_shortest_map(value.map) if value.map else None,
    )
    if settled.kind != "concat" or not settled.is_bare:
        return settled
    parts = tuple(inner for part in settled.parts for inner in _inner_values(part))
    return parts[0] if text and len(parts) == 1 else replace(settled, parts=parts)


def _tree(tree: Tree) -> Tree:
    return replace(
        tree,
        path=_simplest_path(tree.path),
        text=_value(tree.text, text=True),
        children=_simplest_path(tree.children),
    )


def _inner_values(part: Value) -> tuple[Value, ...]:
    return part.parts if part.kind == "concat" and part.is_bare else (part,)


def _placeholder(path: Path) -> Path:
    """Keep a quoted key with braces, which a template cannot hold bare."""
    plain = _simplest_path(path)
    return path if "{" in plain.text or "}" in plain.text else plain


def _shortest_map(table: dict[str, MapValue]) -> dict[str, MapValue]:
    """Drop entries that say what `*` says."""
    if "*" not in table:
        return table
    other = exact_text(table["*"])
    return {key: to for key, to in table.items() if key == "*" or exact_text(to) != other}


# --- layouts


def _layout(layout: Layout) -> Layout:
    return replace(
        layout,
        each=tuple(map(_simplest_path, layout.each)),
        where=tuple(map(_condition, layout.where)),
        text=_value(layout.text, text=True) if layout.text else None,
        messages=_messages(layout.messages) if layout.messages else None,
        system=_value(layout.system, text=True) if layout.system else None,
        tools=_value(layout.tools, text=True) if layout.tools else None,
        meta={key: _value(value, text=False) for key, value in layout.meta.items()},
    )


def _condition(condition: Condition) -> Condition:
    """Compare numbers as JSON does, in no order."""
    by_text = {exact_text(value): value for value in map(_whole_number, condition.values)}
    values = tuple(by_text[text] for text in sorted(by_text))
    return replace(condition, path=_simplest_path(condition.path), values=values)


def _whole_number(value: Scalar) -> Scalar:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _messages(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    there = expand_zip(messages)
    if not there:
        return messages[:1]
    settled = tuple(map(_message, there))
    # How a path is spelt decides which neighbours belong together: then the spelling stays.
    return settled if _blocks(expand_zip(settled)) == _blocks(there) else there


def _blocks(messages: tuple[Message, ...]) -> list[tuple[int, int]]:
    """Per block of entries that are emitted together: how many, and the lists walked."""
    runs = groupby(messages, key=lambda message: message.each)
    return [(len(list(run)), len(each)) for each, run in runs]


def _message(message: Message) -> Message:
    content = message.content
    return replace(
        message,
        role=_role(message.role) if isinstance(message.role, RoleFromData) else message.role,
        content=_value(content, text=True) if content else None,
        each=tuple(map(_simplest_path, message.each)),
        where=tuple(map(_condition, message.where)),
        loss_mask=_loss_mask(message),
    )


def _role(role: RoleFromData) -> RoleFromData:
    own = role.map is not None and dict(role.map) == {name: name for name in ROLES}
    table = _shortest_map(role.map) if role.map and not own else None
    return replace(role, path=_simplest_path(role.path), map=table)


def _loss_mask(message: Message) -> bool | Value | None:
    """Drop a loss mask that only says what is usual."""
    mask = message.loss_mask
    if isinstance(mask, Value):
        return _value(mask, text=False)
    role = message.role
    if isinstance(role, str):
        role = RoleInTurn(roles=(role,))
    usual = isinstance(role, RoleInTurn) and all((r == "assistant") == mask for r in role.roles)
    return None if usual else mask


# --- files and groups


def _source(source: SourceSpec) -> SourceSpec:
    fields = source.json_fields
    return replace(
        source,
        files=_files(source.files) if source.files else None,
        encoding=_encoding(source.encoding) if source.encoding else None,
        root=_simplest_path(compile_path(source.root)).text if source.root else None,
        json_fields=tuple(_simplest_path(compile_path(p)).text for p in fields) if fields else None,
    )


def _files(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Sort patterns, unless they are of both kinds: then the order decides."""
    excluding = {pattern.startswith("!") for pattern in patterns}
    return patterns if len(excluding) > 1 else tuple(sorted(set(patterns)))


def _encoding(name: str) -> str:
    try:
        return codecs.lookup(name).name
    except LookupError:
        return name


def _group(group: Group) -> Group:
    by = sorted({_simplest_path(path).text for path in group.by})
    return Group(
        by=tuple(map(compile_path, by)), sort=_simplest_path(group.sort) if group.sort else None
    )
