"""docs/quickstart.md says what happens: its commands and code are run, their output is compared.

In the page a line `...` stands for any lines, `[exit N]` for the exit status of a command that
fails, and `<!-- file: NAME -->` says that the block below it is the file NAME.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(
    r"(?:<!-- file: (?P<file>\S+) -->\n)?```(?P<kind>\w+)\n(?P<body>.*?)^```$", re.DOTALL | re.M
)


def matches(shown: str, printed: str) -> bool:
    """Whether an output is what the page shows, `...` lines apart."""
    pattern = "".join(
        r"(?:.*\n)*?" if line == "..." else re.escape(line.rstrip()) + "[ ]*\n"
        for line in shown.splitlines()
    )
    return re.fullmatch(pattern, printed) is not None


def run(command: list[str] | str, folder: Path) -> str:
    """What a command prints on stdout; a last line tells an exit status other than 0."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"PATH": path, "COLUMNS": "120"},
        shell=isinstance(command, str),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    return done.stdout + (f"[exit {done.returncode}]\n" if done.returncode else "")


def console(body: str, folder: Path) -> None:
    """Run the commands of a console block one after the other."""
    for part in re.split(r"^\$ ", body, flags=re.M)[1:]:
        command, _, shown = part.partition("\n")
        printed = run(command, folder)
        assert matches(shown, printed), f"$ {command}\n{printed}"


def test_the_page_shows_what_happens(tmp_path):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    page = (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8")
    printed, kinds = "", []
    for block in BLOCK.finditer(page):
        kind, body = block["kind"], block["body"]
        kinds.append(kind)
        if block["file"]:
            (tmp_path / block["file"]).write_text(body, encoding="utf-8")
        elif kind == "console":
            console(body, tmp_path)
        elif kind == "python":
            printed = run([sys.executable, "-c", body], tmp_path)
        else:
            assert printed == body
    assert kinds == ["console", "json", "console", "console", "console", *["python", "text"] * 2]
