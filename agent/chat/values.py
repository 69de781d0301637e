"""A value as a person types it: `title,body`, `"You are kind."`, `{{a}}: {{b}}`, `title|headline`.

Parts are separated by commas; `...` is what is there already; a text in double quotes is literal.
"""

import json
from collections.abc import Iterator

from ingot.converters.bind import ISO_639_1
from ingot.converters.rows import Json

_OPENING = {"[": "]", "{": "}"}
NOTHING = ("none", "nothing", "-")


class BadValue(ValueError):  # noqa: N818 - a state of what was typed
    """What was typed is no value; the message says why, for people."""


def parts(text: str) -> list[Json]:
    """The parts of a value in the form of an edit; [] = none.

    Raises:
        BadValue: quotes or brackets are open, or a part is empty.
    """
    if text.strip().lower() in NOTHING:
        return []
    return [_part(one) for one in split(text, ",")]


def _part(text: str) -> Json:
    if text == "...":
        return {"current": 0}
    if text.startswith('"'):
        return {"literal": _literal(text)}
    if "{{" in text:
        return {"template": text, "each": []}
    choices = list(split(text, "|"))
    return {"first_of": choices} if len(choices) > 1 else text


def _literal(text: str) -> str:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise BadValue(f'{text} is no text in double quotes (inside it, \\" and \\n)') from error
    if not isinstance(found, str):
        raise BadValue(f"{text} is no text in double quotes")
    return found


def meta_value(text: str, key: str, fields: tuple[str, ...]) -> Json:
    """The value of a meta key: a path, a literal, None = none.

    A language code that is no field is literal, as in version 1 of the mapping format.

    Raises:
        BadValue: it is several parts, or no value.
    """
    found = parts(text)
    if len(found) > 1:
        raise BadValue(f"{key} is one field or one text in double quotes")
    one = found[0] if found else None
    if key == "language" and isinstance(one, str) and one not in fields:
        return {"literal": one} if one in ISO_639_1 or one == "mix" else one
    if isinstance(one, dict) and "literal" not in one:
        raise BadValue(f"{key} is one field or one text in double quotes")
    return one


def scalar(text: str) -> Json:
    """A value as data has it: a number, true, false, null; else the text itself, quotes taken off.

    Raises:
        BadValue: quotes are open.
    """
    if text.startswith('"'):
        return _literal(text)
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return text if isinstance(found, dict | list) else found


def split(text: str, separator: str) -> Iterator[str]:
    """The pieces between separators that stand in no quotes and no brackets, blanks taken off.

    Raises:
        BadValue: quotes or brackets are open, or a piece is empty.
    """
    piece, closing, quote = "", [""], ""
    for place, char in enumerate(text):
        if quote:
            quote = "" if char == quote and not _escaped(text, place) else quote
        elif char == '"' or (char == "'" and closing[-1] == "]"):
            quote = char
        elif char in _OPENING:
            closing.append(_OPENING[char])
        elif char == closing[-1]:
            closing.pop()
        elif char == separator and len(closing) == 1:
            yield _whole(piece, text)
            piece = ""
            continue
        piece += char
    if quote or len(closing) > 1:
        raise BadValue(f"{text}: {quote or closing[-1]} is missing")
    yield _whole(piece, text)


def _escaped(text: str, place: int) -> bool:
    before = text[:place]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1


def _whole(piece: str, text: str) -> str:
    if not piece.strip():
        raise BadValue(f"{text or 'nothing'}: a part is empty")
    return piece.strip()
