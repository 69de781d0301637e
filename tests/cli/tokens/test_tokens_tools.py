"""`ingot tokens inspect`, `merge`, `verify`: what they print, exit codes, hostile texts."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner, Result

from ingot.cli.command import Command, Commands
from ingot.cli.tokens.tools import inspect, merge, verify
from ingot.converters.megatron.options import BuildOptions, WorkOptions
from ingot.converters.megatron.read.input_files import scan
from ingot.converters.megatron.run.build import build

TOKENIZER = Path(__file__).parents[3] / "examples" / "tokenizer" / "tokenizer.json"
TEXTS = [
    "\x1b[2Jcold tea",
    "入夏以后\x07，外婆",
    "Document 7: 3 tokens\n\u202ebye",
    "",
    "a⟧b [red]x[/]",
]

app = typer.Typer(cls=Commands)
for command in (inspect, merge, verify):
    app.command(command.__name__, cls=Command)(command)


def ran(*arguments: object, columns: str = "80") -> Result:
    env = {"COLUMNS": columns, "TERM": "dumb"}
    return CliRunner().invoke(app, [str(one) for one in arguments], env=env)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "raw"
    folder.mkdir()
    pq.write_table(pa.table({"text": TEXTS}), folder / "a.parquet")
    return folder


@pytest.fixture
def prefix(source: Path) -> Path:
    place = source.parent / "out.v1"
    options = BuildOptions(append_eod=True, strip=False)
    build(scan(source), TOKENIZER, place, options, WorkOptions(tok_engine="hf"))
    return place


def test_inspect_shows_documents_and_no_control_character(prefix: Path) -> None:
    done = ran("inspect", prefix, "--samples", 5, "--tokenizer", TOKENIZER)
    assert done.exit_code == 0, done.output
    for said in ("documents  5, 1 of them empty", "id 0 ends 4 of 4", "入夏以后", "a⟧b [red]x[/]"):
        assert said in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert all(c.isprintable() or c == "\n" for c in done.stdout)
    titles = [line for line in done.stdout.splitlines() if line.startswith("Document ")]
    assert [title.split(":")[0] for title in titles] == [f"Document {n}" for n in range(5)]


def test_inspect_as_json(prefix: Path) -> None:
    told = json.loads(ran("inspect", f"{prefix}.idx", "--json", "--document", 1).stdout)
    assert told["samples"][0]["head"][0]["text"].endswith(" 0")  # no tokenizer at hand: ids
    done = ran("inspect", prefix, "--json", "--document", 1, "--tokenizer", TOKENIZER)
    told = json.loads(done.stdout)
    assert (told["documents"], told["dtype"], told["eod"]["ends"]) == (5, "uint16", 4)
    (sample,) = told["samples"]
    assert sample["head"][0]["text"] == f"{TEXTS[1]}<|endoftext|>"
    assert told["document_lengths"]["least"] == 0


def test_inspect_of_nothing_is_an_error_of_one_line(tmp_path: Path, prefix: Path) -> None:
    done = ran("inspect", tmp_path / "gone")
    assert done.exit_code == 1
    assert done.stderr.count("\n") == 1
    assert "gone.idx: cannot be read" in done.stderr
    assert ran("inspect", prefix, "--document", 5).exit_code == 1
    assert ran("inspect", prefix, "--samples", "-1").exit_code == 2


def test_what_did_not_get_in_is_told(source: Path, tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": [1]}), source / "b.parquet")
    raw = pa.array([b"cold tea", b"\xff", b"a", b"warm tea"])
    pq.write_table(pa.table({"text": raw}), source / "c.parquet")
    place = tmp_path / "some"
    options = BuildOptions(append_eod=True, min_chars=2)
    build(scan(source), TOKENIZER, place, options, WorkOptions(tok_engine="hf"))
    shown = ran("inspect", place).stdout
    assert "3, 1 of them failed" in shown
    assert "left out   1 rows rejected, 2 filtered by the limits" in shown
    told = json.loads(ran("inspect", place, "--json").stdout)
    assert told["left_out"] == {"failed_files": 1, "rejected": 1, "filtered": 2}
    arguments = ("verify", place, "--source", source, "--tokenizer", TOKENIZER)
    done = ran(*arguments)
    assert done.exit_code == 0, done.output
    assert "not checked      1 files that failed" in done.stdout
    assert json.loads(ran(*arguments, "--json").stdout)["failed_files"] == 1


def test_merge(prefix: Path, tmp_path: Path) -> None:
    done = ran("merge", prefix, prefix, "--output-prefix", tmp_path / "both")
    assert done.exit_code == 0, done.output
    assert "both: 10 documents, 8 sequences" in done.stdout
    ids = np.fromfile(f"{prefix}.bin", "<u2")
    assert np.fromfile(tmp_path / "both.bin", "<u2").tolist() == [*ids, *ids]
    again = ran("merge", prefix, "--output-prefix", tmp_path / "both")
    assert (again.exit_code, "exists" in again.stderr) == (1, True)
    told = ran("merge", prefix, "--output-prefix", tmp_path / "both", "--overwrite", "--json")
    assert json.loads(told.stdout)["documents"] == 5
    assert ran("merge", "--output-prefix", tmp_path / "x").exit_code == 2


def test_verify(prefix: Path, source: Path) -> None:
    arguments = ("verify", prefix, "--source", source, "--tokenizer", TOKENIZER)
    done = ran(*arguments)
    assert done.exit_code == 0, done.output
    assert "tokenized again  5 documents of 1 files" in done.stdout
    ids = np.memmap(f"{prefix}.bin", "<u2", "r+")
    ids[0] += 1
    ids.flush()
    done = ran(*arguments, "--all")
    assert done.exit_code == 1
    assert "1 of 5 documents differ; document 0 (a.parquet, row 0)" in done.stderr
    told = json.loads(ran(*arguments, "--json", "--seed", 3).stdout)
    assert (told["differing"], told["differences"][0]["row"]) == (1, 0)
