"""docs/python.md: its code is run, and prints what the page shows."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs/python.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.mark.parametrize("number", range(2))
def test_the_code_prints_what_the_page_shows(number, tmp_path):
    code, shown = EXAMPLES[number]
    shutil.copytree(ROOT / "examples/zh_exam", tmp_path / "examples/zh_exam")
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (shown, "")
    assert len(EXAMPLES) == 2
