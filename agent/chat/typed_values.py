"""Parse values as a person types them in a conversation.

The parts of a value (`title,body`, `"You are kind."`, `{{a}}: {{b}}`, `title|headline`) are
separated by commas; `...` is what is there already; a text in double quotes is literal.
"""

import json
from collections.abc import Iterator

from ingot.converters.mapping.bind import ISO_639_1
from ingot.converters.mapping.language import split_template
from ingot.converters.rows import Json

_OPENING = {"[": "]", "{": "}"}
NOTHING = ("none", "nothing", "-")


class ValueSyntaxError(ValueError):
    """A typed value cannot be parsed; the message says why."""


def parse_parts(text: str) -> list[Json]:
    """Return the parts of a value in the form of an edit; [] = none."""
    nothing = text.strip().lower() in NOTHING
    return [] if nothing else [_parse_part(one) for one in split_outside_quotes(text, ",")]


def _parse_part(text: str) -> Json:
    if text == "...":
        return {"current": 0}
    if text.startswith('"'):
        return {"literal": _parse_literal(text)}
    if "{{" in text:
        return _parse_template(text)
    choices = list(split_outside_quotes(text, "|"))
    return {"any_of": choices} if len(choices) > 1 else text


def _parse_template(text: str) -> Json:
    """Return a template; one whose fields are all below the same list is filled per element."""
    places = split_template(text)[1::2]
    lists = {place.rpartition("[*].")[0] for place in places if "[*]." in place}
    if len(places) < 2 or len(lists) != 1 or not all("[*]." in place for place in places):
        return {"template": text, "each": []}
    each = f"{lists.pop()}[*]"
    return {"template": text.replace(f"{{{{{each}.", "{{"), "each": [each]}


def _parse_literal(text: str) -> str:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ValueSyntaxError(
            f'{text} is not a text in double quotes (inside it, \\" and \\n)'
        ) from error
    if not isinstance(found, str):
        raise ValueSyntaxError(f"{text} is not a text in double quotes")
    return found


def parse_meta_value(text: str, key: str, fields: tuple[str, ...]) -> Json:
    """Return the value of a meta key: a path, a literal, None = none.

    A language code that is not a field is a literal, as in version 1 of the mapping format.
    """
    found = parse_parts(text)
    if len(found) > 1:
        raise ValueSyntaxError(f"{key} is one field or one text in double quotes")
    one = found[0] if found else None
    if key == "language" and isinstance(one, str) and one not in fields:
        return {"literal": one} if one in ISO_639_1 or one == "mix" else one
    if isinstance(one, dict) and "literal" not in one:
        raise ValueSyntaxError(f"{key} is one field or one text in double quotes")
    return one


def parse_scalar(text: str) -> Json:
    """Return a value as data has it: a number, true, false, null, or the text without quotes."""
    if text.startswith('"'):
        return _parse_literal(text)
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return text if isinstance(found, dict | list) else found


def split_outside_quotes(text: str, separator: str) -> Iterator[str]:
    """Yield the pieces between separators that are outside of quotes and brackets, stripped."""
    piece, closing, quote = "", [""], ""
    for place, char in enumerate(text):
        if quote:
            escapes = len(text[:place]) - len(text[:place].rstrip("\\"))
            quote = "" if char == quote and escapes % 2 == 0 else quote
        elif char == '"' or (char == "'" and closing[-1] == "]"):
            quote = char
        elif char in _OPENING:
            closing.append(_OPENING[char])
        elif char == closing[-1]:
            closing.pop()
        elif char == separator and len(closing) == 1:
            yield _require_text(piece, text)
            piece = ""
            continue
        piece += char
    if quote or len(closing) > 1:
        raise ValueSyntaxError(f"{text}: {quote or closing[-1]} is missing")
    yield _require_text(piece, text)


def _require_text(piece: str, text: str) -> str:
    if not piece.strip():
        raise ValueSyntaxError(f"{text or 'nothing'}: a part is empty")
    return piece.strip()
