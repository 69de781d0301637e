"""Apply edits, which are data, to a mapping document.

A person's short commands and a model's replies become the same few kinds of edit
(schemas/chat.schema.json); nothing else changes a mapping in a conversation. What an edit does not
name stays as it is. Texts are lists of parts in the form that models are taught, with `{"current":
n}` for a part or a message that is there already.
"""

from collections.abc import Callable, Iterator, Sequence

from ingot.agent.proposing.llm.reply import lower_condition, lower_message, lower_value
from ingot.agent.reporting.mapping_words import value_parts
from ingot.converters.errors import MappingError, Problem
from ingot.converters.mapping.language import ROLES
from ingot.converters.rows import Json

Document = dict[str, Json]
Edit = dict[str, Json]

WHERE, EDIT = "the change", "edit"
_SIDES = {"user": "assistant", "assistant": "user"}
_BODIES = ("text", "messages", "system", "tools", "any_of")


def apply_edits(document: Document, edits: Sequence[Edit]) -> Document:
    """Return the document after the edits, in their order; the given one is not changed."""
    made = {key: value for key, value in document.items() if key != "provenance"}
    for number, edit in enumerate(edits):
        try:
            made = _APPLY[edit["set"]](made, edit)
        except _EditError as error:
            pointer, expected, got = error.args
            problem = Problem(f"/edits/{number}{pointer}", EDIT, expected, got)
            raise MappingError(WHERE, (problem,)) from error
    return made


class _EditError(Exception):
    """An edit does not fit: pointer into the edit, what is expected, what was found."""


# --- the alternatives of a mapping


def _change_layout(
    document: Document, edit: Edit, change: Callable[[Document, Edit], Document]
) -> Document:
    """Change one of the layouts of a document: an alternative, or the document itself."""
    number, variants = edit.get("alternative"), document.get("any_of") or []
    if number is None:
        return change(document, edit)
    if not 1 <= number <= len(variants):
        raise _EditError("/alternative", f"1 to {len(variants)}", str(number))
    changed = [
        change(one, edit) if place == number else one for place, one in enumerate(variants, start=1)
    ]
    return {**document, "any_of": changed}


def _with_key(layout: Document, key: str, value: Json) -> Document:
    """Set a key, or remove it if there is no value."""
    kept = {name: one for name, one in layout.items() if name != key}
    return kept if value in (None, [], {}) else {**kept, key: value}


# --- values


def _file_value(parts: Sequence[Json], current: Json, pointer: str) -> Json:
    """Turn the parts of an edit into a value of the file's form."""
    known = value_parts(current)
    made: list[Json] = []
    for number, part in enumerate(parts):
        if isinstance(part, dict) and "current" in part:
            made += _current_parts(known, part["current"], f"{pointer}/{number}/current")
        else:
            made.append(_file_part(part))
    made = [part for part in made if part not in (None, "")]
    return made[0] if len(made) == 1 else made or None


def _current_parts(known: Sequence[Json], number: int, pointer: str) -> list[Json]:
    """Return one of the present parts; 0 stands for all of them."""
    if number == 0 and known:
        return list(known)
    if not known:
        raise _EditError(pointer, "something that is there already", "nothing")
    if not 1 <= number <= len(known):
        raise _EditError(pointer, f"a number from 1 to {len(known)}", str(number))
    return [known[number - 1]]


def _file_part(part: Json) -> Json:
    if isinstance(part, dict) and "first_of" in part:
        return {"any_of": part["first_of"]} if len(part["first_of"]) > 1 else part["first_of"][0]
    if isinstance(part, dict) and "path" in part:
        return _modified_part(part)
    return lower_value([part])


def _modified_part(part: Document) -> Json:
    made: Document = {"path": part["path"]}
    if part.get("map"):
        made["map"] = {one["value"]: one["becomes"] for one in part["map"]}
    if part.get("replace"):
        made["replace"] = {one["find"]: one["put"] for one in part["replace"]}
    if part.get("json"):
        made["as"] = "json"
    return made if len(made) > 1 else made["path"]


# --- texts and messages


def _set_text(layout: Document, edit: Edit) -> Document:
    value = _file_value(edit["parts"], layout.get("text"), "/parts")
    if value is None:
        raise _EditError("/parts", "at least one part", "none")
    kept = {key: one for key, one in layout.items() if key not in _BODIES}
    return {**kept, "text": value}


def _set_system(layout: Document, edit: Edit) -> Document:
    return _with_key(layout, "system", _file_value(edit["parts"], layout.get("system"), "/parts"))


def _set_messages(layout: Document, edit: Edit) -> Document:
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
    kept = {key: one for key, one in layout.items() if key not in ("text", "any_of")}
    return {**kept, "messages": made}


def _set_message(layout: Document, edit: Edit) -> Document:
    """Replace, append or remove one entry."""
    known, number, wanted = list(layout.get("messages") or []), edit["number"], edit["message"]
    if not 1 <= number <= len(known) + (wanted is not None):
        raise _EditError("/number", f"1 to {len(known) + (wanted is not None)}", str(number))
    before = known[number - 1] if number <= len(known) else None
    entry = [] if wanted is None else [_message_entry(wanted, before, "/message")]
    changed = [*known[: number - 1], *entry, *known[number:]]
    if not changed:
        raise _EditError("/message", "a message, since it is the only one", "none")
    kept = {key: one for key, one in layout.items() if key not in ("text", "any_of")}
    return {**kept, "messages": changed}


def _set_content(layout: Document, edit: Edit) -> Document:
    return _change_message(
        layout, edit, lambda one: _file_value(edit["parts"], one.get("content"), "/parts")
    )


def _set_train(layout: Document, edit: Edit) -> Document:
    """Set whether one message is trained on; None = as is usual for its role."""
    mask = edit["mask"]["path"] if isinstance(edit["mask"], dict) else edit["mask"]
    return _change_message(layout, edit, lambda _: mask, key="loss_mask")


def _change_message(
    layout: Document, edit: Edit, value: Callable[[Document], Json], *, key: str = "content"
) -> Document:
    messages, number = layout.get("messages") or [], edit["number"]
    if not 1 <= number <= len(messages):
        raise _EditError("/number", f"1 to {len(messages)}", str(number))
    before = messages[number - 1]
    made = value(before)
    kept = {name: one for name, one in before.items() if name != key}
    after = {**kept, key: made} if made is not None or key == "content" else kept
    return {**layout, "messages": [*messages[: number - 1], after, *messages[number:]]}


def _message_entry(message: Document, before: Document | None, pointer: str) -> Document:
    """Turn a message into the file's form; its current parts are those of the replaced entry."""
    current = (before or {}).get("content")
    content = _file_value(message["content"], current, f"{pointer}/content")
    made = lower_message({**message, "content": []})
    return {**made, "content": content}


def _set_role(layout: Document, edit: Edit) -> Document:
    """Give one speaker or one marker its role."""
    role = None if edit["role"] == "drop" else edit["role"]
    changed: list[Json] = []
    found = False
    for one in layout.get("messages") or []:
        named = _names_key(one["role"])
        if named and (edit["number"] in (None, len(changed) + 1)):
            found = True
            kept = {**_roles_by_name(one["role"], named), edit["value"]: role}
            one = {**one, "role": {**one["role"], named: kept}}
        changed.append(one)
    if not found:
        raise _EditError("", "a message whose role is read from the data", "none")
    return {**layout, "messages": changed}


def _names_key(role: Json) -> str | None:
    """Return the key under which a role that is read from the data names its values."""
    if not isinstance(role, dict):
        return None
    return "split" if "split" in role else "map"


def _roles_by_name(role: Document, named: str) -> Document:
    """Return the roles by name; without a map the four names mean themselves."""
    if named in role:
        return dict(role[named])
    return {one: one for one in ROLES}


def _swap_sides(layout: Document, edit: Edit) -> Document:
    """Exchange the texts of user and assistant if each has one entry, else their roles."""
    messages = layout.get("messages")
    if not messages:
        raise _EditError("", "messages to swap", "none")
    roles = [one["role"] for one in messages]
    spoken = [role for role in roles if role not in ("system", "tool")]
    if len(spoken) == len(_SIDES) and all(role in spoken for role in _SIDES):
        return {**layout, "messages": _swap_contents(messages, *map(roles.index, _SIDES))}
    return {**layout, "messages": [{**one, "role": swap_role(one["role"])} for one in messages]}


def _swap_all(document: Document, edit: Edit) -> Document:
    """Exchange the sides of the stated alternative, or of all that have sides."""
    if edit["alternative"] is not None or "any_of" not in document:
        return _change_layout(document, edit, _swap_sides)
    variants = [
        _swap_sides(one, edit) if one.get("messages") else one for one in document["any_of"]
    ]
    outer = _swap_sides(document, edit) if document.get("messages") else document
    if outer is document and variants == document["any_of"]:
        raise _EditError("", "messages to swap", "none")
    return {**outer, "any_of": variants}


def _swap_contents(messages: Sequence[Document], one: int, other: int) -> list[Json]:
    made = list(messages)
    for here, there in ((one, other), (other, one)):
        said: Document = {k: v for k, v in messages[there].items() if k in ("each", "content")}
        kept: Document = {k: v for k, v in messages[here].items() if k not in ("each", "content")}
        made[here] = kept | said
    return made


def swap_role(role: Json) -> Json:
    """Exchange user and assistant in a role of the file's form."""
    if isinstance(role, str):
        return _SIDES.get(role, role)
    if isinstance(role, list):
        return [swap_role(one) for one in role]
    named = _names_key(role) or "map"
    names = _roles_by_name(role, named)
    return {**role, named: {name: swap_role(one) if one else one for name, one in names.items()}}


# --- what is beside the texts


def _set_meta(document: Document, edit: Edit) -> Document:
    return _with_key(
        document, "meta", _with_key(document.get("meta") or {}, edit["key"], edit["value"])
    )


def _set_where(layout: Document, edit: Edit) -> Document:
    return _with_key(
        layout, "where", [_file_condition(n, one) for n, one in enumerate(edit["where"])]
    )


def _file_condition(number: int, condition: Document) -> Document:
    """Check a condition: lengths are single whole numbers, lists are not empty."""
    values, counted = condition["values"], condition["op"] in ("min_chars", "max_chars")
    if counted and not (len(values) == 1 and _is_count(values[0])):
        raise _EditError(f"/where/{number}/values", "one whole number from 0", str(values)[:60])
    if not values:
        raise _EditError(f"/where/{number}/values", "at least one value", "none")
    return lower_condition(condition)


def _is_count(value: Json) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and value >= 0 and value == int(value)


def list_conditions(layout: Document) -> Iterator[Document]:
    """Yield the conditions of a layout in the form of an edit."""
    for one in layout.get("where") or []:
        operator = next(key for key in one if key != "path")
        stated = one[operator]
        values = stated if isinstance(stated, list) else [stated]
        yield {"path": one["path"], "op": operator, "values": values}


def _set_each(layout: Document, edit: Edit) -> Document:
    return _with_key(layout, "each", edit["path"])


def _set_group(document: Document, edit: Edit) -> Document:
    group = edit["group"]
    if group and not group["sort"]:
        group = {"by": group["by"]}
    return _with_key(document, "group", group)


def _set_root(document: Document, edit: Edit) -> Document:
    return _with_key(
        document, "source", _with_key(document.get("source") or {}, "root", edit["path"])
    )


def _on_layout(
    change: Callable[[Document, Edit], Document],
) -> Callable[[Document, Edit], Document]:
    return lambda document, edit: _change_layout(document, edit, change)


_APPLY: dict[str, Callable[[Document, Edit], Document]] = {
    "text": _on_layout(_set_text),
    "system": _on_layout(_set_system),
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
}
KINDS = tuple(_APPLY)
