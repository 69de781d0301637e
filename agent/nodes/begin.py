"""begin: what is ordered, from an object or from what a person typed; nothing of an earlier run.

A thread of a server may hold several runs, one after the other: each starts from an empty state.
"""

from ingot.agent.context import Context
from ingot.agent.messages import answer, asked
from ingot.agent.nodes.discover import discover
from ingot.agent.ordering import USAGE, checked, confined, typed
from ingot.agent.redaction import redact
from ingot.agent.report import line
from ingot.agent.saying import beginning
from ingot.agent.state import Order, State
from ingot.converters.errors import IngotError


def begin(state: State, context: Context) -> State:
    """Take the order; words that are none are answered, and the run ends.

    Raises:
        ConversionError: the order is an object that is none.
    """
    words = asked(state.get("messages") or [])
    if words is not None:
        return _spoken(words, context)
    order = checked(state.get("order") or {})
    return {**_nothing(), "order": order.to_json()}


def _spoken(words: str, context: Context) -> State:
    """The order that a person typed, which is looked at once so that mistakes are told in words."""
    try:
        order = _looked_at(typed(words), context)
    except IngotError as error:
        said = f"{line(redact(str(error)))}\n\n{USAGE}" if words else USAGE
        return {**_nothing(), "order": {}, "messages": [answer(said)]}
    document = order.to_json()
    return {**_nothing(), "order": document, "messages": [answer(beginning(document))]}


def _looked_at(order: Order, context: Context) -> Order:
    if context.root is not None:
        confined(order, context.root)
    discover({"order": order.to_json()}, context)
    return order


def _nothing() -> State:
    """Every channel that a node fills, as it is before."""
    return {
        "source": {},
        "sample": {},
        "proposal": None,
        "turn": {},
        "attempts": [],
        "problems": [],
        "check": None,
        "usage": {},
        "stopped": {},
        "looked": None,
        "opinion": None,
        "review": {},
        "result": {},
        "outcome": {},
    }
