"""Lines of a delimited file to records, one by one, with quoted fields that go on in the next line.

Quoting is that of RFC 4180: a field that begins with the quote ends at the next single one, a
doubled quote stands for itself, and a quoted field may hold line breaks. Quotes inside a field that
does not begin with one are text; so is what stands behind a closing quote.

A quote that is never closed would swallow the rest of the file: a record of too many lines, or of
several lines and a wrong number of fields, is taken back to its first line, which becomes a bad
row, and reading goes on with its second.

A block in which every record is whole and has all its fields is read by Arrow; any other by the csv
module as far as that goes, and the rest of it line by line.

Rows of CSV, TSV and files with any other delimiter, of one or several characters.
"""

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from ingot.converters.rows import Json
from ingot.converters.sources.formats.arrow import ArrowRows
from ingot.converters.sources.formats.row_chunks import (
    MAX_ROW_BYTES,
    BrokenRow,
    RowChunk,
    row_excerpt,
    slice_chunk,
)
from ingot.converters.sources.formats.text import ZERO_BYTE, read_line_blocks
from ingot.converters.sources.formats.text_columns import TextColumns

MAX_LINES = 2_000  # physical lines of one record


@dataclass(frozen=True, kw_only=True, slots=True)
class Dialect:
    """How cells stand in a line: the delimiter (any length) and the quote (`""` = none)."""

    delimiter: str
    quote: str = '"'


@dataclass(slots=True)
class OpenRecord:
    """A record whose last field is a quoted one that has not ended."""

    cells: list[str]
    field: list[str]


def split_line(
    line: str, dialect: Dialect, started: OpenRecord | None = None
) -> list[str] | OpenRecord:
    """Return the cells of one line, or an open record if a quoted field continues."""
    quote, delimiter = dialect.quote, dialect.delimiter
    if started is None and (not quote or quote not in line):
        return line.split(delimiter)
    quoted, place = _quoted_cell(quote, delimiter), 0
    cells: list[str] = started.cells if started else []
    field = started.field if started else None
    if field is not None:
        field.append("\n")
    while place >= 0:
        if field is None and line.startswith(quote, place):
            field, place = [], place + len(quote)
        if field is None:
            end = line.find(delimiter, place)
            cells.append(line[place:] if end < 0 else line[place:end])
            place = -1 if end < 0 else end + len(delimiter)
            continue
        found = quoted.match(line, place)
        assert found, "it may take nothing"
        text, behind, mark = found.groups()
        field.append(text.replace(quote * 2, quote))
        if behind is None:
            return OpenRecord(cells, field)
        cells.append("".join([*field, behind]))
        field, place = None, found.end() if mark else -1
    return cells


@lru_cache(maxsize=64)
def _quoted_cell(quote: str, delimiter: str) -> re.Pattern[str]:
    """Text behind an opening quote; where that closes, what stands behind it, and a delimiter."""
    mark, end = re.escape(quote), re.escape(delimiter)
    text = rf"([^{mark}]*+(?:{mark}{mark}[^{mark}]*+)*+)"
    return re.compile(rf"{text}(?:{mark}(.*?)({end}|\Z))?", re.DOTALL)


def begins_record(line: str, dialect: Dialect) -> bool:
    """Return whether a line that would end a quoted field begins with a quoted field itself."""
    quote = dialect.quote
    rest = line[len(quote) :]
    closes = not rest or rest[0].isspace() or rest.startswith((quote, dialect.delimiter))
    return line.startswith(quote) and not closes


@dataclass(frozen=True, slots=True)
class Line:
    """A physical line: text, None if it is too long; not `clean` where bytes are not text."""

    text: str | None
    clean: bool = True


class RecordReader:
    """Turns lines into rows; `row` makes a row or `BrokenRow` of cells and their first line."""

    def __init__(self, dialect: Dialect, row: Callable[[list[str], str], Json]) -> None:
        self._dialect = dialect
        self._row = row
        self._open: OpenRecord | None = None
        self._raw: list[Line] = []  # lines of the open record

    @property
    def is_open(self) -> bool:
        """Return whether a record goes on in the next line."""
        return self._open is not None

    def rows(self, lines: list[Line]) -> list[Json]:
        """Return the rows that end in these lines; blank lines outside records are none."""
        out: list[Json] = []
        pending = lines[::-1]
        while pending:
            self._take(pending.pop(), out, pending)
        return out

    def finish(self) -> list[Json]:
        """Return the rows of what is still open at the end of the file."""
        out: list[Json] = []
        while self._open is not None:
            pending: list[Line] = []
            self._give_back(out, pending)
            out += self.rows(pending[::-1])
        return out

    def _take(self, line: Line, out: list[Json], pending: list[Line]) -> None:
        begins = self._open is None
        if begins and line.text is None:
            out.append(BrokenRow(f"line of more than {MAX_ROW_BYTES >> 20} MiB", ""))
            return
        text = (line.text or "").removesuffix("\r")
        if begins and (not text or text.isspace()):
            return
        self._raw.append(line)
        if not begins and (
            line.text is None or len(self._raw) > MAX_LINES or begins_record(text, self._dialect)
        ):
            self._give_back(out, pending)
            return
        cells = split_line(text, self._dialect, self._open)
        if not isinstance(cells, list):
            if text != line.text:
                cells.field.append("\r")
            self._open = cells
            return
        row = self._row(cells, self._raw[0].text or "")
        if type(row) is BrokenRow and not begins:
            self._give_back(out, pending)
            return
        clean = line.clean if begins else all(raw.clean for raw in self._raw)
        out.append(row if clean else _not_text_row(self._raw[0]))
        self._open, self._raw = None, []

    def _give_back(self, out: list[Json], pending: list[Line]) -> None:
        """Drop the first line of the open record as a bad row; the others are read again."""
        first, *others = self._raw
        out.append(BrokenRow("a quoted field does not end", row_excerpt(first.text or "")))
        pending.extend(reversed(others))
        self._open, self._raw = None, []


def _not_text_row(line: Line) -> BrokenRow:
    text = line.text or ""
    problem = ZERO_BYTE if "\0" in text else "bytes that are no text in the file's encoding"
    return BrokenRow(problem, row_excerpt(text))


class TableReader:
    """Turns blocks of lines into rows.

    A row that lacks only cells at the end, down to `fewest`, is filled with empty ones; surplus
    cells that are empty are dropped; any other row with a wrong number of cells is broken.
    """

    def __init__(self, names: Sequence[str], dialect: Dialect, fewest: int) -> None:
        self._names = list(names)
        self._width = len(names)
        self._dialect = dialect
        self._fewest = fewest
        self._records = RecordReader(dialect, self._row)
        self._carry = ""  # beginning of a record that the block before did not end, with line ends
        places = range(self._width)
        self._columns = TextColumns(
            self._width, dialect.delimiter, dialect.quote, places, pa.string()
        )

    def chunk(self, block: bytes | None) -> RowChunk:
        """Return the rows that end in a block of whole lines, without its last LF.

        The block may be `TOO_LONG` instead.
        """
        if block is None:
            return RowChunk(values=self.rows([Line(None)]))
        table = self._table(block)
        if table is not None:
            return RowChunk(values=ArrowRows(table, self._names), table=table, sound=True)
        try:
            text = block.decode()
            if "\0" in text:
                raise ValueError(ZERO_BYTE)
            return RowChunk(values=self.rows(text))
        except ValueError:
            return RowChunk(values=self.rows([_decode_line(line) for line in block.split(b"\n")]))

    def _table(self, block: bytes) -> pa.RecordBatch | None:
        """The rows that end in a block as columns, None if one needs a closer look."""
        if self._records.is_open or b"\0" in block:
            return None
        data = b"".join([self._carry.encode(), block, b"\n"])
        long = len(self._dialect.delimiter) > 1  # with quotes they are read line by line
        end = len(data) if long else _find_end(data, self._dialect.quote.encode())
        arrays = self._columns.parse(data[:end])
        try:
            carry = data[end:].decode()
        except UnicodeDecodeError:
            return None
        if arrays is None:
            return None
        self._carry = carry
        return pa.RecordBatch.from_arrays(arrays, names=self._names)

    def rows(self, block: str | list[Line]) -> list[Json]:
        """Return the rows that end in a block of whole lines (text without its last line end)."""
        if isinstance(block, list):
            return self._records.rows([*self._take_carried_lines(), *block])
        quote = self._dialect.quote
        if self._records.is_open:
            return self._records.rows(_split_lines(block))
        if not self._carry and (not quote or quote not in block):
            return self._split(block)
        if len(self._dialect.delimiter) > 1:
            return self._records.rows(_split_lines(block))
        return self._read(f"{self._carry}{block}\n")

    def finish(self) -> list[Json]:
        """Return the rows of what is still open at the end of the file."""
        return self._records.rows(self._take_carried_lines()) + self._records.finish()

    def _take_carried_lines(self) -> list[Line]:
        lines = _split_lines(self._carry.removesuffix("\n")) if self._carry else []
        self._carry = ""
        return lines

    def _split(self, block: str) -> list[Json]:
        delimiter, width, names = self._dialect.delimiter, self._width, self._names
        out: list[Json] = []
        for line in block.replace("\r\n", "\n").removesuffix("\r").split("\n"):
            cells = line.split(delimiter)
            if len(cells) == width and width > 1 and not line.isspace():
                out.append(dict(zip(names, cells, strict=True)))
            elif line and not line.isspace():
                out.append(self._row(cells, line))
        return out

    def _read(self, text: str) -> list[Json]:
        """Lines with quotes, all read by the csv module as far as it goes."""
        self._carry = ""
        out: list[Json] = []
        done = 0  # lines that are read to their end
        reader = csv.reader(
            io.StringIO(text, newline="\n"),
            delimiter=self._dialect.delimiter,
            quotechar=self._dialect.quote,
            strict=True,
        )
        try:
            for cells in reader:
                row = self._read_row(cells, reader.line_num - done)
                if type(row) is BrokenRow:
                    break
                if row is not None:
                    out.append(row)
                done = reader.line_num
            else:
                return out
        except csv.Error:
            pass
        return out + self._rest(text, done, reader.line_num)

    def _read_row(self, cells: list[str], lines: int) -> Json:
        """A row, None for a blank line, `BrokenRow` for what has to be looked at line by line."""
        if not cells:
            return None
        # White space alone: a blank line, or quoted cells; the cells do not tell which.
        unclear = (
            lines == 1
            and not any(cell and not cell.isspace() for cell in cells)
            and (len(cells) == 1 or self._dialect.delimiter.isspace())
        )
        if len(cells) == self._width and not unclear:
            return dict(zip(self._names, cells, strict=True))
        return BrokenRow("", "")

    def _rest(self, text: str, done: int, reached: int) -> list[Json]:
        """What follows the lines that were read: kept for the next block, or read line by line."""
        lines = text.removesuffix("\n").split("\n")
        rest = lines[done:]
        if reached >= len(lines) and len(rest) <= MAX_LINES and rest:
            self._carry = "".join(f"{line}\n" for line in rest)
            return []
        return self._records.rows([Line(line) for line in rest])

    def _row(self, cells: list[str], text: str) -> Json:
        while len(cells) > self._width and not cells[-1]:
            cells.pop()
        if min(self._fewest, self._width) <= len(cells) <= self._width:
            missing = [""] * (self._width - len(cells))
            return dict(zip(self._names, [*cells, *missing], strict=True))
        return BrokenRow(f"{len(cells)} fields instead of {self._width}", row_excerpt(text))


def _split_lines(block: str) -> list[Line]:
    return [Line(line) for line in block.split("\n")]


def _find_end(data: bytes, quote: bytes) -> int:
    """Behind the last line end before which quotes are even, among the last `MAX_LINES`; else 0."""
    end = len(data)
    odd = bool(quote) and data.count(quote) % 2
    for _ in range(MAX_LINES):
        if not odd or not end:
            return end
        begin = data.rfind(b"\n", 0, end - 1) + 1
        odd ^= data.count(quote, begin, end) % 2
        end = begin
    return 0


def _decode_line(data: bytes) -> Line:
    try:
        return Line(data.decode(), clean=b"\0" not in data)
    except UnicodeDecodeError:
        return Line(data.decode("utf-8", "replace"), clean=False)


def delimited_rows(
    parts: Iterator[bytes], names: Sequence[str], dialect: Dialect, header: bool, fewest: int
) -> Iterator[RowChunk]:
    """Yield the rows of a delimited file as objects from column name to text."""
    table = TableReader(names, dialect, fewest)
    skip = header
    for block in read_line_blocks(parts):
        chunk = table.chunk(block)
        if skip and chunk.values:
            chunk, skip = slice_chunk(chunk, 1, len(chunk.values)), False
        yield chunk
    rows = table.finish()
    yield RowChunk(values=rows[1:] if skip else rows)


def column_names(cells: Sequence[str]) -> tuple[str, ...]:
    """Return names of columns: nameless ones become `c0`, `c1`, ..., repeated ones `a.1`, `a.2`."""
    names: dict[str, int] = {}  # each with the number that its next namesake tries first
    for place, cell in enumerate(cells):
        name = plain = cell if cell.strip() else f"c{place}"
        number = names.get(plain, 0)
        while name in names:
            number += 1
            name = f"{plain}.{number}"
        names[plain] = number
        names.setdefault(name, 0)
    return tuple(names)
