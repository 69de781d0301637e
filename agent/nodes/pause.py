"""pause: where a run rests whose model may not or cannot be asked, until somebody says go on."""

from ingot.agent.nodes.review import fault_of
from ingot.agent.report import line
from ingot.agent.state import State
from ingot.converters.rows import Json

ACTION = "ask_again"
ANSWERS = ("approve", "reject")


def pause(state: State) -> State:
    """Ask whether the model shall be asked again; the command line goes on without an answer."""
    from langgraph.types import interrupt

    answer = interrupt(question(state))
    while fault := fault_of(answer, ANSWERS):
        answer = interrupt(question(state, fault))
    decision = answer["decisions"][0]
    if decision["type"] == "approve":
        return {"stopped": {}, "problems": []}
    why = str(decision.get("message") or state["stopped"]["why"])
    return {"stopped": {}, "review": {"decision": "reject", "why": why}}


def question(state: State, fault: str = "") -> dict[str, Json]:
    """The interrupt's value, in the form that agent inboxes show and answer."""
    stopped = state["stopped"]
    what = {"budget": "A budget is used up", "model": "The model cannot be asked"}[stopped["kind"]]
    why = line(f"{stopped['where']}: {stopped['why']}")
    said = [fault, f"{what}: {why}.", line(stopped["hint"])]
    choice = "Approve asks again from here, with what was spent counted; reject ends the run."
    action = {
        "name": ACTION,
        "args": {"why": why, "hint": stopped["hint"]},
        "description": "\n\n".join(one for one in [*said, choice] if one),
    }
    text = {"type": "string"}
    schema = {"type": "object", "properties": {"why": text, "hint": text}}
    config = {"action_name": ACTION, "allowed_decisions": list(ANSWERS), "args_schema": schema}
    return {"action_requests": [action], "review_configs": [config]}
