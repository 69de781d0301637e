"""tell: after an answer that did not end the review, what became of it; clients show it as said."""

from ingot.agent.messages import answer
from ingot.agent.saying import edited
from ingot.agent.state import State


def tell(state: State) -> State:
    """Say it to a person who typed the order; others read it in the next question."""
    if not state.get("messages"):
        return {}
    review = state["review"]
    said = review["why"] if review["decision"] == "again" else edited(state)
    return {"messages": [answer(said)]}
