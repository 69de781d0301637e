"""validate: problems without secrets, a model's own faults, the provenance of what was proposed."""

import json
from pathlib import Path
from typing import Any

import pytest

from ingot.agent.context import Context
from ingot.agent.judging.policy import gates_of_state, review_by_gates
from ingot.agent.proposing.fingerprint import shape_fingerprint
from ingot.agent.proposing.proposal import Proposal, Turn
from ingot.agent.state import Order, State
from ingot.agent.steps.course import Run, advance
from ingot.converters.json_yaml import encode
from ingot.converters.mapping.bind import bind, read_tree
from ingot.converters.mapping.documents.writer import to_document

PAIR = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
ROWS = [{"q": f"Question {n}?", "a": f"Answer number {n}.", "keep": n < 5} for n in range(20)]


def validated(
    tmp_path: Path, document: dict[str, Any], rows: list[Any] = ROWS, *, mapper: str = "llm"
) -> State:
    """The state after a proposal for the rows of a file was validated."""
    file = tmp_path / "raw.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    context = Context()
    state: State = {"order": Order(source=str(file), out=str(tmp_path / "out"))}
    run = Run(state=state, context=context, step="discover")
    advance(run, until="propose")
    proposal = Proposal(
        decision="sft",
        mapping=read_tree({"version": 2, **document}),
        confidence=0.9,
        reason="because",
        mapper=mapper,
    )
    turn = Turn(provenance={"mapper": mapper}, mapper=mapper)
    run.apply({"proposal": proposal, "turn": turn})
    return advance(run, until="repair")


def test_the_provenance_tells_the_shape(tmp_path: Path) -> None:
    state = validated(tmp_path, {"messages": PAIR})
    assert state["proposal"]
    mapping = state["proposal"].mapping
    assert mapping
    assert mapping.provenance
    kept = mapping.provenance
    assert kept["shape"]["paths"]["q"] == "string"
    assert kept["fingerprint"] == shape_fingerprint(kept["shape"])
    assert bind(to_document(mapping), None, where="x") == mapping
    assert review_by_gates(state).decision == "approve"
    assert {one.state for one in gates_of_state(state)} == {"pass"}


def test_constants_of_a_model_are_problems_that_it_can_correct(tmp_path: Path) -> None:
    meta = {"original_id": {"literal": "call 13800138000"}}
    state = validated(tmp_path, {"messages": PAIR, "meta": meta})
    (problem,) = state["problems"]
    assert (problem.pointer, problem.code) == ("/meta/original_id", "constant_meta")
    assert "13800138000" not in problem.got
    assert review_by_gates(state).decision == "held"
    assert validated(tmp_path, {"messages": PAIR, "meta": meta}, mapper="rules")["problems"] == ()


@pytest.mark.parametrize(
    "more",
    [
        {"system": {"literal": "You are a helpful assistant."}},
        {"where": [{"path": "keep", "in": [True]}]},
        {"meta": {"source": {"literal": "someone else's"}}},
    ],
)
def test_what_a_model_may_not_decide_waits_for_a_person(
    tmp_path: Path, more: dict[str, Any]
) -> None:
    state = validated(tmp_path, {"messages": PAIR, **more})
    assert state["problems"] == ()
    assert review_by_gates(state).decision == "person"
    assert [one.state for one in gates_of_state(state)].count("person") == 1
    # Conditions that leave out most of the rows ask, whoever wrote them.
    by_rules = review_by_gates(validated(tmp_path, {"messages": PAIR, **more}, mapper="rules"))
    assert by_rules.decision == ("person" if "where" in more else "approve")


def test_problems_hold_no_secrets(tmp_path: Path) -> None:
    role = {"path": "who", "map": {"it": "assistant", "me": "user"}}
    messages = [{"each": "t[*]", "role": role, "content": "x"}]
    rows = [{"t": [{"who": "ann@example.org", "x": "a"}, {"who": "it", "x": "b"}]}] * 5
    state = validated(tmp_path, {"messages": messages}, rows)
    assert "example.org" not in json.dumps(encode(state, State))
    assert "[email]" in str(state["problems"])


def test_a_mapping_that_cannot_be_bound_is_a_problem_of_the_mapper(tmp_path: Path) -> None:
    state = validated(tmp_path, {"messages": [{"role": "boss", "content": "q"}]})
    assert state["check"] is None
    assert state["problems"]
    assert {one.state for one in gates_of_state(state)} == {"pass", "fail"}
