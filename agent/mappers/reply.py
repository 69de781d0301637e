"""From the text that a model replied to a schema-valid reply object, or the list of what is wrong.

Never trusted, whatever the server claims: JSON is parsed, repaired where it is only badly spelt,
completed where a nullable key was left out, and validated against schemas/llm.schema.json.
"""

import json
import math
import re
from typing import TYPE_CHECKING

from ingot.converters import contracts
from ingot.converters.errors import MappingError, Problem
from ingot.converters.rows import Json

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

Document = dict[str, Json]

MOST_PROBLEMS = 5
WHERE = "the model's reply"

_THOUGHTS = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_FENCE = re.compile(r"```(?:json)?\s*\n(.*?)\n?```", re.DOTALL)
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


def read(text: str, *, cut_off: bool = False) -> Document:
    """The reply as an object that the schema allows.

    Args:
        text: what the model said.
        cut_off: the server says that the reply hit the length limit; such a text is never repaired,
            since a repaired half is a plausible wrong answer.

    Raises:
        MappingError: at most five problems, worded for the model that has to correct them.
    """
    reply = complete(_parse(text, cut_off=cut_off))
    problems = [_problem(error) for error in contracts.validator("llm").iter_errors(reply)]
    if problems:
        raise MappingError(WHERE, tuple(problems[:MOST_PROBLEMS]))
    return reply


def _parse(text: str, *, cut_off: bool) -> Document:
    plain = _THOUGHTS.sub("", text).strip()
    fenced = _FENCE.findall(plain)
    body = fenced[0].strip() if len(fenced) == 1 else plain
    if not body:
        raise _not_json("a JSON object", "an empty reply")
    try:
        parsed = _first_object(body)
    except ValueError:
        if cut_off:
            raise _not_json("a complete JSON object", "a reply cut off at its limit") from None
        parsed = _repaired(body)
    if not isinstance(parsed, dict):
        raise _not_json("one JSON object and nothing else", _short(body))
    return parsed


def _first_object(body: str) -> Json:
    """The JSON object in the text; prose around it is passed over, a second object is not."""
    start = max(body.find("{"), 0)
    parsed, end = _DECODER.raw_decode(body, start)
    if "{" in body[end:] or "[" in body[:start]:
        raise _not_json("one JSON object and nothing else", _short(body))
    return parsed


def _no_constant(name: str) -> None:
    raise ValueError(name)


_DECODER = json.JSONDecoder(parse_constant=_no_constant)


def _repaired(body: str) -> Json:
    """Bad spelling (quotes, commas, None, comments) put right; prose gives no object."""
    from json_repair import repair_json

    return repair_json(body, return_objects=True, skip_json_loads=True)


def _not_json(expected: str, got: str) -> MappingError:
    problem = Problem(pointer="", code="not_json", expected=expected, got=got)
    return MappingError(WHERE, (problem,))


def complete(reply: Document) -> Document:
    """The same reply with the nullable keys that were left out, and lists where one value stood.

    Servers that do not enforce a schema return such replies; the meaning is plain. A missing
    `decision` follows from `text` or `messages`, as in version 1 of the mapping format.
    """
    made = {**_EMPTY, **reply}
    made.setdefault("decision", _implied(made))
    made["confidence"] = _share(made["confidence"])
    made["text"], made["system"] = _parts(made["text"]), _parts(made["system"])
    made["meta"] = _completed_meta(made["meta"])
    if isinstance(made["group"], dict):
        made["group"] = {"sort": None, **made["group"], "by": _listed(made["group"].get("by"))}
    if isinstance(made["messages"], list):
        made["messages"] = [_completed_message(one) for one in made["messages"]]
    return made


def _implied(reply: Document) -> str:
    if reply["messages"]:
        return "sft"
    return "pt" if reply["text"] else "irrelevant"


def _share(value: Json) -> Json:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return value if isinstance(value, str | bool) else 0.5
    return min(max(float(value), 0.0), 1.0)


def _listed(value: Json) -> Json:
    if value is None or value == "":
        return []
    return value if isinstance(value, list) else [value]


def _parts(value: Json) -> Json:
    if value is None:
        return None
    return [_completed_part(part) for part in _listed(value)]


def _completed_part(part: Json) -> Json:
    if not isinstance(part, dict):
        return part
    if "template" in part:
        return {**part, "each": _listed(part.get("each"))}
    if "options" in part:
        return {"label": None, "pick": None, **part, "options": _listed(part["options"])}
    return part


def _completed_message(message: Json) -> Json:
    if not isinstance(message, dict):
        return message
    content = _parts(message.get("content")) or []
    made = {"loss_mask": None, **message, "each": _listed(message.get("each")), "content": content}
    role = made.get("role")
    if isinstance(role, dict) and "path" in role:
        made["role"] = {"map": [], **role}
    return made


def _completed_meta(meta: Json) -> Json:
    if meta is not None and not isinstance(meta, dict):
        return meta
    return dict.fromkeys(_META) | (meta or {})


def _problem(error: "ValidationError") -> Problem:
    """The deepest cause of a schema error, since that of an `anyOf` says nothing."""
    from jsonschema.exceptions import best_match

    found = best_match([error]) if error.context else error
    pointer = "".join(f"/{step}" for step in found.absolute_path)
    return Problem(
        pointer=pointer, code="schema", expected=_wanted(found), got=_short(found.instance)
    )


def _wanted(error: "ValidationError") -> str:
    if error.validator == "enum":
        return "one of " + ", ".join(map(str, error.validator_value))
    if error.validator == "type":
        kinds = error.validator_value
        return "the type " + (kinds if isinstance(kinds, str) else " or ".join(kinds))
    if error.validator == "anyOf":
        return " or ".join(_alternative(one) for one in error.validator_value)
    return _short(error.message, most=160)


def _alternative(schema: Document) -> str:
    """One branch of an `anyOf` in words."""
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    if "properties" in schema:
        return f"an object with {', '.join(schema['properties'])}"
    kinds = schema.get("type", "a value")
    return kinds if isinstance(kinds, str) else " or ".join(kinds)


def _short(value: Json, *, most: int = 80) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= most else f"{text[:most]}..."
