"""repair: what was wrong goes into the history, and the mapper is asked again.

look: an answer that converts is put to the model once more, with the records that it makes.
"""

from ingot.agent.context import Context
from ingot.agent.judging.policy import DOUBTED_CONFIDENCE, closed_attempt
from ingot.agent.judging.trial import ROWS, find_signals, try_out
from ingot.agent.state import Answer, State

MOST_PROBLEMS = 5


def repair(state: State) -> State:
    """Close the turn as a failed attempt, with at most five of its problems."""
    attempt = closed_attempt(state, state["problems"][:MOST_PROBLEMS])
    return {"attempts": (*state["attempts"], attempt), "problems": ()}


def look(state: State, context: Context) -> State:
    """Have the model look at its records where it is unsure or they look odd; else nothing."""
    proposal = state["proposal"]
    if proposal is None:
        return {"looked": None}
    mapping = proposal.mapping or {}
    trial = try_out(context, state["order"], mapping, where="the model's mapping", show=ROWS)
    signals = find_signals(trial.mapping, trial.report)
    if not signals and proposal.confidence >= DOUBTED_CONFIDENCE:
        return {"looked": None}
    attempt = closed_attempt(state, signals=signals)
    looked = Answer(proposal=proposal, check=state["check"], turn=state["turn"])
    return {"attempts": (*state["attempts"], attempt), "looked": looked}
