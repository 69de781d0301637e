"""One question to a chat endpoint, asked as strictly as the endpoint can take it.

The ladder: a reply held to the schema, a JSON object, the arguments of a tool call, plain text.
What was found out is remembered per base URL and model. Replies are returned as they came, never
mended.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ingot.agent.model import faults
from ingot.agent.model.budget import Ledger
from ingot.agent.model.endpoint import Endpoint
from ingot.agent.model.faults import Fault
from ingot.agent.model.form import Form, Message, first, softer
from ingot.agent.model.hearing import Hear, Hearing
from ingot.agent.model.replies import Said
from ingot.agent.model.sending import Sender
from ingot.agent.model.store import LEVELS, Store
from ingot.converters.errors import BudgetReached, ModelError
from ingot.converters.rows import Json

__all__ = ["LEVELS", "Completion", "Hear", "Message", "ask"]

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
    hear: Hear | None = None,
) -> Completion:
    """One reply, constrained to `schema` as far as the endpoint can do that.

    `below` names the level whose last reply did not obey: this question starts under it, and the
    next ones do too. `sleep` waits the given seconds between tries. What the endpoint does not
    take is remembered however the question ends, unless nothing is left that it could be asked by.

    With `hear` the reply is streamed, and every new text of it is handed to `hear` as it comes: of
    the content, at the level of tool calls of the arguments, not of what is reasoned. None says:
    forget what you heard, the reply starts again (it broke off, was blank or cut off, was refused).
    In the end what was heard since the last None is the `text` of the completion, whether the
    endpoint can stream or not; as the model says it, characters that steer a terminal among it.
    `hear` is called in the thread that asks; what it raises ends the question.

    Raises:
        ModelError: the endpoint cannot be reached, refuses, or returns no reply.
        BudgetReached: one more request, or the wait before it, would pass a limit.
        Both with the `notes` of a completion.
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
            hearing=None if hear is None else Hearing(hear),
        )
        forms = [replace(first(endpoint, remembered, below), heard=hear is not None)]
        try:
            said = _answered(sender, forms)
            if sender.hearing is not None:
                sender.hearing.settle(said.text)
        except (ModelError, BudgetReached) as error:
            error.notes = tuple(notes)
            raise
        finally:
            # As much of it as was paid for, also where a budget or a person ends the question.
            if forms[-1].known != (remembered or first(endpoint, None, None).known):
                store.remember(endpoint, forms[-1].known)
    level = forms[-1].level
    return Completion(text=said.text, cut_off=said.cut_off, level=level, notes=tuple(notes))


def _answered(sender: Sender, forms: list[Form]) -> Said:
    """What was said, whole or cut off for good; `forms` gets every form that was gone on to."""
    while True:
        form = forms[-1]
        said = sender.send(form)
        if isinstance(said, Said) and said.cut_off:
            said = _with_more_room(sender, form, said)
        if isinstance(said, Fault):
            _change(sender, forms, said)
        elif said.refusal:
            raise faults.error(sender.endpoint, faults.refusal(sender.endpoint, said.refusal))
        elif not said.text.strip() and not said.cut_off:
            _change(sender, forms, _blank(form))
        else:
            if said.source:
                sender.notes.append(f"the reply was read from {said.source}")
            return said


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


def _change(sender: Sender, forms: list[Form], fault: Fault) -> None:
    """Adds the form to ask in next.

    Raises:
        ModelError: nothing is left that could be changed.
    """
    following = softer(forms[-1], fault.refuses)
    if following is None:
        if fault.refuses == "level":
            del forms[1:]  # No step works, so the last one is no better than the first.
        raise faults.error(sender.endpoint, fault)
    sender.notes.append(f"{_step(forms[-1], following)}: {fault.problem}")
    forms.append(following)


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
