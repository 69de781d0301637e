"""The graph with a scripted mapper on real files: every way through it, and its drawing."""

import json
import re
import runpy
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from ingot.agent.context import Context
from ingot.agent.proposing.proposal import Proposal
from ingot.agent.served.graph import graph
from ingot.agent.state import Order, answer_message
from ingot.converters.errors import IngotError, MappingError, ModelError
from ingot.converters.json_yaml import encode
from ingot.converters.mapping.bind import read_tree
from tests.agent.scripted import ScriptedMapper

GOOD = {
    "version": 2,
    "messages": [
        {"role": "user", "content": "ask"},
        {"role": "assistant", "content": "reply"},
    ],
}
TYPO = {**GOOD, "messages": [GOOD["messages"][0], {"role": "assistant", "content": "replly"}]}
BROKEN = {"version": 2, "text": "a[", "meta": {"nonsense": "x"}}
DRAWING = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "img" / "graph.py"))
CONFIG: Any = {"configurable": {"thread_id": "t"}}


def proposal(mapping: dict[str, Any] | None = GOOD, decision: str = "sft") -> Proposal:
    tree = read_tree(mapping) if mapping else None
    return Proposal(
        decision=decision, mapping=tree, confidence=0.9, reason="because", mapper="scripted"
    )


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Ten questions with answers."""
    file = tmp_path / "raw" / "chat.jsonl"
    file.parent.mkdir()
    rows = ({"id": n, "ask": f"What is {n}?", "reply": f"It is {n}."} for n in range(10))
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


class Run:
    """One run of the graph in memory, with the answers that its mapper will give."""

    def __init__(
        self, data: Path, out: Path, answers: Iterable[Proposal | IngotError], **order: Any
    ) -> None:
        self.mapper = ScriptedMapper(answers)
        self.context = Context(turns={"scripted": self.mapper})
        self.graph = graph.copy({"checkpointer": InMemorySaver()})
        given = {"mapper": "scripted", "records": "jsonl", **order}
        if "mapping" in given:
            given["mapping"] = read_tree(given["mapping"])
        self.order = Order(source=str(data), out=str(out), **given)

    def begin(self) -> dict[str, Any]:
        return self.go({"order": encode(self.order)})

    def go(self, what: Any) -> dict[str, Any]:
        made: dict[str, Any] = self.graph.invoke(what, CONFIG, context=self.context)
        return made

    def answer(self, **decision: Any) -> dict[str, Any]:
        return self.go(Command(resume={"decisions": [decision]}))


def records(out: Path) -> list[dict[str, Any]]:
    files = sorted((out / "records").iterdir())
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_a_good_proposal_is_converted(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    state = Run(data, out, [proposal()], yes=True).begin()
    told = state["outcome"]
    assert (told["status"], told["decision"], told["mapper"]) == ("done", "sft", "scripted")
    assert told["result"]["manifest"]["rows"]["converted"] == 10
    assert [r["messages"][1]["content"] for r in records(out)] == [f"It is {n}." for n in range(10)]
    saved = json.loads((out / "mapping.json").read_text())
    assert list(saved) == ["version", "messages", "provenance"]  # as people read it
    assert saved["messages"] == GOOD["messages"]
    assert saved["provenance"]["mapper"] == "scripted"
    assert saved["provenance"]["coverage"] == 1.0
    assert len(saved["provenance"]["fingerprint"]) == 64
    report = (out / "report.md").read_text()
    assert "10/10 sampled rows" in report
    assert "| converted | 10 |" in report


def test_a_misspelt_path_is_corrected_in_the_next_turn(data: Path, tmp_path: Path) -> None:
    run = Run(data, tmp_path / "out", [proposal(TYPO), proposal()], yes=True)
    assert run.begin()["outcome"]["status"] == "done"
    (_, before), (_, history) = run.mapper.asked
    assert before == ()
    (problem, *_) = history[0].problems
    assert (problem.code, problem.got, problem.nearest) == ("unresolved_path", "replly", "reply")
    assert history[0].mapper == "scripted"


def test_a_document_that_is_no_mapping_is_corrected_too(data: Path, tmp_path: Path) -> None:
    run = Run(data, tmp_path / "out", [proposal(BROKEN), proposal()], yes=True)
    assert run.begin()["outcome"]["status"] == "done"
    codes = {problem.code for problem in run.mapper.asked[1][1][0].problems}
    assert "bad_path" in codes


def test_after_two_corrections_the_gate_holds_what_is_still_wrong(
    data: Path, tmp_path: Path
) -> None:
    run = Run(data, tmp_path / "out", [proposal(TYPO)] * 3, yes=True)
    told = run.begin()["outcome"]
    assert len(run.mapper.asked) == 3
    assert told["status"] == "blocked"
    assert "replly" in told["why"]
    assert not (tmp_path / "out").exists()


def test_a_mapping_that_nobody_can_run_is_reported(data: Path, tmp_path: Path) -> None:
    told = Run(data, tmp_path / "out", [proposal(BROKEN)] * 3, yes=True).begin()["outcome"]
    assert told["status"] == "unusable"
    assert told["problems"]


def test_low_coverage_is_a_gate(tmp_path: Path) -> None:
    data = tmp_path / "mixed.jsonl"
    rows: list[Any] = [{"ask": "a?", "reply": "b"}] * 8 + [{"ask": "a?", "reply": ["b"]}] * 2
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    told = Run(data, tmp_path / "out", [proposal()] * 3, yes=True).begin()["outcome"]
    assert told["status"] == "blocked"
    assert "not_text" in told["why"]
    assert told["check"]["coverage"] == 0.8


def test_review_stops_the_run_and_approval_goes_on(data: Path, tmp_path: Path) -> None:
    run = Run(data, tmp_path / "out", [proposal()])
    (asked,) = run.begin()["__interrupt__"]
    (request,), (config,) = asked.value["action_requests"], asked.value["review_configs"]
    assert request["name"] == config["action_name"] == "convert"
    assert request["args"]["mapping"]["messages"] == GOOD["messages"]
    assert "10/10 sampled rows" in request["description"]
    assert config["allowed_decisions"] == ["approve", "edit", "reject"]
    assert "mapping" in config["args_schema"]["properties"]
    assert not (tmp_path / "out").exists()
    assert run.answer(type="approve")["outcome"]["status"] == "done"
    assert len(run.mapper.asked) == 1
    assert len(records(tmp_path / "out")) == 10


def test_an_edited_mapping_is_validated_and_shown_again(data: Path, tmp_path: Path) -> None:
    run = Run(data, tmp_path / "out", [proposal()])
    run.begin()
    swapped = {
        "version": 2,
        "messages": [
            {"role": "user", "content": "reply"},
            {"role": "assistant", "content": "ask"},
        ],
    }
    wrong = run.answer(type="edit", edited_action={"name": "convert", "args": {"mapping": TYPO}})
    assert wrong["problems"][0]["nearest"] == "reply"
    again = run.answer(type="edit", edited_action={"name": "convert", "args": {"mapping": swapped}})
    assert again["problems"] == []
    assert again["__interrupt__"]
    done = run.answer(type="approve")
    assert done["outcome"]["status"] == "done"
    assert records(tmp_path / "out")[0]["messages"][0]["content"] == "It is 0."
    provenance = json.loads((tmp_path / "out" / "mapping.json").read_text())["provenance"]
    assert (provenance["mapper"], provenance["edited"]) == ("scripted", True)
    assert len(run.mapper.asked) == 1


def test_a_rejected_proposal_converts_nothing(data: Path, tmp_path: Path) -> None:
    run = Run(data, tmp_path / "out", [proposal()])
    run.begin()
    told = run.answer(type="reject", message="wrong column")["outcome"]
    assert (told["status"], told["why"]) == ("rejected", "wrong column")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("answer", ["yes", {"decisions": []}, {"decisions": [{"type": "edit"}]}])
def test_an_answer_that_is_none_is_asked_for_again(data: Path, tmp_path: Path, answer: Any) -> None:
    run = Run(data, tmp_path / "out", [proposal()])
    run.begin()
    (asked,) = run.go(Command(resume=answer))["__interrupt__"]
    assert "Not an answer" in asked.value["action_requests"][0]["description"]
    assert run.answer(type="approve")["outcome"]["status"] == "done"


def test_an_irrelevant_source_gives_a_folder_that_says_so(data: Path, tmp_path: Path) -> None:
    state = Run(data, tmp_path / "out", [proposal(None, "irrelevant")]).begin()
    assert state["outcome"]["status"] == "irrelevant"
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert (manifest["decision"], manifest["reason"]) == ("irrelevant", "because")
    assert set(manifest["rows"].values()) == {0}
    assert list((tmp_path / "out" / "records").iterdir()) == []


def test_a_folder_with_side_files_only_asks_no_mapper(tmp_path: Path) -> None:
    folder = tmp_path / "raw"
    folder.mkdir()
    (folder / "README.md").write_text("# nothing\n")
    run = Run(folder, tmp_path / "out", [])
    told = run.begin()["outcome"]
    assert told["status"] == "irrelevant"
    assert "README.md" in told["reason"]
    assert run.mapper.asked == []


def test_an_unmappable_source_converts_nothing(data: Path, tmp_path: Path) -> None:
    told = Run(data, tmp_path / "out", [proposal(None, "unmappable")], yes=True).begin()["outcome"]
    assert told["status"] == "unmappable"
    assert not (tmp_path / "out").exists()


def test_a_dry_run_writes_nothing(data: Path, tmp_path: Path) -> None:
    told = Run(data, tmp_path / "out", [proposal()], dry_run=True).begin()["outcome"]
    assert told["status"] == "dry_run"
    assert told["mapping"]["messages"] == GOOD["messages"]
    irrelevant = Run(data, tmp_path / "out", [proposal(None, "irrelevant")], dry_run=True)
    assert irrelevant.begin()["outcome"]["status"] == "irrelevant"
    assert not (tmp_path / "out").exists()


def test_a_given_mapping_asks_no_mapper(data: Path, tmp_path: Path) -> None:
    given = {"mapping": GOOD, "mapping_file": "my.json", "mapper": "file", "yes": True}
    run = Run(data, tmp_path / "out", [], **given)
    assert run.begin()["outcome"]["mapper"] == "file"
    assert len(records(tmp_path / "out")) == 10


def test_a_given_mapping_that_is_none_is_an_error(data: Path, tmp_path: Path) -> None:
    run = Run(data, tmp_path / "out", [], mapping=BROKEN, mapping_file="my.json", mapper="file")
    with pytest.raises(MappingError, match=r"my\.json"):
        run.begin()


def test_a_model_that_cannot_be_asked_leaves_the_run_where_it_was(
    data: Path, tmp_path: Path
) -> None:
    run = Run(data, tmp_path / "out", [ModelError("host", "cannot be reached"), proposal()])
    stopped = run.begin()["stopped"]
    assert (stopped["kind"], stopped["why"]) == ("model", "cannot be reached")
    assert run.answer(type="approve")["proposal"]  # the same run goes on with the next answer
    assert len(run.mapper.asked) == 2


def test_a_run_that_rests_asks_what_to_do_and_can_be_ended(data: Path, tmp_path: Path) -> None:
    run = Run(data, tmp_path / "out", [ModelError("host", "cannot be reached", "is it up?")])
    (asked,) = run.begin()["__interrupt__"]
    (request,), (config,) = asked.value["action_requests"], asked.value["review_configs"]
    assert request["name"] == config["action_name"] == "ask_again"
    assert config["allowed_decisions"] == ["approve", "reject"]
    assert "cannot be reached" in request["description"]
    assert "is it up?" in request["description"]
    edit = {"type": "edit", "edited_action": {"name": "ask_again", "args": {"mapping": GOOD}}}
    (again,) = run.answer(**edit)["__interrupt__"]
    assert "edit is not for this question" in again.value["action_requests"][0]["description"]
    told = run.answer(type="reject")["outcome"]
    assert (told["status"], told["why"]) == ("rejected", "cannot be reached")
    assert len(run.mapper.asked) == 1


def test_the_state_holds_json_and_no_rows(data: Path, tmp_path: Path) -> None:
    run = Run(data, tmp_path / "out", [proposal(TYPO), proposal()])
    run.begin()
    for held in run.graph.get_state_history(CONFIG):
        text = json.dumps(held.values)
        assert json.loads(text) == held.values
        assert "It is 3." not in text
        assert "What is" not in text


def test_a_system_text_of_the_models_own_needs_a_person(data: Path, tmp_path: Path) -> None:
    planted = {**GOOD, "system": {"literal": "Obey."}}
    from dataclasses import replace

    answers = [replace(proposal(planted), mapper="llm")]
    told = Run(data, tmp_path / "out", answers, yes=True).begin()["outcome"]
    assert told["status"] == "waiting"
    assert "Obey." in told["why"]
    told = Run(data, tmp_path / "out", [proposal(planted)], yes=True).begin()["outcome"]
    assert told["status"] == "done"


def test_the_exported_graph_has_no_checkpointer_and_is_what_langgraph_json_names(
    repository: Path,
) -> None:
    import importlib.util

    settings = json.loads((repository / "langgraph.json").read_text())
    path, _, name = settings["graphs"]["ingot"].partition(":")
    spec = importlib.util.spec_from_file_location("served", repository / path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    served = getattr(module, name)
    assert served.checkpointer is None
    assert set(served.get_graph().nodes) == set(graph.get_graph().nodes)


def test_the_readme_shows_the_graph_as_it_is(repository: Path) -> None:
    readme = (repository / "docs/architecture.md").read_text(encoding="utf-8")
    assert DRAWING["refresh_block"](readme) == readme, "run `make graph`"


def test_a_document_without_markers_is_not_touched() -> None:
    with pytest.raises(ValueError, match="graph:begin"):
        DRAWING["refresh_block"]("# nothing here")


def test_an_edit_decides_anew(data: Path, tmp_path: Path) -> None:
    run = Run(data, tmp_path / "out", [proposal()])
    run.begin()
    text = {"version": 2, "text": "reply"}
    again = run.answer(type="edit", edited_action={"name": "convert", "args": {"mapping": text}})
    assert again["proposal"]["decision"] == "pt"
    assert run.answer(type="approve")["outcome"]["decision"] == "pt"


@pytest.mark.parametrize(
    "mapping",
    [
        {"version": 2},
        {"version": 2, "text": 5},
        {"version": 2, "text": {"a": [1]}},
        {"version": 2, "messages": "ask"},
        {"version": 2, "messages": [5]},
        {"version": 2, "messages": [{"role": {"map": 3}, "content": None}], "meta": []},
        {"version": 2, "any_of": 3, "source": 4, "provenance": 5},
        {"version": 2, "any_of": [5]},
        {"version": 2, "where": [[]], "text": "ask", "system": [None]},
    ],
)
def test_an_edit_that_is_no_mapping_is_shown_with_what_is_wrong(
    data: Path, tmp_path: Path, mapping: Any
) -> None:
    run = Run(data, tmp_path / "out", [proposal()])
    run.go({"order": encode(run.order), "messages": [answer_message("before")]})
    edit = {"name": "convert", "args": {"mapping": mapping}}
    again = run.answer(type="edit", edited_action=edit)
    (asked,) = again["__interrupt__"]
    assert asked.value["action_requests"][0]["args"] == {"mapping": mapping}
    assert "## Problems" in asked.value["action_requests"][0]["description"]
    said = again["messages"][-1]["content"]
    assert "cannot be run:\n\n- This needs " in said
    assert all(line.endswith(": schema)") for line in said.splitlines() if line[:2] == "- ")
    assert run.answer(type="approve")["outcome"]["status"] == "unusable"
    assert not (tmp_path / "out").exists()


def human(words: str) -> dict[str, Any]:
    return {"type": "human", "content": words}


def test_what_ends_a_run_is_told_to_who_typed_it(data: Path, tmp_path: Path) -> None:
    """The graph as a server runs it, which brings no context."""
    made = graph.copy({"checkpointer": InMemorySaver()})
    out = tmp_path / "out"
    made.invoke({"messages": [human(f"{data} --out {out} --mapper rules")]}, CONFIG)
    out.mkdir()
    (out / "mine.txt").write_text("x")
    state = made.invoke(Command(resume={"decisions": [{"type": "approve"}]}), CONFIG)
    assert state["outcome"]["status"] == "failed"
    assert "holds files that ingot did not write" in state["messages"][-1]["content"]
    assert not made.get_state(CONFIG).next
    out.joinpath("mine.txt").unlink()
    again = made.invoke({"messages": [human(f"{data} --out {out} --mapper rules")]}, CONFIG)
    assert again["__interrupt__"]


def test_a_source_that_goes_away_is_told(data: Path, tmp_path: Path) -> None:
    made = graph.copy({"checkpointer": InMemorySaver()})
    made.invoke({"messages": [human(f"{data} --mapper rules")]}, CONFIG)
    data.unlink()
    edit = {"name": "convert", "args": {"mapping": GOOD}}
    answered = {"decisions": [{"type": "edit", "edited_action": edit}]}
    state = made.invoke(Command(resume=answered), CONFIG)
    assert state["outcome"]["status"] == "failed"
    assert "no such file" in state["messages"][-1]["content"]


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    """Measurements, which nobody trains on."""
    file = tmp_path / "raw" / "log.csv"
    file.parent.mkdir(exist_ok=True)
    rows = [f"{n},{20 + n / 10},{50 - n / 10}" for n in range(30)]
    file.write_text("\n".join(["second,celsius,percent", *rows]) + "\n")
    return file


def test_a_person_who_is_there_decides_that_there_is_nothing(numbers: Path, tmp_path: Path) -> None:
    run = Run(numbers, tmp_path / "out", [proposal(None, "irrelevant")] * 2)
    run.context.served = True
    (asked,) = run.begin()["__interrupt__"]
    (request,), (config,) = asked.value["action_requests"], asked.value["review_configs"]
    assert "approve records that" in request["description"]
    assert config["allowed_decisions"] == ["approve", "edit", "reject"]
    told = run.answer(type="reject")["outcome"]
    assert (told["status"], (tmp_path / "out").exists()) == ("rejected", False)
    run.begin()
    assert run.answer(type="approve")["outcome"]["status"] == "irrelevant"
    assert (tmp_path / "out" / "manifest.json").exists()


def test_a_mapping_in_place_of_nothing_is_tried(numbers: Path, tmp_path: Path) -> None:
    run = Run(numbers, tmp_path / "out", [proposal(None, "irrelevant")])
    run.context.served = True
    run.begin()
    for text, why in (("nosuch", "cannot be run|makes no record"), ("celsius", "")):
        edit = {"name": "convert", "args": {"mapping": {"version": 2, "text": text}}}
        (asked,) = run.answer(type="edit", edited_action=edit)["__interrupt__"]
        assert asked.value["action_requests"][0]["args"]["mapping"]["text"] == text
        if why:
            (asked,) = run.answer(type="approve")["__interrupt__"]
            assert re.search(why, asked.value["action_requests"][0]["description"])
    assert run.answer(type="approve")["outcome"]["status"] == "done"


def test_side_files_only_are_asked_about_without_an_edit(tmp_path: Path) -> None:
    folder = tmp_path / "raw"
    folder.mkdir()
    (folder / "README.md").write_text("# nothing\n")
    run = Run(folder, tmp_path / "out", [])
    run.context.served = True
    (asked,) = run.begin()["__interrupt__"]
    assert asked.value["review_configs"][0]["allowed_decisions"] == ["approve", "reject"]
    edit = {"name": "convert", "args": {"mapping": GOOD}}
    (again,) = run.answer(type="edit", edited_action=edit)["__interrupt__"]
    assert "edit is not for this question" in again.value["action_requests"][0]["description"]
    assert run.answer(type="approve")["outcome"]["status"] == "irrelevant"


@pytest.mark.parametrize("decision", ["sft", "irrelevant"])
def test_what_only_a_person_may_decide_is_asked_in_spite_of_yes(
    data: Path, tmp_path: Path, decision: str
) -> None:
    mapping = GOOD if decision == "sft" else None
    given: Any = {"yes": True, "min_confidence": 0.95}
    run = Run(data, tmp_path / "out", [proposal(mapping, decision)] * 2, **given)
    assert run.begin()["outcome"]["status"] == "waiting"
    run.context.served = True
    (asked,) = run.begin()["__interrupt__"]
    assert "below --min-confidence" in asked.value["action_requests"][0]["description"]
    told = run.answer(type="approve")["outcome"]
    assert told["status"] == {"sft": "done"}.get(decision, decision)


@pytest.mark.parametrize(
    ("mapping", "why"),
    [(BROKEN, "cannot be run"), ({**GOOD, "where": [{"path": "ask", "in": ["-"]}]}, "no record")],
)
def test_what_would_convert_nothing_is_asked_again(
    data: Path, tmp_path: Path, mapping: Any, why: str
) -> None:
    run = Run(data, tmp_path / "out", [proposal()])
    run.context.served = True
    run.begin()
    run.answer(type="edit", edited_action={"name": "convert", "args": {"mapping": mapping}})
    (asked,) = run.answer(type="approve")["__interrupt__"]
    assert why in asked.value["action_requests"][0]["description"]
    run.answer(type="edit", edited_action={"name": "convert", "args": {"mapping": GOOD}})
    assert run.answer(type="approve")["outcome"]["status"] == "done"
