"""Redact the rows of a pinned sample, keeping the structure: same keys, same types.

`ingot.agent.privacy` is for what people and models read; a pinned row has to read as the row it
was. A number stays a number, JSON in a text stays JSON, and different secrets stay different, so
that rows that are grouped by one still fall into the same groups.
"""

import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import NewType

from ingot.agent.privacy import Redactor, redact
from ingot.agent.privacy.redaction import inner_name, name_placeholder, outer_name, spell_value
from ingot.agent.privacy.redactor import Replacer
from ingot.converters.mapping.language import Condition, Mapping, RoleFromData, Value
from ingot.converters.mapping.walk import walk
from ingot.converters.rows import Json
from ingot.converters.sources.formats.row_chunks import JsonTextError, parse_json

_PLACEHOLDER = re.compile(r"\[[a-z ]{2,14}\]")
_ROLES = frozenset(
    ("user", "assistant", "system", "tool", "human", "gpt", "bot", "model", "function", "developer")
)
# A line of a private key tells nothing by itself, and its lines may be rows of their own.
_KEY_LINE = re.compile(r"[A-Za-z0-9+/]{40,}={0,2}|[A-Za-z0-9+/]{16,}={1,2}")


@dataclass(frozen=True, kw_only=True, slots=True)
class PinnableRow:
    """A row as it was before `json_fields`, and its key in an object of rows, if it has one."""

    key: str | None
    value: Json


SafeRow = NewType("SafeRow", PinnableRow)
SafeBytes = NewType("SafeBytes", bytes)


class NotRedactableError(ValueError):
    """A redacted row would have another structure."""


class SampleRedactor:
    """Redacts the values of one pinned sample."""

    def __init__(self, share: str, keep: Collection[str] = (), rows: Iterable[Json] = ()) -> None:
        self.off = share == "raw"
        self._keep = _ROLES.union(keep)
        self._redactor = Redactor(share, rows)
        secrets = {k: v for k, v in self._redactor.secrets.items() if k not in self._keep}
        self._known = Replacer(secrets, self._redactor.stand_in)

    def value(self, value: Json, name: str = "") -> Json:
        """Redact a value. Raises NotRedactableError."""
        if self.off:
            return value
        if isinstance(value, dict):
            outer = outer_name(value, name)
            hidden = {
                self.text(k): self.value(one, inner_name(k, outer)) for k, one in value.items()
            }
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
        if kind := name_placeholder(text, name):
            is_kept = text in self._keep and redact(text) == text
            return text if is_kept else self._redactor.stand_in(kind, text)
        if text.lstrip()[:1] in ("{", "["):
            try:
                return self._json(text, parse_json(text.encode()), name)
            except (JsonTextError, UnicodeEncodeError):
                pass
        known = self._known.text(text)
        redacted = redact(known)
        if redacted != known and _PLACEHOLDER.fullmatch(redacted):
            return self._redactor.stand_in(redacted, text)
        return redacted

    def _spelled(self, text: str) -> str:
        """Redact a text as it is spelled, whatever it holds."""
        return redact(self._known.text(text))

    def _json(self, text: str, inner: Json, name: str) -> str:
        hidden = self.value(inner, name)
        if hidden == inner and self._spelled(text) == text:
            return text
        return json.dumps(hidden, ensure_ascii=text.isascii())

    def _number(self, number: Json, name: str) -> Json:
        text = spell_value(number)
        if not name_placeholder(text, name) and self._spelled(text) == text:
            return number
        return type(number)(self._redactor.count("number", text))


def redact_row(row: PinnableRow, hiding: SampleRedactor, *, line: bool) -> SafeRow:
    """Redact a row; a `line` is of a text or a table, and may be one of a private key.

    Raises NotRedactableError.
    """
    if hiding.off:
        return SafeRow(row)
    cells = {k: _hide_key_line(v) for k, v in row.value.items()} if line else row.value
    key = None if row.key is None else hiding.text(row.key)
    return SafeRow(PinnableRow(key=key, value=hiding.value(cells)))


def _hide_key_line(cell: Json) -> Json:
    hidden = isinstance(cell, str) and _KEY_LINE.fullmatch(cell.strip())
    return "[private key]" if hidden else cell


def named_values(mapping: Mapping) -> frozenset[str]:
    """Return the texts of data that a mapping names: keys of `map`, values of `in` and `not_in`."""
    maps = [value.map or {} for value in walk(mapping, Value)]
    roles = [role.map or {} for role in walk(mapping, RoleFromData)]
    among = [condition.values for condition in walk(mapping, Condition)]
    return frozenset(one for one in chain(*maps, *roles, *among) if isinstance(one, str))
