"""Checks of a model's endpoint: address, key, whether it answers, whether it has the model.

What levels of the ladder it takes is found out in `levels`. Nothing of the user's data is sent.
"""

import difflib
import ipaddress
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ingot.agent.doctor import levels
from ingot.agent.doctor.checks import ENDPOINT, Check
from ingot.agent.model import faults, replies
from ingot.agent.model.endpoint import NO_KEY, Endpoint, key, known
from ingot.agent.model.store import Store
from ingot.converters.errors import ModelError

if TYPE_CHECKING:
    from ingot.agent.model.transport import Answer

_STOPS = ("unreachable", "timeout", "unauthorized", "redirect")
_MOST_NAME = 60
_CLEAR = "the key and what is shown of rows travel in the clear: use https"
_check = partial(Check, group=ENDPOINT)


def absent(model: str | None, base_url: str | None) -> Check:
    """The only check where no model could be asked, given what is named of one."""
    check = partial(_check, name="model")
    if model:
        hint = "set OPENAI_API_KEY, --base-url or --preset"
        return check(state="warn", figure=f"{model}: named, but not where it is", hint=hint)
    if base_url:
        hint = "set --model or INGOT_MODEL"
        return check(state="warn", figure=f"none named for {_shown(base_url)}", hint=hint)
    return check(state="skipped", figure="none configured: the rules serve offline")


def checks(
    endpoint: Endpoint,
    store: Store,
    *,
    timeout_s: float = levels.TIMEOUT_S,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Check]:
    """What the endpoint is like; the level to begin at is remembered in the store.

    Args:
        endpoint: who is asked.
        store: what is known of endpoints.
        timeout_s: the most seconds that one request may take.
        sleep: waits the given seconds where the server asks for a short wait.
    """
    for one in (_address, _key):
        found = one(endpoint)
        yield found
        if found.state == "fail":
            return
    yield from _preset(endpoint)
    reachable, listed = _asked(endpoint, timeout_s)
    yield reachable
    if reachable.state != "fail":
        yield _model(endpoint, listed)
        yield from levels.checks(endpoint, store, timeout_s=timeout_s, sleep=sleep)


def _address(endpoint: Endpoint) -> Check:
    from ingot.agent.model.transport import check_url

    check = partial(_check, name="address", figure=_shown(endpoint.url))
    try:
        check_url(endpoint)
    except ModelError as error:
        return check(state="fail", figure=error.problem, hint=error.hint)
    parts = urlsplit(endpoint.url)
    if parts.path.rstrip("/").endswith(("/completions", "/chat", "/models")):
        return check(state="warn", hint="--base-url is the root: what stands before /chat")
    if parts.scheme == "http" and not _local(endpoint.host):
        return check(state="warn", hint=_CLEAR)
    return check(state="ok")


def _key(endpoint: Endpoint) -> Check:
    check = partial(_check, name="key")
    try:
        found = key(endpoint)
    except ModelError as error:
        return check(state="fail", figure=error.problem, hint=error.hint)
    if found.value != NO_KEY:
        return check(state="ok", figure=f"{found.variable} is set, and sent")
    if _local(endpoint.host):
        return check(state="ok", figure="none, as servers of one's own want")
    return check(state="warn", figure="none", hint=f"set {found.variable}")


def _preset(endpoint: Endpoint) -> Iterator[Check]:
    """What is known of the kind of server; nothing where it is of none that is known."""
    preset = known(endpoint)
    if preset is None:
        return
    figure = f"{preset.name}: begins at {preset.level}, limits a reply by {preset.room}"
    yield _check(name="preset", state="ok", figure=figure, notes=preset.traps)


def _asked(endpoint: Endpoint, timeout_s: float) -> tuple[Check, "Answer | None"]:
    """Whether the endpoint answers, and its list of models; None = it tells none."""
    from ingot.agent.model.transport import NoAnswerError, models

    check = partial(_check, name="reachable")
    try:
        answer = models(endpoint, timeout_s)
    except NoAnswerError as error:
        if error.kind in _STOPS:
            return check(state="fail", figure=error.problem, hint=error.hint), None
        return check(state="ok", figure="answers, though not with a list of models"), None
    fault = faults.found(endpoint, answer.status, answer.headers, answer.body)
    if fault is not None and fault.kind in _STOPS:
        return check(state="fail", figure=fault.problem, hint=fault.hint), None
    figure = f"answered {answer.status} to GET /models"
    return check(state="ok", figure=figure), answer if fault is None else None


def _model(endpoint: Endpoint, listed: "Answer | None") -> Check:
    check = partial(_check, name="model")
    names = _names(listed)
    if not names:
        return check(state="skipped", figure=f"{endpoint.model}: the server lists no models")
    if endpoint.model in names:
        return check(state="ok", figure=f"{endpoint.model}: one of {len(names):,} that it lists")
    figure = f"{endpoint.model}: not among the {len(names):,} that it lists"
    return check(state="warn", figure=figure, hint=f"nearest: {_nearest(endpoint.model, names)}")


def _names(listed: "Answer | None") -> list[str]:
    """The names in a list of models, of a server that may say anything."""
    document = replies.document(listed.body) if listed else None
    entries = (document or {}).get("data")
    entries = entries if isinstance(entries, list) else []
    ids = [one.get("id") for one in entries if isinstance(one, dict)]
    return [one for one in ids if isinstance(one, str)]


def _nearest(model: str, names: list[str]) -> str:
    found = difflib.get_close_matches(model, names, n=3, cutoff=0.3) or sorted(names)[:3]
    return ", ".join(" ".join(one.split())[:_MOST_NAME] for one in found)


def _local(host: str) -> bool:
    """Whether a host is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _shown(url: str) -> str:
    """A URL without what may be secret in it."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "the base URL"
    where = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="")
    return where.geturl()
