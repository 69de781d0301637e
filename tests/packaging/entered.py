"""Which modules of ingot a command enters: `python entered.py ARGUMENT...` prints them as JSON.

A module counts once one of its functions runs; what runs while modules are imported does not.
Worker processes are not looked into.
"""

import json
import subprocess
import sys
import threading
from pathlib import Path
from types import FrameType

ENTERED: set[str] = set()
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TOKENIZER = str(EXAMPLES / "tokenizer" / "tokenizer.json")


def note(frame: FrameType, event: str, argument: object) -> None:
    """Note the module of a function that is called for the first time."""
    name = frame.f_globals.get("__name__", "")
    if event == "call" and name.startswith("ingot") and name not in ENTERED and not imports(frame):
        ENTERED.add(name)


def imports(frame: FrameType | None) -> bool:
    """Return whether a frame runs because a module of ingot is being imported."""
    while frame is not None:
        code, name = frame.f_code.co_name, frame.f_globals.get("__name__", "")
        if code == "<module>" and name.startswith("ingot"):
            return True
        frame = frame.f_back
    return False


def entered_by(folder: Path, *arguments: str) -> int:
    """Return how many modules a command enters that runs in a folder."""
    command = [sys.executable, __file__, *arguments]
    run = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=True)
    document = json.loads(run.stderr.splitlines()[-1])
    assert document["code"] == 0, run.stderr
    return len(document["entered"])


def entered_by_commands(folder: Path) -> dict[str, int]:
    """Return the number for each command of the budget; they work in one folder, in order."""
    data = str(EXAMPLES / "zh_exam")
    run = ("run", data, "--yes", "--min-confidence=0.6", "--out")
    build = ("--output-prefix", "tokens/x", "--pattern", "*.parquet", "--tokenizer", TOKENIZER)
    commands = {
        "run": (*run, "one"),
        "run --tokenizer": (*run, "two", "--tokenizer", TOKENIZER),
        "convert": ("convert", "one/mapping.json", data, "--out", "three"),
        "tokens build": ("tokens", "build", "--input-dir", "one/records", *build),
    }
    return {name: entered_by(folder, *arguments) for name, arguments in commands.items()}


if __name__ == "__main__":
    from ingot.cli.app import app

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        app(sys.argv[1:], prog_name="ingot")
    except SystemExit as end:
        sys.setprofile(None)
        sys.stderr.write(json.dumps({"code": end.code, "entered": sorted(ENTERED)}) + "\n")
