"""State that an earlier ingot left: a lake, a waiting run, answers, a pinned sample, a chat.

`tests/golden/former/README.md` says how the folder was made.
"""

import json
import os
import shutil
import tarfile
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ingot.cli.app import app
from tests.conftest import SURE

ARCHIVE = Path(__file__).parent / "golden" / "former" / "c17f53e.tar.gz"
# Stored places are absolute and, in the checkpoints, stand behind their length: the folder of the
# archive had a path of 120 bytes, and the folder of a test gets one of the same length.
MADE_AT = f"/tmp/ingot-former-{'x' * 102}"
CLI = CliRunner()


@pytest.fixture
def former(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that c17f53e made, with the places in its files moved to where it lies now."""
    room = len(MADE_AT) - len(os.fsencode(tmp_path)) - 1
    if room < 1:
        pytest.skip("the temporary folder has too long a path")
    here = tmp_path / ("x" * room)
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(here, filter="data")
    for file in here.rglob("*"):
        if file.is_file() and MADE_AT.encode() in file.read_bytes():
            before = file.stat().st_mtime_ns
            file.write_bytes(file.read_bytes().replace(MADE_AT.encode(), os.fsencode(here)))
            os.utime(file, ns=(before, before))
    monkeypatch.setenv("INGOT_HOME", str(here / "home"))
    monkeypatch.chdir(here)
    return here


def ingot(*arguments: str, code: int = 0) -> Result:
    """Run a command; its exit code has to be `code`."""
    result = CLI.invoke(app, [*arguments])
    assert result.exit_code == code, result.output
    return result


def lake_run(former: Path) -> dict[str, str]:
    """Run the lake; return the status of every data set."""
    arguments = (
        "--out",
        "lake",
        "--mapper",
        "rules",
        "--min-confidence",
        "0.75",
        "--yes",
        "--json",
    )
    page = ingot("lake", "run", "raw", *arguments).stdout
    return {entry["name"]: entry["status"] for entry in json.loads(page)["sets"]}


@pytest.mark.more
def test_lake_is_continued(former: Path) -> None:
    """Finished data sets stay as they are, and the one that waited is converted once approved."""
    parts = sorted(former.glob("lake/sets/*/records/*.parquet"))
    before = [(part.stat().st_mtime_ns, part.read_bytes()) for part in parts]
    done = {"kitchen": "converted", "letters": "converted"}
    assert lake_run(former) == {**done, "notebook": "waiting"}
    assert [(part.stat().st_mtime_ns, part.read_bytes()) for part in parts] == before
    assert len(before) == 2

    waiting = former / "lake" / "sets" / "notebook.proposal" / "mapping.json"
    shutil.copy(waiting, former / "lake" / "mappings" / "notebook.json")
    assert lake_run(former) == {**done, "notebook": "converted"}
    assert [(part.stat().st_mtime_ns, part.read_bytes()) for part in parts] == before


@pytest.mark.more
def test_waiting_run_resumes(former: Path) -> None:
    """A run that stopped for review goes on in the same command, with the stored proposal."""
    proposed = (former / "out.proposal" / "mapping.json").read_bytes()
    ingot("run", "exam", "--out", "out", "--mapper", "rules", *SURE)
    mapping = json.loads((former / "out" / "mapping.json").read_bytes())
    stored = json.loads(proposed)
    for one in (mapping, stored):  # a proposal made anew is as sure as the rules of today are
        one["provenance"].pop("confidence")
    assert mapping == stored
    manifest = json.loads((former / "out" / "manifest.json").read_bytes())
    assert manifest["rows"]["read"] == 42
    assert not (former / "out.proposal").exists()


def test_answers_are_remembered(former: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model's answer is in the memory of calls: nothing listens at its address any more.

    An answer counts for the prompts that it was given to, so those of that time are assumed.
    """
    asked = json.loads((former / "asked.json").read_bytes())["provenance"]["prompt_sha256"]
    monkeypatch.setattr("ingot.agent.proposing.llm.question.prompt_hash", lambda _: asked)
    ask = ("map", "exam", "--mapper", "llm", "--model", "m", "--base-url")
    ingot(*ask, "http://127.0.0.1:47183/v1", "-o", "again.json")
    old, new = (json.loads((former / name).read_bytes()) for name in ("asked.json", "again.json"))
    assert new == old


def test_pinned_sample_is_checked(former: Path) -> None:
    """A mapping is checked on the sample that was pinned beside it."""
    (former / "exam").rename(former / "elsewhere")
    report = json.loads(ingot("check", "pinned/exam.json", "--json").stdout)
    assert report["check"]["rows"] == 42
    assert report["problems"] == []


def test_chat_is_listed(former: Path) -> None:
    """A conversation that was kept can be gone on with."""
    listed = ingot("chat", "--list").stdout
    assert "exam" in listed
