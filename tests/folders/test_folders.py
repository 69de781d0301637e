"""Folders as public repositories hold them: a run gives the right records, or it stops.

Each kind has the layout of one of 37 public folders, with a text of our own. What fails is a run
that writes other records than a careful person wants and ends with 0.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ingot.cli.app import app
from tests.conftest import SURE
from tests.folders import dialogues, other_files, questions
from tests.folders.kinds import KINDS, Kind, Wanted

_MODULES = (dialogues, other_files, questions)  # importing them enters their kinds


def _records(out: Path) -> list[Any]:
    files = sorted(out.glob("records/**/*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]


def _wanted_form(record: Any) -> Wanted:
    if record.get("text") is not None:
        return str(record["text"]).strip()
    said = [(one["role"], one["content"].strip()) for one in record["messages"]]
    system = record.get("system")
    return tuple([("system", system.strip()), *said] if system else said)


def _false_language(record: Any) -> bool:
    """Whether the language that a record states is one that its letters exclude."""
    text = str(_wanted_form(record))
    chinese = sum("\u4e00" <= letter <= "\u9fff" for letter in text)
    language = record["meta"]["language"]
    return (language == "en" and 4 * chinese > len(text)) or (language == "zh" and not chinese)


def _summary(stdout: str) -> str:
    result = json.loads(stdout or "{}")
    kept = [result.get(name) for name in ("status", "decision", "confidence", "reason", "why")]
    return f"{kept} {[one['name'] for one in result.get('source', {}).get('left_out', ())]}"


@pytest.mark.more
@pytest.mark.parametrize("one", KINDS, ids=[one.name for one in KINDS])
def test_a_run_is_right_or_stops(
    one: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INGOT_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / one.name
    folder.mkdir()
    truth = one.build(folder)
    words = ["--mode", one.mode, "--mapper", "rules", "--records", "jsonl", *SURE, "--json"]
    ran = CliRunner().invoke(app, ["run", str(folder), "--out", "out", *words])
    told = _summary(ran.stdout)
    if ran.exit_code == 0:
        records = _records(tmp_path / "out")
        written = sorted(map(_wanted_form, records), key=str)
        if not any(written == sorted(wanted, key=str) for wanted in truth):
            pytest.fail(f"silently wrong: {len(written)} records, {written[:1]}; {told}", False)
        assert not [record for record in records if _false_language(record)], told
    else:
        assert ran.exit_code in (1, 3), ran.stderr
        assert "error: " in ran.stderr
        assert (tmp_path / "out.proposal").is_dir() is (ran.exit_code == 3), ran.stderr
        assert not (tmp_path / "out").exists()
    outcome = "stopped" if ran.exit_code else "right"
    assert outcome == one.outcome, f"{told} {ran.stderr}"


def test_there_are_37_kinds() -> None:
    outcomes = [one.outcome for one in KINDS]
    assert (len(outcomes), outcomes.count("right")) == (37, 21)
