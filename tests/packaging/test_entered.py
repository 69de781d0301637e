"""How many modules a command enters, and how many its module imports: numbers that only go down."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main

from ingot.cli.app import app
from ingot.cli.command import Later
from tests.conftest import SURE

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"
MOST = json.loads((HERE / "entered.json").read_text("utf-8"))
TOKENIZER = str(EXAMPLES / "tokenizer" / "tokenizer.json")


def entered(folder: Path, *arguments: str) -> int:
    """The modules of ingot that a command enters, its imports left out."""
    command = [sys.executable, str(HERE / "entered.py"), *arguments]
    run = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=True)
    document = json.loads(run.stderr.splitlines()[-1])
    assert document["code"] == 0, run.stderr
    return len(document["entered"])


@pytest.mark.more
def test_commands_enter_no_more_modules(tmp_path: Path) -> None:
    data, build = (
        str(EXAMPLES / "zh_exam"),
        ("--output-prefix", "tokens/x", "--pattern", "*.parquet"),
    )
    found = {
        "run": entered(tmp_path, "run", data, "--out", "one", *SURE),
        "run --tokenizer": entered(
            tmp_path, "run", data, "--out", "two", *SURE, "--tokenizer", TOKENIZER
        ),
        "convert": entered(tmp_path, "convert", "one/mapping.json", data, "--out", "three"),
        "tokens build": entered(
            tmp_path, *("tokens", "build", "--input-dir", "one/records"), *build,
            *("--tokenizer", TOKENIZER),
        ),
    }  # fmt: skip
    assert found == MOST["entered"], "lower the numbers in entered.json, or enter fewer modules"


def places(group: Any, path: str = "") -> dict[str, str]:
    """The module of every command."""
    found = {}
    for name, later in group.later.items():
        if isinstance(later, Later):
            found[path + name] = f"ingot.cli.{later.place.partition(':')[0]}"
        else:
            found |= places(group.get_command(None, name), f"{path}{name} ")
    return found


@pytest.mark.more
def test_modules_of_commands_import_no_more() -> None:
    code = (
        "import importlib, sys; importlib.import_module(sys.argv[1]);"
        "print(sum(m.startswith('ingot.') for m in sys.modules))"
    )
    found = {}
    for command, module in places(typer.main.get_command(app)).items():
        done = subprocess.run(
            [sys.executable, "-c", code, module], capture_output=True, text=True, check=True
        )
        found[command] = int(done.stdout)
    assert found == MOST["imported"], "lower the numbers in entered.json, or import fewer modules"
