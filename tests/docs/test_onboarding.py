"""docs/onboarding.md says what happens: its conversations are held, their output is compared.

Lines of a console block that begin with `> ` are typed; `...` stands for any lines, or within a
line for any text, a run of more dots for so many characters.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ingot.agent.chat.commands import COMMANDS
from tests.agent.conftest import ChatServer
from tests.docs.test_quickstart import BLOCK

pytestmark = pytest.mark.more

ROOT = Path(__file__).resolve().parents[2]
REPLIES = ROOT / "tests" / "golden" / "chat" / "onboarding.json"


def pattern(shown: str) -> str:
    """The page's lines as an expression; within a line dots stand for text."""
    lines = []
    for line in shown.splitlines():
        if line == "...":
            lines.append(r"(?:.*\n)*?")
            continue
        pieces = re.split(
            r"(\.{6,}|(?<= )\.\.\.(?= (?:characters in|tokens in|out,)))", line.rstrip()
        )
        spelt = [
            re.escape(piece) if not number % 2 else ".+" if piece == "..." else f".{{{len(piece)}}}"
            for number, piece in enumerate(pieces)
        ]
        lines.append("".join(spelt) + "[ ]*\n")
    return "".join(lines)


def held(block: str, folder: Path, **environment: str) -> str:
    """What a conversation prints."""
    command, _, shown = block.removeprefix("$ ").partition("\n")
    typed = [line.removeprefix("> ") for line in shown.splitlines() if line.startswith("> ")]
    known = {"INGOT_HOME": str(folder / "home"), "COLUMNS": "120", **environment}
    done = subprocess.run(
        [sys.executable, "-m", *command.split()],
        input="".join(f"{line}\n" for line in typed),
        cwd=folder,
        env={**os.environ, **known},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_page_shows_what_happens(tmp_path):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    page = (ROOT / "docs" / "onboarding.md").read_text(encoding="utf-8")
    server, count = ChatServer(), 0
    server.queue = json.loads(REPLIES.read_text(encoding="utf-8"))
    model = {"OPENAI_BASE_URL": server.url, "INGOT_MODEL": "local", "OPENAI_API_KEY": "k"}
    said = [json.dumps(one, ensure_ascii=False) for one in server.queue]
    for block in BLOCK.finditer(page):
        if block["file"]:
            (tmp_path / block["file"]).write_text(block["body"], encoding="utf-8")
        elif block["kind"] == "console":
            printed = held(block["body"], tmp_path, **(model if "keeper" in block["body"] else {}))
            shown = pattern(block["body"].partition("\n")[2])
            assert re.fullmatch(f"{shown}(?:To resume: .*\n)?", printed), printed
            count += 1
        else:
            assert block["body"].strip() in said
    assert count == 3
    assert server.queue == []
    server.close()


def test_every_command_stands_on_the_page():
    page = (ROOT / "docs" / "onboarding.md").read_text(encoding="utf-8")
    table = page[page.index("| command |") : page.index("A value is a list")]
    assert all(re.search(rf"`{name}[` ]", table) for name in COMMANDS)
