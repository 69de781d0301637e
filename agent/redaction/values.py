"""JSON values: every string, number and key inside them redacted, or only their shape kept."""

import json

from ingot.agent.redaction.assignments import is_secret_name
from ingot.agent.redaction.phones import is_phone_like, is_phone_name
from ingot.agent.redaction.text import redact
from ingot.converters.rows import Json

_DEEPEST = 100
_TOO_DEEP = "[nested too deeply]"
_SECRET, _PHONE = "[secret]", "[phone]"


def redacted(value: Json) -> Json:
    """The value with every secret in it replaced: strings, keys, numbers that spell a secret.

    A number becomes the text of its placeholder; what stands under a key named for a secret
    (`password`, `api_key`) becomes `[secret]`, digits under one named for a phone `[phone]`.
    Keys that become equal are numbered; what lies deeper than 100 levels is left out.
    """
    return _redacted(value, "", _DEEPEST)


def _redacted(value: Json, name: str, levels: int) -> Json:
    if isinstance(value, (dict, list)):
        if not levels:
            return _TOO_DEEP
        if isinstance(value, list):
            return [_redacted(inner, name, levels - 1) for inner in value]
        keys = _keys(value)
        return {keys[key]: _redacted(value[key], key, levels - 1) for key in value}
    if value is None or isinstance(value, bool) or value == "":
        return value
    return _scalar(value, name)


def _scalar(value: Json, name: str) -> Json:
    text = spelled(value)
    named = placeholder(text, name)
    if named is not None:
        return named
    found = redact(text)
    return found if found != text else value


def placeholder(text: str, name: str) -> str | None:
    """What a text becomes for the name of its key alone, None where that tells nothing."""
    if name and is_secret_name(name):
        return _SECRET
    return _PHONE if name and is_phone_name(name) and is_phone_like(text) else None


def spelled(value: str | int | float) -> str:
    """A text, or a number's digits; 13800138000.0 is what a table makes of an integer with gaps."""
    if isinstance(value, str):
        return value
    whole = isinstance(value, float) and abs(value) < 1e16 and value.is_integer()
    return str(int(value)) if whole else json.dumps(value)


def _keys(value: dict[str, Json]) -> dict[str, str]:
    """Key -> key redacted, different where the keys were different."""
    named = {key: redact(key) for key in value}
    taken = {key for key, shown in named.items() if key == shown}
    for key, shown in named.items():
        if key == shown:
            continue
        number, free = 1, shown
        while free in taken:
            number += 1
            free = f"{shown} {number}"
        named[key] = free
        taken.add(free)
    return named


def shaped(value: Json) -> Json:
    """The same shape without its values: scalars become `<string 132 chars>`, `<integer>`, ...

    Keys are kept, redacted.
    """
    return _shaped(value, _DEEPEST)


def _shaped(value: Json, levels: int) -> Json:
    if isinstance(value, (dict, list)):
        if not levels:
            return _TOO_DEEP
        if isinstance(value, list):
            return [_shaped(inner, levels - 1) for inner in value]
        keys = _keys(value)
        return {keys[key]: _shaped(inner, levels - 1) for key, inner in value.items()}
    if isinstance(value, str):
        return f"<string {len(value)} chars>"
    return f"<{_type(value)}>"


def _type(value: Json) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    return "integer" if isinstance(value, int) else "number"
