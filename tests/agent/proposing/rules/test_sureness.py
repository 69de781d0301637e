"""How sure a proposal is: what speaks against it lowers its confidence, and is said."""

from typing import Any

import pytest

from ingot.agent.proposing.doubts.confidence import (
    draft_confidence,
    nothing_confidence,
    prose_share,
)
from ingot.agent.proposing.doubts.turn_doubts import Doubt
from ingot.agent.proposing.readings import Draft

DRAFT = Draft(kind="sft", body={}, score=0.9, why="")


def doubts(outcome: Any) -> dict[str, float]:
    return {e.choice: e.confidence for e in outcome.proposal.evidence if e.target == "doubt"}


def test_a_plain_pair_is_sure(mapped: Any, pool: Any) -> None:
    rows = [{"question": pool.question(n), "answer": pool.answer(n)} for n in range(40)]
    outcome = mapped(rows, "sft")
    assert outcome.proposal.confidence > 0.85
    assert "unused" not in doubts(outcome)


def test_running_text_that_is_left_out_speaks_against_a_mapping(mapped: Any, pool: Any) -> None:
    plain = [{"question": pool.question(n), "answer": pool.answer(n)} for n in range(40)]
    more = [{**row, "zq": pool.document(n) * 3} for n, row in enumerate(plain)]
    outcome = mapped(more, "sft")
    assert doubts(outcome)["unused"] > 0.4
    assert outcome.proposal.confidence < mapped(plain, "sft").proposal.confidence - 0.02
    (told,) = [e for e in outcome.proposal.evidence if e.choice == "unused"]
    assert "(zq)" in told.why


def test_a_copy_of_what_is_taken_does_not(mapped: Any, pool: Any) -> None:
    rows = [
        {
            "question": pool.question(n),
            "answer": pool.answer(n),
            "zq": f"Q: {pool.question(n)}",
            "zr": pool.answer(n),
        }
        for n in range(40)
    ]
    assert doubts(mapped(rows, "sft")).get("unused", 0.0) < 0.3


def test_few_rows_are_little_to_judge_by(mapped: Any, pool: Any) -> None:
    rows = [{"question": pool.question(n), "answer": pool.answer(n)} for n in range(3)]
    assert doubts(mapped(rows, "sft"))["few"] == 0.75


def test_separators_left_in_the_texts_are_seen(mapped: Any, pool: Any) -> None:
    rows = [
        {"question": pool.question(n), "answer": f"{pool.answer(n)} <|endoftext|> {pool.title(n)}"}
        for n in range(20)
    ]
    assert doubts(mapped(rows, "sft"))["marks"] == 0.5  # every second text, the answers


def test_a_draft_never_claims_more_than_it_may() -> None:
    assert draft_confidence(Draft(kind="sft", body={}, score=0.99, why="", most=0.3), []) == 0.3
    assert draft_confidence(DRAFT, []) <= 0.97


@pytest.mark.parametrize("name", ["unused", "few", "rival", "unnamed", "marks", "bare"])
def test_every_doubt_lowers_it(name: str) -> None:
    unsure = Doubt("score", 1.0, "")
    none, half, whole = (
        draft_confidence(DRAFT, [unsure, Doubt(name, share, "")]) for share in (0.0, 0.5, 1.0)
    )
    assert whole < half < none


def test_a_doubt_that_no_case_has_shown_lowers_it_too() -> None:
    unsure = Doubt("score", 1.0, "")
    assert draft_confidence(DRAFT, [unsure, Doubt("never seen", 1.0, "")]) < draft_confidence(
        DRAFT, [unsure]
    )


def test_that_there_is_nothing_is_sure_where_there_is_no_language() -> None:
    numbers = [{"x": n, "y": 0.5 * n, "kind": "a"} for n in range(40)]
    prose = [{"x": "Nobody knows how long the ferry will still run here."} for _ in range(40)]
    assert prose_share(numbers) == 0
    assert prose_share(prose) == 1
    assert nothing_confidence(numbers, "sft", 0.0, 0.0) == 0.95
    assert nothing_confidence(prose, "pt", 0.0, 0.0) < 0.5
    assert nothing_confidence(prose, "pt", 0.25, 0.0) < nothing_confidence(prose, "pt", 0.0, 0.0)
    assert nothing_confidence(numbers, "pt", 0.0, 0.6) < 0.95


def test_every_text_of_a_mapping_has_a_reason(mapped: Any, pool: Any) -> None:
    rows = [
        {"context": pool.document(n), "question": pool.question(n), "answer": pool.answer(n)}
        for n in range(20)
    ]
    outcome = mapped(rows, "sft")
    told = {(e.target, e.choice) for e in outcome.proposal.evidence}
    assert {
        ("messages.user", "context"),
        ("messages.user", "question"),
        ("messages.assistant", "answer"),
        ("meta.language", "en"),
    } <= told
    assert all(e.why and 0 <= e.confidence <= 1 for e in outcome.proposal.evidence)


def test_text_around_the_records_counts_as_unused(mapped: Any, pool: Any) -> None:
    meetings = [
        {
            "transcript": [{"who": f"P{k % 3}", "said": pool.document(n + k)} for k in range(6)],
            "queries": [
                {"query": pool.question(n + k), "answer": pool.answer(n + k)} for k in range(2)
            ],
        }
        for n in range(12)
    ]
    outcome = mapped(meetings, "sft")
    assert outcome.turns(0) == [("user", pool.question(0)), ("assistant", pool.answer(0))]
    assert doubts(outcome)["unused"] > 0.5
