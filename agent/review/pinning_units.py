"""The rows of text formats as they are spelt in the file: found, redacted, spelt anew.

A `Unit` is one row: its spelling in UTF-8 without line end, and its value (`Broken` where it cannot
be read). What had nothing to redact keeps its spelling.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ingot.agent.redaction.assignments import is_secret_name
from ingot.agent.review.hiding import Hiding, NotRedactableError
from ingot.converters.readers.delimited import Table
from ingot.converters.readers.elements import Element, elements, values_in_a_row
from ingot.converters.readers.facts import FileFacts, SourceFile
from ingot.converters.readers.files import json_root
from ingot.converters.readers.jsonvalue import JsonTextError, loads
from ingot.converters.readers.lines import line_blocks
from ingot.converters.readers.quoting import MAX_LINES, Dialect, Line, OpenRecord, split_line
from ingot.converters.readers.spec import SourceSpec
from ingot.converters.readers.stretch import Broken, found
from ingot.converters.rows import Json

# A line of a private key tells nothing by itself, and its lines may be rows of their own.
_KEY_LINE = re.compile(r"[A-Za-z0-9+/]{40,}={0,2}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """One row: its spelling (UTF-8, no line end), value, and key where it stands in an object."""

    spelled: bytes
    value: Json
    key: str | None = None

    @property
    def broken(self) -> bool:
        """Whether the row cannot be read."""
        return type(self.value) is Broken


# --- found in the file


def units(file: SourceFile, spec: SourceSpec, parts: Iterator[bytes]) -> Iterator[Unit]:
    """The rows of a file of a text format in order; the header of a table is the first.

    Values are those before `json_fields`. JSON whose rows are not elements of one list or object of
    the file gives nothing. Lines that are too long for a row are `Broken` and empty.

    Raises:
        SourceError: the file cannot be read on.
    """
    if file.facts.format == "csv":
        return _records(file.facts, _all_lines(parts))
    if file.facts.format == "json":
        return _elements(file, spec, parts)
    read = json_line if file.facts.format == "jsonl" else _text_line
    return map(read, (line for line in _all_lines(parts) if line is None or line.strip()))


def _all_lines(parts: Iterator[bytes]) -> Iterator[bytes | None]:
    for lines in line_blocks(parts):
        yield from lines


def json_line(data: bytes | None) -> Unit:
    """A line, or the text of an element, that is a JSON value."""
    if data is None:
        return Unit(spelled=b"", value=Broken("line too long", ""))
    try:
        return Unit(spelled=data, value=loads(data))
    except JsonTextError as error:
        return Unit(spelled=data, value=Broken(str(error), found(data)))


def _text_line(data: bytes | None) -> Unit:
    if data is None:
        return Unit(spelled=b"", value=Broken("line too long", ""))
    try:
        return Unit(spelled=data, value={"text": data.removesuffix(b"\r").decode()})
    except UnicodeDecodeError as error:
        return Unit(spelled=data, value=Broken(str(error.start), found(data)))


def _elements(file: SourceFile, spec: SourceSpec, parts: Iterator[bytes]) -> Iterator[Unit]:
    where = str(file.place)
    if file.facts.layout == "values" and spec.root in (None, "[*]"):
        groups = values_in_a_row(parts, where)
    else:
        root = json_root(file, spec)
        if not root.streams or root.rest is not None:
            return
        groups = elements(parts, root, where)
    for group in groups:
        yield from map(_element, group)


def whole_text(parts: Iterator[bytes], most_bytes: int) -> Unit:
    """A text file that is one row; without its spelling where it is larger than `most_bytes`."""
    data = bytearray()
    for part in parts:
        data += part
        if len(data) > most_bytes:
            return Unit(spelled=b"", value=Broken("too large", ""))
    try:
        return Unit(spelled=bytes(data), value={"text": data.decode()})
    except UnicodeDecodeError:
        return Unit(spelled=bytes(data), value=Broken("not text", found(bytes(data))))


def _element(one: Element) -> Unit:
    if one.fault is not None:
        return Unit(spelled=b"", value=one.fault)
    return replace(json_line(one.data.strip(b" \t\r\n")), key=one.key)


def _records(facts: FileFacts, lines: Iterator[bytes | None]) -> Iterator[Unit]:
    """The records of a table, the header too, cut where the reader cuts them."""
    ahead: list[bytes | None] = []
    while True:
        line = ahead.pop(0) if ahead else next(lines, b"\n")
        if line == b"\n":  # a line never holds its end: the file is at its end
            return
        if line is None or line.strip():
            taken = 1 if line is None else _record_length(facts, line, ahead, lines)
            record = [line, *(ahead.pop(0) for _ in range(taken - 1))]
            yield table_unit(facts, record)


def _record_length(
    facts: FileFacts, line: bytes, ahead: list[bytes | None], lines: Iterator[bytes | None]
) -> int:
    """How many lines the record that begins with `line` has; 1 for a quote that does not end."""
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
    surplus = cells[width:]
    return len(cells) >= min(facts.fewest, width) and not any(surplus)


def table_unit(facts: FileFacts, record: Sequence[bytes | None]) -> Unit:
    """One record of a table, of one or several lines, read as the reader reads it."""
    if None in record:
        return Unit(spelled=b"", value=Broken("line too long", ""))
    spelled = b"\n".join(line for line in record if line is not None)
    dialect = Dialect(delimiter=facts.delimiter, quote=facts.quote)
    table = Table(facts.columns, dialect, facts.fewest)
    try:
        lines = [Line(line) for line in spelled.decode().split("\n")]
    except UnicodeDecodeError:
        text = spelled.decode("utf-8", "replace")
        return Unit(spelled=spelled, value=Broken("not text", found(text)))
    rows = [*table.rows(lines), *table.finish()]
    return Unit(spelled=spelled, value=rows[0] if len(rows) == 1 else Broken("", found(spelled)))


# --- redacted and spelt


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
    return spelled(value, facts, like=said, key=key)


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
    again = read_again(shown.encode(), facts)
    if not again.broken:
        raise NotRedactableError
    return again


def read_again(data: bytes, facts: FileFacts) -> Unit:
    """A row from its spelling."""
    if facts.format == "csv":
        return table_unit(facts, data.split(b"\n"))
    return _text_line(data) if facts.format == "text" else json_line(data)


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
    unit = replace(read_again((text + end).encode(), facts), key=key)
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
