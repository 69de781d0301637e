"""look: an answer that converts is put to the model once more, with the records that it makes.

A wrong choice converts cleanly, so error messages find none. Rendered records, and what looks odd
about them, do.
"""

from ingot.agent.context import Context
from ingot.agent.nodes.repair import closed
from ingot.agent.opinion import DOUBTED
from ingot.agent.signals import ROWS, signals
from ingot.agent.state import Order, State
from ingot.agent.trial import try_out


def look(state: State, context: Context) -> State:
    """Have the model look at its records where it is unsure or they look odd; else nothing."""
    proposal = state["proposal"] or {}
    seen = _signals(state, context)
    if not seen and proposal["confidence"] >= DOUBTED:
        return {"looked": None}
    attempt = closed(state, (), signals=seen)
    looked = {"proposal": proposal, "check": state["check"], "turn": state["turn"]}
    return {"attempts": [*state["attempts"], attempt.to_json()], "looked": looked}


def _signals(state: State, context: Context) -> tuple[str, ...]:
    order, proposal = Order(**state["order"]), state["proposal"] or {}
    where = "the model's mapping"
    trial = try_out(context, order, proposal["mapping"], where=where, show=ROWS)
    return signals(trial.mapping, trial.report)
