"""Workbooks (XLSX, XLSM, XLS, ODS): each sheet is a table. A process reads them with calamine.

The package holds a whole workbook, and a sheet as every cell between its first and its last one.
Files beyond a size are therefore refused, and a workbook that needs too much memory ends only the
process.
"""

import datetime as dt
import re
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from io import BytesIO
from typing import Any, BinaryIO, Final, cast
from xml.parsers import expat

from ingot.converters.columnar.parquet import open_random_access
from ingot.converters.errors import SourceError, translate_read_errors
from ingot.converters.rows import Json
from ingot.converters.sources.containers.table_process import OpenTables, open_tables
from ingot.converters.sources.containers.tables import (
    FoundTable,
    Wants,
    check_columns,
    read_up_to,
    selected_names,
    table_entry,
)
from ingot.converters.sources.facts import FileFacts, NoData, SourceFile, SourceSpec
from ingot.converters.sources.file_kinds import UNREAD, file_ending
from ingot.converters.sources.formats.delimited import column_names
from ingot.converters.sources.formats.detection import FilePeek
from ingot.converters.sources.formats.dialect import RECORDS, describe_records
from ingot.converters.sources.formats.row_chunks import TABLE_ROWS, RowChunk
from ingot.converters.sources.storage.archives import TableMember
from ingot.converters.sources.storage.compression import open_decompressed
from ingot.converters.sources.storage.listing import Entry, Place

MOST_BYTES: Final = 128 << 20
MOST_EXPANDED: Final = 1 << 30
_MOST_RATIO: Final = 200
_FREE_BYTES: Final = 64 << 20  # that may expand as often as they like
_CHUNK_CELLS: Final = 16 << 10
_OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_HIDDEN: Final = "a hidden sheet: name it in `source.files` to have it read"
_WORD = f"a Word document{UNREAD}: save it as text"
_SLIDES = f"a PowerPoint document{UNREAD}: save it as text"
_SAVE = "save it as XLSX or CSV"
_OFFICE = f"an Office document{UNREAD}"
_ENCRYPTED = f"an encrypted workbook or document{UNREAD}: save it without its password"
# A part of a zip file that tells what document it is; True: a workbook.
_PARTS: Final[dict[str, NoData | bool]] = {
    "xl/workbook.xml": True,
    "xl/workbook.bin": NoData(f"a binary workbook (XLSB){UNREAD}: {_SAVE}"),
    "word/document.xml": NoData(_WORD),
    "ppt/presentation.xml": NoData(_SLIDES),
}
_FIRST_PARTS = re.compile(
    rb"PK\x03\x04.{26}(\[Content_Types\]\.xml|_rels/|docProps/|xl/|word/|ppt/|customXml/|mimetype)",
    re.DOTALL,
)
_MIME_BYTES: Final = 100
_OPEN_DOCUMENT = re.compile(rb"application/vnd\.oasis\.opendocument\.([a-z-]{1,40})")
_ENDINGS = ("xlsx", "xlsm", "xltx", "xltm", "ods")


def _ole_entry(name: str) -> bytes:
    """Return how the directory of a compound file names a stream: 64 bytes, and their number."""
    text = name.encode("utf-16-le")
    return text.ljust(64, b"\0") + (len(text) + 2).to_bytes(2, "little")


_STREAMS: Final[dict[bytes, NoData | bool]] = {
    _ole_entry("EncryptedPackage"): NoData(_ENCRYPTED),
    _ole_entry("WordDocument"): NoData(_WORD),
    _ole_entry("PowerPoint Document"): NoData(_SLIDES),
    _ole_entry("Workbook"): True,
    _ole_entry("Book"): True,
}


def is_workbook(entry: Entry, seen: FilePeek) -> bool | NoData:
    """Tell a workbook, and Office documents that are not read. Raises SourceError."""
    if seen.head.startswith(_OLE):
        data = seen.head if seen.whole else read_up_to(entry.place, MOST_BYTES)
        return next((what for mark, what in _STREAMS.items() if mark in data), NoData(_OFFICE))
    likely = _FIRST_PARTS.match(seen.head) or file_ending(entry.name) in _ENDINGS
    if not likely or seen.archive != "zip":
        return False
    try:
        with _open_zip(entry) as parts:
            names = {info.filename for info in parts.infolist()}
            mime = parts.open("mimetype").read(_MIME_BYTES) if "mimetype" in names else b""
    except SourceError:
        if file_ending(entry.name) in _ENDINGS:
            raise
        return NoData(_OFFICE) if b"[Content_Types].xml" in seen.head[:60] else False
    if found := _OPEN_DOCUMENT.fullmatch(mime.strip()):
        kind = found[1].decode()
        other = NoData(f"an OpenDocument file ({kind}){UNREAD}: save it as text")
        return kind.startswith("spreadsheet") or other
    part = next((what for name, what in _PARTS.items() if name in names), None)
    if part is None:
        return NoData(_OFFICE) if "[Content_Types].xml" in names else False
    return part


@contextmanager
def _open_zip(entry: Entry) -> Iterator[zipfile.ZipFile]:
    where = str(entry.place)
    with (
        entry.place.open() as raw,
        translate_read_errors(where, "not a whole zip file"),
        open_random_access(open_decompressed(raw, where)) as whole,
        zipfile.ZipFile(whole) as parts,
    ):
        yield parts


def _refusal(entry: Entry) -> str | None:
    """Why a workbook is too large to be held, None where it is not."""
    if entry.bytes > MOST_BYTES:
        return f"a workbook of more than {MOST_BYTES >> 20} MiB{UNREAD}: save its sheets as CSV"
    is_zip = read_up_to(entry.place, 2) == b"PK"
    expanded = 0
    if is_zip:
        with _open_zip(entry) as parts:
            expanded = sum(info.file_size for info in parts.infolist())
    if expanded > MOST_EXPANDED or expanded > max(_FREE_BYTES, _MOST_RATIO * entry.bytes):
        return f"a workbook that expands to {expanded >> 20:,} MiB{UNREAD}: save its sheets as CSV"
    return None


class OpenWorkbook(OpenTables):
    """A workbook that is open in a process."""

    def __init__(self, archive: Place) -> None:
        if find_spec("python_calamine") is None:
            hint = 'pip install "ingot[excel]"'
            raise SourceError(str(archive), "a workbook needs the package python-calamine", hint)
        super().__init__(archive, Workbook, most=MOST_BYTES)


def workbook_tables(
    entry: Entry, spec: SourceSpec, wants: Wants
) -> Iterator[Entry | tuple[str, str]]:
    """Yield the sheets of a workbook, and those that are left out. Raises SourceError."""
    if why := _refusal(entry):
        yield "", why
        return
    with open_tables(entry.place, OpenWorkbook) as book:
        if book.tables is None:
            yield "", _ENCRYPTED
            return
        for number, name, why in selected_names(book.tables, wants):
            facts = None if why else _sheet_facts(str(entry.place), book.describe(number), spec)
            yield (
                table_entry(entry, name, facts, number=number) if facts else (name, why or "empty")
            )


def _sheet_facts(
    where: str, told: tuple[int, int, list[list[Json]], list[tuple[int, int]]], spec: SourceSpec
) -> FileFacts | None:
    """The facts of a sheet from its rows, its width, its first rows and the merged cells of one."""
    rows, width, head, merged = told
    if not rows:
        return None
    first = list(head[0])
    for start, stop in merged:
        first[start:stop] = first[start : start + 1] * (stop - start)
    columns = spec.columns
    if columns is not None:
        check_columns(where, len(columns), width)
    elif not all(cell is None or isinstance(cell, str) for cell in first):
        columns = column_names([""] * width)  # numbers and dates are no names
    texts = [["" if cell is None else str(cell) for cell in row] for row in (first, *head[1:])]
    layout = describe_records(texts, columns)
    return FileFacts(
        format="excel",
        columns=layout.columns,
        header=layout.header,
        rows=rows - layout.header,
        shape=frozenset(layout.columns),
        guessed=frozenset(() if layout.header or spec.columns else ("columns",)),
    )


def read_sheet(file: SourceFile, _: SourceSpec) -> Iterator[RowChunk]:
    """Yield the rows of a sheet. Raises SourceError."""
    place, names, skip = cast(TableMember, file.place), file.facts.columns, file.facts.header
    with open_tables(place.archive, OpenWorkbook) as book:
        for rows in book.rows(place.number):
            values = [dict(zip(names, row, strict=False)) for row in rows[int(skip) :]]
            skip = False
            yield RowChunk(values=values, sound=True)


# --- in the process


class Workbook:
    """A workbook that calamine holds; the sheet that was read last is kept."""

    def __init__(self, content: bytes) -> None:
        from python_calamine import CalamineWorkbook, PasswordError

        _check_open_document(content)
        self._sheet: Any = None
        self._number = -1
        self._book: Any = None
        with suppress(PasswordError):
            self._book = CalamineWorkbook.from_filelike(cast(BinaryIO, BytesIO(content)))

    def tables(self) -> list[FoundTable] | None:
        """The sheets, None where they are encrypted."""
        from python_calamine import SheetTypeEnum, SheetVisibleEnum

        if self._book is None:
            return None
        found: list[FoundTable] = []
        for one in self._book.sheets_metadata:
            if one.typ != SheetTypeEnum.WorkSheet:
                found.append((one.name, "no sheet of cells", False))
            else:
                hidden = one.visible != SheetVisibleEnum.Visible
                found.append((one.name, _HIDDEN if hidden else None, True))
        return found

    def describe(self, number: int) -> tuple[int, int, list[list[Json]], list[tuple[int, int]]]:
        """Give the number of rows, the width, the first rows, and merged cells of the first."""
        head: list[list[Json]] = []
        count = 0
        for some in self.rows(number):
            count += len(some)
            head += some[: max(0, RECORDS - len(head))]
        sheet = self._open(number)
        row, column = sheet.start or (0, 0)
        merged = [
            (first[1] - column, last[1] + 1 - column)
            for first, last in sheet.merged_cell_ranges or ()
            if first[0] <= row <= last[0] and column <= first[1] < last[1] <= column + sheet.width
        ]
        return count, sheet.width, head, merged

    def rows(self, number: int) -> Iterator[list[list[Json]]]:
        """Yield the rows that have a cell with a value, some at a time."""
        sheet = self._open(number)
        if sheet.start is None:
            return
        most = max(1, min(TABLE_ROWS, _CHUNK_CELLS // max(1, sheet.width)))
        held: list[list[Json]] = []
        for cells in sheet.iter_rows():
            row = [_json_value(cell) for cell in cells]
            if row.count(None) < len(row):
                held.append(row)
                if len(held) == most:
                    yield held
                    held = []
        if held:
            yield held

    def _open(self, number: int) -> Any:  # noqa: ANN401
        if number != self._number:
            self._sheet = None
            self._sheet, self._number = self._book.get_sheet_by_index(number), number
        return self._sheet

    def close(self) -> None:
        """Let go of the workbook."""
        self._book = self._sheet = None


def _check_open_document(content: bytes) -> None:
    """See that the XML of an ODS file is whole: calamine never ends where a table does not."""
    if not content.startswith(b"PK"):
        return
    with zipfile.ZipFile(BytesIO(content)) as parts:
        if "content.xml" in parts.namelist():
            with parts.open("content.xml") as part:
                expat.ParserCreate().ParseFile(part)


def _json_value(cell: object) -> Json:
    """Excel stores integers as floats; an empty cell and one with an error are null."""
    kind = cell.__class__
    if kind is str:
        return cell or None
    if kind is float:
        number = cast(float, cell)
        return int(number) if number.is_integer() and abs(number) <= 1 << 53 else _finite(number)
    return _CONVERTERS[kind](cell) if kind in _CONVERTERS else cell


def _finite(number: float) -> float | None:
    return number if abs(number) != float("inf") and number == number else None


def _iso_text(value: Any) -> str:  # noqa: ANN401 - dates and times
    return str(value.isoformat())


def _duration_text(value: dt.timedelta) -> str:
    seconds, micros = divmod(abs(value) // dt.timedelta(microseconds=1), 1_000_000)
    part = f".{micros:06d}".rstrip("0") if micros else ""
    return f"{'-' if value < dt.timedelta() else ''}PT{seconds}{part}S"


_CONVERTERS: Final[dict[type, Callable[[Any], Json]]] = {
    **dict.fromkeys((dt.datetime, dt.date, dt.time), _iso_text),
    dt.timedelta: _duration_text,
}
