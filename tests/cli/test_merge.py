"""`ingot merge` finds the commands of a job's parts where their runs left them."""

import json
import sys
from pathlib import Path

import pytest

import ingot as api
from ingot import __main__
from ingot.cli.commands.merge import find_commands
from ingot.converters.errors import PartDone
from ingot.converters.output.sharding import JobShard, command_document
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


@pytest.mark.parametrize(
    ("typed", "merging"),
    [
        ("convert m raw --shard 0/2", "convert m raw --shard merge"),
        ("convert --shard=0/2 m raw", "convert m raw --shard merge"),
        ("convert --shard 0/2 m raw --shard 1/2", "convert m raw --shard merge"),
        ("convert --shard 0/2 -- m -raw", "convert --shard merge -- m -raw"),
        ("convert -- m -raw", "convert --shard merge -- m -raw"),  # of INGOT_SHARD
        ("convert m raw", "convert m raw --shard merge"),
    ],
)
def test_the_shard_of_a_part_becomes_the_merge(tmp_path: Path, typed: str, merging: str) -> None:
    note(tmp_path / ".o.ingot-stage-0af1/work/command.json", *typed.split())
    ((words, _, _),) = find_commands(str(tmp_path / "o"))
    assert " ".join(words) == merging


def test_a_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    note(tmp_path / ".o.ingot-stage-0af1/work/command.json", "convert", "--shard", "0/2")
    done = ingot("merge", tmp_path / "o", code=1)
    assert "was begun in /jobs, which cannot be entered here" in done.stderr


@pytest.mark.parametrize(("name", "before"), [("ingot", []), ("parquet2mbt", ["tokens", "build"])])
def test_the_command_line_is_noted_as_ingot_runs_it(
    name: str, before: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingot.converters.output.sharding._COMMAND", [])
    monkeypatch.setattr(__main__, "_begin", lambda: None)
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit):
        __main__.main(name)
    assert json.loads(command_document())["arguments"] == [*before, "--help"]


def test_parts_that_python_began_are_merged_by_python(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    for number in range(3):
        rows = [{"text": f"The long text {number} of row {row} is here."} for row in range(20)]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / "raw" / f"{number}.jsonl").write_text(lines)

    def convert(shard: JobShard) -> None:
        options = api.ConvertOptions(shard=shard)
        mapping = {"version": 2, "text": "text"}
        api.convert(tmp_path / "raw", mapping, tmp_path / "o", options)

    with pytest.raises(PartDone):
        convert(JobShard(0, 2))
    done = ingot("merge", tmp_path / "o", code=1)
    assert "were begun from Python" in done.stderr
    with pytest.raises(PartDone):
        convert(JobShard(1, 2))
    convert(JobShard())
    assert (tmp_path / "o" / "manifest.json").exists()
