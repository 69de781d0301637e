"""The rows of text formats as they are spelt in the file, one after the other."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

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

_MOST_GAP = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """One row.

    Attributes:
        spelled: its spelling in UTF-8 without line end.
        value: what is read, `Broken` where it cannot be.
        key: where it stands in an object.
        gap: blank lines before it; they part paragraphs where the file is read as one text.
    """

    spelled: bytes
    value: Json
    key: str | None = None
    gap: int = 0

    @property
    def broken(self) -> bool:
        """Whether the row cannot be read."""
        return type(self.value) is Broken


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
    read = json_line if file.facts.format == "jsonl" else text_line
    return _lines(_all_lines(parts), read)


def _lines(lines: Iterator[bytes | None], read: Callable[[bytes | None], Unit]) -> Iterator[Unit]:
    gap = 0
    for line in lines:
        if line is None or line.strip():
            yield replace(read(line), gap=gap)
            gap = 0
        else:
            gap = min(gap + 1, _MOST_GAP)


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


def text_line(data: bytes | None) -> Unit:
    """A line of a text."""
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
