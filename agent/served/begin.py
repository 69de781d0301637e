"""begin: what is ordered, from an object or from what a person typed; nothing of an earlier run.

A thread of a server may hold several runs, one after the other: each starts from an empty state.
"""

from ingot.agent.context import Context
from ingot.agent.nodes.discover import discover
from ingot.agent.privacy import redact
from ingot.agent.reporting.report import markdown_line
from ingot.agent.reporting.served_replies import (
    DROPPED_RUN,
    IGNORED_WORDS,
    UNREAD_WORDS,
    beginning_reply,
)
from ingot.agent.served.order_input import (
    HELP,
    USAGE,
    check_confined,
    check_order,
    parse_typed_order,
    refuse_unexpanded,
    wants_help,
)
from ingot.agent.state import Order, State, answer_message, asked_words
from ingot.converters.errors import ConversionError, IngotError
from ingot.converters.rows import Json


def begin(state: State, context: Context) -> State:
    """Take the order; words that are none are answered, and the run ends.

    An order that came as an object beside words is the one that counts, and the answer says so.
    """
    words, given = asked_words(state.get("messages") or []), state.get("order") or {}
    if words is None:
        return _order_state(check_allowed(check_order(given), context), context)
    made, said = _typed_order(words, given if given != state.get("ordered") else {}, context)
    told = [DROPPED_RUN, said] if _is_unfinished(state) else [said]
    return {**made, "messages": [answer_message("\n\n".join(told))]}


def _typed_order(words: str, given: dict[str, Json], context: Context) -> tuple[State, str]:
    """The order that a person typed, which is looked at once so that mistakes are told in words."""
    if not given and (not words or wants_help(words)):
        return _refused_state(), HELP
    try:
        order = check_allowed(check_order(given) if given else parse_typed_order(words), context)
        discover({"order": order.to_json()}, context)
    except IngotError as error:
        told = [UNREAD_WORDS] if given else []
        said = "\n\n".join([markdown_line(redact(str(error))), *told, USAGE])
        return _refused_state(), said
    told = [IGNORED_WORDS] if given else []
    return _order_state(order, context), "\n\n".join([*told, beginning_reply(order.to_json())])


def check_allowed(order: Order, context: Context) -> Order:
    """The order, if this run may do it."""
    if order.mapping is None and order.mapper not in context.mappers:
        names = ", ".join(context.mappers)
        raise ConversionError("mapper", f"{order.mapper[:80]!r} is not one of {names}")
    if context.served:
        refuse_unexpanded(order)
    if context.root is not None:
        check_confined(order, context.root)
    return order


def _order_state(order: Order, context: Context) -> State:
    document = order.to_json()
    served: State = {"order": document, "ordered": document, "served": context.served}
    return {**_empty_state(), **served}


def _refused_state() -> State:
    return {**_empty_state(), "order": {}, "ordered": {}}


def _is_unfinished(state: State) -> bool:
    """Whether the run before waits for an answer, which a new one takes away from it."""
    begun = state.get("proposal") or state.get("stopped")
    return bool(begun) and not state.get("outcome")


def _empty_state() -> State:
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
