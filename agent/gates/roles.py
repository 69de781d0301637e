"""Who says what by a model's mapping, against the names: roles, sides, system texts, loss masks.

Names alone prove little, but a row that a model is shown cannot change them for all records.
"""

import re
from collections.abc import Iterator

from ingot.agent.mappers.parts import Document, layouts, roles_of
from ingot.agent.mappers.rules.names import role_of, strength
from ingot.converters.rows import Json

_LAST = re.compile(r"([^.\[\]'\"]+)['\"]?\]?(?:\[\*\])*$")
_USER_FIELDS = ("user", "human", "prompter", "用户")
_ASSISTANT_FIELDS = ("assistant", "gpt", "chatgpt", "bot", "chatbot", "助手")
# The slots of fields that are the other side's.
_OTHERS = {"user": ("answer",), "assistant": ("question", "instruction")}
_NAMED = 0.8  # how far a name has to say that it is a side's


def turned(document: Document) -> list[str]:
    """Speakers and fields whose name says one side and that the mapping puts on the other."""
    return [
        said
        for _, layout in layouts(document)
        for message in layout.get("messages") or []
        for said in _turned(message)
    ]


def _turned(message: Document) -> Iterator[str]:
    role = message.get("role")
    if isinstance(role, dict):
        named = role.get("map") or role.get("split") or {}
        letters = {"q", "a"} <= {name.casefold() for name in named}  # else `A` is a person
        for name, given in named.items():
            if (len(name) > 1 or not name.isascii() or letters) and _opposite(role_of(name), given):
                yield f"{name!r} → {given}"
    elif isinstance(role, str):
        for name in _fields(message.get("content")):
            if _opposite(_side_of(name), role):
                yield f"the field {name!r} → {role}"


def _opposite(named: str | None, given: Json) -> bool:
    return (named, given) in (("user", "assistant"), ("assistant", "user"))


def _side_of(name: str) -> str | None:
    plain = name.casefold()
    if plain in _USER_FIELDS:
        return "user"
    return "assistant" if plain in _ASSISTANT_FIELDS else None


def masked(document: Document) -> list[str]:
    """Fixed `loss_mask`s against their role, and those read from fields that are no weights."""
    return [
        said
        for _, layout in layouts(document)
        for message in layout.get("messages") or []
        for said in _masked(message)
    ]


def _masked(message: Document) -> Iterator[str]:
    mask = message.get("loss_mask")
    if isinstance(mask, bool):
        if any(mask != (role == "assistant") for role in roles_of(message.get("role")) if role):
            yield f"{_speaker(message['role'])} is {'' if mask else 'not '}trained on"
    elif mask is not None:
        for name in _fields(mask):
            if not strength(name, "weight"):
                yield f"{_speaker(message['role'])} is trained on where {name!r} says so"


def _speaker(role: Json) -> str:
    return role if isinstance(role, str) else "every role"


def named_otherwise(document: Document) -> list[str]:
    """Fields and speakers that the mapping takes for system texts and whose name says no such."""
    return [said for _, layout in layouts(document) for said in _systems(layout)]


def _systems(layout: Document) -> Iterator[str]:
    messages = layout.get("messages") or []
    plain = [
        layout.get("system"),
        *(m.get("content") for m in messages if m.get("role") == "system"),
    ]
    for name in (name for value in plain for name in _fields(value)):
        if not strength(name, "system"):
            yield f"the field {name!r}"
    for role in (m["role"] for m in messages if isinstance(m.get("role"), dict)):
        for name, given in (role.get("map") or role.get("split") or {}).items():
            if given == "system" and role_of(name) != "system":
                yield repr(name)


def crossed(document: Document) -> list[str]:
    """Messages of nothing but fields named for the other side, and sides that are left out."""
    return [
        said
        for _, layout in layouts(document)
        for message in layout.get("messages") or []
        for said in _crossed(message.get("role"), [*_fields(message.get("content"))])
    ]


def _crossed(role: Json, names: list[str]) -> Iterator[str]:
    if isinstance(role, dict):
        for name, given in (role.get("map") or role.get("split") or {}).items():
            if given is None and role_of(name) in ("user", "assistant"):
                yield f"{name!r} is left out"
    elif isinstance(role, str) and names and all(_named(one, _OTHERS.get(role)) for one in names):
        yield f"{', '.join(map(repr, names))} → {role}"


def _named(name: str, slots: tuple[str, ...] | None) -> bool:
    return any(strength(name, slot) >= _NAMED for slot in slots or ())


def _fields(value: Json) -> Iterator[str]:
    """The last names of the paths that a value takes plainly."""
    if isinstance(value, list):
        for part in value:
            yield from _fields(part)
    elif isinstance(value, dict):
        yield from _fields(value.get("concat") or value.get("path"))
    elif isinstance(value, str) and (last := _LAST.search(value)):
        yield last[1]
