"""Small documents as YAML: keys as they are, every text quoted as JSON quotes it."""

import json
from collections.abc import Iterator
from typing import Final

from ingot.converters.rows import Json

# Characters that JSON has as they are and YAML not, or as a line break.
_ODD: Final = (*range(0x7F, 0xA0), 0x2028, 0x2029, 0xFEFF, 0xFFFE, 0xFFFF)
_ESCAPES: Final = {code: f"\\u{code:04x}" for code in _ODD}


def yaml_text(document: dict[str, Json], *, comment: str = "") -> bytes:
    """A document of objects, lists, texts, numbers, booleans and nulls as YAML.

    Args:
        document: its keys are words.
        comment: lines put in front, each after a `#`.
    """
    lines = [f"# {line}" for line in comment.splitlines()]
    return "\n".join([*lines, *_mapping(document), ""]).encode()


def _mapping(document: dict[str, Json]) -> Iterator[str]:
    for key, value in document.items():
        if isinstance(value, dict) and value:
            yield f"{key}:"
            yield from _indented(_mapping(value))
        elif isinstance(value, list) and value:
            yield f"{key}:"
            yield from _sequence(value)
        else:
            yield f"{key}: {_scalar(value)}"


def _sequence(values: list[Json]) -> Iterator[str]:
    for value in values:
        lines = list(_mapping(value)) if isinstance(value, dict) else [_scalar(value)]
        yield f"- {lines[0]}"
        yield from _indented(lines[1:])


def _indented(lines: Iterator[str] | list[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


def _scalar(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False).translate(_ESCAPES)
