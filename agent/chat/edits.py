"""Changes of a mapping document as data, and their application.

A person's short commands and a model's replies become the same few kinds of edit
(schemas/chat.schema.json); nothing else changes a mapping in a conversation. What an edit does not
name stays as it is. Texts are lists of parts in the form that models are taught, with
`{"current": n}` for a part or a message that is there already.
"""

from collections.abc import Callable, Iterator, Sequence

from ingot.agent.mappers.lowering import condition_of, message_of, value_of
from ingot.converters.errors import MappingError, Problem
from ingot.converters.language import ROLES
from ingot.converters.rows import Json

Document = dict[str, Json]
Edit = dict[str, Json]

WHERE, EDIT = "the change", "edit"
_SIDES = {"user": "assistant", "assistant": "user"}
_BODIES = ("text", "messages", "system", "tools", "any_of")


def applied(document: Document, edits: Sequence[Edit]) -> Document:
    """The document after the edits, in their order; the given one is not changed.

    Args:
        document: a version 2 mapping, its provenance aside.
        edits: as the schema `chat` allows them.

    Raises:
        MappingError: an edit says what cannot be done; pointers are into the edits.
    """
    made = {key: value for key, value in document.items() if key != "provenance"}
    for number, edit in enumerate(edits):
        try:
            made = _APPLY[edit["set"]](made, edit)
        except _Impossible as error:
            pointer, expected, got = error.args
            problem = Problem(f"/edits/{number}{pointer}", EDIT, expected, got)
            raise MappingError(WHERE, (problem,)) from error
    return made


class _Impossible(Exception):  # noqa: N818 - a state of an edit
    """Fields: pointer into the edit, what is expected, what was got."""


# --- the alternatives of a mapping


def _in_layout(
    document: Document, edit: Edit, change: Callable[[Document, Edit], Document]
) -> Document:
    """The document with one of its layouts changed: an alternative, or the document itself."""
    number, variants = edit.get("alternative"), document.get("any_of") or []
    if number is None:
        return change(document, edit)
    if not 1 <= number <= len(variants):
        raise _Impossible("/alternative", f"1 to {len(variants)}", str(number))
    changed = [
        change(one, edit) if place == number else one for place, one in enumerate(variants, start=1)
    ]
    return {**document, "any_of": changed}


def _with(layout: Document, key: str, value: Json) -> Document:
    """The layout with the key, or without it where there is no value."""
    kept = {name: one for name, one in layout.items() if name != key}
    return kept if value in (None, [], {}) else {**kept, key: value}


# --- values


def parts_of(value: Json) -> list[Json]:
    """The parts that a value of the file's form joins by line breaks."""
    if value is None:
        return []
    return list(value) if isinstance(value, list) else [value]


def _value(parts: Sequence[Json], current: Json, pointer: str) -> Json:
    """The parts of an edit as a value of the file's form."""
    known = parts_of(current)
    made: list[Json] = []
    for number, part in enumerate(parts):
        if isinstance(part, dict) and "current" in part:
            made += _current(known, part["current"], f"{pointer}/{number}/current")
        else:
            made.append(_part(part))
    made = [part for part in made if part not in (None, "")]
    return made[0] if len(made) == 1 else made or None


def _current(known: Sequence[Json], number: int, pointer: str) -> list[Json]:
    """One of the things that are there; 0 is all of them."""
    if number == 0 and known:
        return list(known)
    if not known:
        raise _Impossible(pointer, "something that is there already", "nothing")
    if not 1 <= number <= len(known):
        raise _Impossible(pointer, f"a number from 1 to {len(known)}", str(number))
    return [known[number - 1]]


def _part(part: Json) -> Json:
    if isinstance(part, dict) and "first_of" in part:
        return {"any_of": part["first_of"]} if len(part["first_of"]) > 1 else part["first_of"][0]
    if isinstance(part, dict) and "path" in part:
        return _modified(part)
    return value_of([part])


def _modified(part: Document) -> Json:
    made: Document = {"path": part["path"]}
    if part.get("map"):
        made["map"] = {one["value"]: one["becomes"] for one in part["map"]}
    if part.get("replace"):
        made["replace"] = {one["find"]: one["put"] for one in part["replace"]}
    if part.get("json"):
        made["as"] = "json"
    return made if len(made) > 1 else made["path"]


# --- texts and messages


def _text(layout: Document, edit: Edit) -> Document:
    value = _value(edit["parts"], layout.get("text"), "/parts")
    if value is None:
        raise _Impossible("/parts", "at least one part", "none")
    kept = {key: one for key, one in layout.items() if key not in _BODIES}
    return {**kept, "text": value}


def _system(layout: Document, edit: Edit) -> Document:
    return _with(layout, "system", _value(edit["parts"], layout.get("system"), "/parts"))


def _messages(layout: Document, edit: Edit) -> Document:
    known = layout.get("messages") or []
    made: list[Json] = []
    for number, one in enumerate(edit["messages"]):
        pointer = f"/messages/{number}"
        if "current" in one:
            made += _current(known, one["current"], f"{pointer}/current")
        else:
            made.append(_entry(one, None, pointer))
    if not made:
        raise _Impossible("/messages", "at least one message", "none")
    kept = {key: one for key, one in layout.items() if key not in ("text", "any_of")}
    return {**kept, "messages": made}


def _message(layout: Document, edit: Edit) -> Document:
    """One entry in the place of another, behind the last, or taken away."""
    known, number, wanted = list(layout.get("messages") or []), edit["number"], edit["message"]
    if not 1 <= number <= len(known) + (wanted is not None):
        raise _Impossible("/number", f"1 to {len(known) + (wanted is not None)}", str(number))
    before = known[number - 1] if number <= len(known) else None
    entry = [] if wanted is None else [_entry(wanted, before, "/message")]
    changed = [*known[: number - 1], *entry, *known[number:]]
    if not changed:
        raise _Impossible("/message", "a message, since it is the only one", "none")
    kept = {key: one for key, one in layout.items() if key not in ("text", "any_of")}
    return {**kept, "messages": changed}


def _content(layout: Document, edit: Edit) -> Document:
    """Other texts in the place of one message's."""
    return _changed(layout, edit, lambda one: _value(edit["parts"], one.get("content"), "/parts"))


def _train(layout: Document, edit: Edit) -> Document:
    """Whether one message is trained on; None = as is usual for its role."""
    mask = edit["mask"]["path"] if isinstance(edit["mask"], dict) else edit["mask"]
    return _changed(layout, edit, lambda _: mask, key="loss_mask")


def _changed(
    layout: Document, edit: Edit, value: Callable[[Document], Json], *, key: str = "content"
) -> Document:
    """The layout with one key of one of its messages anew."""
    messages, number = layout.get("messages") or [], edit["number"]
    if not 1 <= number <= len(messages):
        raise _Impossible("/number", f"1 to {len(messages)}", str(number))
    before = messages[number - 1]
    made = value(before)
    kept = {name: one for name, one in before.items() if name != key}
    after = {**kept, key: made} if made is not None or key == "content" else kept
    return {**layout, "messages": [*messages[: number - 1], after, *messages[number:]]}


def _entry(message: Document, before: Document | None, pointer: str) -> Document:
    """A message in the file's form, its parts those of the entry that it takes the place of."""
    current = (before or {}).get("content")
    content = _value(message["content"], current, f"{pointer}/content")
    made = message_of({**message, "content": []})
    return {**made, "content": content}


def _role(layout: Document, edit: Edit) -> Document:
    """One name of a speaker, or one marker, with its role."""
    role = None if edit["role"] == "drop" else edit["role"]
    changed: list[Json] = []
    found = False
    for one in layout.get("messages") or []:
        named = _naming(one["role"])
        if named and (edit["number"] in (None, len(changed) + 1)):
            found = True
            kept = {**_names(one["role"], named), edit["value"]: role}
            one = {**one, "role": {**one["role"], named: kept}}
        changed.append(one)
    if not found:
        raise _Impossible("", "a message whose role is read from the data", "none")
    return {**layout, "messages": changed}


def _naming(role: Json) -> str | None:
    """The key under which a role that is read from the data names its values."""
    if not isinstance(role, dict):
        return None
    return "split" if "split" in role else "map"


def _names(role: Document, named: str) -> Document:
    """The roles by name; without a map the four names are themselves."""
    if named in role:
        return dict(role[named])
    return {one: one for one in ROLES}


def _swap(layout: Document, edit: Edit) -> Document:
    """User and assistant exchanged: their texts where each has one entry, else their roles."""
    messages = layout.get("messages")
    if not messages:
        raise _Impossible("", "messages to swap", "none")
    places = [_only(messages, role) for role in _SIDES]
    if None not in places and len(messages) - len(_others(messages)) == len(_SIDES):
        return {**layout, "messages": _contents_swapped(messages, places)}
    return {**layout, "messages": [{**one, "role": swapped(one["role"])} for one in messages]}


def _swap_all(document: Document, edit: Edit) -> Document:
    """Sides exchanged in the alternative that is meant, or wherever there are sides."""
    if edit["alternative"] is not None or "any_of" not in document:
        return _in_layout(document, edit, _swap)
    variants = [_swap(one, edit) if one.get("messages") else one for one in document["any_of"]]
    outer = _swap(document, edit) if document.get("messages") else document
    if outer is document and variants == document["any_of"]:
        raise _Impossible("", "messages to swap", "none")
    return {**outer, "any_of": variants}


def _only(messages: Sequence[Document], role: str) -> int | None:
    places = [place for place, one in enumerate(messages) if one["role"] == role]
    return places[0] if len(places) == 1 else None


def _others(messages: Sequence[Document]) -> list[Document]:
    return [one for one in messages if one["role"] in ("system", "tool")]


def _contents_swapped(messages: Sequence[Document], places: Sequence[int | None]) -> list[Json]:
    one, other = (place for place in places if place is not None)
    made = list(messages)
    for here, there in ((one, other), (other, one)):
        said: Document = {k: v for k, v in messages[there].items() if k in ("each", "content")}
        kept: Document = {k: v for k, v in messages[here].items() if k not in ("each", "content")}
        made[here] = kept | said
    return made


def swapped(role: Json) -> Json:
    """A role of the file's form with user and assistant exchanged."""
    if isinstance(role, str):
        return _SIDES.get(role, role)
    if isinstance(role, list):
        return [swapped(one) for one in role]
    named = _naming(role) or "map"
    names = _names(role, named)
    return {**role, named: {name: swapped(one) if one else one for name, one in names.items()}}


# --- what is beside the texts


def _meta(document: Document, edit: Edit) -> Document:
    return _with(document, "meta", _with(document.get("meta") or {}, edit["key"], edit["value"]))


def _where(layout: Document, edit: Edit) -> Document:
    return _with(layout, "where", [_condition(n, one) for n, one in enumerate(edit["where"])])


def _condition(number: int, condition: Document) -> Document:
    """One condition; lengths are single whole numbers, lists are not empty."""
    values, counted = condition["values"], condition["op"] in ("min_chars", "max_chars")
    if counted and not (len(values) == 1 and _is_count(values[0])):
        raise _Impossible(f"/where/{number}/values", "one whole number from 0", str(values)[:60])
    if not values:
        raise _Impossible(f"/where/{number}/values", "at least one value", "none")
    return condition_of(condition)


def _is_count(value: Json) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and value >= 0 and value == int(value)


def conditions(layout: Document) -> Iterator[Document]:
    """The conditions of a layout in the form of an edit."""
    for one in layout.get("where") or []:
        operator = next(key for key in one if key != "path")
        stated = one[operator]
        values = stated if isinstance(stated, list) else [stated]
        yield {"path": one["path"], "op": operator, "values": values}


def _each(layout: Document, edit: Edit) -> Document:
    return _with(layout, "each", edit["path"])


def _group(document: Document, edit: Edit) -> Document:
    group = edit["group"]
    if group and not group["sort"]:
        group = {"by": group["by"]}
    return _with(document, "group", group)


def _root(document: Document, edit: Edit) -> Document:
    return _with(document, "source", _with(document.get("source") or {}, "root", edit["path"]))


def _layouts(change: Callable[[Document, Edit], Document]) -> Callable[[Document, Edit], Document]:
    return lambda document, edit: _in_layout(document, edit, change)


_APPLY: dict[str, Callable[[Document, Edit], Document]] = {
    "text": _layouts(_text),
    "system": _layouts(_system),
    "messages": _layouts(_messages),
    "message": _layouts(_message),
    "content": _layouts(_content),
    "train": _layouts(_train),
    "role": _layouts(_role),
    "swap": _swap_all,
    "where": _layouts(_where),
    "each": _layouts(_each),
    "meta": _meta,
    "group": _group,
    "root": _root,
}
KINDS = tuple(_APPLY)
