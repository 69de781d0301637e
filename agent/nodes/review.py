"""review: a person, or the gates in place of one, decide whether the proposal is converted.

pause: where a run rests whose model may not or cannot be asked, until somebody says go on.
"""

import json
from collections.abc import Sequence
from dataclasses import replace

from ingot.agent.judging.policy import (
    REVIEW_ANSWERS,
    allowed_answers,
    is_attended,
    review_by_gates,
    unfit_reason,
)
from ingot.agent.privacy import EMPTY_TEXT, Safe, joined, redact
from ingot.agent.proposing.proposal import SafeProposal
from ingot.agent.reporting.proposal_folder import proposed_mapping
from ingot.agent.reporting.report import markdown_line, proposal_text
from ingot.agent.state import Review, State
from ingot.converters import json_yaml
from ingot.converters.rows import Json, MappingDocument

REVIEW_ACTION = "convert"
_NOTHING_TO_CONVERT = (
    "Nothing to convert: approve records that in the folder, reject writes nothing, "
    "a mapping in place of this one is tried."
)


def review(state: State) -> State:
    """Ask; nothing costly stands before the question, since a resumed node starts from its top."""
    order, before = state["order"], state.get("review")
    if order.dry_run:
        return {"review": Review(decision="dry_run")}
    why = before.why if before and before.decision == "again" else EMPTY_TEXT
    if order.yes and not (before and is_attended(state)):
        decided = review_by_gates(state)
        if decided.decision != "person" or not is_attended(state):
            return {"review": decided}
        why = Safe(f"Only a person may decide this: {markdown_line(decided.why)}")
    from langgraph.types import interrupt

    answer = interrupt(review_question(state, why))
    if fault := answer_fault(answer, allowed_answers(state)):  # it must not end the run
        return {"review": Review(decision="again", why=fault)}
    return apply_answer(state, answer)


def review_question(state: State, fault: Safe = EMPTY_TEXT) -> dict[str, Json]:
    """The interrupt's value, in the form that agent inboxes show and answer."""
    proposal = state["proposal"]
    nothing = proposal is not None and proposal.decision == "irrelevant"
    paragraphs = [fault, Safe(_NOTHING_TO_CONVERT if nothing else ""), proposal_text(state)]
    return _inbox_question(
        REVIEW_ACTION,
        {"mapping": (proposal and proposal.mapping) or proposed_mapping(state)},
        paragraphs,
        allowed_answers(state),
        {
            "type": "object",
            "properties": {"mapping": json_yaml.schema("mapping")},
            "required": ["mapping"],
        },
    )


def _inbox_question(
    name: str,
    arguments: dict[str, Json],
    paragraphs: Sequence[Safe],
    answers: Sequence[str],
    schema: dict[str, Json],
) -> dict[str, Json]:
    text = joined(filter(None, paragraphs))
    action = {"name": name, "args": arguments, "description": text}
    config = {"action_name": name, "allowed_decisions": list(answers), "args_schema": schema}
    return {"action_requests": [action], "review_configs": [config]}


def apply_answer(state: State, answer: Json) -> State:
    """What a faultless answer `{"decisions": [...]}` makes of the state."""
    decision = answer["decisions"][0]
    if decision["type"] == "edit":
        mapping = _read_mapping(decision["edited_action"]["args"]["mapping"])
        return {
            "proposal": _edited_proposal(state["proposal"], mapping),
            "review": Review(decision="edit"),
            "opinion": None,
            "looked": None,
        }
    if decision["type"] == "approve" and (unfit := unfit_reason(state)):
        return {"review": Review(decision="again", why=unfit)}
    why = redact(str(decision.get("message") or ""))
    return {"review": Review(decision=decision["type"], why=why)}


def _edited_proposal(
    proposal: SafeProposal | None, mapping: MappingDocument
) -> SafeProposal | None:
    """The proposal with a person's mapping; validating that decides it anew where need be."""
    if proposal is None:
        return None
    decision = "unmappable" if proposal.decision == "irrelevant" else proposal.decision
    return replace(proposal, mapping=mapping, mapper="edited", decision=decision)


def answer_fault(answer: Json, allowed: Sequence[str] = REVIEW_ANSWERS) -> Safe:
    """What is wrong with an answer, "" if nothing is; a mapping may be the text that was typed."""
    from jsonschema import Draft202012Validator

    for error in Draft202012Validator(_ANSWER).iter_errors(answer):
        wanted = " | ".join(f'"{one}"' for one in allowed)
        said = markdown_line(redact(error.message[:200]))
        return redact(
            f'Not an answer ({said}); answer {{"decisions": [{{"type": {wanted}, ...}}]}}.'
        )
    decision = answer["decisions"][0]
    if decision["type"] not in allowed:
        return redact(f"Not an answer: {decision['type']} is not for this question.")
    if decision["type"] != "edit":
        return EMPTY_TEXT
    try:
        mapping = _read_mapping(decision["edited_action"]["args"]["mapping"])
    except (ValueError, RecursionError) as error:
        return redact(f"Not a mapping: the text is not JSON ({markdown_line(redact(str(error)))}).")
    held = isinstance(mapping, dict) and mapping
    return redact("" if held else "Not a mapping: it is not a JSON object, or an empty one.")


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
        return {"stopped": None, "problems": ()}
    stopped = state.get("stopped")
    why = redact(str(decision.get("message") or (stopped.why if stopped else "")))
    return {"stopped": None, "review": Review(decision="reject", why=why)}


def pause_question(state: State, fault: Safe = EMPTY_TEXT) -> dict[str, Json]:
    """The interrupt's value, in the form that agent inboxes show and answer."""
    stopped = state.get("stopped")
    if stopped is None:
        raise ValueError("the run has not stopped")
    what = {"budget": "A budget is used up", "model": "The model cannot be asked"}[stopped.kind]
    why = markdown_line(Safe(f"{stopped.where}: {stopped.why}"))
    choice = "Approve asks again from here, with what was spent counted; reject ends the run."
    told = [fault, f"{what}: {why}.", markdown_line(Safe(stopped.hint)), choice]
    text = {"type": "string"}
    return _inbox_question(
        PAUSE_ACTION,
        {"why": why, "hint": stopped.hint},
        [*map(Safe, told)],
        PAUSE_ANSWERS,
        {"type": "object", "properties": {"why": text, "hint": text}},
    )
