"""What the sample leaves out is left out by the mapping too, whatever reads the files."""

import csv
import io
import json
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ingot.agent.chat.operations import begin_conversation
from ingot.agent.chat.responses import respond
from ingot.agent.context import Context, list_fields
from ingot.agent.state import Order
from ingot.cli.app import app
from ingot.converters.sources import open_source
from tests.agent.documents import document
from tests.command_line import ingot
from tests.converters.sources.containers.workbook_files import HEADER, catalogue, write_workbook

LOG = ("who", "change", "why", "day", "n", "mark")
CHANGES = [
    (f"Ann{n}", f"Which text was changed in line {n}?", f"internal: customer {n} complained",
     f"2026-01-{n % 28 + 1:02}", n, "x")
    for n in range(20)
]  # fmt: skip
TABLES = {"qa": [HEADER, *catalogue()], "log": [LOG, *CHANGES]}


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INGOT_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


def output(*words: object, code: int = 0) -> str:
    return ingot(*words, code=code).output


def table_text(rows: list[Any], delimiter: str) -> str:
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return out.getvalue()


def write_folder(place: Path) -> Path:
    place.mkdir()
    for name, rows in TABLES.items():
        (place / f"{name}.txt").write_text(table_text(rows, "|"))
    return place


def write_nameless(place: Path) -> Path:
    """Two sheets without a header: the mapping states names for the columns of one."""
    rows = [(*row[1:], number) for number, row in enumerate(catalogue())]
    sheets = {"qa": rows, "log": CHANGES}
    return write_workbook(place.with_suffix(".xlsx"), sheets)


def write_zip(place: Path) -> Path:
    place.mkdir()
    with zipfile.ZipFile(place / "all.zip", "w") as archive:
        for name, rows in TABLES.items():
            archive.writestr(f"in/{name}.txt", table_text(rows, ";"))
    return place


def write_database(place: Path) -> Path:
    file = place.with_suffix(".db")
    with closing(sqlite3.connect(file)) as made:
        for name, (columns, *rows) in TABLES.items():
            made.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
            marks = ", ".join("?" * len(columns))
            made.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
        made.commit()
    return file


def write_json(place: Path) -> Path:
    place.mkdir()
    rows = {
        name: [dict(zip(held[0], row, strict=True)) for row in held[1:]]
        for name, held in TABLES.items()
    }
    (place / "qa.json").write_text(json.dumps({"data": rows["qa"], "version": 1}, indent=1))
    (place / "log.json").write_text(json.dumps({"entries": rows["log"], "n": 3}, indent=1))
    return place


def write_sheets(place: Path) -> Path:
    sheets = {
        "qa": [("Our catalogue",), *TABLES["qa"]],
        "log": [("Change log",), *TABLES["log"]],
    }
    return write_workbook(place.with_suffix(".xlsx"), sheets, {"qa": ["A1:D1"], "log": ["A1:F1"]})


KINDS = {
    "folder": (write_folder, "!log.txt", "qa.txt"),
    "members": (write_zip, "!all.zip/in/log.txt", "all.zip/in/qa.txt"),
    "tables": (write_database, "!log", "qa"),
    "objects": (write_json, "!log.json", "qa.json"),
    "sheets": (write_sheets, "!log", "qa"),
}


@pytest.mark.parametrize("kind", [*KINDS, "nameless"])
def test_what_is_guessed_reads_the_same_files(tmp_path: Path, kind: str) -> None:
    write = KINDS[kind][0] if kind in KINDS else write_nameless
    source = open_source(str(write(tmp_path / "data")))
    again = source.with_spec(source.guessed)
    assert [one.name for one in again.files] == [one.name for one in source.files]
    assert len(source.files) == 1
    assert source.guessed.files is not None
    assert (source.guessed.columns is None) == (kind != "nameless")


@pytest.mark.more
@pytest.mark.parametrize("kind", KINDS)
def test_a_mapping_states_what_was_left_out(tmp_path: Path, kind: str) -> None:
    write, excluded, read = KINDS[kind]
    place = write(tmp_path / "data")
    CliRunner().invoke(app, ["map", str(place), "-o", "m.json", "--mapper", "rules"])
    made = json.loads(Path("m.json").read_text())
    assert made["source"]["files"] == [excluded]
    said = output("convert", "m.json", place, "--out", "out", "--records", "jsonl")
    assert "left out" in said
    assert "Changed since" not in said  # of the data that it was made from
    manifest = json.loads(Path("out/manifest.json").read_text())
    assert [one["name"] for one in manifest["inputs"]] == [read]
    assert manifest["rows"]["read"] == 40
    records = "".join(one.read_text() for one in Path("out/records").iterdir())
    assert "internal" not in records


def test_files_are_named_before_the_question(tmp_path: Path) -> None:
    place = write_sheets(tmp_path / "data")
    output("run", place, "--out", "out", "--mapper", "rules", code=3)
    report = Path("out.proposal/report.md").read_text()
    assert "- read: qa (40 rows, header in row 2)" in report
    assert "- left out: `log`: another shape than the main files: excel with" in report
    assert "20 rows" in report


def test_what_may_be_a_title_stops_a_run(tmp_path: Path) -> None:
    place = write_workbook(tmp_path / "a.xlsx", {"qa": [("Our catalogue",), *catalogue()]})
    said = output("run", place, "--out", "out", "--mapper", "rules", "--yes",
                 "--min-confidence", 0, code=3)  # fmt: skip
    assert "header" in said
    assert "header row N" in Path("out.proposal/report.md").read_text()


@pytest.mark.more
def test_files_and_header_are_chosen_in_conversation(tmp_path: Path) -> None:
    place, context = write_sheets(tmp_path / "data"), Context()
    talk = begin_conversation("c1", Order(source=str(place)), context, lambda _: None)

    def say(line: str) -> Any:
        nonlocal talk
        told = respond(talk, line, context)
        talk = told.conversation
        return told

    assert document(talk.mapping)["source"] == {"files": ["!log"], "header_rows": [2]}
    (problem,) = say("leave out sheet logs").problems
    assert problem.expected == "a sheet or file that is there: 'qa', 'log'"
    assert problem.nearest == "log"
    say("header row 1")
    assert document(talk.mapping)["source"]["header_rows"] == [1]
    assert "question" not in str(document(talk.mapping)["messages"])  # the fields have other names
    say("header row none")
    assert [one["content"] for one in document(talk.mapping)["messages"]] == ["question", "answer"]
    say("read all")
    assert document(talk.mapping)["source"]["files"] == ["qa", "log"]
    assert talk.state["source"].files == 2
    say("leave out sheet Log")
    assert document(talk.mapping)["source"]["files"] == ["qa"]
    assert (talk.state["source"].files, talk.state["check"].rows) == (1, 40)
    say("read sheets log")
    assert talk.state["check"].rows == 20
    assert "why" in list_fields(context.readings.read(talk.spec))
