"""Makes the pictures of docs/ui.md: `INGOT_PICTURES=1 pytest tests/ui/test_pictures.py`."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright", reason="playwright is not installed: make test-more brings it")
from playwright.sync_api import expect

from tests.ui.conftest import EXAMPLES, INGOT, KEEPER

PICTURES = Path(__file__).parents[2] / "docs" / "img"
SETS = ("en_chats", "en_instructions", "en_field_notes", "zh_exam", "tokenizer")

pytestmark = pytest.mark.skipif(
    "INGOT_PICTURES" not in os.environ, reason="pictures are made when INGOT_PICTURES is set"
)


@pytest.fixture(scope="module")
def place(
    serve: Callable[[Path], str], tmp_path_factory: pytest.TempPathFactory, settings: dict[str, str]
) -> str:
    """The address of the page for a folder as a person has it."""
    root = tmp_path_factory.mktemp("pictures") / "data"
    for name in SETS:
        shutil.copytree(EXAMPLES / name, root / name)
    shutil.copytree(EXAMPLES / "lake" / "raw", root / "raw")
    (root / "keeper.jsonl").write_text(KEEPER)
    for name, answer in (("old", "reply_a"), ("new", "reply_b")):
        roles = (("user", "prompt"), ("assistant", answer))
        messages = [{"role": role, "content": field} for role, field in roles]
        (root / f"{name}.json").write_text(json.dumps({"version": 2, "messages": messages}))
    limits = ("--mapper", "rules", "--min-confidence", "0.95", "--yes")
    command = (*INGOT, "lake", "run", "raw", "--out", "lake", *limits)
    subprocess.run(command, cwd=root, env=settings, check=True, capture_output=True)
    return serve(root)


def photograph(page: Any, name: str) -> None:
    """Write what the window shows, without a blinking cursor or a pointer over it."""
    page.mouse.move(0, 0)
    page.evaluate("document.activeElement.blur()")
    page.screenshot(path=PICTURES / f"ui-{name}.png", animations="disabled", caret="hide")


def begin(page: Any, source: str) -> None:
    """Begin a conversation about a source."""
    page.get_by_role("button", name=f"Use as source: {source}", exact=True).click()
    page.wait_for_selector("[role=treeitem]")


def say(page: Any, line: str) -> None:
    """Send a line, and wait until it was tried."""
    page.get_by_role("textbox", name="Command or question").fill(line)
    page.keyboard.press("Enter")
    page.wait_for_selector(".page:not([aria-busy])")


def test_pictures_of_a_conversation_and_its_result(opened: Callable[..., Any], place: str) -> None:
    page = opened(place)
    begin(page, "en_field_notes")
    say(page, "set text metadata.title,...")
    say(page, "drop metadata.title under 20")
    expect(page.locator(".change")).to_be_visible()
    photograph(page, "onboarding")
    page.get_by_label("Tokenizer", exact=True).fill("tokenizer/tokenizer.json")
    page.get_by_role("button", name="Approve and convert").click()
    page.get_by_role("link", name="Open result").click(timeout=60_000)
    page.wait_for_selector(".document")
    photograph(page, "result")


def test_a_picture_of_a_review(opened: Callable[..., Any], place: str) -> None:
    page = opened(place)
    page.get_by_role("button", name="raw", exact=True).wait_for()
    page.goto(place.split("#")[0] + "#/review")
    page.get_by_role("textbox", name="Old mapping").fill("old.json")
    page.get_by_role("textbox", name="New mapping").fill("new.json")
    page.get_by_role("textbox", name="Data").fill("keeper.jsonl")
    page.get_by_role("button", name="Compare", exact=True).click()
    expect(page.get_by_role("region", name="Verdict")).to_be_visible()
    photograph(page, "review")


def test_a_picture_of_a_lake(opened: Callable[..., Any], place: str) -> None:
    page = opened(place)
    page.get_by_role("link", name="Open lake: lake").click()
    expect(page.get_by_role("table", name="Waiting for a person")).to_be_visible()
    photograph(page, "lake")
