"""An order as a server gets it: an object, or a line of words such as a person types.

The line is what `ingot run` takes, without its first words: `SOURCE --out DIR --mode sft`. Options
are known by their names only; nothing is executed.
"""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ingot.agent.state import Order
from ingot.converters.errors import ConversionError
from ingot.converters.rows import Json

_TEXT: Json = {"type": "string", "minLength": 1}
_NAME: Json = {"type": ["string", "null"], "minLength": 1}
_FLAG: Json = {"type": "boolean"}
_COUNT: Json = {"type": "integer", "minimum": 1}
# What a person may type, by the name of the field; `source` stands by itself.
TYPED: dict[str, dict[str, Json]] = {
    "out": _NAME,
    "mode": {"enum": ["auto", "pt", "sft"]},
    "mapper": _TEXT,
    "tokenizer": _NAME,
    "records": {"enum": ["parquet", "jsonl"]},
    "language": _NAME,
    "source_name": _NAME,
    "limit": {"type": ["integer", "null"], "minimum": 1},
    "overwrite": _FLAG,
    "yes": _FLAG,
    "min_confidence": {"type": "number", "minimum": 0, "maximum": 1},
    "dry_run": _FLAG,
    "allow_drift": _FLAG,
    "share_values": {"enum": ["none", "redacted", "raw"]},
    "prompt_tokens": _COUNT,
}
SCHEMA: dict[str, Json] = {
    "type": "object",
    "required": ["source"],
    "additionalProperties": False,
    "properties": {
        "source": _TEXT,
        **TYPED,
        "mapping": {"type": ["object", "null"]},
        "mapping_file": _NAME,
    },
}
USAGE = (
    "Type `SOURCE --out DIR`: what to read, and the folder to be written. Also: "
    + ", ".join(f"`--{name.replace('_', '-')}`" for name in TYPED if name != "out")
    + ". Words with blanks stand in quotes."
)


def checked(document: Json) -> Order:
    """The order that an object holds; a mapping in it is used, and no mapper is asked.

    Raises:
        ConversionError: it is none; all of what is wrong is said.
    """
    from jsonschema import Draft202012Validator

    faults = sorted(map(_fault, Draft202012Validator(SCHEMA).iter_errors(document)))
    if faults:
        raise ConversionError("order", "; ".join(faults[:5]))
    mapper = {"mapper": "file"} if document.get("mapping") is not None else {}
    return Order(**{**document, **mapper})


def _fault(error: Any) -> str:  # noqa: ANN401
    place = "/".join(map(str, error.absolute_path))
    return f"{place}: {error.message[:200]}" if place else str(error.message[:200])


def typed(words: str) -> Order:
    """The order that a person typed.

    Raises:
        ConversionError: it is none.
    """
    try:
        parts = shlex.split(words)
    except ValueError as error:
        raise ConversionError("", f"the line cannot be read: {error}") from error
    options: dict[str, Json] = {}
    sources: list[str] = []
    rest = iter(parts)
    for part in rest:
        if part.startswith("--"):
            options |= _option(part, rest)
        else:
            sources.append(part)
    if len(sources) != 1:
        found = ", ".join(map(repr, sources)) or "none"
        raise ConversionError("", f"one source is needed, found {found}")
    return checked({"source": sources[0], **options})


def _option(part: str, rest: Iterator[str]) -> dict[str, Json]:
    """One option with its value, which is the next word where no `=` names it."""
    written, named, value = part.partition("=")
    name = written.removeprefix("--").replace("-", "_")
    schema = TYPED.get(name)
    if schema is None:
        raise ConversionError("", f"there is no option {written}")
    if schema is _FLAG and not named:
        return {name: True}
    if not named:
        value = next(rest, "")
    if not value or schema is _FLAG:
        raise ConversionError("", f"{written} takes {'no' if schema is _FLAG else 'a'} value")
    return {name: _value(schema, value)}


def _value(schema: dict[str, Json], value: str) -> Json:
    """The word as a number where one is wanted; what is none is left for the schema to refuse."""
    wanted = schema.get("type", "string")
    if "integer" in wanted and value.isascii() and value.isdigit():
        return int(value)
    if wanted == "number":
        try:
            return float(value)
        except ValueError:
            return value
    return value


# --- where a served run may read and write


def confined(order: Order, root: Path) -> None:
    """Refuse an order that reads or writes outside of a folder.

    Links are followed before it is looked at where they lead.

    Raises:
        ConversionError: a place of the order lies elsewhere, or on another machine.
        SourceError: the source cannot be listed.
    """
    if "://" in order.source.removeprefix("file://"):
        raise ConversionError(order.source, "only files of this machine may be read here")
    _inside(order.source.removeprefix("file://"), root)
    for place in (order.out, order.tokenizer):
        if place is not None:
            _inside(place, root)
    from ingot.converters.readers.storage import find

    for entry in find(order.source).entries:
        _inside(str(entry.place), root)


def _inside(place: str, root: Path) -> None:
    folder = root.resolve()
    if folder not in Path(place).expanduser().resolve().parents:
        raise ConversionError(place, f"lies outside of {root}", "see INGOT_SERVE_ROOT")
