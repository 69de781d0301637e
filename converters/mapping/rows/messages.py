"""Messages of a conversation, compiled from the `messages` of a mapping.

Neighbouring entries with the same `each` are emitted together, element by element. The short form
of version 1 (neighbouring entries whose bare paths share their prefix up to the first wildcard) is
brought to that form here, once.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any, TypeVar

from ingot.converters.json_yaml import found_text
from ingot.converters.mapping.language import (
    ROLES,
    Message,
    Role,
    RoleFromData,
    RoleInTurn,
    RoleSplit,
    Value,
)
from ingot.converters.mapping.rows import values
from ingot.converters.mapping.rows.conditions import compile_test
from ingot.converters.paths import Node, Path, compile_path, steps_text
from ingot.converters.rows import RowError

# (role, content, loss mask or None for the default of the role)
Turn = dict[str, Any]
# An entry at an element: (node, position in `each`) -> its turns.
Entry = Callable[[Node, int], list[Turn]]
# The speakers of the record at hand in the order of their first message, by path and roles.
Speakers = dict[tuple[Path, tuple[Role, ...]], list[str]]
# Messages of a record; the second value is True where one side of a turn was missing.
Messages = Callable[[Node], tuple[list[Turn], bool]]


def expand_zip(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return what is emitted: the zip rule as `each`, every `each` spelt alike."""
    expanded: list[Message] = []
    there = (message for message in messages if message.content is not None)
    for prefix, run in groupby(there, key=_zip_prefix):
        entries = list(run)
        if prefix is None or len(entries) < 2:
            expanded += [replace(entry, each=_split_steps(entry.each)) for entry in entries]
        else:
            expanded += [_strip_prefix(entry, prefix) for entry in entries]
    return tuple(expanded)


def _split_steps(each: tuple[Path, ...]) -> tuple[Path, ...]:
    return tuple(compile_path(steps_text(path.steps)) for path in each)


def _zip_prefix(message: Message) -> str | None:
    """The prefix that an entry shares with its neighbours, None if it has a form of its own."""
    prefix = _value_prefix(message.content)
    if prefix is None or message.each or message.where or not isinstance(message.role, str):
        return None
    mask = message.loss_mask
    # Read from elsewhere in the row, a loss mask has no place among the elements.
    return None if isinstance(mask, Value) and _value_prefix(mask) != prefix else prefix


def _value_prefix(value: Value | None) -> str | None:
    """A bare path up to its first wildcard; None for any other value."""
    path = value.path if value and value.is_bare else None
    if path is None or path.first_wildcard is None:
        return None
    return steps_text(path.steps[: path.first_wildcard + 1])


def _strip_prefix(message: Message, prefix: str) -> Message:
    mask = message.loss_mask
    return replace(
        message,
        content=_cut_value(message.content),
        each=(compile_path(prefix),),
        loss_mask=_cut_value(mask) if isinstance(mask, Value) else mask,
    )


def _cut_value(value: Value | None) -> Value | None:
    """A bare path without its prefix."""
    path = value.path if value else None
    if path is None or path.first_wildcard is None:
        return value
    rest = path.steps[path.first_wildcard + 1 :]
    return Value(kind="path", path=compile_path(steps_text(rest)))


def compile_messages(messages: tuple[Message, ...], stats: values.PathStats) -> Messages:
    """Return all entries of `messages` as one function of a record's node."""
    speakers: Speakers = {}
    blocks = [
        _compile_block(each, list(entries), stats, speakers)
        for each, entries in groupby(expand_zip(messages), key=lambda m: m.each)
    ]

    def emit(node: Node) -> tuple[list[Turn], bool]:
        speakers.clear()
        turns: list[Turn] = []
        ragged = False
        for block in blocks:
            emitted, uneven = block(node)
            turns += emitted
            ragged = ragged or uneven
        return turns, ragged

    return emit


def _compile_block(
    each: tuple[Path, ...], messages: list[Message], stats: values.PathStats, speakers: Speakers
) -> Messages:
    entries = [(compile_test(m.where, stats), _compile_entry(m, stats, speakers)) for m in messages]

    def at(nodes: list[Node]) -> tuple[list[Turn], bool]:
        turns: list[Turn] = []
        ragged = False
        for position, node in enumerate(nodes):
            asked = spoke = 0
            for test, entry in entries:
                if test is None or test(node):
                    said = entry(node, position)
                    asked += 1
                    spoke += bool(said)
                    turns += said
            ragged = ragged or 0 < spoke < asked
        return turns, ragged

    def once(node: Node) -> tuple[list[Turn], bool]:
        said = [entry(node, 0) for test, entry in entries if test is None or test(node)]
        return [turn for turns in said for turn in turns], False

    if not each:
        return once
    return lambda node: at(values.each_nodes(each, node))


def _compile_entry(message: Message, stats: values.PathStats, speakers: Speakers) -> Entry:
    if message.content is None:
        raise ValueError("a message that does not exist")
    content = values.compile_text(message.content, stats)
    mask = _compile_mask(message.loss_mask, stats)
    role = message.role
    if isinstance(role, RoleSplit):
        split = compile_split(role.markers)
        path = message.content.path.text if message.content and message.content.path else None

        def split_entry(node: Node, _position: int) -> list[Turn]:
            text = content(node)
            if text is None or values.is_blank(text):
                return []
            pieces = split(text)
            if pieces is None:
                raise RowError("unmarked_text", path, found_text(text))
            return [
                _compile_turn(spoken, piece, mask(node))
                for spoken, piece in zip(*pieces, strict=True)
            ]

        return split_entry
    if isinstance(role, RoleFromData) and role.order:
        return _compile_ordered_entry(role, content, mask, stats, speakers)
    if isinstance(role, RoleFromData):
        return _compile_data_role_entry(role, content, mask, stats)

    def entry(node: Node, position: int) -> list[Turn]:
        text = content(node)
        if text is None or values.is_blank(text):
            return []
        spoken = role.roles[position % len(role.roles)] if isinstance(role, RoleInTurn) else role
        return [_compile_turn(spoken, text, mask(node))]

    return entry


def _compile_turn(role: str, content: str, mask: bool | None) -> Turn:
    return {
        "role": role,
        "content": content,
        "loss_mask": role == "assistant" if mask is None else mask,
    }


def _compile_data_role_entry(
    role: RoleFromData,
    content: Callable[[Node], str | None],
    mask: Callable[[Node], bool | None],
    stats: values.PathStats,
) -> Entry:
    """An entry whose role is read from the data; an unknown one counts if something is said."""
    hits = values.path_hits(role.path, stats)
    table: dict[str, Role | None] = dict(role.map) if role.map else {name: name for name in ROLES}
    name, others = role.path.text, "*" in table

    def entry(node: Node, _position: int) -> list[Turn]:
        found = hits(node)
        key = values.json_text(found[0], name) if found and found[0] is not None else None
        named = key is not None and (others or key in table)
        spoken = table[key if key in table else "*"] if named else None
        if named and spoken is None:
            return []
        text = content(node)
        if text is None or values.is_blank(text):
            return []
        if spoken is None:
            raise RowError("unmapped_value", name, found_text(key))
        return [_compile_turn(spoken, text, mask(node))]

    return entry


def _compile_ordered_entry(
    role: RoleFromData,
    content: Callable[[Node], str | None],
    mask: Callable[[Node], bool | None],
    stats: values.PathStats,
    speakers: Speakers,
) -> Entry:
    """An entry whose speakers have roles in the order in which they first say something."""
    hits, name = values.path_hits(role.path, stats), role.path.text

    def entry(node: Node, _position: int) -> list[Turn]:
        found = hits(node)
        text = content(node)
        if text is None or values.is_blank(text):
            return []
        speaker = values.json_text(found[0], name) if found and found[0] is not None else None
        known = speakers.setdefault((role.path, role.order), [])
        if speaker is not None and speaker not in known:
            known.append(speaker)
        place = len(role.order) if speaker is None else known.index(speaker)
        if place >= len(role.order):
            raise RowError("unmapped_value", name, found_text(speaker))
        return [_compile_turn(role.order[place], text, mask(node))]

    return entry


RoleT = TypeVar("RoleT", bound=str)


def compile_split(
    markers: Mapping[str, RoleT | None],
) -> Callable[[str], tuple[list[RoleT], list[str]] | None]:
    """Return a function that splits a transcript at markers into roles and contents.

    It returns None if a text does not begin with a marker. The leftmost marker is taken, of several
    there the longest; at the very start its leading white space may be missing. Roles that are left
    out and blank contents are dropped.
    """
    at_start = {marker.lstrip(): spoken for marker, spoken in reversed([*markers.items()])}
    whole = sorted(markers, key=len, reverse=True)
    bare = sorted({*at_start} - {""}, key=lambda m: (-len(m), m))
    start = re.compile(f"\\s*(?:{'|'.join(map(re.escape, bare))})") if bare else None
    # By itself, so that the regular expression may look for what all markers begin with.
    pattern = re.compile(f"({'|'.join(map(re.escape, whole))})")

    def split(text: str) -> tuple[list[RoleT], list[str]] | None:
        first = start.match(text) if start else None
        before, *rest = pattern.split(text[first.end() :] if first else text)
        if first:
            rest = [first.group(), before, *rest]
        elif not rest or before.strip():
            return None
        roles: list[RoleT] = []
        pieces = []
        for marker, piece in zip(rest[::2], rest[1::2], strict=True):
            spoken = markers[marker] if marker in markers else at_start[marker.lstrip()]
            if spoken and (said := piece.strip()):
                roles.append(spoken)
                pieces.append(said)
        return roles, pieces

    return split


def _compile_mask(
    mask: bool | Value | None, stats: values.PathStats
) -> Callable[[Node], bool | None]:
    if not isinstance(mask, Value):
        return lambda _node: mask
    single = values.compile_single(mask, stats)
    name = mask.path.text if mask.path else None

    def at(node: Node) -> bool | None:
        found = single(node)
        if found is None or isinstance(found, bool):
            return found
        if isinstance(found, int | float):
            return found != 0
        raise RowError("not_a_number", name, found_text(found))

    return at
