"""Rows of CSV, TSV and files with any other delimiter, of one or several characters.

Every cell is text; an empty cell is `""`. Three ways of reading have one meaning: lines without a
quote are split, lines with quotes go through the `csv` module, and what that refuses or reads with
a wrong number of cells goes line by line through `quoting`, which tells broken rows from good ones.
"""

import csv
import io
from collections.abc import Iterator, Sequence

from ingot.converters.readers.lines import line_blocks
from ingot.converters.readers.quoting import MAX_LINES, Dialect, Line, Records
from ingot.converters.readers.stretch import Broken, Stretch, found
from ingot.converters.rows import Json


class Table:
    """Turns blocks of lines into rows.

    A row that lacks only cells at the end, down to `fewest`, is filled with empty ones; surplus
    cells that are empty are dropped; any other row with a wrong number of cells is broken.
    """

    def __init__(self, names: Sequence[str], dialect: Dialect, fewest: int) -> None:
        self._names = list(names)
        self._width = len(names)
        self._dialect = dialect
        self._fewest = fewest
        self._records = Records(dialect, self._row)
        self._carry = ""  # beginning of a record that the block before did not end, with line ends

    def rows(self, block: str | list[Line]) -> list[Json]:
        """The rows that end in a block of whole lines (text without its last line end)."""
        if isinstance(block, list):
            return self._records.rows([*self._carried(), *block])
        quote = self._dialect.quote
        if self._records.is_open:
            return self._records.rows(_lines(block))
        if not self._carry and (not quote or quote not in block):
            return self._split(block)
        if len(self._dialect.delimiter) > 1:
            return self._records.rows(_lines(block))
        return self._read(f"{self._carry}{block}\n")

    def finish(self) -> list[Json]:
        """The rows of what is still open at the end of the file."""
        return self._records.rows(self._carried()) + self._records.finish()

    def _carried(self) -> list[Line]:
        lines = _lines(self._carry.removesuffix("\n")) if self._carry else []
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
                if type(row) is Broken:
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
        """A row, None for a blank line, `Broken` for what has to be looked at line by line."""
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
        return Broken("", "")

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
        return Broken(f"{len(cells)} fields instead of {self._width}", found(text))


def _lines(block: str) -> list[Line]:
    return [Line(line) for line in block.split("\n")]


def _blocks(parts: Iterator[bytes]) -> Iterator[str | list[Line]]:
    """Blocks of whole lines: text where all is well, else line by line."""
    for lines in line_blocks(parts):
        try:
            yield b"\n".join(lines).decode()  # type: ignore[arg-type] # None is a TypeError
        except (UnicodeDecodeError, TypeError):
            yield [_line(line) for line in lines]


def _line(data: bytes | None) -> Line:
    if data is None:
        return Line(None)
    try:
        return Line(data.decode())
    except UnicodeDecodeError:
        return Line(data.decode("utf-8", "replace"), clean=False)


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
    for block in _blocks(parts):
        rows = table.rows(block)
        if skip and rows:
            rows, skip = rows[1:], False
        yield Stretch(values=rows)
    rows = table.finish()
    yield Stretch(values=rows[1:] if skip else rows)


def column_names(cells: Sequence[str]) -> tuple[str, ...]:
    """Names of columns: nameless ones become `c0`, `c1`, ..., repeated ones `a.1`, `a.2`."""
    names: list[str] = []
    for place, cell in enumerate(cells):
        name = plain = cell if cell.strip() else f"c{place}"
        number = 0
        while name in names:
            number += 1
            name = f"{plain}.{number}"
        names.append(name)
    return tuple(names)
