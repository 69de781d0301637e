"""XML: the element that repeats is the row, an element has one form in all rows, no bombs."""

import bz2
import re
import zipfile
from pathlib import Path
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

import pytest
from typer.testing import CliRunner

from ingot.cli.app import app
from ingot.converters.errors import SourceError
from ingot.converters.json_yaml import load_json
from ingot.converters.rows import Json
from ingot.converters.sources import Source, SourceSpec, open_source
from ingot.converters.sources.interchange import xml_rows
from ingot.converters.sources.sample import draw_sample
from tests.conftest import SURE

WIKI = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11">
  <siteinfo><sitename>Wiki</sitename><namespaces><namespace key="0"/><namespace key="1">Talk
  </namespace></namespaces></siteinfo>
{pages}</mediawiki>
"""
PAGE = """  <page><title>{n}</title><ns>0</ns><id>{n}</id><revision><id>{n}1</id>
    <text bytes="9" xml:space="preserve">{text}</text></revision></page>
"""


def wiki(count: int) -> str:
    texts = [
        f" [[Page]] {n} &amp; more &lt;ref/&gt;\n* item " + "words " * 40 for n in range(count)
    ]
    return WIKI.format(pages="".join(PAGE.format(n=n, text=t) for n, t in enumerate(texts)))


def rows(source: Source, root: str | None = None) -> list[Json]:
    read = source.with_spec(SourceSpec(root=root)) if root else source
    return [value for batch in read.batches() for value in batch.values]


def place(folder: Path, text: str | bytes, name: str = "a.xml") -> Source:
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return open_source(str(folder / name))


def test_the_pages_of_a_wiki_are_rows_and_the_texts_exact(tmp_path: Path) -> None:
    source = place(tmp_path, bz2.compress(wiki(500).encode()), "pages-articles.xml.bz2")
    assert source.roots[0].path == "mediawiki.page[*]"
    assert source.roots[0].rows == 500
    found = rows(source, "mediawiki.page[*]")
    tree = ET.fromstring(wiki(500))
    texts = [one.text for one in tree.iter("{http://www.mediawiki.org/xml/export-0.11/}text")]
    assert [row["revision"]["text"]["#text"] for row in found] == texts
    assert found[3]["title"] == "3"
    assert draw_sample(source.with_spec(SourceSpec(root="mediawiki.page[*]"))).rows


def test_the_usual_kinds_of_files(tmp_path: Path) -> None:
    posts = '<?xml version="1.0"?>\n<posts>\n<row Id="1" Body="&lt;p&gt;a"/><row Id="2" Body="b"/>'
    source = place(tmp_path, f"{posts}</posts>")
    assert rows(source, source.roots[0].path) == [
        {"@Id": "1", "@Body": "<p>a"},
        {"@Id": "2", "@Body": "b"},
    ]
    feed = """<rss version="2.0" xmlns:dc="http://purl.org/dc/elements/1.1/"><channel><title>c</title>
    <item><title> One </title><dc:creator>x</dc:creator><category>a</category><category>b</category>
    <description><![CDATA[<p>1</p>]]></description></item>
    <item><title>Two</title><category>c</category></item></channel></rss>"""
    source = place(tmp_path, feed)
    assert source.roots[0].path == "rss.channel.item[*]"
    one, two = rows(source, "rss.channel.item[*]")
    assert one == {
        "title": "One",
        "dc:creator": "x",
        "category": ["a", "b"],
        "description": "<p>1</p>",
    }
    assert two == {"title": "Two", "category": ["c"]}  # a list in every row
    memory = """<?xml version="1.0"?><tmx version="1.4"><body>
    <tu><tuv xml:lang="en"><seg>Hi</seg></tuv><tuv xml:lang="de"><seg>Hallo</seg></tuv></tu>
    <tu><tuv xml:lang="en"><seg>A <b>c</b> d</seg></tuv></tu></body></tmx>"""
    found = rows(place(tmp_path, memory), "tmx.body.tu[*]")
    assert found[0]["tuv"][1] == {"@xml:lang": "de", "seg": {"#text": "Hallo"}}
    assert found[1]["tuv"][0]["seg"] == {"b": "c", "#text": "A c d"}  # in the order of the text
    tei = "<TEI><text><body><p>One <hi>big</hi> word.</p><p>Two</p></body></text></TEI>"
    source = place(tmp_path, tei)
    assert rows(source, "TEI.text.body.p[*]") == [
        {"hi": "big", "#text": "One big word."},
        {"#text": "Two"},
    ]
    assert rows(source)[0]["TEI"]["text"]["body"]["p"][1] == {"#text": "Two"}  # `$`
    jats = '<!DOCTYPE article PUBLIC "-//NLM//DTD" "a.dtd"><article><t>Caf&eacute;</t></article>'
    assert rows(place(tmp_path, jats)) == [{"article": {"t": "Café"}}]


@pytest.mark.parametrize("encoding", ["utf-16", "gb18030", "shift_jis", "windows-1252", "euc-kr"])
def test_encodings_of_the_declaration(tmp_path: Path, encoding: str) -> None:
    text = {"gb18030": "中文", "shift_jis": "日本", "euc-kr": "한국"}.get(encoding, "é")
    source = place(
        tmp_path, f'<?xml version="1.0" encoding="{encoding}"?><a>{text}</a>'.encode(encoding)
    )
    assert rows(source) == [{"a": text}]


def test_forms_hold_for_all_files_and_deviations_are_seen(tmp_path: Path) -> None:
    (tmp_path / "1.xml").write_text("<a><r><x>1</x></r><r><x>2</x></r></a>")
    (tmp_path / "2.xml").write_text('<a><r><x>1</x><x k="v">2</x></r></a>')
    source = open_source(str(tmp_path))
    found = rows(source, "a.r[*]")
    assert found == [
        {"x": [{"#text": "1"}]},
        {"x": [{"#text": "2"}]},
        {"x": [{"#text": "1"}, {"@k": "v", "#text": "2"}]},
    ]


def test_files_that_are_a_document_each(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for n in range(4):
            archive.writestr(f"{n}.xml", f"<doc><p>{n}</p><p>b</p></doc>")
    source = open_source(str(tmp_path / "a.zip"))
    assert source.roots[0].path == "$"
    assert [row["doc"]["p"][0] for row in rows(source)] == ["0", "1", "2", "3"]


def test_other_files_are_not_taken_for_xml(tmp_path: Path) -> None:
    pages = '<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><body/></html>'
    for text in (pages, "<!DOCTYPE html>\n<p>"):
        assert place(tmp_path, text).files[0].facts.format == "document"
    with pytest.raises(SourceError, match="SGML"):
        place(tmp_path, "<!DOCTYPE lewis SYSTEM 'l.dtd'>\n<REUTERS><A>x</REUTERS>", "a.sgm")
    for text in ("<doc id='1'>\nOne\n</doc>\n<doc id='2'>\nTwo\n</doc>\n", "<s> a < b\n<s> c\n"):
        assert place(tmp_path, text, "a.txt").files[0].facts.format == "text"
    assert open_source(str(tmp_path / "a.xml"), SourceSpec(format="text")).files


BOMB = '<!DOCTYPE a [<!ENTITY b "{0}"><!ENTITY c "&b;&b;&b;">]><a><r>&c;</r><r/></a>'


@pytest.mark.parametrize(
    ("text", "said", "before"),
    [
        ("<a><r>1</r><r>2</r><r>", "ends inside an element", 2),
        ("<a><r>1</r><r>2</r></b></a>", "mismatched tag, at line 1", 2),
        ("<a><r>1</r><r>&nowhere;</r></a>", "undefined entity", 1),
        (BOMB.format("x" * 99), "declares entities", 0),
        ('<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a><r>&b;</r></a>', "entities", 0),
        ("<a><r>1</r><!--" + "x" * (9 << 20), "comment of more than 8 MiB", 1),
        ("<a>" + "<r>" * 20_000, "more than 10,000 elements", 0),
        ("<a><r>1</r><" + "n" * 2000 + "/></a>", "or a name of 1,000 characters", 1),
        ("<a><r>1</r></a><a/>", "junk after document element", 1),
    ],
)
def test_damage_is_an_error_after_the_rows_before_it(
    tmp_path: Path, text: str, said: str, before: int
) -> None:
    (tmp_path / "a.xml").write_text(text)
    source = open_source(str(tmp_path / "a.xml"), SourceSpec(format="xml", root="a.r[*]"))
    found: list[Json] = []
    with pytest.raises(SourceError, match=re.escape(said)):
        found.extend(value for batch in source.batches() for value in batch.values)
    assert len(found) == before


def test_broken_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xml_rows, "MAX_ROW", 30_000)
    deep = "<d>" * 300 + "</d>" * 300
    data = f"<a><r>1</r><r>{'x' * 90_000}</r><r>{deep}</r><r>".encode() + b"\xff</r><r>5</r></a>"
    source = place(tmp_path, data).with_spec(SourceSpec(root="a.r[*]"))
    (batch,) = source.batches()
    assert batch.values == [{"#text": "1"}, {"#text": "5"}]
    assert [(bad.row, bad.detail[:12]) for bad in batch.bad] == [
        (1, "an element o"),
        (2, "nested more "),
        (3, "bytes that a"),
    ]
    (whole,) = place(tmp_path, data).batches()  # `$` is too large, and the rest is not read
    assert not whole.values
    with pytest.raises(SourceError, match=r"root a\.nowhere is not in the file"):
        rows(place(tmp_path, "<a><r/></a>"), "a.nowhere")
    with pytest.raises(SourceError, match="not a path of elements"):
        rows(place(tmp_path, "<a><r/></a>"), "a.r[0]")


def test_run_converts_a_feed(tmp_path: Path) -> None:
    items = "".join(
        f"<entry><id>{n}</id><question>What is {n} plus {n}?</question>"
        f"<answer>{escape(f'It is {n * 2} & no more.')}</answer></entry>"
        for n in range(50)
    )
    (tmp_path / "qa.xml").write_text(f'<?xml version="1.0"?><feed>{items}</feed>')
    out = tmp_path / "out"
    done = CliRunner().invoke(
        app, ["run", str(tmp_path / "qa.xml"), "--out", str(out), "--records", "jsonl", *SURE]
    )
    assert done.exit_code == 0, done.output
    assert load_json(out / "mapping.json")["source"]["root"] == "feed.entry[*]"
    assert "It is 98 & no more." in (out / "records" / "part-00000.jsonl").read_text()
