"""What asking a model takes and is worth: memory, budgets, second looks, the rules' opinion."""

import contextlib
import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ingot.agent.context import Context
from ingot.agent.model.budget import Ledger, Limits, Price
from ingot.agent.model.cache import Store
from ingot.agent.model.endpoint import Endpoint
from ingot.agent.proposing.llm.mapper import ModelAccess
from ingot.agent.session import Session, open_session, run_once
from ingot.agent.state import Order, Outcome
from ingot.cli.app import app
from ingot.converters.errors import ModelError
from tests.agent.documents import document
from tests.conftest import SURE

META = dict.fromkeys(
    ("source", "language", "timestamp", "token_count", "quality_score", "original_id")
)
NOUNS = ("river", "stone", "cloud", "paper", "light", "green", "metal", "ocean", "valley")


def text(seed: int, words: int) -> str:
    """A text that is neither question nor answer, different for every seed."""
    said = random.Random(seed).choices(NOUNS, k=words)
    return f"{seed} {' '.join(said)}."


def write(folder: Path, *, first: int = 0, extra: str | None = None, sure: bool = False) -> Path:
    """Rows with a question and two answers, one of them far longer: the rules are unsure.

    `sure`: with one answer only.
    """
    folder.mkdir(parents=True, exist_ok=True)
    sizes = {"prompt": 8, "output": 12} | ({} if sure else {"detailed_output": 44})
    rows = [
        {"k": f"r{n}"}
        | {name: text(n * 3 + place, sizes[name]) for place, name in enumerate(sizes)}
        for n in range(first, first + 12)
    ]
    rows = [row | {"prompt": f"What is {row['prompt'][:-1]}?"} for row in rows]
    rows = [row | ({extra: "x"} if extra else {}) for row in rows]
    (folder / "set.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def reply(asks: str = "prompt", answers: str = "output", **given: Any) -> dict[str, Any]:
    said = [("user", asks), ("assistant", answers)]
    messages = [
        {"each": [], "role": role, "content": [path], "loss_mask": None} for role, path in said
    ]
    made: dict[str, Any] = {
        "decision": "sft",
        "reason": f"{answers} answers {asks}.",
        "root": None,
        "each": None,
        "group": None,
        "where": [],
        "text": None,
        "messages": messages,
        "system": None,
        "meta": {**META, "original_id": "k", "language": {"literal": "en"}},
        "confidence": 0.9,
    }
    return {**made, **given}


class Desk:
    """One user's machine: a home, a server, and runs into folders beside each other."""

    def __init__(self, chat: Any, root: Path) -> None:
        self.chat, self.root = chat, root
        self.store = Store(root / "home")

    def context(self, **limits: Any) -> Context:
        endpoint = Endpoint(model="m1", base_url=self.chat.url, retries=0)
        price = Price(usd_per_million_in=1.0, usd_per_million_out=2.0)
        self.said: list[str] = []
        ledger = Ledger(**{"price": price, **limits})
        how = ModelAccess(endpoint=endpoint, store=self.store, ledger=ledger, tell=self.said.append)
        return Context(asking=how)

    def order(self, data: Path, **given: Any) -> Order:
        out = str(self.root / f"{data.name}.out")
        wanted = {"mapper": "auto", "mode": "sft", "yes": True, "records": "jsonl", **given}
        return Order(source=str(data), out=out, **wanted)

    @contextmanager
    def session(self, data: Path, context: Context, **given: Any) -> Iterator[Session]:
        with open_session(self.order(data, **given), context, home=self.root / "home") as current:
            yield current

    def run(self, data: Path, context: Context | None = None, **given: Any) -> Outcome:
        with self.session(data, context or self.context(), **given) as current:
            outcome: Outcome = current.begin()["outcome"]
            return outcome


@pytest.fixture
def desk(chat: Any, tmp_path: Path) -> Desk:
    return Desk(chat, tmp_path)


def asked(chat: Any) -> int:
    return len(chat.requests)


# --- one call per shape


@pytest.mark.more
def test_the_same_shape_needs_no_second_call_where_sure_rules_agree(desk: Desk, chat: Any) -> None:
    chat.queue = [reply(), reply()]  # the second one is the second look
    first = desk.run(write(desk.root / "a", sure=True), mapper="llm")
    calls = asked(chat)
    assert first.status == "done"
    again = desk.run(write(desk.root / "b", first=100, sure=True), mapper="llm")
    assert (again.status, asked(chat)) == ("done", calls)
    assert document(again.mapping)["messages"] == document(first.mapping)["messages"]
    assert (again.usage.calls, again.usage.chars_sent) == (0, 0)
    assert again.usage.remembered is True


@pytest.mark.more
def test_an_answer_that_the_rules_do_not_confirm_is_not_reused(desk: Desk, chat: Any) -> None:
    chat.queue = [reply()] * 4
    assert desk.run(write(desk.root / "a")).status == "done"
    calls = asked(chat)
    desk.run(write(desk.root / "b", first=100))
    assert asked(chat) > calls


@pytest.mark.more
def test_another_shape_mode_or_model_is_another_question(desk: Desk, chat: Any) -> None:
    chat.queue = [reply()] * 20
    desk.run(write(desk.root / "a"))
    seen = asked(chat)
    desk.run(write(desk.root / "b", extra="more"))
    assert asked(chat) > seen
    seen = asked(chat)
    context = desk.context()
    assert context.asking
    context.asking.endpoint = Endpoint(model="m2", base_url=chat.url, retries=0)
    desk.run(write(desk.root / "c"), context)
    assert asked(chat) > seen


@pytest.mark.more
def test_an_answer_is_asked_for_anew_where_memory_is_not_wanted(desk: Desk, chat: Any) -> None:
    chat.queue = [reply()] * 20
    desk.run(write(desk.root / "a"))
    seen = asked(chat)
    context = desk.context()
    assert context.asking
    context.asking.remembered = False
    desk.run(write(desk.root / "b"), context)
    assert asked(chat) > seen


@pytest.mark.more
def test_failed_answers_are_remembered_too(desk: Desk, chat: Any) -> None:
    chat.queue = [reply("nowhere")] * 3
    told = desk.run(write(desk.root / "a"))
    assert (told.mapper, asked(chat)) == ("rules", 3)
    again = desk.run(write(desk.root / "b"))
    assert (again.mapper, asked(chat)) == ("rules", 3)
    assert "Fallback" in again.reason


@pytest.mark.more
def test_what_is_remembered_holds_no_rows(desk: Desk, chat: Any) -> None:
    chat.queue = [reply(), reply()]
    desk.run(write(desk.root / "a"))
    for file in (desk.root / "home").iterdir():
        content = file.read_bytes()
        assert b"river" not in content
        assert b"valley" not in content
        assert file.stat().st_mode & 0o077 == 0


@pytest.mark.more
def test_the_name_of_another_data_set_is_not_remembered(desk: Desk, chat: Any) -> None:
    named = reply(meta={**META, "source": {"literal": "a"}})
    chat.queue = [named, named]
    assert desk.run(write(desk.root / "a", sure=True), mapper="llm").status == "done"
    again = desk.run(write(desk.root / "b", first=100, sure=True), mapper="llm")
    assert (again.status, again.usage.calls) == ("done", 0)
    assert "source" not in document(again.mapping).get("meta", {})


@pytest.mark.more
@pytest.mark.parametrize(
    "kept", [{"old": 1}, {"said": {"decision": "perhaps"}}, {"said": None}, {"failed": 3}]
)
def test_a_memory_that_cannot_be_read_is_none(desk: Desk, chat: Any, kept: dict[str, Any]) -> None:
    class Damaged(Store):
        def reply(self, key: str) -> dict[str, Any]:
            return kept

    desk.store = Damaged(desk.root / "home")
    chat.queue = [reply(), reply()]
    told = desk.run(write(desk.root / "a"))
    assert (told.status, told.mapper) == ("done", "llm")


# --- budgets


@pytest.mark.more
def test_an_estimate_comes_before_the_first_call(desk: Desk, chat: Any) -> None:
    chat.queue = [reply(), reply()]
    desk.run(write(desk.root / "a"))
    (said,) = desk.said
    assert said.startswith("asking m1 at 127.0.0.1: about ")
    assert "at most 3 calls" in said
    assert "$" in said


@pytest.mark.more
@pytest.mark.parametrize(
    ("limits", "name"),
    [
        ({"run": Limits(calls=0)}, "--llm-max-calls"),
        ({"run": Limits(tokens=500)}, "--llm-max-tokens"),
        ({"run": Limits(cost=0.000_001)}, "--llm-max-cost"),
        ({"run": Limits(seconds=0.0)}, "--llm-max-seconds"),
        ({"data_set": Limits(calls=0)}, "--llm-per-set"),
    ],
)
def test_a_used_up_budget_rests_the_run_and_more_of_it_goes_on(
    desk: Desk, chat: Any, limits: dict[str, Limits], name: str
) -> None:
    data = write(desk.root / "a")
    with desk.session(data, desk.context(**limits)) as current:
        state = current.begin()
        assert current.is_at_rest()
        assert name in state["stopped"].hint
        assert state["proposal"].mapper == "rules"
        assert asked(chat) == 0
    chat.queue = [reply(), reply()]
    with desk.session(data, desk.context()) as current:
        told = current.begin()["outcome"]
    assert (told.status, told.mapper) == ("done", "llm")


@pytest.mark.more
def test_what_earlier_runs_spent_counts_for_the_data_set(desk: Desk, chat: Any) -> None:
    chat.queue = [reply("nowhere"), reply()]
    data = write(desk.root / "a")
    one = Limits(calls=1)
    with desk.session(data, desk.context(data_set=one)) as current:
        current.begin()
        assert (current.is_at_rest(), asked(chat)) == (True, 1)
    with desk.session(data, desk.context(data_set=one)) as current:
        current.begin()
        assert (current.is_at_rest(), asked(chat)) == (True, 1)
    with desk.session(data, desk.context(run=one)) as current:
        state = current.begin()
        assert asked(chat) == 2  # a new run may make one call, and goes on where the last one was
    assert "unresolved_path" in chat.requests[1]["messages"][-1]["content"]
    assert state["usage"].calls == 2


def test_a_dry_run_that_uses_its_budget_up_says_so(desk: Desk, chat: Any) -> None:
    order = desk.order(write(desk.root / "a"), dry_run=True)
    told = run_once(order, desk.context(run=Limits(calls=0)))["outcome"]
    assert (told.status, told.mapper, asked(chat)) == ("budget", "rules", 0)


def ingot(chat: Any, root: Path, *words: str) -> Result:
    asks = ("--base-url", chat.url, "--model", "m1") if chat else ()
    with contextlib.chdir(root):
        env = {"INGOT_HOME": str(root / "home")}
        return CliRunner().invoke(app, [*words, *asks], env=env)


@pytest.mark.more
def test_the_command_line_rests_and_goes_on(chat: Any, tmp_path: Path) -> None:
    write(tmp_path / "a")
    words = ["run", "a", "--out", "out", "--mode", "sft", *SURE, "--llm-max-calls"]
    stopped = ingot(chat, tmp_path, *words, "0")
    assert stopped.exit_code == 3
    assert "a budget is used up" in stopped.stderr
    assert "--llm-max-calls" in stopped.stderr
    assert (tmp_path / "out.proposal" / "mapping.json").is_file()
    assert not (tmp_path / "out").exists()
    chat.queue = [reply(), reply()]
    done = ingot(chat, tmp_path, *words, "9")
    assert done.exit_code == 0, done.stderr
    assert "characters in 2 calls" in done.stdout
    usage = json.loads((tmp_path / "out" / "run.json").read_text())["model"]
    sent = sum(len(one["content"]) for each in chat.requests for one in each["messages"])
    assert (usage["host"], usage["calls"], usage["chars_sent"]) == ("127.0.0.1", 2, sent)
    assert not (tmp_path / "out.proposal").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["--llm-max-cost", "1"],  # nobody knows what m1 costs
        ["--llm-per-set", "calls"],
        ["--llm-per-set", "pounds=3"],
        ["--llm-price", "0.1"],
        ["--llm-price", "0.1,-1"],
        ["--preset", "nobody"],
        ["--prompt-tokens", "100"],
    ],
)
def test_options_that_make_no_sense_are_usage_errors(
    chat: Any, tmp_path: Path, words: list[str]
) -> None:
    write(tmp_path / "a")
    done = ingot(chat, tmp_path, "map", "a", *words)
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.more
def test_the_prompt_is_shown_and_not_sent(chat: Any, tmp_path: Path) -> None:
    write(tmp_path / "a")
    done = ingot(chat, tmp_path, "map", "a", "--show-prompt", "--mode", "sft", "--json")
    shown = json.loads(done.stdout)
    assert [one["role"] for one in shown] == ["system", "user"]
    assert "nothing was sent" in done.stderr
    assert asked(chat) == 0
    chat.queue = [reply(), reply()]
    ingot(chat, tmp_path, "map", "a", "--mode", "sft", "--mapper", "llm")
    assert chat.requests[0]["messages"] == shown


def refused(status: int) -> tuple[int, dict[str, Any]]:
    return status, {"error": {"message": "no"}}


@pytest.mark.more
def test_failed_questions_count_for_the_data_set(desk: Desk, chat: Any) -> None:
    data, three = write(desk.root / "a"), Limits(calls=3)
    for _ in range(2):
        chat.queue = [refused(401)] * 9
        with (
            desk.session(data, desk.context(data_set=three), mapper="llm") as current,
            pytest.raises(ModelError),
        ):
            current.begin()
    assert asked(chat) == 2
    chat.queue = [reply("nowhere"), reply()]
    with desk.session(data, desk.context(data_set=three), mapper="llm") as current:
        state = current.begin()
        assert current.is_at_rest()
    assert (asked(chat), state["usage"].calls) == (3, 3)


# --- the second look


@pytest.mark.more
def test_an_unsure_model_is_shown_two_records(desk: Desk, chat: Any) -> None:
    chat.queue = [reply(confidence=0.5), reply("prompt", "detailed_output", confidence=0.8)]
    told = desk.run(write(desk.root / "a"))
    look = chat.requests[1]["messages"][-1]["content"]
    assert look.count("Record: ") == 2
    assert text(0, 8)[:-1] in look
    assert document(told.mapping)["messages"][1]["content"] == "detailed_output"


@pytest.mark.more
def test_a_long_text_that_nobody_takes_is_a_reason_to_look(desk: Desk, chat: Any) -> None:
    chat.queue = [reply("prompt", "output"), reply("prompt", "detailed_output")]
    desk.run(write(desk.root / "a"))
    look = chat.requests[1]["messages"][-1]["content"]
    assert "detailed_output holds" in look
    assert "is not used" in look


def test_a_sure_model_whose_records_look_right_is_asked_once(desk: Desk, chat: Any) -> None:
    chat.queue = [reply("prompt", "detailed_output", system=None)]
    answer = reply()
    answer["messages"][0]["content"] = ["prompt", "output"]
    answer["messages"][1]["content"] = ["detailed_output"]
    chat.queue = [answer]
    told = desk.run(write(desk.root / "a"))
    assert (told.status, asked(chat)) == ("done", 1)


@pytest.mark.more
def test_a_worse_answer_does_not_replace_a_clean_one(desk: Desk, chat: Any) -> None:
    chat.queue = [reply(answers="detailed_output", confidence=0.5), "no", "no"]
    told = desk.run(write(desk.root / "a"))
    assert asked(chat) == 3
    assert (told.status, told.mapper) == ("waiting", "llm")  # 0.5, and the rules differ
    assert document(told.mapping)["messages"][1]["content"] == "detailed_output"


@pytest.mark.more
def test_the_records_that_were_shown_stay_in_the_conversation(desk: Desk, chat: Any) -> None:
    chat.queue = [reply(confidence=0.5), "no", reply(confidence=0.9)]
    desk.run(write(desk.root / "a"))
    second, third = chat.requests[1]["messages"], chat.requests[2]["messages"]
    assert third[: len(second)] == second


@pytest.mark.parametrize("limits", [{"run": Limits(calls=1)}, {}])
def test_an_answer_that_passes_stands_where_no_second_look_can_be_had(
    desk: Desk, chat: Any, limits: dict[str, Limits]
) -> None:
    chat.queue = [reply("prompt", "detailed_output"), refused(401)]  # output is not used
    told = desk.run(write(desk.root / "a"), desk.context(**limits), mapper="llm")
    assert (told.status, told.mapper) == ("waiting", "llm")  # the rules take `output` whole
    assert document(told.mapping)["messages"][1]["content"] == "detailed_output"


@pytest.mark.more
def test_second_thoughts_that_drop_everything_go_to_a_person(desk: Desk, chat: Any) -> None:
    nothing = reply(decision="irrelevant", messages=None, meta=META)
    chat.queue = [reply(), nothing]
    told = desk.run(write(desk.root / "a"), mapper="llm")
    assert told.status == "waiting"
    assert "first answer converts (sft)" in told.why


@pytest.mark.more
def test_no_state_holds_the_records_that_were_shown(desk: Desk, chat: Any) -> None:
    chat.queue = [reply(confidence=0.5), reply(confidence=0.9)]
    with desk.session(write(desk.root / "a"), desk.context(), yes=False) as current:
        current.begin()
    kept = b"".join(file.read_bytes() for file in (desk.root / "home").iterdir())
    assert b"prompt" in kept
    assert b"river" not in kept


# --- the rules' opinion


def questions(folder: Path) -> Path:
    """Rows of which the rules are sure."""
    folder.mkdir()
    rows = [
        {"question": f"What is the number {n}?", "answer": f"The number {n} is {n} itself."}
        for n in range(40)
    ]
    (folder / "set.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.mark.more
def test_agreement_makes_surer(desk: Desk, chat: Any) -> None:
    chat.queue = [reply("question", "answer", confidence=0.8, meta=META)]
    told = desk.run(questions(desk.root / "q"), mapper="llm")
    assert told.status == "done"
    assert told.opinion.agrees is True
    assert told.confidence > 0.9


@pytest.mark.more
@pytest.mark.parametrize(
    "other",
    [
        reply("answer", "question", meta=META),
        reply(decision="irrelevant", messages=None, meta=META),
        reply(decision="pt", messages=None, text=["answer"], meta=META),
    ],
)
def test_what_sure_rules_deny_goes_to_a_person_with_both(
    desk: Desk, chat: Any, other: dict[str, Any]
) -> None:
    chat.queue = [other] * 3
    told = desk.run(questions(desk.root / "q"), mapper="llm", mode="auto")
    assert told.status == "waiting"
    assert "the rules propose something else" in told.why
    assert document(told.opinion.proposal.mapping)["messages"][0]["content"] == "question"


@pytest.mark.more
def test_both_proposals_lie_in_the_folder(chat: Any, tmp_path: Path) -> None:
    questions(tmp_path / "q")
    chat.queue = [reply("answer", "question", meta=META)] * 3
    done = ingot(chat, tmp_path, "run", "q", "--out", "out", "--mapper", "llm", *SURE)
    assert done.exit_code == 3
    folder = tmp_path / "out.proposal"
    theirs = json.loads((folder / "alternative.json").read_text())
    ours = json.loads((folder / "mapping.json").read_text())
    assert theirs["messages"][0]["content"] == ours["messages"][1]["content"] == "question"
    assert "out.proposal/alternative.json" in done.stderr
    assert "alternative.json" in (folder / "report.md").read_text()
    command = next(line for line in done.stderr.splitlines() if "alternative.json" in line)
    words = command.split("ingot ", 1)[1].split()
    taken = ingot(None, tmp_path, *words)
    assert taken.exit_code == 0, taken.stderr


@pytest.mark.more
@pytest.mark.parametrize("root", ["nosuch", "data[*].x"])
def test_a_root_that_is_not_there_is_corrected(desk: Desk, chat: Any, root: str) -> None:
    folder = desk.root / "r"
    folder.mkdir()
    rows = [{"question": f"What is {n}?", "answer": f"It is {n} itself."} for n in range(12)]
    (folder / "set.json").write_text(json.dumps({"data": rows, "meta": {"v": 1}}))
    right = reply("question", "answer", root="data[*]", meta=META)
    chat.queue = [{**right, "root": root}, right, right]
    told = desk.run(folder, mapper="llm", mode="auto")
    assert told.status == "done", (told.why, told.problems)
    assert "/source" in chat.requests[1]["messages"][-1]["content"]


@pytest.mark.more
def test_an_edited_mapping_needs_no_second_opinion(desk: Desk, chat: Any) -> None:
    chat.queue = [reply("answer", "question", meta=META)] * 3
    data = questions(desk.root / "q")
    with desk.session(data, desk.context(), mapper="llm", yes=False, mode="auto") as current:
        current.begin()
        mapping = {
            "version": 2,
            "messages": [
                {"role": "user", "content": "question"},
                {"role": "assistant", "content": "answer"},
            ],
        }
        action = {"name": "convert", "args": {"mapping": mapping}}
        current.answer({"decisions": [{"type": "edit", "edited_action": action}]})
        told = current.answer({"decisions": [{"type": "approve"}]})["outcome"]
    assert told.status == "done"
    assert [one for one in told.gates if one.state == "person"] == []
    assert told.opinion is None
