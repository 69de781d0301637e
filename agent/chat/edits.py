"""Apply edits, which are data, to the tree of a mapping.

A person's short commands and a model's replies become the same few kinds of edit
(schemas/chat.schema.json); nothing else changes a mapping in a conversation. What an edit does not
name stays as it is. Texts are lists of parts in the form that models are taught, with `{"current":
n}` for a part or a message that is there already.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from ingot.agent.chat.group_paths import enter_group, leave_group
from ingot.agent.judging.problem_words import explain_problem
from ingot.agent.proposing.columns import is_path_inside
from ingot.agent.proposing.llm import lowering
from ingot.converters.errors import MappingError, Problem
from ingot.converters.mapping.documents.parser import Parser
from ingot.converters.mapping.documents.writer import path_document
from ingot.converters.mapping.language import (
    ROLES,
    Condition,
    Group,
    Layout,
    Mapping,
    Message,
    MessageRole,
    Role,
    RoleFromData,
    RoleInTurn,
    RoleSplit,
    Value,
    speaker_roles,
)
from ingot.converters.mapping.walk import value_parts
from ingot.converters.paths import Path
from ingot.converters.rows import Json

Edit = dict[str, Json]
_Change = Callable[[Mapping, Edit], Mapping]
# A layout, its edit, and the JSON Pointer to the layout.
_ChangeLayout = Callable[[Layout, Edit, str], Layout]
_Node = TypeVar("_Node")

WHERE, EDIT = "the change", "edit"
_SIDES: dict[Role, Role] = {"user": "assistant", "assistant": "user"}
_SAID = ("each", "where", "content")  # of a message: what is said, without who says it
_BODIES = ("text", "messages", "message")  # edits that take the place of alternatives


def apply_edits(mapping: Mapping, edits: Sequence[Edit]) -> Mapping:
    """Return the mapping after the edits, in their order.

    Raises MappingError: an edit that does not fit is a problem of the kind `EDIT` with its place
    among the edits, a part of a mapping that is none one with its place there.
    """
    changed = replace(mapping, provenance=None)
    for number, edit in enumerate(edits):
        try:
            changed = _APPLY[edit["set"]](changed, edit)
        except _EditError as error:
            pointer, expected, actual, *explanation = error.args
            problem = Problem(f"/edits/{number}{pointer}", EDIT, expected, actual)
            if explanation:
                problem = replace(problem, words=explanation[0], command=explanation[1])
            raise MappingError(WHERE, (explain_problem(problem, changed),)) from error
    return changed


class _EditError(Exception):
    """An edit does not fit: pointer into the edit, what is expected, what was found.

    Where it is known better: what that means in words, and the command for what was meant.
    """


def _refuse(problems: Iterator[Problem]) -> None:
    """Refuse an edit for the first of its problems."""
    for one in problems:
        raise _EditError(one.pointer, one.expected, one.got)


def _read_part(kind: type[_Node], document: Json, pointer: str) -> _Node:
    """Return the part of a mapping that an edit states; `pointer` leads to its place there."""
    parser = Parser()
    part = parser.part(kind, document, pointer)
    if part is None or parser.problems:
        raise MappingError(WHERE, tuple(parser.problems))
    return part


def _pick(known: Sequence[_Node], number: int, pointer: str) -> _Node:
    if not 1 <= number <= len(known):
        expected = f"a number from 1 to {len(known)}" if known else "what is there already"
        raise _EditError(pointer, expected, str(number))
    return known[number - 1]


def _on_layout(change: _ChangeLayout) -> _Change:
    """Change the alternative that an edit names, or the outer layout where it names none."""

    def change_layout(mapping: Mapping, edit: Edit) -> Mapping:
        number, variants = edit.get("alternative"), mapping.any_of
        if number is None:
            alternatives = () if edit["set"] in _BODIES else variants
            return replace(mapping, outer=change(mapping.outer, edit, ""), any_of=alternatives)
        variant = _pick(variants, number, "/alternative")
        changed = change(variant, edit, f"/any_of/{number - 1}")
        return replace(mapping, any_of=(*variants[: number - 1], changed, *variants[number:]))

    return change_layout


# --- values


def _joined_value(
    parts: Sequence[Json], current: Value | None, pointer: str, target_pointer: str
) -> Value | None:
    """Return the value that the parts of an edit make; `target_pointer` says where."""
    known, documents = value_parts(current), list[Json]()
    for number, part in enumerate(parts):
        if isinstance(part, dict) and "current" in part:
            documents += _current_parts(known, part["current"], f"{pointer}/{number}/current")
        else:
            _refuse(lowering.part_problems([part], f"{pointer}/{number}", numbered=False))
            lowered = lowering.lower_value([part])
            documents += [] if lowered in (None, "") else [lowered]
    values = [
        one
        if isinstance(one, Value)
        else _read_part(
            Value, one, f"{target_pointer}/{number}" if len(documents) > 1 else target_pointer
        )
        for number, one in enumerate(documents)
    ]
    return (
        Value(kind="concat", parts=tuple(values)) if len(values) > 1 else next(iter(values), None)
    )


def _current_parts(known: Sequence[_Node], number: int, pointer: str) -> list[_Node]:
    """Return one of the present parts; 0 stands for all of them."""
    if not known:
        raise _EditError(pointer, "something that is there already", "nothing")
    return [_pick(known, number, pointer)] if number else list(known)


# --- texts and messages


def _set_text(layout: Layout, edit: Edit, layout_pointer: str) -> Layout:
    value = _joined_value(edit["parts"], layout.text, "/parts", f"{layout_pointer}/text")
    if value is None:
        raise _EditError("/parts", "at least one part", "none")
    return replace(layout, text=value, messages=None, system=None, tools=None)


def _set_messages(layout: Layout, edit: Edit, layout_pointer: str) -> Layout:
    messages: list[Message] = []
    for number, one in enumerate(edit["messages"]):
        pointer = f"/messages/{number}"
        if "current" in one:
            messages += _current_parts(layout.messages or (), one["current"], f"{pointer}/current")
        else:
            messages.append(
                _read_message(one, None, pointer, f"{layout_pointer}/messages/{len(messages)}")
            )
    if not messages:
        raise _EditError("/messages", "at least one message", "none")
    return replace(layout, text=None, messages=tuple(messages))


def _set_message(layout: Layout, edit: Edit, layout_pointer: str) -> Layout:
    known, number, message = layout.messages or (), edit["number"], edit["message"]
    before = _pick(known if message is None else (*known, None), number, "/number")
    message_pointer = f"{layout_pointer}/messages/{number - 1}"
    entry = (
        () if message is None else (_read_message(message, before, "/message", message_pointer),)
    )
    changed = (*known[: number - 1], *entry, *known[number:])
    if not changed:
        raise _EditError("/message", "another message, as this is the only one", "none")
    return replace(layout, text=None, messages=changed)


def _read_message(
    message: Edit, before: Message | None, pointer: str, target_pointer: str
) -> Message:
    """Return the message that an edit states; its current parts are those of the replaced one."""
    current = before.content if before else None
    content = _joined_value(
        message["content"], current, f"{pointer}/content", f"{target_pointer}/content"
    )
    lowered = lowering.lower_message({**message, "content": []})
    return replace(_read_part(Message, lowered, target_pointer), content=content)


def _set_content(layout: Layout, edit: Edit, layout_pointer: str) -> Layout:
    message, message_pointer = _named_message(layout, edit, layout_pointer)
    content = _joined_value(edit["parts"], message.content, "/parts", f"{message_pointer}/content")
    return _with_message(layout, edit, replace(message, content=content))


def _set_train(layout: Layout, edit: Edit, layout_pointer: str) -> Layout:
    """Set whether one message is trained on; None = as is usual for its role."""
    message, message_pointer = _named_message(layout, edit, layout_pointer)
    mask = edit["mask"]
    if isinstance(mask, dict):
        mask = _read_part(Value, mask["path"], f"{message_pointer}/loss_mask")
    return _with_message(layout, edit, replace(message, loss_mask=mask))


def _named_message(layout: Layout, edit: Edit, layout_pointer: str) -> tuple[Message, str]:
    """Return the message that an edit names, and the JSON Pointer to it."""
    number = edit["number"]
    return _pick(
        layout.messages or (), number, "/number"
    ), f"{layout_pointer}/messages/{number - 1}"


def _with_message(layout: Layout, edit: Edit, changed: Message) -> Layout:
    messages, number = layout.messages or (), edit["number"]
    return replace(layout, messages=(*messages[: number - 1], changed, *messages[number:]))


def _set_role(layout: Layout, edit: Edit, layout_pointer: str) -> Layout:
    role = None if edit["role"] == "drop" else edit["role"]
    changed = [
        replace(one, role=_with_roles(one.role, {**_named_roles(one.role), edit["value"]: role}))
        if edit["number"] in (None, number) and _names_roles(one.role)
        else one
        for number, one in enumerate(layout.messages or (), start=1)
    ]
    numbers = [number for number, one in enumerate(changed, 1) if _names_roles(one.role)]
    if not numbers or edit["number"] not in (None, *numbers):
        raise _EditError("", "a message whose role is read from the data by name", "none")
    return replace(layout, messages=tuple(changed))


def _names_roles(role: MessageRole) -> bool:
    return isinstance(role, RoleSplit) or (isinstance(role, RoleFromData) and not role.order)


def _named_roles(role: MessageRole) -> dict[str, Role | None]:
    """Return the roles of a role read from the data; where none is named, four mean themselves."""
    return speaker_roles(role) or {one: one for one in ROLES}


def _with_roles(role: MessageRole, roles: dict[str, Role | None]) -> MessageRole:
    if isinstance(role, RoleSplit):
        return replace(role, markers=roles)
    return replace(role, map=roles) if isinstance(role, RoleFromData) else role


def _swap_sides(layout: Layout, edit: Edit, layout_pointer: str) -> Layout:
    """Exchange the texts of user and assistant if each has one entry, else their roles."""
    messages = layout.messages
    if not messages:
        raise _EditError("", "messages to swap", "none")
    roles = [one.role for one in messages]
    spoken_roles = [role for role in roles if role not in ("system", "tool")]
    if len(spoken_roles) != len(_SIDES) or not all(role in spoken_roles for role in _SIDES):
        swapped = tuple(replace(one, role=swap_role(one.role)) for one in messages)
        return replace(layout, messages=swapped)
    swapped_messages, (first, second) = list(messages), map(roles.index, _SIDES)
    for target, source in ((first, second), (second, first)):
        spoken_parts = {key: getattr(messages[source], key) for key in _SAID}
        swapped_messages[target] = replace(messages[target], **spoken_parts)
    return replace(layout, messages=tuple(swapped_messages))


def _swap_all(mapping: Mapping, edit: Edit) -> Mapping:
    if edit["alternative"] is not None or not mapping.any_of:
        return _on_layout(_swap_sides)(mapping, edit)
    outer, *variants = (
        _swap_sides(one, edit, "") if one.messages else one
        for one in (mapping.outer, *mapping.any_of)
    )
    changed = replace(mapping, outer=outer, any_of=tuple(variants))
    if changed == mapping:
        raise _EditError("", "messages to swap", "none")
    return changed


def swap_role(role: MessageRole) -> MessageRole:
    """Exchange user and assistant in a role."""
    if isinstance(role, str):
        return _SIDES.get(role, role)
    if isinstance(role, RoleInTurn):
        return replace(role, roles=_swap_roles(role.roles))
    if isinstance(role, RoleFromData) and role.order:
        return replace(role, order=_swap_roles(role.order))
    roles = _named_roles(role).items()
    return _with_roles(role, {name: _SIDES.get(one, one) if one else one for name, one in roles})


def _swap_roles(roles: tuple[Role, ...]) -> tuple[Role, ...]:
    return tuple(_SIDES.get(one, one) for one in roles)


# --- what is beside the texts


def _set_where(layout: Layout, edit: Edit, layout_pointer: str) -> Layout:
    """Set the conditions of the rows, or of a message; lengths are single whole numbers."""
    _refuse(lowering.condition_problems(edit["where"], "/where"))
    if edit.get("number"):
        message, message_pointer = _named_message(layout, edit, layout_pointer)
        return _with_message(
            layout, edit, replace(message, where=_read_conditions(edit, message_pointer))
        )
    known = list(list_conditions(layout))
    for number, one in enumerate(edit["where"]):
        if one not in known:
            _refuse_several(layout, one, f"/where/{number}/path")
    return replace(layout, where=_read_conditions(edit, layout_pointer))


def _read_conditions(edit: Edit, pointer: str) -> tuple[Condition, ...]:
    lowered = map(lowering.lower_condition, edit["where"])
    return tuple(
        _read_part(Condition, one, f"{pointer}/where/{number}")
        for number, one in enumerate(lowered)
    )


def _refuse_several(layout: Layout, condition: Edit, pointer: str) -> None:
    """Refuse a condition of rows on a field that they have several times: only one is tested."""
    path = condition["path"]
    if not isinstance(path, str) or not ("[*]" in path or ".*" in path):
        return
    lists = [one.each[0].text for one in layout.messages or () if len(one.each) == 1]
    inside = next((each for each in lists if is_path_inside(path, each)), None)
    words = f"A row has several values of {path}, and only the first would be tested."
    command = _message_condition(condition, path.removeprefix(f"{inside}.")) if inside else ""
    raise _EditError(pointer, "a field that a row has once", path, words, command)


_TYPED = {"in": "keep {} is", "not_in": "drop {} is", "min_chars": "drop {} under"}


def _message_condition(condition: Edit, name: str) -> str:
    """Return the command that tests the same of each message."""
    typed = _TYPED.get(condition["op"], "drop {} over").format(f"message where {name}")
    bare_values = (
        one if isinstance(one, str) and one.isalnum() else None for one in condition["values"]
    )
    values = zip(bare_values, condition["values"], strict=True)
    return f"{typed} {','.join(one or json.dumps(other) for one, other in values)}"


def list_conditions(holder: Layout | Message) -> Iterator[Edit]:
    """Yield the conditions of a layout or a message in the form of an edit."""
    for one in holder.where:
        values = [*one.values] or [one.limit]
        yield {"path": path_document(one.path), "op": one.op, "values": values}


def _set_group(mapping: Mapping, edit: Edit) -> Mapping:
    """Set how rows are grouped; where that begins or ends, paths are rewritten."""
    document = {key: one for key, one in (edit["group"] or {}).items() if one or key == "by"}
    group = _read_part(Group, document, "/group") if document else None
    if group and not mapping.group:
        mapping = enter_group(mapping)
    elif mapping.group and not group:
        mapping = leave_group(mapping)
    return replace(mapping, group=group)


def _set_each(layout: Layout, edit: Edit, layout_pointer: str) -> Layout:
    path = edit["path"]
    return replace(
        layout, each=() if path is None else (_read_part(Path, path, f"{layout_pointer}/each"),)
    )


def _set_system(layout: Layout, edit: Edit, layout_pointer: str) -> Layout:
    system = _joined_value(edit["parts"], layout.system, "/parts", f"{layout_pointer}/system")
    return replace(layout, system=system)


def _set_tools(layout: Layout, edit: Edit, layout_pointer: str) -> Layout:
    tools = _joined_value(edit["parts"], layout.tools, "/parts", f"{layout_pointer}/tools")
    return replace(layout, tools=tools)


def _set_meta(mapping: Mapping, edit: Edit) -> Mapping:
    _refuse(lowering.part_problems([edit["value"]], "/value", numbered=False))
    lowered, key = lowering.lower_value([edit["value"] or ""]), edit["key"]
    meta = {name: value for name, value in mapping.outer.meta.items() if name != key}
    if lowered is not None:
        meta[key] = _read_part(Value, lowered, f"/meta/{key}")
    return replace(mapping, outer=replace(mapping.outer, meta=meta))


def _set_files(mapping: Mapping, edit: Edit) -> Mapping:
    """Set which files are read: those named, or as before without those left out."""
    patterns, left_out = mapping.source.files or (), edit["leave_out"]
    chosen = edit["read"] or [one for one in patterns if one not in left_out]
    known = patterns if any(not one.startswith("!") for one in chosen) else ()
    exclusions = [f"!{one}" for one in left_out if f"!{one}" not in chosen and one not in known]
    return replace(mapping, source=replace(mapping.source, files=(*chosen, *exclusions) or None))


def _set_root(mapping: Mapping, edit: Edit) -> Mapping:
    return replace(mapping, source=replace(mapping.source, root=edit["path"]))


def _set_header_rows(mapping: Mapping, edit: Edit) -> Mapping:
    """Set the rows of the header, which takes the place of stated names."""
    rows = tuple(edit["rows"]) or None
    return replace(mapping, source=replace(mapping.source, columns=None, header_rows=rows))


_APPLY: dict[str, _Change] = {
    "text": _on_layout(_set_text),
    "system": _on_layout(_set_system),
    "tools": _on_layout(_set_tools),
    "messages": _on_layout(_set_messages),
    "message": _on_layout(_set_message),
    "content": _on_layout(_set_content),
    "train": _on_layout(_set_train),
    "role": _on_layout(_set_role),
    "swap": _swap_all,
    "where": _on_layout(_set_where),
    "each": _on_layout(_set_each),
    "meta": _set_meta,
    "group": _set_group,
    "root": _set_root,
    "files": _set_files,
    "header_rows": _set_header_rows,
}
KINDS = tuple(_APPLY)
