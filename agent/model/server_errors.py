"""What a server's refusal means: the kind of error, what to ask for instead, how long to wait.

Servers say the same thing in many ways, so the words count as much as the status.
"""

import math
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from ingot.agent.model import replies
from ingot.agent.model.endpoint import NO_KEY, Endpoint, endpoint_key, url_host
from ingot.converters.errors import ModelError
from ingot.converters.rows import Json

LONGEST_WAIT_S = 60.0
_LOADING_HINT = "the server is still loading its model: wait, and try again"
MOST_MESSAGE = 200
BASE_URL = "is --base-url the root of an OpenAI-compatible API, as in http://localhost:8000/v1?"

_REFUSING = {400, 404, 422, 501}
_PASSING = {408, 409, 429}
_CALLER = {401, 403}
_MOST_WORDS = 4000
_PARAMETERS = {
    "temperature": "temperature",
    "seed": "seed",
    "max_tokens": "room name",
    "max_completion_tokens": "room name",
    "response_format": "level",
    "tools": "level",
    "tool_choice": "level",
}
_STREAMING = {"stream": "stream", "stream_options": "stream_options"}
_PARAMETER_NAMES = _PARAMETERS.keys() | _STREAMING.keys()
_WORDED_PARAMETERS = {
    "temperature": re.compile(r"\btemperature\b"),
    "seed": re.compile(r"\bseed\b"),
    "stream_options": re.compile(r"\bstream[_ ]options\b|\binclude_usage\b"),
    "stream": re.compile(r"\bstream(ing|ed)?\b"),
}

_LEVEL = re.compile(
    r"response_?\s?format|json[_ ](object|mode|validate)|generate json|schema|structured|grammar"
    r"|guided|\btools?\b|tool_(choice|call)|function|requested parameters"
)
_BOUNDS = re.compile(
    r"max_?(length|items)\b|repetition|too many states"
    r"|(schema|grammar).{0,60}too (large|complex|long)"
    r"|(parse|compil|build|convert|initiali[sz])\w*.{0,60}(grammar|schema)"
)
_GRAMMAR = re.compile(r"grammar|response_format|json_schema|guided")
_CONTEXT = re.compile(
    r"context[_ ](length|size|window)|maximum (context|model len)|too many (input )?tokens"
    r"|(prompt|request) (is )?too (long|large)|tokens.{0,20}must be <="
    r"|max_(completion_)?tokens\W.{0,80}too large|maximum (value|allowed).{0,40}max_tokens"
)
_ROOM = re.compile(r"max_tokens|max_completion_tokens|completion|output tokens|max_new_tokens")
_ROOM_NAME = re.compile(r"max_(completion_|new_)?tokens")
_UNKNOWN = re.compile(
    r"unsupported|unknown|unrecogni[sz]ed|unexpected|extra|not (supp|permit|allow)"
)
_NO_MODEL = re.compile(
    r"model_not_found|(model|deployment)\b.{0,200}?(not exist|not found|not available|no longer)"
    r"|(unknown|invalid|no such) model|no models? (is )?loaded|no endpoints found for"
)
_QUOTA = re.compile(r"insufficient_quota|insufficient balance|exceeded your current quota|billing")
_LOADING = re.compile(r"\bloading\b")
_FILTER = re.compile(r"content_filter|content management policy|content_policy")


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """A refusal.

    Attributes:
        kind: as in `ModelError.KINDS`.
        problem: what happened, for people; the server's words short and without the key.
        wait_s: how long the server wants to be left alone, None = it did not say.
        loading: the server says that it still loads its model.
        refuses: what it does not take: `level`, `bounds` (of the schema), `temperature`, `seed`,
            `stream`, `stream_options`, `room name`, `room size`, `prompt size`; empty = nothing
            that could be changed.
    """

    kind: str
    problem: str
    hint: str = ""
    passing: bool = False
    wait_s: float | None = None
    loading: bool = False
    refuses: str = ""


def fault_error(endpoint: Endpoint, fault: Fault) -> ModelError:
    """Return the fault as an error."""
    return ModelError(endpoint.host, fault.problem, fault.hint, fault.kind)


def refusal_fault(endpoint: Endpoint, words: str) -> Fault:
    """Return the fault of a model that does not want to answer."""
    problem = f"the model refused: {_redacted_line(endpoint, words)}"
    return Fault(kind="refused", problem=problem, hint="try another model, or --mapper rules")


def find_fault(
    endpoint: Endpoint,
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    *,
    streamed: bool = False,
) -> Fault | None:
    """Return the fault in an answer; None = there is none so far: a JSON object that is no error.

    `streamed` is whether a stream was asked for, so that it may be what is refused.
    """
    reply = replies.reply_document(body)
    if 300 <= status < 400:
        return _redirect_fault(status, headers)
    if status < 300 and reply is not None and not reply.get("error"):
        return None
    if status < 300 and reply is None:
        return _not_json_fault(headers, body)
    problem = (
        f"answered {status} for model {endpoint.model!r}{_server_message(endpoint, status, reply)}"
    )
    words = _server_words(endpoint, reply, headers, body)
    variable = endpoint_key(endpoint).variable
    meant = _actual_status(status, reply)
    refuses = _refused_part(meant, words, _named_parameter(reply), streamed)
    if refuses:
        hint = _SMALLER_HINT if refuses in ("prompt size", "room size") else ""
        return Fault(kind="bad_request", problem=problem, hint=hint, refuses=refuses)
    kind, hint = _fault_kind(meant, words, variable)
    passing = kind in ("rate_limited", "server_error", "timeout") and meant != 501
    wait = retry_wait_s(headers) if passing else None
    if wait is not None and wait > LONGEST_WAIT_S:
        return Fault(kind=kind, problem=problem, hint=f"it wants to be asked again in {wait:.0f} s")
    loading = kind == "server_error" and _is_loading(meant, words)
    return Fault(
        kind=kind, problem=problem, hint=hint, passing=passing, wait_s=wait, loading=loading
    )


_SMALLER_HINT = (
    "the prompt does not fit: `--prompt-tokens 2000` sends a shorter one; or give the server a "
    "larger context"
)


def _refused_part(status: int, words: str, named: str, streamed: bool) -> str:
    if status == 413 or (status in (400, 422, 429) and _CONTEXT.search(words)):
        return "room size" if _ROOM.search(words) else "prompt size"
    if (status == 500 or status in _REFUSING) and _BOUNDS.search(words):
        return "bounds"
    if status == 500 and _GRAMMAR.search(words):
        return "level"
    if status not in _REFUSING or _QUOTA.search(words) or _NO_MODEL.search(words):
        return ""
    return _refused_parameter(words, named, streamed) or ("level" if _LEVEL.search(words) else "")


def _refused_parameter(words: str, named: str, streamed: bool) -> str:
    """The parameter that is refused, by its name apart or in words; empty = none is."""
    known = _PARAMETERS | _STREAMING if streamed else _PARAMETERS
    if named in known:
        return known[named]
    if _ROOM_NAME.search(words) and _UNKNOWN.search(words):
        return "room name"
    for name, pattern in _WORDED_PARAMETERS.items():
        if (streamed or name not in _STREAMING) and pattern.search(words):
            return name
    return ""


def _fault_kind(status: int, words: str, variable: str) -> tuple[str, str]:
    """The kind of an error that nothing can be changed about, and what to do."""
    if status == 402 or (status in (400, 403, 429) and _QUOTA.search(words)):
        return "quota", "the account has no quota or balance left"
    if status == 401:
        return "unauthorized", f"set {variable} to a key that this endpoint accepts"
    if status == 403:
        return "unauthorized", "this key may not use this endpoint or model"
    if status in (400, 404, 422) and _NO_MODEL.search(words):
        return "no_such_model", "check --model; the server lists its models at /models"
    if status == 400 and _FILTER.search(words):
        return "refused", "a content filter of the server stopped the question"
    if status in (404, 405):
        return "not_openai", f"{BASE_URL} check --model too"
    if status == 408:
        return "timeout", ""
    if status in _PASSING:
        return "rate_limited", "too many requests; try again later"
    if _is_loading(status, words):
        return "server_error", _LOADING_HINT
    return ("server_error", "") if status >= 500 else ("bad_request", "")


def _is_loading(status: int, words: str) -> bool:
    """Whether a server says that it still loads its model."""
    return status == 503 and bool(_LOADING.search(words))


def retry_wait_s(headers: Mapping[str, str]) -> float | None:
    """Return the wait that the headers ask for, in seconds.

    None = they ask for none that can be read.
    """
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) * unit
        except KeyError:
            continue
        except ValueError:
            seconds = _seconds_until(headers[name])
        if math.isfinite(seconds):
            return max(0.0, seconds)
    return None


def _seconds_until(date: str) -> float:
    try:
        return parsedate_to_datetime(date).timestamp() - time.time()
    except (ValueError, OverflowError):
        return math.nan


def _actual_status(status: int, reply: Json) -> int:
    """The status that is meant: servers put errors into replies of status 200."""
    if status >= 300:
        return status
    for name in ("code", "status"):
        code = replies.find_inside(reply, "error", name)
        if isinstance(code, int) and 400 <= code < 600:
            return code
    return 400


def _redirect_fault(status: int, headers: Mapping[str, str]) -> Fault:
    to = headers.get("location", "")
    host = url_host(to) if "//" in to else "another path of the same host"
    problem = f"answered {status}, a redirect to {_clean_line(host)}, which is not followed"
    return Fault(kind="redirect", problem=problem, hint="set --base-url to the final address")


def _not_json_fault(headers: Mapping[str, str], body: bytes) -> Fault:
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    html = kind == "text/html" or body.lstrip()[:1] == b"<"
    what = "a web page" if html else "no JSON object" if body.strip() else "nothing"
    return Fault(kind="not_openai", problem=f"answered with {what}", hint=BASE_URL)


def _server_words(endpoint: Endpoint, reply: Json, headers: Mapping[str, str], body: bytes) -> str:
    """What the server says, in small letters and without the model's name; pages count as none."""
    if reply is None and "json" not in headers.get("content-type", ""):
        plain = "text/plain" in headers.get("content-type", "") and len(body) < _MOST_WORDS
        body = body if plain else b""
    text = body[:_MOST_WORDS].decode("utf-8", "replace").lower()
    name = re.compile(rf"(?<![\w-]){re.escape(endpoint.model.lower())}(?![\w-])")
    return " ".join(name.sub(" ", text).split())


def _server_message(endpoint: Endpoint, status: int, reply: Json) -> str:
    """What the server said, short and without the key; nothing if it speaks about the key."""
    if status in _CALLER or not isinstance(reply, dict):
        return ""
    text = _redacted_line(endpoint, _error_message(reply))
    return f": {text}" if text else ""


def _redacted_line(endpoint: Endpoint, text: str) -> str:
    """One line without the key that cannot steer a terminal; the key goes before the cut."""
    secrets = {endpoint_key(endpoint).value, os.environ.get("OPENAI_API_KEY", "")}
    for secret in secrets - {"", NO_KEY}:
        text = text.replace(secret, "***")
    return _clean_line(text)[:MOST_MESSAGE]


def _error_message(reply: dict[str, Json]) -> str:
    for place in (reply.get("error"), reply):
        for name in ("message", "detail", "error", "msg"):
            if isinstance(detail := replies.find_inside(place, name), str):
                return detail
    return ""


def _named_parameter(reply: Json) -> str:
    """The parameter that the error is about where the server says so: `param`, or a `loc`."""
    param = replies.find_inside(reply, "error", "param")
    place = replies.find_inside(reply, "detail", 0, "loc")
    if isinstance(place, list):
        return next(
            (
                parameter
                for parameter in place
                if isinstance(parameter, str) and parameter in _PARAMETER_NAMES
            ),
            "",
        )
    return param.partition(".")[0] if isinstance(param, str) else ""


def _clean_line(text: str) -> str:
    """One line that cannot steer a terminal."""
    return "".join(sign if sign.isprintable() else " " for sign in " ".join(text.split()))
