"""Rows redacted and spelt anew; what has nothing to redact keeps its spelling."""

import json
import re
from dataclasses import replace

from ingot.agent.pinning.hiding import Hiding, NotRedactableError
from ingot.agent.pinning.units import UNREAD, Unit, read
from ingot.agent.redaction.assignments import is_secret_name
from ingot.converters.readers.facts import FileFacts
from ingot.converters.rows import Json

# A line of a private key tells nothing by itself, and its lines may be rows of their own.
_KEY_LINE = re.compile(r"[A-Za-z0-9+/]{40,}={0,2}")


def hidden(unit: Unit, facts: FileFacts, hiding: Hiding) -> Unit:
    """The unit redacted; as it was where there is nothing to redact.

    Raises:
        NotRedactableError: redacted it would be read as something else.
    """
    if hiding.off:
        return unit
    if unit.broken:
        return _hidden_broken(unit, facts, hiding)
    value = _hidden_value(unit.value, facts, hiding)
    key = None if unit.key is None else hiding.text(unit.key)
    said = unit.spelled.decode()
    if value == unit.value and key == unit.key and not _only_spelled(said, facts, hiding):
        return unit
    return replace(spelled(value, facts, like=said, key=key), gap=unit.gap)


def _hidden_value(value: Json, facts: FileFacts, hiding: Hiding) -> Json:
    if facts.format == "csv":  # the names of columns stand in the header
        return {name: hiding.text(_keyless(cell), name) for name, cell in value.items()}
    if facts.format == "text":
        return {"text": hiding.text(_keyless(value["text"]))}
    return hiding.value(value)


def _keyless(text: str) -> str:
    return "[private key]" if _KEY_LINE.fullmatch(text.strip()) else text


def _only_spelled(said: str, facts: FileFacts, hiding: Hiding) -> bool:
    """Whether the spelling may hide what the value lacks: a key that stands twice, an escape."""
    return facts.format in ("json", "jsonl") and hiding.finds(said)


def _hidden_broken(unit: Unit, facts: FileFacts, hiding: Hiding) -> Unit:
    """A row that cannot be read, redacted as text; it stays one that cannot be read."""
    said = unit.spelled.decode("utf-8", "replace")
    if facts.format == "csv" and any(map(is_secret_name, facts.columns)):
        raise NotRedactableError  # which cell is the secret one is not known
    shown = hiding.spelled(_keyless(said))
    if shown == said:
        return unit
    again = read(replace(unit, spelled=shown.encode(), value=UNREAD), facts)
    if not again.broken:
        raise NotRedactableError
    return again


def spelled(value: Json, facts: FileFacts, *, like: str = "", key: str | None = None) -> Unit:
    """A row spelt anew, in the manner of another spelling.

    Raises:
        NotRedactableError: this dialect cannot spell it so that the same value is read.
    """
    end = "\r" if like.endswith("\r") else ""
    if facts.format == "csv":
        text = _table_text(value, facts, like)
    elif facts.format == "text":
        text = value["text"]
    else:
        text = json.dumps(value, ensure_ascii=bool(like) and like.isascii())
    unit = read(Unit(spelled=(text + end).encode(), value=UNREAD, key=key), facts)
    if unit.value != value:
        raise NotRedactableError
    return unit


def _table_text(row: dict[str, str], facts: FileFacts, like: str) -> str:
    quote, delimiter = facts.quote, facts.delimiter
    every = bool(quote) and like.startswith(quote) and like.count(quote) >= 2 * len(row)
    return delimiter.join(_cell(cell, quote, delimiter, every) for cell in row.values())


def _cell(text: str, quote: str, delimiter: str, every: bool) -> str:
    needs = any(mark in text for mark in (quote, delimiter, "\n", "\r") if mark)
    if not quote or not (needs or every):
        return text
    return f"{quote}{text.replace(quote, quote * 2)}{quote}"


def hidden_header(unit: Unit, facts: FileFacts, hiding: Hiding) -> Unit:
    """The header of a table, redacted cell by cell.

    Raises:
        NotRedactableError: it cannot be spelt in this dialect.
    """
    if hiding.off or unit.broken:
        return unit
    cells = {name: hiding.text(cell) for name, cell in unit.value.items()}
    said = unit.spelled.decode()
    return unit if cells == unit.value else spelled(cells, facts, like=said)
