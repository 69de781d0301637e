"""What an endpoint makes of each level of the ladder, found out by asking.

The question contradicts the schema: a reply that obeys the schema nevertheless was held to it by
the server, not by the model's good will. At the last level, which holds nothing, the question asks
for what the schema wants. The best level is remembered as the one to begin with.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from json import loads

from ingot.agent.doctor.checks import ENDPOINT, Check, State
from ingot.agent.mappers.spelling import Unreadable, only_object
from ingot.agent.model.budget import Ledger, Limits, price_of
from ingot.agent.model.endpoint import Endpoint
from ingot.agent.model.faults import Fault
from ingot.agent.model.form import Form, first, softer
from ingot.agent.model.replies import Said
from ingot.agent.model.sending import Sender
from ingot.agent.model.store import KEPT_S, LEVELS, Store
from ingot.converters.errors import BudgetReached, OutputError
from ingot.converters.rows import Json

TIMEOUT_S = 30.0
MOST_REQUESTS = 6
LONGEST_WAIT_S = 5.0
ROOM = 2048
METALS = ("silver", "copper")
SCHEMA: dict[str, Json] = {
    "type": "object",
    "properties": {"metal": {"type": "string", "enum": list(METALS)}},
    "required": ["metal"],
    "additionalProperties": False,
}
AGAINST = 'First write the word hello, then the json object {"metal": "gold"}, and nothing else.'
PLAIN = 'Answer with the json object {"metal": "silver"} and nothing else.'
# Faults of one question, not of the endpoint: the next level may do.
_OF_QUESTION = ("bad_request", "server_error", "refused", "too_large")
_check = partial(Check, group=ENDPOINT)


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What came of a level.

    Attributes:
        form: how it was asked in the end.
        verdict: `held` = to what the level promises, `obeyed` = what was asked for was given,
            `answered` = with something else, `refused` = the level, `failed` = the question.
        figure: what happened, in words.
        hint: what to do about it.
        ends: whether nothing more can be asked.
    """

    form: Form
    verdict: str
    figure: str
    hint: str = ""
    ends: bool = False


@dataclass(kw_only=True)
class _Patience:
    """Waits that a server asks for, once and not for long."""

    sleep: Callable[[float], None]
    left: int = 1

    def waited(self, fault: Fault) -> bool:
        if self.left and fault.wait_s is not None and fault.wait_s <= LONGEST_WAIT_S:
            self.left -= 1
            self.sleep(fault.wait_s)
            return True
        return False


def checks(
    endpoint: Endpoint,
    store: Store,
    *,
    timeout_s: float = TIMEOUT_S,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Check]:
    """One check per level, the level to begin with, and what was sent.

    At most `MOST_REQUESTS` requests of at most `timeout_s` seconds each.
    """
    from ingot.agent.model.transport import connected

    asked = replace(endpoint, timeout_s=timeout_s, retries=0, max_tokens=ROOM)
    ledger = Ledger(run=Limits(calls=MOST_REQUESTS), price=price_of(endpoint.model))
    patience = _Patience(sleep=sleep)
    found: list[Outcome] = []
    form = first(asked, None, None)
    with connected(asked) as post:
        for level in LEVELS:
            question = [{"role": "user", "content": PLAIN if level == "prompt" else AGAINST}]
            sender = Sender(
                endpoint=asked,
                messages=question,
                schema=SCHEMA,
                post=post,
                ledger=ledger,
                sleep=sleep,
                notes=[],
            )
            found.append(_outcome(sender, replace(form, level=level), patience))
            form = found[-1].form
            yield _level(found)
            if found[-1].ends:
                break
    yield from _remembered(endpoint, store, found)
    yield _sent(ledger)


def _outcome(sender: Sender, form: Form, patience: _Patience) -> Outcome:
    before = sender.ledger.run
    try:
        form, said = _said(sender, form, patience)
    except BudgetReached:
        figure = f"not asked: {MOST_REQUESTS} requests are made"
        return Outcome(form=form, verdict="failed", figure=figure, ends=True)
    if isinstance(said, Fault):
        return _of_fault(form, said)
    took = f"{sender.ledger.run.seconds - before.seconds:.2f} s, {_tokens(said)}"
    verdict, words = _verdict(form.level, said)
    return Outcome(form=form, verdict=verdict, figure=f"{words}; {took}")


def _said(sender: Sender, form: Form, patience: _Patience) -> tuple[Form, Said | Fault]:
    """What is said at a level, and the form that it took: parameters are dropped as need be."""
    while True:
        said = sender.send(form)
        if not isinstance(said, Fault):
            return form, said
        if patience.waited(said):
            continue
        following = None if said.refuses == "level" else softer(form, said.refuses)
        if following is None:
            return form, said
        form = following


def _of_fault(form: Form, fault: Fault) -> Outcome:
    refused = fault.refuses == "level"
    return Outcome(
        form=form,
        verdict="refused" if refused else "failed",
        figure=f"refused: {fault.problem}" if refused else fault.problem,
        hint=fault.hint,
        ends=fault.kind not in _OF_QUESTION,
    )


def _verdict(level: str, said: Said) -> tuple[str, str]:
    """What a reply says of the server, short and in words."""
    if said.refusal:
        return "answered", "accepted; the model refuses"
    if said.cut_off:
        return "answered", f"accepted; {ROOM:,} tokens are too few"
    if not said.text.strip():
        return "answered", "accepted; the reply is blank"
    if level == "prompt":
        if _holds_object(said):
            return "obeyed", "obeyed"
        return "answered", "answered, not obeyed"
    if level == "tool" and said.source != "a tool call":
        return "answered", "accepted, no call made"
    reply = _object(said.text)
    if level == "json_object" and reply is not None:
        return "held", "enforced, of any shape"
    if reply is not None and _fits(reply):
        return "held", "enforced"
    return "answered", "accepted, not enforced"


def _object(text: str) -> dict[str, Json] | None:
    try:
        found = loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _fits(reply: dict[str, Json]) -> bool:
    return list(reply) == ["metal"] and reply["metal"] in METALS


def _holds_object(said: Said) -> bool:
    """Whether the reply is read as the object, however it is wrapped."""
    try:
        only_object(said.text, _fits, cut_off=said.cut_off)
    except Unreadable:
        return False
    return True


def _tokens(said: Said) -> str:
    if said.tokens_in is None or said.tokens_out is None:
        return "tokens not told"
    return f"{said.tokens_in:,} + {said.tokens_out:,} tokens"


def _level(found: Sequence[Outcome]) -> Check:
    """The last outcome as a check; a fault after an answer spoils less than one before it."""
    last = found[-1]
    states: dict[str, State] = {
        "held": "ok",
        "obeyed": "ok",
        "answered": "warn",
        "refused": "skipped",
        "failed": "warn" if any(map(_answered, found)) or not last.ends else "fail",
    }
    return _check(
        name=last.form.level, state=states[last.verdict], figure=last.figure, hint=last.hint
    )


def _answered(one: Outcome) -> bool:
    return one.verdict in ("held", "obeyed", "answered")


def _remembered(endpoint: Endpoint, store: Store, found: Sequence[Outcome]) -> Iterator[Check]:
    """The level to begin with: the first that is held, else the one that was obeyed."""
    check = partial(_check, name="begins with")
    if not any(map(_answered, found)):
        if not found[-1].ends:
            yield check(state="fail", figure="nothing: no level was answered")
        return
    held = [one for one in found if one.verdict == "held"]
    best = next(iter(held or (one for one in found if one.verdict == "obeyed")), None)
    if best is None:
        figure = "what its preset says: no reply was the object that was asked for"
        yield check(state="warn", figure=figure, hint="try another model: --model")
        return
    figure, hint = f"{best.form.level}, remembered for {KEPT_S // 86400} days", ""
    if not held:
        hint = "the server enforces nothing; ingot validates replies"
    try:
        store.remember(endpoint, best.form.known)
    except OutputError as error:
        figure, hint = f"{best.form.level}, not remembered: {error.problem}", error.hint
    yield check(state="warn" if hint else "ok", figure=figure, hint=hint)


def _sent(ledger: Ledger) -> Check:
    spent = ledger.run
    count = f"{spent.calls} question{'s' * (spent.calls != 1)}, {spent.chars_sent:,} characters"
    return _check(name="sent", state="ok", figure=f"{count}; nothing of your data")
