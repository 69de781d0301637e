"""Bad input ends in one clear line and the exit code that the documentation promises."""

import gzip
import json
import math
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from ingot.cli.app import app
from tests.command_line import ingot

TOKENIZER = str(Path(__file__).parents[2] / "examples/tokenizer/tokenizer.json")
MAPPING = {"version": 2, "text": "body"}
ROWS = [{"body": f"Sentence {n} of a longer text that is worth reading."} for n in range(200)]
LINES = "".join(json.dumps(row) + "\n" for row in ROWS).encode()


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INGOT_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    Path("good.jsonl").write_bytes(LINES)
    Path("mapping.json").write_text(json.dumps(MAPPING))


SURE = ("--yes", "--min-confidence", "0.6")


def ends(code: int, *words: str) -> str:
    """What is said on stderr by a command that ends with this code; nothing is on stdout."""
    ran = ingot(*words, code=code)
    assert "Traceback" not in ran.output
    return ran.stderr


def one_line(text: str) -> str:
    """The text, which is one error on one line."""
    assert text.startswith("error: ")
    assert text.count("\n") == 1, text
    return text


def _binary(name: str) -> None:
    Path(name).write_bytes(random.Random(5).randbytes(5000))


def _cut_gz(name: str) -> None:
    whole = gzip.compress(random.Random(5).randbytes(200).hex().encode() + b"\n" + LINES)
    Path(name).write_bytes(whole[: len(whole) // 2])


def _cut_parquet(name: str) -> None:
    pq.write_table(pa.Table.from_pylist(ROWS), name)
    whole = Path(name).read_bytes()
    Path(name).write_bytes(whole[: len(whole) // 2])


SOURCES = {
    "missing": lambda name: None,
    "empty_folder": lambda name: Path(name).mkdir(),
    "binary.bin": _binary,
    "cut.jsonl.gz": _cut_gz,
    "cut.parquet": _cut_parquet,
    "empty.jsonl": lambda name: Path(name).write_bytes(b""),
}


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("command", ["run", "map", "check", "convert"])
def test_a_source_that_cannot_be_read(name: str, command: str) -> None:
    SOURCES[name](name)
    words = {
        "run": ["run", name, "--out", "out", "--yes"],
        "map": ["map", name],
        "check": ["check", "mapping.json", name],
        "convert": ["convert", "mapping.json", name, "--out", "out"],
    }[command]
    assert name in one_line(ends(1, *words))
    assert not Path("out").exists()
    assert not Path("out.proposal").exists()


@pytest.mark.parametrize("command", ["run", "map"])
def test_not_one_row_that_can_be_read(command: str) -> None:
    Path("broken.jsonl").write_text('{"body": "cut\n' * 20)
    out = ["--out", "out", "--yes"] if command == "run" else []
    said = one_line(ends(1, command, "broken.jsonl", "--mapper", "rules", *out))
    assert "sampled rows can be read" in said
    assert "broken.jsonl row 0" in said


def test_a_destination_is_refused_before_anything_is_proposed() -> None:
    Path("taken").mkdir()
    (Path("taken") / "notes.txt").write_text("mine")
    said = one_line(ends(1, "run", "good.jsonl", "--out", "taken", "--mapper", "rules"))
    assert "did not write" in said


def test_a_glob_that_matches_nothing() -> None:
    assert "no*.jsonl" in one_line(ends(1, "run", "no*.jsonl", "--out", "out"))


@pytest.mark.more
def test_a_misspelt_path() -> None:
    Path("wrong.json").write_text(json.dumps({"version": 2, "text": "bdoy"}))
    convert = one_line(ends(1, "convert", "wrong.json", "good.jsonl", "--out", "out"))
    assert "wrong.json" in convert
    assert "Did you mean body? In chat: set text body (/text: unresolved_path)" in convert
    run = ("run", "good.jsonl", "--out", "out", "--mapping", "wrong.json", "--yes")
    ran = CliRunner().invoke(app, list(run))
    assert ran.exit_code == 1
    assert "Did you mean body?" in ran.stderr
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"version": 2, "txt": "body"}', "txt"),
        ('{"version": 2, "text": "a["}', "bad_path"),
        ('{"version": 3, "text": "a"}', "/version"),
        ("{not json", "bad_json"),
        ("[]", "JSON object"),
    ],
)
@pytest.mark.parametrize("command", ["run", "check", "convert"])
def test_an_invalid_mapping_file(content: str, said: str, command: str) -> None:
    Path("wrong.json").write_text(content)
    words = {
        "run": ["run", "good.jsonl", "--out", "out", "--mapping", "wrong.json"],
        "check": ["check", "wrong.json", "good.jsonl"],
        "convert": ["convert", "wrong.json", "good.jsonl", "--out", "out"],
    }[command]
    text = ends(2, *words)
    assert text.startswith("error: wrong.json: ")
    assert said in text


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            '{\n "version": 2,\n "text": "a",\n}',
            "line 4, column 1: a comma before a closing bracket",
        ),
        ('{"version": 2, "where": [1, ]}', "line 1, column 29: a comma before a closing bracket"),
        (
            '{"version": 2 "text": "a"}',
            "line 1, column 15: a comma or a closing bracket is missing",
        ),
        ('{"version" 2}', "line 1, column 12: a colon is missing after a name"),
        ("{version: 2}", "line 1, column 2: a name in double quotes is missing"),
        ('{"text": "a}', "line 1, column 10: the closing quote of a text is missing"),
        ('{"text": "a"} }', "line 1, column 15: something stands after the end of the document"),
        ('{"text": "a\nb"}', "line 1, column 12: a text holds a line break or a tab"),
        ('{"text": "\\d"}', "line 1, column 11: a text holds an unknown escape"),
        ("id,text\n1,a", "line 1, column 1: a value is missing"),
        (b"{\xff}", "other characters than UTF-8"),
        ("[" * 5000, "lists nested too deep"),
    ],
)
def test_what_is_no_json_in_a_mapping_is_said_in_words(content: str | bytes, said: str) -> None:
    Path("wrong.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    text = ends(2, "check", "wrong.json", "good.jsonl")
    assert f"/: bad_json: expected a mapping in JSON, got {said}" in text
    assert "Expecting" not in text


@pytest.mark.parametrize("command", ["check", "convert"])
@pytest.mark.parametrize("data", ["good.jsonl", "."])
def test_data_and_mapping_in_the_wrong_order(command: str, data: str) -> None:
    out = ["--out", "out"] if command == "convert" else []
    said = one_line(ends(2, command, data, "mapping.json", *out))
    why = "no mapping, but mapping.json is one: name the mapping before the data"
    assert said == f"error: {data}: {why}\n"


def test_a_model_without_a_key_names_the_variable_of_the_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "INGOT_PRESET", "INGOT_MODEL"):
        monkeypatch.delenv(name, raising=False)
    said = one_line(ends(2, "map", "good.jsonl", "--mapper", "llm", "--model", "gpt-4o"))
    assert "for gpt-4o set OPENAI_API_KEY, or --base-url or --preset" in said
    ran = CliRunner().invoke(app, ["map", "good.jsonl", "--model", "gpt-4o"])
    assert ran.stderr.startswith("no model is asked: for gpt-4o set OPENAI_API_KEY")


def test_an_empty_file_is_not_to_be_converted_to_something() -> None:
    Path("empty.jsonl").write_text("")
    said = one_line(ends(1, "map", "empty.jsonl"))
    again = "write or fetch it again, or name another file"
    assert said == f"error: empty.jsonl: no data in it: empty ({again})\n"


def test_a_mapping_file_that_is_not_there() -> None:
    said = ends(2, "convert", "nowhere.json", "good.jsonl", "--out", "out")
    assert said == "error: nowhere.json: no such file or directory\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "good.jsonl", "--out", "out", "--mode", "chat"], "'--mode': 'chat' is not one of"),
        (["run", "good.jsonl", "--out", "out", "--mapper", "magic"], "--mapper"),
        (["run", "good.jsonl", "--out", "out", "--records", "csv"], "--records"),
        (["run", "good.jsonl", "--out", "out", "--language", "klingon"], "klingon"),
        (["run", "good.jsonl", "--out", "out", "--limit", "0"], "--limit"),
        (["run", "good.jsonl", "--out", "out", "--limit", "many"], "--limit"),
        (["run", "good.jsonl", "--out", "out", "--mapper", "llm"], "INGOT_MODEL"),
        (["run", "good.jsonl", "--out", "out", "--tokenizer", "none.json"], "none.json"),
        (["run", "good.jsonl", "--out", "out", "--fast"], "--fast"),
        (["run", "good.jsonl"], "--out"),
        (["run"], "SOURCE"),
        (["convert", "mapping.json", "good.jsonl", "--out", "out", "--mapper", "llm"], "--mapper"),
        (["melt"], "melt"),
    ],
)
def test_usage(words: list[str], said: str) -> None:
    text = one_line(ends(2, *words))
    assert said in text
    assert text.endswith("--help)\n")


def test_no_command_at_all_shows_the_help() -> None:
    ran = CliRunner().invoke(app, [])
    assert "Usage: " in ran.output
    assert "error:" not in ran.output
    assert one_line(ends(2, "--fast")).startswith("error: No such option")


@pytest.mark.parametrize("command", ["run", "convert"])
@pytest.mark.parametrize("out", ["good.jsonl", "good.jsonl/out", "taken", "/proc/ingot-out"])
def test_a_destination_that_cannot_be_written(command: str, out: str) -> None:
    Path("taken").mkdir()
    Path("taken/letter.txt").write_text("dear reader")
    words = ["good.jsonl", "--out", out]
    more = ["--mapping", "mapping.json", "--yes"] if command == "run" else []
    before = ["mapping.json"] if command == "convert" else []
    text = one_line(ends(1, command, *before, *words, *more))
    assert out.split("/")[-1] in text
    assert Path("good.jsonl").read_bytes() == LINES
    assert [p.name for p in Path("taken").iterdir()] == ["letter.txt"]


def test_a_tokenizer_that_is_none() -> None:
    words = ("convert", "mapping.json", "good.jsonl", "--out", "out", "--tokenizer", "mapping.json")
    assert "mapping.json" in one_line(ends(1, *words))
    assert not Path("out").exists()


def test_every_row_rejected() -> None:
    Path("mapping.json").write_text(json.dumps({"version": 2, "text": "body.inner"}))
    Path("odd.jsonl").write_text('{"body": {"inner": ["x"]}}\n' * 5)
    assert "not_text 5" in ends(1, "convert", "mapping.json", "odd.jsonl", "--out", "out")
    assert not Path("out").exists()


def test_a_state_folder_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INGOT_HOME", "good.jsonl")
    assert "INGOT_HOME" in one_line(ends(1, "run", "good.jsonl", "--out", "out", *SURE))
    ends(3, "map", "good.jsonl", "--mode", "pt")  # nothing is kept, so nothing is needed


def test_a_proposal_that_cannot_be_laid_down(tmp_path: Path) -> None:
    Path("out.proposal").write_text("in the way")
    text = one_line(ends(1, "run", "good.jsonl", "--out", "out"))
    assert "out.proposal" in text


def test_names_from_archives_cannot_steer_the_terminal() -> None:
    ran: Any = CliRunner().invoke(app, ["run", "\x1b[2Jgone", "--out", "out"])
    assert ran.exit_code == 1
    assert "\x1b" not in ran.stderr


UNREAD = {
    "a.pdf": b"%PDF-1.7\n",
    "a.docx": b"PK\x03\x04",
    "printable.txt": b"%PDF-1.4\n1 0 obj\n<< /Type /Catalog >>\nendobj\n" * 9,
    "report": b"PK\x03\x04" + b"\x14\0" * 13 + b"[Content_Types].xml<?xml version='1.0'?>",
}


@pytest.mark.parametrize("name", UNREAD)
def test_formats_that_are_not_read_are_refused_by_name(name: str) -> None:
    Path("in").mkdir()
    Path("in/README.md").write_text("# Read me")
    Path("in", name).write_bytes(UNREAD[name])
    said = one_line(ends(1, "run", "in", "--mapper", "rules", "--yes", "--out", "out"))
    assert f"no file in it can be read: {name} is a" in said
    Path("in/rows.jsonl").write_bytes(LINES)
    ran = CliRunner().invoke(app, ["map", "in", "--mapper", "rules"])
    assert json.loads(ran.stdout)["text"] == "body"
    if name != "a.docx":  # which holds nothing but its name
        alone = one_line(ends(1, "run", f"in/{name}", "--mapper", "rules", "--yes", "--out", "out"))
        assert ", which is not read" in alone


@pytest.mark.parametrize("first", ["ORC", "MZ", "%PDF", "Rar!", "SQLite format 3"])
def test_a_text_that_begins_as_a_format_is_named_is_read(first: str) -> None:
    Path("a.csv").write_text(f"{first},body\n" + "".join(f"1,{row['body']}\n" for row in ROWS))
    ran = CliRunner().invoke(app, ["map", "a.csv", "--mapper", "rules"])
    assert json.loads(ran.stdout)["text"] == "body"


def test_lines_of_markup_are_text_where_the_format_says_so() -> None:
    Path("pages.txt").write_text("<html>one page</html>\n" * 60)
    Path("m.json").write_text('{"version": 2, "source": {"format": "text"}, "text": "text"}')
    ran = CliRunner().invoke(app, ["convert", "m.json", "pages.txt", "--out", "out"])
    assert ran.exit_code == 0, ran.output


def test_the_prompt_for_a_folder_without_data() -> None:
    Path("docs").mkdir()
    Path("docs/README.md").write_text("# Read me")
    assert "no model would be asked: irrelevant" in ends(0, "map", "docs", "--show-prompt")


@pytest.mark.parametrize("url", ["s3://bucket/out", "gs://bucket/out", "file:///bucket/out"])
@pytest.mark.parametrize(
    "words",
    [  # `run`, `convert` and `tokens build` write to object stores
        ("run", "good.jsonl", "--mapper", "rules", "--yes", "--out"),
        ("map", "good.jsonl", "--mapper", "rules", "--output"),
        ("convert", "mapping.json", "good.jsonl", "--out"),
        ("lake", "run", "lake", "--mapper", "rules", "--out"),
        ("tokens", "build", "--input-dir", "pq", "--tokenizer", TOKENIZER, "--output-prefix"),
    ],
    ids=lambda words: words[0],
)
def test_results_are_not_written_to_urls(words: tuple[str, ...], url: str) -> None:
    if words[0] in ("run", "convert", "tokens"):
        url = "file:///bucket/out"
    Path("lake").mkdir()
    Path("lake/good.jsonl").write_bytes(LINES)
    Path("pq").mkdir()
    pq.write_table(pa.table({"text": ["Some text."]}), "pq/a.parquet")
    before = {*Path().iterdir()}
    assert "is a URL, and results are written to local disks only" in ends(1, *words, url)
    assert {*Path().iterdir()} - {Path("state")} == before


def test_numbers_that_are_not_finite_are_noted_and_lose_no_row() -> None:
    rows = [{**row, "loss": math.nan if n % 3 == 1 else 0.5} for n, row in enumerate(ROWS)]
    Path("nan.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ran = CliRunner().invoke(
        app, ["run", "nan.jsonl", "--mapping", "mapping.json", "--out", "out", "--yes"]
    )
    note = "NaN or Infinity was read as null: 67 numbers in 67 rows, the first in nan.jsonl row 1"
    assert ran.exit_code == 0, ran.output
    assert f"warning  {note}\n" in ran.stdout
    assert "200 converted, 0 rejected" in ran.stdout
    report = Path("out/report.md").read_text()
    assert report.count(note) == 2  # of the sample, and of all rows


@pytest.mark.more
def test_a_name_that_is_no_text_is_no_mistake_of_the_report() -> None:
    folder = Path("odd")
    folder.mkdir()
    (folder / os.fsdecode(b"two\xff.jsonl")).write_bytes(LINES)
    (folder / "good.jsonl").write_bytes(LINES)
    ran = CliRunner().invoke(app, ["run", "odd", "--out", "result", *SURE])
    assert ran.exit_code == 0, ran.output
    assert "two\\udcff.jsonl" in Path("result/report.md").read_text("utf-8")


@pytest.mark.more
def test_results_and_consoles_of_every_locale() -> None:
    name = "s\u00e4tze.jsonl"
    Path(name).write_bytes(LINES + '{"body": "\u6f22\u5b57 und mehr davon"}\n'.encode())
    ends(0, "convert", "mapping.json", name, "--out", "here")
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for out, more in {"ascii": {"PYTHONIOENCODING": "ascii"}, "c": {}}.items():
        for words in (
            ["convert", "mapping.json", name, "--out", out],
            ["check", "mapping.json", name],
        ):
            said = subprocess.run(
                [sys.executable, "-m", "ingot", *words],
                env={**os.environ, **plain, **more},
                capture_output=True,
                check=True,
            )
            assert b"Traceback" not in said.stderr
        made, here = (Path(one, "manifest.json").read_bytes() for one in (out, "here"))
        assert made == here
