"""The gates of a proposal together: which stop it, and which only a person opens."""

from typing import Any

import pytest

from ingot.agent import gates


def pair(asked: Any = "q", answered: Any = "a") -> dict[str, Any]:
    messages = [{"role": "user", "content": asked}, {"role": "assistant", "content": answered}]
    return {"version": 2, "messages": messages}


def test_every_other_problem_is_a_gate_too() -> None:
    problem = {"pointer": "/x", "code": "bad_path", "expected": "a path", "got": "?"}
    proposal = {"mapper": "llm", "mapping": None, "confidence": 0.5, "decision": "sft"}
    found = gates.gates(
        proposal, None, [problem], least=0.6, source_name=None, requested_source=None
    )
    assert [(one.name, one.state) for one in found] == [
        ("confidence", "person"),
        ("bad path", "fail"),
    ]


def test_every_problem_on_the_sample_is_a_failed_gate() -> None:
    problem = {"pointer": "", "code": "coverage", "expected": "98%", "got": "90%", "nearest": None}
    assert gates.failed([]) == []
    assert gates.failed([problem]) == ["/: coverage: expected 98%, got 90%"]


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
    proposal = {"mapper": "llm", "mapping": mapping, "confidence": 0.5}
    assert bool(gates.needs_person(proposal, 0.0)) is asks
    assert gates.needs_person({**proposal, "mapper": "rules"}, 0.5) == []


def test_what_needs_a_person_is_what_the_gates_say() -> None:
    document = pair() | {"meta": {"source": {"literal": "openai"}}}
    proposal = {"mapper": "llm", "mapping": document, "confidence": 0.5, "decision": "sft"}
    assert gates.needs_person(proposal, 0.0) == []  # whose name it is not is not known
    said = gates.needs_person(proposal, 0.6, source_name="my_set")
    assert said[0] == "confidence 0.500 is below --min-confidence 0.6"
    assert "'openai'" in said[1]
    order = {"min_confidence": 0.6, "source_name": None}
    state: Any = {"order": order, "proposal": proposal, "source": {"name": "my_set"}}
    assert gates.reserved(state) == said


@pytest.mark.parametrize("mapper", ["rules", "llm", "scripted"])
def test_a_mapper_that_is_not_sure_needs_a_person(mapper: str) -> None:
    proposal = {"mapper": mapper, "mapping": None, "confidence": 0.5}
    assert gates.needs_person(proposal, 0.51) == ["confidence 0.500 is below --min-confidence 0.51"]
    assert gates.needs_person({**proposal, "mapper": "edited"}, 0.51) == []
