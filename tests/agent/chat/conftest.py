"""Conversations about small data sets, with a model behind real HTTP or without one."""

import json
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import pytest

from ingot.agent.chat.conversation import Conversation
from ingot.agent.chat.operations import begin_conversation
from ingot.agent.chat.responses import respond
from ingot.agent.context import Context
from ingot.agent.model.cache import Store
from ingot.agent.model.endpoint import configured_endpoint
from ingot.agent.proposing.llm.mapper import ModelAccess
from ingot.agent.state import Order

STAPLES = [
    {
        "id": f"p{number}",
        "title": f"How bread number {number} rises",
        "body": f"Loaf number {number} was left in a warm place for two hours. It had doubled "
        "by then, and the crust broke where the dough was thin. Nobody had to wait long.",
        "kind": "news" if number % 3 else "draft",
    }
    for number in range(40)
]
ANSWERS = [
    {
        "question": f"What is the capital of country number {number}?",
        "chosen": f"The capital of country number {number} is the town by its longest river.",
        "rejected": f"I do not know much about country number {number}, sorry about that.",
        "persona": "You are a teacher of geography who answers in one sentence.",
    }
    for number in range(40)
]


@dataclass(frozen=True)
class Beginning:
    """A conversation that has begun: a value, from which any number of tests go on."""

    now: Conversation
    context: Context
    stages: tuple[str, ...]


BEGINNINGS: dict[str, Beginning] = {}


def begun(order: Order) -> Beginning:
    """Return the beginning of a conversation by the rules, which is the same for equal orders."""
    if (key := repr(order)) not in BEGINNINGS:
        context, stages = Context(), []
        now = begin_conversation("c1", order, context, stages.append)
        BEGINNINGS[key] = Beginning(now, context, tuple(stages))
    return BEGINNINGS[key]


class Talk:
    """A conversation that is gone on with line by line."""

    def __init__(self, source: Path, **order):
        first = begun(Order(source=str(source), **order))
        self.context, self.stages, self.now = first.context, first.stages, first.now
        self.heard: list[str | None] = []

    def __call__(self, line: str):
        self.heard = []
        told = respond(self.now, line, self.context, self.heard.append)
        self.now = told.conversation
        return told


def lines_of(values) -> str:
    return "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in values)


@pytest.fixture
def rows(tmp_path):
    """Writes rows as a JSONL file."""

    def write(name, values):
        file = tmp_path / f"{name}.jsonl"
        file.write_text(lines_of(values))
        return file

    return write


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """Writes rows that no test changes: equal ones once."""
    folder = tmp_path_factory.mktemp("data")

    def write(values):
        lines = lines_of(values)
        file = folder / sha256(lines.encode()).hexdigest() / "data.jsonl"
        if not file.exists():
            file.parent.mkdir()
            file.write_text(lines)
        return file

    return write


@pytest.fixture
def offline(data):
    """Begins a conversation without a model."""
    return lambda values, **order: Talk(data(values), **order)


@pytest.fixture
def online(data, chat, monkeypatch):
    """Begins a conversation by the rules; the model behind the server `chat` goes on with it."""
    monkeypatch.setenv("OPENAI_API_KEY", "k")

    def begin(values, **order):
        endpoint = configured_endpoint("m", chat.url)
        asking = ModelAccess(endpoint=endpoint, store=Store(None))
        talk = Talk(data(values), **order)
        talk.context = Context(asking=asking)
        return talk

    return begin
