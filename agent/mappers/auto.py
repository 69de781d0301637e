"""Who is asked, and in which order: the rules, a model, and the rules again where a model fails.

`auto`: the rules, and a configured model where they are unsure. `llm`: the model. A model that
gives no usable answer costs nothing but its answer: the rules' proposal stands, marked as such.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from ingot.agent.mappers.proposal import Evidence, Proposal, Request
from ingot.agent.mappers.turn import MOST_ANSWERS, Attempt, History, Turn, Turner
from ingot.converters.errors import ModelError
from ingot.converters.readers import Source
from ingot.converters.sample import Sample

SURE = 0.6  # from here up the rules are asked alone
# A model that was reached and has nothing to say: asking later would not help.
ANSWERED = ("refused", "blank", "too_large")

UNASKED = "the model could not be asked"  # the beginning of a fallback that another time may spare


def auto(rules: Turner, model: Turner | None) -> Turner:
    """The rules, and where one is configured, a model where they are unsure."""
    return partial(_auto, rules, model)


def first(model: Turner, rules: Turner) -> Turner:
    """The model, and the rules where its answers do not serve."""
    return partial(_first, model, rules)


def _auto(
    rules: Turner,
    model: Turner | None,
    source: Source,
    sample: Sample,
    request: Request,
    history: History,
) -> Turn:
    turn = rules(source, sample, request, ())
    if model is None:
        return turn
    if not history and _sure(turn.proposal):
        return replace(turn, again=True)  # should it fail on the sample, the model is asked
    if why := exhausted(history):
        return marked(turn, why)
    try:
        return _or_marked(model(source, sample, request, history), turn)
    except ModelError as error:
        return marked(turn, f"{UNASKED}: {error}")


def _first(
    model: Turner,
    rules: Turner,
    source: Source,
    sample: Sample,
    request: Request,
    history: History,
) -> Turn:
    if why := exhausted(history):
        return marked(rules(source, sample, request, ()), why)
    try:
        turn = model(source, sample, request, history)
    except ModelError as error:
        if error.kind not in ANSWERED:
            raise
        return marked(rules(source, sample, request, ()), f"the model gave no answer: {error}")
    return _or_marked(turn, rules(source, sample, request, ())) if turn.fallback else turn


def exhausted(history: Sequence[Attempt]) -> str:
    """Why a model is not asked again, "" where it may be."""
    count = sum(bool(one.level) for one in history)
    return f"the model's {MOST_ANSWERS} answers did not pass" if count >= MOST_ANSWERS else ""


def _sure(proposal: Proposal | None) -> bool:
    return proposal is not None and proposal.confidence >= SURE


def _or_marked(turn: Turn, rules: Turn) -> Turn:
    """The model's turn, or the rules' where an earlier run has shown that its answers fail."""
    return replace(marked(rules, turn.fallback), asked=turn.asked) if turn.fallback else turn


def marked(turn: Turn, why: str) -> Turn:
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
