"""When two parts of a mapping document are the same to the conversion.

The normal form of a mapping: two files that say the same in other words are equal in it.
"""

import codecs
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby

from ingot.converters.errors import Problem
from ingot.converters.mapping.bind import LiteralBinder, bind, infer_roles, parse
from ingot.converters.mapping.language import (
    Condition,
    Group,
    Layout,
    Mapping,
    Message,
    RoleFromData,
    RoleInTurn,
    Scalar,
    Value,
    to_document,
)
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
from ingot.converters.rows import Json
from ingot.converters.sources.facts import SourceSpec


def exact_text(value: Json) -> str:
    """A text that two values share only where the conversion cannot tell them apart.

    `true` is not 1, and 1 is not 1.0: they are spelt otherwise in a text.
    """
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def simplest_path(path: Path) -> Path:
    """The path with every key unquoted that can be: a name alone is exactly that key, too."""
    exact: list[Step] = [_exact_step(step) for step in path.steps]
    steps: list[Step] = []
    for step, following in zip(exact, [*exact[1:], None], strict=False):
        alone = not isinstance(following, Names) and not (steps and isinstance(steps[-1], Names))
        if isinstance(step, Key) and alone and quote_name(step.name) == step.name:
            step = Names((step.name,))
        steps.append(step)
    return compile_path(steps_text(tuple(steps)))


def _exact_step(step: Step) -> Step:
    return Key(step.names[0]) if isinstance(step, Names) and len(step.names) == 1 else step


_OWN_NAMES = {name: name for name in ("user", "assistant", "system", "tool")}


def normal_form(document: dict[str, Json], values: Sequence[Json] = ()) -> dict[str, Json]:
    """The normal form of a mapping document of version 1 or 2."""
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


def file_pointer(document: dict[str, Json], pointer: str) -> str:
    """The place in a file that a JSON Pointer into its normal form means, as near as there is one.

    Messages without content are not counted in the normal form; what it spells out may not stand in
    the file at all: then the pointer is that of what holds it.
    """
    place: list[str] = []
    value: Json = document
    for step in pointer.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and key in value:
            place.append(step)
            value = value[key]
        elif isinstance(value, list) and key.isdecimal():
            shown = _number(value, int(key)) if place[-1] == "messages" else int(key)
            if shown >= len(value):
                break
            place.append(str(shown))
            value = value[shown]
        else:
            break
    return "".join(f"/{step}" for step in place)


def _number(messages: list[Json], number: int) -> int:
    """Where the message of this number stands in the file."""
    there = [
        place
        for place, message in enumerate(messages)
        if not isinstance(message, dict) or message.get("content") is not None
    ]
    return there[number] if number < len(there) else number


def _sort_lists(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _sort_lists(value[key]) for key in sorted(value)}
    return [_sort_lists(one) for one in value] if isinstance(value, list) else value


# --- version 1


def _read_mapping(document: dict[str, Json], values: Sequence[Json]) -> Mapping:
    checked = parse(document, where="mapping")
    if "version" in checked:
        return bind(checked)
    settled, _ = infer_roles(checked, values)
    return Parser(_literal_rule(values)).version1(settled)


def _literal_rule(values: Sequence[Json]) -> Callable[[str, str, str], Value | Problem]:
    binder = LiteralBinder(values)

    def rule(key: str, text: str, pointer: str) -> Value | Problem:
        """As the binder settles it; what resolves nowhere is the path that it is spelt as."""
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
    """A value in its plainest form; `text`: what is wanted of it is its text, not its type."""
    settled = replace(
        value,
        path=simplest_path(value.path) if value.path else None,
        parts=tuple(_value(part, text=value.kind == "concat") for part in value.parts),
        template=_template(value.template),
        each=tuple(map(simplest_path, value.each)),
        pick=_value(value.pick, text=False) if value.pick else None,
        map=_shortest_map(value.map) if value.map else None,
    )
    if settled.kind != "concat" or not settled.is_bare:
        return settled
    parts = tuple(inner for part in settled.parts for inner in _inner_values(part))
    return parts[0] if text and len(parts) == 1 else replace(settled, parts=parts)


def _inner_values(part: Value) -> tuple[Value, ...]:
    return part.parts if part.kind == "concat" and part.is_bare else (part,)


def _template(pieces: tuple[str | Path, ...]) -> tuple[str | Path, ...]:
    return tuple(piece if isinstance(piece, str) else _placeholder(piece) for piece in pieces)


def _placeholder(path: Path) -> Path:
    """A quoted key may hold braces, which a template cannot."""
    plain = simplest_path(path)
    return path if "{" in plain.text or "}" in plain.text else plain


def _shortest_map(table: dict[str, Scalar]) -> dict[str, Scalar]:
    """The map without entries that say what `*` says."""
    if "*" not in table:
        return table
    other = exact_text(table["*"])
    return {key: to for key, to in table.items() if key == "*" or exact_text(to) != other}


# --- layouts


def _layout(layout: Layout) -> Layout:
    return replace(
        layout,
        each=simplest_path(layout.each) if layout.each else None,
        where=tuple(map(_condition, layout.where)),
        text=_value(layout.text, text=True) if layout.text else None,
        messages=_messages(layout.messages) if layout.messages else None,
        system=_value(layout.system, text=True) if layout.system else None,
        tools=_value(layout.tools, text=True) if layout.tools else None,
        meta={key: _value(value, text=False) for key, value in layout.meta.items()},
    )


def _condition(condition: Condition) -> Condition:
    """Numbers are compared as JSON compares them, in no order."""
    by_text = {exact_text(value): value for value in map(_whole_number, condition.values)}
    values = tuple(by_text[text] for text in sorted(by_text))
    return replace(condition, path=simplest_path(condition.path), values=values)


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
        each=tuple(map(simplest_path, message.each)),
        loss_mask=_loss_mask(message),
    )


def _role(role: RoleFromData) -> RoleFromData:
    own = role.map is not None and dict(role.map) == _OWN_NAMES
    return replace(role, path=simplest_path(role.path), map=None if own else role.map)


def _loss_mask(message: Message) -> bool | Value | None:
    """The loss mask, None where it says what holds without it."""
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
        root=simplest_path(compile_path(source.root)).text if source.root else None,
        json_fields=tuple(simplest_path(compile_path(p)).text for p in fields) if fields else None,
    )


def _files(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Only among patterns of both kinds does the order decide."""
    excluding = {pattern.startswith("!") for pattern in patterns}
    return patterns if len(excluding) > 1 else tuple(sorted(set(patterns)))


def _encoding(name: str) -> str:
    try:
        return codecs.lookup(name).name
    except LookupError:
        return name


def _group(group: Group) -> Group:
    by = sorted({simplest_path(path).text for path in group.by})
    return Group(
        by=tuple(map(compile_path, by)), sort=simplest_path(group.sort) if group.sort else None
    )
