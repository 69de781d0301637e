"""Check a model's endpoint: address, key, model, and how it can be asked for JSON.

Each level of the ladder is tried with a question that contradicts the schema: a reply that obeys
the schema nevertheless was held to it by the server, not by the model's good will. At the last
level, which holds nothing, the question asks for what the schema wants. The best level is
remembered as the one to begin with.
"""

import difflib
import ipaddress
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final
from urllib.parse import urlsplit

from ingot.agent.doctor.checks import Check, State
from ingot.agent.model import replies, server_errors
from ingot.agent.model.budget import Ledger, Limits, list_price
from ingot.agent.model.cache import FORM_LEVELS, KEPT_S, Store
from ingot.agent.model.client import Sender
from ingot.agent.model.endpoint import NO_KEY, Endpoint, endpoint_key, known_preset, service_url
from ingot.agent.model.json_text import UnreadableReply, only_object
from ingot.agent.model.replies import Reply
from ingot.agent.model.request_form import RequestForm, first_form, softer_form
from ingot.agent.model.server_errors import Fault
from ingot.agent.proposing.order import DEFAULT_PROMPT, LEAST_PROMPT
from ingot.converters.errors import BudgetReached, ModelError, OutputError, count_text
from ingot.converters.rows import Json, Safe

TIMEOUT_S: Final = 30.0
MOST_REQUESTS: Final = 6
LONGEST_WAIT_S: Final = 5.0
REPLY_ROOM: Final = 2048
METALS: Final = ("silver", "copper")
METAL_SCHEMA: dict[str, Json] = {
    "type": "object",
    "properties": {"metal": {"type": "string", "enum": list(METALS)}},
    "required": ["metal"],
    "additionalProperties": False,
}
COUNTER_PROMPT: Final = (
    'First write the word hello, then the json object {"metal": "gold"}, and nothing else.'
)
PLAIN_PROMPT: Final = 'Answer with the json object {"metal": "silver"} and nothing else.'
# Faults of one question, not of the endpoint: the next level may do.
_OF_QUESTION: Final = ("bad_request", "server_error", "refused", "too_large")
_STOPS: Final = ("unreachable", "timeout", "unauthorized", "redirect")
_MOST_NAME: Final = 60
_CLEAR_TEXT_HINT: Final = "the key and what is shown of rows travel in the clear: use https"
_check = partial(Check, "endpoint")


def missing_endpoint_check(model: str | None, base_url: str | None) -> Check:
    """Return the only check where no model could be asked, given what is named of one."""
    if model:
        hint = "set OPENAI_API_KEY, --base-url or --preset"
        return _check("model", "warn", f"{model}: named, but not where it is", hint)
    if base_url:
        figure = f"none named for {service_url(base_url)}"
        return _check("model", "warn", figure, "set --model or INGOT_MODEL")
    return _check("model", "skipped", "none configured: the rules serve offline")


def endpoint_checks(
    endpoint: Endpoint,
    store: Store,
    *,
    timeout_s: float = TIMEOUT_S,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Check]:
    """Check the endpoint by `MOST_REQUESTS` questions at most; the store keeps the level."""
    for check in (_check_address, _check_key):
        found = check(endpoint)
        yield found
        if found.state == "fail":
            return
    if preset := known_preset(endpoint):
        figure = f"{preset.name}: begins at {preset.level}, limits a reply by {preset.room}"
        yield _check("preset", "ok", figure, notes=preset.traps)
    reachable, models = _ask_for_models(endpoint, timeout_s)
    yield reachable
    if reachable.state != "fail":
        yield _check_model(endpoint.model, list(models))
        yield from _check_context(endpoint, models.get(endpoint.model))
        yield from _check_levels(endpoint, store, timeout_s, sleep)


def _check_address(endpoint: Endpoint) -> Check:
    from ingot.agent.model.transport import check_url

    try:
        check_url(endpoint)
    except ModelError as error:
        return _check("address", "fail", error.problem, error.hint)
    parts, shown = urlsplit(endpoint.url), service_url(endpoint.url)
    if parts.path.rstrip("/").endswith(("/completions", "/chat", "/models")):
        return _check("address", "warn", shown, "--base-url is the root: what stands before /chat")
    if parts.scheme == "http" and not _is_local(endpoint.host):
        return _check("address", "warn", shown, _CLEAR_TEXT_HINT)
    return _check("address", "ok", shown)


def _check_key(endpoint: Endpoint) -> Check:
    try:
        found = endpoint_key(endpoint)
    except ModelError as error:
        return _check("key", "fail", error.problem, error.hint)
    if found.value != NO_KEY:
        return _check("key", "ok", f"{found.variable} is set, and sent")
    if _is_local(endpoint.host):
        return _check("key", "ok", "none: a server on your own network needs none")
    return _check("key", "warn", "none", f"set {found.variable}")


def _ask_for_models(endpoint: Endpoint, timeout_s: float) -> tuple[Check, dict[str, int | None]]:
    """Check that the endpoint answers, and return the models that it lists, with their contexts.

    A context, in tokens, is what vLLM and llama.cpp say of it; None where a server says nothing.
    """
    from ingot.agent.model.transport import NoAnswerError, list_models

    answer, fault = None, None
    try:
        answer = list_models(endpoint, timeout_s)
        fault = server_errors.find_fault(endpoint, answer.status, answer.headers, answer.body)
    except NoAnswerError as error:
        fault = error.fault
    if fault and (fault.kind in _STOPS or fault.loading):
        return _check("reachable", "fail", fault.problem, fault.hint), {}
    if answer is None:
        return _check("reachable", "ok", "answers, though not with a list of models"), {}
    document = None if fault else replies.reply_document(answer.body)
    entries = (document or {}).get("data")
    listed = entries if isinstance(entries, list) else []
    known = [one for one in listed if isinstance(one, dict) and isinstance(one.get("id"), str)]
    contexts = {one["id"]: _context_size(one) for one in known}
    return _check("reachable", "ok", f"answered {answer.status} to GET /models"), contexts


def _context_size(listed: dict[str, Json]) -> int | None:
    """How many tokens a model takes, as vLLM (`max_model_len`) or llama.cpp (`n_ctx`) says it."""
    meta = listed.get("meta")
    more = meta.get("n_ctx") if isinstance(meta, dict) else None
    size = listed.get("max_model_len") or more
    return size if isinstance(size, int) and size > 0 else None


def _check_context(endpoint: Endpoint, size: int | None) -> Iterator[Check]:
    """Check that the first question and its reply fit."""
    if size is None:
        return
    figure = f"{size:,} tokens"
    if size >= DEFAULT_PROMPT + endpoint.max_tokens:
        yield _check("context", "ok", figure)
        return
    fits = (size - endpoint.max_tokens) // 1000 * 1000
    small = f"--prompt-tokens {fits}" if fits >= LEAST_PROMPT else "no prompt of ingot"
    needs = f"a question needs up to {DEFAULT_PROMPT:,} and its reply {endpoint.max_tokens:,}"
    hint = f"{small} fits; or give the server a larger one"
    yield _check("context", "warn", f"{figure}: {needs}", hint)


def _check_model(model: str, names: list[str]) -> Check:
    if not names:
        return _check("model", "skipped", f"{model}: the server lists no models")
    if model in names:
        return _check("model", "ok", f"{model}: one of {len(names):,} that it lists")
    found = difflib.get_close_matches(model, names, n=3, cutoff=0.3) or sorted(names)[:3]
    nearest = ", ".join(" ".join(one.split())[:_MOST_NAME] for one in found)
    figure = f"{model}: not among the {len(names):,} that it lists"
    return _check("model", "warn", figure, f"nearest: {nearest}")


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


# --- the levels of the ladder


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What came of a level.

    `verdict` is `held` (to what the level promises), `obeyed` (what was asked for was given),
    `answered` (with something else), `refused` (the level) or `failed` (the question).
    """

    form: RequestForm
    verdict: str
    figure: str
    hint: str = ""
    ends: bool = False

    @property
    def is_answer(self) -> bool:
        return self.verdict in ("held", "obeyed", "answered")


def _check_levels(
    endpoint: Endpoint, store: Store, timeout_s: float, sleep: Callable[[float], None]
) -> Iterator[Check]:
    """Yield one check per level, the level to begin with, and what was sent."""
    from ingot.agent.model.transport import connect_endpoint

    asked = replace(endpoint, timeout_s=timeout_s, retries=0, max_tokens=REPLY_ROOM)
    ledger = Ledger(run=Limits(calls=MOST_REQUESTS), price=list_price(endpoint.model))
    waits = iter([sleep])  # that a server asks for: one, and not for long
    found: list[_Outcome] = []
    form = first_form(asked, None, None)
    with connect_endpoint(asked) as post:
        for level in FORM_LEVELS:
            text = PLAIN_PROMPT if level == "prompt" else COUNTER_PROMPT
            sender = Sender(
                endpoint=asked,
                messages=[{"role": "user", "content": Safe(text)}],
                schema=METAL_SCHEMA,
                post=post,
                ledger=ledger,
                sleep=sleep,
                notes=[],
            )
            last = _try_level(sender, replace(form, level=level), waits)
            found.append(last)
            form = last.form
            yield _level_check(last, spoilt=not any(one.is_answer for one in found))
            if last.ends:
                break
    yield from _remember_level(endpoint, store, found)
    spent = ledger.run
    count = f"{count_text(spent.calls, 'question')}, {spent.chars_sent:,} characters"
    yield _check("sent", "ok", f"{count}; nothing of your data")


def _level_check(last: _Outcome, *, spoilt: bool) -> Check:
    """Return an outcome as a check; a fault after an answer spoils less than one before it."""
    failed: State = "fail" if last.ends and spoilt else "warn"
    states: dict[str, State] = {"held": "ok", "obeyed": "ok", "answered": "warn"}
    state = states.get(last.verdict, "skipped" if last.verdict == "refused" else failed)
    return _check(last.form.level, state, last.figure, last.hint)


def _try_level(
    sender: Sender, form: RequestForm, waits: Iterator[Callable[[float], None]]
) -> _Outcome:
    """Ask at a level; parameters that the server refuses are dropped."""
    before = sender.ledger.run.seconds
    try:
        while isinstance(said := sender.send(form), Fault):
            short = said.wait_s is not None and said.wait_s <= LONGEST_WAIT_S
            if short and (sleep := next(waits, None)):
                sleep(said.wait_s or 0.0)
                continue
            refused = said.refuses in ("level", "bounds")
            softer = None if refused else softer_form(form, said.refuses)
            if softer is None:
                verdict = "refused" if refused else "failed"
                figure = f"refused: {said.problem}" if refused else said.problem
                return _Outcome(form, verdict, figure, said.hint, said.kind not in _OF_QUESTION)
            form = softer
    except BudgetReached:
        figure = f"not asked: {MOST_REQUESTS} requests are made"
        return _Outcome(form, "failed", figure, ends=True)
    tokens = "number of tokens unknown"
    if said.tokens_in is not None and said.tokens_out is not None:
        tokens = f"{said.tokens_in:,} + {said.tokens_out:,} tokens"
    verdict, words = _judge_reply(form.level, said)
    seconds = sender.ledger.run.seconds - before
    return _Outcome(form, verdict, f"{words}; {seconds:.2f} s, {tokens}")


def _judge_reply(level: str, said: Reply) -> tuple[str, str]:
    """Return what a reply says of the server, as a verdict and in words."""
    if said.refusal:
        return "answered", "accepted; the model refuses"
    if said.cut_off:
        return "answered", f"accepted; {REPLY_ROOM:,} tokens are too few"
    if not said.text.strip():
        return "answered", "accepted; the reply is blank"
    if level == "prompt":
        try:
            only_object(said.text, _fits_schema, cut_off=said.cut_off)
        except UnreadableReply:
            return "answered", "answered, not obeyed"
        return "obeyed", "obeyed"
    if level == "tool" and said.source != "a tool call":
        return "answered", "accepted, no call made"
    try:
        reply = json.loads(said.text)
    except (ValueError, RecursionError):
        reply = None
    if isinstance(reply, dict) and _fits_schema(reply):
        return "held", "enforced"
    if level == "json_object" and isinstance(reply, dict):
        return "held", "enforced, of any shape"
    return "answered", "accepted, not enforced"


def _fits_schema(reply: dict[str, Json]) -> bool:
    return list(reply) == ["metal"] and reply["metal"] in METALS


def _remember_level(endpoint: Endpoint, store: Store, found: Sequence[_Outcome]) -> Iterator[Check]:
    """Remember the level to begin with: the first that is held, else the one that was obeyed."""
    if not any(one.is_answer for one in found):
        if not found[-1].ends:
            yield _check("begins with", "fail", "nothing: no level was answered")
        return
    best = next(
        (one for verdict in ("held", "obeyed") for one in found if one.verdict == verdict), None
    )
    if best is None:
        figure = "what its preset says: no reply was the object that was asked for"
        yield _check("begins with", "warn", figure, "try another model: --model")
        return
    figure = f"{best.form.level}, remembered for {KEPT_S // 86400} days"
    hint = "" if best.verdict == "held" else "the server enforces nothing; ingot validates replies"
    try:
        enforced = best.verdict == "held" and best.form.level != "json_object"
        known = replace(best.form.known, enforced=enforced)
        store.remember_form(endpoint, known)
    except OutputError as error:
        figure, hint = f"{best.form.level}, not remembered: {error.problem}", error.hint
    yield _check("begins with", "warn" if hint else "ok", figure, hint)
