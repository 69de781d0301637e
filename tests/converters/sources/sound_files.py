"""A sound file of every reader: its rows are told apart by a number, 0 and up in their order."""

import io
import json
import sqlite3
import tarfile
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather, orc

from ingot.converters.rows import Json
from ingot.converters.sources import SourceSpec
from tests.converters.sources.containers.workbook_files import write_workbook

MDS = Path(__file__).parents[2] / "golden/mds/plain/shard.00000.mds"


def text(number: int) -> str:
    """Return the text of a row: several characters are longer than a byte."""
    return f"Text {number} é. " * 9


def flat_rows(count: int) -> list[dict[str, Any]]:
    """Return rows of a number and a text."""
    return [{"id": number, "text": text(number)} for number in range(count)]


def written(write: Callable[[Path], object], name: str = "a") -> bytes:
    """Return what a function writes to a path."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        write(path)
        return path.read_bytes()


def table(count: int) -> pa.Table:
    """Return the rows as a table."""
    return pa.Table.from_pylist(flat_rows(count))


def written_table(write: Callable[[pa.Table, io.BytesIO], object], count: int) -> bytes:
    """Return what a function writes of the rows."""
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Feather V1
        write(table(count), out)
    return out.getvalue()


def _arrow(made: pa.Table, out: io.BytesIO) -> None:
    with pa.ipc.new_stream(out, made.schema) as writer:
        writer.write_table(made, max_chunksize=100)


def _avro(count: int) -> bytes:
    fastavro = pytest.importorskip("fastavro")
    fields = [{"name": "id", "type": "long"}, {"name": "text", "type": "string"}]
    schema = fastavro.parse_schema({"type": "record", "name": "Row", "fields": fields})
    out = io.BytesIO()
    fastavro.writer(out, schema, flat_rows(count), codec="deflate", sync_interval=4000)
    return out.getvalue()


def _msgpack(count: int) -> bytes:
    msgpack = pytest.importorskip("msgpack")
    return b"".join(map(msgpack.packb, flat_rows(count)))


def tar(members: Sequence[tuple[str, bytes]], mode: Any = "w") -> bytes:
    """Return a tar of members."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def shard_members(rows: Sequence[dict[str, Any]]) -> list[tuple[str, bytes]]:
    """Return the members of a WebDataset shard: four parts of each row."""
    return [
        (f"{row['id']:06d}.{ending}", data)
        for row in rows
        for ending, data in (
            ("jpg", b"\xff\xd8" * 9),
            ("text.txt", row["text"].encode()),
            ("cls", b"%d\n" % row["id"]),
            ("json", json.dumps({"a": [row["id"]]}).encode()),
        )
    ]


def _sqlite(count: int) -> bytes:
    def write(path: Path) -> None:
        with sqlite3.connect(path) as base:
            base.execute("create table t (id integer primary key, text text)")
            base.executemany("insert into t values (:id, :text)", flat_rows(count))
        base.close()

    return written(write)


def _duckdb(count: int) -> bytes:
    duckdb = pytest.importorskip("duckdb")

    def write(path: Path) -> None:
        with duckdb.connect(str(path)) as base:
            base.execute(
                "create table t as select i::integer as id, "
                f"repeat('Text ' || i || ' é. ', 9) as text from range({count}) as r(i)"
            )

    return written(write)


def _workbook(count: int) -> bytes:
    cells = [["id", "text"], *([row["id"], row["text"]] for row in flat_rows(count))]
    return written(lambda path: write_workbook(path, {"Sheet": cells}), "a.xlsx")


def _message(number: int) -> EmailMessage:
    made = EmailMessage()
    made["From"], made["To"], made["Subject"] = "j@x.de", "a@b.c", f"Mill {number}"
    made["Date"], made["Message-ID"] = "Fri, 27 Nov 2026 10:00:00 +0100", f"<{number}@x>"
    made.set_content(f"{text(number)}\n")
    return made


def _mbox(count: int) -> bytes:
    begin = b"From j@x.de Fri Nov 27 10:00:00 2026\n"
    return b"\n".join(begin + bytes(_message(number)) for number in range(count))


def _warc(count: int) -> bytes:
    """Return records of plain texts by the words of the standard."""
    parts = []
    for number in range(count):
        body = text(number).encode()
        answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n" + body
        head = (
            "WARC/1.1\r\nWARC-Type: response\r\n"
            f"WARC-Record-ID: <urn:uuid:{number:032x}>\r\nWARC-Date: 2026-01-01T00:00:00Z\r\n"
            f"WARC-Target-URI: http://x/{number}\r\n"
            "Content-Type: application/http; msgtype=response\r\n"
            f"Content-Length: {len(answer)}\r\n\r\n"
        )
        parts.append(head.encode() + answer + b"\r\n\r\n")
    return b"".join(parts)


def _chat_trees(count: int) -> bytes:
    chats = [
        {
            "uuid": str(number),
            "name": text(number),
            "chat_messages": [
                {"uuid": "a", "parent_message_uuid": None, "text": text(number)},
                {"uuid": "b", "parent_message_uuid": "a", "text": "Yes."},
            ],
        }
        for number in range(count)
    ]
    return json.dumps(chats).encode()


def _xml(count: int) -> bytes:
    rows = (
        f"<row><id>{row['id']}</id><text>{row['text']}</text></row>" for row in flat_rows(count)
    )
    return f"<?xml version='1.0'?>\n<rows>{''.join(rows)}</rows>".encode()


def _joined(line: Callable[[dict[str, Any]], str], begin: str = "", between: str = "\n") -> Any:
    return lambda count: (begin + between.join(map(line, flat_rows(count))) + "\n").encode()


@dataclass(frozen=True, kw_only=True)
class SoundFile:
    """What is written for a reader, and what is to be read of it.

    Attributes:
        name: the file's name.
        write: the bytes of a number of rows.
        number: the number of a row, from what was read of it.
        count: the rows of the file.
        text: the path of a text in each row.
        cut: what is seen where the file ends early: an error behind the rows before the cut, an
            error and no row, a bad row, or nothing, where the format itself does not tell.
        package: what reads it, where this is not always installed.
        stated: whether a person has to state the format.
        root: where the rows lie, where a person says it.
    """

    name: str
    write: Callable[[int], bytes]
    number: Callable[[Any], Any] = lambda row: row["id"]
    count: int = 500
    text: str = "text"
    cut: Literal["error", "error at once", "bad row", "nothing"] = "error"
    package: str = ""
    stated: bool = False
    root: str | None = None

    @cached_property
    def data(self) -> bytes:
        """Return the bytes of the file, written once."""
        return self.write(self.count)

    def spec(self, form: str) -> SourceSpec:
        """Return how the file is opened."""
        return SourceSpec(format=form if self.stated else None, root=self.root)


def _behind(name: str, separator: str) -> Callable[[dict[str, Json]], int]:
    return lambda row: int(str(row[name]).rpartition(separator)[2])


# By the names of `READERS`.
SOUND_FILES: dict[str, SoundFile] = {
    "sqlite": SoundFile(name="a.db", write=_sqlite),
    "duckdb": SoundFile(name="a.duckdb", write=_duckdb, cut="error at once"),
    "excel": SoundFile(name="a.xlsx", write=_workbook, count=200, cut="error at once"),
    "document": SoundFile(
        name="a.md",
        write=lambda count: b"# Mill 0\n\n" + text(0).encode(),
        number=_behind("title", " "),
        count=1,
        cut="nothing",
    ),
    "chapters": SoundFile(
        name="a.md",
        write=_joined(lambda row: f"# Mill {row['id']}\n\n{row['text']}", between="\n\n"),
        number=_behind("chapter", " "),
        count=9,
        cut="nothing",
        stated=True,
    ),
    "parquet": SoundFile(
        name="a.parquet",
        write=lambda count: written_table(
            lambda made, out: pq.write_table(made, out, row_group_size=300), count
        ),
        cut="error at once",
    ),
    "arrow": SoundFile(name="a.arrow", write=lambda count: written_table(_arrow, count)),
    "avro": SoundFile(name="a.avro", write=_avro, package="fastavro"),
    "feather": SoundFile(
        name="a.feather",
        write=lambda count: written_table(
            lambda made, out: feather.write_feather(made, out, version=1), count
        ),
        cut="error at once",
    ),
    "mds": SoundFile(
        name="a.mds",
        write=lambda count: MDS.read_bytes(),
        number=lambda row: row["id"] + 5,
        count=13,
    ),
    "msgpack": SoundFile(name="a.msgpack", write=_msgpack, package="msgpack"),
    "orc": SoundFile(
        name="a.orc", write=lambda count: written_table(orc.write_table, count), cut="error at once"
    ),
    "webdataset": SoundFile(
        name="a.tar",
        write=lambda count: tar(shard_members(flat_rows(count))),
        number=lambda row: row["cls"],
        count=200,
        text="text.txt",
    ),
    "warc": SoundFile(name="a.warc", write=_warc, number=_behind("url", "/")),
    "mbox": SoundFile(
        name="a.mbox", write=_mbox, number=_behind("subject", " "), count=60, cut="nothing"
    ),
    "eml": SoundFile(
        name="a.eml",
        write=lambda count: bytes(_message(0)),
        number=_behind("subject", " "),
        count=1,
        cut="nothing",
    ),
    "xml": SoundFile(name="a.xml", write=_xml, number=_behind("id", " "), root="rows.row[*]"),
    "yaml": SoundFile(
        name="a.yaml",
        write=_joined(lambda row: f"- id: {row['id']}\n  text: '{row['text']}'"),
        count=300,
        stated=True,
    ),
    "toml": SoundFile(
        name="a.toml",
        write=lambda count: f'id = 0\ntext = "{text(0)}"\n'.encode(),
        count=1,
        stated=True,
    ),
    "chat_tree": SoundFile(
        name="conversations.json",
        write=_chat_trees,
        number=_behind("uuid", " "),
        text="name",
    ),
    "jsonl": SoundFile(name="a.jsonl", write=_joined(json.dumps), cut="bad row"),
    "json": SoundFile(
        name="a.json", write=lambda count: json.dumps(flat_rows(count), indent=1).encode()
    ),
    "csv": SoundFile(
        name="a.csv",
        write=_joined(lambda row: f'{row["id"]},"{row["text"]}"', "id,text\n"),
        number=_behind("id", " "),
        cut="bad row",
    ),
    "text": SoundFile(
        name="a.txt",
        write=_joined(lambda row: f"{row['id']} {row['text']}"),
        number=lambda row: int(row["text"].partition(" ")[0]),
        cut="nothing",
    ),
}
