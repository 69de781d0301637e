"""One JSON text to its value, exactly: integers of any size, no NaN, only valid Unicode."""

import codecs
import json
import re
from collections.abc import Iterable
from typing import NoReturn

import numpy as np
import orjson

from ingot.converters.rows import Json

# orjson reads integers beyond 64 bits as floats; such texts, found by a long run of digits, are
# read again by the slower parser of the standard library.
_LONG = re.compile(rb"-[0-9]{19}|[0-9]{20}")
_DIGITS = bytes(48 if 48 <= byte <= 57 else 32 for byte in range(256))
_RUN = b"0" * 19
_STRIDE = 6
_SMALL = 4096
# No data set is nested like this; what walks a row may then be written as plain recursion.
MAX_DEPTH = 256


class JsonTextError(ValueError):
    """A text is no JSON; the message says what is wrong and at which character of the row."""


def has_long_digits(data: bytes) -> bool:
    """Whether a block holds a run of at least 19 digits: the cheap test before `loads`.

    Such a run covers three neighbours among every sixth byte; only where three are digits does the
    whole block have to be looked at.
    """
    if len(data) > _SMALL:
        sixth = np.frombuffer(data, dtype=np.uint8)[::_STRIDE] - np.uint8(48) < 10
        if not (sixth[:-2] & sixth[1:-1] & sixth[2:]).any():
            return False
    return _RUN in data.translate(_DIGITS)


def may_be_deep(data: bytes) -> bool:
    """Whether a text has brackets enough to be nested too deeply: the cheap test before `loads`."""
    return len(data) > 2 * MAX_DEPTH and data.count(b"[") + data.count(b"{") > MAX_DEPTH


def loads(data: bytes) -> Json:
    """The value of a JSON text in UTF-8. Raises JsonTextError."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise JsonTextError(_message(error)) from error
    if may_be_deep(data) and _is_deep(value):
        raise JsonTextError(f"nested more than {MAX_DEPTH} levels deep")
    if has_long_digits(data) and _LONG.search(data):
        return _exact(data)
    return value


def ends_early(data: bytes) -> bool:
    """Whether nothing is wrong with a JSON text but that it ends before its value does."""
    try:
        text, _ = codecs.utf_8_decode(data)  # without a last character that is cut off itself
        orjson.loads(text)
    except orjson.JSONDecodeError as error:
        return error.pos >= len(text)
    except UnicodeDecodeError:
        return False
    return False


def _is_deep(value: Json) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return False
    return any(isinstance(value, dict | list) for value in level)


def _inside(value: Json) -> Iterable[Json]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _exact(data: bytes) -> Json:
    try:
        return json.loads(data, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise JsonTextError(str(error).partition(";")[0]) from error


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _message(error: orjson.JSONDecodeError) -> str:
    return f"{error.msg} at character {error.pos}"
