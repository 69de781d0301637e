"""Workbooks for tests, written as bare XLSX: rows of texts and numbers, merged cells."""

import zipfile
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

Cell = str | int | float | None
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_REL = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"
_PARTS = "http://schemas.openxmlformats.org/package/2006/relationships"
_SHEET = "application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"
_BOOK = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"


def _cell(place: str, value: Cell) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        text = f'<is><t xml:space="preserve">{escape(value)}</t></is>'
        return f'<c r="{place}" t="inlineStr">{text}</c>'
    return f'<c r="{place}"><v>{value}</v></c>'


def _sheet(rows: Iterable[Sequence[Cell]], merged: Sequence[str]) -> str:
    lines = [
        f'<row r="{number}">'
        + "".join(_cell(f"{chr(65 + column)}{number}", value) for column, value in enumerate(row))
        + "</row>"
        for number, row in enumerate(rows, start=1)
    ]
    wide = "".join(f'<mergeCell ref="{one}"/>' for one in merged)
    wide = f"<mergeCells>{wide}</mergeCells>" if wide else ""
    return f'<worksheet xmlns="{_MAIN}"><sheetData>{"".join(lines)}</sheetData>{wide}</worksheet>'


def write_workbook(
    path: Path,
    sheets: Mapping[str, Iterable[Sequence[Cell]]],
    merged: Mapping[str, Sequence[str]] | None = None,
) -> Path:
    """Write sheets by name, with the merged cells of some (`A1:D1`)."""
    numbers = range(1, len(sheets) + 1)
    names = zip(numbers, sheets, strict=True)
    listed = "".join(
        f'<sheet name="{escape(name)}" sheetId="{n}" r:id="r{n}"/>' for n, name in names
    )
    kinds = "".join(
        f'<Override PartName="/xl/worksheets/sheet{n}.xml" ContentType="{_SHEET}"/>'
        for n in numbers
    )
    links = "".join(
        f'<Relationship Id="r{n}" Type="{_REL}/worksheet" Target="worksheets/sheet{n}.xml"/>'
        for n in numbers
    )
    top = f'<Relationship Id="r1" Type="{_REL}/officeDocument" Target="xl/workbook.xml"/>'
    xml = '<Default Extension="rels" ContentType="application/xml"/>'
    book = f'<Override PartName="/xl/workbook.xml" ContentType="{_BOOK}"/>'
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{_TYPES}">{xml}{book}{kinds}</Types>',
        "_rels/.rels": f'<Relationships xmlns="{_PARTS}">{top}</Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_REL}"><sheets>{listed}</sheets>'
        "</workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PARTS}">{links}</Relationships>',
    }
    for number, (name, rows) in enumerate(sheets.items(), start=1):
        parts[f"xl/worksheets/sheet{number}.xml"] = _sheet(rows, (merged or {}).get(name, ()))
    with zipfile.ZipFile(path, "w", 8) as out:
        for name, text in parts.items():
            out.writestr(name, f'<?xml version="1.0" encoding="UTF-8"?>{text}')
    return path


TOPICS = ("delivery", "returns", "payment", "warranty")
HEADER = ("id", "topic", "question", "answer")


def catalogue(first: int = 0, last: int = 40) -> list[Sequence[Cell]]:
    """Rows of questions and answers below `HEADER`."""
    return [
        (
            f"Q{n:03}",
            TOPICS[n % 4],
            f"How do I ask about {TOPICS[n % 4]} of my order number {n} in the shop?",
            f"Open the page My orders, choose order {n} and wait {n % 7 + 1} days for an answer.",
        )
        for n in range(first, last)
    ]
