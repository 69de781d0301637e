"""The process that opens workbooks and databases with packages that a damaged file may end.

It opens one file at a time, and sends what its tables are and their rows as it is asked for them.
It imports little, to start quickly: so `Workbook` is here.
"""

import datetime as dt
import math
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final
from xml.parsers import expat

from ingot.converters.errors import error_text
from ingot.converters.output.worker_pool import Inbox, Send, limit_process

MEMORY: Final = 2 << 30
_SECONDS: Final = 600  # of processor time for one table: beyond, its file is damaged
_CHUNK_CELLS: Final = 16 << 10  # that are sent together
_MOST_MERGED: Final = 10_000  # ranges that are told
_HIDDEN: Final = "a hidden sheet: name it in `source.files` to have it read"


def serve_tables(inbox: Inbox, send: Send) -> int:
    """Do what the parent asks for until it is gone."""
    silent = os.open(os.devnull, os.O_WRONLY)  # a library's last words, and its progress
    os.dup2(os.dup2(silent, 1), 2)
    file: Any = None
    opened: object = None
    rows: Iterator[Any] = iter(())
    for what, argument in inbox:
        reply: Any = None
        try:
            if what in ("open", "rows"):
                limit_process(memory=MEMORY, seconds=_SECONDS)
            if what == "open":
                if argument != opened:
                    file = opened = None  # before there is another one
                    kind, content, *_ = argument
                    file = kind(content)
                    opened = argument
                reply = file.tables()
            elif what == "describe":
                reply = file.describe(argument)
            elif what == "close":
                rows = iter(())
                if not argument:  # whether the file is kept
                    file = opened = None
            else:
                rows = file.rows(argument) if what == "rows" else rows
                reply = next(rows, None)
        except BaseException as error:  # noqa: BLE001 - a panic of Rust is no Exception
            send((None, f"{type(error).__name__}: {error_text(error)}"))
        else:
            send((reply, None))
    return 0


class Workbook:
    """A workbook that calamine holds, in the process; the sheet that was read last is kept."""

    NEEDS = "a workbook", "python-calamine", "excel"
    KEPT_BYTES = 32 << 20  # of a file; its cells need some ten times as much memory

    def __init__(self, path: str) -> None:
        from python_calamine import CalamineWorkbook, PasswordError

        # The XML of an ODS file has to be whole: calamine never ends where a table does not.
        if zipfile.is_zipfile(path):
            with (
                suppress(KeyError),
                zipfile.ZipFile(path) as parts,
                parts.open("content.xml") as part,
            ):
                expat.ParserCreate().ParseFile(part)
        self._sheet: Any = None
        self._number = -1
        self._book: Any = None
        with suppress(PasswordError), Path(path).open("rb") as file:
            self._book = CalamineWorkbook.from_filelike(file)

    def tables(self) -> list[tuple[str, str | None, bool]] | None:
        """Return the sheets, None if they are encrypted."""
        from python_calamine import SheetTypeEnum, SheetVisibleEnum

        if self._book is None:
            return None
        sheets = []
        for sheet in self._book.sheets_metadata:
            aside = None if sheet.visible == SheetVisibleEnum.Visible else _HIDDEN
            is_sheet = sheet.typ == SheetTypeEnum.WorkSheet
            sheets.append((sheet.name, aside if is_sheet else "no sheet of cells", is_sheet))
        return sheets

    def describe(
        self, asked: tuple[int, int]
    ) -> tuple[int, int, list[tuple[int, list[Any]]], list[tuple[int, int, int, int]]]:
        """Give the number of rows, the width, the first rows with their numbers, merged cells."""
        number, most = asked
        filled = self._filled_rows(number)
        head = [(row, [_json_value(cell) for cell in cells]) for row, cells in islice(filled, most)]
        count = len(head) + sum(1 for _ in filled)
        column, last = (self._sheet.start or (0, 0))[1], head[-1][0] if head else 0
        merged = [
            (top + 1, left - column, bottom + 1, right - column)
            for (top, left), (bottom, right) in self._sheet.merged_cell_ranges or ()
            if top < last
        ]
        return count, self._sheet.width, head, merged[:_MOST_MERGED]

    def rows(self, number: int) -> Iterator[list[list[Any]]]:
        """Yield the columns of the rows that have a cell with a value, of some at a time."""
        filled = self._filled_rows(number)
        most = max(1, _CHUNK_CELLS // max(1, self._sheet.width))
        while rows := [cells for _, cells in islice(filled, most)]:
            yield [_json_values(cells) for cells in zip(*rows, strict=True)]

    def _filled_rows(self, number: int) -> Iterator[tuple[int, list[Any]]]:
        """Yield the rows that have a cell with a value, with their numbers from 1."""
        if number != self._number:
            self._sheet = None  # before there is another one
            self._sheet, self._number = self._book.get_sheet_by_index(number), number
        rows = self._sheet.iter_rows() if self._sheet.start else ()
        return _skip_empty_rows(enumerate(rows, start=1))


def _skip_empty_rows(rows: Iterable[tuple[int, list[Any]]]) -> Iterator[tuple[int, list[Any]]]:
    for row in rows:
        for cell in row[1]:  # a generator for each row would take as long as the row
            if _json_value(cell) is not None:
                yield row
                break


def _json_value(cell: object) -> Any:  # noqa: ANN401
    """Excel stores integers as floats; an empty cell and one with an error are null."""
    convert = _CONVERTERS.get(cell.__class__)
    return convert(cell) if convert else cell


def _json_values(cells: tuple[object, ...]) -> list[Any]:
    """The values of a column; most columns have one type, whose converter is looked up once."""
    kinds = {*map(type, cells)}
    convert = _CONVERTERS.get(kinds.pop(), lambda cell: cell) if len(kinds) == 1 else _json_value
    return list(map(convert, cells))


def _number(number: float) -> float | None:
    if number.is_integer() and abs(number) <= 1 << 53:
        return int(number)
    return number if math.isfinite(number) else None


def _duration(value: dt.timedelta) -> str:
    from ingot.converters.sources.formats.arrow import duration_text  # which takes a while

    return duration_text(value // dt.timedelta(microseconds=1), 1_000_000)


_CONVERTERS: Final[dict[type, Callable[[Any], Any]]] = {
    str: lambda text: text or None,
    float: _number,
    dt.datetime: dt.datetime.isoformat,
    dt.date: dt.date.isoformat,
    dt.time: dt.time.isoformat,
    dt.timedelta: _duration,
}
