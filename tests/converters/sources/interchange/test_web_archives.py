"""Web archives: records that warcio wrote read back, damaged ones are an error or a bad row."""

import gzip
import io
import json
import sys
import zlib
from pathlib import Path

import brotli
import pytest
import zstandard
from typer.testing import CliRunner
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from ingot.cli.app import app
from ingot.converters.errors import SourceError
from ingot.converters.rows import BadRow, Json
from ingot.converters.sources import SourceSpec, open_source
from ingot.converters.sources.documents import html_pages
from ingot.converters.sources.interchange import web_archives
from ingot.converters.sources.sample import draw_sample
from tests.conftest import SURE

# warcio leaves the files open in which it counts the bytes of a record.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:Unclosed file:ResourceWarning"),
]

Response = tuple[str, bytes, dict[str, str]]
CHUNKED = {"Transfer-Encoding": "chunked"}


def write(path: Path, responses: list[Response], texts: list[str] = ()) -> bytes:
    """Write a record of each response and text, after one that says who wrote the file."""
    with path.open("wb") as file:
        writer = WARCWriter(file, gzip=path.suffix == ".gz")
        writer.write_record(writer.create_warcinfo_record("x", {"software": "t"}))
        for number, (kind, body, more) in enumerate(responses):
            headers = [("Content-Type", kind), *more.items()]
            sent = StatusAndHeaders("200 OK", headers, protocol="HTTP/1.1")
            url, payload = f"http://x/{number}", io.BytesIO(body)
            made = writer.create_warc_record(url, "response", payload=payload, http_headers=sent)
            writer.write_record(made)
        for number, text in enumerate(texts):
            made = writer.create_warc_record(
                f"http://x/{number}",
                "conversion",
                payload=io.BytesIO(text.encode()),
                warc_content_type="text/plain",
                warc_headers_dict={"WARC-Identified-Content-Language": "fra,eng"},
            )
            writer.write_record(made)
    return path.read_bytes()


def read(path: Path, html: str | None = None) -> tuple[list[Json], list[BadRow]]:
    batches = list(open_source(str(path), SourceSpec(html=html)).batches())
    return [v for b in batches for v in b.values], [bad for b in batches for bad in b.bad]


PAGES: list[tuple[Response, dict[str, Json]]] = [
    (
        ("text/html; charset=iso-8859-1", "<p>café €</p>".encode("cp1252"), {}),
        {"html": "<p>café €</p>", "charset": "cp1252", "content_type": "text/html"},
    ),
    (
        ("text/html", '<html><meta charset="gb2312">中文'.encode("gb18030"), {}),
        {"html": '<html><meta charset="gb2312">中文', "charset": "gb18030"},
    ),
    (("", b"<!DOCTYPE html><p>x", {}), {"html": "<!DOCTYPE html><p>x"}),
    (("image/png", b"\x89PNG\0", {}), {"html": None, "text": None, "size": 5}),
    (("application/json", b'{"a": 1}', {}), {"text": '{"a": 1}'}),
    (("text/plain", b"4;x=y\r\nWiki\r\n5\r\npedia\r\n0\r\n\r\n", CHUNKED), {"text": "Wikipedia"}),
    (("text/plain", b"joined before", CHUNKED), {"text": "joined before"}),
    *(
        (("text/plain", packed, {"Content-Encoding": name}), {"text": "some text"})
        for name, packed in {
            "gzip": gzip.compress(b"some text"),
            "deflate": zlib.compress(b"some text"),
            "br": brotli.compress(b"some text"),
            "zstd": zstandard.compress(b"some text"),
            "identity": b"some text",
            "x-gzip": b"some text",  # unpacked before
        }.items()
    ),
]


@pytest.mark.parametrize("name", ["a.warc", "a.warc.gz"])
def test_responses(tmp_path: Path, name: str) -> None:
    write(tmp_path / name, [response for response, _ in PAGES])
    values, bad = read(tmp_path / name, "raw")
    assert not bad
    assert [value["url"] for value in values] == [f"http://x/{n}" for n in range(len(PAGES))]
    for value, (_, expected) in zip(values, PAGES, strict=True):
        assert expected.items() <= value.items()
        assert (value["type"], value["status"]) == ("response", 200)


STORY = "The mill at the river has ground corn for as long as anybody can remember. " * 4
STORY_PAGE = f"""<!doctype html><html lang="{{}}"><title>Mill {{}}</title><nav><a>Home</a></nav>
<article><p>{STORY}{{}}.</p></article></body></html>"""


def pages(count: int) -> list[Response]:
    return [("text/html", STORY_PAGE.format("en", n, n).encode(), {}) for n in range(count)]


@pytest.mark.more
def test_pages_give_their_main_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.warc.gz"
    others: list[Response] = [
        ("text/html", STORY_PAGE.format("de", "x", "x").encode(), {"Content-Language": "fr"}),
        ("text/html", b"<p>" + b"x" * 4000, {}),
        ("text/plain", b"plain", {}),
        ("image/png", b"\x89PNG\0", {}),
    ]
    write(path, [*pages(1), *others])
    monkeypatch.setattr(html_pages, "MOST_PAGE", 2000)
    values, (bad,) = read(path)
    assert (bad.row, bad.found) == (2, "http://x/2")
    assert "more than 0 Mi characters" in bad.detail
    assert [(value["text"], value["title"], value["language"]) for value in values] == [
        (f"{STORY}0.", "Mill 0", "en"),
        (f"{STORY}x.", "Mill x", "fr"),
        ("plain", None, None),
        (None, None, None),
    ]
    assert not any("html" in value for value in values)
    monkeypatch.setitem(sys.modules, "trafilatura", None)
    with pytest.raises(SourceError, match="ingot\\[html\\]"):
        read(path)
    assert len(read(path, "raw")[0]) == 5


@pytest.mark.more
def test_a_sample_looks_for_the_main_texts_of_its_rows_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "a.warc.gz", [*pages(90), ("text/html", b"<p>" + b"x" * 4000, {})])
    asked, read_page = list[str](), html_pages.read_page
    monkeypatch.setattr(html_pages, "MOST_PAGE", 2000)
    monkeypatch.setattr(
        html_pages, "read_page", lambda *all, **more: asked.append("") or read_page(*all, **more)
    )
    source = open_source(str(tmp_path))
    drawn = draw_sample(source, rows=20, max_bytes=4000)
    assert 10 <= len(asked) == len(drawn.rows) + len(drawn.bad) <= 20
    assert all(row.value["text"] == f"{STORY}{row.row}." for row in drawn.rows)
    whole = draw_sample(source)
    assert [row.value for row in whole.rows] == read(tmp_path / "a.warc.gz")[0]
    assert [(one.bad.row, one.bad.found) for one in whole.bad] == [(90, "http://x/90")]


def test_texts_are_another_data_set_than_pages(tmp_path: Path) -> None:
    write(tmp_path / "a.warc.wet.gz", [], ["Un texte é", "Deux"])
    write(tmp_path / "b.warc.gz", [("text/html", b"<p>", {})])
    source = open_source(str(tmp_path))
    assert [file.name for file in source.files] == ["a.warc.wet.gz"]
    rows = [value for batch in source.batches() for value in batch.values]
    assert [(row["text"], row["language"]) for row in rows] == [
        ("Un texte é", "fra,eng"),
        ("Deux", "fra,eng"),
    ]
    assert len(draw_sample(source).rows) == 2


BOMB = gzip.compress(bytes(1 << 20))


@pytest.mark.parametrize(
    ("response", "said"),
    [
        (("text/plain", BOMB, {"Content-Encoding": "gzip"}), "when it is decompressed"),
        (("text/plain", brotli.compress(bytes(1 << 20)), {"Content-Encoding": "br"}), "too large"),
        (("text/plain", gzip.compress(b"x" * 99)[:-9], {"Content-Encoding": "gzip"}), "too early"),
        (("text/plain", b"\xff\xff", {"Content-Encoding": "deflate"}), "deflate body is damaged"),
        (("text/plain", b"abc", {"Content-Encoding": "rot13"}), "rot13, which is not read"),
        (("text/plain", b"2\r\nab\r\n9\r\nx\r\n", CHUNKED), "a chunk of its body"),
        (("text/plain", b"2\r\nab\r\n", CHUNKED), "do not end"),
        (("text/plain", bytes(1 << 17), {}), "a record of more than"),
    ],
)
def test_bad_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, response: Response, said: str
) -> None:
    monkeypatch.setattr(web_archives, "MAX_RECORD", 1 << 16)
    write(tmp_path / "a.warc.gz", [("text/plain", b"0", {}), response, ("text/plain", b"2", {})])
    values, (bad,) = read(tmp_path / "a.warc.gz")
    assert [value["text"] for value in values] == ["0", "2"]
    assert (bad.row, bad.found, said in bad.detail) == (1, "http://x/1", True), bad.detail


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b"world", b"World", None),  # the digest
        (b"Content-Length: 5", b"Content-Length: 9", "no record begins where record 3 should"),
        (b"Content-Length: 5", b"Content-Length: 1", "no record begins where record 3 should"),
        (b"Content-Length: 5", b"Content-Length: x", "no Content-Length that is a number: 'x'"),
        (b"third\r\n\r\n", b"th", "cut off: it ends inside record 3"),
        (b"third\r\n\r\n", b"third\r\n\r\nWARC/1.0\r\nA:", "ends inside the headers of record 4"),
    ],
)
def test_damage(tmp_path: Path, old: bytes, new: bytes, said: str | None) -> None:
    path = tmp_path / "a.warc"
    data = write(path, [], ["first", "world", "third"])
    at = data.index(b"http://x/1") if b"third" not in old else 0
    path.write_bytes(data[:at] + data[at:].replace(old, new, 1))
    if said is None:
        values, (bad,) = read(path)
        assert [value["text"] for value in values] == ["first", "third"]
        assert "has not the digest sha1:" in bad.detail
        return
    found: list[Json] = []
    batches = open_source(str(path)).batches()
    with pytest.raises(SourceError, match=said):
        found.extend(value for batch in batches for value in batch.values)
    assert found[0]["text"] == "first"


def test_run_converts_a_crawl(tmp_path: Path) -> None:
    others: list[Response] = [("image/png", b"\x89PNG\0", {}), ("text/css", b"p {}", {})]
    write(tmp_path / "a.warc.gz", [*pages(20), *others * 9])
    out = tmp_path / "out"
    words = ["run", str(tmp_path), "--out", str(out), "--records", "jsonl", *SURE]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    lines = (out / "records" / "part-00000.jsonl").read_text().splitlines()
    assert [json.loads(line)["text"] for line in lines] == [f"{STORY}{n}." for n in range(20)]


@pytest.mark.more
def test_run_converts_texts(tmp_path: Path) -> None:
    texts = [
        f"Page {n} tells of things that are worth a longer line of text. " * 6 for n in range(40)
    ]
    write(tmp_path / "a.warc.wet.gz", [], texts)
    out = tmp_path / "out"
    words = ["run", str(tmp_path), "--out", str(out), "--records", "jsonl", "--mode", "pt", *SURE]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    lines = (out / "records" / "part-00000.jsonl").read_text().splitlines()
    assert [json.loads(line)["text"].strip() for line in lines] == [text.strip() for text in texts]
