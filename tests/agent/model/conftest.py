"""Asking the local chat server with a memory, a ledger and waits that are written down."""

from pathlib import Path
from typing import Any

import pytest

from ingot.agent.model.budget import Ledger
from ingot.agent.model.cache import Store
from ingot.agent.model.client import Completion, OnText, ask_model
from ingot.agent.model.endpoint import Endpoint
from ingot.converters import json_yaml

MESSAGES = [{"role": "user", "content": "what is it? Answer in json."}]


class Asker:
    """Asks one server; keeps what was waited for. The memory is a file under a folder."""

    messages = MESSAGES
    schema = json_yaml.schema("llm")

    def __init__(self, chat: Any, folder: Path) -> None:
        self.chat = chat
        self.store = Store(folder)
        self.ledger = Ledger()
        self.is_waiting: list[float] = []
        self.heard: list[str | None] = []

    def endpoint(self, **given: Any) -> Endpoint:
        return Endpoint(**{"model": "m1", "base_url": self.chat.url, **given})

    def ask(
        self, *answers: Any, below: str | None = None, hear: OnText | None = None, **given: Any
    ) -> Completion:
        """One question; `answers` go into the server's queue, `given` into the endpoint."""
        self.chat.queue.extend(answers)
        return ask_model(
            self.endpoint(**given),
            MESSAGES,
            self.schema,
            store=self.store,
            ledger=self.ledger,
            below=below,
            sleep=self.is_waiting.append,
            hear=hear,
        )

    def hear(self, *answers: Any, **given: Any) -> Completion:
        """One question that is listened to; `heard` holds what was heard, None among it."""
        return self.ask(*answers, hear=self.heard.append, **given)

    def last_heard(self) -> str:
        """What was heard since the last None."""
        texts: list[str] = []
        for one in self.heard:
            texts = [] if one is None else [*texts, one]
        return "".join(texts)

    def levels(self) -> list[str]:
        """The step of the ladder that each request stood on."""
        return [_level(one) for one in self.chat.requests]


def _level(request: dict[str, Any]) -> str:
    if "tools" in request:
        return "tool"
    return str(request.get("response_format", {}).get("type", "prompt"))


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for service in ("OPENAI_API_KEY", "DEEPSEEK_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(service, raising=False)
    for name in ("INGOT_MODEL", "INGOT_PRESET"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def asker(chat: Any, tmp_path: Path) -> Asker:
    return Asker(chat, tmp_path / "home")
