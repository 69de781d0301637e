"""The mapper `auto`: the rules first, a model where the rules are unsure and a model is configured.

A model that fails costs nothing but its answer: the rules' proposal stands, and says so.
"""

from dataclasses import replace
from functools import partial

from ingot.agent.mappers.proposal import Evidence, Proposal, Request
from ingot.agent.mappers.turn import History, Turn, Turner
from ingot.converters.errors import ModelError
from ingot.converters.readers import Source
from ingot.converters.sample import Sample

SURE = 0.6  # from here up the rules are asked alone
MOST_ANSWERS = 3  # the first one and two corrections


def mapper(rules: Turner, model: Turner | None) -> Turner:
    """The mapper made of the rules and, where one is configured, a model."""
    return partial(_turn, rules, model)


def _turn(
    rules: Turner,
    model: Turner | None,
    source: Source,
    sample: Sample,
    request: Request,
    history: History,
) -> Turn:
    answered = [one for one in history if one.mapper == "llm"]
    turn = rules(source, sample, request, ())
    if model is None:
        return turn
    if not history and _sure(turn.proposal):
        return replace(turn, again=True)  # should it fail on the sample, the model is asked
    if len(answered) >= MOST_ANSWERS:
        return _marked(turn, f"the model's {MOST_ANSWERS} answers did not pass")
    try:
        return model(source, sample, request, history)
    except ModelError as error:
        return _marked(turn, f"the model could not be asked: {error}")


def _sure(proposal: Proposal | None) -> bool:
    return proposal is not None and proposal.confidence >= SURE


def _marked(turn: Turn, why: str) -> Turn:
    """The rules' turn as the fallback that it is."""
    if turn.proposal is None:
        return turn
    found = turn.proposal
    noted = Evidence(target="mapper", choice="rules", why=why, runner_up="llm")
    return replace(
        turn,
        provenance={**turn.provenance, "fallback": why},
        proposal=replace(
            found,
            reason=f"{found.reason} (Fallback to the rules: {why}.)",
            evidence=(*found.evidence, noted),
        ),
    )
