"""Workbooks (XLSX, XLSM, XLS, ODS): each sheet is a table. A process reads them with calamine.

The package holds a whole workbook, and a sheet as every cell between its first and its last one.
Files beyond a size are therefore refused, and a workbook that needs too much memory ends only the
process.
"""

import re
import zipfile
from collections.abc import Iterator
from typing import BinaryIO, Final, cast

from ingot.converters.columnar.parquet import open_random_access
from ingot.converters.errors import SourceError, translate_read_errors
from ingot.converters.sources.containers.table_process import Workbook
from ingot.converters.sources.containers.tables import (
    LeftMember,
    OpenTables,
    Wants,
    open_container,
    selected_tables,
)
from ingot.converters.sources.facts import EMPTY, FileFacts, NoData, SourceFile, SourceSpec
from ingot.converters.sources.file_kinds import UNREAD, file_ending
from ingot.converters.sources.formats.delimited import column_names
from ingot.converters.sources.formats.detection import FilePeek
from ingot.converters.sources.formats.dialect import RECORDS
from ingot.converters.sources.formats.header_rows import Header, find_header, stated_header
from ingot.converters.sources.formats.row_chunks import RowChunk, rows_of_columns
from ingot.converters.sources.storage.archives import TableMember
from ingot.converters.sources.storage.compression import open_decompressed
from ingot.converters.sources.storage.listing import Entry

MOST_BYTES: Final = 128 << 20
_MOST_RATIO: Final = 200
_FREE_BYTES: Final = 64 << 20  # that may expand as often as they like
_OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_WORD = NoData.unread("a Word document", ": save it as text")
_OFFICE = UNREAD["office"]
_SLIDES = NoData.unread("a PowerPoint document", ": save it as text")
_ENCRYPTED = NoData.unread("an encrypted workbook or document", ": save it without its password")
_TOO_LARGE: Final = ": save its sheets as CSV"
_TYPES: Final = "[Content_Types].xml"
# What document holds a part or stream of this name, of a zip file or an OLE file; True: a workbook.
_PARTS: Final[dict[str, NoData | bool]] = {
    "xl/workbook.xml": True,
    "xl/workbook.bin": NoData.unread("a binary workbook (XLSB)", ": save it as XLSX or CSV"),
    "word/document.xml": _WORD,
    "ppt/presentation.xml": _SLIDES,
    _TYPES: _OFFICE,
}
_STREAMS: Final[dict[str, NoData | bool]] = {
    "EncryptedPackage": _ENCRYPTED,
    "WordDocument": _WORD,
    "PowerPoint Document": _SLIDES,
    **dict.fromkeys(("Workbook", "Book"), True),
}
_FIRST_PARTS = re.compile(
    rb"PK\x03\x04.{26}(\[Content_Types\]\.xml|_rels/|docProps/|xl/|word/|ppt/|customXml/|mimetype)",
    re.DOTALL,
)
_OPEN_DOCUMENT = re.compile(rb"application/vnd\.oasis\.opendocument\.([a-z-]{1,40})")
_ENDINGS = ("xlsx", "xlsm", "xltx", "xltm", "ods")


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
        return _OFFICE if _TYPES.encode() in seen.head[:60] else False
    if kind is True and entry.bytes > MOST_BYTES:
        return NoData.unread(f"a workbook of more than {MOST_BYTES >> 20} MiB", _TOO_LARGE)
    if kind is True and size > max(_FREE_BYTES, _MOST_RATIO * entry.bytes):
        return NoData.unread(f"a workbook that expands to {size >> 20:,} MiB", _TOO_LARGE)
    return kind


def _find_ole_kind(whole: BinaryIO) -> tuple[NoData | bool, int]:
    data = whole.read(MOST_BYTES)
    for name, kind in _STREAMS.items():  # its entry in the directory: 64 bytes, and their number
        text = name.encode("utf-16-le")
        if text.ljust(64, b"\0") + (len(text) + 2).to_bytes(2, "little") in data:
            return kind, 0
    return _OFFICE, 0


def _find_zip_kind(whole: BinaryIO) -> tuple[NoData | bool, int]:
    """What document a zip file is, and its size when unpacked."""
    with zipfile.ZipFile(whole) as parts:
        names = parts.namelist()
        size = sum(info.file_size for info in parts.infolist())
        mime = parts.open("mimetype").read(100) if "mimetype" in names else b""
    if match := _OPEN_DOCUMENT.fullmatch(mime.strip()):
        kind = match[1].decode()
        form = "image" if kind.startswith("image") else ""
        other = NoData.unread(f"an OpenDocument file ({kind})", ": save it as text", form)
        return kind.startswith("spreadsheet") or other, size
    return next((kind for name, kind in _PARTS.items() if name in names), False), size


def workbook_tables(entry: Entry, spec: SourceSpec, wants: Wants) -> Iterator[Entry | LeftMember]:
    """Yield the sheets of a workbook, and those that are left out. Raises SourceError."""
    with open_container(OpenTables, entry.place, Workbook) as book:

        def describe(number: int, _: str) -> FileFacts | NoData:
            count, width, head, merged = book.describe((number, RECORDS))
            if not count:
                return EMPTY
            names = spec.columns
            if names is not None and len(names) < width:
                problem = f"{len(names)} names for {width} columns"
                raise SourceError(str(entry.place), problem, "correct `source.columns`")
            rows = [(place, [_cell_text(cell) for cell in cells]) for place, cells in head]
            header: Header | None = Header()
            if spec.header_rows is not None:
                header = stated_header(rows, spec.header_rows, merged)
            elif names is None:
                header = find_header(rows, merged)
            if header is None:
                return NoData(f"it has no row {spec.header_rows}", "shape", "excel")
            return _sheet_facts(
                header, rows[0][0], names or column_names([""] * width), count, spec
            )

        if book.tables is None:
            yield "", _ENCRYPTED
        yield from selected_tables(entry, book.tables or (), wants, describe)


def _cell_text(cell: object) -> str:
    """Return the text of a cell; true and false are numbers, which are no names."""
    return "" if cell is None else str(int(cell) if isinstance(cell, bool) else cell)


def _sheet_facts(
    header: Header, first: int, names: tuple[str, ...], rows: int, spec: SourceSpec
) -> FileFacts:
    has_header, above = bool(header.rows), header.above
    columns = names if spec.columns or not has_header else header.names
    guessed = {
        "columns": not has_header and spec.columns is None,
        "header_rows": header.rows not in ((), (first,)) and spec.header_rows is None,
    }
    return FileFacts(
        format="excel",
        columns=columns,
        header=has_header,
        preamble=above,
        header_rows=header.rows,
        unclear=header.unclear,
        rows=rows - above - has_header,
        shape=frozenset(columns),
        guessed=frozenset(fact for fact, is_guessed in guessed.items() if is_guessed),
    )


def read_sheet(file: SourceFile, _: SourceSpec) -> Iterator[RowChunk]:
    """Yield the rows of a sheet. Raises SourceError."""
    place, names, facts = cast(TableMember, file.place), file.facts.columns, file.facts
    skip = facts.preamble + facts.header
    with open_container(OpenTables, place.archive, Workbook) as book:
        for columns in book.rows(place.number):
            rows = rows_of_columns(names, columns)
            yield RowChunk(values=rows[skip:], sound=True)
            skip = max(0, skip - len(rows))
