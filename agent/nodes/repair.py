"""repair: what was wrong goes into the history, and the mapper is asked again."""

from ingot.agent.mappers.turn import Attempt
from ingot.agent.state import State
from ingot.converters.errors import Problem

MOST_REPAIRS = 2
MOST_PROBLEMS = 5


def repair(state: State) -> State:
    """Close the turn as a failed attempt, with at most five of its problems."""
    problems = tuple(Problem(**one) for one in state["problems"][:MOST_PROBLEMS])
    turn = state["turn"]
    failed = Attempt(mapper=turn["mapper"], said=turn["said"], problems=problems)
    return {"attempts": [*state["attempts"], failed.to_json()], "problems": []}
