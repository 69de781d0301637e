"""JSON and YAML documents: files that somebody else may have written, and the JSON Schemas."""

import json
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson
import yaml

from ingot.converters.rows import Json

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

_LARGEST_JSON: Final = 64 << 20


def load_json(path: Path) -> dict[str, Json]:
    """Return the JSON object of a file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not a JSON object, larger than 64 MiB or nested too deep.
    """
    if path.stat().st_size > _LARGEST_JSON:
        raise ValueError("larger than 64 MiB")
    try:
        document = json.loads(path.read_bytes())
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    except ValueError as error:
        raise ValueError(f"not valid JSON: {error}") from error
    if not isinstance(document, dict):
        raise ValueError("not a JSON object")
    return document


def find_json(path: Path) -> dict[str, Json] | None:
    """Return the JSON object of a file; None where there is none, whatever the reason."""
    try:
        return load_json(path)
    except (OSError, ValueError):
        return None


_SUFFIX = ".schema.json"


def schema_names() -> tuple[str, ...]:
    """The names of all schemas that this version ships, sorted."""
    found = (entry.name for entry in resources.files("ingot.schemas").iterdir())
    return tuple(sorted(name.removesuffix(_SUFFIX) for name in found if name.endswith(_SUFFIX)))


def schema_text(name: str) -> bytes:
    """The schema file as shipped, UTF-8 JSON; `KeyError` for a name that does not exist."""
    file = resources.files("ingot.schemas") / f"{name}{_SUFFIX}"
    if not file.is_file():
        raise KeyError(f"no schema {name!r}; there are: {', '.join(schema_names())}")
    return file.read_bytes()


@cache
def schema(name: str) -> dict[str, Json]:
    """The schema as a JSON object. One shared object per name: do not change it."""
    loaded: dict[str, Json] = orjson.loads(schema_text(name))
    return loaded


@cache
def validator(name: str) -> "Draft202012Validator":
    """The compiled `jsonschema.Draft202012Validator` of a schema, one per name."""
    from jsonschema import Draft202012Validator

    return Draft202012Validator(schema(name))


def violations(name: str, instance: Json) -> list[tuple[str, str]]:
    """Every violation as (JSON Pointer into the instance, message), by place; empty = valid."""
    found = sorted(validator(name).iter_errors(instance), key=lambda error: error.json_path)
    return [(_json_pointer(error.absolute_path), error.message) for error in found]


def _json_pointer(steps: Iterable[str | int]) -> str:
    escaped = (str(step).replace("~", "~0").replace("/", "~1") for step in steps)
    return "".join(f"/{step}" for step in escaped)


_YAML_LEVELS = 32  # levels


def read_yaml(text: str) -> Any:  # noqa: ANN401
    """What a document of YAML says."""
    try:
        return yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


class _Loader(yaml.SafeLoader):
    """YAML without what blows up, hides or turns into other types: aliases, merges, tags, depth."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:  # noqa: ANN401
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.events.AliasEvent):
            raise _yaml_error("an alias is not read", event.start_mark)
        if getattr(event, "tag", None) is not None:
            raise _yaml_error(f"a tag is not read: {event.tag}", event.start_mark)
        if self._depth == _YAML_LEVELS:
            raise _yaml_error("nested too deep", event.start_mark)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:  # noqa: ANN401
        seen: set[object] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _yaml_error("a key is no text", key.start_mark)
            if key.tag == "tag:yaml.org,2002:merge":
                raise _yaml_error("a merge is not read", key.start_mark)
            if key.value in seen:
                raise _yaml_error(f"the key {key.value!r} stands twice", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _yaml_error(said: str, mark: Any) -> yaml.constructor.ConstructorError:  # noqa: ANN401
    return yaml.constructor.ConstructorError(None, None, said, mark)


def dump_yaml_line(value: Any) -> str:  # noqa: ANN401
    """A value as YAML on one line."""
    text: str = yaml.dump(
        value, Dumper=_Dumper, default_flow_style=True, allow_unicode=True, width=10**9,
        sort_keys=False,
    )  # fmt: skip
    return text.removesuffix("...\n").rstrip("\n")


class _Dumper(yaml.SafeDumper):
    """YAML in which no text is broken into lines."""


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    # The library takes other line ends than \n for blanks where they stand in plain quotes.
    style = None if text.isprintable() else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


# Characters that JSON has as they are and YAML not, or as a line break.
_UNSAFE_CODES: Final = (*range(0x7F, 0xA0), 0x2028, 0x2029, 0xFEFF, 0xFFFE, 0xFFFF)
_ESCAPES: Final = {code: f"\\u{code:04x}" for code in _UNSAFE_CODES}


def dump_yaml(document: dict[str, Json], *, comment: str = "") -> bytes:
    """A document of objects, lists, texts, numbers, booleans and nulls as YAML."""
    lines = [f"# {line}" for line in comment.splitlines()]
    return "\n".join([*lines, *_mapping_lines(document), ""]).encode()


def _mapping_lines(document: dict[str, Json]) -> Iterator[str]:
    for key, value in document.items():
        if isinstance(value, dict) and value:
            yield f"{key}:"
            yield from _indent_lines(_mapping_lines(value))
        elif isinstance(value, list) and value:
            yield f"{key}:"
            yield from _sequence_lines(value)
        else:
            yield f"{key}: {_scalar_text(value)}"


def _sequence_lines(values: list[Json]) -> Iterator[str]:
    for value in values:
        lines = list(_mapping_lines(value)) if isinstance(value, dict) else [_scalar_text(value)]
        yield f"- {lines[0]}"
        yield from _indent_lines(lines[1:])


def _indent_lines(lines: Iterator[str] | list[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


def _scalar_text(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False).translate(_ESCAPES)
