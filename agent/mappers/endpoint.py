"""One question to an OpenAI-compatible chat endpoint, and its errors in ingot's own words.

The key comes from the environment when the call is made; it is in no message, no state and no file.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ingot.converters.errors import ModelError
from ingot.converters.rows import Json

if TYPE_CHECKING:
    from openai import APIStatusError, OpenAI, OpenAIError
    from openai.types.chat import ChatCompletion

Message = dict[str, str]

# What a server may refuse, with what is asked for instead; {} = left out.
_SOFTER: dict[str, tuple[dict[str, Json], ...]] = {
    "response_format": ({"response_format": {"type": "json_object"}}, {}),
    "temperature": ({},),
    "seed": ({},),
}
_REFUSED = {400, 404, 422, 501}


@dataclass(frozen=True, kw_only=True, slots=True)
class Endpoint:
    """Where the model is: name, base URL (None = the client's default), limits of a call."""

    model: str
    base_url: str | None = None
    timeout_s: float = 120.0
    retries: int = 2

    @property
    def host(self) -> str:
        """The host for people and reports, without user, password and path."""
        return urlsplit(self.base_url or "https://api.openai.com").hostname or "the endpoint"


@dataclass(frozen=True, kw_only=True, slots=True)
class Completion:
    """What came back: text, whether it hit the length limit, characters sent, tokens where told."""

    text: str
    cut_off: bool
    chars_sent: int
    tokens_in: int
    tokens_out: int
    format: str


def configured(
    model: str | None, base_url: str | None, environment: Mapping[str, str] = os.environ
) -> Endpoint | None:
    """The endpoint that options and environment describe; None where no model could be asked.

    `INGOT_MODEL` and `OPENAI_BASE_URL` stand in for the options; besides, a key (`OPENAI_API_KEY`)
    or a base URL is needed, as local servers want no key.
    """
    name = model or environment.get("INGOT_MODEL")
    url = base_url or environment.get("OPENAI_BASE_URL") or None
    if not name or not (url or environment.get("OPENAI_API_KEY")):
        return None
    return Endpoint(model=name, base_url=url)


def ask(endpoint: Endpoint, messages: Sequence[Message], schema: dict[str, Json]) -> Completion:
    """One reply, constrained to `schema` where the server can do that, else to JSON, else free.

    Raises:
        ModelError: the endpoint cannot be reached, refuses, or returns no reply.
    """
    import openai

    wanted = _wanted(endpoint, messages, schema)
    softer = {name: list(steps) for name, steps in _SOFTER.items()}
    with _client(endpoint) as client:
        while True:
            try:
                reply = client.chat.completions.create(**wanted)
                return _completion(endpoint, reply, wanted)
            except openai.APIStatusError as error:
                name = _refused(error, wanted)
                if name is None:
                    raise _translated(endpoint, error) from error
                del wanted[name]
                wanted |= softer[name].pop(0)
            except openai.OpenAIError as error:
                raise _translated(endpoint, error) from error


def _wanted(endpoint: Endpoint, messages: Sequence[Message], schema: Json) -> dict[str, Any]:
    strict = {"name": "mapping", "strict": True, "schema": schema}
    return {
        "model": endpoint.model,
        "messages": list(messages),
        "temperature": 0,
        "seed": 0,
        "response_format": {"type": "json_schema", "json_schema": strict},
    }


def _client(endpoint: Endpoint) -> "OpenAI":
    """The client; redirects are refused, since rows and a key must not wander to another host."""
    import openai

    http = openai.DefaultHttpxClient(follow_redirects=False, timeout=endpoint.timeout_s)
    return openai.OpenAI(
        api_key=os.environ.get("OPENAI_API_KEY") or "none",
        base_url=endpoint.base_url,
        timeout=endpoint.timeout_s,
        max_retries=endpoint.retries,
        http_client=http,
    )


def _refused(error: "APIStatusError", wanted: dict[str, Any]) -> str | None:
    """The parameter that a server does not take, None where it complains of something else."""
    if error.status_code not in _REFUSED:
        return None
    said = str(error).lower()
    if "response_format" in wanted and any(
        word in said for word in ("response_format", "json_schema", "json_object", "schema")
    ):
        return "response_format"
    return next((name for name in ("temperature", "seed") if name in wanted and name in said), None)


def _completion(endpoint: Endpoint, reply: "ChatCompletion", wanted: dict[str, Any]) -> Completion:
    choices = getattr(reply, "choices", None)
    if not choices:
        raise ModelError(endpoint.host, "the reply holds no choices", _CHECK_URL)
    message = choices[0].message
    if getattr(message, "refusal", None):
        raise ModelError(endpoint.host, f"the model refused: {message.refusal[:200]}")
    usage = reply.usage
    return Completion(
        text=message.content or "",
        cut_off=choices[0].finish_reason == "length",
        chars_sent=sum(len(one["content"]) for one in wanted["messages"]),
        tokens_in=usage.prompt_tokens if usage else 0,
        tokens_out=usage.completion_tokens if usage else 0,
        format=wanted.get("response_format", {}).get("type", "none"),
    )


_CHECK_URL = "is --base-url the root of an OpenAI-compatible API, such as http://localhost:8000/v1?"
_HINTS = {
    401: "set OPENAI_API_KEY to a key that this endpoint accepts",
    403: "this key may not use this endpoint or model",
    404: "check --model and --base-url",
    429: "too many requests or no quota left; try again later",
}


def _translated(endpoint: Endpoint, error: "OpenAIError") -> ModelError:
    import openai

    if isinstance(error, openai.APITimeoutError):
        problem = f"no reply within {endpoint.timeout_s:g} s"
        return ModelError(endpoint.host, problem, "is the model loaded?", retryable=True)
    if isinstance(error, openai.APIConnectionError):
        return ModelError(endpoint.host, "cannot be reached", "check --base-url", retryable=True)
    if isinstance(error, openai.APIStatusError):
        status = error.status_code
        problem = f"answered {status} for model {endpoint.model!r}{_told(error)}"
        return ModelError(endpoint.host, problem, _HINTS.get(status, ""), status >= 429)
    return ModelError(endpoint.host, f"the call failed: {type(error).__name__}{_told(error)}")


def _told(error: "OpenAIError") -> str:
    """What the server said, short and without the key; nothing where it speaks about the key."""
    if getattr(error, "status_code", None) in (401, 403):
        return ""
    body = getattr(error, "body", None)
    said = body.get("message") if isinstance(body, dict) else None
    text = " ".join(str(said or "").split())[:200]
    key = os.environ.get("OPENAI_API_KEY")
    return f": {text.replace(key, '***') if key else text}" if text else ""
