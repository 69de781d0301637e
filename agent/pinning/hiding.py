"""Redaction that keeps the structure of a value: same keys, same types, another text or number.

`ingot.agent.redaction` is for what people and models read; a pinned row has to read as the row it
was. A number stays a number, JSON in a text stays JSON, and different secrets stay different, so
that rows which are grouped by one still fall into the same groups.
"""

import json
import re
from collections.abc import Collection

from ingot.agent.redaction import redact
from ingot.agent.redaction.assignments import is_secret_name
from ingot.agent.redaction.phones import is_phone_like, is_phone_name
from ingot.converters.readers.jsonvalue import JsonTextError, loads
from ingot.converters.rows import Json

_PLACEHOLDER = re.compile(r"\[[a-z ]{2,14}\]")
_SECRET, _PHONE = "[secret]", "[phone]"
_ROLES = frozenset(
    ("user", "assistant", "system", "tool", "human", "gpt", "bot", "model", "function", "developer")
)


class NotRedactableError(ValueError):
    """What would be left of a row has another structure."""


class Hiding:
    """Redacts the values of one pinned sample.

    Args:
        share: `raw` hides nothing.
        keep: texts that a mapping names (keys of its maps, values of its conditions); like names of
            roles they survive under a key that makes a secret of any value.
    """

    def __init__(self, share: str, keep: Collection[str] = ()) -> None:
        self.off = share == "raw"
        self._keep = _ROLES.union(keep)
        self._known: dict[str, dict[str, int]] = {}

    def value(self, value: Json, name: str = "") -> Json:
        """The value redacted.

        Raises:
            NotRedactableError: two keys of an object would become one.
        """
        if self.off:
            return value
        if isinstance(value, dict):
            hidden = {self.text(k): self.value(inner, k) for k, inner in value.items()}
            if len(hidden) < len(value):
                raise NotRedactableError
            return hidden
        if isinstance(value, list):
            return [self.value(inner, name) for inner in value]
        if isinstance(value, str):
            return self.text(value, name)
        if value is None or isinstance(value, bool):
            return value
        return self._number(value, name)

    def text(self, text: str, name: str = "") -> str:
        """A text redacted; one that holds JSON holds the same JSON redacted."""
        if self.off or not text:
            return text
        if kind := _named(text, name):
            kept = text in self._keep and redact(text) == text
            return text if kept else self._stand_in(kind, text)
        if text.lstrip()[:1] in ("{", "["):
            try:
                return self._json(text, loads(text.encode()), name)
            except (JsonTextError, UnicodeEncodeError):
                pass
        found = redact(text)
        if found != text and _PLACEHOLDER.fullmatch(found):
            return self._stand_in(found, text)
        return found

    def spelled(self, text: str) -> str:
        """A text that cannot be parsed, redacted as a whole."""
        return text if self.off else redact(text)

    def finds(self, text: str) -> bool:
        """Whether there is anything to redact in a text as it is spelt."""
        return not self.off and redact(text) != text

    def _json(self, text: str, inner: Json, name: str) -> str:
        hidden = self.value(inner, name)
        if hidden == inner and not self.finds(text):
            return text
        return json.dumps(hidden, ensure_ascii=text.isascii())

    def _number(self, number: Json, name: str) -> Json:
        text = _digits(number)
        if not _named(text, name) and redact(text) == text:
            return number
        return type(number)(self._count("number", text))

    def _stand_in(self, placeholder: str, secret: str) -> str:
        """`[email]` for the first secret of a kind, `[email b]`, `[email c]`, ... for others."""
        number = self._count(placeholder, secret)
        return placeholder if number == 1 else f"{placeholder[:-1]} {_letters(number)}]"

    def _count(self, kind: str, secret: str) -> int:
        known = self._known.setdefault(kind, {})
        return known.setdefault(secret, len(known) + 1)


def _named(text: str, name: str) -> str:
    """The placeholder of a value that its key alone makes a secret, "" where none does."""
    if name and is_secret_name(name):
        return _SECRET
    return _PHONE if name and is_phone_name(name) and is_phone_like(text) else ""


def _digits(number: int | float) -> str:
    """A number's digits; 13800138000.0 is what a table makes of an integer with gaps."""
    whole = isinstance(number, float) and abs(number) < 1e16 and number.is_integer()
    return str(int(number)) if whole else json.dumps(number)


def _letters(number: int) -> str:
    """`a` to `z`, `aa`, ...: digits would look like a secret again."""
    text = ""
    while number:
        number, place = divmod(number - 1, 26)
        text = chr(ord("a") + place) + text
    return text


def named_values(document: Json) -> frozenset[str]:
    """The texts of data that a mapping names: keys of `map`, values of `in` and `not_in`."""
    found: set[str] = set()
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            waiting += value.values()
            found.update(value["map"] if isinstance(value.get("map"), dict) else ())
            for key in ("in", "not_in"):
                stated = value.get(key)
                found.update(one for one in stated or () if isinstance(one, str))
    return frozenset(found)
