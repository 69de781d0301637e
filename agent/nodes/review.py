"""review: a person, or the gates in place of one, decide whether the proposal is converted."""

import json
from collections.abc import Sequence

from ingot.agent import gates
from ingot.agent.redaction import redact
from ingot.agent.report import line, proposal_text
from ingot.agent.state import Order, State
from ingot.agent.waiting import proposed
from ingot.converters import contracts
from ingot.converters.rows import Json

ACTION = "convert"
ANSWERS = ("approve", "edit", "reject")
_NOTHING = (
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
    if order.yes and not (before and attended(state)):
        decided = by_gates(state)
        if decided["decision"] != "person" or not attended(state):
            return {"review": decided}
        why = f"Only a person may decide this: {line(decided['why'])}"
    from langgraph.types import interrupt

    answer = interrupt(question(state, why))
    if fault := fault_of(answer, answers(state)):  # it must not end the run
        return {"review": {"decision": "again", "why": fault}}
    return answered(state, answer)


def attended(state: State) -> bool:
    """Whether somebody is there to be asked whatever comes: in a server's run that is no dry one.

    A command is asked about a mapping only; what it stops at, its exit status says.
    """
    return bool(state.get("served")) and not state["order"]["dry_run"]


def asks(state: State) -> bool:
    """Whether a person is asked also where nothing is to be converted."""
    return attended(state) and not state["order"]["yes"]


def answers(state: State) -> tuple[str, ...]:
    """What may be answered; without a data file there is nothing that a mapping could read."""
    return ANSWERS if state["source"]["files"] else ("approve", "reject")


def by_gates(state: State) -> dict[str, Json]:
    """Approval by the gates alone."""
    failed = gates.failed(state.get("problems", []))
    if failed:
        return {"decision": "held", "why": "; ".join(failed)}
    reserved = gates.reserved(state)
    if reserved:
        return {"decision": "person", "why": "; ".join(reserved)}
    return {"decision": "approve", "why": "all gates passed"}


def question(state: State, fault: str = "") -> dict[str, Json]:
    """The interrupt's value, in the form that agent inboxes show and answer.

    Args:
        state: the graph's state.
        fault: what was wrong with the last answer, or why it is asked at all.
    """
    proposal = state["proposal"] or {}
    said = [fault, _NOTHING if proposal["decision"] == "irrelevant" else "", proposal_text(state)]
    action = {
        "name": ACTION,
        "args": {"mapping": proposal["mapping"] or proposed(state)},
        "description": "\n\n".join(one for one in said if one),
    }
    schema = {
        "type": "object",
        "properties": {"mapping": contracts.schema("mapping")},
        "required": ["mapping"],
    }
    config = {
        "action_name": ACTION,
        "allowed_decisions": list(answers(state)),
        "args_schema": schema,
    }
    return {"action_requests": [action], "review_configs": [config]}


def answered(state: State, answer: Json) -> State:
    """What a faultless answer `{"decisions": [...]}` makes of the state."""
    decision = answer["decisions"][0]
    if decision["type"] == "edit":
        mapping = _read(decision["edited_action"]["args"]["mapping"])
        proposal = {**(state["proposal"] or {}), "mapping": mapping, "mapper": "edited"}
        if proposal["decision"] == "irrelevant":  # not any more; validating it says what it is
            proposal["decision"] = "unmappable"
        edited: State = {"proposal": proposal, "review": {"decision": "edit", "why": ""}}
        return {**edited, "opinion": None, "looked": None}
    if decision["type"] == "approve" and (unfit := _unfit(state)):
        return {"review": {"decision": "again", "why": unfit}}
    why = str(decision.get("message") or "")
    return {"review": {"decision": decision["type"], "why": why}}


def _unfit(state: State) -> str:
    """Why what a person has approved would convert nothing, "" where it would, or is to."""
    check, proposal = state.get("check"), state["proposal"] or {}
    if not attended(state) or proposal["decision"] == "irrelevant":
        return ""
    if not check:
        return "It cannot be run: edit the mapping, or reject it."
    if check["records"]:
        return ""
    return "It makes no record of the sampled rows: edit the mapping, or reject it."


def fault_of(answer: Json, allowed: Sequence[str] = ANSWERS) -> str:
    """What is wrong with an answer, "" if nothing is; a mapping may be the text that was typed."""
    from jsonschema import Draft202012Validator

    for error in Draft202012Validator(_ANSWER).iter_errors(answer):
        wanted = " | ".join(f'"{one}"' for one in allowed)
        said = line(redact(error.message[:200]))
        return f'Not an answer ({said}); answer {{"decisions": [{{"type": {wanted}, ...}}]}}.'
    decision = answer["decisions"][0]
    if decision["type"] not in allowed:
        return f"Not an answer: {decision['type']} is not for this question."
    if decision["type"] != "edit":
        return ""
    try:
        mapping = _read(decision["edited_action"]["args"]["mapping"])
    except (ValueError, RecursionError) as error:
        return f"Not a mapping: the text is no JSON ({line(str(error))})."
    held = isinstance(mapping, dict) and mapping
    return "" if held else "Not a mapping: it is no JSON object with anything in it."


def _read(mapping: Json) -> Json:
    """The mapping itself: forms send what was typed into them, which is its text."""
    return json.loads(mapping) if isinstance(mapping, str) else mapping


_EDITED = {
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
                "properties": {"type": {"enum": list(ANSWERS)}, "edited_action": _EDITED},
                "if": {"properties": {"type": {"const": "edit"}}},
                "then": {"required": ["edited_action"]},
            },
        }
    },
}
