"""Sound files and tables of the formats that have a library of their own, written by it."""

import io
import json
import mailbox
import sqlite3
import tempfile
import warnings
from collections.abc import Callable
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import msgpack
import pyarrow as pa
from pyarrow import feather, orc
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from tests.attack.raw_data import COUNT, ROWS, sentence, tar
from tests.converters.sources.tables.delta_log import add_file, begin_table, renamed

GOLDEN = Path(__file__).parents[1] / "golden"
FLAT: list[dict[str, Any]] = [
    {"id": row["id"], "question": row["question"], "answer": row["answer"]} for row in ROWS
]
MARKDOWN = "---\ntitle: Mills\ntags: [a, b]\n---\n# Mills\n\n" + "\n\n".join(
    f"## Mill {n}\n\n{sentence(n)}\n\n```python\nprint({n})\n```" for n in range(COUNT)
)
PAGE = "<html lang=en><head><title>Mills</title></head><body><h1>Mills</h1>" + "".join(
    f"<p>{sentence(n)} <a href='x'>more</a></p>" for n in range(COUNT)
)


def _orc() -> bytes:
    out = io.BytesIO()
    orc.write_table(pa.Table.from_pylist(FLAT), out, compression="zlib")
    return out.getvalue()


def _feather() -> bytes:
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        feather.write_feather(pa.Table.from_pylist(FLAT), out, version=1)
    return out.getvalue()


def _avro() -> bytes:
    fields = [
        {"name": "id", "type": "long"},
        {"name": "question", "type": ["null", "string"]},
        {"name": "answer", "type": "string"},
    ]
    schema = fastavro.parse_schema({"type": "record", "name": "R", "fields": fields})
    out = io.BytesIO()
    fastavro.writer(out, schema, FLAT, codec="deflate", sync_interval=400)
    return out.getvalue()


def _of_file(name: str, write: Callable[[Path], None]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        write(path)
        return path.read_bytes()


def _write_sqlite(path: Path) -> None:
    rows = [tuple(row.values()) for row in FLAT]
    with sqlite3.connect(path) as data:
        data.execute("create table t (id integer primary key, question text, answer text)")
        data.executemany("insert into t values (?, ?, ?)", rows)
    data.close()


def _write_duckdb(path: Path) -> None:
    with duckdb.connect(str(path)) as data:
        data.execute("create table t (id integer, question varchar, answer varchar)")
        data.executemany("insert into t values (?, ?, ?)", [tuple(row.values()) for row in FLAT])


def _write_mbox(path: Path) -> None:
    box = mailbox.mbox(path)
    for number in range(COUNT):
        box.add(_message(number))
    box.close()


def _message(number: int) -> EmailMessage:
    made = EmailMessage()
    made["From"], made["To"] = "Jürgen <j@x.de>", "a@b.c"
    made["Subject"], made["Message-ID"] = f"Mühle {number}", f"<{number}@x>"
    made["Date"] = "Fri, 27 Nov 2026 10:00:00 +0100"
    if number:
        made["In-Reply-To"] = f"<{number // 2}@x>"
    made.set_content(f"{sentence(number)} ü\n")
    if number % 3 == 0:
        made.add_alternative(f"<p>{sentence(number)}</p>", subtype="html")
    return made


def _warc(*, compress: bool) -> bytes:
    out = io.BytesIO()
    writer = WARCWriter(out, gzip=compress)
    for number in range(COUNT):
        sent = StatusAndHeaders("200 OK", [("Content-Type", "text/plain")], protocol="HTTP/1.1")
        body = io.BytesIO(sentence(number).encode())
        url = f"http://x/{number}"
        made = writer.create_warc_record(url, "response", payload=body, http_headers=sent)
        writer.write_record(made)
        made.raw_stream.close()
    return out.getvalue()


def _shard() -> bytes:
    members: dict[str, bytes] = {}
    for row in FLAT:
        key = f"{row['id']:04d}"
        members |= {f"{key}.answer.txt": row["answer"].encode(), f"{key}.jpg": b"\xff\xd8" * 9}
        members[f"{key}.json"] = json.dumps(row).encode()
    return tar(members, "w")


def _xml() -> bytes:
    rows = (
        f"<row id='{row['id']}'><question>{row['question']}</question>"
        f"<answer><![CDATA[{row['answer']}]]></answer></row>"
        for row in FLAT
    )
    return f"<?xml version='1.0'?>\n<rows>{''.join(rows)}</rows>".encode()


def _yaml() -> bytes:
    return "".join(
        f"- id: {row['id']}\n  question: '{row['question']}'\n  answer: |\n    {row['answer']}\n"
        for row in FLAT
    ).encode()


def _notebook() -> bytes:
    cells = [
        {"cell_type": kind, "metadata": {}, "source": [sentence(n) + "\n"], "outputs": []}
        for n in range(COUNT)
        for kind in ("markdown", "code")
    ]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}).encode()


# name -> the file's name and how it is made
LIBRARY_FILES: dict[str, tuple[str, Callable[[], bytes]]] = {
    "orc": ("s.orc", _orc),
    "feather": ("s.feather", _feather),
    "avro": ("s.avro", _avro),
    "msgpack": ("s.msgpack", lambda: b"".join(map(msgpack.packb, ROWS))),
    "webdataset": ("s.tar", _shard),
    "xlsx": ("s.xlsx", lambda: (GOLDEN / "workbooks/openpyxl.xlsx").read_bytes()),
    "xls": ("s.xls", lambda: (GOLDEN / "workbooks/xlwt.xls").read_bytes()),
    "ods": ("s.ods", lambda: (GOLDEN / "workbooks/odfpy.ods").read_bytes()),
    "sqlite": ("s.db", lambda: _of_file("s.db", _write_sqlite)),
    "duckdb": ("s.duckdb", lambda: _of_file("s.duckdb", _write_duckdb)),
    "xml": ("s.xml", _xml),
    "yaml": ("s.yaml", _yaml),
    "toml": (
        "s.toml",
        lambda: "".join(
            f'[[rows]]\nid = {r["id"]}\nanswer = """{r["answer"]}"""\n' for r in FLAT
        ).encode(),
    ),
    "chat_tree": (
        "s.json",
        lambda: (GOLDEN / "known/chatgpt/raw/conversations.json").read_bytes(),
    ),
    "markdown": ("s.md", MARKDOWN.encode),
    "html": ("s.html", PAGE.encode),
    "notebook": ("s.ipynb", _notebook),
    "mbox": ("s.mbox", lambda: _of_file("s.mbox", _write_mbox)),
    "eml": ("s.eml", lambda: bytes(_message(3))),
    "warc": ("s.warc", lambda: _warc(compress=False)),
    "warc_gz": ("s.warc.gz", lambda: _warc(compress=True)),
}


def make_delta(folder: Path) -> None:
    """A Delta table of two files; some rows of the second one are deleted."""
    kinds = {"id": "long", "question": "string", "answer": "string"}
    fields = [renamed(name, kind, name, n + 1) for n, (name, kind) in enumerate(kinds.items())]
    begin_table(folder / "t", fields, ())
    for name, rows, deleted in (("a", FLAT[:9], ()), ("b", FLAT[9:], (1, 3))):
        add_file(folder / "t", f"{name}.parquet", pa.Table.from_pylist(rows), {}, deleted)
