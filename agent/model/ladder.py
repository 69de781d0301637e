"""One question to a chat endpoint, asked as strictly as the endpoint can take it.

The ladder: a reply held to the schema, a JSON object, the arguments of a tool call, plain text.
What worked is remembered per base URL and model. Replies are returned as they came, never mended.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ingot.agent.model import faults
from ingot.agent.model.budget import Ledger
from ingot.agent.model.endpoint import Endpoint
from ingot.agent.model.faults import Fault
from ingot.agent.model.form import LEVELS, Form, Message, first, softer
from ingot.agent.model.replies import Said
from ingot.agent.model.sending import Sender
from ingot.agent.model.store import Store
from ingot.converters.errors import BudgetReached
from ingot.converters.rows import Json

__all__ = ["LEVELS", "Completion", "Message", "ask"]

_GROWTH, _MOST_GROWTHS = 4, 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Completion:
    """What came back.

    Attributes:
        text: the reply as it came.
        cut_off: whether it hit the length limit, with more room too.
        level: the step of the ladder (one of `LEVELS`) that it came from.
        notes: what was stepped down, dropped, asked again or read from elsewhere, for people.
    """

    text: str
    cut_off: bool
    level: str
    notes: tuple[str, ...] = ()


def ask(
    endpoint: Endpoint,
    messages: Sequence[Message],
    schema: dict[str, Json],
    *,
    store: Store,
    ledger: Ledger,
    below: str | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Completion:
    """One reply, constrained to `schema` as far as the endpoint can do that.

    `below` names the level whose last reply did not obey: this question starts under it, and the
    next ones do too. `sleep` waits the given seconds between tries.

    Raises:
        ModelError: the endpoint cannot be reached, refuses, or returns no reply.
        BudgetReached: one more request, or the wait before it, would pass a limit.
    """
    from ingot.agent.model.transport import check_url, connected

    check_url(endpoint)
    remembered = store.level(endpoint)
    notes: list[str] = []
    with connected(endpoint) as post:
        sender = Sender(
            endpoint=endpoint,
            messages=messages,
            schema=schema,
            post=post,
            ledger=ledger,
            sleep=sleep,
            notes=notes,
        )
        form, said = _answered(sender, first(endpoint, remembered, below))
    if form.known != remembered:
        store.remember(endpoint, form.known)
    return Completion(text=said.text, cut_off=said.cut_off, level=form.level, notes=tuple(notes))


def _answered(sender: Sender, form: Form) -> tuple[Form, Said]:
    """The form that worked and what was said in it, whole or cut off for good."""
    while True:
        said = sender.send(form)
        if isinstance(said, Said) and said.cut_off:
            said = _with_more_room(sender, form, said)
        if isinstance(said, Fault):
            form = _changed(sender, form, said)
        elif said.refusal:
            raise faults.error(sender.endpoint, faults.refusal(sender.endpoint, said.refusal))
        elif not said.text.strip() and not said.cut_off:
            form = _changed(sender, form, _blank(form))
        else:
            if said.source:
                sender.notes.append(f"the reply was read from {said.source}")
            return form, said


def _with_more_room(sender: Sender, form: Form, said: Said) -> Said | Fault:
    """What is said where the reply may be longer; the cut off reply where it may not."""
    for _ in range(_MOST_GROWTHS if form.rooms else 0):
        form = replace(form, room=form.room * _GROWTH)
        try:
            longer = sender.send(form)
        except BudgetReached as reached:
            sender.notes.append(f"cut off, not asked again: {reached.problem}")
            return said
        if isinstance(longer, Fault) and longer.refuses in ("room size", "prompt size"):
            sender.notes.append(f"cut off, {form.room:,} tokens were refused: {longer.problem}")
            return said
        sender.notes.append(f"cut off, asked again with room for {form.room:,} tokens")
        if isinstance(longer, Fault) or not longer.cut_off:
            return longer
        said = longer
    return said


def _changed(sender: Sender, form: Form, fault: Fault) -> Form:
    """The form to ask in next.

    Raises:
        ModelError: nothing is left that could be changed.
    """
    following = softer(form, fault.refuses)
    if following is None:
        raise faults.error(sender.endpoint, fault)
    sender.notes.append(f"{_step(form, following)}: {fault.problem}")
    return following


def _step(form: Form, following: Form) -> str:
    """What differs between two forms, for people."""
    if following.level != form.level:
        return f"stepped down from {form.level} to {following.level}"
    if following.dropped != form.dropped:
        return f"asked without {following.dropped[-1]}"
    if following.rooms != form.rooms:
        return f"asked with {following.rooms[0] if following.rooms else 'no limit of the reply'}"
    return f"asked with room for {following.room:,} tokens"


def _blank(form: Form) -> Fault:
    hint = "try another model, or a server that says why"
    return Fault(
        kind="blank", problem=f"the reply at {form.level} is blank", hint=hint, refuses="level"
    )
