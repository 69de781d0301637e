"""The JSON Schemas of ingot by name, and their validators, read once from the package's data.

A name is a file name in `schemas/` without `.schema.json`: `mapping`, `record.pt`, `record.sft`,
`manifest`, `llm`.
"""

from collections.abc import Iterable
from functools import cache
from importlib import resources

import orjson
from jsonschema import Draft202012Validator

from ingot.converters.rows import Json

_SUFFIX = ".schema.json"


def names() -> tuple[str, ...]:
    """The names of all schemas that this version ships, sorted."""
    found = (entry.name for entry in resources.files("ingot.schemas").iterdir())
    return tuple(sorted(name.removesuffix(_SUFFIX) for name in found if name.endswith(_SUFFIX)))


def schema_text(name: str) -> bytes:
    """The schema file as shipped, UTF-8 JSON; `KeyError` for a name that does not exist."""
    file = resources.files("ingot.schemas") / f"{name}{_SUFFIX}"
    if not file.is_file():
        raise KeyError(f"no schema {name!r}; there are: {', '.join(names())}")
    return file.read_bytes()


@cache
def schema(name: str) -> dict[str, Json]:
    """The schema as a JSON object. One shared object per name: do not change it."""
    loaded: dict[str, Json] = orjson.loads(schema_text(name))
    return loaded


@cache
def validator(name: str) -> Draft202012Validator:
    """The compiled `jsonschema.Draft202012Validator` of a schema, one per name."""
    return Draft202012Validator(schema(name))


def violations(name: str, instance: Json) -> list[tuple[str, str]]:
    """Every violation as (JSON Pointer into the instance, message), by place; empty = valid."""
    found = sorted(validator(name).iter_errors(instance), key=lambda error: error.json_path)
    return [(_pointer(error.absolute_path), error.message) for error in found]


def _pointer(steps: Iterable[str | int]) -> str:
    escaped = (str(step).replace("~", "~0").replace("/", "~1") for step in steps)
    return "".join(f"/{step}" for step in escaped)
