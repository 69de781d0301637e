"""Read, write and show JSON and YAML: files, the JSON Schemas of ingot, typed values, short texts.

`encode` and `decode` turn dataclasses into plain JSON and back by their type hints. A hint may say
how a field stands in JSON: `Annotated[T, OMIT]`.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import Field, fields, is_dataclass
from functools import cache, reduce
from importlib import resources
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import orjson

from ingot.converters.errors import OMIT as OMIT
from ingot.converters.rows import Json

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

_LARGEST_JSON: Final = 64 << 20


def load_json(path: Path, *, own: bool = False) -> dict[str, Json]:
    """Return the JSON object of a file, which may be of any size where it is an `own` note."""
    if not own and path.stat().st_size > _LARGEST_JSON:
        raise ValueError("larger than 64 MiB")
    try:
        document = json.loads(path.read_bytes())
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    except ValueError as error:
        raise ValueError(f"not valid JSON: {json_fault(error)}") from error
    if not isinstance(document, dict):
        raise ValueError("not a JSON object")
    return document


_FAULTS = {  # what Python says of JSON, in words
    "Expecting value": "a value is missing",
    "Expecting property name": "a name in double quotes is missing",
    "Expecting ',' delimiter": "a comma or a closing bracket is missing",
    "Expecting ':' delimiter": "a colon is missing after a name",
    "Extra data": "something stands after the end of the document",
    "Unterminated string": "the closing quote of a text is missing",
    "Invalid control": "a text holds a line break or a tab: write \\n or \\t",
    "Invalid \\": "a text holds an unknown escape: a backslash is written \\\\",
}


def json_fault(error: ValueError) -> str:
    """Say where a text is no JSON, and why, in words."""
    if not isinstance(error, json.JSONDecodeError):
        return "other characters than UTF-8" if isinstance(error, UnicodeError) else str(error)
    problem = next((word for begins, word in _FAULTS.items() if error.msg.startswith(begins)), "")
    before, at = error.doc[: error.pos].rstrip(), error.doc[error.pos : error.pos + 1]
    if before.endswith(",") and at in ("]", "}"):
        problem = "a comma before a closing bracket: remove it"
    return f"line {error.lineno}, column {error.colno}: {problem or error.msg}"


def find_json(path: Path, *, own: bool = False) -> dict[str, Json] | None:
    """Return the JSON object of a file; None if there is none, whatever the reason."""
    try:
        return load_json(path, own=own)
    except (OSError, ValueError):
        return None


def shorten_text(text: str, limit: int, mark: str = "…") -> str:
    """Return a text for display: at most `limit` characters, `mark` at its end if it was cut."""
    return text if len(text) <= limit else f"{text[: limit - len(mark)]}{mark}"


def leaves(value: Json) -> Iterator[Json]:
    """Yield what a JSON value holds in its lists and objects, in order; keys aside."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list | tuple):
            waiting += reversed(value)
        elif isinstance(value, dict):
            waiting += reversed(value.values())
        else:
            yield value


def map_leaves(value: Json, change: Callable[[Json], Json]) -> Json:
    """Return a JSON value with `change` made of all that is no object and no list."""
    if isinstance(value, dict):
        return {key: map_leaves(one, change) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [map_leaves(one, change) for one in value]
    return change(value)


def json_digest(document: object) -> str:
    """Return the SHA-256 of a JSON document, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


_SUFFIX = ".schema.json"


def schema_names() -> tuple[str, ...]:
    """Return the names of all schemas that this version ships, sorted."""
    names = (entry.name for entry in resources.files("ingot.schemas").iterdir())
    return tuple(sorted(name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX)))


def schema_text(name: str) -> bytes:
    """Return the schema file as shipped, UTF-8 JSON; `KeyError` for a name that does not exist."""
    file = resources.files("ingot.schemas") / f"{name}{_SUFFIX}"
    if not file.is_file():
        raise KeyError(f"no schema {name!r}; there are: {', '.join(schema_names())}")
    return file.read_bytes()


@cache
def schema(name: str) -> dict[str, Json]:
    """Return the schema as a JSON object. One shared object per name: do not change it."""
    loaded: dict[str, Json] = orjson.loads(schema_text(name))
    return loaded


@cache
def validator(name: str) -> "Draft202012Validator":
    """Return the compiled `jsonschema.Draft202012Validator` of a schema, one per name."""
    from jsonschema import Draft202012Validator

    return Draft202012Validator(schema(name))


def violations(name: str, instance: Json) -> list[tuple[str, str]]:
    """Return every violation as (JSON Pointer, message), by position; none if it is valid."""
    faults = sorted(validator(name).iter_errors(instance), key=lambda error: error.json_path)
    return [(reduce(pointer_to, error.absolute_path, ""), error.message) for error in faults]


def pointer_to(pointer: str, key: str | int) -> str:
    """Return the JSON Pointer to a key or place of what another pointer leads to."""
    return f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}"


_YAML_LEVELS = 32  # levels
_YAML_DIGITS = 400  # characters of a number


def read_yaml(text: str, *, aliases: bool = False) -> Any:  # noqa: ANN401
    """Return what a document of YAML says; who allows `aliases` bounds what they stand for."""
    import yaml

    try:
        return yaml.load(text, _yaml_loader(aliases))
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


# The library is imported when YAML is read or written: most commands do neither.
@cache
def _yaml_loader(aliases: bool) -> Any:  # noqa: ANN401 - for the cache
    """YAML without what blows up, hides or turns into other types: aliases, merges, tags, depth."""
    import yaml

    class Loader(yaml.SafeLoader):
        depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:  # noqa: ANN401
            event = self.peek_event()  # type: ignore[no-untyped-call]
            if isinstance(event, yaml.events.AliasEvent) and not aliases:
                raise _refused("YAML aliases (*name) are not supported", event.start_mark)
            if getattr(event, "tag", None) is not None:
                raise _refused(f"YAML tags are not supported: {event.tag}", event.start_mark)
            if self.depth == _YAML_LEVELS:
                raise _refused("nested too deep", event.start_mark)
            self.depth += 1
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:  # noqa: ANN401
            seen: set[object] = set()
            for key, _ in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    raise _refused(
                        "a key is a list or an object: keys must be texts", key.start_mark
                    )
                if key.tag == "tag:yaml.org,2002:merge":
                    raise _refused("YAML merges (<<) are not supported", key.start_mark)
                if key.value in seen:
                    raise _refused(f"the key {key.value!r} occurs twice", key.start_mark)
                seen.add(key.value)
            return super().construct_mapping(node, deep)

    Loader.add_constructor("tag:yaml.org,2002:int", _construct_number)
    Loader.add_constructor("tag:yaml.org,2002:float", _construct_number)
    return Loader


def _construct_number(loader: Any, node: Any) -> Any:  # noqa: ANN401
    if len(node.value) > _YAML_DIGITS:  # one of base 60 takes the square of its length
        raise _refused("a number is too long", node.start_mark)
    return getattr(loader, f"construct_yaml_{node.tag.rpartition(':')[2]}")(node)


def _refused(why: str, mark: Any) -> Exception:  # noqa: ANN401
    from yaml.constructor import ConstructorError

    return ConstructorError(None, None, why, mark)


@cache
def _yaml_dumper() -> Any:  # noqa: ANN401
    """YAML in which no text is broken into lines."""
    import yaml

    class Dumper(yaml.SafeDumper):
        pass

    def represent_text(dumper: Any, text: str) -> Any:  # noqa: ANN401
        # The library takes other line ends than \n for blanks where they stand in plain quotes.
        style = None if text.isprintable() else '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Dumper.add_representer(str, represent_text)
    return Dumper


def dump_yaml_line(value: Any) -> str:  # noqa: ANN401
    """Return a value as YAML on one line."""
    import yaml

    text: str = yaml.dump(
        value, Dumper=_yaml_dumper(), default_flow_style=True, allow_unicode=True, width=10**9,
        sort_keys=False,
    )  # fmt: skip
    return text.removesuffix("...\n").rstrip("\n")


# Characters that JSON has as they are and YAML not, or as a line break.
_UNSAFE_CODES: Final = (*range(0x7F, 0xA0), 0x2028, 0x2029, 0xFEFF, 0xFFFE, 0xFFFF)
_ESCAPES: Final = {code: f"\\u{code:04x}" for code in _UNSAFE_CODES}


def dump_yaml(document: dict[str, Json], *, comment: str = "") -> bytes:
    """Return a document of objects, lists, texts, numbers, booleans and nulls as YAML."""
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


# --- typed values and their JSON

T = TypeVar("T")

UNSTORED = "never written"
EMPTY = "an empty object stands for None"


# How values of a type are written and read, where their fields do not say it.
FORMS: dict[Any, tuple[Callable[[Any], Json], Callable[[Json], Any]]] = {}


def encode(value: Any, hint: Any = None) -> Json:  # noqa: ANN401
    """Return the plain JSON of a dataclass, or of any value of a type hint."""
    kind: Any = hint or type(value)
    inner = _strip_hint(kind)
    if value is None:
        return {} if EMPTY in getattr(hint, "__metadata__", ()) else None
    if inner in FORMS:
        return FORMS[inner][0](value)
    if is_dataclass(inner) or is_typeddict(inner):
        hints = _field_hints(inner)
        if is_typeddict(inner):
            return {key: encode(item, hints[key]) for key, item in value.items()}
        return {
            declared.name: encode(getattr(value, declared.name), hints[declared.name])
            for declared in fields(inner)
            if not _is_left_out(getattr(value, declared.name), declared, hints[declared.name])
        }
    origin, arguments = get_origin(inner), get_args(inner)
    if origin in (tuple, list):
        return [encode(item, arguments[0]) for item in value]
    if origin is frozenset:
        return sorted(value)
    if origin is Counter:
        return dict(sorted(value.items()))
    if origin is dict:
        return {key: encode(item, arguments[1]) for key, item in value.items()}
    return value


def _is_left_out(value: Any, one: Field[Any], hint: Any) -> bool:  # noqa: ANN401
    marks = getattr(hint, "__metadata__", ())
    return UNSTORED in marks or (OMIT in marks and value == one.default)


def decode(kind: type[T], document: Json) -> T:
    """Return the value that `encode` has made plain JSON of, without fields of other versions."""
    return cast("T", _decode_hint(kind, document))


def _decode_hint(annotation: Any, document: Json) -> Any:  # noqa: ANN401
    inner = _strip_hint(annotation)
    if document is not None and inner in FORMS:
        return FORMS[inner][1](document)
    if document is None or (not document and inner is not annotation and is_dataclass(inner)):
        return None
    if is_typeddict(inner) or is_dataclass(inner):
        hints, typed = _field_hints(inner), is_typeddict(inner)
        known = {
            key: _decode_hint(hints[key], item)
            for key, item in document.items()
            if key in hints and not (typed and item == {} and is_dataclass(hints[key]))
        }
        return known if typed else inner(**known)
    origin, arguments = get_origin(inner), get_args(inner)
    if origin is tuple:
        return tuple(_decode_hint(arguments[0], item) for item in document)
    if origin is list:
        return [_decode_hint(arguments[0], item) for item in document]
    if origin is frozenset:
        return frozenset(document)
    if origin is Counter:
        return Counter(document)
    if origin is dict:
        numbers = arguments[0] is int  # which JSON has as texts
        return {
            int(key) if numbers else key: _decode_hint(arguments[1], item)
            for key, item in document.items()
        }
    return document


@cache
def _field_hints(kind: Any) -> dict[str, Any]:  # noqa: ANN401
    return get_type_hints(kind, include_extras=True)


@cache
def _strip_hint(hint: Any) -> Any:  # noqa: ANN401
    """Return the type without its marks and without None."""
    while get_origin(hint) is Annotated or hasattr(hint, "__supertype__"):  # a `NewType`
        hint = getattr(hint, "__supertype__", None) or get_args(hint)[0]
    if get_origin(hint) in (Union, UnionType):
        return _strip_hint(
            next(argument for argument in get_args(hint) if argument is not NoneType)
        )
    return hint


def found_text(value: Json, limit: int = 80) -> str:
    """Return a short spelling of a value for messages and rejects; no more of it is looked at."""
    text = value if isinstance(value, str) else "".join(_spelling_pieces(value, limit))
    return shorten_text(text, limit)


def _spelling_pieces(value: Json, limit: int) -> Iterator[str]:
    """The JSON spelling of a value, piece by piece, until it is longer than the limit."""
    length = 0
    pieces = json.JSONEncoder(ensure_ascii=False, default=str).iterencode(value)
    while length <= limit:
        try:
            piece = next(pieces)
        except StopIteration:
            return
        except ValueError:  # an integer of more digits than Python writes
            piece = "(a number without end)"
            length = limit
        length += len(piece)
        yield piece
