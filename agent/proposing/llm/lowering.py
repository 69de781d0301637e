"""From the form that a model is asked for to the mapping file's form, by a fixed function.

A model's form (schemas/llm.schema.json) has no free maps and no optional keys, as strict servers
want it; the file's form is the language of docs/mapping.md. Nothing is guessed here: what cannot be
lowered is a problem with its pointer.
"""

from collections.abc import Iterable

from ingot.converters.errors import MappingError, Problem
from ingot.converters.rows import Json

Document = dict[str, Json]


def lower_reply(reply: Document, *, where: str = "the model's reply") -> Document:
    """The version 2 document that a schema-valid reply with decision `pt` or `sft` means."""
    problems = [*_shape_problems(reply), *_message_problems(reply), *_where_problems(reply)]
    if problems:
        raise MappingError(where, tuple(problems))
    body = {"text": lower_value(reply["text"])} if reply["decision"] == "pt" else _lower_chat(reply)
    return {"version": 2, **_row_keys(reply), **body, **_lower_meta(reply["meta"])}


def _row_keys(reply: Document) -> Document:
    """The keys that say how files become rows and rows become records."""
    made: Document = {}
    if reply["root"]:
        made["source"] = {"root": reply["root"]}
    if reply["group"] and reply["group"]["by"]:
        group = reply["group"]
        made["group"] = {"by": group["by"]} | ({"sort": group["sort"]} if group["sort"] else {})
    if reply["each"]:
        made["each"] = reply["each"]
    if reply["where"]:
        made["where"] = [lower_condition(one) for one in reply["where"]]
    return made


def lower_condition(condition: Document) -> Document:
    """One condition of `where` in the file's form."""
    operator, values = condition["op"], condition["values"]
    wanted = int(values[0]) if operator in ("min_chars", "max_chars") else values
    return {"path": condition["path"], operator: wanted}


def _lower_chat(reply: Document) -> Document:
    made: Document = {"messages": [lower_message(one) for one in reply["messages"]]}
    system = lower_value(reply["system"] or [])
    return made if system is None else {**made, "system": system}


def lower_message(message: Document) -> Document:
    """One entry of `messages` in the file's form."""
    made = _lower_each(message["each"])
    made["role"] = _lower_role(message["role"])
    made["content"] = lower_value(message["content"])
    mask = message["loss_mask"]
    if mask is not None:
        made["loss_mask"] = mask["path"] if isinstance(mask, dict) else mask
    return made


def _lower_each(paths: list[str]) -> Document:
    """`each` of a message or template: absent, one path, or lists walked in step."""
    if not paths:
        return {}
    return {"each": paths[0] if len(paths) == 1 else paths}


def _lower_role(role: Json) -> Json:
    if isinstance(role, str):
        return role
    if "in_turn" in role:
        turns = role["in_turn"]
        return turns[0] if len(turns) == 1 else turns
    if "split" in role:
        return {"split": _named_roles(role["split"], "marker")}
    return {"path": role["path"]} | (
        {"map": _named_roles(role["map"], "value")} if role["map"] else {}
    )


def _named_roles(pairs: Iterable[Document], key: str) -> Document:
    return {one[key]: None if one["role"] == "drop" else one["role"] for one in pairs}


def lower_value(parts: list[Json]) -> Json:
    """One value of the file's form; no parts = null."""
    made = [_lower_part(part) for part in parts if part not in ("", {"literal": ""})]
    if not made:
        return None
    return made[0] if len(made) == 1 else made


def _lower_part(part: Json) -> Json:
    if isinstance(part, str) or "literal" in part:
        return part
    if "template" in part:
        return _lower_template(part)
    return _lower_options(part)


def _lower_template(part: Document) -> Document:
    if "{{" not in part["template"] and not part["each"]:
        return {"literal": part["template"]}  # a template without placeholders is just this text
    return {"template": part["template"], **_lower_each(part["each"])}


def _lower_options(part: Document) -> Json:
    paths = part["options"]
    made: Document = {"path": paths[0]} if len(paths) == 1 else {"concat": paths}
    if part["pick"]:
        made["pick"] = part["pick"]
    if part["label"]:
        made["label"] = part["label"]
    return made["path"] if list(made) == ["path"] else made


def _lower_meta(meta: Document) -> Document:
    named = {key: value for key, value in meta.items() if value not in (None, "", {"literal": ""})}
    return {"meta": named} if named else {}


def _shape_problems(reply: Document) -> list[Problem]:
    wanted, other = ("text", "messages") if reply["decision"] == "pt" else ("messages", "text")
    problems = []
    if not reply[wanted]:
        problems.append(
            _schema_problem(f"/{wanted}", f"what decision {reply['decision']} needs", "nothing")
        )
    if reply[other]:
        expected = f"null with decision {reply['decision']}"
        problems.append(_schema_problem(f"/{other}", expected, "a value"))
    return problems + [
        _schema_problem(f"{pointer}/options", "at least one path", "[]")
        for pointer, part in _all_parts(reply)
        if isinstance(part, dict) and part.get("options") == []
    ]


def _all_parts(reply: Document) -> Iterable[tuple[str, Json]]:
    lists = [("/text", reply["text"]), ("/system", reply["system"])]
    for number, message in enumerate(reply["messages"] or []):
        lists.append((f"/messages/{number}/content", message["content"]))
    for pointer, parts in lists:
        for number, part in enumerate(parts or []):
            yield f"{pointer}/{number}", part


def _message_problems(reply: Document) -> list[Problem]:
    problems = []
    for number, message in enumerate(reply["messages"] or []):
        role, pointer = message["role"], f"/messages/{number}/role"
        if not isinstance(role, dict):
            continue
        key = next(key for key in ("in_turn", "split", "map") if key in role)
        if not role[key] and key != "map":
            problems.append(_schema_problem(f"{pointer}/{key}", "at least one entry", "[]"))
        if key != "in_turn":
            problems += _repeated_entries(
                role[key], "marker" if key == "split" else "value", f"{pointer}/{key}"
            )
    return problems


def _repeated_entries(pairs: list[Document], key: str, pointer: str) -> list[Problem]:
    """Entries that say two things of one value."""
    first: dict[str, str] = {}
    problems = []
    for number, one in enumerate(pairs):
        name, role = one[key], one["role"]
        if not name:
            problems.append(_schema_problem(f"{pointer}/{number}/{key}", "a text", "''"))
        elif first.setdefault(name, role) != role:
            expected = f"one role for {name!r}"
            problems.append(
                _schema_problem(f"{pointer}/{number}", expected, f"{first[name]} and {role}")
            )
    return problems


def _where_problems(reply: Document) -> list[Problem]:
    problems = []
    for number, condition in enumerate(reply["where"]):
        values, pointer = condition["values"], f"/where/{number}/values"
        if condition["op"] in ("in", "not_in"):
            if not values:
                problems.append(_schema_problem(pointer, "at least one value", "[]"))
        elif not (len(values) == 1 and _is_count(values[0])):
            problems.append(_schema_problem(pointer, "one whole number from 0", repr(values)[:60]))
    return problems


def _is_count(value: Json) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and value >= 0 and value == int(value)


def _schema_problem(pointer: str, expected: str, got: str) -> Problem:
    return Problem(pointer=pointer, code="schema", expected=expected, got=got)
