"""docs/python.md and the notebook: their code is run, and prints what it should."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ingot

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/python.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.mark.more
@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_the_code_prints_what_the_page_shows(number, tmp_path):
    code, shown = EXAMPLES[number]
    for name in ("en_chats", "zh_exam", "tokenizer"):
        shutil.copytree(ROOT / "examples" / name, tmp_path / "examples" / name)
    command = [sys.executable, "-c", code]
    own = {**os.environ, "HF_HOME": str(tmp_path / "hf")}
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, env=own
    )
    assert (done.stdout, done.stderr) == (shown, "")


def test_the_examples_show_every_function_but_the_push():
    code = "".join(code for code, _ in EXAMPLES)
    assert len(EXAMPLES) == PAGE.count("```python") == 5
    called = {name for name in ingot.__all__ if f"ingot.{name}(" in code}
    functions = {name for name in ingot.__all__ if not isinstance(getattr(ingot, name), type)}
    assert called == functions - {"push_to_hub"}  # which needs an account
    assert all(word in code for word in ("pd.DataFrame", "pl.DataFrame", "pa.table"))


@pytest.mark.more
def test_the_notebook_runs(tmp_path):
    shutil.copytree(ROOT / "examples/zh_exam", tmp_path / "examples/zh_exam")
    notebook = json.loads((ROOT / "examples/python_api.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(one["source"]) for one in notebook["cells"] if one["cell_type"] == "code"]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(cells)],
        cwd=tmp_path,
        env={**os.environ, "HF_HOME": str(tmp_path / "hf")},
        capture_output=True,
        text=True,
        check=False,
    )
    shown = "41 records, 1 rejected\n41 ['messages', 'system', 'tools', 'meta']\n"
    assert (done.stdout, done.stderr) == (shown, "")
