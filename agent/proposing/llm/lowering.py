"""Lower a reply that the schema allows to a mapping document of version 2.

Nothing is guessed: what cannot be lowered is a problem with its pointer.
"""

from collections.abc import Iterable, Iterator, Sequence

from ingot.agent.model.json_text import JsonObject
from ingot.agent.proposing.llm.reply import CONTENT, PAIR_KEYS, part_form
from ingot.converters.errors import MappingError, Problem
from ingot.converters.mapping.language import MODIFIERS, Modifier
from ingot.converters.rows import Json, MappingDocument

FILE_FACTS = ("encoding", "delimiter", "quote", "columns")


def lower_reply(reply: JsonObject, *, where: str = "the model's reply") -> MappingDocument:
    """Return the document that a reply with decision `pt` or `sft` means."""
    problems = [
        *_shape_problems(reply),
        *_part_problems(reply),
        *_role_problems(reply),
        *condition_problems(reply["where"], "/where"),
        *(
            problem
            for number, message in enumerate(reply["messages"] or [])
            for problem in condition_problems(
                message.get("where") or [], f"/messages/{number}/where"
            )
        ),
    ]
    if problems:
        raise MappingError(where, tuple(problems))
    body = {"text": lower_value(reply["text"])} if reply["decision"] == "pt" else _lower_chat(reply)
    named = {
        key: _lower_part(value)
        for key, value in reply["meta"].items()
        if value not in (None, "", {"literal": ""})
    }
    return {"version": 2, **_row_keys(reply), **body, **({"meta": named} if named else {})}


def _row_keys(reply: JsonObject) -> MappingDocument:
    made: MappingDocument = {}
    if source := _lower_source(reply):
        made["source"] = source
    if reply["group"] and reply["group"]["by"]:
        group = reply["group"]
        made["group"] = {"by": group["by"]} | ({"sort": group["sort"]} if group["sort"] else {})
    if reply["each"]:
        made |= _lower_each(reply["each"])
    if reply["where"]:
        made["where"] = [lower_condition(one) for one in reply["where"]]
    return made


def _lower_source(reply: JsonObject) -> MappingDocument:
    """Facts about the files; an empty `quote` means something, other empty values do not."""
    said = reply["source"] or {}
    made = {key: said[key] for key in (*FILE_FACTS, "json_fields", "orient") if said.get(key)}
    if said.get("quote") == "":
        made["quote"] = ""
    return made | ({"root": reply["root"]} if reply["root"] else {})


def lower_condition(condition: JsonObject) -> MappingDocument:
    """Return one condition of `where` in the file's form."""
    operator, values = condition["op"], condition["values"]
    wanted = int(values[0]) if operator in ("min_chars", "max_chars") else values
    return {"path": condition["path"], operator: wanted}


def _lower_chat(reply: JsonObject) -> MappingDocument:
    made: MappingDocument = {"messages": [lower_message(one) for one in reply["messages"]]}
    system = lower_value(reply["system"] or [])
    return made if system is None else {**made, "system": system}


def lower_message(message: JsonObject) -> MappingDocument:
    """Return one entry of `messages` in the file's form."""
    made = _lower_each(message["each"])
    if message.get("where"):
        made["where"] = [lower_condition(one) for one in message["where"]]
    made["role"] = _lower_role(message["role"])
    made["content"] = lower_value(message["content"])
    mask = message["loss_mask"]
    if mask is not None:
        made["loss_mask"] = mask["path"] if isinstance(mask, dict) else mask
    return made


def _lower_each(paths: list[str]) -> MappingDocument:
    """Return `each` of a message or part: absent, one path, or lists walked in step."""
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
    if "order" in role:
        return {"path": role["path"], "order": role["order"]}
    return {"path": role["path"]} | (
        {"map": _named_roles(role["map"], "value")} if role["map"] else {}
    )


def _named_roles(pairs: Iterable[JsonObject], key: str) -> MappingDocument:
    return {one[key]: None if one["role"] == "drop" else one["role"] for one in pairs}


def lower_value(parts: Sequence[Json]) -> Json:
    """Return one value of the file's form; no parts = null."""
    made = [_lower_part(part) for part in parts if part not in ("", {"literal": ""})]
    if not made:
        return None
    return made[0] if len(made) == 1 else made


def _lower_part(part: Json) -> Json:
    if isinstance(part, str) or "literal" in part:
        return part
    if "lookup" in part:
        return {"path": part}
    if "tree" in part:
        return {**part, "text": lower_value(part["text"])}
    form = part_form(part)
    body, modifiers = part[form], _lower_modifiers(part, form)
    if form == "template" and not modifiers and "{{" not in body:  # it is just this text
        return {"literal": body}
    if form == "options":
        form, body = ("path", body[0]) if len(body) == 1 else ("concat", body)
    elif form in ("any_of", "concat"):
        body = [_lower_part(one) for one in body]
        if len(body) == 1 and not modifiers:
            return body[0]
    return {form: body, **modifiers} if modifiers or form != "path" else body


def _lower_modifiers(part: JsonObject, form: str) -> MappingDocument:
    """Return the modifiers that a part states; what stands within another one is put there."""
    stated: MappingDocument = {}
    within: dict[str, MappingDocument] = {}
    for one in MODIFIERS:
        said = part.get(one.word or one.key)
        if form in one.taught and not one.is_silent(said):
            held = within.setdefault(one.within, {}) if one.within else stated
            held[one.key] = _lower_modifier(one, said)
    for key in within.keys() & stated.keys():
        stated[key] = {"path": stated[key], **within[key]}
    return stated


def _lower_modifier(modifier: Modifier, said: Json) -> Json:
    if modifier.kind == "each":
        return _lower_each(said)["each"]
    if modifier.kind in PAIR_KEYS:
        key, value = PAIR_KEYS[modifier.kind]
        return {one[key]: one[value] for one in said}
    return modifier.word or said


def _shape_problems(reply: JsonObject) -> Iterator[Problem]:
    decision = reply["decision"]
    wanted, other = ("text", "messages") if decision == "pt" else ("messages", "text")
    if not reply[wanted]:
        yield _content_problem(f"/{wanted}", f"what decision {decision} needs", "nothing")
    if reply[other]:
        yield _content_problem(f"/{other}", f"null with decision {decision}", "a value")


def _part_problems(reply: JsonObject) -> Iterator[Problem]:
    lists = [("/text", reply["text"]), ("/system", reply["system"])]
    lists += [
        (f"/messages/{number}/content", message["content"])
        for number, message in enumerate(reply["messages"] or [])
    ]
    for pointer, parts in lists:
        yield from part_problems(parts or [], pointer)
    for key, value in reply["meta"].items():
        yield from part_problems([value] if value else [], f"/meta/{key}", numbered=False)


def part_problems(
    parts: Sequence[Json], pointer: str, *, numbered: bool = True
) -> Iterator[Problem]:
    """Yield what no value of the file's form can say, with pointers below `pointer`."""
    for number, part in enumerate(parts):
        place = f"{pointer}/{number}" if numbered else pointer
        if not isinstance(part, dict):
            continue
        for key, what in (
            ("options", "path"),
            ("any_of", "value"),
            ("concat", "value"),
            ("text", "value"),
        ):
            if part.get(key) == []:
                yield _content_problem(f"{place}/{key}", f"at least one {what}", "[]")
            elif key != "options":
                yield from part_problems(part.get(key) or [], f"{place}/{key}")
        for one in (one for one in MODIFIERS if one.kind in PAIR_KEYS):
            table = part.get(one.key) or []
            yield from _repeated_entries(table, *PAIR_KEYS[one.kind], f"{place}/{one.key}")


def _role_problems(reply: JsonObject) -> Iterator[Problem]:
    for number, message in enumerate(reply["messages"] or []):
        role, pointer = message["role"], f"/messages/{number}/role"
        if not isinstance(role, dict):
            continue
        key = next(key for key in ("in_turn", "order", "split", "map") if key in role)
        if not role[key] and key != "map":
            yield _content_problem(f"{pointer}/{key}", "at least one entry", "[]")
        if key == "order" and len(role[key]) == 1:
            yield _content_problem(f"{pointer}/order", "at least two roles", repr(role[key]))
        if key in ("split", "map"):
            named = "marker" if key == "split" else "value"
            yield from _repeated_entries(role[key], named, "role", f"{pointer}/{key}")


def _repeated_entries(
    pairs: Sequence[JsonObject], key: str, value: str, pointer: str
) -> Iterator[Problem]:
    """Yield names that are empty or stand twice with different values."""
    first: dict[str, Json] = {}
    for number, one in enumerate(pairs):
        name, said = one[key], one[value]
        if (not name and key != "value") or (not name and value == "role"):
            yield _content_problem(f"{pointer}/{number}/{key}", "a text", "''")
        elif first.setdefault(name, said) != said:
            expected = f"one {value} for {name!r}"
            yield _content_problem(f"{pointer}/{number}", expected, f"{first[name]} and {said}")


def condition_problems(conditions: Sequence[JsonObject], pointer: str) -> Iterator[Problem]:
    """Yield conditions whose values do not fit their operator."""
    for number, condition in enumerate(conditions):
        values, place = condition["values"], f"{pointer}/{number}/values"
        if condition["op"] in ("in", "not_in"):
            if not values:
                yield _content_problem(place, "at least one value", "[]")
        elif not (len(values) == 1 and _is_count(values[0])):
            yield _content_problem(place, "one whole number from 0", repr(values)[:60])


def _is_count(value: Json) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and value >= 0 and value == int(value)


def _content_problem(pointer: str, expected: str, got: str) -> Problem:
    """A problem of what the schema of the reply allows."""
    return Problem(pointer=pointer, code=CONTENT, expected=expected, got=got)
