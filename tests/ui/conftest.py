"""The page of `ingot ui` in a browser: the real server on a folder of data, and Chromium."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
INGOT = (sys.executable, "-P", "-m", "ingot")
SIZE = {"width": 1440, "height": 900}
_SECONDS = 20

# Questions with two replies each: the rules take the first, and are unsure.
KEEPER = "".join(
    f'{{"no": {number}, "voice": "A patient lighthouse keeper who answers in plain words.", '
    f'"prompt": "Question {number}: {question}", "reply_a": "{first}", "reply_b": "{second}"}}\n'
    for number, (question, first, second) in enumerate(
        [
            ("Why does the light turn?", "It looks nicer, I suppose.", "So that ships know it."),
            ("How far can it be seen?", "Very far, all the way over.", "Some twenty sea miles."),
            ("Who winds the clockwork?", "Nobody, it winds itself.", "I do, every four hours."),
            ("What burns in the lamp?", "Fire burns in it, as in all.", "Paraffin, since 1911."),
            ("Do birds fly into it?", "Birds have better things to do.", "In autumn, yes, some."),
        ],
        start=1,
    )
)


def unnamed(page: Any) -> list[str]:
    """Controls that have no name in the accessibility tree."""
    session = page.context.new_cdp_session(page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    roles = {"button", "combobox", "textbox", "searchbox", "link", "treeitem", "img", "table"}
    found = [one for one in nodes if one.get("role", {}).get("value") in roles]
    assert len(found) >= 5
    return [
        one["role"]["value"]
        for one in found
        if not one["ignored"] and not one.get("name", {}).get("value", "").strip()
    ]


def check_names(page: Any) -> None:
    """Every control has a name; one heading of the page; the landmarks are there."""
    assert unnamed(page) == []
    assert page.get_by_role("heading", level=1).count() == 1
    for role in ("banner", "main", "navigation"):
        assert page.get_by_role(role).count() == 1


@pytest.fixture(scope="session")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of the programs: no model, an empty home."""
    home = tmp_path_factory.mktemp("home")
    foreign = ("INGOT_", "OPENAI_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return kept | {"INGOT_HOME": str(home), "HOME": str(home)}


@pytest.fixture(scope="module")
def serve(settings: dict[str, str]) -> Iterator[Callable[[Path], str]]:
    """Start the server on a folder; returns the address that it prints."""
    pytest.importorskip("uvicorn", reason="the extra `ui` is not installed")
    running: list[subprocess.Popen[str]] = []

    def start(root: Path) -> str:
        command = [*INGOT, "ui", "--root", str(root), "--no-open", "--mapper", "rules"]
        server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=settings)
        running.append(server)
        assert server.stderr
        found = re.search(r"http://127\.0\.0\.1:\d+/#token=\S+", server.stderr.readline())
        assert found
        return found[0]

    yield start
    for server in running:
        server.terminate()
        server.communicate(timeout=_SECONDS)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of data: conversations, questions with two replies, a tokenizer."""
    folder = tmp_path_factory.mktemp("data")
    for name in ("en_chats", "tokenizer"):
        shutil.copytree(EXAMPLES / name, folder / name)
    (folder / "keeper.jsonl").write_text(KEEPER)
    return folder


@pytest.fixture(scope="module")
def address(serve: Callable[[Path], str], root: Path) -> str:
    """The address of the page for that folder."""
    return serve(root)


@pytest.fixture
def opened(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens a page; in the end nothing foreign was asked for, and nothing complained."""
    asked: list[str] = []
    complaints: list[str] = []
    contexts: list[Any] = []

    def open_page(url: str, **options: Any) -> Any:
        context = browser.new_context(**({"viewport": SIZE, "locale": "en-US"} | options))
        context.set_default_timeout(1000 * _SECONDS)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        page.goto(url)
        page.wait_for_selector("h1")
        return page

    yield open_page
    places = {one.split("/")[2] for one in asked if not one.startswith("data:")}
    for context in contexts:
        context.close()
    assert all(place.startswith("127.0.0.1:") for place in places)
    assert [one for one in complaints if "status of 4" not in one] == []


@pytest.fixture
def begun(opened: Callable[..., Any], address: str) -> Callable[..., Any]:
    """Opens the page and begins a conversation about a source by its button."""

    def begin(source: str, **options: Any) -> Any:
        page = opened(address, **options)
        page.get_by_role("button", name=f"Use as source: {source}", exact=True).click()
        page.wait_for_selector("[role=treeitem]")
        return page

    return begin
