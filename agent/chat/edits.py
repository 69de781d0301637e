"""Apply edits, which are data, to a mapping document.

A person's short commands and a model's replies become the same few kinds of edit
(schemas/chat.schema.json); nothing else changes a mapping in a conversation. What an edit does not
name stays as it is. Texts are lists of parts in the form that models are taught, with `{"current":
n}` for a part or a message that is there already.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ingot.agent.chat.group_paths import enter_group, leave_group
from ingot.agent.judging.problem_words import explain_problem
from ingot.agent.proposing.columns import is_path_inside
from ingot.agent.proposing.llm import lowering
from ingot.converters.errors import MappingError, Problem
from ingot.converters.mapping.bind import read_tree
from ingot.converters.mapping.language import ROLES, Mapping, to_document
from ingot.converters.rows import Json, MappingDocument

Edit = dict[str, Json]
_Change = Callable[[MappingDocument, Edit], MappingDocument]
_RewriteLayout = Callable[[MappingDocument], MappingDocument]

WHERE, EDIT = "the change", "edit"
_SIDES = {"user": "assistant", "assistant": "user"}
_SAID = ("each", "where", "content")  # of a message: what is said, without who says it
_BODIES = ("text", "messages", "system", "tools", "any_of")


def apply_edits(document: MappingDocument, edits: Sequence[Edit]) -> MappingDocument:
    """Return the document after the edits, in their order; the given one is not changed."""
    made = _without(document, "provenance")
    for number, edit in enumerate(edits):
        try:
            made = _APPLY[edit["set"]](made, edit)
        except _EditError as error:
            pointer, expected, got, *told = error.args
            problem = Problem(f"/edits/{number}{pointer}", EDIT, expected, got)
            if told:
                problem = replace(problem, words=told[0], command=told[1])
            raise MappingError(WHERE, (explain_problem(problem, read_tree(made)),)) from error
    return made


class _EditError(Exception):
    """An edit does not fit: pointer into the edit, what is expected, what was found.

    Where it is known better: what that means in words, and the command for what was meant.
    """


def _refuse(problems: Iterator[Problem]) -> None:
    """Refuse an edit for the first of its problems."""
    for one in problems:
        raise _EditError(one.pointer, one.expected, one.got)


def _pick(known: Sequence[Json], number: int, pointer: str) -> Json:
    if not 1 <= number <= len(known):
        wanted = f"a number from 1 to {len(known)}" if known else "what is there already"
        raise _EditError(pointer, wanted, str(number))
    return known[number - 1]


def _without(document: MappingDocument, *keys: str) -> MappingDocument:
    return {key: value for key, value in document.items() if key not in keys}


def _with_key(document: MappingDocument, key: str, value: Json) -> MappingDocument:
    """Set a key, or remove it if there is no value."""
    kept = _without(document, key)
    return kept if value in (None, [], {}) else {**kept, key: value}


def _on_layout(change: _Change) -> _Change:
    """Change the alternative that an edit names, or the document itself where it names none."""

    def change_layout(document: MappingDocument, edit: Edit) -> MappingDocument:
        number, variants = edit.get("alternative"), document.get("any_of") or []
        if number is None:
            return change(document, edit)
        changed = change(_pick(variants, number, "/alternative"), edit)
        return {**document, "any_of": [*variants[: number - 1], changed, *variants[number:]]}

    return change_layout


# --- values


def _file_value(parts: Sequence[Json], current: Json, pointer: str) -> Json:
    """Turn the parts of an edit into a value of the file's form."""
    known = current if isinstance(current, list) else [] if current is None else [current]
    made: list[Json] = []
    for number, part in enumerate(parts):
        if isinstance(part, dict) and "current" in part:
            made += _current_parts(known, part["current"], f"{pointer}/{number}/current")
        else:
            _refuse(lowering.part_problems([part], f"{pointer}/{number}", numbered=False))
            made.append(lowering.lower_value([part]))
    made = [part for part in made if part not in (None, "")]
    return made[0] if len(made) == 1 else made or None


def _current_parts(known: Sequence[Json], number: int, pointer: str) -> list[Json]:
    """Return one of the present parts; 0 stands for all of them."""
    if not known:
        raise _EditError(pointer, "something that is there already", "nothing")
    return [_pick(known, number, pointer)] if number else list(known)


# --- texts and messages


def _set_text(layout: MappingDocument, edit: Edit) -> MappingDocument:
    value = _file_value(edit["parts"], layout.get("text"), "/parts")
    if value is None:
        raise _EditError("/parts", "at least one part", "none")
    return {**_without(layout, *_BODIES), "text": value}


def _set_messages(layout: MappingDocument, edit: Edit) -> MappingDocument:
    known = layout.get("messages") or []
    made: list[Json] = []
    for number, one in enumerate(edit["messages"]):
        pointer = f"/messages/{number}"
        if "current" in one:
            made += _current_parts(known, one["current"], f"{pointer}/current")
        else:
            made.append(_message_entry(one, None, pointer))
    if not made:
        raise _EditError("/messages", "at least one message", "none")
    return {**_without(layout, "text", "any_of"), "messages": made}


def _set_message(layout: MappingDocument, edit: Edit) -> MappingDocument:
    known, number, wanted = list(layout.get("messages") or []), edit["number"], edit["message"]
    before = _pick(known if wanted is None else [*known, None], number, "/number")
    entry = [] if wanted is None else [_message_entry(wanted, before, "/message")]
    changed = [*known[: number - 1], *entry, *known[number:]]
    if not changed:
        raise _EditError("/message", "another message, as this is the only one", "none")
    return {**_without(layout, "text", "any_of"), "messages": changed}


def _message_entry(
    message: MappingDocument, before: MappingDocument | None, pointer: str
) -> MappingDocument:
    """Turn a message into the file's form; its current parts are those of the replaced entry."""
    current = (before or {}).get("content")
    content = _file_value(message["content"], current, f"{pointer}/content")
    return {**lowering.lower_message({**message, "content": []}), "content": content}


def _set_content(layout: MappingDocument, edit: Edit) -> MappingDocument:
    def change(before: MappingDocument) -> MappingDocument:
        content = _file_value(edit["parts"], before.get("content"), "/parts")
        return {**_without(before, "content"), "content": content}

    return _change_message(layout, edit["number"], change)


def _set_train(layout: MappingDocument, edit: Edit) -> MappingDocument:
    """Set whether one message is trained on; None = as is usual for its role."""
    mask = edit["mask"]["path"] if isinstance(edit["mask"], dict) else edit["mask"]

    def change(before: MappingDocument) -> MappingDocument:
        return _without(before, "loss_mask") | ({} if mask is None else {"loss_mask": mask})

    return _change_message(layout, edit["number"], change)


def _change_message(
    layout: MappingDocument, number: int, change: _RewriteLayout
) -> MappingDocument:
    messages = layout.get("messages") or []
    changed = change(_pick(messages, number, "/number"))
    return {**layout, "messages": [*messages[: number - 1], changed, *messages[number:]]}


def _set_role(layout: MappingDocument, edit: Edit) -> MappingDocument:
    role = None if edit["role"] == "drop" else edit["role"]
    changed: list[Json] = []
    found = False
    for number, one in enumerate(layout.get("messages") or [], start=1):
        by_name = isinstance(one["role"], dict) and "order" not in one["role"]
        if by_name and edit["number"] in (None, number):
            found = True
            named, roles = _roles_by_name(one["role"])
            one = {**one, "role": {**one["role"], named: {**roles, edit["value"]: role}}}
        changed.append(one)
    if not found:
        raise _EditError("", "a message whose role is read from the data by name", "none")
    return {**layout, "messages": changed}


def _roles_by_name(role: MappingDocument) -> tuple[str, MappingDocument]:
    """Return the key of a role read from the data, and its roles; four names mean themselves."""
    named = "split" if "split" in role else "map"
    return named, role.get(named, {one: one for one in ROLES})


def _swap_sides(layout: MappingDocument, edit: Edit) -> MappingDocument:
    """Exchange the texts of user and assistant if each has one entry, else their roles."""
    messages = layout.get("messages")
    if not messages:
        raise _EditError("", "messages to swap", "none")
    roles = [one["role"] for one in messages]
    spoken = [role for role in roles if role not in ("system", "tool")]
    if len(spoken) != len(_SIDES) or not all(role in spoken for role in _SIDES):
        swapped = [{**one, "role": swap_role(one["role"])} for one in messages]
        return {**layout, "messages": swapped}
    made, (one, other) = list(messages), map(roles.index, _SIDES)
    for here, there in ((one, other), (other, one)):
        said = {key: messages[there][key] for key in _SAID if key in messages[there]}
        made[here] = _without(messages[here], *_SAID) | said
    return {**layout, "messages": made}


def _swap_all(document: MappingDocument, edit: Edit) -> MappingDocument:
    if edit["alternative"] is not None or "any_of" not in document:
        return _on_layout(_swap_sides)(document, edit)
    variants = [
        _swap_sides(one, edit) if one.get("messages") else one for one in document["any_of"]
    ]
    outer = _swap_sides(document, edit) if document.get("messages") else document
    if outer is document and variants == document["any_of"]:
        raise _EditError("", "messages to swap", "none")
    return {**outer, "any_of": variants}


def swap_role(role: Json) -> Json:
    """Exchange user and assistant in a role of the file's form."""
    if isinstance(role, str):
        return _SIDES.get(role, role)
    if isinstance(role, list):
        return [swap_role(one) for one in role]
    if "order" in role:
        return {**role, "order": swap_role(role["order"])}
    named, roles = _roles_by_name(role)
    return {**role, named: {name: swap_role(one) if one else one for name, one in roles.items()}}


# --- what is beside the texts


def _set_where(layout: MappingDocument, edit: Edit) -> MappingDocument:
    """Set the conditions of the rows, or of a message; lengths are single whole numbers."""
    _refuse(lowering.condition_problems(edit["where"], "/where"))
    number = edit.get("number")
    held = _pick(layout.get("messages") or [], number, "/number") if number else layout
    known = list(list_conditions(held))
    for place, one in enumerate(edit["where"]):
        if one not in known and not number:
            _refuse_several(layout, one, f"/where/{place}/path")
    where: Json = [lowering.lower_condition(one) for one in edit["where"]]
    if not number:
        return _with_key(layout, "where", where)
    return _change_message(layout, number, lambda message: _with_key(message, "where", where))


def _refuse_several(layout: MappingDocument, condition: MappingDocument, pointer: str) -> None:
    """Refuse a condition of rows on a field that they have several times: only one is tested."""
    path = condition["path"]
    if not isinstance(path, str) or not ("[*]" in path or ".*" in path):
        return
    lists = [one.get("each") for one in layout.get("messages") or ()]
    inside = next((each for each in lists if is_path_inside(path, str(each))), None)
    words = f"A row has several values of {path}, and only the first would be tested."
    command = _message_condition(condition, path.removeprefix(f"{inside}.")) if inside else ""
    raise _EditError(pointer, "a field that a row has once", path, words, command)


_TYPED = {"in": "keep {} is", "not_in": "drop {} is", "min_chars": "drop {} under"}


def _message_condition(condition: MappingDocument, name: str) -> str:
    """Return the command that tests the same of each message."""
    typed = _TYPED.get(condition["op"], "drop {} over").format(f"message where {name}")
    plain = (one if isinstance(one, str) and one.isalnum() else None for one in condition["values"])
    values = zip(plain, condition["values"], strict=True)
    return f"{typed} {','.join(one or json.dumps(other) for one, other in values)}"


def list_conditions(layout: MappingDocument) -> Iterator[MappingDocument]:
    """Yield the conditions of a layout in the form of an edit."""
    for one in layout.get("where") or []:
        operator = next(key for key in one if key != "path")
        stated = one[operator]
        values = stated if isinstance(stated, list) else [stated]
        yield {"path": one["path"], "op": operator, "values": values}


def _set_group(document: MappingDocument, edit: Edit) -> MappingDocument:
    """Set how rows are grouped; where that begins or ends, paths are rewritten."""
    group = edit["group"]
    if group and not group["sort"]:
        group = {"by": group["by"]}
    if group and not document.get("group"):
        document = _change_tree(document, enter_group)
    elif document.get("group") and not group:
        document = _change_tree(document, leave_group)
    return _with_key(document, "group", group)


def _change_tree(
    document: MappingDocument, change: Callable[[Mapping], Mapping]
) -> MappingDocument:
    """Change the tree of a document; what it does not state yet stays so."""
    made = to_document(change(read_tree(document)))
    return {key: one for key, one in made.items() if key in document}


def _set_aside(layout: MappingDocument, edit: Edit) -> MappingDocument:
    """Set what stands beside the messages: the system message, or the definitions of tools."""
    key = edit["set"]
    return _with_key(layout, key, _file_value(edit["parts"], layout.get(key), "/parts"))


def _meta_value(edit: Edit) -> Json:
    _refuse(lowering.part_problems([edit["value"]], "/value", numbered=False))
    return lowering.lower_value([edit["value"] or ""])


def _set_in(name: str, key: str, document: MappingDocument, value: Json) -> MappingDocument:
    return _with_key(document, name, _with_key(document.get(name) or {}, key, value))


def _set_files(document: MappingDocument, edit: Edit) -> MappingDocument:
    """Set which files are read: those named, or as before without those left out."""
    stated, without = (document.get("source") or {}).get("files") or [], edit["leave_out"]
    named = edit["read"] or [one for one in stated if one not in without]
    known = stated if any(not one.startswith("!") for one in named) else []
    more = [f"!{one}" for one in without if f"!{one}" not in named and one not in known]
    return _set_in("source", "files", document, [*named, *more])


def _set_header_rows(document: MappingDocument, edit: Edit) -> MappingDocument:
    """Set the rows of the header, which takes the place of stated names."""
    source = _without(document.get("source") or {}, "columns")
    return _set_in("source", "header_rows", {**document, "source": source}, edit["rows"])


_APPLY: dict[str, _Change] = {
    "text": _on_layout(_set_text),
    "system": _on_layout(_set_aside),
    "tools": _on_layout(_set_aside),
    "messages": _on_layout(_set_messages),
    "message": _on_layout(_set_message),
    "content": _on_layout(_set_content),
    "train": _on_layout(_set_train),
    "role": _on_layout(_set_role),
    "swap": _swap_all,
    "where": _on_layout(_set_where),
    "each": _on_layout(lambda layout, edit: _with_key(layout, "each", edit["path"])),
    "meta": lambda document, edit: _set_in("meta", edit["key"], document, _meta_value(edit)),
    "group": _set_group,
    "root": lambda document, edit: _set_in("source", "root", document, edit["path"]),
    "files": _set_files,
    "header_rows": _set_header_rows,
}
KINDS = tuple(_APPLY)
