"""How commands end that a model was asked by: disputes, budgets, what is said of what was sent."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import reply, turns
from tests.command_line import ingot

TOPICS = ("rivers", "bridges", "clouds", "violins", "bread", "maps", "glass", "salt")
OUT = ("--out", "out")


@pytest.fixture(autouse=True)
def _own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions with their answers, of which the rules are sure."""
    monkeypatch.setenv("INGOT_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    rows = (
        {"question": f"What is known of {topic} {n}?", "answer": f"Part {n} says all of {topic}."}
        for n, topic in enumerate(TOPICS * 3)
    )
    Path("raw.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def asked(url: str) -> tuple[str, ...]:
    return ("--mapper", "llm", "--model", "m1", "--base-url", url)


def ways(stderr: str) -> dict[str, str]:
    """What the lines below an error lead to, by how they begin, in their order."""
    lines = stderr[stderr.index("error: ") :].splitlines()[1:]
    told = (line.strip().partition(": ") for line in lines)
    return {what: command for what, _, command in told}


def run_way(command: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(ingot(*shlex.split(command)[1:], "--json").stdout)
    return told


@pytest.fixture(params=["nothing_to_convert", "at_a_loss"])
def finds_nothing(request: pytest.FixtureRequest) -> str:
    """The endpoint of a model without a mapping."""
    url: str = request.getfixturevalue(request.param)
    return url


@pytest.mark.more
def test_the_rules_mapping_can_be_taken_where_a_model_has_none(finds_nothing: str) -> None:
    said = ingot("run", "raw.jsonl", *OUT, *asked(finds_nothing), "--yes", code=3).stderr
    assert "--min-confidence" not in said
    read, first, *_ = ways(said)
    assert (read, first) == ("read out.proposal/report.md", "to take the rules'")
    assert "write a mapping, then" in ways(said)
    told = run_way(ways(said)[first])
    assert (told["status"], told["decision"]) == ("done", "sft")
    assert told["result"]["manifest"]["records"]["written"] == 24


@pytest.mark.more
def test_that_there_is_nothing_to_convert_can_be_accepted(nothing_to_convert: str) -> None:
    said = ingot("run", "raw.jsonl", *OUT, *asked(nothing_to_convert), code=3).stderr
    told = run_way(ways(said)["to accept that there is nothing to convert"])
    assert (told["status"], told["decision"]) == ("irrelevant", "irrelevant")
    assert json.loads(Path("out/manifest.json").read_text())["decision"] == "irrelevant"
    assert list(Path("out/records").iterdir()) == []


@pytest.mark.more
def test_a_waiting_run_in_json_holds_gates_and_the_other_opinion(turned_round: str) -> None:
    for more in ((), ("--yes",)):
        words = ("run", "raw.jsonl", *OUT, *asked(turned_round), *more, "--json")
        ran = ingot(*words, code=3)
        assert more or "; m1 at 127.0.0.1: " in ran.stderr  # with --yes a summary says it
        told = json.loads(ran.stdout)
        assert told["status"] == "waiting"
        assert "person" in {gate["state"] for gate in told["gates"]}
        assert told["opinion"]["proposal"]["mapping"]["messages"][0]["content"] == "question"


@pytest.mark.more
def test_map_prints_a_disputed_proposal_and_says_so(turned_round: str) -> None:
    ran = ingot("map", "raw.jsonl", *asked(turned_round), code=3)
    assert json.loads(ran.stdout)["messages"][0]["content"] == "answer"
    assert "error: raw.jsonl: the rules propose something else (sft, " in ran.stderr
    assert "--mapper rules" in ran.stderr
    ingot("map", "raw.jsonl", *asked(turned_round), "-o", "m.json", "--json", code=3)
    assert json.loads(Path("m.json").read_text())["messages"][0]["content"] == "answer"


def test_map_prints_that_a_model_finds_nothing(nothing_to_convert: str) -> None:
    ran = ingot("map", "raw.jsonl", *asked(nothing_to_convert), code=3)
    assert json.loads(ran.stdout) == {"version": 2, "text": None}
    assert "the rules propose something else" in ran.stderr


def test_a_dry_run_out_of_budget_writes_nothing(turned_round: str) -> None:
    words = ("run", "raw.jsonl", *OUT, *asked(turned_round), "--dry-run", "--llm-max-calls", "0")
    ran = ingot(*words, code=3)
    assert "a budget is used up" in ran.stderr
    assert "--llm-max-calls sets the limit" in ran.stderr
    assert "same command" not in ran.stderr
    assert "model   m1 at 127.0.0.1: nothing was sent\n" in ran.stdout
    assert not list(Path().glob("out*"))


@pytest.mark.more
def test_a_run_that_rests_says_how_much_went_where(model_saying: Any) -> None:
    words = ("run", "raw.jsonl", *OUT, *asked(model_saying({"decision": "nothing I know"})))
    said = ingot(*words, "--llm-max-calls", "1", code=3).stderr
    (error,) = (line for line in said.splitlines() if line.startswith("error: "))
    assert "a budget is used up: " in error
    sent = error.partition("; m1 at 127.0.0.1: ")[2]
    count, rest = sent.split(" ", 1)
    assert rest.startswith("characters in 1 call, ")
    assert rest.endswith(" out, price unknown")
    assert int(count.replace(",", "")) > 1000


@pytest.mark.more
def test_an_earlier_answer_is_told_from_one_that_was_asked_for(turned_round: str) -> None:
    words = ("run", "raw.jsonl", *asked(turned_round), "--yes", "--out")
    first = ingot(*words, "one", code=3).stdout
    assert " characters in " in first
    assert "Parts of the sample were sent" in Path("one.proposal/report.md").read_text()
    assert "an earlier answer was used, nothing was sent" in ingot(*words, "two", code=3).stdout
    report = Path("two.proposal/report.md").read_text()
    assert "An earlier answer was used" in report
    assert "were sent" not in report


@pytest.mark.more
def test_an_answer_that_was_asked_for_anew_takes_the_place_of_a_failure(model_saying: Any) -> None:
    said = {"decision": "nothing I know"}
    words = ("run", "raw.jsonl", *asked(model_saying(said)), "--yes", "--out")
    ingot(*words, "one", code=3)
    assert "an earlier answer was used" in ingot(*words, "two", code=3).stdout
    said |= reply("sft", messages=turns("answer", "question"))
    ingot(*words, "three", "--no-llm-cache", code=3)
    last = ingot(*words, "four", code=3)
    assert "an earlier answer was used" in last.stdout
    assert json.loads(Path("four.proposal/mapping.json").read_text())["messages"][0] == {
        "role": "user",
        "content": "answer",
    }


@pytest.mark.more
@pytest.mark.parametrize("name", ["mapping.json", "alternative.json"])
def test_neither_proposal_is_lost_once_a_person_has_edited_it(turned_round: str, name: str) -> None:
    words = ("run", "raw.jsonl", *OUT, *asked(turned_round), "--yes")
    ingot(*words, code=3)
    ingot(*words, code=3)  # as proposed: replaced
    file = Path("out.proposal", name)
    edited = file.read_text().replace("\n", "\n\n", 1)
    file.write_text(edited)
    said = ingot(*words, code=3).stderr
    assert said.startswith(f"error: out.proposal/{name}: was edited since it was proposed\n")
    run_way(ways(said)["to use it"])
    assert file.read_text() == edited
