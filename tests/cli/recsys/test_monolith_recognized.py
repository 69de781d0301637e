"""Streams of Monolith in `ingot run` and `ingot map`: what they are, and the command."""

import gzip
import json
import lzma
import shutil
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ingot.cli.app import app
from tests.command_line import ingot

GOLDEN = Path(__file__).parents[2] / "golden" / "monolith"
COMMAND = "ingot monolith convert {} OUT --from {} --to {}"


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INGOT_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


def told(*words: object) -> Any:
    return json.loads(ingot(*words, "--json").stdout)


def put(name: str, as_name: str) -> Path:
    Path(as_name).parent.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(GOLDEN / name, as_name))


def test_a_file_is_irrelevant_and_the_command_is_named() -> None:
    file = put("mono_examplebatch_sortid.pb", "some data")
    done = told("run", file, "--out", "out", "--yes")
    assert (done["status"], done["decision"]) == ("irrelevant", "irrelevant")
    assert COMMAND.format("'some data'", "examplebatch", "example") + " (look" in done["reason"]
    manifest = json.loads(Path("out/manifest.json").read_text())
    assert (manifest["decision"], manifest["reason"]) == ("irrelevant", done["reason"])


def test_the_framing_is_named() -> None:
    file = put("mono_example_plain.pb", "a.pb")
    command = COMMAND.format("a.pb", "example", "examplebatch")
    assert f"{command} --framing none (look" in told("map", file)["reason"]


def test_a_folder_is_what_its_largest_file_is() -> None:
    put("mono_example_sortid.pb", "data/part-0")
    Path("data/notes.txt").write_text("Where this came from.\n" * 5)
    command = COMMAND.format("FOLDER", "example", "examplebatch")
    assert command in told("map", "data")["reason"]
    Path("data/notes.txt").write_text("Where this came from.\n" * 10_000)
    ran = CliRunner().invoke(app, ["map", "data", "--mapper", "rules", "--json"])
    assert ran.exit_code == 3  # not sure that there is nothing to convert
    assert "Monolith" not in json.loads(ran.stdout)["reason"]


def test_compressed() -> None:
    data = (GOLDEN / "mono_example_sortid.pb").read_bytes()
    Path("a.gz").write_bytes(gzip.compress(data))
    Path("b.zlib").write_bytes(zlib.compress(data))
    for name in ("a.gz", "b.zlib"):
        assert COMMAND.format(name, "example", "examplebatch") in told("map", name)["reason"]


def test_a_compression_that_monolith_has_not() -> None:
    Path("a.xz").write_bytes(lzma.compress((GOLDEN / "mono_example_sortid.pb").read_bytes()))
    assert "Undo xz first, and see ingot monolith convert" in told("map", "a.xz")["reason"]


def test_files_in_an_archive_are_to_be_unpacked() -> None:
    put("mono_example_sortid.pb", "raw/part-0")
    with tarfile.open("raw.tar.gz", "w:gz") as archive:
        archive.add("raw")
    assert "part-0 lies in an archive: unpack it" in told("map", "raw.tar.gz")["reason"]


def test_no_model_is_asked(model_saying: Callable[..., str]) -> None:
    root = model_saying({"decision": "pt"})
    words = ("--mapper", "llm", "--model", "some", "--base-url", root)
    done = told("run", put("mono_example_plain.pb", "a"), "--out", "out", "--yes", *words)
    assert done["status"] == "irrelevant"
    assert not done.get("usage")


@pytest.mark.parametrize("command", ["convert", "check"])
def test_with_a_mapping_the_file_is_said_to_hold_no_row(command: str) -> None:
    put("mono_example_plain.pb", "a.pb")
    Path("m.json").write_text(json.dumps({"version": 2, "text": "text"}))
    words = [command, "m.json", "a.pb", *(["--out", "out"] if command == "convert" else [])]
    ran = CliRunner().invoke(app, words)
    assert ran.exit_code == 1
    assert "holds no rows (a.pb: a stream of Monolith)" in ran.output


def test_other_bytes_are_an_error_as_before() -> None:
    put("example_batch.pb", "a.pb")  # a message alone, no stream
    ran = CliRunner().invoke(app, ["map", "a.pb"])
    assert (ran.exit_code, "no data in it: binary data" in ran.output) == (1, True)
