"""Formats that are not read: each has a key, a text for people, and advice by the key."""

import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path

import pytest

from ingot.converters.errors import SourceError
from ingot.converters.sources import open_source
from ingot.converters.sources.facts import LeftOut, NoData
from ingot.converters.sources.file_kinds import (
    MARKUP,
    describe_magic,
    may_hold_documents,
    not_a_document,
    side_file_reason,
    unread_hint,
    unread_text,
)

PICTURE = "images hold no text: read them with OCR first, for example docling"
MARKDOWN = "make Markdown of documents with pandoc or docling"
MEDIA = "write down first what sounds and videos say, for example with Whisper"
OTHER = "convert such files to JSON, CSV, Parquet, Arrow or text first"


def by_markup(text: bytes) -> NoData | None:
    return next((verdict for pattern, verdict in MARKUP if pattern.match(text)), None)


@pytest.mark.parametrize(
    ("verdict", "form", "text", "advice"),
    [
        (side_file_reason("a.pdf"), "pdf", "a PDF document", "pdftotext or docling"),
        (describe_magic(b"%PDF-1.4"), "pdf", "a PDF document", "pdftotext or docling"),
        (side_file_reason("a.docx"), "office", "an Office document", MARKDOWN),
        (
            describe_magic(b"PK\x03\x04" + bytes(26) + b"mimetypeapplication/epub"),
            "epub",
            "an EPUB book",
            MARKDOWN,
        ),
        (by_markup(b"{\\rtf1 a"), "rtf", "an RTF document", MARKDOWN),
        (side_file_reason("a.htm"), "html", "an HTML page", "state `source.format: document`"),
        (by_markup(b"<html>"), "html", "an HTML page", "state `source.format: document`"),
        (by_markup(b"<!doctype book>"), "", "an SGML file", OTHER),
        (describe_magic(b"\x80\x04."), "pickle", "a pickle", "a pickle runs code"),
        (describe_magic(b"\x93NUMPY"), "numpy", "a NumPy array", "save arrays as Parquet"),
        (describe_magic(b"\x89HDF"), "hdf5", "an HDF5 file", "save tables of HDF5 files"),
        (describe_magic(b"Rar!\x1a"), "", "a RAR archive", OTHER),
        (describe_magic(b"\x89PNG"), "image", "an image", PICTURE),
        (side_file_reason("a.png"), "image", "an image", PICTURE),
        (side_file_reason("a.mp3"), "sound", "a sound", MEDIA),
        (describe_magic(b"RIFF\0\0\0\0AVI "), "video", "a video", MEDIA),
    ],
)
def test_a_format_has_a_key_a_text_and_advice(
    verdict: NoData, form: str, text: str, advice: str
) -> None:
    assert (verdict.form, verdict.form_text) == (form, text)
    assert advice in unread_hint([verdict.form])
    assert unread_text([LeftOut(name="x", why=verdict.why, form_text=text)]) == f"x is {text}"


def test_the_text_of_a_format_decides_nothing() -> None:
    left = NoData.unread("a PDF with an image of a pickle on an HTML page")
    assert unread_hint([left.form]) == OTHER
    page = LeftOut(name="a", why="", bytes=9, kind="unread", form="html", form_text="reworded")
    other = LeftOut(name="a", why="", bytes=9, kind="unread", form_text="an HTML page")
    assert may_hold_documents([], [page])
    assert not may_hold_documents([], [other])


def test_a_page_that_is_named_alone_is_a_document(tmp_path: Path) -> None:
    page = tmp_path / "saved"
    page.write_text("<!doctype html><html><body><p>The lamp was lit at dusk.</p></body></html>")
    assert [file.facts.format for file in open_source(str(page)).files] == ["document"]
    page.write_text("<!doctype book><p>The lamp was lit at dusk.</p>")
    with pytest.raises(SourceError, match="an SGML file, which is not read"):
        open_source(str(page))


def test_a_hidden_file_is_no_document_of_its_folder() -> None:
    for name in (".notes.md", "a/.b/notes.md"):
        verdict = not_a_document(name)
        assert verdict is not None
        assert verdict.kind == "hidden"
    assert not_a_document("a/notes.md") is None


def test_advice_is_given_once_and_in_order() -> None:
    assert unread_hint(["sound", "epub", "video", "rtf"]) == f"{MEDIA}; {MARKDOWN}"
    assert unread_hint([]) == unread_hint(["", "csv"]) == OTHER


@pytest.mark.parametrize(
    ("kind", "advice"), [("image", PICTURE), ("image-template", PICTURE), ("text", OTHER)]
)
def test_open_documents(tmp_path: Path, kind: str, advice: str) -> None:
    path = tmp_path / "a.odi"
    with zipfile.ZipFile(path, "w") as parts:
        parts.writestr("mimetype", f"application/vnd.oasis.opendocument.{kind}")
    with pytest.raises(SourceError, match=rf"OpenDocument file \({kind}\)") as raised:
        open_source(str(path))
    assert raised.value.hint == advice


TALKS = '{"text": "a b"}\n' * 9
DELTA = "t/_delta_log/00000000000000000000.json"
SHARDS = '{"version": 2, "shards": [{"format": "mds", "raw_data": {"basename": "gone"}}]}'


@pytest.mark.parametrize(
    ("place", "form", "advice"),
    [(DELTA, "table", "write the current version"), ("t/index.json", "mds", OTHER)],
)
def test_files_of_a_table_that_is_not_read(
    tmp_path: Path, place: str, form: str, advice: str
) -> None:
    (tmp_path / place).parent.mkdir(parents=True)
    (tmp_path / place).write_text(SHARDS)
    (tmp_path / "a.jsonl").write_text(TALKS)
    (tmp_path / "t" / "b.jsonl").write_text(TALKS)
    check_left_out_table(tmp_path, form, advice)


def test_tables_inside_other_files(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as members:
        for name in (DELTA, "t/b.jsonl", "a.jsonl"):
            members.writestr(name, TALKS)
    check_left_out_table(tmp_path, "table", "write the current version")
    (tmp_path / "a.zip").unlink()
    with closing(sqlite3.connect(tmp_path / "a.sqlite")) as database, database:
        database.execute("CREATE TABLE talks (text)")
        database.execute("INSERT INTO talks VALUES ('a b')")
        database.execute("CREATE VIRTUAL TABLE seen USING fts5 (text)")
    check_left_out_table(tmp_path, "table", "write the current version")


def check_left_out_table(folder: Path, form: str, advice: str) -> None:
    forms = {one.form for one in open_source(str(folder)).left_out if one.is_unread}
    assert forms == {form}
    assert unread_hint(forms).startswith(advice)
