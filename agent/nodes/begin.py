"""begin: what is ordered, from an object or from what a person typed; nothing of an earlier run.

A thread of a server may hold several runs, one after the other: each starts from an empty state.
"""

from ingot.agent.context import Context
from ingot.agent.messages import answer, asked
from ingot.agent.nodes.discover import discover
from ingot.agent.ordering import (
    HELP,
    USAGE,
    checked,
    confined,
    typed,
    unexpanded,
    wants_help,
)
from ingot.agent.redaction import redact
from ingot.agent.report import line
from ingot.agent.saying import BESIDE, DROPPED, OTHER, beginning
from ingot.agent.state import Order, State
from ingot.converters.errors import ConversionError, IngotError
from ingot.converters.rows import Json


def begin(state: State, context: Context) -> State:
    """Take the order; words that are none are answered, and the run ends.

    An order that came as an object beside words is the one that counts, and the answer says so.

    Raises:
        ConversionError: the order is an object that is none.
    """
    words, given = asked(state.get("messages") or []), state.get("order") or {}
    if words is None:
        return _taken(allowed(checked(given), context), context)
    made, said = _spoken(words, given if given != state.get("ordered") else {}, context)
    told = [DROPPED, said] if _unfinished(state) else [said]
    return {**made, "messages": [answer("\n\n".join(told))]}


def _spoken(words: str, given: dict[str, Json], context: Context) -> tuple[State, str]:
    """The order that a person typed, which is looked at once so that mistakes are told in words."""
    if not given and (not words or wants_help(words)):
        return _refused(), HELP
    try:
        order = allowed(checked(given) if given else typed(words), context)
        discover({"order": order.to_json()}, context)
    except IngotError as error:
        told = [OTHER] if given else []
        said = "\n\n".join([line(redact(str(error))), *told, USAGE])
        return _refused(), said
    told = [BESIDE] if given else []
    return _taken(order, context), "\n\n".join([*told, beginning(order.to_json())])


def allowed(order: Order, context: Context) -> Order:
    """The order, if this run may do it.

    Raises:
        ConversionError: there is no such mapper, or a place lies where it must not.
        SourceError: the source cannot be listed.
    """
    if order.mapping is None and order.mapper not in context.mappers:
        names = ", ".join(context.mappers)
        raise ConversionError("mapper", f"{order.mapper[:80]!r} is not one of {names}")
    if context.served:
        unexpanded(order)
    if context.root is not None:
        confined(order, context.root)
    return order


def _taken(order: Order, context: Context) -> State:
    document = order.to_json()
    served: State = {"order": document, "ordered": document, "served": context.served}
    return {**_nothing(), **served}


def _refused() -> State:
    return {**_nothing(), "order": {}, "ordered": {}}


def _unfinished(state: State) -> bool:
    """Whether the run before waits for an answer, which a new one takes away from it."""
    begun = state.get("proposal") or state.get("stopped")
    return bool(begun) and not state.get("outcome")


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
