"""Read the text of a model as a schema-valid reply, and lower the reply to a mapping document.

Nothing is trusted: the one object is looked for, completed where a nullable key was left out, and
validated against schemas/llm.schema.json, which has no free maps and no optional keys. Nothing is
guessed either: what cannot be lowered is a problem with its pointer.
"""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ingot.agent.model.json_text import JsonObject, UnreadableReply, only_object
from ingot.converters import json_yaml
from ingot.converters.errors import MappingError, Problem
from ingot.converters.rows import Json

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

NOT_JSON, SCHEMA = "not_json", "schema"
MOST_PROBLEMS = 5
REPLY_PLACE = "the model's reply"

_META = ("source", "language", "timestamp", "token_count", "quality_score", "original_id")
_EMPTY_REPLY: JsonObject = {
    "reason": "",
    "root": None,
    "each": None,
    "group": None,
    "where": [],
    "text": None,
    "messages": None,
    "system": None,
    "meta": None,
    "confidence": 0.5,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadReply:
    """A reply as the schema allows it, and what was put right to get there."""

    document: JsonObject
    repaired: tuple[str, ...]


def read_reply(text: str, *, cut_off: bool = False) -> ReadReply:
    """The reply as an object that the schema allows."""
    try:
        found, how = only_object(text, _answer_rank, cut_off=cut_off)
    except UnreadableReply as error:
        raise _unreadable_error(error) from error
    reply = complete_reply(found)
    problems = [schema_fault(error) for error in json_yaml.validator("llm").iter_errors(reply)]
    if problems:
        raise MappingError(REPLY_PLACE, tuple(problems[:MOST_PROBLEMS]))
    return ReadReply(document=reply, repaired=how if reply == found else (*how, "completed"))


def _answer_rank(found: JsonObject) -> int:
    """How much of an answer an object is; a quoted row may well have a `text`."""
    if "decision" in found:
        return 2
    return int("messages" in found or "text" in found)


def _unreadable_error(error: UnreadableReply) -> MappingError:
    problem = Problem(
        pointer="", code=NOT_JSON, expected=error.expected, got=shorten_value(error.got)
    )
    return MappingError(REPLY_PLACE, (problem,))


def complete_reply(reply: JsonObject) -> JsonObject:
    """The same reply with the nullable keys that were left out, and lists where one value stood.

    Servers that do not enforce a schema return such replies; the meaning is plain. A missing
    `decision` follows from `text` or `messages`, as in version 1 of the mapping format.
    """
    made = {**_EMPTY_REPLY, **reply}
    made["where"] = [] if made["where"] is None else made["where"]
    made.setdefault("decision", _implied_decision(made))
    made["confidence"] = _clamp_confidence(made["confidence"])
    made["text"], made["system"] = complete_parts(made["text"]), complete_parts(made["system"])
    made["meta"] = _complete_meta(made["meta"])
    if isinstance(made["group"], dict):
        made["group"] = {"sort": None, **made["group"], "by": _as_list(made["group"].get("by"))}
    if isinstance(made["messages"], list):
        made["messages"] = [complete_message(one) for one in made["messages"]]
    return made


def _implied_decision(reply: JsonObject) -> str:
    if reply["messages"]:
        return "sft"
    return "pt" if reply["text"] else "irrelevant"


def _clamp_confidence(value: Json) -> Json:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value if isinstance(value, str | bool) else 0.5
    if isinstance(value, float) and not math.isfinite(value):
        return 0.5
    return float(min(max(value, 0), 1))  # an integer may be too large for a float


def _as_list(value: Json) -> Json:
    if value is None or value == "":
        return []
    return value if isinstance(value, list) else [value]


def complete_parts(value: Json) -> Json:
    """Parts as a list, each with the nullable keys that were left out; None stays."""
    if value is None:
        return None
    return [_complete_part(part) for part in _as_list(value)]


def _complete_part(part: Json) -> Json:
    if not isinstance(part, dict):
        return part
    if "template" in part:
        return {**part, "each": _as_list(part.get("each"))}
    if "path" in part:  # of a conversation
        return {"map": [], "replace": [], "json": False, **part}
    if "options" in part:
        return {"label": None, "pick": None, **part, "options": _as_list(part["options"])}
    return part


def complete_message(message: Json) -> Json:
    """A message with the nullable keys that were left out."""
    if not isinstance(message, dict):
        return message
    content = complete_parts(message.get("content")) or []
    made = {"loss_mask": None, **message, "each": _as_list(message.get("each")), "content": content}
    role = made.get("role")
    if isinstance(role, dict) and "path" in role:
        made["role"] = {"map": [], **role}
    return made


def _complete_meta(meta: Json) -> Json:
    if meta is not None and not isinstance(meta, dict):
        return meta
    return dict.fromkeys(_META) | (meta or {})


def schema_fault(error: "ValidationError") -> Problem:
    """The deepest cause of a schema error, since that of an `anyOf` says nothing."""
    from jsonschema.exceptions import best_match

    found = best_match([error]) if error.context else error
    pointer = "".join(f"/{step}" for step in found.absolute_path)
    return Problem(
        pointer=pointer,
        code=SCHEMA,
        expected=_expected_text(found),
        got=shorten_value(found.instance),
    )


def _expected_text(error: "ValidationError") -> str:
    if error.validator == "enum":
        return "one of " + ", ".join(map(str, error.validator_value))
    if error.validator == "type":
        kinds = error.validator_value
        return "the type " + (kinds if isinstance(kinds, str) else " or ".join(kinds))
    if error.validator == "anyOf":
        return " or ".join(_branch_text(one) for one in error.validator_value)
    return shorten_value(error.message, most=160)


def _branch_text(schema: JsonObject) -> str:
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    if "properties" in schema:
        return f"an object with {', '.join(schema['properties'])}"
    kinds = schema.get("type", "a value")
    return kinds if isinstance(kinds, str) else " or ".join(kinds)


def shorten_value(value: Json, *, most: int = 80) -> str:
    """A value in at most so many characters."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= most else f"{text[:most]}..."


def lower_reply(reply: JsonObject, *, where: str = "the model's reply") -> JsonObject:
    """The version 2 document that a schema-valid reply with decision `pt` or `sft` means."""
    problems = [*_shape_problems(reply), *_message_problems(reply), *_where_problems(reply)]
    if problems:
        raise MappingError(where, tuple(problems))
    body = {"text": lower_value(reply["text"])} if reply["decision"] == "pt" else _lower_chat(reply)
    return {"version": 2, **_row_keys(reply), **body, **_lower_meta(reply["meta"])}


def _row_keys(reply: JsonObject) -> JsonObject:
    made: JsonObject = {}
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


def lower_condition(condition: JsonObject) -> JsonObject:
    """One condition of `where` in the file's form."""
    operator, values = condition["op"], condition["values"]
    wanted = int(values[0]) if operator in ("min_chars", "max_chars") else values
    return {"path": condition["path"], operator: wanted}


def _lower_chat(reply: JsonObject) -> JsonObject:
    made: JsonObject = {"messages": [lower_message(one) for one in reply["messages"]]}
    system = lower_value(reply["system"] or [])
    return made if system is None else {**made, "system": system}


def lower_message(message: JsonObject) -> JsonObject:
    """One entry of `messages` in the file's form."""
    made = _lower_each(message["each"])
    made["role"] = _lower_role(message["role"])
    made["content"] = lower_value(message["content"])
    mask = message["loss_mask"]
    if mask is not None:
        made["loss_mask"] = mask["path"] if isinstance(mask, dict) else mask
    return made


def _lower_each(paths: list[str]) -> JsonObject:
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


def _named_roles(pairs: Iterable[JsonObject], key: str) -> JsonObject:
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


def _lower_template(part: JsonObject) -> JsonObject:
    if "{{" not in part["template"] and not part["each"]:
        return {"literal": part["template"]}  # a template without placeholders is just this text
    return {"template": part["template"], **_lower_each(part["each"])}


def _lower_options(part: JsonObject) -> Json:
    paths = part["options"]
    made: JsonObject = {"path": paths[0]} if len(paths) == 1 else {"concat": paths}
    if part["pick"]:
        made["pick"] = part["pick"]
    if part["label"]:
        made["label"] = part["label"]
    return made["path"] if list(made) == ["path"] else made


def _lower_meta(meta: JsonObject) -> JsonObject:
    named = {key: value for key, value in meta.items() if value not in (None, "", {"literal": ""})}
    return {"meta": named} if named else {}


def _shape_problems(reply: JsonObject) -> list[Problem]:
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


def _all_parts(reply: JsonObject) -> Iterable[tuple[str, Json]]:
    lists = [("/text", reply["text"]), ("/system", reply["system"])]
    for number, message in enumerate(reply["messages"] or []):
        lists.append((f"/messages/{number}/content", message["content"]))
    for pointer, parts in lists:
        for number, part in enumerate(parts or []):
            yield f"{pointer}/{number}", part


def _message_problems(reply: JsonObject) -> list[Problem]:
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


def _repeated_entries(pairs: list[JsonObject], key: str, pointer: str) -> list[Problem]:
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


def _where_problems(reply: JsonObject) -> list[Problem]:
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
