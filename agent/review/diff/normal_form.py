"""The normal form of a mapping: two files that mean the same are equal in it."""

import codecs
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from ingot.agent.review.diff.change_rules import exact_text
from ingot.converters.mapping.bind import bind_tree, read_tree
from ingot.converters.mapping.documents.version1 import Version1
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
)
from ingot.converters.mapping.lookup import Lookup
from ingot.converters.mapping.rows.messages import expand_zip
from ingot.converters.mapping.walk import rewrite
from ingot.converters.paths import (
    Key,
    Names,
    Path,
    Step,
    compile_path,
    quote_name,
    steps_text,
)
from ingot.converters.rows import Json
from ingot.converters.sources.facts import SourceSpec


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


def normal_form(mapping: Mapping, values: Sequence[Json] = ()) -> Mapping:
    """Return a mapping of version 1 or 2 in its normal form. Raises MappingError."""
    bind_tree(mapping)
    if mapping.draft is not None:
        # What resolves in no row is a path.
        mapping = read_tree(Version1(values).rewrite(mapping.draft))
    return simplest_form(mapping)


def simplest_form(mapping: Mapping) -> Mapping:
    """Return a mapping in its normal form."""
    if mapping.kind == "irrelevant":
        return Mapping(outer=Layout())
    return Mapping(
        outer=_settled_layout(mapping.outer),
        any_of=tuple(map(_settled_layout, mapping.any_of)),
        source=_source(mapping.source),
        group=rewrite(mapping.group, _simplify),
    )


# --- layouts


def _settled_layout(layout: Layout) -> Layout:
    if not layout.messages:
        return rewrite(layout, _simplify)
    messages = expand_zip(layout.messages)
    simplified = rewrite(replace(layout, messages=messages), _simplify)
    if not messages:
        return replace(simplified, messages=layout.messages[:1])
    # How a path is spelt decides which neighbours belong together: then the spelling stays.
    same_blocks = _blocks(expand_zip(simplified.messages or ())) == _blocks(messages)
    return simplified if same_blocks else replace(simplified, messages=messages)


def _blocks(messages: tuple[Message, ...]) -> list[tuple[int, int]]:
    """Per block of entries that are emitted together: how many, and the lists walked."""
    runs = groupby(messages, key=lambda message: message.each)
    return [(len(list(run)), len(each)) for each, run in runs]


# --- what is in them


def _simplify(name: str, node: Any) -> Any:  # noqa: ANN401 - any part of the tree
    """Simplify a node whose own parts are simple already; `name` is the field that it stands in."""
    if isinstance(node, Path):
        simple = _simplest_path(node)
        # A quoted key with braces stays: a template cannot hold it bare.
        return node if name == "template" and {"{", "}"} & {*simple.text} else simple
    change = _CHANGES.get(type(node))
    return change(node) if change else node


def _value(value: Value) -> Value:
    if value.map:
        value = replace(value, map=_shortest_map(value.map))
    if value.kind != "concat":
        return value
    parts = [inner for part in value.parts for inner in _joined_parts(part, value.is_bare)]
    return replace(value, parts=tuple(parts))


def _joined_parts(part: Value, is_bare: bool) -> tuple[Value, ...]:
    as_text = _as_text(part)
    return as_text.parts if is_bare and as_text.kind == "concat" and as_text.is_bare else (as_text,)


def _as_text(value: Value) -> Value:
    """Return a value whose text is wanted, not its type: joining one part changes nothing."""
    single = value.kind == "concat" and value.is_bare and len(value.parts) == 1
    return value.parts[0] if single else value


def _shortest_map(table: dict[str, Any]) -> dict[str, Any]:
    """Drop entries that say what `*` says."""
    if "*" not in table:
        return table
    other = exact_text(table["*"])
    return {key: value for key, value in table.items() if key == "*" or exact_text(value) != other}


def _layout(layout: Layout) -> Layout:
    text, system, tools = (
        _as_text(one) if one else None for one in (layout.text, layout.system, layout.tools)
    )
    return replace(layout, text=text, system=system, tools=tools)


def _condition(condition: Condition) -> Condition:
    """Compare numbers as JSON does, in no order."""
    by_text = {exact_text(value): value for value in map(_whole_number, condition.values)}
    return replace(condition, values=tuple(by_text[text] for text in sorted(by_text)))


def _whole_number(value: Scalar) -> Scalar:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _role(role: RoleFromData) -> RoleFromData:
    is_default = role.map is not None and dict(role.map) == {name: name for name in ROLES}
    return replace(role, map=_shortest_map(role.map) if role.map and not is_default else None)


def _message(message: Message) -> Message:
    """Drop a loss mask that only says what is usual."""
    content, mask, role = message.content, message.loss_mask, message.role
    fixed = RoleInTurn(roles=(role,)) if isinstance(role, str) else role
    if isinstance(mask, bool) and isinstance(fixed, RoleInTurn):
        usual = all((one == "assistant") == mask for one in fixed.roles)
        mask = None if usual else mask
    return replace(message, content=_as_text(content) if content else None, loss_mask=mask)


def _group(group: Group) -> Group:
    keys = {path.text: path for path in group.by}
    return replace(group, by=tuple(keys[text] for text in sorted(keys)))


_CHANGES: dict[type, Callable[[Any], Any]] = {
    Value: _value,
    Tree: lambda tree: replace(tree, text=_as_text(tree.text)),
    Layout: _layout,
    Condition: _condition,
    RoleFromData: _role,
    Message: _message,
    Group: _group,
    dict: lambda table: dict(sorted(table.items())),
}


# --- files


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
