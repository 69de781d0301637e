"""`ingot merge` finds the commands of a job's parts where their runs left them."""

import json
from pathlib import Path

import pytest

from ingot.cli.commands.merge import find_commands
from tests.command_line import ingot


def note(file: Path, *words: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"arguments": words, "folder": "/jobs"}))


@pytest.mark.parametrize("name", ["o", "o [a-z]*"])
def test_the_commands_of_parts_are_found(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    note(tmp_path / f"{name}/.ingot-lake/command.json", "lake", "--shard", "0/2")
    note(tmp_path / f".{name}.ingot-stage-0af1/work/command.json", "convert", "--shard=1/2")
    note(tmp_path / f"{name}.command.tmp", "tokens", "--shard", "1/2", "--quiet")
    (tmp_path / f".{name}.ingot-stage-ffff/work").mkdir(parents=True)  # without parts
    note(tmp_path / f".{name}.ingot-stage-0af2/work/command.json", "other")
    note(tmp_path / f".{name}.ingot-stage-0af2/foreign", "other")
    note(tmp_path / f".{name}2.ingot-stage-0af1/work/command.json", "other")
    note(tmp_path / f"{name}2.command.tmp", "other")
    monkeypatch.chdir(tmp_path)
    for place in (name, f"{name}/", str(tmp_path / name)):
        assert [(" ".join(words), folder) for words, folder, _ in find_commands(place)] == [
            ("lake --shard merge", "/jobs"),
            ("convert --shard merge", "/jobs"),
            ("tokens --quiet --shard merge", "/jobs"),
        ]
    assert find_commands("nowhere/o") == []


@pytest.mark.parametrize("place", [".", "..", "/", "nothing/here"])
def test_where_no_part_has_run_it_says_so(tmp_path: Path, place: str) -> None:
    done = ingot("merge", place, folder=tmp_path, code=1)
    assert "has no parts (run the command of the parts with `--shard merge`)" in done.stderr
