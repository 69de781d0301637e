"""tell: what became of an answer that did not end the review, or of a run that failed.

Clients show it as said.
"""

from ingot.agent.messages import answer
from ingot.agent.nodes.report import outcome
from ingot.agent.redaction import redact
from ingot.agent.saying import edited, ending
from ingot.agent.state import State
from ingot.converters.errors import IngotError


def tell(state: State) -> State:
    """Say it to a person who typed the order; others read it in the next question."""
    if not state.get("messages"):
        return {}
    review = state["review"]
    said = review["why"] if review["decision"] == "again" else edited(state)
    return {"messages": [answer(said)]}


def failed(state: State, error: IngotError) -> State:
    """The end of a run whose order was typed: a client shows what is said, an error it may not."""
    told = {**outcome(state), "status": "failed", "why": redact(str(error))}
    return {"outcome": told, "messages": [answer(ending(told))]}
