"""begin: what is ordered, from an object or from what a person typed; nothing of an earlier run.

A thread of a server may hold several runs, one after the other: each starts from an empty state.
"""

from collections.abc import Sequence
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from ingot.agent.context import Context
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
from ingot.agent.state import Channels, Message, Order, State, answer_message
from ingot.agent.steps.course import Run, advance
from ingot.agent.steps.order_schema import check_order
from ingot.converters.errors import IngotError
from ingot.converters.json_yaml import EMPTY, encode
from ingot.converters.rows import Json

_PERSON = ("human", "user")


def begin(channels: Channels, context: Context) -> Channels:
    """Take the order; words that are not an order are answered, and the run ends.

    An order that came as an object beside words is the one that counts, and the answer says so.
    """
    words, given = asked_words(channels.get("messages") or []), channels.get("order") or {}
    if words is None:
        order = check_order(given, served=context.served)
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
            check_order(given) if given else order_input.parse_typed_order(words),
            context,
        )
        advance(Run(state={"order": order}, context=context, step="discover"), until="sample")
    except IngotError as error:
        note = [UNREAD_WORDS] if given else []
        return _refused(), joined([markdown_line(redact(str(error))), *note, Safe(USAGE)])
    note = [IGNORED_WORDS] if given else []
    return _order_state(order, context), joined([*note, beginning_reply(order)])


def check_allowed(order: Order, context: Context) -> Order:
    """Return the order if this run may do it; refuse it otherwise."""
    context.check_mapper(order)
    if context.served:
        order_input.refuse_unexpanded(order)
    if context.root is not None:
        order_input.check_confined(order, context.root)
    return order


def _order_state(order: Order, context: Context) -> Channels:
    document = encode(order)
    return {**_empty_channels(), "order": document, "ordered": document, "served": context.served}


def _refused() -> Channels:
    return {**_empty_channels(), "order": {}, "ordered": {}}


def _empty_channels() -> Channels:
    """Every channel that a step fills, as it is before."""
    hints = get_type_hints(State, include_extras=True)
    return {
        name: _empty_value(annotation) for name, annotation in hints.items() if name not in _OWN
    }


_OWN = ("order", "ordered", "served", "messages")


def _empty_value(annotation: Any) -> Json:  # noqa: ANN401
    """What stands for nothing in a channel, by its type."""
    if get_origin(annotation) is tuple:
        return []
    if annotation is bool:
        return False
    optional = NoneType in get_args(annotation) and EMPTY not in getattr(
        annotation, "__metadata__", ()
    )
    return None if optional else {}


def asked_words(messages: Sequence[Message]) -> str | None:
    """Return the last words of a person, None if they were answered, or nobody said any."""
    last = messages[-1] if messages else {}
    if last.get("type", last.get("role")) not in _PERSON:
        return None
    # What else a client may send, such as pictures, says nothing here.
    content = last.get("content")
    blocks = content if isinstance(content, list) else [content]
    texts = (one.get("text") if isinstance(one, dict) else one for one in blocks)
    return "\n".join(one for one in texts if isinstance(one, str)).strip()
