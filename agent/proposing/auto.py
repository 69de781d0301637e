"""Choose who is asked: the rules, a model, and the rules again where a model fails.

`auto` asks a configured model where the rules are unsure; `llm` asks the model first. A model that
gives no usable answer costs nothing but its answer: the rules' proposal stands, marked as such.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from ingot.agent.proposing.proposal import (
    MOST_ANSWERS,
    Attempt,
    Evidence,
    History,
    Mapper,
    Proposal,
    Request,
    Turn,
)
from ingot.converters.errors import ModelError
from ingot.converters.sources import Source
from ingot.converters.sources.sample import Sample

SURE_CONFIDENCE = 0.6  # from here up the rules are asked alone
# A model that was reached and has nothing to say: asking later would not help.
ANSWERED_KINDS = ("refused", "blank", "too_large")

NOT_ASKED = (
    "the model could not be asked"  # the beginning of a fallback that another time may spare
)


def auto_mapper(rules: Mapper, model: Mapper | None) -> Mapper:
    """The rules, and where one is configured, a model where they are unsure."""
    return partial(_ask_auto, rules, model)


def model_first_mapper(model: Mapper, rules: Mapper) -> Mapper:
    """The model, and the rules where its answers do not serve."""
    return partial(_ask_model_first, model, rules)


def _ask_auto(
    rules: Mapper,
    model: Mapper | None,
    source: Source,
    sample: Sample,
    request: Request,
    history: History,
) -> Turn:
    turn = rules(source, sample, request, ())
    if model is None:
        return turn
    if not history and _is_sure(turn.proposal):
        return replace(turn, again=True)  # should it fail on the sample, the model is asked
    if why := exhausted_reason(history):
        return fallback_turn(turn, why)
    try:
        return _or_fallback(model(source, sample, request, history), turn)
    except ModelError as error:
        return fallback_turn(turn, f"{NOT_ASKED}: {error}")


def _ask_model_first(
    model: Mapper,
    rules: Mapper,
    source: Source,
    sample: Sample,
    request: Request,
    history: History,
) -> Turn:
    if why := exhausted_reason(history):
        return fallback_turn(rules(source, sample, request, ()), why)
    try:
        turn = model(source, sample, request, history)
    except ModelError as error:
        if error.kind not in ANSWERED_KINDS:
            raise
        return fallback_turn(
            rules(source, sample, request, ()), f"the model gave no answer: {error}"
        )
    return _or_fallback(turn, rules(source, sample, request, ())) if turn.fallback else turn


def exhausted_reason(history: Sequence[Attempt]) -> str:
    """Why a model is not asked again, "" where it may be."""
    count = sum(bool(one.level) for one in history)
    return f"the model's {MOST_ANSWERS} answers did not pass" if count >= MOST_ANSWERS else ""


def _is_sure(proposal: Proposal | None) -> bool:
    return proposal is not None and proposal.confidence >= SURE_CONFIDENCE


def _or_fallback(turn: Turn, rules: Turn) -> Turn:
    """The model's turn, or the rules' where an earlier run has shown that its answers fail."""
    return replace(fallback_turn(rules, turn.fallback), asked=turn.asked) if turn.fallback else turn


def fallback_turn(turn: Turn, why: str) -> Turn:
    """The rules' turn as the fallback that it is."""
    if turn.proposal is None:
        return replace(turn, fallback=why)
    found = turn.proposal
    noted = Evidence(target="mapper", choice="rules", why=why, runner_up="llm")
    return replace(
        turn,
        fallback=why,
        provenance={**turn.provenance, "fallback": why},
        proposal=replace(
            found,
            reason=f"{found.reason} (Fallback to the rules: {why}.)",
            evidence=(*found.evidence, noted),
        ),
    )
