"""What a field can be used as: for each part of a record the command of `ingot chat` that does it.

Fields are shown by their paths in a row. Paths of a mapping start at the element of `each`, at an
element of the messages, or at the rows of a group, and a command reads some characters as its own:
a line that is made here means the field and nothing else.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ingot.agent.chat.typed_values import NOTHING, is_same_path, parse_scalar
from ingot.agent.proposing.columns import text_of
from ingot.agent.proposing.names import name_strength, speaker_role
from ingot.converters.mapping.language import (
    META_KEYS,
    Condition,
    Layout,
    Mapping,
    Message,
    Role,
    Scalar,
)
from ingot.converters.paths import Index, Key, Names, Path, compile_path, join_path, quote_name
from ingot.converters.rows import Json
from ingot.converters.sources.profile import PathFacts, Place

_SIDES: tuple[Role, ...] = ("user", "assistant")
_PLAIN = re.compile(r"""[^,|"'{}\\\s]+""")  # a name that no command reads otherwise
_EVERY, _FIRST = "[*]", "[0]"  # the rows of a group, and the first of them
_SHORT_NAME = 25  # characters of the name of a speaker


class FieldUse(NamedTuple):
    """A field that the mapping takes.

    `field` is its path in a row, `path` where the mapping starts; `colour` is None for what goes
    into no record; `lines` are the keys of a record and the roles that it can stand in.
    """

    field: str
    path: str
    target: str
    colour: int | None
    lines: frozenset[str]


class Target(NamedTuple):
    """A part of a record that a field can become.

    Attributes:
        name: as the page names it: `text`, `user`, `message 2: user`, `alternative 1: text`, ...
        put: the command up to the path.
        around: where its paths start, "" = at the row.
        grouped: what stands before a path where rows are grouped.
        joins: whether it can be made of several fields.
    """

    name: str
    put: str
    around: str = ""
    grouped: str = ""
    joins: bool = False

    @property
    def clear(self) -> str | None:
        """Return the line that leaves it without a field, None if there is none."""
        return None if self.name.endswith("messages") else f"{self.put} none"


def list_targets(mapping: Mapping) -> list[Target]:
    """Return all parts of the current mapping that a field can become."""
    group, variants = bool(mapping.group), mapping.any_of
    targets: list[Target] = []
    for number, variant in enumerate(variants, start=1):
        layout = replace(variant, each=variant.each or mapping.outer.each)
        named = (f"alternative {number}: ", f"set alternative {number} ")
        targets += _layout_targets(layout, *named, group=group)
    if not variants:
        targets += _layout_targets(mapping.outer, "", "set ", group=group)
    around = _outer_start(mapping)
    first = _FIRST if group else ""
    targets += [Target("each", "set each"), Target("group", "set group")]
    return [
        *targets,
        *(Target(f"meta.{key}", f"set meta.{key}", around, first) for key in META_KEYS),
    ]


def _outer_start(mapping: Mapping) -> str:
    """Where the paths of the first layout start."""
    first = mapping.any_of[0].each if mapping.any_of else ()
    return _path_of_each(mapping.outer.each or first)


def _layout_targets(layout: Layout, name: str, put: str, *, group: bool) -> Iterator[Target]:
    around = _path_of_each(layout.each)
    every, first = (_EVERY, _FIRST) if group else ("", "")
    yield Target(f"{name}text", f"{put}text", around, every, joins=True)
    yield Target(f"{name}system", f"{put}system", around, first, joins=True)
    messages = layout.messages or ()
    roles = [message.role for message in messages]
    sides: list[Role] = []
    if not messages or any(isinstance(role, str) for role in roles):
        sides = [side for side in _SIDES if roles.count(side) < 2]
    for side in sides:
        if side not in roles:
            yield Target(f"{name}{side}", f"{put}{side}", around, first, joins=True)
    for number, message in enumerate(messages):
        where = _message_start(message, around, first)
        target = message_target(messages, number)
        target_name = target if target in sides else f"message {number + 1}"
        yield Target(f"{name}{target}", f"{put}{target_name}", *where, joins=True)
    yield Target(f"{name}messages", f"{put}messages", around, every)


def _message_start(message: Message, around: str, grouped: str) -> tuple[str, str]:
    """Where the paths of a message start, and what reaches a row of a group from there."""
    path = _path_of_each(message.each)
    if grouped and path.startswith(_EVERY):
        return path.removeprefix(_EVERY).removeprefix("."), ""
    return ".".join(filter(None, (around, path))), grouped


def message_target(messages: Sequence[Message], number: int) -> str:
    """Return the name of a message: its role if it is unique, else with the number too.

    `messages` names the only message whose roles are read from the data.
    """
    roles = [message.role for message in messages]
    role = roles[number]
    if isinstance(role, str):
        return role if roles.count(role) == 1 else f"message {number + 1}: {role}"
    return "messages" if len(roles) == 1 else f"message {number + 1}"


def _path_of_each(each: Sequence[Path]) -> str:
    return each[0].text if len(each) == 1 else ""


# --- lines


def view_uses(
    facts: PathFacts, targets: Sequence[Target], fields: dict[str, PathFacts], used: set[str]
) -> list[dict[str, Any]]:
    """Return what a field can be used as: target, the line for it, and the line that adds it.

    `fields` are all fields by their paths, `used` the targets that have a field.
    """
    return [use for target in targets for use in _view_use(facts, target, fields, used)]


def _view_use(
    facts: PathFacts, target: Target, fields: dict[str, PathFacts], used: set[str]
) -> Iterator[dict[str, Any]]:
    is_text = bool(facts.types.keys() - {"list", "object", "null"})
    is_list = "list" in facts.types or facts.segments[-1:] == (_EVERY,)
    path = typed_path(facts.segments)
    if target.name == "each" and is_list:
        line: str | None = f"{target.put} {path.removesuffix(_EVERY)}{_EVERY}"
    elif target.put.endswith("messages"):
        line = _message_line(facts, target, fields) if is_list else None
    else:
        line = f"{target.put} {start_path(target, facts.segments)}" if is_text else None
    if line:
        adds = target.joins and target.name in used
        added = f"{target.put} ...,{start_path(target, facts.segments)}" if adds else None
        yield {"target": target.name, "line": line, "add": added}


def _message_line(facts: PathFacts, target: Target, fields: dict[str, PathFacts]) -> str | None:
    """The line that makes a list the messages: its elements name a speaker and hold a text."""
    around = facts.segments[:-1] if facts.segments[-1:] == (_EVERY,) else facts.segments
    element = (*around, _EVERY)
    inside = [
        field
        for field in fields.values()
        if field.segments[: len(element)] == element
        and field.texts
        and _EVERY not in field.segments[len(element) :]
    ]
    speakers = [field for field in inside if field.segments != element and _names_speakers(field)]
    speaker = max(speakers, key=_speaker_likeness, default=None)
    direct = [field for field in inside if field.segments[:-1] == element]
    texts = [field for field in direct if field is not speaker]
    if not texts:
        return None
    text = max(texts, key=lambda field: sum(map(len, field.texts)) / len(field.texts))
    words = [target.put, f"{start_path(target, around)}{_EVERY}"]
    words += [f"speaker={typed_path(speaker.segments[len(element) :])}"] if speaker else []
    return " ".join([*words, f"text={typed_path(text.segments[-1:])}"])


def _names_speakers(facts: PathFacts) -> bool:
    return bool(facts.values) and all(len(text) < _SHORT_NAME for text in facts.texts)


def _speaker_likeness(facts: PathFacts) -> float:
    """How sure it is that a field says who speaks: by its name, and by the names that it holds."""
    known = sum(speaker_role(text_of(value)) is not None for value, _ in facts.values)
    return known / len(facts.values) + name_strength(facts.segments[-1], "speaker")


def typed_path(segments: Place) -> str:
    """Return a path as commands read it; ambiguous names are quoted and escaped."""
    spelt = {_EVERY: _EVERY, ".*": "*"}
    texts = [segment if isinstance(segment, str) else f"[{segment}]" for segment in segments]
    return _join(spelt.get(text) or _typed_name(text) for text in texts)


def _typed_name(name: str) -> str:
    if _PLAIN.fullmatch(name) and name.lower() not in NOTHING:
        return quote_name(name)
    escaped = (sign if _PLAIN.fullmatch(sign) else f"\\u{ord(sign):04x}" for sign in name)
    return f"['{''.join(escaped)}']"


def start_path(target: Target, segments: Place) -> str:
    """Return a path of a row as it starts where the paths of a target do."""
    around = path_segments(target.around)
    levels = 0
    for size in range(len(around), -1, -1):
        if size < len(around) and around[size] != _EVERY:  # a name: it stands in an object
            levels += 1
        elif size < len(around):
            continue
        if tuple(segments[:size]) == tuple(around[:size]):
            parts = [target.grouped, ".".join(["^"] * levels), typed_path(segments[size:])]
            return _join(filter(None, parts)) or "$"
    return typed_path(segments)


def _join(parts: Iterable[str]) -> str:
    return "".join(
        part if part.startswith("[") or not place else f".{part}"
        for place, part in enumerate(parts)
    )


def row_path(path: str) -> str:
    """Return a path with all that is around it as the tree of fields names it: for all elements."""
    return join_path(*path_segments(path))


def path_segments(path: str) -> list[str]:
    """Return the names and marks that a path leads through; `^` leads back out of an object."""
    lines: list[str] = []
    for step in compile_path(path or "$").steps:
        if isinstance(step, Names):
            lines += step.names
        elif isinstance(step, Key):
            lines.append(step.name)
        elif isinstance(step, Index) or step.mark == _EVERY:
            lines.append(_EVERY)
        elif step.mark == "^":
            while lines and lines.pop() == _EVERY:
                pass
        else:
            lines.append(f".{step.mark}")
    return lines


# --- what leaves out rows or messages by the values of a field


def view_choices(
    facts: PathFacts, real: PathFacts | None, mapping: Mapping
) -> dict[str, Any] | None:
    """Return for each value whether it is kept, and the lines that change or isolate it.

    The choice is about messages if the field is one of their elements, else about rows. A value
    that is hidden, and so not one of the `real` values, has no line. Returns None if no value can
    be left out.
    """
    place = None if mapping.kind == "irrelevant" else _condition_place(facts, mapping)
    if place is None or not facts.values:
        return None
    what, path, holders = place
    stated = [[c for c in holder if is_same_path(c.path.text, path)] for holder in holders]
    conditions = stated[0]
    if any(stated_conditions != conditions for stated_conditions in stated) or not all(
        condition.values for condition in conditions
    ):
        return None
    word = "" if what == "rows" else "message where "
    removed = [f"keep {'' if what == 'rows' else 'message '}all {path}"] if conditions else []
    known = {text_of(hit): hit for hit in (real.hits if real else ())}
    choices = []
    for counted, _ in facts.values:
        value = known.get(text_of(counted))
        is_kept = all(
            _is_among(value, condition.values) == (condition.op == "in") for condition in conditions
        )
        lines = [f"drop {word}{path} is {_typed_value(value)}"]
        if not is_kept:
            lines = [*removed, *_restated(conditions, value, f"{word}{path} is ")]
        only = [*removed, f"keep {word}{path} is {_typed_value(value)}"]
        if value is None or isinstance(value, list | dict):
            lines, only = [], []
        choices.append({"kept": is_kept, "lines": lines, "only": only})
    return {"what": what, "values": choices}


def _condition_place(
    facts: PathFacts, mapping: Mapping
) -> tuple[str, str, list[tuple[Condition, ...]]] | None:
    """Say whose conditions a field can be in: messages or rows, its path there, and all of them."""
    grouped = _FIRST if mapping.group else ""
    around = _outer_start(mapping)
    walked = [message for message in mapping.outer.messages or () if message.each]
    if walked and all(message.each == walked[0].each for message in walked):
        start, below = _message_start(walked[0], around, grouped)
        path = start_path(Target("where", "", start, below), facts.segments)
        inside = tuple(facts.segments[: len(path_segments(start))]) == tuple(path_segments(start))
        if (inside if start else not below) and _is_single(path):
            return "messages", path, [message.where for message in walked]
    path = start_path(Target("where", "", around), facts.segments)
    return ("rows", path, [mapping.outer.where]) if not grouped and _is_single(path) else None


def _is_single(path: str) -> bool:
    """Whether a path leads to one value, of what it starts at."""
    steps = compile_path(path).steps
    return path != "$" and all(isinstance(step, Names | Key) for step in steps)


def _restated(conditions: Sequence[Condition], value: Scalar, head: str) -> Iterator[str]:
    """The lines of conditions that let a value pass, and else what they did."""
    for condition in conditions:
        other_values = [each for each in condition.values if not _is_among(each, [value])]
        stays = other_values if condition.op == "not_in" else [*other_values, value]
        if stays:
            word = "drop" if condition.op == "not_in" else "keep"
            yield f"{word} {head}{', '.join(map(_typed_value, stays))}"


def _is_among(value: Json, values: Iterable[Json]) -> bool:
    return any(
        known == value and isinstance(known, bool) == isinstance(value, bool) for known in values
    )


def _typed_value(value: Json) -> str:
    """A value as a condition is typed: a text is quoted where it would be read otherwise."""
    is_plain = isinstance(value, str) and _PLAIN.fullmatch(value) and parse_scalar(value) == value
    return str(value) if is_plain else json.dumps(value)
