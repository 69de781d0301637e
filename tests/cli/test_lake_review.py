"""`ingot lake review` with a person at a terminal: a real pseudo-terminal, a real process."""

import json
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ingot.cli.app import app
from tests.agent.conftest import ChatServer

NOUNS = ("river", "stone", "cloud", "paper", "light", "green", "metal", "ocean", "valley")


def _module(name: str) -> Any:
    """A module of this folder, which is no package."""
    spec = spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec
    assert spec.loader
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


EDITOR = """
import json, pathlib, sys
file = pathlib.Path(sys.argv[1])
file.write_text(json.dumps({**json.loads(file.read_text()), "text": "c1"}))
"""
terminal = _module("test_terminal")


def rows(first: int) -> list[dict[str, Any]]:
    def words(seed: int, count: int) -> str:
        return " ".join(NOUNS[(seed * 7 + n * n + n * seed) % len(NOUNS)] for n in range(count))

    return [
        {"id": f"r{n}", "c1": f"{n} {words(2 * n, 9)}.", "c2": f"{n} {words(2 * n + 1, 19)}."}
        for n in range(first, first + 12)
    ]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lake in which five data sets wait."""
    monkeypatch.setenv("INGOT_HOME", str(tmp_path / "home"))
    for number, name in enumerate(("a", "b", "c", "d", "e")):
        (tmp_path / "raw" / name).mkdir(parents=True)
        lines = "".join(json.dumps(row) + "\n" for row in rows(number))
        (tmp_path / "raw" / name / "set.jsonl").write_text(lines)
    (tmp_path / "raw" / "b" / "README.md").write_text("---\nlicense: mit\n---\n\x1b[2Jx")
    monkeypatch.chdir(tmp_path)
    words = ["lake", "run", "raw", "--out", "lake"]
    done = CliRunner().invoke(app, [*words, "--mapper", "rules", "--jobs", "1"])
    assert done.exit_code == 0, done.output
    return tmp_path


def pass_list(desk: Any) -> None:
    """Approve nothing of the list with which a review begins."""
    desk.until("Approve which of ")
    desk.type("\n")


def asked(desk: Any, times: int) -> None:
    """Wait until it has been asked so often."""
    desk._read(lambda: desk.shown.count("[q]uit: ") >= times)
    assert desk.shown.count("[q]uit: ") == times, desk.shown


@pytest.mark.more
def test_what_fails_a_gate_is_not_approved(folder: Path) -> None:
    editor = folder / "editor.sh"
    editor.write_text(f"#!{sys.executable}\n{EDITOR}")
    editor.chmod(0o755)
    proposal = folder / "lake/sets/a.proposal/mapping.json"
    vague = {"version": 2, "text": {"path": "id", "map": {"r0": "only this one"}}}
    proposal.write_text(json.dumps(vague))
    desk = terminal.Terminal(["lake", "review", "lake"], folder, VISUAL=str(editor))
    pass_list(desk)
    asked(desk, 1)
    desk.type("y\n")
    asked(desk, 2)
    shown = terminal.words(desk.shown)
    assert "not approved, it does not pass: " in shown
    assert "coverage is 1/12 (8.3 %) (limit: " in shown
    assert f"ingot chat {folder / 'raw' / 'a'}" in shown
    assert not (folder / "lake/mappings").exists()
    desk.type("e\n")
    asked(desk, 3)
    desk.type("y\n")
    desk.until("approved: ")
    desk.type("q\n")
    assert desk.end() == 0
    made = json.loads((folder / "lake/mappings/a.json").read_text())
    assert made["text"] == "c1"


@pytest.mark.more
def test_one_after_the_other_is_shown_and_decided(folder: Path) -> None:
    editor = folder / "editor.sh"
    editor.write_text(f"#!{sys.executable}\n{EDITOR}")
    editor.chmod(0o755)
    (folder / "raw" / "d").rename(folder / "moved")
    desk = terminal.Terminal(["lake", "review", "../lake"], folder / "raw", VISUAL=str(editor))
    pass_list(desk)
    desk.until("1 of 5: a")
    asked(desk, 1)
    desk.type("y\n")
    desk.until("approved: ")
    desk.until("2 of 5: b")
    asked(desk, 2)
    assert "README.md says: license mit" in desk.shown
    assert "\x1b[2J" not in desk.shown
    desk.type("what?\n")  # no choice: asked again
    asked(desk, 3)
    desk.type("e\n")
    desk.until("by file")
    asked(desk, 4)
    desk.type("y\n")
    desk.until("3 of 5: c")
    asked(desk, 5)
    desk.type("n\n")
    desk.until("4 of 5: d")
    desk.until("its files were removed")
    desk.until("5 of 5: e")
    asked(desk, 6)
    desk.type("\x04")  # the end of input
    assert desk.end() == 0
    assert "2 approved, 1 rejected, 1 skipped" in terminal.words(desk.shown)
    assert sorted(one.name for one in (folder / "lake/mappings").iterdir()) == ["a.json", "b.json"]
    made = json.loads((folder / "lake/mappings/b.json").read_text())
    assert made["text"] == "c1"
    assert made["provenance"]["edited"] is True
    assert made["provenance"]["reviewed"] is True
    assert made["provenance"]["shape"]


@pytest.mark.more
def test_several_are_approved_of_a_list_with_the_most_confident_first(folder: Path) -> None:
    sure = [{"question": f"What is {n}?", "answer": f"It is number {n}."} for n in range(20)]
    (folder / "raw" / "z").mkdir()
    (folder / "raw" / "z" / "set.jsonl").write_text("\n".join(map(json.dumps, sure)))
    words = ["lake", "run", "raw", "--out", "lake", "--mapper", "rules", "--jobs", "1"]
    assert CliRunner().invoke(app, words).exit_code == 0
    (folder / "lake/sets/b.proposal/mapping.json").unlink()
    desk = terminal.Terminal(["lake", "review", "lake"], folder)
    desk.until("Approve which of 1 to 6?")
    shown = terminal.words(desk.shown)
    assert shown.index("1 z: sft") < shown.index("2 a: ")
    assert 'row {"question": "What is 0?"' in shown
    assert "record user: What is 0? | assistant: It is number 0." in shown
    desk.type("9-12\n")  # none of these: asked again
    desk.until("is not one of these answers")
    desk.type("1-3, 5\n")
    desk.until("1 of 3: b")
    desk.type("q\n")
    assert desk.end() == 0
    assert "b: no mapping was proposed" in terminal.words(desk.shown)
    assert "3 approved" in terminal.words(desk.shown)
    made = sorted(one.name for one in (folder / "lake/mappings").iterdir())
    assert made == ["a.json", "d.json", "z.json"]


@pytest.mark.usefixtures("folder")
def test_a_dry_run_names_what_is_left_out() -> None:
    for number in range(7):
        Path(f"raw/a/{number}.yml").write_text("a: 1")
    words = ["lake", "run", "raw", "--out", "lake", "--mapper", "rules", "--dry-run"]
    said = CliRunner().invoke(app, words).stdout
    named = "a/0.yml, a/1.yml, a/2.yml, a/3.yml, a/4.yml and 2 more"
    assert f"\n7 left out, auxiliary file (settings): {named}\n" in said
    assert "\n1 left out, auxiliary file: b/README.md\n" in said
    assert said.endswith("--json lists all files that are left out\n")
    told = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert (told["left_out"], len(told["left_out_files"])) == (8, 8)
    assert {"name": "b/README.md", "why": "auxiliary file"} in told["left_out_files"]


@pytest.mark.more
def test_a_conversation_returns_its_mapping_to_the_review(folder: Path) -> None:
    desk = terminal.Terminal(["lake", "review", "lake"], folder)
    pass_list(desk)
    asked(desk, 1)
    desk.type("c\n")
    desk.until("returns to the review")
    desk.type("what is c1?\n")
    desk.until("No model is configured")
    desk.type("set text nowhere.at,all\n")
    desk.until("Not changed")
    desk.type("set text c1\n")
    desk.until("Changed")
    desk.type("quit\n")
    asked(desk, 2)
    assert "text c1" in terminal.words(desk.shown)
    assert not (folder / "lake/mappings").exists()  # nothing is approved by it
    desk.type("c\n")
    desk._read(lambda: desk.shown.count("returns to the review") == 2)
    desk.type("quit\n")
    asked(desk, 3)
    desk.type("y\n")
    desk.until("approved: ")
    desk.type("q\n")
    assert desk.end() == 0
    made = json.loads((folder / "lake/mappings/a.json").read_text())
    assert made["text"] == "c1"
    assert made["provenance"]["edited"] is True
    assert made["provenance"]["shape"]


@pytest.mark.more
def test_a_model_changes_a_mapping_under_review(folder: Path) -> None:
    server = ChatServer()
    server.always = {"say": "Only c1.", "edits": [{"set": "text", "parts": ["c1"]}]}
    environment = {"OPENAI_BASE_URL": server.url, "INGOT_MODEL": "m", "OPENAI_API_KEY": "k"}
    words = ["lake", "review", "lake", "--share-values", "none"]
    desk = terminal.Terminal(words, folder, **environment)
    pass_list(desk)
    asked(desk, 1)
    desk.type("c\n")
    desk.until("returns to the review")
    desk.type("please leave c2 out\n")
    desk.until("Changed")
    desk.type("ok\n")
    asked(desk, 2)
    desk.type("y\n")
    desk.until("approved: ")
    desk.type("q\n")
    assert desk.end() == 0
    server.close()
    assert "river" not in json.dumps(server.requests)  # a word of the data
    made = json.loads((folder / "lake/mappings/a.json").read_text())
    assert made["text"] == "c1"
    assert made["provenance"]["edited_with"]["model"] == "m"
