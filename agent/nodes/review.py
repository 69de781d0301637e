"""review: a person, or the gates in place of one, decide whether the proposal is converted."""

from ingot.agent import gates
from ingot.agent.report import proposal_text
from ingot.agent.state import Order, State
from ingot.converters import contracts
from ingot.converters.errors import ConversionError
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

    return answered(state, interrupt(question(state)))


def by_gates(state: State) -> dict[str, Json]:
    """Approval by the gates alone."""
    failed = gates.failed(state.get("problems", []))
    if failed:
        return {"decision": "held", "why": "; ".join(failed)}
    reserved = gates.needs_person(state["proposal"] or {})
    if reserved:
        return {"decision": "person", "why": "; ".join(reserved)}
    return {"decision": "approve", "why": "all gates passed"}


def question(state: State) -> dict[str, Json]:
    """The interrupt's value, in the form that agent inboxes show and answer."""
    proposal = state["proposal"] or {}
    action = {
        "name": ACTION,
        "args": {"mapping": proposal["mapping"]},
        "description": proposal_text(state),
    }
    schema = {
        "type": "object",
        "properties": {"mapping": contracts.schema("mapping")},
        "required": ["mapping"],
    }
    config = {"action_name": ACTION, "allowed_decisions": list(ANSWERS), "args_schema": schema}
    return {"action_requests": [action], "review_configs": [config]}


def answered(state: State, answer: Json) -> State:
    """What the answer `{"decisions": [...]}` makes of the state.

    Raises:
        ConversionError: the answer is none of the allowed decisions.
    """
    decision = _decision(answer)
    if decision["type"] == "edit":
        mapping = decision["edited_action"]["args"]["mapping"]
        proposal = {**(state["proposal"] or {}), "mapping": mapping, "mapper": "edited"}
        return {"proposal": proposal, "review": {"decision": "edit", "why": ""}}
    why = str(decision.get("message") or "")
    return {"review": {"decision": decision["type"], "why": why}}


def _decision(answer: Json) -> dict[str, Json]:
    from jsonschema import ValidationError, validate

    try:
        validate(answer, _ANSWER)
    except ValidationError as error:
        hint = 'answer {"decisions": [{"type": "approve" | "edit" | "reject", ...}]}'
        raise ConversionError("review", f"not an answer: {error.message}"[:300], hint) from error
    decision: dict[str, Json] = answer["decisions"][0]
    return decision


_EDITED = {
    "type": "object",
    "required": ["args"],
    "properties": {
        "args": {
            "type": "object",
            "required": ["mapping"],
            "properties": {"mapping": {"type": "object"}},
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
