"""A chat completion as servers send it, read for what it says and why it ended."""

import json
import re
from dataclasses import dataclass
from typing import Any

from ingot.converters.rows import Json

_CUT = ("length", "max_tokens", "model_length")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_LONE = re.compile("[\ud800-\udfff]")
_MOST_STARTS = 50
_MOST_TOKENS = 10**9


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """What a model said.

    Attributes:
        text: the answer; blank = none.
        cut_off: whether it hit the length limit.
        refusal: the model's words where it, or a filter, refused; empty = it did not.
        source: where the text stood where that is not the content.
        tokens_in: tokens of the prompt, None = not told.
        tokens_out: tokens of the reply, None = not told.
    """

    text: str = ""
    cut_off: bool = False
    refusal: str = ""
    source: str = ""
    tokens_in: int | None = None
    tokens_out: int | None = None


def document(body: bytes) -> dict[str, Json] | None:
    """The body as a JSON object, which may stand alone in a list; None = it is something else."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if isinstance(found, list) and len(found) == 1:
        found = found[0]
    return found if isinstance(found, dict) else None


def said(reply: dict[str, Json]) -> Said | None:
    """What the first choice says; None = the reply holds no choices."""
    choices = reply.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return None
    choice, usage = choices[0], reply.get("usage")
    message = choice.get("message")
    message = message if isinstance(message, dict) else {"content": choice.get("text")}
    finish = choice.get("finish_reason")
    text, source = _answer(message)
    return Said(
        text=whole(text),
        cut_off=finish in _CUT,
        refusal=refusal_of(message, finish),
        source=source,
        tokens_in=count(usage, "prompt_tokens"),
        tokens_out=count(usage, "completion_tokens"),
    )


def whole(text: str) -> str:
    """The text with its halves of surrogate pairs put together; one alone cannot be encoded."""
    return _LONE.sub("\ufffd", _PAIR.sub(_pair, text))


def _pair(found: re.Match[str]) -> str:
    return found[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def _answer(message: dict[str, Any]) -> tuple[str, str]:
    """The text and where it stood; content first, then arguments of a call, then reasoning."""
    content = text_of(message.get("content"))
    arguments = arguments_of(message)
    if arguments.strip() and (not content.strip() or _object(content) is None):
        return arguments, "a tool call"
    if content.strip():
        return content, ""
    for name in ("reasoning_content", "reasoning"):
        found = _object(text_of(message.get(name)))
        if found is not None:
            return found, name
    return "", ""


def text_of(content: Json) -> str:
    """A content as one text; parts that are no text count as nothing."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = (one.get("text") for one in content if isinstance(one, dict))
        return "".join(one for one in parts if isinstance(one, str))
    return ""


def arguments_of(message: dict[str, Any]) -> str:
    """The arguments of the first call in a message or a delta, of the old form too."""
    calls = message.get("tool_calls")
    first = calls[0] if isinstance(calls, list) and calls else {}
    call = first.get("function") if isinstance(first, dict) else None
    call = call if isinstance(call, dict) else message.get("function_call")
    found = call.get("arguments") if isinstance(call, dict) else None
    if isinstance(found, dict):
        return json.dumps(found, ensure_ascii=False)
    return found if isinstance(found, str) else ""


def _object(text: str) -> str | None:
    """The last whole JSON object in a text, None = there is none."""
    decoder, found, at = json.JSONDecoder(), None, text.find("{")
    for _ in range(_MOST_STARTS):
        if at < 0:
            break
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            found = text[at:end] if value else found
        at = text.find("{", end)
    return found


def refusal_of(message: dict[str, Any], finish: Json = None) -> str:
    """The words of a refusal in a message or a delta, empty = there are none."""
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal.strip():
        return refusal
    content = message.get("content")
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and isinstance(part.get("refusal"), str):
            return str(part["refusal"])
    return "a content filter stopped the reply" if finish == "content_filter" else ""


def count(usage: Json, name: str) -> int | None:
    """A number of tokens that can be one, None = not told."""
    found = usage.get(name) if isinstance(usage, dict) else None
    if isinstance(found, int) and not isinstance(found, bool) and 0 < found < _MOST_TOKENS:
        return found
    return None
