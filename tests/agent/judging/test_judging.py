"""The gates of a proposal together: which stop it, and which only a person opens."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ingot.agent.judging import policy
from ingot.agent.proposing.proposal import Proposal
from ingot.agent.state import Opinion, State
from ingot.converters.errors import Problem
from ingot.converters.json_yaml import decode
from ingot.converters.mapping.bind import read_tree


def proposal(**given: Any) -> Proposal:
    usual: dict[str, Any] = {
        "mapper": "llm",
        "mapping": None,
        "confidence": 0.5,
        "decision": "sft",
        "reason": "because",
    }
    return Proposal(**usual | given)


def state_of(proposed: Proposal, least: float) -> State:
    order = {"source": "s", "min_confidence": least}
    return {**decode(State, {"order": order}), "proposal": proposed}


def reasons(proposed: Proposal, least: float) -> list[str]:
    return policy.state_person_reasons(state_of(proposed, least))


def pair(asked: Any = "q", answered: Any = "a") -> dict[str, Any]:
    messages = [{"role": "user", "content": asked}, {"role": "assistant", "content": answered}]
    return {"version": 2, "messages": messages}


def test_every_other_problem_is_a_gate_too() -> None:
    problem = Problem(pointer="/x", code="bad_path", expected="a path", got="?")
    found = policy.gates_of_state({**state_of(proposal(), 0.6), "problems": (problem,)})
    assert [(one.name, one.state) for one in found] == [
        ("confidence", "person"),
        ("bad path", "fail"),
    ]


def test_every_problem_on_the_sample_is_a_failed_gate() -> None:
    problem = Problem(pointer="", code="coverage", expected="98%", got="90%")
    assert policy.failed_gates([]) == []
    assert policy.failed_gates([problem]) == ["/: coverage: expected 98%, got 90%"]


@pytest.mark.parametrize(
    ("mapping", "asks"),
    [
        ({"system": {"literal": "Obey."}}, True),
        ({"system": ["persona", {"literal": "Obey."}]}, True),
        ({"system": {"any_of": ["persona", {"literal": "Obey."}]}}, True),
        ({"messages": [{"role": "system", "content": {"literal": "Obey."}}]}, True),
        ({"messages": [{"role": "user", "content": {"literal": "Obey."}}]}, True),
        ({"system": "persona"}, False),
        ({"messages": [{"role": "system", "content": None}]}, False),
        ({"meta": {"language": {"literal": "en"}}}, False),
        (None, False),
    ],
)
def test_a_system_text_of_the_models_own_needs_a_person(mapping: Any, asks: bool) -> None:
    tree = read_tree({"version": 2, **mapping}) if mapping else None
    assert bool(reasons(proposal(mapping=tree), 0.0)) is asks
    assert reasons(proposal(mapping=tree, mapper="rules"), 0.5) == []


def test_what_needs_a_person_is_what_the_gates_say() -> None:
    document = pair() | {"meta": {"source": {"literal": "openai"}}}
    proposed = proposal(mapping=read_tree(document))
    assert reasons(proposed, 0.0) == []  # whose name it is not is not known
    source = {"name": "my_set", "files": 1, "bytes": 1, "left_out": [], "left_out_count": 0}
    channels = {"order": {"source": "s", "min_confidence": 0.6}, "source": source}
    state: State = {**decode(State, channels), "proposal": proposed}
    said = policy.state_person_reasons(state)
    assert said[0] == "confidence 0.50 is below --min-confidence 0.6"
    shown = policy.gates_of_state(state)[0]  # where the gate's name stands beside its detail
    assert (shown.name, shown.detail) == ("confidence", "0.50 is below --min-confidence 0.6")
    state["proposal"] = replace(proposed, decision="irrelevant", mapping=None)
    assert policy.irrelevance_doubt(state) == said[0]
    assert "'openai'" in said[1]


@pytest.mark.parametrize("mapper", ["rules", "llm", "scripted"])
def test_a_mapper_that_is_not_sure_needs_a_person(mapper: str) -> None:
    assert reasons(proposal(mapper=mapper), 0.51) == [
        "confidence 0.50 is below --min-confidence 0.51"
    ]
    assert reasons(proposal(mapper="edited"), 0.51) == []


# --- the document


ROOT = Path(__file__).resolve().parents[3]
ROW = {"turns": [{"who": "me", "x": "a"}, {"who": "it", "x": "b"}], "doc": "text"}
BY_DATA = {"path": "who", "map": {"me": "user", "it": "assistant"}}


def listed() -> list[set[str]]:
    """The names in each row of the tables of gates; `most frequent prompt, answer` are two."""
    text = (ROOT / "docs" / "gates.md").read_text(encoding="utf-8")
    text = text[text.index("### Confidence of") : text.index("### How the gates were")]
    cells = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")]
    found = []
    for cell in cells:
        first, *more = cell.split(", ")
        found.append({cell, first, *more, *(f"{first.rpartition(' ')[0]} {one}" for one in more)})
    return found


@pytest.mark.parametrize(
    "document",
    [{"messages": [{"each": "turns[*]", "role": BY_DATA, "content": "x"}]}, {"text": "doc"}],
)
def test_the_document_lists_the_gates_in_their_order(told: Any, document: dict[str, Any]) -> None:
    names = [*told({"version": 2, **document}, [ROW] * 4 + [{"turns": [], "doc": ""}])]
    channels = {
        "order": {"source": "s", "language": "en"},
        "sample": {"rows": 5, "bad": 0, "complete": True, "total_rows": 5},
    }
    state: State = {
        **decode(State, channels),
        "proposal": proposal(mapping=read_tree({"version": 2, **document}), confidence=0.9),
        "opinion": Opinion(agrees=False, proposal=proposal(decision="pt", confidence=0.1)),
    }
    names += [one.name for one in policy.gates_of_state(state)][1:]  # confidence is there already
    rows = listed()
    places = [next(n for n, cell in enumerate(rows) if name in cell) for name in names]
    assert {"confidence", "coverage", "system text", "second opinion"} <= set(names)
    assert all(one <= other for one, other in pairwise(places))
