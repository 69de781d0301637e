"""A browser for the page of a lake: the system's Chromium, with every network switched off."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Opens a page; in the end nothing was asked for but the file, and nothing complained of."""
    asked: list[str] = []
    complaints: list[str] = []
    contexts: list[Any] = []
    file = tmp_path / "index.html"

    def open_page(html: bytes, fragment: str = "", **options: Any) -> Any:
        file.write_bytes(html)
        context = browser.new_context(offline=True, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url.split("#")[0]))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.goto(file.as_uri() + fragment)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert set(asked) == {file.as_uri()}
    assert complaints == []
