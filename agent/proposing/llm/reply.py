"""Read the text of a model as a reply that the schema allows.

Nothing is trusted: the one object is looked for, completed where only one meaning fits, and
validated against schemas/llm.schema.json, which has no free maps and no optional keys.
"""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ingot.agent.model.json_text import JsonObject, UnreadableReply, only_object
from ingot.agent.proposing.llm.completion import complete_reply, list_changes
from ingot.converters import json_yaml
from ingot.converters.errors import MappingError, Problem
from ingot.converters.rows import Json

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

NOT_JSON, SCHEMA = "not_json", "schema"
MOST_PROBLEMS = 5
REPLY_PLACE = "the model's reply"


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadReply:
    """A reply as the schema allows it, and what was put right to get there.

    Attributes:
        document: the reply.
        repaired: how it was found in the text, and whether it was completed.
        taken: JSON Pointer, what was said there and as what it was taken.
    """

    document: JsonObject
    repaired: tuple[str, ...]
    taken: tuple[tuple[str, str, str], ...] = ()


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
    taken = tuple(
        (pointer, shorten_value(said), shorten_value(becomes))
        for pointer, said, becomes in list_changes(found, reply)
    )
    repaired = how if reply == found else (*how, "completed")
    return ReadReply(document=reply, repaired=repaired, taken=taken)


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
    if "$ref" in schema:  # the conversation's schema names the same forms
        return _branch_text(json_yaml.schema("llm")["$defs"][schema["$ref"].rpartition("/")[2]])
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
