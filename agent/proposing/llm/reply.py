"""From the text that a model replied to a schema-valid reply object, or the list of what is wrong.

Never trusted, whatever the server claims: the one object is looked for (`spelling`), completed
where a nullable key was left out, and validated against schemas/llm.schema.json.
"""

import json
import math
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
    """One branch of an `anyOf` in words."""
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
