"""docs/lakehouse.md: every command of the page runs, and gives what the page says."""

import os
import re
import shlex
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

pytest.importorskip("deltalake", reason="deltalake is not installed: make test-more brings it")
pytest.importorskip("pyiceberg", reason="pyiceberg is not installed: make test-more brings it")
from deltalake import DeltaTable, write_deltalake

from ingot.cli.app import app
from ingot.converters.json_yaml import load_json
from ingot.converters.records.readers import read_records
from tests.converters.sources.tables.iceberg_tables import make_table
from tests.s3_server import s3_storage

pytestmark = pytest.mark.more

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/lakehouse.md").read_text(encoding="utf-8")


def chats(first: int, last: int) -> pa.Table:
    names = [f"word{n % 7} of {n}" for n in range(first, last)]
    questions = [f"What does {name} mean, and who says so?" for name in names]
    answers = [f"It means that {name} is a word of an example, nothing else." for name in names]
    return pa.table({"question": questions, "answer": answers})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A warehouse with two tables: 30 rows of 60 in its second version, and 40 rows."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INGOT_HOME", str(tmp_path / "home"))
    shutil.copyfile(ROOT / "examples/tokenizer/tokenizer.json", "tokenizer.json")
    write_deltalake("warehouse/chats", chats(0, 60))
    DeltaTable("warehouse/chats").delete("answer LIKE '%word1 %' OR answer LIKE '%word2 %'")
    return tmp_path


def run(line: str) -> str:
    program, *arguments = shlex.split(line.partition("#")[0])
    assert program == "ingot"
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, (line, done.output)
    return done.output


def test_the_ten_lines(folder: Path) -> None:
    lines = re.findall(r"^\$ (ingot .*)$", PAGE, re.M)
    assert len(lines) == 4
    for line in lines:
        run(line)
    kept = pa.table(DeltaTable("chats/records").get_add_actions(flatten=True))["num_records"]
    assert sum(kept.to_pylist()) == len(list(read_records(folder / "chats/records"))) == 42
    assert load_json(folder / "chats/manifest.json")["tables"][0]["version"] == 1
    assert load_json(folder / "chats-before/manifest.json")["rows"]["read"] == 60
    assert (folder / "chats-tokens.bin").stat().st_size
    line = "tokens build --input-dir warehouse/chats --output-prefix t --tokenizer tokenizer.json"
    refused = CliRunner().invoke(app, shlex.split(line))
    assert refused.exit_code == 1
    assert "files of former versions and deleted rows" in refused.output
    around = CliRunner().invoke(app, shlex.split(line.replace("warehouse/chats ", "warehouse ")))
    assert around.exit_code == 1
    assert "files of former versions and deleted rows" in around.output
    (shown,) = re.findall(r"^    table +(.*)$", PAGE, re.M)
    assert shown in run("ingot run warehouse/chats --out shown --yes --mapper rules")
    assert shown in (folder / "shown/report.md").read_text()


def test_the_locations(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = re.findall(r"^    (ingot .*)$", PAGE, re.M)
    assert len(lines) == 5
    table = make_table(folder / "iceberg", chats(0, 1).schema)
    table.append(chats(0, 40))
    metadata = Path(table.metadata_location.removeprefix("file://"))
    shutil.copytree(metadata.parent.parent, folder / "warehouse/people")
    shutil.copyfile(metadata, folder / "warehouse/people/metadata/v3.metadata.json")
    monkeypatch.setenv("PYICEBERG_CATALOG__LOCAL__URI", f"sqlite:///{folder}/iceberg/catalog.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__LOCAL__TYPE", "sql")
    with s3_storage() as storage:
        for name, value in storage.environment().items():
            monkeypatch.setenv(name, value)
        files = [Path(top) / one for top, _, names in os.walk("warehouse/chats") for one in names]
        storage.put("bucket", {one.as_posix(): one.read_bytes() for one in files})
        for line in lines:
            renamed = line.replace("prod/crm.people", "local/db.people").replace(
                "chats@12", "chats@1"
            )
            run(renamed)
    sets = {one.name for one in (folder / "out/sets").iterdir()}
    assert sets == {"chats", "people"}
