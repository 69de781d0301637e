"""repair: what was wrong goes into the history, and the mapper is asked again.

look: an answer that converts is put to the model once more, with the records that it makes.
"""

from ingot.agent.context import Context
from ingot.agent.judging.second_opinion import DOUBTED_CONFIDENCE, ROWS, find_signals
from ingot.agent.judging.trial import try_out
from ingot.agent.proposing.proposal import Attempt
from ingot.agent.state import Order, State
from ingot.converters.errors import Problem

MOST_REPAIRS = 2
# The rules', a remembered one and three of a model.
MOST_TURNS = 5
MOST_PROBLEMS = 5


def repair(state: State) -> State:
    """Close the turn as a failed attempt, with at most five of its problems."""
    problems = tuple(Problem(**one) for one in state["problems"][:MOST_PROBLEMS])
    return {
        "attempts": [*state["attempts"], closed_attempt(state, problems).to_json()],
        "problems": [],
    }


def closed_attempt(
    state: State, problems: tuple[Problem, ...], signals: tuple[str, ...] | None = None
) -> Attempt:
    """The turn as the attempt that it was."""
    turn = state["turn"]
    return Attempt(
        mapper=turn["mapper"],
        said=turn["said"],
        level=turn["level"],
        card=turn["provenance"].get("card", ""),
        problems=problems,
        signals=signals,
    )


def look(state: State, context: Context) -> State:
    """Have the model look at its records where it is unsure or they look odd; else nothing."""
    proposal = state["proposal"] or {}
    seen = _find_signals(state, context)
    if not seen and proposal["confidence"] >= DOUBTED_CONFIDENCE:
        return {"looked": None}
    attempt = closed_attempt(state, (), signals=seen)
    looked = {"proposal": proposal, "check": state["check"], "turn": state["turn"]}
    return {"attempts": [*state["attempts"], attempt.to_json()], "looked": looked}


def _find_signals(state: State, context: Context) -> tuple[str, ...]:
    order, proposal = Order(**state["order"]), state["proposal"] or {}
    where = "the model's mapping"
    trial = try_out(context, order, proposal["mapping"], where=where, show=ROWS)
    return find_signals(trial.mapping, trial.report)
