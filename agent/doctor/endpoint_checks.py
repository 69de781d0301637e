"""Check a model's endpoint: address, key, model, and how it can be asked for JSON.

Each level of the ladder is tried with a question that contradicts the schema: a reply that obeys
the schema nevertheless was held to it by the server, not by the model's good will. At the last
level, which holds nothing, the question asks for what the schema wants. The best level is
remembered as the one to begin with.
"""

import difflib
import ipaddress
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from json import loads
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ingot.agent.doctor.checks import ENDPOINT, Check, State
from ingot.agent.model import replies, server_errors
from ingot.agent.model.budget import Ledger, Limits, list_price
from ingot.agent.model.cache import FORM_LEVELS, KEPT_S, Store
from ingot.agent.model.client import Sender
from ingot.agent.model.endpoint import NO_KEY, Endpoint, endpoint_key, known_preset, redacted_url
from ingot.agent.model.json_text import UnreadableReply, only_object
from ingot.agent.model.replies import Reply
from ingot.agent.model.request_form import RequestForm, first_form, softer_form
from ingot.agent.model.server_errors import Fault
from ingot.converters.errors import BudgetReached, ModelError, OutputError
from ingot.converters.rows import Json

if TYPE_CHECKING:
    from ingot.agent.model.transport import Answer

TIMEOUT_S = 30.0
MOST_REQUESTS = 6
LONGEST_WAIT_S = 5.0
REPLY_ROOM = 2048
METALS = ("silver", "copper")
METAL_SCHEMA: dict[str, Json] = {
    "type": "object",
    "properties": {"metal": {"type": "string", "enum": list(METALS)}},
    "required": ["metal"],
    "additionalProperties": False,
}
COUNTER_PROMPT = (
    'First write the word hello, then the json object {"metal": "gold"}, and nothing else.'
)
PLAIN_PROMPT = 'Answer with the json object {"metal": "silver"} and nothing else.'
# Faults of one question, not of the endpoint: the next level may do.
_OF_QUESTION = ("bad_request", "server_error", "refused", "too_large")


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What came of a level.

    Attributes:
        verdict: `held` = to what the level promises, `obeyed` = what was asked for was given,
            `answered` = with something else, `refused` = the level, `failed` = the question.
    """

    form: RequestForm
    verdict: str
    figure: str
    hint: str = ""
    ends: bool = False


@dataclass(kw_only=True)
class _WaitAllowance:
    """Waits that a server asks for, once and not for long."""

    sleep: Callable[[float], None]
    left: int = 1

    def wait_if_allowed(self, fault: Fault) -> bool:
        if self.left and fault.wait_s is not None and fault.wait_s <= LONGEST_WAIT_S:
            self.left -= 1
            self.sleep(fault.wait_s)
            return True
        return False


def level_checks(
    endpoint: Endpoint,
    store: Store,
    *,
    timeout_s: float = TIMEOUT_S,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Check]:
    """One check per level, the level to begin with, and what was sent.

    At most `MOST_REQUESTS` requests of at most `timeout_s` seconds each.
    """
    from ingot.agent.model.transport import connect_endpoint

    asked = replace(endpoint, timeout_s=timeout_s, retries=0, max_tokens=REPLY_ROOM)
    ledger = Ledger(run=Limits(calls=MOST_REQUESTS), price=list_price(endpoint.model))
    patience = _WaitAllowance(sleep=sleep)
    found: list[Outcome] = []
    form = first_form(asked, None, None)
    with connect_endpoint(asked) as post:
        for level in FORM_LEVELS:
            question = [
                {"role": "user", "content": PLAIN_PROMPT if level == "prompt" else COUNTER_PROMPT}
            ]
            sender = Sender(
                endpoint=asked,
                messages=question,
                schema=METAL_SCHEMA,
                post=post,
                ledger=ledger,
                sleep=sleep,
                notes=[],
            )
            found.append(_level_outcome(sender, replace(form, level=level), patience))
            form = found[-1].form
            yield _level_check(found)
            if found[-1].ends:
                break
    yield from _remember_level(endpoint, store, found)
    yield _sent_check(ledger)


def _level_outcome(sender: Sender, form: RequestForm, patience: _WaitAllowance) -> Outcome:
    before = sender.ledger.run
    try:
        form, said = _ask_level(sender, form, patience)
    except BudgetReached:
        figure = f"not asked: {MOST_REQUESTS} requests are made"
        return Outcome(form=form, verdict="failed", figure=figure, ends=True)
    if isinstance(said, Fault):
        return _fault_outcome(form, said)
    took = f"{sender.ledger.run.seconds - before.seconds:.2f} s, {_token_text(said)}"
    verdict, words = _reply_verdict(form.level, said)
    return Outcome(form=form, verdict=verdict, figure=f"{words}; {took}")


def _ask_level(
    sender: Sender, form: RequestForm, patience: _WaitAllowance
) -> tuple[RequestForm, Reply | Fault]:
    """What is said at a level, and the form that it took: parameters are dropped as need be."""
    while True:
        said = sender.send(form)
        if not isinstance(said, Fault):
            return form, said
        if patience.wait_if_allowed(said):
            continue
        following = None if said.refuses == "level" else softer_form(form, said.refuses)
        if following is None:
            return form, said
        form = following


def _fault_outcome(form: RequestForm, fault: Fault) -> Outcome:
    refused = fault.refuses == "level"
    return Outcome(
        form=form,
        verdict="refused" if refused else "failed",
        figure=f"refused: {fault.problem}" if refused else fault.problem,
        hint=fault.hint,
        ends=fault.kind not in _OF_QUESTION,
    )


def _reply_verdict(level: str, said: Reply) -> tuple[str, str]:
    """What a reply says of the server, short and in words."""
    if said.refusal:
        return "answered", "accepted; the model refuses"
    if said.cut_off:
        return "answered", f"accepted; {REPLY_ROOM:,} tokens are too few"
    if not said.text.strip():
        return "answered", "accepted; the reply is blank"
    if level == "prompt":
        if _holds_object(said):
            return "obeyed", "obeyed"
        return "answered", "answered, not obeyed"
    if level == "tool" and said.source != "a tool call":
        return "answered", "accepted, no call made"
    reply = _parse_object(said.text)
    if level == "json_object" and reply is not None:
        return "held", "enforced, of any shape"
    if reply is not None and _fits_schema(reply):
        return "held", "enforced"
    return "answered", "accepted, not enforced"


def _parse_object(text: str) -> dict[str, Json] | None:
    try:
        found = loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _fits_schema(reply: dict[str, Json]) -> bool:
    return list(reply) == ["metal"] and reply["metal"] in METALS


def _holds_object(said: Reply) -> bool:
    """Whether the reply is read as the object, however it is wrapped."""
    try:
        only_object(said.text, _fits_schema, cut_off=said.cut_off)
    except UnreadableReply:
        return False
    return True


def _token_text(said: Reply) -> str:
    if said.tokens_in is None or said.tokens_out is None:
        return "tokens not told"
    return f"{said.tokens_in:,} + {said.tokens_out:,} tokens"


def _level_check(found: Sequence[Outcome]) -> Check:
    """The last outcome as a check; a fault after an answer spoils less than one before it."""
    last = found[-1]
    states: dict[str, State] = {
        "held": "ok",
        "obeyed": "ok",
        "answered": "warn",
        "refused": "skipped",
        "failed": "warn" if any(map(_is_answered, found)) or not last.ends else "fail",
    }
    return _endpoint_check(
        name=last.form.level, state=states[last.verdict], figure=last.figure, hint=last.hint
    )


def _is_answered(one: Outcome) -> bool:
    return one.verdict in ("held", "obeyed", "answered")


def _remember_level(endpoint: Endpoint, store: Store, found: Sequence[Outcome]) -> Iterator[Check]:
    """The level to begin with: the first that is held, else the one that was obeyed."""
    check = partial(_endpoint_check, name="begins with")
    if not any(map(_is_answered, found)):
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
        store.remember_form(endpoint, best.form.known)
    except OutputError as error:
        figure, hint = f"{best.form.level}, not remembered: {error.problem}", error.hint
    yield check(state="warn" if hint else "ok", figure=figure, hint=hint)


def _sent_check(ledger: Ledger) -> Check:
    spent = ledger.run
    count = f"{spent.calls} question{'s' * (spent.calls != 1)}, {spent.chars_sent:,} characters"
    return _endpoint_check(name="sent", state="ok", figure=f"{count}; nothing of your data")


_STOPS = ("unreachable", "timeout", "unauthorized", "redirect")
_MOST_NAME = 60
_CLEAR_TEXT_HINT = "the key and what is shown of rows travel in the clear: use https"
_endpoint_check = partial(Check, group=ENDPOINT)


def missing_endpoint_check(model: str | None, base_url: str | None) -> Check:
    """The only check where no model could be asked, given what is named of one."""
    check = partial(_endpoint_check, name="model")
    if model:
        hint = "set OPENAI_API_KEY, --base-url or --preset"
        return check(state="warn", figure=f"{model}: named, but not where it is", hint=hint)
    if base_url:
        hint = "set --model or INGOT_MODEL"
        return check(state="warn", figure=f"none named for {redacted_url(base_url)}", hint=hint)
    return check(state="skipped", figure="none configured: the rules serve offline")


def endpoint_checks(
    endpoint: Endpoint,
    store: Store,
    *,
    timeout_s: float = TIMEOUT_S,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Check]:
    """What the endpoint is like; the level to begin at is remembered in the store."""
    for one in (_check_address, _check_key):
        found = one(endpoint)
        yield found
        if found.state == "fail":
            return
    yield from _check_preset(endpoint)
    reachable, listed = _ask_endpoint(endpoint, timeout_s)
    yield reachable
    if reachable.state != "fail":
        yield _check_model(endpoint, listed)
        yield from level_checks(endpoint, store, timeout_s=timeout_s, sleep=sleep)


def _check_address(endpoint: Endpoint) -> Check:
    from ingot.agent.model.transport import check_url

    check = partial(_endpoint_check, name="address", figure=redacted_url(endpoint.url))
    try:
        check_url(endpoint)
    except ModelError as error:
        return check(state="fail", figure=error.problem, hint=error.hint)
    parts = urlsplit(endpoint.url)
    if parts.path.rstrip("/").endswith(("/completions", "/chat", "/models")):
        return check(state="warn", hint="--base-url is the root: what stands before /chat")
    if parts.scheme == "http" and not _is_local(endpoint.host):
        return check(state="warn", hint=_CLEAR_TEXT_HINT)
    return check(state="ok")


def _check_key(endpoint: Endpoint) -> Check:
    check = partial(_endpoint_check, name="key")
    try:
        found = endpoint_key(endpoint)
    except ModelError as error:
        return check(state="fail", figure=error.problem, hint=error.hint)
    if found.value != NO_KEY:
        return check(state="ok", figure=f"{found.variable} is set, and sent")
    if _is_local(endpoint.host):
        return check(state="ok", figure="none, as servers of one's own want")
    return check(state="warn", figure="none", hint=f"set {found.variable}")


def _check_preset(endpoint: Endpoint) -> Iterator[Check]:
    """What is known of the kind of server; nothing where it is of none that is known."""
    preset = known_preset(endpoint)
    if preset is None:
        return
    figure = f"{preset.name}: begins at {preset.level}, limits a reply by {preset.room}"
    yield _endpoint_check(name="preset", state="ok", figure=figure, notes=preset.traps)


def _ask_endpoint(endpoint: Endpoint, timeout_s: float) -> tuple[Check, "Answer | None"]:
    """Whether the endpoint answers, and its list of models; None = it tells none."""
    from ingot.agent.model.transport import NoAnswerError, list_models

    check = partial(_endpoint_check, name="reachable")
    try:
        answer = list_models(endpoint, timeout_s)
    except NoAnswerError as error:
        if error.kind in _STOPS:
            return check(state="fail", figure=error.problem, hint=error.hint), None
        return check(state="ok", figure="answers, though not with a list of models"), None
    fault = server_errors.find_fault(endpoint, answer.status, answer.headers, answer.body)
    if fault is not None and fault.kind in _STOPS:
        return check(state="fail", figure=fault.problem, hint=fault.hint), None
    figure = f"answered {answer.status} to GET /models"
    return check(state="ok", figure=figure), answer if fault is None else None


def _check_model(endpoint: Endpoint, listed: "Answer | None") -> Check:
    check = partial(_endpoint_check, name="model")
    names = _listed_names(listed)
    if not names:
        return check(state="skipped", figure=f"{endpoint.model}: the server lists no models")
    if endpoint.model in names:
        return check(state="ok", figure=f"{endpoint.model}: one of {len(names):,} that it lists")
    figure = f"{endpoint.model}: not among the {len(names):,} that it lists"
    return check(
        state="warn", figure=figure, hint=f"nearest: {_nearest_names(endpoint.model, names)}"
    )


def _listed_names(listed: "Answer | None") -> list[str]:
    """The names in a list of models, of a server that may say anything."""
    document = replies.reply_document(listed.body) if listed else None
    entries = (document or {}).get("data")
    entries = entries if isinstance(entries, list) else []
    ids = [one.get("id") for one in entries if isinstance(one, dict)]
    return [one for one in ids if isinstance(one, str)]


def _nearest_names(model: str, names: list[str]) -> str:
    found = difflib.get_close_matches(model, names, n=3, cutoff=0.3) or sorted(names)[:3]
    return ", ".join(" ".join(one.split())[:_MOST_NAME] for one in found)


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
