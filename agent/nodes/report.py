"""report: the outcome of a run as one JSON object, which the doors print.

tell: what became of an answer that did not end the review, or of a run that failed.
"""

from dataclasses import replace
from pathlib import Path

from ingot.agent.judging.policy import gates_of_state, irrelevance_doubt
from ingot.agent.privacy import EMPTY_TEXT, Safe, redact
from ingot.agent.proposing.proposal import PERSONS, SURE_CONFIDENCE, confidence_text
from ingot.agent.reporting.report import edited_reply, ending_reply
from ingot.agent.state import Outcome, State, answer_message
from ingot.converters.errors import IngotError

# What a review's decision means for the run.
_STATUS = {
    "approve": "done",
    "reject": "rejected",
    "edit": "waiting",
    "again": "waiting",
    "held": "blocked",
    "person": "waiting",
    "dry_run": "dry_run",
}


def report(state: State) -> State:
    """Sum the run up; a person who typed the order is told in words."""
    return _with_ending(state, run_outcome(state))


def failed_state(state: State, error: IngotError) -> State:
    """The end of a run whose order was typed: clients may show a message but not an error."""
    outcome = replace(run_outcome(state), status="failed", why=redact(str(error)))
    return _with_ending(state, outcome)


def _with_ending(state: State, outcome: Outcome) -> State:
    if not state.get("messages"):
        return {"outcome": outcome}
    return {"outcome": outcome, "messages": [answer_message(ending_reply(outcome))]}


def run_outcome(state: State) -> Outcome:
    """The run as it stands, for people and programs."""
    proposal = state.get("proposal")
    stopped, review = state.get("stopped"), state.get("review")
    said = stopped.why if stopped else review.why if review else EMPTY_TEXT
    return Outcome(
        status=run_status(state),
        why=said or irrelevance_doubt(state),
        source=state.get("source"),
        decision=proposal.decision if proposal else None,
        mapper=proposal.mapper if proposal else None,
        confidence=proposal.confidence if proposal else None,
        reason=Safe(proposal.reason) if proposal else None,
        evidence=proposal.evidence if proposal else (),
        mapping=proposal.mapping if proposal else None,
        check=state.get("check"),
        problems=state.get("problems", ()),
        gates=tuple(gates_of_state(state)),
        opinion=state.get("opinion"),
        usage=state.get("usage"),
        notes=tuple(run_notes(state)),
        result=state.get("result"),
    )


def run_notes(state: State) -> list[str]:
    """What people should look at although the gates let it pass."""
    order, proposal, review = state["order"], state.get("proposal"), state.get("review")
    approved = order.yes and review is not None and review.decision == "approve"
    if not approved or proposal is None:
        return []
    if proposal.mapper in PERSONS or proposal.confidence >= SURE_CONFIDENCE:
        return []
    who = "the model is" if proposal.mapper == "llm" else f"the {proposal.mapper} are"
    where = Path(order.out or "", "report.md")
    return [f"{who} unsure ({confidence_text(proposal.confidence)}): look at {where}"]


def run_status(state: State) -> str:
    """How a run ended.

    `done`, `already_done`, `dry_run`, `irrelevant`, `unmappable`, `blocked` (a gate failed),
    `waiting` (only a person may approve), `budget` (one is used up), `rejected` (a person did not
    approve), or `unusable` (no mapping that could be run).
    """
    if state.get("stopped"):
        return "budget"
    proposal, review, result = state.get("proposal"), state.get("review"), state.get("result")
    decision = review.decision if review else None
    if decision != "reject" and proposal and proposal.decision in ("irrelevant", "unmappable"):
        return "waiting" if irrelevance_doubt(state) else proposal.decision
    if decision is None or (decision == "approve" and not state["check"]):
        return "unusable"
    if decision == "approve" and result and result.already_done:
        return "already_done"
    return _STATUS[decision]


def tell(state: State) -> State:
    """Say it to a person who typed the order; others read it in the next question."""
    review = state.get("review")
    if not state.get("messages") or review is None:
        return {}
    text = review.why if review.decision == "again" else edited_reply(state)
    return {"messages": [answer_message(text)]}
