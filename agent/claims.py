"""What a model claims without the data's word for it: training, system texts, texts of other rows.

Names alone prove little, but a row that a model is shown cannot change them for all records.
"""

import re
from collections.abc import Iterator

from ingot.agent.authored import Document, fields, layouts, roles_of
from ingot.agent.mappers.rules.names import role_of, strength
from ingot.converters.rows import Json

# `data` of `data[*]` and `data.*`
# The slots of fields that are the other side's.
_OTHERS = {"user": ("answer",), "assistant": ("question", "instruction")}
_NAMED = 0.8  # how far a name has to say that it is a side's
_WALKED = re.compile(r"([^.\[\]'\"]+)['\"]?\]?(?:\[\*\]|\.\*)")


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
        for name in fields(mask):
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
    for name in (name for value in plain for name in fields(value)):
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
        for said in _crossed(message.get("role"), [*fields(message.get("content"))])
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


def lumped(document: Document, groups: int, rows: int) -> list[str]:
    """Keys of a `group` that make one row of all sampled rows (three or more)."""
    group = document.get("group")
    return [repr(key) for key in group["by"]] if group and groups == 1 and rows > 2 else []


def borrowed(document: Document) -> list[str]:
    """Paths that lead from every record to one fixed element of the list that holds them all.

    One row could put its text into all records that way.
    """
    return [said for _, layout in layouts(document) for said in _borrowed(layout, document)]


def _borrowed(layout: Document, document: Document) -> Iterator[str]:
    each = layout.get("each") or document.get("each") or ""
    walked = [re.escape(name) for name in _WALKED.findall(each)]
    if not walked:
        return
    fixed = re.compile(rf"\^\.(?:[^{{}}]*\.)?(?:{'|'.join(walked)})'?\]?(?:\[(?!\*)|\.(?!\*))")
    for key in ("text", "messages", "system", "tools"):
        for text in _texts(layout.get(key)):
            if fixed.search(text):
                yield repr(text)


def _texts(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for inside in value.values() if isinstance(value, dict) else value:
            yield from _texts(inside)
