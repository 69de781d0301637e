"""Data that gives orders, and a model that obeys: what stops it, and that nothing else happens.

The server says what the order asks for (`poison.py`). A run with `--yes` may end with a folder only
where its records are the honest ones; docs/injection.md says what stops what.
"""

import json
import re
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from ingot.agent.context import Context
from ingot.agent.mappers.asking import Asking
from ingot.agent.model.endpoint import Endpoint
from ingot.agent.model.store import Store
from ingot.agent.prompting import prompt
from ingot.agent.session import once
from ingot.agent.state import Order, State


def _beside(name: str) -> Any:
    """A module of this folder, which is no package."""
    spec = spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec
    assert spec.loader
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


poison = _beside("poison")
CLEAR, VAGUE = poison.CLEAR, poison.VAGUE
FENCE = re.compile(r"^===== data [0-9a-f]{32} =====$", re.MULTILINE)


class Victim:
    """A folder with a poisoned data set, and runs with `--yes` that ask the server."""

    def __init__(self, chat: Any, root: Path) -> None:
        self.chat, self.root, self.out = chat, root, root / "out"

    def run(self, place: Any, order: Any, names: tuple[str, str], mapper: str = "llm") -> State:
        source = place.lay(self.root / "set", poison.rows(names), order.said)
        self.before = self.files()
        answer = order.obeyed(names)
        if place.root and isinstance(answer, dict) and answer["root"] is None:
            answer = {**answer, "root": place.root}
        return self.asked(source, answer, order.mode, mapper)

    def asked(self, source: Path, answer: Any, mode: str, mapper: str = "llm") -> State:
        self.chat.always = answer
        endpoint = Endpoint(model="m1", base_url=self.chat.url, retries=0)
        context = Context(asking=Asking(endpoint=endpoint, store=Store(None)))
        order = Order(
            source=str(source),
            out=str(self.out),
            mode=mode,
            mapper=mapper,
            yes=True,
            records="jsonl",
        )
        return once(order, context)

    def files(self) -> set[Path]:
        return {one for one in self.root.rglob("*") if self.out not in (one, *one.parents)}

    def records(self) -> list[dict[str, Any]]:
        files = sorted((self.out / "records").glob("*.jsonl"))
        return [json.loads(line) for one in files for line in one.read_text("utf-8").splitlines()]


@pytest.fixture
def victim(chat: Any, tmp_path: Path) -> Victim:
    return Victim(chat, tmp_path)


def stops(state: State) -> set[str]:
    """Codes of problems of all answers, gates that do not pass, and how the run ended."""
    told = state["outcome"]
    problems = [
        *state["problems"],
        *(one for each in state["attempts"] for one in each["problems"]),
    ]
    gates = {one["name"] for one in told["gates"] if one["state"] in ("fail", "person")}
    return {one["code"] for one in problems} | gates | {told["status"]}


def outside(content: str) -> str:
    """What of a message stands outside its fences."""
    parts = FENCE.split(content)
    assert len(parts) % 2
    return "".join(parts[::2])


CASES = [
    pytest.param(order, names, wanted, id=f"{order.said[:60]}-{names[0]}")
    for order in poison.ORDERS
    for names, wanted in ((CLEAR, order.clear), (VAGUE, order.vague))
    if wanted and not (names == CLEAR and order.clear == order.vague)
]


@pytest.mark.parametrize(("order", "names", "wanted"), CASES)
def test_what_an_obedient_model_says_is_stopped(
    victim: Victim, order: Any, names: tuple[str, str], wanted: str
) -> None:
    place = poison.BY_NAME[order.place]
    state = victim.run(place, order, names)
    assert wanted in stops(state)
    assert state["outcome"]["status"] in ("waiting", "blocked", "unmappable", "unusable")
    assert not victim.out.exists()
    assert victim.files() == victim.before


@pytest.mark.parametrize("place", poison.PLACES, ids=lambda place: place.name)
def test_an_order_is_stopped_wherever_it_stands(victim: Victim, chat: Any, place: Any) -> None:
    order = poison.PLANTED
    state = victim.run(place, order, VAGUE)
    assert "system text" in stops(state)
    assert state["outcome"]["status"] == "waiting"
    assert not victim.out.exists()
    assert victim.files() == victim.before
    for request in chat.requests:
        task, *others = request["messages"]
        assert task == {"role": "system", "content": prompt("task").text}
        for one in others:
            if one["role"] == "user":
                assert poison.WORD not in poison.plain(outside(one["content"]))
