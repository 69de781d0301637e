"""Read the text of a model as a reply that the schema allows.

Nothing is trusted: the one object is looked for, completed where only one meaning fits, and
validated against schemas/llm.schema.json, which has no free maps and no optional keys.
"""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ingot.agent.model.json_text import JsonObject, UnreadableReply, only_object
from ingot.agent.model.replies import find_inside
from ingot.agent.proposing.columns import text_of
from ingot.converters import json_yaml
from ingot.converters.errors import MappingError, Problem
from ingot.converters.mapping.language import META_KEYS, MODIFIERS, Modifier
from ingot.converters.rows import Json

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

NOT_JSON, CUT_OFF, SCHEMA, CONTENT = "not_json", "cut_off", "schema", "content"
_BOUNDS = {"maxItems": "entries", "maxLength": "characters"}
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
    code = CUT_OFF if error.cut_off else NOT_JSON
    problem = Problem(pointer="", code=code, expected=error.expected, got=shorten_value(error.got))
    return MappingError(REPLY_PLACE, (problem,))


def schema_fault(error: "ValidationError") -> Problem:
    """The deepest cause of a schema error, since that of an `anyOf` says nothing.

    A bound that is passed says nothing of whether the server enforces the schema.
    """
    from jsonschema.exceptions import best_match

    found = next(_passed_bounds(error), best_match([error]) if error.context else error)
    pointer = "".join(f"/{step}" for step in found.absolute_path)
    return Problem(
        pointer=pointer,
        code=CONTENT if found.validator in _BOUNDS else SCHEMA,
        expected=_expected_text(found),
        got=shorten_value(found.instance),
    )


def _passed_bounds(error: "ValidationError") -> "Iterator[ValidationError]":
    if error.validator in _BOUNDS:
        yield error
    for one in error.context or ():
        yield from _passed_bounds(one)


def _expected_text(error: "ValidationError") -> str:
    if error.validator == "enum":
        return "one of " + ", ".join(map(str, error.validator_value))
    if error.validator == "type":
        kinds = error.validator_value
        return "the type " + (kinds if isinstance(kinds, str) else " or ".join(kinds))
    if error.validator in _BOUNDS:
        return f"at most {error.validator_value} {_BOUNDS[error.validator]}"
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


# --- what is completed: servers that do not enforce a schema leave nullable keys out, write one
# value for a list, or the form of a mapping file (`{"human": "user"}` for a list of pairs). What
# does not fit stays as it is: the schema names it.


_EMPTY_REPLY: JsonObject = {
    "reason": "",
    "root": None,
    "source": None,
    "each": [],
    "group": None,
    "where": [],
    "text": None,
    "messages": None,
    "system": None,
    "meta": None,
    "confidence": 0.5,
}
_EMPTY_SOURCE: JsonObject = {
    "encoding": None,
    "delimiter": None,
    "quote": None,
    "columns": [],
    "json_fields": [],
    "orient": None,
}
_CONDITIONS = ("in", "not_in", "min_chars", "max_chars")
_TREE_DEPTH = 8  # levels, where none is said: a deeper one is an error of its row
# How the entries of a table are named where it is a list of pairs, by the kind of the modifier.
PAIR_KEYS = {"map": ("value", "becomes"), "texts": ("find", "put")}


def complete_reply(reply: JsonObject) -> JsonObject:
    """Return the reply with all keys, and in the strict form what has only one meaning.

    A missing `decision` follows from `text` or `messages`, as in version 1 of the mapping format.
    """
    made = {**_EMPTY_REPLY, **reply}
    made["reason"] = "" if made["reason"] is None else made["reason"]
    made.setdefault("decision", _implied_decision(made))
    made["confidence"] = _clamp_confidence(made["confidence"])
    made["root"], made["each"] = _one_value(made["root"]), _as_list(made["each"])
    _complete_source(made)
    made["where"] = complete_conditions(made["where"])
    made["text"], made["system"] = complete_parts(made["text"]), complete_parts(made["system"])
    made["meta"] = _complete_meta(made["meta"])
    if isinstance(group := made["group"], dict):
        sort = _one_value(group.get("sort"))
        made["group"] = {**group, "by": _as_list(group.get("by")), "sort": sort}
    if isinstance(made["messages"], list):
        made["messages"] = [complete_message(one) for one in made["messages"]]
        _move_conditions(made)
    return made


def _move_conditions(reply: JsonObject) -> None:
    """Conditions on fields of the rows of a `group` are those of the messages that the rows are."""
    turns = [one for one in reply["messages"] if isinstance(one, dict)]
    if not reply["group"] or any(one["each"] != ["[*]"] for one in turns):
        return
    of_rows = [one for one in reply["where"] if not str(find_inside(one, "path")).startswith("[")]
    reply["where"] = [one for one in reply["where"] if one not in of_rows]
    for one in turns:
        one["where"] = [*of_rows, *one["where"]]


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


def _complete_source(reply: JsonObject) -> None:
    """Complete `source`; a root that stands there, as in a mapping file, is the reply's."""
    source = reply["source"]
    if not isinstance(source, dict):
        return
    known = {**_EMPTY_SOURCE, **source}
    if "root" in known and reply["root"] in (None, _one_value(known["root"])):
        reply["root"] = _one_value(known.pop("root"))
    for key in ("columns", "json_fields"):
        known[key] = _as_list(known[key])
    reply["source"] = None if known == _EMPTY_SOURCE else known


def _as_list(value: Json) -> Json:
    if value is None or value == "":
        return []
    return value if isinstance(value, list) else [value]


def _one_value(value: Json) -> Json:
    """Return the only element of a list with one element, and anything else as it is."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _spelled(value: Json) -> Json:
    """Return the text of a number or boolean, by which the mapping language looks values up."""
    return text_of(value) if isinstance(value, bool | int | float) else value


def _pairs(value: Json, key: str, named: str) -> Json:
    """Return a table as pairs of `key` and `named`; keys that are numbers become their text."""
    if isinstance(value, dict):
        value = [{key: one, named: inside} for one, inside in value.items()]
    if not isinstance(value, list):
        return [] if value is None else value
    made = [one | {key: _spelled(one.get(key))} if isinstance(one, dict) else one for one in value]
    if named != "role":
        return made
    return [
        {**one, "role": "drop"} if isinstance(one, dict) and one.get("role") is None else one
        for one in made
    ]


def complete_conditions(value: Json) -> Json:
    """Return conditions as a list, each with `op` and `values`."""
    return [_complete_condition(one) for one in value] if (value := _as_list(value)) else []


def _complete_condition(condition: Json) -> Json:
    if not isinstance(condition, dict):
        return condition
    made = dict(condition)
    stated = [key for key in _CONDITIONS if key in made]
    if len(stated) == 1 and not {"op", "values"} & {*made}:  # the form of a mapping file
        made |= {"op": stated[0], "values": made.pop(stated[0])}
    if "values" in made and not isinstance(made["values"], list):
        made["values"] = [made["values"]]
    return made


def complete_parts(value: Json) -> Json:
    """Return parts as a list, each with its nullable keys; None stays."""
    if value is None:
        return None
    return [complete_part(part) for part in _as_list(value)]


_PART_FORMS = ("literal", "template", "options", "concat", "any_of", "tree", "path")


def _complete_list(value: Json) -> Json:
    return complete_parts(value) or []


# What a part holds at the key of its form, in the strict form; in other forms it stays as it is.
_BODIES: dict[str, Callable[[Json], Json]] = {
    "literal": _spelled,
    "options": _as_list,
    "concat": _complete_list,
    "any_of": _complete_list,
}


def part_form(part: JsonObject) -> str:
    """Return the form of a part, "" for one that is not known or has no modifiers."""
    return next((form for form in _PART_FORMS if form in part), "")


def complete_part(part: Json) -> Json:
    """Return a part with its nullable keys."""
    if not isinstance(part, dict):
        return part
    if "first_of" in part:
        part = {"any_of": part["first_of"]}
    form = part_form(part)
    if not form:
        return part
    made = {key: value for key, value in part.items() if value is not None or key == form}
    if form == "path" and _states_options(part):
        form, made["options"] = "options", made.pop("path")
    made[form] = _BODIES[form](made[form]) if form in _BODIES else made[form]
    if form == "tree":
        made["text"] = _complete_list(part.get("text"))
        made["depth"] = part.get("depth") or _TREE_DEPTH
    for one in MODIFIERS:
        if form in one.taught:
            made |= _complete_modifier(one, made)
    return made


def _states_options(part: JsonObject) -> bool:
    """Whether a path has modifiers, and only such as options have."""
    taught = {one.key for one in MODIFIERS if "options" in one.taught}
    return bool({*part} & taught - {"from"}) and {*part} <= {"path", *taught}


def _complete_modifier(modifier: Modifier, part: JsonObject) -> JsonObject:
    """Return what a part states of a modifier, or that it states nothing, under its key."""
    said = part.get(modifier.word or modifier.key)
    if modifier.kind == "flag":
        if part.get(modifier.key) == modifier.word:  # the form of a mapping file
            said = bool(part.pop(modifier.key))
        return {modifier.word: said or False}
    if modifier.kind == "each":
        return {modifier.key: _as_list(said)}
    if modifier.kind in PAIR_KEYS:
        return {modifier.key: _pairs(said, *PAIR_KEYS[modifier.kind])}
    return {modifier.key: (said or 0) if modifier.within else _one_value(said)}


def complete_message(message: Json) -> Json:
    """Return a message with its nullable keys."""
    if not isinstance(message, dict):
        return message
    content = complete_parts(message.get("content")) or []
    made = {"loss_mask": None, **message, "each": _as_list(message.get("each")), "content": content}
    made["where"] = complete_conditions(made.get("where"))
    made["role"] = _complete_role(made.get("role"))
    if isinstance(made["loss_mask"], str):
        made["loss_mask"] = {"path": made["loss_mask"]}
    return made


def _complete_role(role: Json) -> Json:
    if isinstance(role, list):
        return {"in_turn": role}
    if not isinstance(role, dict):
        return role
    made = dict(role)
    if "path" in made and "order" not in made:
        made["map"] = _pairs(made.get("map"), "value", "role")
    if "split" in made:
        made["split"] = _pairs(made["split"], "marker", "role")
    return made


def _complete_meta(meta: Json) -> Json:
    if meta is not None and not isinstance(meta, dict):
        return meta
    made = dict.fromkeys(META_KEYS) | (meta or {})
    return {key: complete_part(_one_value(value)) for key, value in made.items()}


def list_changes(said: Json, taken: Json, pointer: str = "") -> Iterator[tuple[str, Json, Json]]:
    """Walk over what was taken otherwise than it was said: pointer, what was said, what it is.

    What was absent, null or empty and what was only added is not listed.
    """
    if isinstance(said, dict) and isinstance(taken, dict):
        for key in said:
            yield from list_changes(said[key], taken.get(key), f"{pointer}/{key}")
    elif isinstance(said, list) and isinstance(taken, list) and len(said) == len(taken):
        for number, (one, other) in enumerate(zip(said, taken, strict=True)):
            yield from list_changes(one, other, f"{pointer}/{number}")
    elif said not in (None, "", [], {}) and said != taken:
        yield pointer, said, taken
