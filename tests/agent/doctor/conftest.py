"""Servers that make more or less of what they are asked, and the checks of one by name."""

import json
from pathlib import Path
from typing import Any

import pytest

from ingot.agent.doctor import endpoint_checks as doctor
from ingot.agent.doctor.checks import Check
from ingot.agent.model.cache import Store
from ingot.agent.model.endpoint import Endpoint

GOLD = 'hello {"metal": "gold"}'
SILVER = '{"metal": "silver"}'
LIST = (200, {"object": "list", "data": [{"id": "m1"}, {"id": "m2"}]})


class Server:
    """A model that does as it is told, behind a server that holds it to some levels.

    Attributes:
        held: levels that replies are held to.
        refused: levels that are answered with 400.
        blank: levels that are answered with white space.
        plain: what the model says to the question of the last level.
    """

    def __init__(self) -> None:
        self.held: set[str] = set()
        self.refused: set[str] = set()
        self.blank: set[str] = set()
        self.plain = f"```json\n{SILVER}\n```"

    def __call__(self, request: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        level = level_of(request)
        if level in self.refused:
            return 400, {"error": {"message": f"{level} of response_format is not supported"}}
        if level in self.blank:
            return said(" \n " * 9)
        if level == "prompt":
            return said(self.plain)
        if level not in self.held:
            return said(GOLD)
        if level == "tool":
            return said(None, tool_calls=[{"function": {"name": "mapping", "arguments": SILVER}}])
        return said(SILVER if level == "json_schema" else '{"metal": "gold"}')


def level_of(request: dict[str, Any]) -> str:
    if "tools" in request:
        return "tool"
    return str(request.get("response_format", {}).get("type", "prompt"))


def said(content: str | None, **message: Any) -> tuple[int, dict[str, Any]]:
    choice = {"finish_reason": "stop", "message": {"content": content, **message}}
    return 200, {
        "choices": [choice],
        "usage": {"prompt_tokens": 31, "completion_tokens": 6},
    }


class Doctor:
    """Checks of one server; keeps waits and the last checks, the memory is a file."""

    def __init__(self, chat: Any, folder: Path) -> None:
        self.chat = chat
        self.server = Server()
        self.store = Store(folder)
        self.is_waiting: list[float] = []
        self.found: list[Check] = []
        chat.always = self.server
        chat.models = LIST

    def endpoint(self, **given: Any) -> Endpoint:
        return Endpoint(**{"model": "m1", "base_url": self.chat.url, **given})

    def look(self, *, timeout_s: float = 30, **given: Any) -> dict[str, Check]:
        """The checks by name."""
        looked = doctor.endpoint_checks(
            self.endpoint(**given), self.store, timeout_s=timeout_s, sleep=self.is_waiting.append
        )
        self.found = list(looked)
        return {one.name: one for one in self.found}

    def states(self) -> dict[str, str]:
        return {one.name: one.state for one in self.found}

    def remembered(self, **given: Any) -> str | None:
        known = self.store.level(self.endpoint(**given))
        return known and known.level

    def asked(self) -> list[str]:
        """The level of each question."""
        return [level_of(one) for one in self.chat.requests]

    def sent(self) -> str:
        return json.dumps(self.chat.requests)


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "DEEPSEEK_API_KEY", "OPENAI_BASE_URL", "INGOT_MODEL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def doctor_of(chat: Any, tmp_path: Path) -> Doctor:
    return Doctor(chat, tmp_path / "home")
