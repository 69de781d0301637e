"""Redact rows of a pinned sample, keeping the structure: same keys, same types.

`ingot.agent.privacy` is for what people and models read; a pinned row has to read as the row it
was. A number stays a number, JSON in a text stays JSON, and different secrets stay different, so
that rows that are grouped by one still fall into the same groups. What has nothing to redact keeps
its spelling.
"""

import json
import re
from collections.abc import Collection
from dataclasses import replace

from ingot.agent.privacy import redact
from ingot.agent.privacy.numbers import is_phone_like, is_phone_name
from ingot.agent.privacy.secrets import is_secret_name
from ingot.agent.review.pinning.row_texts import UNREAD, Unit, parse_unit
from ingot.converters.rows import Json
from ingot.converters.sources.facts import FileFacts
from ingot.converters.sources.formats.row_chunks import JsonTextError, parse_json

_PLACEHOLDER = re.compile(r"\[[a-z ]{2,14}\]")
_SECRET, _PHONE = "[secret]", "[phone]"
_ROLES = frozenset(
    ("user", "assistant", "system", "tool", "human", "gpt", "bot", "model", "function", "developer")
)


class NotRedactableError(ValueError):
    """A redacted row would have another structure."""


class SampleRedactor:
    """Redacts the values of one pinned sample."""

    def __init__(self, share: str, keep: Collection[str] = ()) -> None:
        self.off = share == "raw"
        self._keep = _ROLES.union(keep)
        self._known: dict[str, dict[str, int]] = {}

    def value(self, value: Json, name: str = "") -> Json:
        """Redact a value."""
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
        """Redact a text; one that holds JSON holds the same JSON redacted."""
        if self.off or not text:
            return text
        if kind := _placeholder_by_name(text, name):
            kept = text in self._keep and redact(text) == text
            return text if kept else self._stand_in(kind, text)
        if text.lstrip()[:1] in ("{", "["):
            try:
                return self._json(text, parse_json(text.encode()), name)
            except (JsonTextError, UnicodeEncodeError):
                pass
        found = redact(text)
        if found != text and _PLACEHOLDER.fullmatch(found):
            return self._stand_in(found, text)
        return found

    def spelled(self, text: str) -> str:
        """Redact a text that cannot be parsed as a whole."""
        return text if self.off else redact(text)

    def finds(self, text: str) -> bool:
        """Check whether there is anything to redact in a text as it is spelled."""
        return not self.off and redact(text) != text

    def _json(self, text: str, inner: Json, name: str) -> str:
        hidden = self.value(inner, name)
        if hidden == inner and not self.finds(text):
            return text
        return json.dumps(hidden, ensure_ascii=text.isascii())

    def _number(self, number: Json, name: str) -> Json:
        text = _digits(number)
        if not _placeholder_by_name(text, name) and redact(text) == text:
            return number
        return type(number)(self._count("number", text))

    def _stand_in(self, placeholder: str, secret: str) -> str:
        """Return `[email]` for the first secret of a kind, `[email b]`, ... for others."""
        number = self._count(placeholder, secret)
        return placeholder if number == 1 else f"{placeholder[:-1]} {_letters(number)}]"

    def _count(self, kind: str, secret: str) -> int:
        known = self._known.setdefault(kind, {})
        return known.setdefault(secret, len(known) + 1)


def _placeholder_by_name(text: str, name: str) -> str:
    """Return the placeholder of a value that its key alone makes a secret, else ""."""
    if name and is_secret_name(name):
        return _SECRET
    return _PHONE if name and is_phone_name(name) and is_phone_like(text) else ""


def _digits(number: int | float) -> str:
    """Return a number's digits; 13800138000.0 is what a table makes of an integer with gaps."""
    whole = isinstance(number, float) and abs(number) < 1e16 and number.is_integer()
    return str(int(number)) if whole else json.dumps(number)


def _letters(number: int) -> str:
    """Return `a` to `z`, `aa`, ...: digits would look like a secret again."""
    text = ""
    while number:
        number, place = divmod(number - 1, 26)
        text = chr(ord("a") + place) + text
    return text


def named_values(document: Json) -> frozenset[str]:
    """Return the texts of data that a mapping names: keys of `map`, values of `in` and `not_in`."""
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


# A line of a private key tells nothing by itself, and its lines may be rows of their own.
_KEY_LINE = re.compile(r"[A-Za-z0-9+/]{40,}={0,2}")


def redact_unit(unit: Unit, facts: FileFacts, hiding: SampleRedactor) -> Unit:
    """Redact a unit; it stays as it was if there is nothing to redact."""
    if hiding.off:
        return unit
    if unit.broken:
        return _redact_broken(unit, facts, hiding)
    value = _redact_value(unit.value, facts, hiding)
    key = None if unit.key is None else hiding.text(unit.key)
    said = unit.spelled.decode()
    if value == unit.value and key == unit.key and not _hides_in_spelling(said, facts, hiding):
        return unit
    return replace(spell_row(value, facts, like=said, key=key), gap=unit.gap)


def _redact_value(value: Json, facts: FileFacts, hiding: SampleRedactor) -> Json:
    if facts.format == "csv":  # the names of columns stand in the header
        return {name: hiding.text(_without_key(cell), name) for name, cell in value.items()}
    if facts.format == "text":
        return {"text": hiding.text(_without_key(value["text"]))}
    return hiding.value(value)


def _without_key(text: str) -> str:
    return "[private key]" if _KEY_LINE.fullmatch(text.strip()) else text


def _hides_in_spelling(said: str, facts: FileFacts, hiding: SampleRedactor) -> bool:
    """Check whether the spelling hides what the value lacks: a key that stands twice, an escape."""
    return facts.format in ("json", "jsonl") and hiding.finds(said)


def _redact_broken(unit: Unit, facts: FileFacts, hiding: SampleRedactor) -> Unit:
    """Redact a row that cannot be read as text; it stays one that cannot be read."""
    said = unit.spelled.decode("utf-8", "replace")
    if facts.format == "csv" and any(map(is_secret_name, facts.columns)):
        raise NotRedactableError  # which cell is the secret one is not known
    shown = hiding.spelled(_without_key(said))
    if shown == said:
        return unit
    again = parse_unit(replace(unit, spelled=shown.encode(), value=UNREAD), facts)
    if not again.broken:
        raise NotRedactableError
    return again


def spell_row(value: Json, facts: FileFacts, *, like: str = "", key: str | None = None) -> Unit:
    """Spell a row anew, in the manner of another spelling."""
    end = "\r" if like.endswith("\r") else ""
    if facts.format == "csv":
        text = _table_text(value, facts, like)
    elif facts.format == "text":
        text = value["text"]
    else:
        text = json.dumps(value, ensure_ascii=bool(like) and like.isascii())
    unit = parse_unit(Unit(spelled=(text + end).encode(), value=UNREAD, key=key), facts)
    if unit.value != value:
        raise NotRedactableError
    return unit


def _table_text(row: dict[str, str], facts: FileFacts, like: str) -> str:
    quote, delimiter = facts.quote, facts.delimiter
    every = bool(quote) and like.startswith(quote) and like.count(quote) >= 2 * len(row)
    return delimiter.join(_cell_text(cell, quote, delimiter, every) for cell in row.values())


def _cell_text(text: str, quote: str, delimiter: str, every: bool) -> str:
    needs = any(mark in text for mark in (quote, delimiter, "\n", "\r") if mark)
    if not quote or not (needs or every):
        return text
    return f"{quote}{text.replace(quote, quote * 2)}{quote}"


def redact_header(unit: Unit, facts: FileFacts, hiding: SampleRedactor) -> Unit:
    """Redact the header of a table cell by cell."""
    if hiding.off or unit.broken:
        return unit
    cells = {name: hiding.text(cell) for name, cell in unit.value.items()}
    said = unit.spelled.decode()
    return unit if cells == unit.value else spell_row(cells, facts, like=said)
