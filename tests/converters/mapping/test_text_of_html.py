"""`text_of`: the text that HTML shows, by both executors, and what is counted and refused."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ingot.converters.convert.job import ConvertOptions, convert
from ingot.converters.mapping.bind import bind
from ingot.converters.mapping.columns.executor import ColumnExecutor, why_not_columnar
from ingot.converters.mapping.rows.executor import RowExecutor
from ingot.converters.rows import Batch
from ingot.converters.sources import open_source
from ingot.converters.sources.documents import html_pages
from ingot.converters.sources.documents.html_text import shown_text

SHOWN = {"version": 2, "text": {"path": "t", "text_of": "html"}}
ICON = "data:image/png;base64,iVBORw0KGgo="
PAGES = {
    "plain words": "plain words",
    "two\n  lines & 1 < 2": "two\n  lines & 1 < 2",
    "two\n  lines &amp; &lt;b&gt;": "two\n  lines & <b>",
    "<b>b</b><i> i</i> <u>u</u>": "b i u",
    "a  <b> b\n</b>\n c": "a b c",
    "<p>one</p><p>two</p>": "one\n\ntwo",
    "<div>one<div>two</div></div>three": "one\ntwo\nthree",
    "a<br>b<br/><br>c": "a\nb\n\nc",
    "<h2>Head</h2><p>Body</p>": "Head\n\nBody",
    "<ul><li>a<ol><li>b</li></ol></li><li>c</li></ul>": "a\nb\nc",
    "<table><tr><th>k</th><td>v</td></tr><tr><td><p>x</p></td><td><p>y</p></td></tr></table>": (
        "k\tv\n\nx\ty"
    ),
    "<p>x</p><pre>\n  a\n   b</pre><p>y</p>": "x\n\n  a\n   b\n\ny",
    "<code>&lt;your number&gt;</code> &euro;&#8217;&nbsp;end": "<your number> €’ end",
    "<!-- TODO <b>x</b> -->a<script>b()</script><style>p {}</style><p>c</p>": "a\n\nc",
    '<a href="/x" title="a > b">link</a> text': "link text",
    "<b>open <i>and never closed": "open and never closed",
    "</p>closed</b> only": "closed only",
    "a <b": "a <b",
    "<p>中文</p><p>😀</p>": "中文\n\n😀",
    "<div>" * 400 + "deep" + "</div>" * 400: "deep",
}
COUNTED = {
    f'<img src="{ICON}">a': ("a", 1),
    f'<p style="background: url({ICON})">a <img src="data:image/svg+xml,%3Csvg"></p>': ("a", 2),
    f"<p>see {ICON} there</p>": ("see there", 1),
    f"no tag: {ICON}": ("no tag: ", 1),
    "<p>the data: 5, data:image</p>": ("the data: 5, data:image", 0),
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page[:30])
def test_the_text_that_html_shows(page: str) -> None:
    assert shown_text(page) == (PAGES[page], 0)


@pytest.mark.parametrize("page", COUNTED, ids=lambda page: page[:30])
def test_data_uris_are_taken_out_and_counted(page: str) -> None:
    assert shown_text(page) == COUNTED[page]


def test_html_that_cannot_be_read_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown_text("<i>" * 5000 + "x") == "tags that stand inside each other too often"
    assert shown_text("<!-- nothing -->") == ("", 0)
    monkeypatch.setattr(html_pages, "MOST_PAGE", 1 << 20)
    assert shown_text("<p>" + "x" * (1 << 20)) == "HTML of more than 1 Mi characters"


def by_both(document: dict[str, Any], rows: list[dict[str, Any]], kind: Any = None) -> Any:
    """Run a mapping by both executors, and return what the row executor makes."""
    table = pa.RecordBatch.from_pylist(rows, schema=kind)
    mapping, numbers = bind(document, rows), list(range(len(rows)))
    assert why_not_columnar(mapping, table.schema) is None
    alone, handed = (RowExecutor(mapping, source_name="d") for _ in range(2))
    made = alone.batch(Batch(file="f", rows=numbers, values=rows))
    batch = Batch(file="f", rows=numbers, values=rows, table=table)
    (columns,) = ColumnExecutor(handed, table.schema).parts(batch)
    texts = columns.table.column(0).to_pylist()
    key = "text" if made.records and "text" in made.records[0] else "messages"
    assert json.dumps(texts) == json.dumps([record[key] for record in made.records])
    assert columns.rejects == made.rejects
    assert handed.stats.counts == alone.stats.counts
    assert handed.stats.data_uris == alone.stats.data_uris
    return made, alone.stats


def test_both_executors_agree_and_count_data_uris() -> None:
    deep = "<i>" * 5000
    held = [*PAGES, None, *COUNTED, "", deep, "<p> </p>"]
    made, stats = by_both(SHOWN, [{"t": one} for one in held])
    wanted = [*PAGES.values(), *(text for text, _ in COUNTED.values())]
    assert [record["text"] for record in made.records] == wanted
    assert stats.data_uris == {"t": 5}
    found = {one.row: (one.reason, one.path, one.found) for one in made.rejects}
    assert found[held.index(deep)] == (
        "not_text", "t", "tags that stand inside each other too often",
    )  # fmt: skip
    assert [found[held.index(one)][0] for one in (None, "", "<p> </p>")] == ["empty_text"] * 3


def test_values_that_are_no_texts_are_spelled_before() -> None:
    made, _ = by_both(SHOWN, [{"t": 5}, {"t": None}, {"t": 7}], pa.schema([("t", pa.int64())]))
    assert [record["text"] for record in made.records] == ["5", "7"]
    rows = RowExecutor(bind(SHOWN), source_name="d")
    found = rows.batch(Batch(file="f", rows=[0, 1, 2], values=[{"t": []}, {"t": {}}, {"t": True}]))
    assert [one.reason for one in found.rejects] == ["not_text", "not_text"]
    assert found.records[0]["text"] == "true"


def test_it_stands_among_the_other_modifiers() -> None:
    value = {"path": "t[*]", "text_of": "html", "replace": {"&": "and"}, "label": "1) ", "sep": "|"}
    pages = ["<b>a</b> &amp; b", None, "<p>&amp;</p>"]
    made, _ = by_both({"version": 2, "text": value}, [{"t": pages}])
    assert made.records[0]["text"] == "1) a and b|3) and"
    joined = {"version": 2, "text": ["h", {"path": "t", "text_of": "html"}]}
    made, _ = by_both(joined, [{"h": "<b>", "t": "<i>x</i>"}])
    assert made.records[0]["text"] == "<b>\nx"


def test_a_conversion_counts_data_uris_in_its_manifest(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    rows = [{"t": f'<p>text {n}</p><img src="{ICON}">' if n % 3 else "<p>x</p>"} for n in range(90)]
    (tmp_path / "a" / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = open_source(str(tmp_path / "a"))
    convert(source, bind(SHOWN), tmp_path / "out", ConvertOptions(workers=1, records="jsonl"))
    warnings = json.loads((tmp_path / "out" / "manifest.json").read_text())["warnings"]
    assert warnings["data_uris"] == {"t": 60}


def test_without_its_package_a_mapping_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ingot.converters.errors.find_spec", lambda name: None)
    with pytest.raises(Exception, match=r"ingot\[html\]"):
        RowExecutor(bind(SHOWN), source_name="d")
