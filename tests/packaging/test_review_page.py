"""docs/review.md: its transcript is what the commands print, its picture that of a real review."""

import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.more

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "docs" / "img" / "review_comment.py"
PICTURE = SCRIPT.with_name("review-comment.png")
BYTES = 200_000


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("review_comment", SCRIPT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def repository(script, tmp_path_factory) -> Path:
    """The repository of the picture, reviewed: comment.md lies in it."""
    folder = tmp_path_factory.mktemp("repository")
    script.reviewed(folder)
    return folder


def test_the_transcript_is_what_the_commands_print(repository):
    page = (ROOT / "docs" / "review.md").read_text("utf-8")
    (session,) = re.findall(r"```console\n(.*?)```", page, re.DOTALL)
    code = 0
    for line, said in re.findall(r"^\$ ([^\n]*)\n(.*?)(?=^\$ |\Z)", session, re.DOTALL | re.M):
        if line == "echo $?":
            assert said == f"{code}\n"
            continue
        program, *arguments = shlex.split(line)
        assert program == "ingot"
        command = [sys.executable, "-P", "-m", "ingot", *arguments]
        run = subprocess.run(command, cwd=repository, capture_output=True, text=True)
        assert run.stdout + run.stderr == said
        code = run.returncode


def test_the_page_shows_the_comment(script, repository):
    html = script.page((repository / "comment.md").read_text("utf-8"))
    assert html.count("<details open>") == 1
    assert '<span class="old">- ' in html
    assert '<span class="new">+ ' in html
    assert "mappings/en_instructions.json" in html


def test_the_picture_is_small_enough_for_a_page():
    assert PICTURE.read_bytes().startswith(b"\x89PNG")
    assert PICTURE.stat().st_size < BYTES
