"""`ingot run` with a person at a terminal: a real pseudo-terminal, a real process."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.command_line import ingot

pytestmark = pytest.mark.more

TOPICS = ("rivers", "bridges", "clouds", "violins", "bread", "maps", "glass", "salt")


class Terminal:
    """A process whose three streams are one terminal, and what it has shown so far."""

    program = (sys.executable, "-m", "ingot")

    def __init__(self, words: list[str], folder: Path, **environment: str) -> None:
        self.shown = ""
        master, slave = pty.openpty()
        self._master = master
        self.process = subprocess.Popen(
            [*self.program, *words],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=folder,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "100", **environment},
            start_new_session=True,
            # A shell ignores the signal in what it runs in the background, tests included.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        os.close(slave)

    def until(self, text: str) -> None:
        """Read until the text is shown."""
        self._read(lambda: text in self.shown)
        assert text in self.shown, self.shown

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def end(self) -> int:
        """Read what is left and give the exit code."""
        self._read(lambda: False)
        code = self.process.wait(timeout=60)
        os.close(self._master)
        return code

    def _read(self, enough: Callable[[], bool]) -> None:
        until = time.monotonic() + 60
        while not enough() and time.monotonic() < until:
            if not select.select([self._master], [], [], 1)[0]:
                continue
            try:
                piece = os.read(self._master, 65536)
            except OSError:  # the terminal is gone with its last process
                return
            if not piece:
                return
            self.shown += piece.decode(errors="replace")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = (
        {"question": f"What is known of {topic}?", "answer": f"Much is known of {topic} by now."}
        for topic in TOPICS * 3
    )
    (tmp_path / "raw.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def run(folder: Path, *more: str, **environment: str) -> Terminal:
    words = ["run", "raw.jsonl", "--out", "out", "--mode", "sft", "--mapper", "rules", *more]
    return Terminal(words, folder, INGOT_HOME=str(folder / "state"), **environment)


def words(shown: str) -> str:
    """What is shown without colours and columns."""
    return " ".join(re.sub(r"\x1b\[[0-9;]*m", "", shown).split())


def test_the_preview_is_shown_and_yes_converts(folder: Path) -> None:
    terminal = run(folder)
    terminal.until("[n]o")
    for shown in (
        "Mapping",
        "24/24 rows",
        "Row 3",
        "before",
        "assistant",
        "Much is known of rivers",
    ):
        assert shown in terminal.shown
    assert not (folder / "out").exists()
    terminal.type("y\n")
    assert terminal.end() == 0
    assert "24 converted" in terminal.shown
    assert (folder / "out" / "manifest.json").exists()


@pytest.fixture
def crowded(folder: Path) -> Path:
    """The folder with more data, and with what must not be offered: results and hidden files."""
    rows = (folder / "raw.jsonl").read_text()
    for name in ("sets/a/x.jsonl", ".hidden/h.jsonl", "deep/er/est/y.jsonl", "sets/a/b/z.jsonl"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(rows)
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "README.md").write_text("Notes.")
    (folder / "mapping.json").write_text('{"version": 2, "text": "question"}')
    for words in (
        ["convert", "mapping.json", "raw.jsonl", "--out", "done", "--records", "jsonl"],
        ["run", "raw.jsonl", "--out", "waiting", "--mapper", "rules"],
        ["lake", "run", "sets", "--out", "lake", "--mapper", "rules"],
    ):
        ingot(*words, folder=folder, code=None)
    assert (folder / "waiting.proposal").is_dir()
    assert (folder / "lake/.ingot-lake").is_dir()
    return folder


def offer(folder: Path, *more: str) -> Terminal:
    settings = {"INGOT_HOME": str(folder / "state"), "INGOT_MODE": "sft"}
    terminal = Terminal(["run", *more, "--mapper", "rules"], folder, **settings)
    terminal.until("(Return quits)")
    return terminal


def test_a_run_without_a_source_lists_data_and_converts_what_is_chosen(crowded: Path) -> None:
    terminal = offer(crowded)
    listed = words(terminal.shown).partition("Data in this folder: ")[2].partition(" Convert")[0]
    assert listed == "1 raw.jsonl 2 sets/a/"
    terminal.type("7\n")
    terminal.until("7 is not one of these numbers")
    terminal.type("2\n")
    terminal.until("Folder to create")
    terminal.type("2024\n")
    terminal.until("[n]o")
    terminal.type("y\n")
    assert terminal.end() == 0
    manifest = json.loads((crowded / "2024" / "manifest.json").read_text())
    assert [one["name"] for one in manifest["inputs"]] == ["b/z.jsonl", "x.jsonl"]


def test_a_path_may_be_typed_where_data_is_listed(crowded: Path) -> None:
    terminal = offer(crowded, "--out", "new")
    terminal.type("deep/er/est/y.jsonl\n")
    terminal.until("[n]o")
    terminal.type("y\n")
    assert terminal.end() == 0
    assert "24 converted" in terminal.shown


def test_return_alone_chooses_no_data(folder: Path) -> None:
    terminal = offer(folder)
    terminal.type("\n")
    assert terminal.end() == 2
    assert "nothing was chosen, so nothing was converted" in words(terminal.shown)
    assert [one.name for one in folder.iterdir()] == ["raw.jsonl"]


def test_at_most_20_sources_are_listed(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"{number}.jsonl").write_text('{"text": "a"}\n')
    terminal = offer(tmp_path)
    assert len(re.findall(r"\d+  \d+\.jsonl", terminal.shown)) == 20
    terminal.type("\n")
    assert terminal.end() == 2


def test_a_folder_without_data_says_so(tmp_path: Path) -> None:
    terminal = offer(tmp_path)
    assert "found no data in this folder" in terminal.shown
    terminal.type("\n")
    assert terminal.end() == 2


@pytest.mark.parametrize(
    ("more", "missing"),
    [
        ([], "argument 'SOURCE'"),
        (["--out", "x"], "argument 'SOURCE'"),
        (["raw.jsonl"], "option '--out'"),
    ],
)
def test_without_a_terminal_nothing_is_asked(folder: Path, more: list[str], missing: str) -> None:
    command = [sys.executable, "-m", "ingot", "run", *more]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, input="1\nnew\n")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == f"error: Missing {missing} (usage: ingot run --help)\n"


def test_return_alone_converts_nothing(folder: Path) -> None:
    terminal = run(folder)
    terminal.until("[n]o")
    terminal.type("\n")
    assert terminal.end() == 3
    assert "not approved" in terminal.shown
    assert not (folder / "out").exists()
    assert (folder / "out.proposal" / "mapping.json").exists()


def test_an_edited_mapping_is_shown_again(folder: Path) -> None:
    editor = folder / "editor.sh"
    editor.write_text('#!/bin/sh\nsed -i s/\\"question\\"/\\"qestion\\"/ "$1"\n')
    fixer = folder / "fixer.sh"
    fixer.write_text(
        "#!/bin/sh\n"
        f'if [ -e {folder}/once ]; then sed -i s/qestion/question/ "$1"\n'
        f'else touch {folder}/once; sed -i s/question/qestion/ "$1"; fi\n'
    )
    fixer.chmod(0o755)
    terminal = run(folder, VISUAL=str(fixer))
    terminal.until("[n]o")
    terminal.type("e\n")
    terminal.until("Did you mean question?")
    terminal.until("[n]o")
    terminal.shown = ""
    terminal.type("e\n")
    terminal.until("[n]o")
    assert "Did you mean" not in terminal.shown
    terminal.type("y\n")
    assert terminal.end() == 0
    provenance = json.loads((folder / "out" / "mapping.json").read_text())["provenance"]
    assert provenance["edited"] is True


def test_an_editor_that_fails_is_one_clear_error(folder: Path) -> None:
    terminal = run(folder, VISUAL="/nonexistent/editor")
    terminal.until("[n]o")
    terminal.type("e\n")
    assert terminal.end() == 1
    assert "the editor failed" in terminal.shown
    again = run(folder)  # the run still waits
    again.until("[n]o")
    again.type("y\n")
    assert again.end() == 0


def test_the_rules_mapping_can_be_taken_in_place_of_a_models(
    folder: Path, turned_round: str
) -> None:
    asked = ("--mapper", "llm", "--model", "m1", "--base-url", turned_round)
    terminal = run(folder, *asked, OPENAI_API_KEY="none")
    terminal.until("[y]es, [c]hat, [e]dit, [r]ules', [n]o")
    for shown in (
        "for a person: second opinion: the rules propose something else",
        "The rules propose something else: sft by rules, confidence 0.",
        "for a person: sides by their names: ",
    ):
        assert shown in terminal.shown
    before, after = terminal.shown.split("The rules propose something else: ")
    assert "user answer assistant question" in words(before)
    assert "user question assistant answer" in words(after)
    terminal.shown = ""
    terminal.type("r\n")
    terminal.until("[y]es, [c]hat, [e]dit, [n]o")
    assert "user question assistant answer" in words(terminal.shown)
    terminal.type("y\n")
    assert terminal.end() == 0
    saved = json.loads((folder / "out" / "mapping.json").read_text())
    assert [one["content"] for one in saved["messages"]] == ["question", "answer"]


def test_control_c_ends_quietly(folder: Path) -> None:
    terminal = run(folder)
    terminal.until("[n]o")
    time.sleep(0.2)  # a signal between the question and the reading of its answer may be lost
    os.killpg(terminal.process.pid, signal.SIGINT)
    assert terminal.end() == 130
    assert "Traceback" not in terminal.shown
    assert not (folder / "out").exists()


def test_a_conversation_returns_its_mapping_to_the_question(folder: Path) -> None:
    terminal = run(folder)
    terminal.until("[y]es, [c]hat, [e]dit, [n]o")
    terminal.type("c\n")
    terminal.until("ok or quit returns to the review")
    terminal.type("out elsewhere\n")
    terminal.until("names the folder")
    terminal.type("help\n")
    terminal.until("help [COMMAND]")
    terminal.until("quit")
    assert "ok return to the question, with the mapping" in words(terminal.shown)
    terminal.shown = terminal.shown.partition("quit  ")[2]
    terminal.type("help ok\n")
    terminal.until("return to the question")
    assert "approve the mapping and convert" not in words(terminal.shown)
    terminal.type("swap\n")
    terminal.until("Changed")
    terminal.shown = ""
    terminal.type("ok\n")
    terminal.until("[y]es, [c]hat, [e]dit, [n]o")
    assert "user answer assistant question" in words(terminal.shown)
    assert "coverage" in terminal.shown  # the gates anew
    assert "--resume" not in terminal.shown
    assert not (folder / "out").exists()
    terminal.type("y\n")
    assert terminal.end() == 0
    saved = json.loads((folder / "out" / "mapping.json").read_text())
    assert [one["content"] for one in saved["messages"]] == ["answer", "question"]
    assert saved["provenance"]["edited"] is True
    listed = Terminal(["chat", "--list"], folder, INGOT_HOME=str(folder / "state"))
    assert listed.end() == 0
    assert "no conversations yet" in listed.shown


def test_a_conversation_that_changes_nothing_leaves_the_proposal(folder: Path) -> None:
    terminal = run(folder)
    terminal.until("[n]o")
    terminal.type("c\n")
    terminal.until("returns to the review")
    terminal.type("swap\n")
    terminal.until("Changed")
    terminal.type("undo\n")
    terminal.shown = ""
    terminal.type("quit\n")
    terminal.until("[n]o")
    assert "sft by rules" in terminal.shown
    terminal.type("n\n")
    assert terminal.end() == 3


class Shell(Terminal):
    """A bash whose home is a folder, with a program `ingot` in its path."""

    program = ("bash", "--noprofile")


def test_an_installed_completion_completes_commands_and_options_in_bash(tmp_path: Path) -> None:
    ingot = tmp_path / "bin" / "ingot"
    ingot.parent.mkdir()
    ingot.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ingot "$@"\n')
    ingot.chmod(0o755)
    path = f"{ingot.parent}:{os.environ['PATH']}"
    home = {"HOME": str(tmp_path), "PATH": path, "PS1": "$ ", "INPUTRC": "/dev/null"}
    installing = Shell(["-c", "ingot --install-completion; true"], tmp_path, **home)
    assert installing.end() == 0
    assert "bash completion installed" in installing.shown
    shell = Shell(["-i"], tmp_path, **home)
    shell.type("ingot tok\t")
    shell.until("ingot tokens ")
    shell.type("insp\t")
    shell.until("ingot tokens inspect ")
    shell.type("\x15ingot run --overw\t")
    shell.until("ingot run --overwrite ")
    shell.type("\x15exit\n")
    assert shell.end() == 0
