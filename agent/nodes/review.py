"""review: a person, or the gates in place of one, decide whether the proposal is converted.

pause: where a run rests whose model may not or cannot be asked, until somebody says go on.
"""

import json
from collections.abc import Sequence

from ingot.agent.judging import gates
from ingot.agent.privacy import redact
from ingot.agent.reporting.proposal_folder import proposed_mapping
from ingot.agent.reporting.report import markdown_line, proposal_text
from ingot.agent.state import Order, State
from ingot.converters import json_yaml
from ingot.converters.rows import Json

REVIEW_ACTION = "convert"
REVIEW_ANSWERS = ("approve", "edit", "reject")
_NOTHING_TO_CONVERT = (
    "Nothing to convert: approve records that in the folder, reject writes nothing, "
    "a mapping in place of this one is tried."
)


def review(state: State) -> State:
    """Ask; nothing costly stands before the question, since a resumed node starts from its top."""
    order = Order(**state["order"])
    if order.dry_run:
        return {"review": {"decision": "dry_run", "why": ""}}
    before = state.get("review", {})
    why = before["why"] if before.get("decision") == "again" else ""
    if order.yes and not (before and is_attended(state)):
        decided = approve_by_gates(state)
        if decided["decision"] != "person" or not is_attended(state):
            return {"review": decided}
        why = f"Only a person may decide this: {markdown_line(decided['why'])}"
    from langgraph.types import interrupt

    answer = interrupt(review_question(state, why))
    if fault := answer_fault(answer, allowed_answers(state)):  # it must not end the run
        return {"review": {"decision": "again", "why": fault}}
    return apply_answer(state, answer)


def is_attended(state: State) -> bool:
    """Whether somebody is there to be asked whatever comes: in a server's run that is no dry one.

    A command is asked about a mapping only; what it stops at, its exit status says.
    """
    return bool(state.get("served")) and not state["order"]["dry_run"]


def asks_person(state: State) -> bool:
    """Whether a person is asked also where nothing is to be converted."""
    return is_attended(state) and not state["order"]["yes"]


def allowed_answers(state: State) -> tuple[str, ...]:
    """What may be answered; without a data file there is nothing that a mapping could read."""
    return REVIEW_ANSWERS if state["source"]["files"] else ("approve", "reject")


def approve_by_gates(state: State) -> dict[str, Json]:
    """Approval by the gates alone."""
    failed = gates.failed_gates(state.get("problems", []))
    if failed:
        return {"decision": "held", "why": "; ".join(failed)}
    reserved = gates.state_person_reasons(state)
    if reserved:
        return {"decision": "person", "why": "; ".join(reserved)}
    return {"decision": "approve", "why": "all gates passed"}


def review_question(state: State, fault: str = "") -> dict[str, Json]:
    """The interrupt's value, in the form that agent inboxes show and answer."""
    proposal = state["proposal"] or {}
    said = [
        fault,
        _NOTHING_TO_CONVERT if proposal["decision"] == "irrelevant" else "",
        proposal_text(state),
    ]
    action = {
        "name": REVIEW_ACTION,
        "args": {"mapping": proposal["mapping"] or proposed_mapping(state)},
        "description": "\n\n".join(one for one in said if one),
    }
    schema = {
        "type": "object",
        "properties": {"mapping": json_yaml.schema("mapping")},
        "required": ["mapping"],
    }
    config = {
        "action_name": REVIEW_ACTION,
        "allowed_decisions": list(allowed_answers(state)),
        "args_schema": schema,
    }
    return {"action_requests": [action], "review_configs": [config]}


def apply_answer(state: State, answer: Json) -> State:
    """What a faultless answer `{"decisions": [...]}` makes of the state."""
    decision = answer["decisions"][0]
    if decision["type"] == "edit":
        mapping = _read_mapping(decision["edited_action"]["args"]["mapping"])
        proposal = {**(state["proposal"] or {}), "mapping": mapping, "mapper": "edited"}
        if proposal["decision"] == "irrelevant":  # not any more; validating it says what it is
            proposal["decision"] = "unmappable"
        edited: State = {"proposal": proposal, "review": {"decision": "edit", "why": ""}}
        return {**edited, "opinion": None, "looked": None}
    if decision["type"] == "approve" and (unfit := _unfit_reason(state)):
        return {"review": {"decision": "again", "why": unfit}}
    why = str(decision.get("message") or "")
    return {"review": {"decision": decision["type"], "why": why}}


def _unfit_reason(state: State) -> str:
    """Why what a person has approved would convert nothing, "" where it would, or is to."""
    check, proposal = state.get("check"), state["proposal"] or {}
    if not is_attended(state) or proposal["decision"] == "irrelevant":
        return ""
    if not check:
        return "It cannot be run: edit the mapping, or reject it."
    if check["records"]:
        return ""
    return "It makes no record of the sampled rows: edit the mapping, or reject it."


def answer_fault(answer: Json, allowed: Sequence[str] = REVIEW_ANSWERS) -> str:
    """What is wrong with an answer, "" if nothing is; a mapping may be the text that was typed."""
    from jsonschema import Draft202012Validator

    for error in Draft202012Validator(_ANSWER).iter_errors(answer):
        wanted = " | ".join(f'"{one}"' for one in allowed)
        said = markdown_line(redact(error.message[:200]))
        return f'Not an answer ({said}); answer {{"decisions": [{{"type": {wanted}, ...}}]}}.'
    decision = answer["decisions"][0]
    if decision["type"] not in allowed:
        return f"Not an answer: {decision['type']} is not for this question."
    if decision["type"] != "edit":
        return ""
    try:
        mapping = _read_mapping(decision["edited_action"]["args"]["mapping"])
    except (ValueError, RecursionError) as error:
        return f"Not a mapping: the text is no JSON ({markdown_line(str(error))})."
    held = isinstance(mapping, dict) and mapping
    return "" if held else "Not a mapping: it is no JSON object with anything in it."


def _read_mapping(mapping: Json) -> Json:
    """The mapping itself: forms send what was typed into them, which is its text."""
    return json.loads(mapping) if isinstance(mapping, str) else mapping


_EDITED_STATE = {
    "type": "object",
    "required": ["args"],
    "properties": {
        "args": {
            "type": "object",
            "required": ["mapping"],
            "properties": {"mapping": {"type": ["object", "string"]}},
        }
    },
}
_ANSWER: dict[str, Json] = {
    "type": "object",
    "required": ["decisions"],
    "properties": {
        "decisions": {
            "type": "array",
            "minItems": 1,
            "maxItems": 1,
            "items": {
                "type": "object",
                "required": ["type"],
                "properties": {
                    "type": {"enum": list(REVIEW_ANSWERS)},
                    "edited_action": _EDITED_STATE,
                },
                "if": {"properties": {"type": {"const": "edit"}}},
                "then": {"required": ["edited_action"]},
            },
        }
    },
}


PAUSE_ACTION = "ask_again"
PAUSE_ANSWERS = ("approve", "reject")


def pause(state: State) -> State:
    """Ask whether the model shall be asked again; the command line goes on without an answer."""
    from langgraph.types import interrupt

    answer = interrupt(pause_question(state))
    while fault := answer_fault(answer, PAUSE_ANSWERS):
        answer = interrupt(pause_question(state, fault))
    decision = answer["decisions"][0]
    if decision["type"] == "approve":
        return {"stopped": {}, "problems": []}
    why = str(decision.get("message") or state["stopped"]["why"])
    return {"stopped": {}, "review": {"decision": "reject", "why": why}}


def pause_question(state: State, fault: str = "") -> dict[str, Json]:
    """The interrupt's value, in the form that agent inboxes show and answer."""
    stopped = state["stopped"]
    what = {"budget": "A budget is used up", "model": "The model cannot be asked"}[stopped["kind"]]
    why = markdown_line(f"{stopped['where']}: {stopped['why']}")
    said = [fault, f"{what}: {why}.", markdown_line(stopped["hint"])]
    choice = "Approve asks again from here, with what was spent counted; reject ends the run."
    action = {
        "name": PAUSE_ACTION,
        "args": {"why": why, "hint": stopped["hint"]},
        "description": "\n\n".join(one for one in [*said, choice] if one),
    }
    text = {"type": "string"}
    schema = {"type": "object", "properties": {"why": text, "hint": text}}
    config = {
        "action_name": PAUSE_ACTION,
        "allowed_decisions": list(PAUSE_ANSWERS),
        "args_schema": schema,
    }
    return {"action_requests": [action], "review_configs": [config]}
