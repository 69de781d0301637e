"""What a model wrote and chose by itself: what fails, and what only a person may approve."""

from typing import Any

import pytest

from ingot.agent.judging import model_gates
from ingot.agent.judging.policy import failed_gates
from ingot.converters.mapping.bind import bind


def pair(asked: Any = "q", answered: Any = "a") -> dict[str, Any]:
    messages = [{"role": "user", "content": asked}, {"role": "assistant", "content": answered}]
    return {"version": 2, "messages": messages}


ROWS: list[Any] = [{"q": f"Question {n}?", "a": f"Answer number {n}."} for n in range(40)]


@pytest.mark.parametrize(
    ("document", "gate"),
    [
        (pair() | {"system": {"literal": "Obey."}}, "system text"),
        (pair() | {"system": {"template": "You are {{q}}."}}, "system text"),
        (pair({"template": "Answer truthfully and in the style of a pirate: {{q}}"}), "fixed text"),
        (pair([{"literal": "See https://evil.example/x"}, "q"]), "fixed text"),
        (pair({"template": "{{q}}\nAssistant: sure"}), "fixed text"),
        (pair([{"path": "a", "map": {"*": "Recommend AcmeCoin"}}, "q"]), "fixed text"),
        (pair([{"any_of": ["q", {"literal": "Recommend AcmeCoin"}]}, "q"]), "fixed text"),
        (pair() | {"meta": {"source": {"literal": "openai"}}}, "literal source"),
    ],
)
def test_a_models_own_text_is_for_a_person(told: Any, document: dict[str, Any], gate: str) -> None:
    assert told(document, ROWS).states("person") == {gate}
    assert told(document, ROWS, mapper="rules").states("person", "fail") == set()
    assert gate not in told(document, ROWS, mapper="edited")


@pytest.mark.parametrize(
    "document",
    [
        pair({"template": "Question: {{q}}"}, {"template": "Answer: {{a}}"}),
        pair([{"literal": "问题："}, "q"]),
        pair() | {"system": "q"},
        pair() | {"meta": {"source": {"literal": "My-Set"}, "language": {"literal": "en"}}},
    ],
)
def test_labels_and_names_are_fine(told: Any, document: dict[str, Any]) -> None:
    assert told(document, ROWS).states("person", "fail") == set()


@pytest.mark.parametrize(
    ("answer", "gates"),
    [
        (["thinking", "a"], {"thoughts without a mark"}),
        ({"template": "{{thinking}} {{a}}"}, {"thoughts without a mark"}),
        ({"concat": ["a", "thinking"], "sep": "\n\n"}, {"thoughts without a mark"}),
        ([{"template": "<think>\n{{thinking}}\n</think>\n"}, "a"], set()),
        ([{"template": "Reasoning: {{thinking}}\nAnswer: {{a}}"}], set()),
    ],
)
def test_thoughts_before_an_answer_have_a_mark(told: Any, answer: Any, gates: set[str]) -> None:
    rows = [{**row, "thinking": f"Let me see {n}."} for n, row in enumerate(ROWS)]
    assert told(pair("q", answer), rows).states("person") == gates


def test_a_source_that_was_asked_for_is_fine(told: Any) -> None:
    document = pair() | {"meta": {"source": {"literal": "openai"}}}
    assert told(document, ROWS, requested="OpenAI").states("person") == set()


@pytest.mark.parametrize(
    ("meta", "gate"),
    [
        ({"original_id": {"literal": "1"}}, "constant ids, times and counts"),
        ({"timestamp": {"literal": "2024-01-01"}}, "constant ids, times and counts"),
        ({"source": {"literal": "x" * 129}}, "literal source and language"),
    ],
)
def test_a_models_constants_that_say_nothing_fail(
    told: Any, meta: dict[str, Any], gate: str
) -> None:
    found = told(pair() | {"meta": meta}, ROWS, requested="x" * 129)
    assert found.states("fail") == {gate}
    assert failed_gates(model_gates.meta_faults(bind(pair() | {"meta": meta})))
    assert told(pair() | {"meta": meta}, ROWS, mapper="rules").states("fail") == set()


def test_a_model_that_leaves_out_more_than_half_asks_a_person(told: Any) -> None:
    where = {"where": [{"path": "keep", "in": [True]}]}
    for kept, asks in ((20, set()), (19, {"records left out"})):
        rows = [{**row, "keep": n < kept} for n, row in enumerate(ROWS)]
        assert told(pair() | where, rows).states("person") == asks


def test_a_model_that_drops_most_messages_asks_a_person(told: Any) -> None:
    named = {"me": "user", "it": "assistant", "note": None}
    role = {"path": "who", "map": named}
    mapping = {"version": 2, "messages": [{"each": "t[*]", "role": role, "content": "x"}]}
    turns = [{"who": who, "x": who} for who in ("me", "note", "note", "note", "it")]
    gate = told(mapping, [{"t": turns}] * 4)["messages left out"]
    assert (gate.state, gate.figure) == ("person", "12/20 (60.0 %)")
