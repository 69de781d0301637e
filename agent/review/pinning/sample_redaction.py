"""Redact rows of a pinned sample, keeping the structure: same keys, same types.

`ingot.agent.privacy` is for what people and models read; a pinned row has to read as the row it
was. A number stays a number, JSON in a text stays JSON, and different secrets stay different, so
that rows that are grouped by one still fall into the same groups. What has nothing to redact keeps
its spelling.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NewType

from ingot.agent.privacy import Door, redact
from ingot.agent.privacy.door import Replacer
from ingot.agent.privacy.redaction import inner_name, name_placeholder, outer_name, spell_value
from ingot.agent.privacy.secrets import is_secret_name
from ingot.converters.rows import Json
from ingot.converters.sources.facts import FileFacts, SourceFile, SourceSpec
from ingot.converters.sources.formats.delimited import (
    MAX_LINES,
    Dialect,
    Line,
    OpenRecord,
    TableReader,
    split_line,
)
from ingot.converters.sources.formats.json_rows import (
    Element,
    read_concatenated_values,
    read_elements,
)
from ingot.converters.sources.formats.row_chunks import (
    BrokenRow,
    JsonTextError,
    parse_json,
    row_excerpt,
)
from ingot.converters.sources.formats.text import read_line_blocks
from ingot.converters.sources.readers import file_root

_MOST_GAP = 2
UNREAD = object()


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """One row: its spelling in UTF-8 without line end, and its value.

    The value is `BrokenRow` if it cannot be read, `UNREAD` before `parse_unit`. `key` is its key in
    an object; `gap` counts blank lines before it, which part paragraphs if the file is read as one
    text.
    """

    spelled: bytes
    value: Json
    key: str | None = None
    gap: int = 0

    @property
    def broken(self) -> bool:
        """Whether the row cannot be read."""
        return type(self.value) is BrokenRow


SafeUnit = NewType("SafeUnit", Unit)
SafeBytes = NewType("SafeBytes", bytes)


def read_units(file: SourceFile, spec: SourceSpec, parts: Iterator[bytes]) -> Iterator[Unit]:
    """Yield the rows of a file of a text format, unread; the header of a table is the first.

    JSON whose rows are not elements of one list or object of the file gives nothing. Lines that are
    too long for a row are `BrokenRow` and empty.
    """
    if file.facts.format == "csv":
        return _record_units(file.facts, _all_lines(parts))
    if file.facts.format == "json":
        return _element_units(file, spec, parts)
    return _line_units(_all_lines(parts))


def parse_unit(unit: Unit, facts: FileFacts) -> Unit:
    """Read a unit's value as it is before `json_fields`."""
    if unit.value is not UNREAD:
        return unit
    reader = {"csv": _read_record, "text": _read_text}.get(facts.format, _read_json)
    return replace(unit, value=reader(unit.spelled, facts))


def _line_units(lines: Iterator[bytes | None]) -> Iterator[Unit]:
    gap = 0
    for line in lines:
        if line is None or line.strip():
            yield _too_long_unit() if line is None else Unit(spelled=line, value=UNREAD, gap=gap)
            gap = 0
        else:
            gap = min(gap + 1, _MOST_GAP)


def _all_lines(parts: Iterator[bytes]) -> Iterator[bytes | None]:
    for block in read_line_blocks(parts):
        yield from [block] if block is None else block.split(b"\n")


def _too_long_unit() -> Unit:
    return Unit(spelled=b"", value=BrokenRow("line too long", ""))


def read_json(data: bytes) -> Json:
    """Return the value of a JSON text, `BrokenRow` if it is not valid."""
    try:
        return parse_json(data)
    except JsonTextError as error:
        return BrokenRow(str(error), row_excerpt(data))


def _read_json(data: bytes, facts: FileFacts) -> Json:
    return read_json(data)


def _read_text(data: bytes, facts: FileFacts) -> Json:
    try:
        return {"text": data.removesuffix(b"\r").decode()}
    except UnicodeDecodeError as error:
        return BrokenRow(str(error.start), row_excerpt(data))


def _read_record(data: bytes, facts: FileFacts) -> Json:
    dialect = Dialect(delimiter=facts.delimiter, quote=facts.quote)
    table = TableReader(facts.columns, dialect, facts.fewest)
    try:
        lines = [Line(line) for line in data.decode().split("\n")]
    except UnicodeDecodeError:
        return BrokenRow("not text", row_excerpt(data))
    rows = [*table.rows(lines), *table.finish()]
    return rows[0] if len(rows) == 1 else BrokenRow("", row_excerpt(data))


def _element_units(file: SourceFile, spec: SourceSpec, parts: Iterator[bytes]) -> Iterator[Unit]:
    where = str(file.place)
    if file.facts.layout == "values" and spec.root in (None, "[*]"):
        groups = read_concatenated_values(parts, where)
    else:
        root = file_root(file, spec)
        if not root.streams or root.rest is not None:
            return
        groups = read_elements(parts, root, where)
    for group in groups:
        yield from map(_element_unit, group)


def whole_file_unit(parts: Iterator[bytes], most_bytes: int) -> Unit:
    """Return a text file as one row; without its spelling if it is larger than `most_bytes`."""
    data = bytearray()
    for part in parts:
        data += part
        if len(data) > most_bytes:
            return Unit(spelled=b"", value=BrokenRow("too large", ""))
    try:
        return Unit(spelled=bytes(data), value={"text": data.decode()})
    except UnicodeDecodeError:
        return Unit(spelled=bytes(data), value=BrokenRow("not text", row_excerpt(bytes(data))))


def _element_unit(one: Element) -> Unit:
    if one.fault is not None:
        return Unit(spelled=b"", value=one.fault)
    return Unit(spelled=one.data.strip(b" \t\r\n"), value=UNREAD, key=one.key)


def _record_units(facts: FileFacts, lines: Iterator[bytes | None]) -> Iterator[Unit]:
    """Yield the records of a table, the header too, cut where the reader cuts them."""
    ahead: list[bytes | None] = []
    quote = facts.quote.encode()
    while True:
        line = ahead.pop(0) if ahead else next(lines, b"\n")
        if line == b"\n":  # a line never holds its end: the file is at its end
            return
        if line is None:
            yield _too_long_unit()
        elif line.strip():
            plain = not quote or quote not in line
            taken = 1 if plain else _record_length(facts, line, ahead, lines)
            record = [line, *(ahead.pop(0) or b"" for _ in range(taken - 1))]
            yield Unit(spelled=b"\n".join(record), value=UNREAD)


def _record_length(
    facts: FileFacts, line: bytes, ahead: list[bytes | None], lines: Iterator[bytes | None]
) -> int:
    """Count the lines of the record that begins with `line`; 1 for a quote that does not end."""
    dialect = Dialect(delimiter=facts.delimiter, quote=facts.quote)
    cells = split_line(_line_text(line), dialect)
    taken = 1
    while isinstance(cells, OpenRecord):
        if taken > len(ahead):
            more = next(lines, b"\n")
            if more == b"\n":
                return 1
            ahead.append(more)
        another = ahead[taken - 1]
        if another is None or taken >= MAX_LINES:
            return 1
        cells = split_line(_line_text(another), dialect, cells)
        taken += 1
    return taken if taken == 1 or _fits(facts, cells) else 1


def _line_text(line: bytes) -> str:
    return line.decode("utf-8", "replace").removesuffix("\r")


def _fits(facts: FileFacts, cells: list[str]) -> bool:
    width = len(facts.columns)
    return len(cells) >= min(facts.fewest, width) and not any(cells[width:])


_PLACEHOLDER = re.compile(r"\[[a-z ]{2,14}\]")
_ROLES = frozenset(
    ("user", "assistant", "system", "tool", "human", "gpt", "bot", "model", "function", "developer")
)


class NotRedactableError(ValueError):
    """A redacted row would have another structure."""


class SampleRedactor:
    """Redacts the values of one pinned sample."""

    def __init__(self, share: str, keep: Collection[str] = (), rows: Iterable[Json] = ()) -> None:
        self.off = share == "raw"
        self._keep = _ROLES.union(keep)
        self._door = Door(share, rows)
        secrets = {k: v for k, v in self._door.secrets.items() if k not in self._keep}
        self._known = Replacer(secrets, self._door.stand_in)

    def value(self, value: Json, name: str = "") -> Json:
        """Redact a value."""
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
            kept = text in self._keep and redact(text) == text
            return text if kept else self._door.stand_in(kind, text)
        if text.lstrip()[:1] in ("{", "["):
            try:
                return self._json(text, parse_json(text.encode()), name)
            except (JsonTextError, UnicodeEncodeError):
                pass
        known = self._known.text(text)
        found = redact(known)
        if found != known and _PLACEHOLDER.fullmatch(found):
            return self._door.stand_in(found, text)
        return found

    def spelled(self, text: str) -> str:
        """Redact a text that cannot be parsed as a whole."""
        return text if self.off else redact(self._known.text(text))

    def finds(self, text: str) -> bool:
        """Check whether there is anything to redact in a text as it is spelled."""
        return self.spelled(text) != text

    def _json(self, text: str, inner: Json, name: str) -> str:
        hidden = self.value(inner, name)
        if hidden == inner and not self.finds(text):
            return text
        return json.dumps(hidden, ensure_ascii=text.isascii())

    def _number(self, number: Json, name: str) -> Json:
        text = spell_value(number)
        if not name_placeholder(text, name) and self.spelled(text) == text:
            return number
        return type(number)(self._door.count("number", text))


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
_KEY_LINE = re.compile(r"[A-Za-z0-9+/]{40,}={0,2}|[A-Za-z0-9+/]{16,}={1,2}")


def redact_unit(unit: Unit, facts: FileFacts, hiding: SampleRedactor) -> SafeUnit:
    """Redact a unit; it stays as it was if there is nothing to redact."""
    if hiding.off:
        return SafeUnit(unit)
    if unit.broken:
        return SafeUnit(_redact_broken(unit, facts, hiding))
    value = _redact_value(unit.value, facts, hiding)
    key = None if unit.key is None else hiding.text(unit.key)
    said = unit.spelled.decode()
    # The spelling may hide what the value lacks: a key that stands twice, an escape.
    hides = facts.format in ("json", "jsonl") and hiding.finds(said)
    if value == unit.value and key == unit.key and not hides:
        return SafeUnit(unit)
    return SafeUnit(replace(spell_row(value, facts, like=said, key=key), gap=unit.gap))


def _redact_value(value: Json, facts: FileFacts, hiding: SampleRedactor) -> Json:
    if facts.format == "csv":  # the names of columns stand in the header
        return {name: hiding.text(_without_key(cell), name) for name, cell in value.items()}
    if facts.format == "text":
        return {"text": hiding.text(_without_key(value["text"]))}
    return hiding.value(value)


def _without_key(text: str) -> str:
    return "[private key]" if _KEY_LINE.fullmatch(text.strip()) else text


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
        quote, delimiter = facts.quote, facts.delimiter
        every = bool(quote) and like.startswith(quote) and like.count(quote) >= 2 * len(value)
        text = delimiter.join(_cell_text(cell, quote, delimiter, every) for cell in value.values())
    elif facts.format == "text":
        text = value["text"]
    else:
        text = json.dumps(value, ensure_ascii=bool(like) and like.isascii())
    unit = parse_unit(Unit(spelled=(text + end).encode(), value=UNREAD, key=key), facts)
    if unit.value != value:
        raise NotRedactableError
    return unit


def _cell_text(text: str, quote: str, delimiter: str, every: bool) -> str:
    needs = any(mark in text for mark in (quote, delimiter, "\n", "\r") if mark)
    if not quote or not (needs or every):
        return text
    return f"{quote}{text.replace(quote, quote * 2)}{quote}"


def redact_header(unit: Unit, facts: FileFacts, hiding: SampleRedactor) -> SafeUnit:
    """Redact the header of a table cell by cell."""
    if hiding.off or unit.broken:
        return SafeUnit(unit)
    cells = {name: hiding.text(cell) for name, cell in unit.value.items()}
    said = unit.spelled.decode()
    return SafeUnit(unit if cells == unit.value else spell_row(cells, facts, like=said))
