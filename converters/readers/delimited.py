"""Rows of CSV, TSV and files with any other delimiter, of one or several characters, quoted or not.

Quoting is that of RFC 4180: a field that begins with the quote ends at the next single one, a doubled
quote stands for itself, and a quoted field may hold line breaks. Quotes inside a field that does not begin
with one are text. Every cell is text; an empty cell is `""`.

A quote that is never closed would swallow the rest of the file: a record of too many lines, or of several
lines and a wrong number of fields, is taken back to its first line, which becomes a bad row, and reading
goes on with its second.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ingot.converters.readers.lines import line_blocks
from ingot.converters.readers.stretch import MAX_ROW_BYTES, Broken, Stretch, found
from ingot.converters.rows import Json

MAX_LINES = 2_000  # physical lines of one record


@dataclass(frozen=True, kw_only=True, slots=True)
class Dialect:
    """How cells stand in a line: the delimiter (one or more characters) and the quote (`""` = none)."""

    delimiter: str
    quote: str = '"'


@dataclass(slots=True)
class _Open:
    """A record whose last field is a quoted one that has not ended."""

    cells: list[str]
    field: list[str]


def split_line(line: str, dialect: Dialect, started: _Open | None = None) -> list[str] | _Open:
    """The cells of one line, or an open record where a quoted field goes on in the next line."""
    quote, delimiter = dialect.quote, dialect.delimiter
    cells = started.cells if started else []
    if started:
        started.field.append("\n")
        place = _quoted(line, 0, quote, started.field)
        if place < 0:
            return started
        place = _after_quote(line, place, delimiter, started.field, cells)
    else:
        place = 0
    while place >= 0:
        if quote and line.startswith(quote, place):
            field: list[str] = []
            place = _quoted(line, place + 1, quote, field)
            if place < 0:
                return _Open(cells, field)
            place = _after_quote(line, place, delimiter, field, cells)
        else:
            end = line.find(delimiter, place)
            cells.append(line[place:] if end < 0 else line[place:end])
            place = -1 if end < 0 else end + len(delimiter)
    return cells


def _quoted(line: str, place: int, quote: str, field: list[str]) -> int:
    """Take the text of a quoted field from `place`; gives the place behind its end, or -1."""
    while (end := line.find(quote, place)) >= 0:
        if not line.startswith(quote, end + 1):
            field.append(line[place:end])
            return end + 1
        field.append(line[place : end + 1])
        place = end + 2
    field.append(line[place:])
    return -1


def _after_quote(line: str, place: int, delimiter: str, field: list[str], cells: list[str]) -> int:
    """Close a quoted field (text behind its quote belongs to it); gives the next field's place or -1."""
    end = line.find(delimiter, place)
    field.append(line[place:] if end < 0 else line[place:end])
    cells.append("".join(field))
    return -1 if end < 0 else end + len(delimiter)


@dataclass(frozen=True, slots=True)
class _Line:
    """A physical line: text, or None where it is too long; `clean` is False where bytes are not text."""

    text: str | None
    clean: bool = True


def _lines(parts: Iterator[bytes]) -> Iterator[list[str] | list[_Line]]:
    """Blocks of lines: plain text where all is well, else line by line."""
    for lines in line_blocks(parts):
        try:
            yield b"\n".join(lines).decode().split("\n")  # type: ignore[arg-type] # None: TypeError
        except (UnicodeDecodeError, TypeError):
            yield [_line(line) for line in lines]


def _line(data: bytes | None) -> _Line:
    if data is None:
        return _Line(None)
    try:
        return _Line(data.decode())
    except UnicodeDecodeError:
        return _Line(data.decode("utf-8", "replace"), clean=False)


class Table:
    """Turns lines into rows. `names` are the columns, `fewest` the least cells a row may have.

    A row that lacks only cells at the end, down to `fewest`, is filled with empty ones; surplus cells that
    are empty are dropped; any other row with a wrong number of cells is broken.
    """

    def __init__(self, names: Sequence[str], dialect: Dialect, fewest: int) -> None:
        self._names = list(names)
        self._width = len(names)
        self._dialect = dialect
        self._fewest = fewest
        self._open: _Open | None = None
        self._raw: list[_Line] = []  # lines of the open record

    def rows(self, lines: list[str] | list[_Line]) -> list[Json]:
        """The rows that end in these lines."""
        out: list[Json] = []
        pending: list[str | _Line] = list(reversed(lines))
        while pending:
            line = pending.pop()
            if isinstance(line, str) and self._open is None:
                if line and not line.isspace():
                    self._first(line, out)
            else:
                self._slow(line if isinstance(line, _Line) else _Line(line), out, pending)
        return out

    def _first(self, line: str, out: list[Json]) -> None:
        """A line at which no record is open."""
        text = line.removesuffix("\r")
        if not self._dialect.quote or self._dialect.quote not in text:
            out.append(self._row(text.split(self._dialect.delimiter), text))
            return
        cells = split_line(text, self._dialect)
        if isinstance(cells, list):
            out.append(self._row(cells, text))
        else:
            self._begin(_Line(line), cells)

    def _begin(self, line: _Line, cells: _Open) -> None:
        if line.text is not None and line.text.endswith("\r"):
            cells.field.append("\r")
        self._open, self._raw = cells, [line]

    def _slow(self, line: _Line, out: list[Json], pending: list[str | _Line]) -> None:
        if self._open is None:
            self._alone(line, out)
            return
        self._raw.append(line)
        if line.text is None or len(self._raw) > MAX_LINES:
            self._give_back(out, pending)
            return
        cells = split_line(line.text, self._dialect, self._open)
        if not isinstance(cells, list):
            return
        cells[-1] = cells[-1].removesuffix("\r")
        row = self._row(cells, self._raw[0].text or "")
        if type(row) is Broken:
            self._give_back(out, pending)
            return
        clean = all(raw.clean for raw in self._raw)
        out.append(row if clean else _not_text(self._raw[0]))
        self._open, self._raw = None, []

    def _alone(self, line: _Line, out: list[Json]) -> None:
        """A line that is too long or holds bytes that are no text, or is clean in a block that is not."""
        if line.text is None:
            out.append(Broken(f"line of more than {MAX_ROW_BYTES >> 20} MiB", ""))
        elif line.clean:
            if line.text and not line.text.isspace():
                self._first(line.text, out)
        else:
            cells = split_line(line.text.removesuffix("\r"), self._dialect)
            if isinstance(cells, list):
                out.append(_not_text(line))
            else:
                self._begin(line, cells)

    def _give_back(self, out: list[Json], pending: list[str | _Line]) -> None:
        """Drop the first line of the open record as a bad row and read the others again."""
        first, *others = self._raw
        out.append(Broken("a quoted field does not end", found(first.text or "")))
        pending.extend(reversed(others))
        self._open, self._raw = None, []

    def finish(self) -> list[Json]:
        """The rows of what is still open at the end of the file."""
        out: list[Json] = []
        while self._open is not None:
            pending: list[str | _Line] = []
            self._give_back(out, pending)
            out += self.rows(list(reversed(pending)))  # type: ignore[arg-type]
        return out

    def _row(self, cells: list[str], text: str) -> Json:
        if len(cells) == self._width:
            return dict(zip(self._names, cells, strict=True))
        while len(cells) > self._width and not cells[-1]:
            cells.pop()
        if self._fewest <= len(cells) <= self._width:
            missing = [""] * (self._width - len(cells))
            return dict(zip(self._names, [*cells, *missing], strict=True))
        return Broken(f"{len(cells)} fields instead of {self._width}", found(text))


def _not_text(line: _Line) -> Broken:
    return Broken("bytes that are no text in the file's encoding", found(line.text or ""))


def delimited_rows(
    parts: Iterator[bytes], names: Sequence[str], dialect: Dialect, header: bool, fewest: int
) -> Iterator[Stretch]:
    """The rows of a delimited file as objects from column name to text.

    Args:
        parts: the file in UTF-8.
        names: the columns.
        dialect: how cells stand in a line.
        header: whether the first record holds the names and is no row.
        fewest: the least number of cells of a row whose last ones are missing.
    """
    table = Table(names, dialect, fewest)
    skip = header
    for lines in _lines(parts):
        rows = table.rows(lines)
        if skip and rows:
            rows, skip = rows[1:], False
        yield Stretch(values=rows)
    rows = table.finish()
    yield Stretch(values=rows[1:] if skip else rows)


def column_names(cells: Sequence[str]) -> tuple[str, ...]:
    """Names of columns from a header: nameless ones become `c0`, `c1`, ..., repeated ones `a.1`, `a.2`."""
    names: list[str] = []
    for place, cell in enumerate(cells):
        name = plain = cell if cell.strip() else f"c{place}"
        number = 0
        while name in names:
            number += 1
            name = f"{plain}.{number}"
        names.append(name)
    return tuple(names)
