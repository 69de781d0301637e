"""Write what mapping.schema.json and llm.schema.json say of the nodes of a mapping.

    python -m tests.schemas.written

What a key may hold comes from the fields of the tree (converters/mapping/language.py). What is said
of a key in words is written by hand in the files, and kept.
"""

import json
from dataclasses import MISSING, Field, fields
from pathlib import Path as File
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from ingot.converters.mapping.language import (
    FORMS,
    META_KEYS,
    ROLES,
    Group,
    Layout,
    Message,
    Modifier,
    Operator,
    Place,
    RoleFromData,
    Tree,
    Value,
)
from ingot.converters.mapping.lookup import PARTS
from ingot.converters.paths import MAX_STEPS, Path
from ingot.converters.rows import Json
from ingot.converters.sources.facts import FORMATS, MOST_HEADER_ROW, ORIENTS, WEB_PAGES, SourceSpec

Schema = dict[str, Any]
FOLDER = File(__file__).resolve().parents[2] / "schemas"
INDENTS = {"mapping": 2, "llm": 1}
NULL: Schema = {"type": "null"}
SCALAR: Schema = {"type": ["string", "number", "boolean", "null"]}
TEXT: Schema = {"type": "string", "minLength": 1}
# Facts of a source that are more than a text or a list of texts.
FACTS: dict[str, Schema] = {
    "format": {"enum": [*FORMATS]},
    "orient": {"enum": [*ORIENTS]},
    "html": {"enum": [*WEB_PAGES]},
    "quote": {"type": "string", "maxLength": 1},
    "columns": {"type": "array", "items": TEXT, "minItems": 1, "uniqueItems": True},
    "header_rows": {
        "type": "array",
        "items": {"type": "integer", "minimum": 1, "maximum": MOST_HEADER_ROW},
        "minItems": 1,
        "maxItems": 2,
    },
    "root": {"$ref": "#/$defs/path"},
    "json_fields": {
        "type": "array",
        "items": {"$ref": "#/$defs/path"},
        "minItems": 1,
        "uniqueItems": True,
    },
}


def refer(place: str) -> Schema:
    """Refer to a definition."""
    return {"$ref": f"#/$defs/{place}"}


def list_of(items: Schema, least: int = 1) -> Schema:
    """Say that a list stands there."""
    return {"type": "array", "items": items, "minItems": least}


def object_of(properties: Schema, required: list[str] | None = None) -> Schema:
    """Say that an object with these keys stands there, all of them or some required."""
    needed = [*properties] if required is None else required
    return {
        "type": "object",
        "properties": properties,
        **({"required": needed} if needed else {}),
        "additionalProperties": False,
    }


def table_of(values: Schema, *, named: bool) -> Schema:
    """Say that an object of texts to values stands there; no key is empty where it is `named`."""
    names = {"propertyNames": {"minLength": 1}} if named else {}
    return {"type": "object", "minProperties": 1, "additionalProperties": values, **names}


def holds_null(hint: Any) -> bool:
    """Tell whether null may stand for nothing: for what becomes text, not for a path."""
    inner = next(iter(get_args(hint)), None)
    return NoneType in get_args(hint) and inner not in (Path, Place)


def is_required(one: Field[Any]) -> bool:
    """Tell whether a node has no default for a field."""
    return one.default is MISSING and one.default_factory is MISSING


# --- the file's form


def held(name: str, hint: Any) -> Schema:
    """Say what stands at the key of a field."""
    if name in ("each", "meta"):
        return {"anyOf": [refer(name), NULL]} if name == "meta" else refer(name)
    if name in ("role", "loss_mask"):
        masks = {"anyOf": [{"type": ["boolean", "null"]}, refer("value")]}
        return refer("message_role") if name == "role" else masks
    if holds_null(hint):
        return {"anyOf": [held(name, get_args(hint)[0]), NULL]}
    if NoneType in get_args(hint):
        return held(name, get_args(hint)[0])
    if get_origin(hint) is tuple:
        return list_of(held(name, get_args(hint)[0]))
    if hint is int:
        return {"type": "integer", "minimum": 1, "maximum": MAX_STEPS}
    return refer("place" if hint == Place else hint.__name__.lower())


def node_object(node: Any) -> Schema:
    """Say which keys the object of a node has, and what stands there."""
    kinds = get_type_hints(node, include_extras=True)
    needed = [one.name for one in fields(node) if is_required(one)]
    return object_of({name: held(name, hint) for name, hint in kinds.items()}, needed)


def modifier_schema(one: Field[Any]) -> Schema:
    """Say what stands at the key of a modifier."""
    modifier: Modifier = one.metadata[Modifier]
    if modifier.kind in ("each", "map"):
        return refer(modifier.kind)
    if modifier.kind == "texts":
        return table_of({"type": "string"}, named=True)
    if modifier.kind == "value":
        counted = {"path": refer("place"), "map": refer("map"), "from": {"enum": [0, 1]}}
        return {"anyOf": [refer("value"), object_of(counted, ["path", "from"])]}
    if one.type is bool:
        return {"const": one.name.removeprefix(f"{modifier.key}_")}
    label = {"pattern": "^[^A-Za-z0-9]*[Aa10][^A-Za-z0-9]*$"} if modifier.key == "label" else {}
    return {"type": "string", **label}


def value_forms(modifiers: Schema) -> list[Schema]:
    """Say which forms a value has: a path, a list of values, and an object for each key."""
    bodies: dict[str, Schema] = {
        "path": refer("place"),
        "concat": list_of(refer("value")),
        "any_of": list_of(refer("value"), 2),
        "template": {"type": "string", "pattern": r"\{\{.+?\}\}"},
        "tree": refer("path"),
        "literal": TEXT,
    }
    kinds = get_type_hints(Tree, include_extras=True)
    inner = {name: held(name, kinds[name]) for name in ("text", "children", "depth")}
    set_apart = {key: refer(f"modifiers/properties/{key}") for key in modifiers}
    made = []
    for form in FORMS:
        stated = {form: bodies[form], **(inner if form == "tree" else {})}
        more = {} if form == "literal" else set_apart
        made.append(object_of({**stated, **more}, [*stated]))
    return [refer("place"), list_of(refer("value")), *made]


def role_forms() -> list[Schema]:
    """Say which forms a role has."""
    roles = {"enum": [*ROLES, None]}
    from_data = {"map": table_of(roles, named=True), "order": list_of(refer("role"), 2)}
    read = [
        object_of({"path": refer("place"), name: from_data[name]}, required)
        for name, required in (("map", ["path"]), ("order", ["path", "order"]))
    ]
    split = object_of({"split": table_of(roles, named=True)})
    return [refer("role"), list_of(refer("role"), 2), *read, split]


def condition_forms() -> list[Schema]:
    """Say what a condition is for each operator: values, or a number of characters."""
    counts = {"type": "integer", "minimum": 0}
    return [
        object_of({"path": refer("place"), op: counts if "chars" in op else list_of(SCALAR)})
        for op in get_args(Operator)
    ]


def source_facts() -> Schema:
    """Say which facts `source` may state."""
    kinds = get_type_hints(SourceSpec)
    plain = {name: list_of(TEXT) if tuple in map(get_origin, get_args(kind)) else TEXT
             for name, kind in kinds.items()}  # fmt: skip
    return object_of({**plain, **FACTS}, []) | {"minProperties": 1}


def layout_keys() -> Schema:
    """Refer to the keys of a layout, which the document itself and each alternative have."""
    return {one.name: refer(f"layout/properties/{one.name}") for one in fields(Layout)}


def file_definitions() -> dict[str, Schema]:
    """Return the definitions of mapping.schema.json that follow the fields."""
    stated = [one for one in fields(Value) if Modifier in one.metadata]
    modifiers = {
        one.metadata[Modifier].key: modifier_schema(one)
        for one in stated
        if one.metadata[Modifier].key != "from"  # which stands in a `pick` only
    }
    message = node_object(Message)
    message["properties"]["where"] = refer("layout/properties/where")
    nullable = {"anyOf": [refer("value"), NULL]}
    return {
        "lookup": object_of(dict.fromkeys(PARTS, refer("path"))),
        "place": {"anyOf": [refer("path"), refer("lookup")]},
        "role": {"enum": [*ROLES]},
        "map": table_of(SCALAR, named=False),
        "each": {"anyOf": [refer("path"), list_of(refer("path"), 2)]},
        "modifiers": {"properties": modifiers},
        "value": {"anyOf": value_forms(modifiers)},
        "message_role": {"anyOf": role_forms()},
        "message": message,
        "condition": {"anyOf": condition_forms()},
        "meta": object_of(dict.fromkeys(META_KEYS, nullable), []),
        "source": source_facts(),
        "group": node_object(Group),
        "layout": {"properties": node_object(Layout)["properties"]},
        "variant": object_of(layout_keys(), []) | {"not": {"required": ["text", "messages"]}},
    }


# --- the form of models: no optional keys, no free maps, all texts and lists bounded

SHORT, LONG = 500, 1900
NONE_OR_TEXT: Schema = {"type": ["string", "null"], "maxLength": SHORT}
PATHS: Schema = {"type": "array", "items": {"type": "string", "maxLength": SHORT}, "maxItems": 10}


def text_of(limit: int = SHORT) -> Schema:
    """Say that a text of at most so many characters stands there."""
    return {"type": "string", "maxLength": limit}


def most(items: Schema, count: int) -> Schema:
    """Say that a list of at most so many entries stands there."""
    return {"type": "array", "items": items, "maxItems": count}


def choice_of(*texts: str) -> Schema:
    """Say that one of these texts stands there."""
    return {"type": "string", "enum": [*texts]}


def pairs(key: str, key_limit: int, other: str, held_there: Schema, count: int) -> Schema:
    """Say that a table stands there as a list of pairs."""
    return most(object_of({key: text_of(key_limit), other: held_there}), count)


PLACE = {"anyOf": [text_of(), refer("looked_for")]}
# How the modifiers of a value stand in the form of models, by key.
TAUGHT: dict[str, Schema] = {
    "each": PATHS,
    "pick": NONE_OR_TEXT,
    "map": pairs("value", 400, "becomes", {**SCALAR, "maxLength": 400}, 100),
    "json": {"type": "boolean"},
    "replace": pairs("find", 1000, "put", text_of(1000), 40),
    "label": NONE_OR_TEXT,
    "sep": NONE_OR_TEXT,
    "from": {"type": "integer", "enum": [0, 1]},
}


def taught(*keys: str) -> Schema:
    """Say how these modifiers stand in the form of models."""
    return {key: TAUGHT[key] for key in keys}


def model_roles() -> list[Schema]:
    """Say which forms a role has for a model."""
    each_role, all_roles = choice_of(*ROLES), choice_of(*ROLES, "drop")
    by_value = pairs("value", 400, "role", all_roles, 100)
    from_data = {"map": by_value, "order": most(each_role, 20)}
    return [
        each_role,
        object_of({"in_turn": most(each_role, 20)}),
        *(
            object_of({"path": PLACE, one.name: from_data[one.name]})
            for one in fields(RoleFromData)
            if one.name in from_data
        ),
        object_of({"split": pairs("marker", 1000, "role", all_roles, 30)}),
    ]


def model_message() -> Schema:
    """Say what a message is for a model."""
    masks = {"anyOf": [{"type": ["boolean", "null"]}, object_of({"path": text_of()})]}
    by_name = {
        "each": PATHS,
        "where": most(refer("condition"), 30),
        "role": {"anyOf": model_roles()},
        "content": most(refer("part"), 30),
        "loss_mask": masks,
    }
    return object_of({one.name: by_name[one.name] for one in fields(Message)})


def model_parts() -> list[Schema]:
    """Say which forms a part of a text has for a model."""
    tree = {
        "tree": text_of(),
        "text": most(refer("piece"), 30),
        "children": text_of(),
        "depth": {"type": "integer"},
    }
    return [
        text_of(),
        refer("template"),
        object_of({"options": most(text_of(), 40), **taught("label", "pick", "from")}),
        refer("literal"),
        object_of({"any_of": most(refer("piece"), 20)}),
        refer("looked_up"),
        object_of({"concat": most(refer("piece"), 40), **taught("each", "sep")}),
        refer("looked_for"),
        object_of(tree),
    ]


def model_definitions() -> dict[str, Schema]:
    """Return the definitions of llm.schema.json that follow the fields."""
    condition = {
        "path": text_of(),
        "op": choice_of(*get_args(Operator)),
        "values": most({**SCALAR, "maxLength": 400}, 100),
    }
    looked_up = {"path": text_of(), **taught("map", "replace", "json", "sep")}
    pieces = [refer(name) for name in ("template", "literal", "looked_up", "looked_for")]
    meta = [text_of(), refer("literal"), refer("looked_up"), NULL]
    return {
        "template": object_of({"template": text_of(LONG), **taught("each")}),
        "literal": object_of({"literal": text_of(LONG)}),
        "looked_up": object_of(looked_up),
        "piece": {"anyOf": [text_of(), *pieces]},
        "part": {"anyOf": model_parts()},
        "meta_value": {"anyOf": meta},
        "looked_for": object_of(dict.fromkeys(PARTS, text_of())),
        "condition": object_of(condition),
    }


def model_keys() -> dict[str, Schema]:
    """Return the keys of an answer of a model that follow the fields."""
    parts = {"anyOf": [most(refer("part"), 30), NULL]}
    group = {"by": PATHS, "sort": NONE_OR_TEXT}
    return {
        "each": PATHS,
        "group": {"anyOf": [object_of({one.name: group[one.name] for one in fields(Group)}), NULL]},
        "where": most(refer("condition"), 30),
        "text": parts,
        "messages": {"anyOf": [most(model_message(), 30), NULL]},
        "system": parts,
        "meta": object_of(dict.fromkeys(META_KEYS, refer("meta_value"))),
    }


# --- the files


def with_words(written: Json, before: Json) -> Json:
    """Return a written schema with the words of the one before, key by key, in its order."""
    if isinstance(written, list) and isinstance(before, list):
        known = [*before, *[None] * (len(written) - len(before))]
        return [with_words(one, old) for one, old in zip(written, known, strict=False)]
    if not isinstance(written, dict) or not isinstance(before, dict):
        return written
    words = {key: before[key] for key in ("description",) if key in before}
    stated = {**words, **written}
    ordered = {key: stated[key] for key in before if key in stated} | stated
    return {key: with_words(one, before.get(key)) for key, one in ordered.items()}


def committed(name: str) -> Schema:
    """Return a schema as it is committed."""
    found: Schema = json.loads((FOLDER / f"{name}.schema.json").read_text("utf-8"))
    return found


def write_schema(name: str, before: Schema) -> Schema:
    """Return a schema as the fields of the tree say it, with the words of the one before."""
    known = before["$defs"]
    if name == "llm":
        keys = {**before["properties"], **model_keys()}
        made = {**before, "properties": keys, "$defs": {**known, **model_definitions()}}
    else:
        whole = {**known["v2"], "properties": {**known["v2"]["properties"], **layout_keys()}}
        made = {**before, "$defs": {**known, **file_definitions(), "v2": whole}}
    done: Schema = with_words(made, before)
    return done


def schema_bytes(name: str) -> bytes:
    """Return the bytes of a schema file."""
    made = write_schema(name, committed(name))
    return (json.dumps(made, indent=INDENTS[name]) + "\n").encode()


if __name__ == "__main__":
    for one in INDENTS:
        (FOLDER / f"{one}.schema.json").write_bytes(schema_bytes(one))
