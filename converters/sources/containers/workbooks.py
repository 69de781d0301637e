"""Workbooks (XLSX, XLSM, XLS, ODS): each sheet is a table. A process reads them with calamine.

The package holds a whole workbook, and a sheet as every cell between its first and its last one.
Files beyond a size are therefore refused, and a workbook that needs too much memory ends only the
process.
"""

import datetime as dt
import math
import re
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final, cast
from xml.parsers import expat

from ingot.converters.columnar.parquet import open_random_access
from ingot.converters.errors import SourceError, translate_read_errors
from ingot.converters.rows import Json
from ingot.converters.sources.containers.table_process import open_tables
from ingot.converters.sources.containers.tables import FoundTable, Wants, selected_tables
from ingot.converters.sources.facts import FileFacts, NoData, SourceFile, SourceSpec
from ingot.converters.sources.file_kinds import UNREAD, file_ending
from ingot.converters.sources.formats.arrow import duration_text
from ingot.converters.sources.formats.delimited import column_names
from ingot.converters.sources.formats.detection import FilePeek
from ingot.converters.sources.formats.dialect import RECORDS, describe_records
from ingot.converters.sources.formats.row_chunks import TABLE_ROWS, RowChunk
from ingot.converters.sources.storage.archives import TableMember
from ingot.converters.sources.storage.compression import open_decompressed
from ingot.converters.sources.storage.listing import Entry

MOST_BYTES: Final = 128 << 20
_MOST_RATIO: Final = 200
_FREE_BYTES: Final = 64 << 20  # that may expand as often as they like
_CHUNK_CELLS: Final = 16 << 10
_OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_HIDDEN: Final = "a hidden sheet: name it in `source.files` to have it read"
_WORD = f"a Word document{UNREAD}: save it as text"
_SLIDES = f"a PowerPoint document{UNREAD}: save it as text"
_OFFICE = f"an Office document{UNREAD}"
_ENCRYPTED = f"an encrypted workbook or document{UNREAD}: save it without its password"
_TOO_LARGE: Final = f"{UNREAD}: save its sheets as CSV"
_TYPES: Final = "[Content_Types].xml"
# A part of a zip file that tells what document it is; True: a workbook.
_PARTS: Final[dict[str, NoData | bool]] = {
    "xl/workbook.xml": True,
    "xl/workbook.bin": NoData(f"a binary workbook (XLSB){UNREAD}: save it as XLSX or CSV"),
    "word/document.xml": NoData(_WORD),
    "ppt/presentation.xml": NoData(_SLIDES),
    _TYPES: NoData(_OFFICE),
}
_FIRST_PARTS = re.compile(
    rb"PK\x03\x04.{26}(\[Content_Types\]\.xml|_rels/|docProps/|xl/|word/|ppt/|customXml/|mimetype)",
    re.DOTALL,
)
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
    where, named = str(entry.place), file_ending(entry.name) in _ENDINGS
    is_zip = seen.archive == "zip" and (named or bool(_FIRST_PARTS.match(seen.head)))
    if not is_zip and not seen.head.startswith(_OLE):
        return False
    try:
        with (
            entry.place.open() as raw,
            translate_read_errors(where, "not a whole zip file" if is_zip else "cannot read it"),
            open_random_access(open_decompressed(raw, where)) as whole,
        ):
            kind, size = _find_zip_kind(whole) if is_zip else _find_ole_kind(whole)
    except SourceError:
        if named or not is_zip:
            raise
        return NoData(_OFFICE) if _TYPES.encode() in seen.head[:60] else False
    if kind is True and entry.bytes > MOST_BYTES:
        return NoData(f"a workbook of more than {MOST_BYTES >> 20} MiB{_TOO_LARGE}")
    if kind is True and size > max(_FREE_BYTES, _MOST_RATIO * entry.bytes):
        return NoData(f"a workbook that expands to {size >> 20:,} MiB{_TOO_LARGE}")
    return kind


def _find_ole_kind(whole: BinaryIO) -> tuple[NoData | bool, int]:
    data = whole.read(MOST_BYTES)
    return next((kind for mark, kind in _STREAMS.items() if mark in data), NoData(_OFFICE)), 0


def _find_zip_kind(whole: BinaryIO) -> tuple[NoData | bool, int]:
    """What document a zip file is, and its size when unpacked."""
    with zipfile.ZipFile(whole) as parts:
        names = parts.namelist()
        size = sum(info.file_size for info in parts.infolist())
        mime = parts.open("mimetype").read(100) if "mimetype" in names else b""
    if found := _OPEN_DOCUMENT.fullmatch(mime.strip()):
        kind = found[1].decode()
        other = NoData(f"an OpenDocument file ({kind}){UNREAD}: save it as text")
        return kind.startswith("spreadsheet") or other, size
    return next((kind for name, kind in _PARTS.items() if name in names), False), size


def workbook_tables(
    entry: Entry, spec: SourceSpec, wants: Wants
) -> Iterator[Entry | tuple[str, str]]:
    """Yield the sheets of a workbook, and those that are left out. Raises SourceError."""
    with open_tables(entry.place, Workbook) as book:
        if book.tables is None:
            yield "", _ENCRYPTED
            return
        yield from selected_tables(
            entry,
            book.tables,
            wants,
            lambda number, _: _sheet_facts(str(entry.place), spec, *book.describe(number)),
        )


def _sheet_facts(
    where: str, spec: SourceSpec, rows: int, width: int, head: list[list[Json]]
) -> FileFacts | None:
    if not rows:
        return None
    columns = spec.columns
    if columns is not None and len(columns) < width:
        problem = f"{len(columns)} names for {width} columns"
        raise SourceError(where, problem, "correct `source.columns`")
    if columns is None and not all(cell is None or isinstance(cell, str) for cell in head[0]):
        columns = column_names([""] * width)  # numbers and dates are no names
    texts = [["" if cell is None else str(cell) for cell in row] for row in head]
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
    with open_tables(place.archive, Workbook) as book:
        for rows in book.rows(place.number):
            values = [dict(zip(names, row, strict=False)) for row in rows[int(skip) :]]
            skip = False
            yield RowChunk(values=values, sound=True)


class Workbook:
    """A workbook that calamine holds, in the process; the sheet that was read last is kept."""

    NEEDS = "a workbook", "python-calamine", "excel"

    def __init__(self, path: str) -> None:
        from python_calamine import CalamineWorkbook, PasswordError

        _check_open_document(path)
        self._sheet: Any = None
        self._number = -1
        self._book: Any = None
        with suppress(PasswordError), Path(path).open("rb") as file:
            self._book = CalamineWorkbook.from_filelike(file)

    def tables(self) -> list[FoundTable] | None:
        """The sheets, None where they are encrypted."""
        from python_calamine import SheetTypeEnum, SheetVisibleEnum

        if self._book is None:
            return None
        found: list[FoundTable] = []
        for one in self._book.sheets_metadata:
            is_sheet = one.typ == SheetTypeEnum.WorkSheet
            hidden = _HIDDEN if one.visible != SheetVisibleEnum.Visible else None
            found.append((one.name, hidden if is_sheet else "no sheet of cells", is_sheet))
        return found

    def describe(self, number: int) -> tuple[int, int, list[list[Json]]]:
        """Give the number of rows, the width, and the first rows, merged cells in each place."""
        head: list[list[Json]] = []
        count = 0
        for some in self.rows(number):
            count += len(some)
            head += some[: RECORDS - len(head)]
        sheet = self._open(number)
        row, column = sheet.start or (0, 0)
        for first, last in sheet.merged_cell_ranges or ():
            start, stop = first[1] - column, last[1] + 1 - column
            if head and first[0] <= row <= last[0] and 0 <= start < stop <= sheet.width:
                head[0][start:stop] = [head[0][start]] * (stop - start)
        return count, sheet.width, head

    def rows(self, number: int) -> Iterator[list[list[Json]]]:
        """Yield the rows that have a cell with a value, some at a time."""
        sheet = self._open(number)
        if sheet.start is None:
            return
        most = max(1, min(TABLE_ROWS, _CHUNK_CELLS // max(1, sheet.width)))
        rows = ([_json_value(cell) for cell in cells] for cells in sheet.iter_rows())
        filled = (row for row in rows if row.count(None) < len(row))
        while held := list(islice(filled, most)):
            yield held

    def _open(self, number: int) -> Any:  # noqa: ANN401
        if number != self._number:
            self._sheet = None  # before there is another one
            self._sheet, self._number = self._book.get_sheet_by_index(number), number
        return self._sheet


def _check_open_document(path: str) -> None:
    """See that the XML of an ODS file is whole: calamine never ends where a table does not."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as parts:
            if "content.xml" in parts.namelist():
                with parts.open("content.xml") as part:
                    expat.ParserCreate().ParseFile(part)


def _json_value(cell: object) -> Json:
    """Excel stores integers as floats; an empty cell and one with an error are null."""
    convert = _CONVERTERS.get(cell.__class__)
    return convert(cell) if convert else cell


def _number(number: float) -> float | None:
    if number.is_integer() and abs(number) <= 1 << 53:
        return int(number)
    return number if math.isfinite(number) else None


_CONVERTERS: Final[dict[type, Callable[[Any], Json]]] = {
    str: lambda text: text or None,
    float: _number,
    dt.datetime: dt.datetime.isoformat,
    dt.date: dt.date.isoformat,
    dt.time: dt.time.isoformat,
    dt.timedelta: lambda value: duration_text(value // dt.timedelta(microseconds=1), 1_000_000),
}
