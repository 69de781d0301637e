"""How a run ends: what is printed, where a waiting proposal lies, and the exit code."""

from typing import TYPE_CHECKING, NoReturn

from ingot.converters.errors import ConversionError, ReviewNeeded
from ingot.converters.rows import Json

if TYPE_CHECKING:
    from ingot.agent.context import Context
    from ingot.agent.state import State

_WHY = {
    "rejected": "the proposal was not approved",
    "unmappable": "the data cannot be mapped without a person",
    "unusable": "no proposal that could be run",
}


def end(state: "State", context: "Context", *, as_json: bool, gates_hold: bool = True) -> None:
    """Print the outcome; raises what stands for an exit code other than 0.

    Args:
        state: the graph's state.
        context: what the nodes worked with.
        as_json: print the outcome as JSON.
        gates_hold: a problem on the sample stops the command; else it is a warning.

    Raises:
        ReviewNeeded: a person has to decide.
        ConversionError: a gate failed.
    """
    from ingot.agent.preview import preview
    from ingot.cli import show
    from ingot.cli.console import output, print_json

    told = state["outcome"]
    if as_json:
        print_json(told)
    else:
        show.outcome(output(), told)
        harmless = not gates_hold or told["status"] in ("done", "already_done")
        show.problems(output(), told["problems"], harmless=harmless)
        if told["status"] == "dry_run" and told["check"]:
            show.preview(output(), preview(state, context))
    stop_unless_done(state, told)


def stop_unless_done(state: "State", told: dict[str, Json]) -> None:
    """Raise what stands for an outcome that is no success; nothing for a success.

    Raises:
        ReviewNeeded: a person has to decide.
        ConversionError: a gate failed.
    """
    status = told["status"]
    if status == "waiting":
        stop_waiting(state, told["why"])
    if status == "budget":
        stop_waiting(state, f"a budget is used up: {told['why']}")
    if status in _WHY:
        stop_waiting(state, _WHY[status])
    if status == "blocked":
        where, hint = _laid_down(state)
        raise ConversionError(where, f"a gate failed: {told['why']}", hint)


def stop_midway(state: "State", why: str) -> NoReturn:
    """`stop_waiting` where no summary is printed: says also how much went to a model.

    Raises:
        ReviewNeeded: always.
    """
    from ingot.cli import show

    told = state.get("usage")
    stop_waiting(state, f"{why}; {show.usage(told)}" if told else why)


def stop_waiting(state: "State", why: str) -> NoReturn:
    """Lay the proposal down for a person.

    Raises:
        ReviewNeeded: always; it names the folder and the command that goes on.
    """
    where, hint = _laid_down(state)
    raise ReviewNeeded(where, why, hint)


def _laid_down(state: "State") -> tuple[str, str]:
    from ingot.agent.waiting import other, put_down, way_on

    out = state["order"]["out"]
    if out is None or state["order"]["dry_run"]:  # nothing is written, nothing can be gone on with
        instead = "the rules' own proposal: --mapper rules" if other(state) else ""
        return state["order"]["source"], state.get("stopped", {}).get("hint") or instead
    folder = put_down(state, out)
    return f"{folder}/", way_on(state, folder)
