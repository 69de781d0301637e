"""Who is asked in which order, and whose proposal stands when a model fails."""

from typing import Any

import pytest

from ingot.agent.proposing.proposal import (
    Attempt,
    Proposal,
    Request,
    Turn,
    auto_mapper,
    model_first_mapper,
)
from ingot.converters.errors import ModelError, Problem

NOTHING: Any = None
PROBLEMS = (Problem("", "c", "e", "g"),)
FAILED = Attempt(mapper="llm", said="x", problems=PROBLEMS, level="prompt")
WRONG_RULES = Attempt(mapper="rules", said="", problems=PROBLEMS)


def turner(turn: Turn | ModelError) -> Any:
    def answer(*_: Any) -> Turn:
        if isinstance(turn, ModelError):
            raise turn
        return turn

    return answer


def turn(mapper: str, confidence: float) -> Turn:
    proposal = Proposal(
        decision="pt", mapping=None, confidence=confidence, reason="r", mapper=mapper
    )
    return Turn(proposal=proposal, mapper=mapper)


def asked(rules: Turn, model: Turn | ModelError | None, history: Any = ()) -> Turn:
    mapper = auto_mapper(turner(rules), turner(model) if model else None)
    return mapper(NOTHING, NOTHING, Request(), history)


def asked_first(model: Turn | ModelError, history: Any = ()) -> Turn:
    mapper = model_first_mapper(turner(model), turner(turn("rules", 0.9)))
    return mapper(NOTHING, NOTHING, Request(), history)


def error(kind: str) -> ModelError:
    return ModelError("host", "it failed", kind=kind)


def test_sure_rules_are_left_alone() -> None:
    assert asked(turn("rules", 0.9), turn("llm", 0.9)).mapper == "rules"
    assert asked(turn("rules", 0.1), None).mapper == "rules"


def test_the_model_is_asked_where_the_rules_are_unsure_or_were_wrong() -> None:
    assert asked(turn("rules", 0.89), turn("llm", 0.9)).mapper == "llm"
    assert asked(turn("rules", 0.9), turn("llm", 0.9), [WRONG_RULES]).mapper == "llm"


def test_two_failed_answers_are_no_reason_to_give_up() -> None:
    assert (
        asked(turn("rules", 0.3), turn("llm", 0.9), [WRONG_RULES, FAILED, FAILED]).mapper == "llm"
    )


@pytest.mark.parametrize(
    "found",
    [
        asked(turn("rules", 0.3), error("unreachable")),
        asked(turn("rules", 0.3), turn("llm", 0.9), [FAILED] * 3),
        asked_first(turn("llm", 0.9), [FAILED] * 3),
        asked_first(error("refused")),
        asked_first(error("blank")),
        asked_first(Turn(proposal=None, mapper="llm", fallback="its answers did not pass")),
    ],
)
def test_a_model_that_fails_leaves_the_rules_marked_as_such(found: Turn) -> None:
    assert found.mapper == "rules"
    assert found.fallback
    assert found.proposal
    assert "Fallback to the rules" in found.proposal.reason
    assert found.proposal.evidence[-1].runner_up == "llm"
    assert found.provenance["fallback"] == found.fallback


@pytest.mark.parametrize("kind", ["unreachable", "timeout", "unauthorized", "no_such_model"])
def test_a_model_that_was_asked_for_and_cannot_be_asked_is_an_error(kind: str) -> None:
    with pytest.raises(ModelError):
        asked_first(error(kind))
