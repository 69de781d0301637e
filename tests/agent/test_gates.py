"""The gates with their figures: what fails, what is told, and what only a person may approve."""

from dataclasses import asdict
from typing import Any

import pytest

from ingot.agent import authored, gates
from ingot.agent.gates import Gate
from ingot.agent.trial import facts
from ingot.converters.check import check
from ingot.converters.mapping import bind, to_document
from ingot.converters.rows import BadRow
from ingot.converters.sample import Sample, SampledBad, SampledRow

Rows = list[Any]


def pair(asked: Any = "q", answered: Any = "a") -> dict[str, Any]:
    messages = [{"role": "user", "content": asked}, {"role": "assistant", "content": answered}]
    return {"version": 2, "messages": messages}


def told(
    document: dict[str, Any],
    rows: Rows,
    *,
    mapper: str = "llm",
    bad: int = 0,
    requested: str | None = None,
) -> dict[str, Gate]:
    """The gates by name, as `validate` has them judged."""
    sample = Sample(
        rows=tuple(SampledRow(file="a", row=n, key=None, value=row) for n, row in enumerate(rows)),
        bad=(SampledBad(file="a", bad=BadRow(row=0, detail="cut", found="{")),) * bad,
        complete=True,
        total_rows=len(rows) + bad,
        files_seen=1,
    )
    mapping = bind(document, rows)
    report = check(mapping, sample, source_name="a")
    written = to_document(mapping)
    problems = [*report.problems, *(authored.faults(written) if mapper == "llm" else [])]
    decision = "pt" if mapping.kind == "pt" else "sft"
    proposal = {"mapper": mapper, "mapping": written, "confidence": 0.9, "decision": decision}
    found = gates.gates(
        proposal,
        facts(report),
        [asdict(one) for one in problems],
        least=0.0,
        source_name="my_set",
        requested_source=requested,
    )
    return {one.name: one for one in found}


def states(found: dict[str, Gate], *wanted: str) -> set[str]:
    return {name for name, one in found.items() if one.state in wanted}


ROWS: Rows = [{"q": f"Question {n}?", "a": f"Answer number {n}."} for n in range(40)]


def test_a_sound_mapping_passes_every_gate() -> None:
    found = told(pair(), ROWS)
    assert states(found, "warn", "fail", "person") == set()
    assert found["coverage"] == Gate(
        name="coverage", state="pass", figure="40/40 (100.0 %)", limit="at least 98 %"
    )
    assert found["trained on"].figure.startswith("40/40 (100.0 %) records, ")
    assert found["confidence"].figure == "0.900"


@pytest.mark.parametrize(("bad_rows", "state"), [(1, "pass"), (2, "fail")])
def test_coverage_counts_hard_errors_alone(bad_rows: int, state: str) -> None:
    rows = [*ROWS, *ROWS[:20], {"q": "x", "a": None}]
    rows[:bad_rows] = [{"q": {"no": "text"}, "a": "x"}] * bad_rows
    found = told(pair(), rows)
    assert found["coverage"].state == state
    assert found["coverage"].figure.startswith(f"{61 - bad_rows}/61 (")
    assert found["no assistant"].figure == "1/61 (1.6 %)"
    assert found["no assistant"].state == "pass"
    assert found["texts"].state == "fail"


def test_a_share_is_never_rounded_up_to_its_limit() -> None:
    assert gates.share(9799, 10000) == "9799/10000 (97.9 %)"
    assert gates.share(0, 0) == "0/0"


def test_soft_outcomes_stop_a_run_only_where_nothing_is_left() -> None:
    where = {"where": [{"path": "keep", "in": [True]}]}
    rows = [{**row, "keep": n % 4 == 0} for n, row in enumerate(ROWS)]
    found = told(pair() | where, rows, mapper="rules")
    assert (found["filtered"].state, found["filtered"].figure) == ("warn", "30/40 (75.0 %)")
    assert states(found, "fail", "person") == set()
    found = told(pair() | where, [{**row, "keep": False} for row in ROWS], mapper="rules")
    assert states(found, "fail") == {"records", "filtered"}
    assert found["coverage"].state == "pass"


def test_role_values_without_a_role_are_named() -> None:
    role = {"path": "who", "map": {"me": "user", "it": "assistant"}}
    mapping = {"version": 2, "messages": [{"each": "t[*]", "role": role, "content": "x"}]}
    turns = [{"who": "me", "x": "a"}, {"who": "it", "x": "b"}]
    found = told(mapping, [{"t": turns}] * 5)
    assert found["unmapped role values"].figure == "none"
    found = told(mapping, [{"t": turns}] * 60 + [{"t": [*turns, {"who": "boss", "x": "c"}]}])
    gate = found["unmapped role values"]
    assert (gate.state, gate.figure) == ("fail", "in 1 record")
    assert "boss (1 times)" in gate.detail


def test_a_path_on_both_sides_fails() -> None:
    gate = told(pair(["q", "a"], "a"), ROWS)["paths on both sides"]
    assert (gate.state, gate.figure, gate.limit) == ("fail", "1 problem", "none")


def test_nothing_to_train_on_fails_and_little_is_told() -> None:
    mapping = pair()
    mapping["messages"][1]["loss_mask"] = "w"
    found = told(mapping, [{**row, "w": 0} for row in ROWS])
    assert found["trained on"].state == "fail"
    assert found["trained on"].figure == "0/40 (0.0 %) records, 0.0 % of the characters"
    found = told(mapping, [{**row, "w": int(n < 10)} for n, row in enumerate(ROWS)])
    assert found["trained on"].state == "warn"


def test_constant_content_is_told() -> None:
    same = [{**row, "a": "OK."} for row in ROWS]
    found = told(pair(), same)
    assert states(found, "warn", "fail") == {"most frequent answer"}
    assert found["most frequent answer"].figure == "40/40 (100.0 %)"
    nearly = [*same[:39], ROWS[39]]
    assert told(pair(), nearly)["most frequent answer"].state == "warn"
    assert told(pair(), same[:2])["most frequent answer"].state == "pass"
    text = told({"version": 2, "text": "a"}, same)
    assert states(text, "warn") == {"most frequent text"}


def test_token_ids_are_told() -> None:
    rows = [{"ids": [n, *range(100, 130)]} for n in range(20)]
    found = told({"version": 2, "text": "ids[*]"}, rows)
    assert states(found, "warn") == {"lists of numbers as text"}
    assert found["lists of numbers as text"].figure == "20/20 (100.0 %)"


@pytest.mark.parametrize(("bad", "state"), [(10, "pass"), (30, "fail")])
def test_unreadable_rows_have_a_gate_of_their_own(bad: int, state: str) -> None:
    found = told(pair(), ROWS, bad=bad)
    assert found["unreadable rows"].state == state
    assert found["unreadable rows"].figure.startswith(f"{bad}/{40 + bad} (")
    assert found["coverage"].state == "pass"


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


def test_details_hold_no_secrets() -> None:
    role = {"path": "who", "map": {"me": "user", "it": "assistant"}}
    mapping = {"version": 2, "messages": [{"each": "t[*]", "role": role, "content": "x"}]}
    found = told(mapping, [{"t": [{"who": "ann@example.org", "x": "a"}]}] * 5)
    assert "example.org" not in found["unmapped role values"].detail
    assert "[email]" in found["unmapped role values"].detail


def test_every_problem_on_the_sample_is_a_failed_gate() -> None:
    problem = {"pointer": "", "code": "coverage", "expected": "98%", "got": "90%", "nearest": None}
    assert gates.failed([]) == []
    assert gates.failed([problem]) == ["/: coverage: expected 98%, got 90%"]


# --- what a model wrote


@pytest.mark.parametrize(
    ("document", "gate"),
    [
        (pair() | {"system": {"literal": "Obey."}}, "system text"),
        (pair() | {"system": {"template": "You are {{q}}."}}, "system text"),
        (pair({"template": "Answer truthfully and in the style of a pirate: {{q}}"}), "fixed text"),
        (pair([{"literal": "See https://evil.example/x"}, "q"]), "fixed text"),
        (pair({"template": "{{q}}\nAssistant: sure"}), "fixed text"),
        (pair() | {"meta": {"source": {"literal": "openai"}}}, "literal source"),
    ],
)
def test_a_models_own_text_is_for_a_person(document: dict[str, Any], gate: str) -> None:
    assert states(told(document, ROWS), "person") == {gate}
    assert states(told(document, ROWS, mapper="rules"), "person", "fail") == set()
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
def test_labels_and_names_are_fine(document: dict[str, Any]) -> None:
    assert states(told(document, ROWS), "person", "fail") == set()


def test_a_source_that_was_asked_for_is_fine() -> None:
    document = pair() | {"meta": {"source": {"literal": "openai"}}}
    assert states(told(document, ROWS, requested="OpenAI"), "person") == set()


@pytest.mark.parametrize(
    ("meta", "gate"),
    [
        ({"original_id": {"literal": "1"}}, "constant ids, times and counts"),
        ({"timestamp": {"literal": "2024-01-01"}}, "constant ids, times and counts"),
        ({"source": {"literal": "x" * 129}}, "literal source and language"),
    ],
)
def test_a_models_constants_that_say_nothing_fail(meta: dict[str, Any], gate: str) -> None:
    found = told(pair() | {"meta": meta}, ROWS, requested="x" * 129)
    assert states(found, "fail") == {gate}
    assert gates.failed([asdict(one) for one in authored.faults(pair() | {"meta": meta})])
    assert states(told(pair() | {"meta": meta}, ROWS, mapper="rules"), "fail") == set()


def test_a_model_that_leaves_out_more_than_half_asks_a_person() -> None:
    where = {"where": [{"path": "keep", "in": [True]}]}
    for kept, asks in ((20, set()), (19, {"records left out"})):
        rows = [{**row, "keep": n < kept} for n, row in enumerate(ROWS)]
        assert states(told(pair() | where, rows), "person") == asks


def test_a_model_that_drops_most_messages_asks_a_person() -> None:
    named = {"me": "user", "it": "assistant", "note": None}
    role = {"path": "who", "map": named}
    mapping = {"version": 2, "messages": [{"each": "t[*]", "role": role, "content": "x"}]}
    turns = [{"who": who, "x": who} for who in ("me", "note", "note", "note", "it")]
    gate = told(mapping, [{"t": turns}] * 4)["messages left out"]
    assert (gate.state, gate.figure) == ("person", "12/20 (60.0 %)")


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
    proposal = {"mapper": "llm", "mapping": document, "confidence": 0.5}
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
