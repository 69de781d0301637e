"""repair: what was wrong goes into the history, and the mapper is asked again."""

from ingot.agent.mappers.turn import Attempt
from ingot.agent.state import State
from ingot.converters.errors import Problem

MOST_REPAIRS = 2
# The rules', a remembered one and three of a model.
MOST_TURNS = 5
MOST_PROBLEMS = 5


def repair(state: State) -> State:
    """Close the turn as a failed attempt, with at most five of its problems."""
    problems = tuple(Problem(**one) for one in state["problems"][:MOST_PROBLEMS])
    return {"attempts": [*state["attempts"], closed(state, problems).to_json()], "problems": []}


def closed(
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
