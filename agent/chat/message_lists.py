"""A list of messages as a person types it, and the roles of the speakers that the data names."""

import re
from collections.abc import Iterator, Sequence

from ingot.agent.chat.edits import Edit, list_conditions
from ingot.agent.chat.typed_values import ValueSyntaxError, parse_parts, split_outside_quotes
from ingot.agent.proposing.columns import last_name, text_of, values_at
from ingot.agent.proposing.names import speaker_role
from ingot.agent.proposing.speakers import flag_roles
from ingot.converters.mapping.language import META_KEYS, ROLES
from ingot.converters.paths import Node, PathSyntaxError
from ingot.converters.rows import Json, MappingDocument

_KEYS = re.compile(r"(?:^|(?<!\s)\s++)(speaker|text|roles)=")
_IN_TURN = ["user", "assistant"]
_NAMED = (*ROLES, "drop")


def parse_message_list(
    text: str, layout: MappingDocument, fields: tuple[str, ...], alternative: int | None
) -> tuple[Edit, ...]:
    """Return the edits that make one message per element: `LIST speaker=F text=F roles=...`."""
    path, *rest = _KEYS.split(text)
    found = dict(zip(rest[::2], map(str.strip, rest[1::2]), strict=True))
    each = path = _unquote(path)
    if not each or not found.get("text") or len(found) < len(rest) / 2:
        raise ValueSyntaxError("a list, then speaker=FIELD (if there is one) and text=FIELD")
    if " " in each and not any(one.startswith(each) for one in fields):
        raise ValueSyntaxError(f"there is no field {each!r}")
    each = each if each.endswith(("[*]", ".*")) else f"{each}[*]"
    role = _parse_roles(found.get("roles", ""), _unquote(found.get("speaker", "")) or None)
    content, where = parse_parts(found["text"]), list[Edit]()
    before: list[Edit] = []
    if layout.get("each") and any(one.startswith(path) for one in fields):
        before, where = _leave_each(layout, each, alternative)
    entry = {"each": [each], "where": where, "role": role, "content": content, "loss_mask": None}
    made = {"set": "messages", "messages": [entry], "alternative": alternative}
    return (*before, made)


def _leave_each(
    layout: MappingDocument, each: str, alternative: int | None
) -> tuple[list[Edit], list[Edit]]:
    """Return edits that make one record of a row again, and the conditions on its elements."""
    before: list[Edit] = [{"set": "each", "path": None, "alternative": alternative}]
    for key, value in (layout.get("meta") or {}).items():
        if key in META_KEYS and isinstance(value, str) and value.startswith("^."):
            before.append({"set": "meta", "key": key, "value": value.removeprefix("^.")})
    where = list(list_conditions(layout)) if layout["each"] == each else []
    if where:
        before.append({"set": "where", "where": [], "alternative": alternative})
    return before, where


def _parse_roles(text: str, speaker: str | None) -> Json:
    pieces = list(split_outside_quotes(text, ",")) if text else []
    if all(one in ROLES for one in pieces):
        if speaker is None:
            return {"in_turn": pieces or _IN_TURN}
        return {"path": speaker, "order": pieces} if pieces else {"path": speaker, "map": []}
    if speaker is None:
        raise ValueSyntaxError(f"roles without a speaker are some of {', '.join(ROLES)}")
    pairs = [one.rpartition(":") for one in pieces]
    for name, _, role in pairs:
        if not name or role not in _NAMED:
            raise ValueSyntaxError(f"roles are NAME:ROLE, and ROLE is one of {', '.join(_NAMED)}")
    return {"path": speaker, "map": [{"value": _unquote(n), "role": role} for n, _, role in pairs]}


def _unquote(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 2 and text[0] == text[-1] == '"' else text


def with_known_speakers(edit: Edit, nodes: Sequence[Node]) -> Edit:
    """Return an edit of messages with the roles of speakers whose names say what they are."""
    return {**edit, "messages": [_with_known_roles(one, nodes) for one in edit["messages"]]}


def _with_known_roles(message: MappingDocument, nodes: Sequence[Node]) -> MappingDocument:
    role = message.get("role")
    if not isinstance(role, dict) or role.get("map") != [] or not isinstance(role["path"], str):
        return message
    try:
        names = list(dict.fromkeys(_speakers(message, role["path"], nodes)))
    except PathSyntaxError:  # which the check of the mapping names
        return message
    if set(names) <= set(ROLES):
        return message
    flags = flag_roles(last_name(role["path"]), names)
    roles = flags or {name: speaker_role(name) for name in names}
    pairs = [{"value": name, "role": one} for name, one in roles.items() if one]
    return {**message, "role": {**role, "map": pairs}}


def _speakers(message: MappingDocument, speaker: str, nodes: Sequence[Node]) -> Iterator[str]:
    if len(message["each"]) != 1:
        return
    each = message["each"][0]
    path = f"{each}{speaker}" if speaker.startswith("[") else f"{each}.{speaker}"
    for node in nodes:
        yield from (text_of(one) for one in values_at(path, node) if text_of(one))
