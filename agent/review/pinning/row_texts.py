"""The rows of text formats as they are spelt in the file, one after the other."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

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
from ingot.converters.sources.formats.text import split_line_blocks
from ingot.converters.sources.readers import file_root

_MOST_GAP = 2
UNREAD = object()


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """One row.

    Attributes:
        spelled: its spelling in UTF-8 without line end.
        value: what is read, `Broken` where it cannot be, `UNREAD` before `read` has read it.
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
        return type(self.value) is BrokenRow


def read_units(file: SourceFile, spec: SourceSpec, parts: Iterator[bytes]) -> Iterator[Unit]:
    """The rows of a file of a text format in order, unread; the header of a table is the first.

    JSON whose rows are not elements of one list or object of
    the file gives nothing. Lines that are too long for a row are `Broken` and empty.
    """
    if file.facts.format == "csv":
        return _record_units(file.facts, _all_lines(parts))
    if file.facts.format == "json":
        return _element_units(file, spec, parts)
    return _line_units(_all_lines(parts))


def parse_unit(unit: Unit, facts: FileFacts) -> Unit:
    """The unit with its value as it is before `json_fields`."""
    if unit.value is not UNREAD:
        return unit
    by_format = {"csv": _read_record, "text": _read_text}
    reader = by_format.get(facts.format, _read_json)
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
    for lines in split_line_blocks(parts):
        yield from lines


def _too_long_unit() -> Unit:
    return Unit(spelled=b"", value=BrokenRow("line too long", ""))


def read_json(data: bytes) -> Json:
    """The value of a JSON text, `Broken` where it is none."""
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
    """One record of a table, of one or several lines, as the reader reads it."""
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
    """A text file that is one row; without its spelling where it is larger than `most_bytes`."""
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
    """The records of a table, the header too, cut where the reader cuts them."""
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
