"""report: the outcome of a run as one JSON object, which the doors print.

tell: what became of an answer that did not end the review, or of a run that failed.
"""

from dataclasses import asdict
from pathlib import Path

from ingot.agent.judging import gates
from ingot.agent.judging.gates import PERSONS, doubt_reason
from ingot.agent.judging.second_opinion import dispute_reason
from ingot.agent.privacy import redact
from ingot.agent.proposing.auto import SURE_CONFIDENCE
from ingot.agent.reporting.served_replies import edited_reply, ending_reply
from ingot.agent.state import State, answer_message
from ingot.converters.errors import IngotError
from ingot.converters.rows import Json

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
    told = run_outcome(state)
    said: State = (
        {"messages": [answer_message(ending_reply(told))]} if state.get("messages") else {}
    )
    return {"outcome": told, **said}


def run_outcome(state: State) -> dict[str, Json]:
    """The run as it stands, for people and programs."""
    proposal = state.get("proposal") or {}
    return {
        "status": run_status(state),
        "why": stop_reason(state),
        "source": state["source"],
        "decision": proposal.get("decision"),
        "mapper": proposal.get("mapper"),
        "confidence": proposal.get("confidence"),
        "reason": proposal.get("reason"),
        "evidence": proposal.get("evidence", []),
        "mapping": proposal.get("mapping"),
        "check": state.get("check"),
        "problems": state.get("problems", []),
        "gates": [asdict(one) for one in gates.gates_of_state(state)],
        "opinion": state.get("opinion"),
        "usage": state.get("usage", {}),
        "notes": run_notes(state),
        "result": state.get("result") or None,
    }


def run_notes(state: State) -> list[str]:
    """What people should look at although the gates let it pass."""
    proposal = state.get("proposal") or {}
    approved = state.get("review", {}).get("decision") == "approve" and state["order"]["yes"]
    if not approved or proposal["mapper"] in PERSONS or proposal["confidence"] >= SURE_CONFIDENCE:
        return []
    who = "the model is" if proposal["mapper"] == "llm" else f"the {proposal['mapper']} are"
    where = Path(state["order"]["out"] or "", "report.md")
    return [f"{who} unsure ({proposal['confidence']:.2f}): look at {where}"]


def stop_reason(state: State) -> str:
    """Why the run did not go on, "" where it did."""
    stopped = state.get("stopped") or {}
    return stopped.get("why") or state.get("review", {}).get("why", "") or _irrelevance_doubt(state)


def _irrelevance_doubt(state: State) -> str:
    """Why it is not sure enough that there is nothing to convert, "" where it is."""
    proposal = state.get("proposal")
    decided = state.get("review", {}).get("decision") in ("approve", "reject")
    if decided or proposal is None or proposal["decision"] != "irrelevant":
        return ""
    return doubt_reason(proposal, state["order"]["min_confidence"]) or dispute_reason(state)


def run_status(state: State) -> str:
    """How a run ended.

    `done`, `already_done`, `dry_run`, `irrelevant`, `unmappable`, `blocked` (a gate failed),
    `waiting` (only a person may approve), `budget` (one is used up), `rejected` (a person did not
    approve), or `unusable` (no mapping that could be run).
    """
    if state.get("stopped"):
        return "budget"
    proposal, decision = state.get("proposal"), state.get("review", {}).get("decision")
    if decision != "reject" and proposal and proposal["decision"] in ("irrelevant", "unmappable"):
        return "waiting" if _irrelevance_doubt(state) else str(proposal["decision"])
    if decision is None or (decision == "approve" and not state["check"]):
        return "unusable"
    if decision == "approve" and state.get("result", {}).get("already_done"):
        return "already_done"
    return _STATUS[decision]


def tell(state: State) -> State:
    """Say it to a person who typed the order; others read it in the next question."""
    if not state.get("messages"):
        return {}
    review = state["review"]
    said = review["why"] if review["decision"] == "again" else edited_reply(state)
    return {"messages": [answer_message(said)]}


def failed_state(state: State, error: IngotError) -> State:
    """The end of a run whose order was typed: a client shows what is said, an error it may not."""
    told = {**run_outcome(state), "status": "failed", "why": redact(str(error))}
    return {"outcome": told, "messages": [answer_message(ending_reply(told))]}
