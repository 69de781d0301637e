"""Sheets of workbooks: read as they were written by other programs, and refused where they harm."""

import gzip
import io
import json
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ingot.cli.app import app
from ingot.converters.errors import SourceError
from ingot.converters.sources import SourceSpec, open_source
from ingot.converters.sources.containers import workbooks
from ingot.converters.sources.sample import draw_sample
from tests.conftest import SURE

GOLDEN = Path(__file__).parents[3] / "golden/workbooks"  # made by openpyxl, xlwt and odfpy
XLSX = (GOLDEN / "openpyxl.xlsx").read_bytes()
ODS = (GOLDEN / "odfpy.ods").read_bytes()
BOOKS = ["openpyxl.xlsx", "xlwt.xls", "odfpy.ods"]


def expected(number: int) -> dict[str, object]:
    return {
        "id": number,
        "question": f"Question {number}: what is {number} plus {number}?",
        "answer": f"The answer is {2 * number}.",
        "born": f"2020-01-0{number + 1}",
        "at": f"2020-01-01T10:30:{15 + number}",
        "share": number + 0.5,
        "right": number % 2 == 0,
    }


def read(place: Path, **spec: object) -> list[object]:
    return [
        row
        for batch in open_source(str(place), SourceSpec(**spec)).batches()
        for row in batch.values
    ]


def changed(sheet: str, *more: tuple[str, str], data: bytes = XLSX) -> bytes:
    """A workbook with another first sheet, or with other parts."""
    parts = {"xl/worksheets/sheet1.xml": sheet, **dict(more)} if sheet else dict(more)
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", 8) as new:
        for info in old.infolist():
            new.writestr(info.filename, parts.get(info.filename, old.read(info.filename)))
    return out.getvalue()


def sheet_of(cells: str, dimension: str = "A1") -> str:
    space = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    begin = f'<worksheet xmlns="{space}"><dimension ref="{dimension}"/>'
    return f"{begin}<sheetData>{cells}</sheetData></worksheet>"


@pytest.mark.parametrize("name", BOOKS)
def test_rows_are_those_that_were_written(name):
    source = open_source(str(GOLDEN / name))
    (file,) = source.files
    rows = [row for batch in source.batches() for row in batch.values]
    assert (file.name, file.facts.rows, len(rows)) == ("Quiz", 6, 6)
    for number, row in enumerate(rows):
        want = expected(number)
        if name.endswith("xlsx"):
            want |= {"took": f"PT{108000 + 60 * number}S", "clock": "03:04:05"}
            want["share"] = None if number == 3 else want["share"]  # an error, #N/A
        assert row == want
        assert type(row["id"]) is int
    assert draw_sample(source).complete


def test_other_sheets_are_told_and_chosen():
    place = GOLDEN / "openpyxl.xlsx"
    told = {one.name: one.why for one in open_source(str(place)).left_out}
    assert told["Notes"].startswith("a hidden sheet")
    assert (told["Empty"], told["Chart"]) == ("empty", "no sheet of cells")
    assert told["Merged"] == "another shape than the main files: excel with k, v, v.1, v.2, 2 rows"
    assert read(place, files=("Notes",)) == [{"x": 1, "y": 2}]
    assert read(place, files=("openpyxl.xlsx/Merged",))[0] == {"k": 1, "v": 2, "v.1": 3, "v.2": 4}
    assert read(place, files=("Numbers",)) == [{"c0": 1, "c1": 2.5}, {"c0": 3, "c1": 1e300}]
    assert read(place, files=("Numbers",), columns=("a", "b"))[0] == {"a": 1, "b": 2.5}
    rest = open_source(str(place), SourceSpec(files=("!Quiz",)))  # does not join the others
    assert [one.name for one in rest.files] == ["Merged"]
    both = open_source(str(place), SourceSpec(files=("Merged", "Numbers")))
    assert [one.name for one in both.files] == ["Merged", "Numbers"]
    with pytest.raises(SourceError, match="1 names for 2 columns"):
        read(place, files=("Numbers",), columns=("a",))


def test_in_folders_archives_and_compressed(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("in/b.xlsx", XLSX)
    (tmp_path / "c.xls.gz").write_bytes(gzip.compress((GOLDEN / "xlwt.xls").read_bytes()))
    (tmp_path / "d.ods").write_bytes((GOLDEN / "odfpy.ods").read_bytes())
    (tmp_path / "notes.docx").write_bytes(b"PK")
    source = open_source(str(tmp_path))
    names = ["a.zip/in/b.xlsx/Quiz", "c.xls.gz/Quiz", "d.ods/Quiz"]
    assert [one.name for one in source.files] == names
    batches = list(source.batches())
    assert [(one.file, len(one.values)) for one in batches] == [(name, 6) for name in names]
    assert "notes.docx" in {one.name for one in source.left_out}
    chosen = read(tmp_path, files=("**/*.xlsx/Numbers", "*.zip"))
    assert chosen == [{"c0": 1, "c1": 2.5}, {"c0": 3, "c1": 1e300}]


def zip_of(**parts: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in parts.items():
            archive.writestr(name.replace("__", "/"), text)
    return out.getvalue()


def ole_of(stream: str) -> bytes:
    name = stream.encode("utf-16-le")
    return (
        workbooks._OLE + bytes(504) + name.ljust(64, b"\0") + bytes([len(name) + 2, 0]) + bytes(62)
    )


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (zip_of(**{"_rels__.rels": "", "word__document.xml": ""}), "a Word document"),
        (zip_of(**{"[Content_Types].xml": "", "ppt__presentation.xml": ""}), "a PowerPoint"),
        (zip_of(**{"[Content_Types].xml": "", "xl__workbook.bin": ""}), "a binary workbook"),
        (zip_of(mimetype="application/vnd.oasis.opendocument.text"), r"OpenDocument file \(text"),
        (ole_of("WordDocument"), "a Word document"),
        (ole_of("PowerPoint Document"), "a PowerPoint"),
        (ole_of("EncryptedPackage"), "an encrypted"),
        (ole_of("Other"), "an Office document"),
        (ole_of("Workbook"), "cannot read it"),
        (XLSX[:-100], "not a whole zip file"),
        (changed(sheet_of(90_000_000 * " ")), "expands"),
        (changed(sheet_of('<row r="1"><c r="A1"><v>1</v>')), "cannot read it"),
        (changed("", ("content.xml", "<a><b>"), data=ODS), "ExpatError"),
        (
            changed(sheet_of('<row><c r="A1"><v>1</v></c><c r="XFD1048576"><v>1</v></c></row>')),
            "process that reads it ended by signal",
        ),
    ],
)  # fmt: skip
def test_what_is_not_read_is_named(tmp_path, data, why):
    place = tmp_path / "book.xlsx"
    place.write_bytes(data)
    with pytest.raises(SourceError, match=why):
        open_source(str(place))


def test_a_stated_format(tmp_path):
    with pytest.raises(SourceError, match="its format is excel, and csv is stated"):
        open_source(str(GOLDEN / BOOKS[0]), SourceSpec(format="csv"))
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(SourceError, match="not a excel file"):
        open_source(str(tmp_path / "a.csv"), SourceSpec(format="excel"))


@pytest.mark.more
def test_a_claimed_size_and_a_far_cell_cost_nothing(tmp_path):
    cell = '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
    (tmp_path / "far.xlsx").write_bytes(changed(sheet_of(cell, "A1:XFD1048576")))
    assert read(tmp_path / "far.xlsx", files=("Quiz",)) == [{"c0": 1}]


def test_too_large(tmp_path, monkeypatch):
    monkeypatch.setattr(workbooks, "MOST_BYTES", 1000)
    with pytest.raises(SourceError, match="more than 0 MiB, which is not read: save its sheets"):
        open_source(str(GOLDEN / BOOKS[0]))


def test_a_workbook_that_changed_is_read_again(tmp_path):
    place = tmp_path / "book.xlsx"
    for text in "ab":  # of one size
        cells = f'<c t="inlineStr"><is><t>{text}</t></is></c>'
        place.write_bytes(changed(sheet_of(f'<row r="1">{cells}</row>')))
        for _ in range(2):
            assert read(place, files=("Quiz",), columns=("t",)) == [{"t": text}]


def test_names_are_not_trusted(tmp_path):
    with zipfile.ZipFile(io.BytesIO(XLSX)) as old:
        book = old.read("xl/workbook.xml").decode()
    other = book.replace('name="Quiz"', 'name="../up"').replace('name="Merged"', 'name="Numbers"')
    (tmp_path / "b.xlsx").write_bytes(changed("", ("xl/workbook.xml", other)))
    source = open_source(str(tmp_path / "b.xlsx"))
    told = {one.why for one in source.left_out}
    assert "its name is blank, or no path below its file" in told
    assert "another table has its name" in told
    assert [one.facts.columns[0] for one in source.files] == ["k"]


@pytest.mark.more
def test_from_start_to_end(tmp_path, monkeypatch):
    monkeypatch.setenv("INGOT_HOME", str(tmp_path / "state"))
    (tmp_path / "in").mkdir()
    (tmp_path / "in/quiz.xlsx").write_bytes(XLSX)
    out = tmp_path / "out"
    done = CliRunner().invoke(app, ["run", str(tmp_path / "in"), "--out", str(out), *SURE])
    assert done.exit_code == 0, done.output
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["rows"]["converted"] == 6
    (one,) = manifest["inputs"]
    assert (one["name"], one["bytes"]) == ("quiz.xlsx/Quiz", len(XLSX))
    import hashlib

    assert one["sha256"] == hashlib.sha256(XLSX).hexdigest()
