"""The four commands on real files: what they write and print, and where."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from ingot import __version__
from ingot.agent.proposing.proposal import confidence_text
from ingot.cli.app import app
from ingot.converters.convert import plan
from ingot.converters.output import pieces

MAPPING = {
    "version": 2,
    "messages": [
        {"role": "user", "content": "question"},
        {"role": "assistant", "content": "answer"},
    ],
    "meta": {"original_id": "id"},
}
TOPICS = ("rivers", "bridges", "clouds", "violins", "bread", "maps", "glass", "salt")


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INGOT_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Sixteen questions with answers, and a row without an answer."""
    file = tmp_path / "raw.jsonl"
    rows: list[dict[str, Any]] = [
        {
            "id": f"q{n:03}",
            "question": f"What should I know about {topic} before part {n} of the course?",
            "answer": f"Part {n} takes {topic} for granted; the first chapter says it all.",
        }
        for n, topic in enumerate(TOPICS * 2)
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in [*rows, {**rows[0], "answer": ""}]))
    return file


@pytest.fixture
def mapping(tmp_path: Path) -> Path:
    file = tmp_path / "mapping.json"
    file.write_text(json.dumps(MAPPING))
    return file


def ingot(*words: object, code: int = 0, text: str | None = None) -> Any:
    """Run the command in this process; standard input is no terminal."""
    ran = CliRunner().invoke(app, [str(word) for word in words], input=text)
    if ran.exception and not isinstance(ran.exception, SystemExit):
        raise ran.exception
    assert ran.exit_code == code, ran.output
    return ran


def test_run_writes_the_whole_result(data: Path, tmp_path: Path) -> None:
    ran = ingot("run", data, "--out", "out", "--mapper", "rules", "--yes")
    out = tmp_path / "out"
    assert {p.name for p in out.iterdir()} == {
        "mapping.json",
        "manifest.json",
        "run.json",
        "report.md",
        "records",
        "rejected",
    }
    table = pq.read_table(out / "records" / "part-00000.parquet")
    assert table.num_rows == 16
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["rows"] == {"read": 17, "converted": 16, "rejected": 1, "filtered": 0}
    assert "report.md" in [file["path"] for file in manifest["files"]]
    assert "sft by rules" in ran.stdout
    assert "17 read, 16 converted, 1 rejected, 0 filtered" in ran.stdout
    assert "no_assistant 1" in ran.stdout
    assert str(out) in ran.stdout
    assert ran.stderr == ""


@pytest.mark.more
def test_equal_runs_give_equal_bytes(data: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        ingot("run", data, "--out", name, "--records", "jsonl", "--yes")
    one, two = tmp_path / "one", tmp_path / "two"
    files = [f.relative_to(one) for f in one.rglob("*") if f.is_file() and f.name != "run.json"]
    assert len(files) >= 5
    for file in files:
        assert (one / file).read_bytes() == (two / file).read_bytes(), file


@pytest.mark.more
def test_any_number_of_workers_gives_equal_bytes(
    data: Path, mapping: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four files of a shard each; a pool is opened for the processes beside this one."""
    folder, opened = tmp_path / "raw", []
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.jsonl").write_bytes(data.read_bytes())

    class Pool(pieces.Workers):
        def __init__(self, jobs: int, **more: Any) -> None:
            opened.append(jobs)
            super().__init__(jobs, **more)

    monkeypatch.setattr(plan, "SHARD_BYTES", 1)
    monkeypatch.setattr(pieces, "Workers", Pool)
    for number in (1, 2, 9):
        out = tmp_path / f"c{number}"
        ingot("convert", mapping, folder, "--out", out, "--workers", number)
    ingot("run", folder, "--out", tmp_path / "r", "--mapping", mapping, "--yes", "--workers", 3)
    assert opened == [1, 3, 2]  # one process needs no pool, four shards no fifth process
    written = [
        {
            file.relative_to(tmp_path / name): file.read_bytes()
            for file in sorted((tmp_path / name).rglob("*"))
            if file.is_file() and file.name not in ("run.json", "report.md")
        }
        for name in ("c1", "c2", "c9", "r")
    ]
    assert len(written[0]) > 4
    assert all(one == written[0] for one in written)
    ingot("convert", mapping, folder, "--out", "d", "--workers", 0, code=2)


@pytest.mark.more
def test_a_second_run_finds_the_result(data: Path) -> None:
    ingot("run", data, "--out", "out", "--yes")
    again = ingot("run", data, "--out", "out", "--yes", "--json")
    assert json.loads(again.stdout)["status"] == "already_done"
    other = ("run", data, "--out", "out", "--yes", "--limit", "3")
    assert "--overwrite" in ingot(*other, code=1).stderr
    told = json.loads(ingot(*other, "--overwrite", "--json").stdout)
    assert told["result"]["manifest"]["rows"]["read"] == 3


def test_run_without_a_terminal_waits_for_a_person(data: Path, tmp_path: Path) -> None:
    ran = ingot("run", data, "--out", "out", code=3)
    waiting = tmp_path / "out.proposal"
    assert not (tmp_path / "out").exists()
    assert "16/17 sampled rows" in (waiting / "report.md").read_text()
    assert json.loads((waiting / "mapping.json").read_text())["messages"]
    error, *ways = ran.stderr.splitlines()
    assert error.startswith("error: out.proposal/: ")
    assert ways[:2] == [
        "  read out.proposal/report.md",
        "  to approve it: the same command with --yes",
    ]
    assert "--mapping out.proposal/mapping.json" in ways[2]
    assert ran.stdout == ""


@pytest.mark.more
def test_the_way_on_from_a_waiting_proposal(data: Path, tmp_path: Path) -> None:
    import shlex

    ran = ingot("run", data, "--out", "out", "--records", "jsonl", "--source", "my set", code=3)
    command = ran.stderr.strip().split("then: ")[1]
    assert shlex.split(command)[:2] == ["ingot", "run"]
    ingot(*shlex.split(command)[1:])
    (part,) = (tmp_path / "out" / "records").iterdir()
    assert json.loads(part.read_text().splitlines()[0])["meta"]["source"] == "my set"


@pytest.mark.more
def test_the_same_command_with_yes_goes_on_too(data: Path, tmp_path: Path) -> None:
    ingot("run", data, "--out", "out", code=3)
    assert (tmp_path / "out.proposal").exists()
    ingot("run", data, "--out", "out", "--yes")
    assert (tmp_path / "out" / "manifest.json").exists()
    assert not (tmp_path / "out.proposal").exists()


@pytest.mark.more
@pytest.mark.parametrize("more", [(), ("--yes",), ("--language", "en")])
def test_a_proposal_edited_by_hand_is_neither_lost_nor_ignored(
    data: Path, tmp_path: Path, more: tuple[str, ...]
) -> None:
    import shlex

    ingot("run", data, "--out", "out", code=3)
    file = tmp_path / "out.proposal" / "mapping.json"
    edited = json.dumps(MAPPING)
    file.write_text(edited)
    said = ingot("run", data, "--out", "out", *more, code=3).stderr
    assert said.startswith("error: out.proposal/mapping.json: was edited since it was proposed\n")
    assert "to drop it: delete out.proposal/mapping.json" in said
    assert file.read_text() == edited
    assert not (tmp_path / "out").exists()
    command = said.split("to use it: ")[1].splitlines()[0]
    ingot(*shlex.split(command.removesuffix(" --yes"))[1:], code=3)  # waits, and keeps the file
    assert file.read_text() == edited
    ingot(*shlex.split(command)[1:])
    saved = json.loads((tmp_path / "out" / "mapping.json").read_text())
    assert saved["messages"] == MAPPING["messages"]
    assert file.read_text() == edited


@pytest.mark.more
def test_an_unsure_proposal_says_so(tmp_path: Path) -> None:
    # Two texts written for each other under names that say so in no list: a document or a pair?
    file = tmp_path / "unsure.csv"
    places = ("north", "old town", "harbour", "mill")
    rows = [
        f"T-{n};The parcel number {n} came open.;We sent parcel {n} to the {places[n % 4]} again."
        for n in range(30)
    ]
    file.write_text("\n".join(["Ticket;Complaint;Remedy", *rows]))
    doubted = ("--yes", "--min-confidence", "0")
    told = json.loads(ingot("run", file, "--out", "o1", *doubted, "--json").stdout)
    assert told["confidence"] < 0.7
    sure = confidence_text(told["confidence"])
    said = f"the rules are unsure ({sure}): look at o2/report.md"
    assert told["notes"] == [said.replace("o2", "o1")]
    assert said in ingot("run", file, "--out", "o2", *doubted).stdout


@pytest.mark.more
def test_below_the_least_confidence_a_person_decides(data: Path, tmp_path: Path) -> None:
    sure = json.loads(ingot("map", data, "--json").stdout)["confidence"]
    ran = ingot("run", data, "--out", "out", "--yes", "--min-confidence", "0.999", code=3)
    low = f"confidence {confidence_text(sure)} is below --min-confidence 0.999"
    assert low in ran.stderr
    assert not Path("out").exists()
    assert Path("out.proposal/mapping.json").is_file()
    last = ran.stderr.split("to approve it: ")[1].splitlines()[0]
    ingot(*shlex.split(last)[1:])
    assert Path("out/manifest.json").is_file()
    ingot("run", data, "--out", "o2", "--yes", "--min-confidence", str(sure))


@pytest.mark.more
def test_that_there_is_nothing_to_convert_may_be_unsure_too(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text("1,2\n3,4\n5,6\n")
    words = ("run", tmp_path / "n.csv", "--out", "out", "--yes")
    ran = ingot(*words, "--min-confidence", "1", code=3)
    assert "with --min-confidence 0" in ran.stderr
    assert not Path("out").exists()
    ingot(*words)
    assert json.loads(Path("out/manifest.json").read_text())["decision"] == "irrelevant"
    assert not Path("out.proposal").exists()


@pytest.mark.more
def test_files_left_out_are_named(mapping: Path, data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    data.rename(folder / "raw.jsonl")
    (folder / "README.md").write_text("# Side file\n")
    ran = ingot("convert", mapping, folder, "--out", "one")
    assert "left out  1 file: README.md\n" in ran.stdout
    for name in ("A.md", "B.md", "C.md"):
        (folder / name).write_text("# Side file\n")
    ran = ingot("convert", mapping, folder, "--out", "two")
    assert "left out  4 files: A.md, B.md, C.md and 1 more\n" in ran.stdout
    (folder / "other.jsonl").write_text('{"title": "Bread", "text": "Let it rise."}\n')
    ran = ingot("convert", mapping, folder, "--out", "three")
    named = "A.md, B.md, C.md and 2 more; ingot lake run converts files of another shape"
    assert f"left out  5 files: {named}\n" in ran.stdout


def test_a_waiting_run_in_json(data: Path) -> None:
    told = json.loads(ingot("run", data, "--out", "out", "--json", code=3).stdout)
    assert (told["status"], told["decision"]) == ("waiting", "sft")
    assert told["check"]["ok_rows"] == 16


def test_a_dry_run_shows_mapping_coverage_and_three_records(data: Path, tmp_path: Path) -> None:
    ran = ingot("run", data, "--out", "out", "--dry-run")
    assert "16/17 rows" in ran.stdout
    assert "question  /messages/0/content  17/17 rows" in ran.stdout
    assert [f"Row {n}" in ran.stdout for n in (1, 2, 3, 4)] == [True, True, True, False]
    assert "\nassistant  Part 0 takes rivers for granted" in ran.stdout
    assert "\nmeta       source raw, language en" in ran.stdout
    assert not list(tmp_path.glob("out*"))


def test_run_with_a_mapping_asks_no_mapper(data: Path, mapping: Path, tmp_path: Path) -> None:
    told = json.loads(
        ingot("run", data, "--out", "out", "--mapping", mapping, "--yes", "--json").stdout
    )
    assert (told["mapper"], told["status"]) == ("file", "done")
    saved = json.loads((tmp_path / "out" / "mapping.json").read_text())
    assert saved["messages"] == MAPPING["messages"]


@pytest.mark.more
def test_run_reads_the_data_as_its_mapping_says(tmp_path: Path) -> None:
    data, file = tmp_path / "odd.bin", tmp_path / "m.json"
    data.write_bytes("\n".join(f"{n}_!_名字{n}" for n in range(30)).encode("utf-16-le"))
    facts = {"format": "csv", "encoding": "utf-16-le", "delimiter": "_!_", "columns": ["n", "s"]}
    file.write_text(json.dumps({"version": 2, "source": facts, "text": "s"}))
    words = ("--out", "out", "--mapping", file, "--yes", "--json")
    told = json.loads(ingot("run", data, *words).stdout)
    assert told["result"]["manifest"]["records"]["written"] == 30
    ingot("run", data, "--out", "out2", "--mapping", "./m.json", "--yes")
    for name in ("report.md", "mapping.json", "manifest.json"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "out2" / name).read_bytes()


def test_irrelevant_data_ends_well(tmp_path: Path) -> None:
    table = tmp_path / "sensors.csv"
    lines = [f"{n},{20 + n / 7:.3f},{1000 + n % 13},{n % 2}" for n in range(120)]
    table.write_text("\n".join(["tick,celsius,hectopascal,door", *lines]))
    ran = ingot("run", table, "--out", "out")
    assert ran.stdout.startswith("irrelevant by rules")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["decision"] == "irrelevant"
    assert list((tmp_path / "out" / "records").iterdir()) == []
    mapped = ingot("map", table)
    assert json.loads(mapped.stdout) == {"version": 2, "text": None}
    assert "irrelevant" in mapped.stderr


def test_map_waits_below_the_confidence_that_is_asked_for(data: Path) -> None:
    sure = json.loads(ingot("map", data, "--json").stdout)["confidence"]
    waiting = ingot("map", data, "--min-confidence", str(sure + 0.01), code=3)
    assert "below --min-confidence" in waiting.stderr
    assert json.loads(waiting.stdout)["version"] == 2
    assert "below" not in ingot("map", data, "--min-confidence", str(sure)).stderr


def test_a_folder_with_side_files_only_is_irrelevant(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "README.md").write_text("# A data set that is somewhere else\n")
    (folder / "dataset_info.json").write_text('{"description": "none"}')
    ran = ingot("run", folder, "--out", "out")
    assert "README.md" in ran.stdout
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["decision"] == "irrelevant"


@pytest.mark.more
def test_map_prints_a_mapping_that_check_and_convert_take(data: Path, tmp_path: Path) -> None:
    printed = ingot("map", data, "--mode", "sft", "--mapper", "rules").stdout
    ingot("map", data, "--mode", "sft", "--mapper", "rules", "-o", "m.json")
    assert (tmp_path / "m.json").read_text() == printed
    assert "exists already" in ingot("map", data, "-o", "m.json", code=1).stderr
    ingot("map", data, "-o", "m.json", "--overwrite")
    assert "Sample 16/17 rows" in ingot("check", "m.json", data).stdout
    ran = ingot("convert", "m.json", data, "--out", "out", "--records", "jsonl")
    assert "16 written" in ran.stdout
    assert (tmp_path / "out" / "report.md").exists()


def test_map_explains_its_choices(data: Path) -> None:
    ran = ingot("map", data, "--explain")
    assert json.loads(ran.stdout)["messages"]
    assert "decision" in ran.stderr
    assert "; runner-up: " in ran.stderr
    told = json.loads(ingot("map", data, "--json").stdout)
    assert (told["status"], told["decision"]) == ("dry_run", "sft")
    assert told["mapping"]["version"] == 2


def test_check_reports_problems_and_fails(data: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps(MAPPING).replace("answer", "anwser"))
    ran = ingot("check", wrong, data, code=1)
    assert "Did you mean answer? In chat: set assistant answer" in ran.stdout
    assert "problem" in ran.stderr
    told = json.loads(ingot("check", wrong, data, "--json", code=1).stdout)
    assert told["problems"][0]["code"] == "unresolved_path"
    assert told["check"]["rows"] == 17


def test_check_takes_version_1(data: Path, tmp_path: Path) -> None:
    old = tmp_path / "old.json"
    old.write_text(json.dumps({"text": ["question", "answer"], "meta": {"language": "en"}}))
    assert "Sample 17/17 rows" in ingot("check", old, data).stdout


def test_convert_goes_on_where_rows_do_not_fit(mapping: Path, tmp_path: Path) -> None:
    data = tmp_path / "mixed.jsonl"
    rows: list[dict[str, Any]] = [{"id": str(n), "question": "a?", "answer": "b"} for n in range(6)]
    rows += [{"id": "x", "question": "a?", "answer": ["b"]}] * 2
    data.write_text("".join(json.dumps(row) + "\n" for row in rows) + "{broken\n")
    ran = ingot("convert", mapping, data, "--out", "out")
    assert "9 read, 6 converted, 3 rejected" in ran.stdout
    rejected = (tmp_path / "out" / "rejected" / "part-00000.jsonl").read_text().splitlines()
    assert [json.loads(line)["reason"] for line in rejected] == ["not_text", "not_text", "bad_row"]


def test_convert_dry_run_writes_nothing(data: Path, mapping: Path, tmp_path: Path) -> None:
    ran = ingot("convert", mapping, data, "--out", "out", "--dry-run")
    assert "Row 1" in ran.stdout
    assert not (tmp_path / "out").exists()


def test_an_optional_path_that_is_nowhere_does_not_stop_convert(data: Path, tmp_path: Path) -> None:
    file = tmp_path / "m.json"
    file.write_text(json.dumps({**MAPPING, "meta": {"timestamp": "created"}}))
    ingot("check", file, data, code=1)
    said = ingot("convert", file, data, "--out", "out").stdout
    assert "warning: No sampled row has created." in said
    assert "(/meta/timestamp: unresolved_path)" in said
    assert "problem" not in said
    warnings = json.loads((tmp_path / "out" / "manifest.json").read_text())["warnings"]
    assert "created" in json.dumps(warnings)


def test_tokens(data: Path, tmp_path: Path, repository: Path) -> None:
    tokenizer = repository / "examples" / "tokenizer" / "tokenizer.json"
    ran = ingot("run", data, "--out", "out", "--yes", "--tokenizer", tokenizer)
    names = {file.name for file in (tmp_path / "out" / "tokens").iterdir()}
    masks = {"raw.loss_mask.bin", "raw.loss_mask.idx"}
    assert names == {"raw.bin", "raw.idx", "raw.meta.json"} | masks
    assert "in 16 documents" in ran.stdout


def test_text_from_data_cannot_steer_the_terminal(tmp_path: Path) -> None:
    file = tmp_path / "odd.jsonl"
    rows = [
        {
            "question": f"\x1b]0;owned\x07\x1b[2J[red]What is {t}?[/red]",
            "answer": f"It is {t}, my dear.",
        }
        for t in TOPICS
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    ran = ingot("run", file, "--out", "out", "--dry-run", "--mode", "sft")
    assert "\x1b" not in ran.output
    assert "\x07" not in ran.output
    assert "[red]What is rivers?[/red]" in ran.stdout


def test_version_and_help() -> None:
    assert ingot("--version").stdout == f"ingot {__version__}\n"
    for command in ("run", "map", "check", "convert"):
        assert command in ingot("--help").stdout
        assert "SOURCE" in ingot(command, "--help").stdout


def test_help_starts_without_the_heavy_libraries() -> None:
    code = (
        "import sys\n"
        "from ingot.__main__ import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print('\\n'.join(sys.modules), file=sys.stderr)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, "--help"], capture_output=True, text=True, check=True
    )
    heavy = {"langgraph", "openai", "pyarrow", "datasets", "torch", "numpy", "jsonschema", "fsspec"}
    assert heavy & set(ran.stderr.split()) == set()
    assert "Usage: ingot" in ran.stdout


@pytest.mark.more
@pytest.mark.parametrize("command", ["convert", "run"])
def test_a_command_needs_no_graph_and_no_model(data: Path, mapping: Path, command: str) -> None:
    code = (
        "import sys\n"
        "from ingot.__main__ import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "assert {'langgraph', 'openai'}.isdisjoint(sys.modules)\n"
    )
    ways = {
        "convert": ["convert", str(mapping)],
        "run": ["run", "--yes", "--mapping", str(mapping)],
    }
    words = [*ways[command], str(data), "--out", "out"]
    subprocess.run([sys.executable, "-c", code, *words], check=True, capture_output=True)


@pytest.mark.more
def test_the_module_runs_as_a_command(data: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "ingot", "map", str(data)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "NO_COLOR": "1"},
    )
    assert json.loads(ran.stdout)["version"] == 2


@pytest.mark.more
def test_of_a_long_row_the_first_lines_are_shown(tmp_path: Path) -> None:
    rows = [
        {"id": n, "question": f"Where is lamp {n}?", "answer": f"It stands behind door {n}."}
        | {f"field_{more}": more for more in range(300)}
        for n in range(16)
    ]
    Path("long.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    shown = ingot("run", "long.jsonl", "--out", "out", "--dry-run").stdout
    row = shown.partition("Row 1\n")[2].partition("Row 2\n")[0].splitlines()
    assert row[12].strip() == "...(+293 lines)"
    assert row[13].split() == ["user", "Where", "is", "lamp", "0?"]
    assert shown.startswith("sft by rules, confidence 0.")
    assert ": a record is one line of JSON (16 in the sample); user = question" in shown
