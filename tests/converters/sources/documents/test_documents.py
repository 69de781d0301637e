"""Documents: Markdown, reStructuredText, web pages, notebooks, LaTeX and code, one row a file."""

import gzip
import json
import pickle
import random
import sys
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ingot.agent.judging.source_gates import summarize_source
from ingot.cli.app import app
from ingot.converters.errors import SourceError
from ingot.converters.output import worker_pool
from ingot.converters.rows import Json
from ingot.converters.sources import SourceSpec, open_source
from ingot.converters.sources.documents import html_pages
from ingot.converters.sources.documents.headers import find_licence
from ingot.converters.sources.sample import draw_sample
from tests.conftest import SURE

NOTHING = SourceSpec()
DOCUMENT = SourceSpec(format="document")
PROSE = "This is a sentence of some words about the town, its mill and the people of the river. "


def write(root: Path, files: dict[str, str | bytes]) -> str:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(root)


def read(location: str, spec: SourceSpec = NOTHING) -> dict[str, Json]:
    """The rows by path; of rows that cannot be read the reason."""
    rows: dict[str, Json] = {}
    for batch in open_source(location, spec).batches():
        rows.update({one["path"]: one for one in batch.values})
        for bad in batch.bad:
            rows[batch.file] = f"{bad.reason}: {bad.detail}"
    return rows


def one(tmp_path: Path, name: str, content: str | bytes) -> Json:
    write(tmp_path, {name: content})
    (row,) = read(str(tmp_path / name)).values()
    return row


MARKDOWN = [
    ("# One\n\ntext", "One", None, "# One\n\ntext"),
    ("---\ntitle: A b\n---\n\n# One\n", "A b", {"title": "A b"}, "# One\n"),
    ("\ufeff---\r\ndraft: yes\r\n---\r\nText.\r\n", None, {"draft": True}, "Text.\n"),
    ("+++\ntitle = 'T'\ndate = 2024-01-02T03:04:05Z\n+++\nx", "T", ..., "x"),
    ("---\nday: 2024-01-02\n1: x\nnan: .nan\n...\nx", None, ..., "x"),
    ("---\nno front matter\n---\n\nOne\n===\n", "no front matter", None, ...),
    ("---\na: [1\n\n---\n## Two ##\n", "Two", None, ...),
    ("---\na: !!python/object/apply:os.system [true]\n\n---\nx", None, None, ...),
    ("```\n# no\n```\n~~~~\n# no\n~~~\n# no\n~~~~\n# yes\n", "yes", None, ...),
    ("    # code\n#hash\nText\n---\n", "Text", None, ...),
]


@pytest.mark.parametrize(("text", "title", "fields", "body"), MARKDOWN)
def test_markdown(tmp_path, text, title, fields, body):
    row = one(tmp_path, "a.md", text)
    assert (row["kind"], row["path"], row.get("title")) == ("markdown", "a.md", title)
    assert fields is ... or row.get("front_matter") == fields
    assert row["text"] == (text if body is ... else body)
    json.dumps(row, allow_nan=False)


def test_what_aliases_of_yaml_stand_for_is_bounded(tmp_path):
    row = one(tmp_path, "a.md", "---\na: &x [1, 2]\nb: *x\n---\nText")
    assert row["front_matter"] == {"a": [1, 2], "b": [1, 2]}
    laughs = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    laughs += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    for block in ("\n".join(laughs), "a: &x [*x]", "&x {a: *x}", "a: " + "[" * 900 + "]" * 900):
        text = f"---\n{block}\n---\nText"
        row = one(tmp_path, "a.md", text)
        assert (row["text"], "front_matter" in row) == (text, False)


RST = [
    ("Title\n=====\n\n:author: Me\n:tags: a,\n  b\n\nText", "Title",
     {"author": "Me", "tags": "a,\nb"}, "Title\n=====\n\nText"),
    ("=====\nTitle\n=====\nText", "Title", None, "=====\nTitle\n=====\nText"),
    (":orphan:\n\nTitle\n-----\n", "Title", {"orphan": ""}, "Title\n-----\n"),
    ("Text\n\n:ref: no\n\nPart\n~~~~\n", "Part", None, "Text\n\n:ref: no\n\nPart\n~~~~\n"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "title", "fields", "body"), RST)
def test_restructuredtext(tmp_path, text, title, fields, body):
    row = one(tmp_path, "a.rst", text)
    assert (row["title"], row.get("front_matter"), row["text"]) == (title, fields, body)


CELLS = [
    {"cell_type": "markdown", "source": ["# Head\n", "Text"]},
    {"cell_type": "code", "source": "print('```')", "outputs": [{"text": "SECRET"}]},
    {"cell_type": "raw", "source": "raw"},
    {"cell_type": "code", "source": []},
]
OLD = [
    {"cell_type": "heading", "level": 2, "source": "Head"},
    {"cell_type": "markdown", "source": "Text"},
    {"cell_type": "code", "language": "python", "input": "print('```')", "outputs": []},
    {"cell_type": "raw", "source": "raw"},
]
FENCED = "````python\nprint('```')\n````\n\nraw"
KERNEL = {"kernelspec": {"language": "Python"}}


@pytest.mark.parametrize(
    ("notebook", "text"),
    [
        ({"nbformat": 4, "metadata": KERNEL, "cells": CELLS}, f"# Head\nText\n\n{FENCED}"),
        ({"nbformat": 3, "worksheets": [{"cells": OLD}]}, f"## Head\n\nText\n\n{FENCED}"),
    ],
)
def test_notebooks(tmp_path, notebook, text):
    row = one(tmp_path, "a.ipynb", json.dumps(notebook, indent=1))
    assert row["text"] == text
    assert (row["title"], row["programming_language"]) == ("Head", "python")


def test_notebooks_that_are_damaged_are_bad_rows(tmp_path):
    whole = json.dumps({"cells": CELLS})
    bad = {"cut": whole[:-9], "none": "{}", "odd": '{"cells": 3}', "deep": '{"a":' * 999}
    write(tmp_path, {f"{name}.ipynb": text for name, text in bad.items()} | {"a.ipynb": whole})
    rows = read(str(tmp_path))
    assert [name for name, row in rows.items() if isinstance(row, dict)] == ["a.ipynb"]
    assert len(rows) == 5


def test_code_and_latex(tmp_path):
    files = {
        "a.py": "# SPDX-License-Identifier: Apache-2.0 OR MIT\nx = 1\n",
        "b.C.gz": gzip.compress(b"/* SPDX-License-Identifier: GPL-2.0-only */\nint x;\n"),
        "run": "#!/usr/bin/env python3\nprint()\n",
        "Makefile": "all:\n",
        "d.m": "x = 1;",
        "t.tex": "\\documentclass{x}\n\\titleformat{no}\n\\title[s]{A {b}\\\\ c}\n",
    }
    rows = read(write(tmp_path, files))
    told = {
        name: (row.get("programming_language"), row.get("license")) for name, row in rows.items()
    }
    assert told == {
        "a.py": ("python", "Apache-2.0 OR MIT"),
        "b.C.gz": ("c", "GPL-2.0-only"),
        "run": ("python", None),
        "Makefile": ("makefile", None),
        "d.m": (None, None),
        "t.tex": (None, None),
    }
    assert (rows["t.tex"]["title"], rows["t.tex"]["kind"]) == ("A {b} c", "latex")
    assert rows["a.py"]["text"] == files["a.py"]


@pytest.mark.parametrize(
    ("said", "licence"),
    [
        ("Licensed under the Apache License,\n * Version 2.0 (the", "Apache-2.0"),
        ("Permission is hereby granted, free\n# of charge, to any person obtaining a copy", "MIT"),
        ("the terms of the GNU General\n// Public License as published by the FSF, either\n"
         "// version 3 of the License, or (at your option) any later version", "GPL-3.0-or-later"),
        ("the terms of the GNU Lesser General Public License version 2.1 as", "LGPL-2.1-only"),
        ("Redistribution and use in source and binary forms, with or", "BSD-2-Clause"),
        ("All rights reserved. GPL and MIT are licences.", None),
        ("the terms of the GNU General Public License. " + "x " * 400 + "version 3", None),
    ],
)  # fmt: skip
def test_licences_are_stated_and_never_guessed(said, licence):
    assert find_licence(f"/*\n * {said}\n */\nint x;") == licence


PAGE = f"""<!doctype html><html lang="de"><head><title>The
 mill</title><script>SCRIPT</script></head><body><nav><a href="/">Home</a> <a href="/x">More</a>
</nav><article><h1>The mill</h1><p>{PROSE * 3}<a href="http://x.org">link</a></p><p>{PROSE * 3}</p>
</article><footer>COOKIES</footer></body></html>"""


@pytest.mark.more
def test_web_pages(tmp_path):
    row = one(tmp_path, "a.html", PAGE)
    assert (row["kind"], row["title"], row["language"]) == ("html", "The mill", "de")
    assert PROSE.strip() in row["text"]
    assert not any(out in row["text"] for out in ("SCRIPT", "x.org", "<p>", "COOKIES", "More"))
    raw = read(str(tmp_path / "a.html"), SourceSpec(format="document", html="raw"))["a.html"]
    assert (raw["text"], raw["title"]) == (PAGE, "The mill")
    assert read(write(tmp_path / "in", {"saved page": PAGE}))["saved page"]["title"] == "The mill"


@pytest.mark.parametrize(
    ("codec", "declared"),
    [
        ("gb18030", '<meta charset="gb2312">'),
        ("cp1251", '<meta http-equiv="Content-Type" content="text/html; charset=windows-1251">'),
        ("cp932", "<meta charset=Shift_JIS>"),
        ("utf-16", "<meta charset=latin1>"),
        ("utf-8-sig", "<meta charset=latin1>"),
        ("utf-8", "<meta charset=us-ascii><meta charset=base64>"),
        ("big5", ""),
    ],
)
def test_pages_are_in_the_encoding_that_they_declare(tmp_path, codec, declared):
    words = {"cp1251": "мельница у реки", "cp932": "町の水車小屋です"}.get(
        codec, "中文的文本在這裡"
    )
    words = "中文的文本在这里" if codec == "gb18030" else words
    page = PAGE.replace("<head>", f"<head>{declared}").replace("sentence", words)
    assert words in one(tmp_path, "a.html", page.encode(codec))["text"] or declared.count(
        "us-ascii"
    )


@pytest.mark.more
def test_pages_that_are_too_large_or_end_the_process_are_bad_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(html_pages, "MOST_PAGE", 4000)
    location = write(tmp_path, {"a.html": PAGE, "b.html": PAGE + "x" * 4000, "c.html": PAGE})
    rows = read(location)
    assert rows["b.html"].startswith("bad_row: a web page of more than")
    for waiting in worker_pool._idle[html_pages._serve_pages]:
        waiting.process.kill()
        waiting.process.wait()
    assert read(location)["c.html"] == rows["c.html"]
    monkeypatch.setitem(sys.modules, "trafilatura", None)
    with pytest.raises(SourceError, match="ingot\\[html\\]"):
        open_source(location)


def test_content_confirms_what_a_name_says(tmp_path):
    files = {
        "a.md": b"\x00\x01\x02" * 99,
        "b.py": pickle.dumps([1]),
        "c.py": pickle.dumps({"a": 1}, 0),
        "d.ipynb": "# no notebook",
        "e.rst": "",
        "f.md": b"caf\xe9 " * 9 + b"\n",
        "g.md": "Good.\n",
        "h.md": b"Bad \xff here " + "é".encode() * 40,
        "i.dat": "numbers",
    }
    source = open_source(write(tmp_path, files))
    why = {one.name: one.why for one in source.left_out}
    assert why.pop("i.dat").startswith("text of an unknown kind (.dat)")
    assert why == {
        "a.md": "binary data",
        "b.py": "a pickle, which is never read",
        "c.py": "a pickle, which is never read",
        "d.ipynb": "named as a Jupyter notebook, and none by its content",
        "e.rst": "empty",
    }
    assert read(str(tmp_path))["f.md"]["text"].startswith("café")


PAGES = ("README.md", "a/b/2.md", "a/b/3.rst", "a/b/one.md", "a/b/two.md", "a/two.txt")


def test_a_folder_of_documents(tmp_path):
    files = {
        "README.md": "# Read me",
        "a/b/one.md": PROSE,
        "a/b/two.md": PROSE,
        "a/b/2.md": PROSE,
        "a/b/3.rst": PROSE,
        "a/two.txt": "Notes.",
        "LICENSE.md": "x",
        ".git/x": "x",
        "poetry.lock": "x",
        "package.json": "{}",
        "pic.png": b"\x89PNG" + bytes(99),
    }
    source = open_source(write(tmp_path, files))
    assert [file.name for file in source.files] == list(PAGES)
    assert source.guessed.format == "document"
    assert read(str(tmp_path), DOCUMENT) == read(str(tmp_path))
    write(tmp_path, {"data.jsonl": '{"a": 1}\n' * 9})  # beside data documents are notes
    source = open_source(str(tmp_path))
    assert [file.name for file in source.files] == ["data.jsonl"]
    rows = read(str(tmp_path), DOCUMENT)
    assert list(rows) == list(PAGES)
    named = SourceSpec(format="document", files=("data.jsonl",))
    assert read(str(tmp_path), named)["data.jsonl"]["kind"] == "text"


@pytest.mark.parametrize(
    "files",
    [
        {"README.md": "# Read me", "LICENSE": "x"},
        {"a.md": PROSE, "data.jsonl": "version https://git-lfs.github.com/spec/v1\noid x\n"},
        {"a.md": PROSE, "data.csv": ""},
        {"a.md": "x" * 99, "b.py": "x" * 999, "train.txt": "", "c.txt": "A line.\n" * 9},
        {"a.md": "x", **{f"{n}.png": b"\x89PNG" + bytes(99) for n in range(9)}},
    ],
)
def test_what_is_no_folder_of_documents(tmp_path, files):
    read = open_source(write(tmp_path, files)).files
    assert {file.facts.format for file in read} <= {"text"}


def test_books_are_rows_of_lines_unless_documents_are_asked_for(tmp_path):
    location = write(tmp_path, {"a.txt": "One.\nTwo.\n", "b.txt": "Three.\n"})
    assert next(open_source(location).batches()).values[0] == {"text": "One."}
    row = {"text": "One.\nTwo.\n", "path": "a.txt", "kind": "text"}
    assert read(location, DOCUMENT)["a.txt"] == row


DAY = "It was a long day on the river, and nobody had counted the boats."
BOOKS = {
    "a.txt": "Days\n\n Chapter 1. A\n Chapter 2. B\n\n\n"
    f"Chapter 1. A\n\n{DAY}\n\nChapter 2. B\n\nEnd.",
    "b.md": "---\ntitle: Days\n---\n# Days\n\n```\n## no\n```\n\n"
    f"## A #\n\n### x\n\n### y\n\nB\n---\n{DAY}",
    "c.tex": f"\\chapter{{A}}\n\\section{{x}}\n\\section{{y}}\n{DAY}\n\\chapter*{{B}}\n{DAY}",
    "d.rst": f"Days\n====\n\nAb\n--\n\n{DAY}\n\nBc\n--\n\nxy\n~~\n\nyz\n~~\n\n{DAY}",
    "e.md": f"# One alone\n\n{DAY}",
}


def test_chapters_are_rows_on_request(tmp_path):
    source = open_source(write(tmp_path, BOOKS), SourceSpec(format="chapters"))
    rows = [row for batch in source.batches() for row in batch.values]
    told = [(row["path"], row.get("chapter"), row.get("chapter_number")) for row in rows]
    assert told == [
        ("a.txt", None, None), ("a.txt", "Chapter 1. A", 1), ("a.txt", "Chapter 2. B", 2),
        ("b.md", None, None), ("b.md", "A", 1), ("b.md", "B", 2),
        ("c.tex", "A", 1), ("c.tex", "B", 2),
        ("d.rst", None, None), ("d.rst", "Ab", 1), ("d.rst", "Bc", 2),
        ("e.md", None, None),
    ]  # fmt: skip
    assert rows[2]["text"] == "Chapter 2. B\n\nEnd."
    told = {"path": "b.md", "kind": "markdown", "title": "Days", "front_matter": {"title": "Days"}}
    assert rows[5] == {**told, "text": f"B\n---\n{DAY}", "chapter": "B", "chapter_number": 2}
    for name, text in BOOKS.items():
        whole = "".join(row["text"] for row in rows if row["path"] == name)
        assert "".join(text.split()).endswith("".join(whole.split()))
    assert len(draw_sample(source).rows) == len(rows)


def test_an_archive_of_documents(tmp_path):
    with zipfile.ZipFile(tmp_path / "site.zip", "w") as packed:
        packed.writestr("x/a.md", "# A\n")
        packed.writestr("x/LICENSE", "x")
    assert read(str(tmp_path / "site.zip"))["x/a.md"]["title"] == "A"
    assert list(read(str(tmp_path))) == ["site.zip/x/a.md"]


@pytest.mark.more
def test_documents_are_sampled_and_rules_take_their_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INGOT_HOME", str(tmp_path / "home"))
    files = {
        f"part{n % 3}/{n}.md": f"---\nid: {n % 2}\n---\n# Head {n}\n\n{PROSE * 9}"
        for n in range(300)
    }
    location = write(tmp_path / "in", files)
    sample = draw_sample(open_source(location), rows=50, max_bytes=20_000)
    assert len({row.file for row in sample.rows}) == len(sample.rows) >= 20
    words = ["--mapper", "rules", *SURE, "--records", "jsonl", "--out"]
    ran = CliRunner().invoke(app, ["run", "in", *words, "out"])
    assert ran.exit_code == 0, ran.output
    mapping = json.loads(Path("out/mapping.json").read_text())
    assert (mapping["source"], mapping["text"]) == ({"format": "document"}, "text")
    assert mapping["meta"]["original_id"] == "path"
    made = Path("out/records/part-00000.jsonl").read_text().splitlines()
    assert len(made) == 300
    write(tmp_path / "in", {"x.jsonl": '{"text": "data"}\n'})
    ran = CliRunner().invoke(
        app, ["convert", "out/mapping.json", "in", "--out", "again", "--records", "jsonl"]
    )
    assert Path("again/records/part-00000.jsonl").read_text().splitlines() == made, ran.output
    ran = CliRunner().invoke(app, ["run", "in", "--format", "document", *words, "asked"])
    assert Path("asked/records/part-00000.jsonl").read_text().splitlines() == made, ran.output
    ran = CliRunner().invoke(app, ["map", "in", "--format", "words"])
    assert "no format 'words'" in ran.output


def test_yaml_alone_is_for_a_person(tmp_path, monkeypatch):
    monkeypatch.setenv("INGOT_HOME", str(tmp_path / "home"))
    location = write(
        tmp_path / "in", {f"{n}.yml": f"conversations:\n- - Hi {n}\n" for n in range(30)}
    )
    ran = CliRunner().invoke(app, ["map", location, "--mapper", "rules"])
    assert (ran.exit_code, json.loads(ran.stdout)["text"]) == (3, "text")


def test_what_is_not_read_is_counted_by_kind(tmp_path):
    files = {"a.md": PROSE, "b.pdf": b"%PDF-1.4" + bytes(92), "c.pdf": b"%PDF-1.4" + bytes(12)}
    source = open_source(write(tmp_path, {**files, "d.docx": b"x" * 7, "e.md": pickle.dumps([1])}))
    unread = summarize_source(source).unread
    assert [(one.name, one.files, one.bytes) for one in unread.kinds] == [
        ("a PDF document", 2, 120),
        ("a pickle", 1, len(files["a.md"]) and len(pickle.dumps([1]))),
        ("an Office document", 1, 7),
    ]
    assert all(tool in unread.hint for tool in ("pdftotext", "pandoc", "Parquet"))


@pytest.mark.more
def test_damaged_documents_end_in_rows_or_reasons(tmp_path):
    """A tenth of the campaign in docs/readers.md; no traceback, and the counts add up."""
    chance = random.Random(5)
    notebook = json.dumps({"cells": CELLS, "metadata": KERNEL})
    kinds = {
        "md": MARKDOWN[3][0] * 3,
        "rst": RST[0][0],
        "ipynb": notebook,
        "html": PAGE,
        "py": PROSE,
    }
    files: dict[str, str | bytes] = {}
    for number in range(250):
        ending = chance.choice(list(kinds))
        data = bytearray(kinds[ending].encode())
        for _ in range(chance.randint(1, 9)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        files[f"{number}.{ending}"] = bytes(data[: chance.randint(1, len(data))])
    source = open_source(write(tmp_path, files), DOCUMENT)
    rows = [one for batch in source.batches() for one in (*batch.values, *batch.bad)]
    assert len(rows) == len(source.files)
    assert len(source.files) + len(source.left_out) == len(files)
