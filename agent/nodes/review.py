"""review: a person, or the gates in place of one, decide whether the proposal is converted."""

import json
from collections.abc import Sequence

from ingot.agent import gates
from ingot.agent.redaction import redact
from ingot.agent.report import line, proposal_text
from ingot.agent.state import Order, State
from ingot.converters import contracts
from ingot.converters.rows import Json

ACTION = "convert"
ANSWERS = ("approve", "edit", "reject")


def review(state: State) -> State:
    """Ask; nothing costly stands before the question, since a resumed node starts from its top."""
    order = Order(**state["order"])
    if order.dry_run:
        return {"review": {"decision": "dry_run", "why": ""}}
    if order.yes:
        return {"review": by_gates(state)}
    from langgraph.types import interrupt

    before = state.get("review", {})
    answer = interrupt(question(state, before["why"] if before.get("decision") == "again" else ""))
    if fault := fault_of(answer):  # it must not end the run
        return {"review": {"decision": "again", "why": fault}}
    return answered(state, answer)


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
        fault: what was wrong with the last answer.
    """
    proposal = state["proposal"] or {}
    action = {
        "name": ACTION,
        "args": {"mapping": proposal["mapping"]},
        "description": f"{fault}\n\n{proposal_text(state)}".lstrip(),
    }
    schema = {
        "type": "object",
        "properties": {"mapping": contracts.schema("mapping")},
        "required": ["mapping"],
    }
    config = {"action_name": ACTION, "allowed_decisions": list(ANSWERS), "args_schema": schema}
    return {"action_requests": [action], "review_configs": [config]}


def answered(state: State, answer: Json) -> State:
    """What a faultless answer `{"decisions": [...]}` makes of the state."""
    decision = answer["decisions"][0]
    if decision["type"] == "edit":
        mapping = _read(decision["edited_action"]["args"]["mapping"])
        proposal = {**(state["proposal"] or {}), "mapping": mapping, "mapper": "edited"}
        edited: State = {"proposal": proposal, "review": {"decision": "edit", "why": ""}}
        return {**edited, "opinion": None, "looked": None}
    why = str(decision.get("message") or "")
    return {"review": {"decision": decision["type"], "why": why}}


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
