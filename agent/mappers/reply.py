"""From the text that a model replied to a schema-valid reply object, or the list of what is wrong.

Never trusted, whatever the server claims: the one object is looked for (`spelling`), completed
where a nullable key was left out, and validated against schemas/llm.schema.json.
"""

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ingot.agent.mappers.spelling import Document, Unreadable, only_object
from ingot.converters import contracts
from ingot.converters.errors import MappingError, Problem
from ingot.converters.rows import Json

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

NOT_JSON, SCHEMA = "not_json", "schema"
MOST_PROBLEMS = 5
WHERE = "the model's reply"

_META = ("source", "language", "timestamp", "token_count", "quality_score", "original_id")
_EMPTY: Document = {
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
class Read:
    """A reply as the schema allows it, and what was put right to get there."""

    document: Document
    repaired: tuple[str, ...]


def read(text: str, *, cut_off: bool = False) -> Read:
    """The reply as an object that the schema allows.

    Args:
        text: what the model said.
        cut_off: the server says that the reply hit the length limit; such a text is never repaired.

    Raises:
        MappingError: at most five problems, worded for the model that has to correct them.
    """
    try:
        found, how = only_object(text, _rank, cut_off=cut_off)
    except Unreadable as error:
        raise _unreadable(error) from error
    reply = complete(found)
    problems = [schema_problem(error) for error in contracts.validator("llm").iter_errors(reply)]
    if problems:
        raise MappingError(WHERE, tuple(problems[:MOST_PROBLEMS]))
    return Read(document=reply, repaired=how if reply == found else (*how, "completed"))


def _rank(found: Document) -> int:
    """How much of an answer an object is; a quoted row may well have a `text`."""
    if "decision" in found:
        return 2
    return int("messages" in found or "text" in found)


def _unreadable(error: Unreadable) -> MappingError:
    problem = Problem(pointer="", code=NOT_JSON, expected=error.expected, got=shortened(error.got))
    return MappingError(WHERE, (problem,))


def complete(reply: Document) -> Document:
    """The same reply with the nullable keys that were left out, and lists where one value stood.

    Servers that do not enforce a schema return such replies; the meaning is plain. A missing
    `decision` follows from `text` or `messages`, as in version 1 of the mapping format.
    """
    made = {**_EMPTY, **reply}
    made["where"] = [] if made["where"] is None else made["where"]
    made.setdefault("decision", _implied(made))
    made["confidence"] = _share(made["confidence"])
    made["text"], made["system"] = completed_parts(made["text"]), completed_parts(made["system"])
    made["meta"] = _completed_meta(made["meta"])
    if isinstance(made["group"], dict):
        made["group"] = {"sort": None, **made["group"], "by": _listed(made["group"].get("by"))}
    if isinstance(made["messages"], list):
        made["messages"] = [completed_message(one) for one in made["messages"]]
    return made


def _implied(reply: Document) -> str:
    if reply["messages"]:
        return "sft"
    return "pt" if reply["text"] else "irrelevant"


def _share(value: Json) -> Json:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value if isinstance(value, str | bool) else 0.5
    if isinstance(value, float) and not math.isfinite(value):
        return 0.5
    return float(min(max(value, 0), 1))  # an integer may be too large for a float


def _listed(value: Json) -> Json:
    if value is None or value == "":
        return []
    return value if isinstance(value, list) else [value]


def completed_parts(value: Json) -> Json:
    """Parts as a list, each with the nullable keys that were left out; None stays."""
    if value is None:
        return None
    return [_completed_part(part) for part in _listed(value)]


def _completed_part(part: Json) -> Json:
    if not isinstance(part, dict):
        return part
    if "template" in part:
        return {**part, "each": _listed(part.get("each"))}
    if "path" in part:  # of a conversation
        return {"map": [], "replace": [], "json": False, **part}
    if "options" in part:
        return {"label": None, "pick": None, **part, "options": _listed(part["options"])}
    return part


def completed_message(message: Json) -> Json:
    """A message with the nullable keys that were left out."""
    if not isinstance(message, dict):
        return message
    content = completed_parts(message.get("content")) or []
    made = {"loss_mask": None, **message, "each": _listed(message.get("each")), "content": content}
    role = made.get("role")
    if isinstance(role, dict) and "path" in role:
        made["role"] = {"map": [], **role}
    return made


def _completed_meta(meta: Json) -> Json:
    if meta is not None and not isinstance(meta, dict):
        return meta
    return dict.fromkeys(_META) | (meta or {})


def schema_problem(error: "ValidationError") -> Problem:
    """The deepest cause of a schema error, since that of an `anyOf` says nothing."""
    from jsonschema.exceptions import best_match

    found = best_match([error]) if error.context else error
    pointer = "".join(f"/{step}" for step in found.absolute_path)
    return Problem(
        pointer=pointer, code=SCHEMA, expected=_wanted(found), got=shortened(found.instance)
    )


def _wanted(error: "ValidationError") -> str:
    if error.validator == "enum":
        return "one of " + ", ".join(map(str, error.validator_value))
    if error.validator == "type":
        kinds = error.validator_value
        return "the type " + (kinds if isinstance(kinds, str) else " or ".join(kinds))
    if error.validator == "anyOf":
        return " or ".join(_alternative(one) for one in error.validator_value)
    return shortened(error.message, most=160)


def _alternative(schema: Document) -> str:
    """One branch of an `anyOf` in words."""
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    if "properties" in schema:
        return f"an object with {', '.join(schema['properties'])}"
    kinds = schema.get("type", "a value")
    return kinds if isinstance(kinds, str) else " or ".join(kinds)


def shortened(value: Json, *, most: int = 80) -> str:
    """A value in at most so many characters."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= most else f"{text[:most]}..."
