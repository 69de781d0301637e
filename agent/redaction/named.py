"""What is hidden in a row for the name of its key alone, hidden in what is made of the row too."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from ingot.agent.redaction.values import placeholder, spelled
from ingot.converters.rows import Json

_SHORTEST = 4  # characters that are looked for inside other texts
_DEEPEST = 100


def named_secrets(value: Json) -> dict[str, str]:
    """Text -> placeholder, for every value in rows that `redacted` hides for the key's name.

    Args:
        value: a row, or a list of rows.
    """
    return dict(_named(value, "", _DEEPEST))


def _named(value: Json, name: str, levels: int) -> Iterator[tuple[str, str]]:
    inner: Iterable[tuple[str, Json]]
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = ((name, one) for one in value)
    else:
        yield from _scalar(value, name)
        return
    if levels:
        for key, one in inner:
            yield from _named(one, key, levels - 1)


def _scalar(value: Json, name: str) -> Iterator[tuple[str, str]]:
    if value is None or isinstance(value, bool):
        return
    text = spelled(value).strip()
    kind = placeholder(text, name) if text else None
    if kind is not None:
        yield text, kind


def hidden(value: Json, secrets: Mapping[str, str]) -> Json:
    """The value with those texts replaced in all its strings and numbers; keys are kept.

    Short ones are replaced only where they are the whole text.
    """
    return _hidden(value, _replacing(secrets)) if secrets else value


def _replacing(secrets: Mapping[str, str]) -> Callable[[str], str]:
    long = sorted((one for one in secrets if len(one) >= _SHORTEST), key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, long)) or r"(?!)")

    def replaced(text: str) -> str:
        whole = secrets.get(text.strip())
        return whole or pattern.sub(lambda found: secrets[found[0]], text)

    return replaced


def _hidden(value: Json, replaced: Callable[[str], str]) -> Json:
    if isinstance(value, list):
        return [_hidden(one, replaced) for one in value]
    if isinstance(value, dict):
        return {key: _hidden(one, replaced) for key, one in value.items()}
    if value is None or isinstance(value, bool):
        return value
    text = spelled(value)
    found = replaced(text)
    return value if found == text else found
