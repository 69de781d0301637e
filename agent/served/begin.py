"""begin: what is ordered, from an object or from what a person typed; nothing of an earlier run.

A thread of a server may hold several runs, one after the other: each starts from an empty state.
"""

from collections.abc import Sequence

from ingot.agent.context import Context
from ingot.agent.nodes.discover import discover
from ingot.agent.privacy import Safe, joined, redact
from ingot.agent.reporting.report import (
    DROPPED_RUN,
    IGNORED_WORDS,
    UNREAD_WORDS,
    beginning_reply,
    markdown_line,
)
from ingot.agent.served import order_input
from ingot.agent.served.order_input import HELP, USAGE
from ingot.agent.state import Channels, Message, Order, answer_message
from ingot.converters.errors import ConversionError, IngotError
from ingot.converters.json_yaml import encode

_PERSON = ("human", "user")


def begin(channels: Channels, context: Context) -> Channels:
    """Take the order; words that are not an order are answered, and the run ends.

    An order that came as an object beside words is the one that counts, and the answer says so.
    """
    words, given = asked_words(channels.get("messages") or []), channels.get("order") or {}
    if words is None:
        order = order_input.check_order(given, served=context.served)
        return _order_state(check_allowed(order, context), context)
    new = given if given != channels.get("ordered") else {}
    begun, reply = _typed_order(words, new, context)
    # The run before may wait for an answer, which a new one takes away from it.
    waits = channels.get("proposal") or channels.get("stopped")
    replies = [DROPPED_RUN, reply] if waits and not channels.get("outcome") else [reply]
    return {**begun, "messages": [answer_message(joined(replies))]}


def _typed_order(words: str, given: Channels, context: Context) -> tuple[Channels, Safe]:
    """The order that a person typed, which is looked at once so that mistakes are told in words."""
    if not given and (not words or order_input.wants_help(words)):
        return _refused(), Safe(HELP)
    try:
        order = check_allowed(
            order_input.check_order(given) if given else order_input.parse_typed_order(words),
            context,
        )
        discover({"order": order}, context)
    except IngotError as error:
        note = [UNREAD_WORDS] if given else []
        return _refused(), joined([markdown_line(redact(str(error))), *note, Safe(USAGE)])
    note = [IGNORED_WORDS] if given else []
    return _order_state(order, context), joined([*note, beginning_reply(order)])


def check_allowed(order: Order, context: Context) -> Order:
    """The order, if this run may do it."""
    if order.mapping is None and order.mapper not in context.mappers:
        names = ", ".join(context.mappers)
        raise ConversionError("mapper", f"{order.mapper[:80]!r} is not one of {names}")
    if context.served:
        order_input.refuse_unexpanded(order)
    if context.root is not None:
        order_input.check_confined(order, context.root)
    return order


def _order_state(order: Order, context: Context) -> Channels:
    document = encode(order)
    return {**_EMPTY, "order": document, "ordered": document, "served": context.served}


def _refused() -> Channels:
    return {**_EMPTY, "order": {}, "ordered": {}}


# Every channel that a node fills, as it is before.
_EMPTY: Channels = {
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


def asked_words(messages: Sequence[Message]) -> str | None:
    """The words that a person said last; None where they are answered, or nobody said any."""
    last = messages[-1] if messages else {}
    if last.get("type", last.get("role")) not in _PERSON:
        return None
    # What else a client may send, such as pictures, says nothing here.
    content = last.get("content")
    blocks = content if isinstance(content, list) else [content]
    texts = (one.get("text") if isinstance(one, dict) else one for one in blocks)
    return "\n".join(one for one in texts if isinstance(one, str)).strip()
