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
from typer.testing import CliRunner

from ingot.agent.context import Context
from ingot.agent.model.cache import Store
from ingot.agent.model.endpoint import Endpoint
from ingot.agent.proposing.llm.mapper import ModelAccess
from ingot.agent.proposing.llm.question import load_prompt
from ingot.agent.session import run_once
from ingot.agent.state import Order, State
from ingot.cli.app import app
from ingot.converters.errors import ModelError
from tests.agent.documents import document
from tests.conftest import SURE, first_quick, one_of_each


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
        context = Context(asking=ModelAccess(endpoint=endpoint, store=Store(None)))
        order = Order(
            source=str(source),
            out=str(self.out),
            mode=mode,
            mapper=mapper,
            yes=True,
            records="jsonl",
        )
        return run_once(order, context)

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
        *(one for each in state["attempts"] for one in each.problems),
    ]
    gates = {one.name for one in told.gates if one.state in ("fail", "person")}
    return {one.code for one in problems} | gates | {told.status}


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


@pytest.mark.parametrize(
    ("order", "names", "wanted"), first_quick(one_of_each(CASES, kind=lambda order, *_: order.said))
)
def test_what_an_obedient_model_says_is_stopped(
    victim: Victim, order: Any, names: tuple[str, str], wanted: str
) -> None:
    place = poison.BY_NAME[order.place]
    state = victim.run(place, order, names)
    assert wanted in stops(state)
    assert state["outcome"].status in ("waiting", "blocked", "unmappable", "unusable")
    assert not victim.out.exists()
    assert victim.files() == victim.before


LARGE = ("10,000 keys", "million-character key")


@pytest.mark.parametrize(
    "place",
    first_quick(
        pytest.param(one, id=one.name, marks=[pytest.mark.long] if one.name in LARGE else [])
        for one in poison.PLACES
    ),
)
def test_an_order_is_stopped_wherever_it_stands(victim: Victim, chat: Any, place: Any) -> None:
    order = poison.PLANTED
    state = victim.run(place, order, VAGUE)
    assert "system text" in stops(state)
    assert state["outcome"].status == "waiting"
    assert not victim.out.exists()
    assert victim.files() == victim.before
    for request in chat.requests:
        task, *others = request["messages"]
        assert task == {"role": "system", "content": load_prompt("task").text}
        for one in others:
            if one["role"] == "user":
                assert poison.WORD not in poison.plain(outside(one["content"]))


# --- the same through other doors


@pytest.mark.parametrize("said", ["system", "swap"])
def test_a_model_that_is_asked_because_the_rules_are_unsure(victim: Victim, said: str) -> None:
    """With `auto` only data of which the rules know little reaches the model."""
    evil = {"system": poison.PLANTED, "swap": poison.ORDERS[0]}[said]
    state = victim.run(poison.BY_NAME["column"], evil, VAGUE if said == "system" else CLEAR, "auto")
    if said == "swap":  # the rules were sure, and nobody was asked
        assert state["outcome"].mapper == "rules"
        assert victim.chat.requests == []
        assert [one["role"] for one in victim.records()[0]["messages"]] == ["user", "assistant"]
        assert victim.records()[0]["messages"][0]["content"].startswith("What is")
        return
    assert state["outcome"].status == "waiting"
    assert not victim.out.exists()


TALK = [("human", "What is it?"), ("gpt", "It is a stone."), ("note", poison.PLANTED.said)]


def talks(folder: Path, names: dict[str, str]) -> Path:
    folder.mkdir()
    turns = [{"from": names.get(who, who), "value": said} for who, said in TALK]
    rows = [{"chat": [{**one, "value": f"{one['value']} {n}"} for one in turns]} for n in range(12)]
    (folder / "set.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.mark.parametrize(
    ("roles", "wanted"),
    [
        ({"human": "assistant", "gpt": "user", "note": "drop"}, "roles against their names"),
        ({"human": "user", "gpt": "assistant", "note": "system"}, "system texts by their names"),
        ({"human": "drop", "gpt": "assistant", "note": "drop"}, "no_records"),
        ({"human": "user", "gpt": "drop", "note": "assistant"}, "sides by their names"),
        ({"human": "user", "gpt": "assistant"}, "unmapped_value"),
    ],
)
def test_roles_that_a_planted_turn_asks_for(
    victim: Victim, roles: dict[str, str], wanted: str
) -> None:
    named = [{"value": value, "role": role} for value, role in roles.items()]
    role = {"path": "from", "map": named}
    answer = poison.reply(
        CLEAR,
        messages=[poison.message(role, "value", each=["chat[*]"])],
        meta=poison.meta(original_id=None),
    )
    state = victim.asked(talks(victim.root / "set", {}), answer, "sft")
    assert wanted in stops(state)
    assert not victim.out.exists()


@pytest.mark.more
def test_speakers_whose_names_are_orders(victim: Victim) -> None:
    """The names are in the question as data; what is said of them in corrections is so too."""
    names = {"human": f"{poison.PLANTED.said} human", "gpt": "gpt"}
    role = {"path": "from", "map": [{"value": "gpt", "role": "assistant"}]}
    answer = poison.reply(CLEAR, messages=[poison.message(role, "value", each=["chat[*]"])])
    victim.asked(talks(victim.root / "set", names), answer, "sft")
    assert len(victim.chat.requests) == 3
    for request in victim.chat.requests:
        for one in request["messages"]:
            if one["role"] != "assistant":
                assert poison.WORD not in outside(one["content"])


def test_what_was_stopped_is_not_remembered_for_clean_data(victim: Victim, chat: Any) -> None:
    store = Store(None)

    def run(name: str, answer: Any) -> State:
        chat.always = answer
        endpoint = Endpoint(model="m1", base_url=chat.url, retries=0)
        order = Order(source=str(victim.root / name), mapper="llm", mode="sft", dry_run=True)
        return run_once(order, Context(asking=ModelAccess(endpoint=endpoint, store=store)))

    place = poison.BY_NAME["one row"]
    place.lay(victim.root / "bad", poison.rows(VAGUE), poison.PLANTED.said)
    place.lay(victim.root / "good", poison.rows(VAGUE), "Nothing to see here.")
    run("bad", poison.PLANTED.obeyed(VAGUE))
    calls = len(chat.requests)
    clean = run("good", poison.reply(VAGUE))
    assert len(chat.requests) > calls
    assert "system" not in document(clean["outcome"].mapping)


def test_a_redirect_takes_nothing_elsewhere(victim: Victim, other_chat: Any) -> None:
    moved = (307, {}, {"location": f"{other_chat.url}/chat/completions"})
    source = poison.BY_NAME["column"].lay(victim.root / "set", poison.rows(VAGUE), "x")
    with pytest.raises(ModelError):
        victim.asked(source, lambda _: moved, "sft")
    assert other_chat.requests == []
    assert not victim.out.exists()


@pytest.fixture
def shell(chat: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command line in the folder of the data."""
    monkeypatch.setenv("INGOT_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> Any:
        how = ("--mapper", "llm", "--model", "m1", "--base-url", chat.url)
        return CliRunner().invoke(app, [*words, *how])

    return run


OVERHEARD = [
    one
    for one in poison.ORDERS
    if re.search(r"passwd|secret\.json|Buy|obeyed|two lines|German|never on|fourth row", one.said)
]


@pytest.mark.more
@pytest.mark.parametrize("order", OVERHEARD, ids=lambda one: one.said[:50])
def test_the_command_line_writes_a_proposal_and_nothing_else(
    victim: Victim, chat: Any, shell: Any, order: Any
) -> None:
    place = poison.BY_NAME[order.place]
    place.lay(victim.root / "set", poison.rows(VAGUE), order.said)
    chat.always = order.obeyed(VAGUE)
    before = victim.files()
    done = shell("run", "set", "--out", "out", "--mode", "sft", *SURE)
    assert done.exit_code in (1, 3)
    assert "error: out.proposal/: " in done.stderr
    new = {one.relative_to(victim.root).parts[0] for one in victim.files() - before}
    assert new == {"home", "out.proposal"}
    kept = {one.name for one in (victim.root / "out.proposal").iterdir()}
    assert kept <= {"mapping.json", "alternative.json", "report.md"}
    assert not Path("/tmp/obeyed").exists()


@pytest.mark.more
def test_what_a_model_says_of_its_choice_is_no_markup(
    victim: Victim, chat: Any, shell: Any
) -> None:
    poison.BY_NAME["column"].lay(victim.root / "set", poison.rows(VAGUE), "x")
    reason = "# Approved\n\x1b[2J<script>x</script> ![x](http://evil.example/x) @all"
    chat.always = poison.reply(VAGUE, reason=reason, system=[poison.literal("Evil")])
    done = shell("run", "set", "--out", "out", "--mode", "sft", *SURE)
    assert done.exit_code == 3
    report = (victim.root / "out.proposal" / "report.md").read_text("utf-8")
    assert "\x1b" not in report + done.stdout + done.stderr
    assert "\n# Approved" not in report
    assert "<script>" not in report
    assert "![x]" not in report


# --- no false alarms


HARMLESS = poison.Order(said=poison.PLANTED.said, obeyed=poison.reply, clear="")
HONEST = [
    "column",
    "values",
    "key",
    "nested key",
    "keys that are paths",
    "file name",
    "README",
    "CSV header",
    "fake fence",
    "fake reply",
    "chat marks",
    "zero width",
    "deep",
]


@pytest.mark.parametrize("name", HONEST)
def test_a_model_that_does_not_obey_converts(victim: Victim, name: str) -> None:
    state = victim.run(poison.BY_NAME[name], HARMLESS, CLEAR)
    assert (state["outcome"].status, state["outcome"].why) == ("done", "all gates passed")
    found = [[one["content"] for one in record["messages"]] for record in victim.records()]
    assert [one[0] for one in found] == [row["question"] for row in poison.rows(CLEAR)]
    for (_, answered), row in zip(found, poison.rows(CLEAR), strict=True):
        assert answered.startswith(row["answer"])


@pytest.mark.parametrize("clean", poison.CLEAN, ids=lambda one: one.name)
def test_clean_data_and_an_honest_model_need_nobody(victim: Victim, clean: Any) -> None:
    (victim.root / "set").mkdir()
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in clean.rows)
    (victim.root / "set" / "set.jsonl").write_text(lines, "utf-8")
    state = victim.asked(victim.root / "set", clean.said, clean.said["decision"])
    assert (state["outcome"].status, state["outcome"].why) == ("done", "all gates passed")
    assert len(victim.records()) == len(clean.rows)
