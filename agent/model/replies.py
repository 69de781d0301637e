"""Read chat completions: what they say, why they ended, and streamed ones put together."""

import codecs
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import IncrementalNewlineDecoder
from typing import Any

from ingot.agent.model.budget import estimate_tokens
from ingot.converters.rows import Json

_CUT = ("length", "max_tokens", "model_length")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_LONE = re.compile("[\ud800-\udfff]")
_MOST_STARTS = 50
_CALL_KEYS = {"name", "arguments", "parameters", "id", "type"}
_MOST_TOKENS = 10**9


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """What a model said.

    `refusal` holds the words of a model or filter that refused, `source` says where the text stood
    if that is not the content; numbers of tokens are None if they are not told.
    """

    text: str = ""
    cut_off: bool = False
    refusal: str = ""
    source: str = ""
    tokens_in: int | None = None
    tokens_out: int | None = None


def reply_document(body: bytes) -> dict[str, Json] | None:
    """Return the body as a JSON object, which may stand alone in a list.

    None = it is something else.
    """
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if isinstance(document, list) and len(document) == 1:
        document = document[0]
    return document if isinstance(document, dict) else None


def find_inside(value: Json, *steps: str | int) -> Json:
    """Return what stands at the end of these keys and places, None = one of them is not there."""
    for step in steps:
        if isinstance(value, list) and isinstance(step, int):
            value = next(iter(value[step : step + 1]), None)
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return value


def read_choice(reply: dict[str, Json]) -> Reply | None:
    """Return what the first choice says; None = the reply holds no choices."""
    choice, usage = find_inside(reply, "choices", 0), reply.get("usage")
    if not isinstance(choice, dict):
        return None
    message = choice.get("message")
    message = message if isinstance(message, dict) else {"content": choice.get("text")}
    finish = choice.get("finish_reason")
    text, source = _find_answer(message)
    return Reply(
        text=join_surrogates(text),
        cut_off=finish in _CUT,
        refusal=refusal_text(message, finish),
        source=source,
        tokens_in=token_count(usage, "prompt_tokens"),
        tokens_out=token_count(usage, "completion_tokens"),
    )


def join_surrogates(text: str) -> str:
    """Return the text with its halves of surrogate pairs put together.

    One alone cannot be encoded.
    """
    joined = _PAIR.sub(
        lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), text
    )
    return _LONE.sub("\ufffd", joined)


def _find_answer(message: dict[str, Any]) -> tuple[str, str]:
    """The text and where it stood; content first, then arguments of a call, then reasoning."""
    content = content_text(message.get("content"))
    if called := _written_call(content):
        return called, "a call in the content"
    arguments = call_arguments(message)
    if arguments.strip() and (not content.strip() or _last_object(content) is None):
        return arguments, "a tool call"
    if content.strip():
        return content, ""
    for name in ("reasoning_content", "reasoning"):
        found = _last_object(content_text(message.get(name)))
        if found is not None:
            return found, name
    return "", ""


def content_text(content: Json) -> str:
    """Return a content as one text; parts that are no text count as nothing."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict))
        return "".join(part for part in parts if isinstance(part, str))
    return ""


def call_arguments(message: dict[str, Any]) -> str:
    """Return the arguments of the first call in a message or a delta, of the old form too."""
    call = find_inside(message, "tool_calls", 0, "function")
    call = call if isinstance(call, dict) else message.get("function_call")
    arguments = find_inside(call, "arguments")
    if isinstance(arguments, dict):
        return json.dumps(arguments, ensure_ascii=False)
    return arguments if isinstance(arguments, str) else ""


def _written_call(content: str) -> str:
    """The arguments of the only call that a model wrote as text, empty = it wrote none.

    Servers without a parser for a model's calls leave them in the content.
    """
    spans = list(outermost_objects(content, json.JSONDecoder(), _MOST_STARTS))
    call = spans[0][0] if len(spans) == 1 else {}
    call = call.get("function", call) if isinstance(call.get("function"), dict) else call
    arguments = call.get("arguments", call.get("parameters"))
    if not isinstance(call.get("name"), str) or not {*call} <= _CALL_KEYS:
        return ""
    return call_arguments({"function_call": {"arguments": arguments}})


def outermost_objects(
    text: str, decoder: json.JSONDecoder, most: int
) -> Iterator[tuple[dict[str, Json], str]]:
    """Yield every outermost JSON object, with its text.

    In a text full of brackets only the first ones are tried.
    """
    place = text.find("{")
    for _ in range(most):
        if place < 0:
            return
        try:
            value, end = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            end = place + 1
        else:
            yield value, text[place:end]
        place = text.find("{", end)


def _last_object(text: str) -> str | None:
    spans = outermost_objects(text, json.JSONDecoder(), _MOST_STARTS)
    return next((span for value, span in reversed(list(spans)) if value), None)


def refusal_text(message: dict[str, Any], finish: Json = None) -> str:
    """Return the words of a refusal in a message or a delta, empty = there are none."""
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal.strip():
        return refusal
    content = message.get("content")
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and isinstance(part.get("refusal"), str):
            return str(part["refusal"])
    return "a content filter stopped the reply" if finish == "content_filter" else ""


def token_count(usage: Json, name: str) -> int | None:
    """Return a number of tokens that can be one, None = not told."""
    number = find_inside(usage, name)
    if isinstance(number, int) and not isinstance(number, bool) and 0 < number < _MOST_TOKENS:
        return number
    return None


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerEvent:
    """One event: its name (empty = it has none) and its data, the lines joined by line feeds."""

    name: str
    data: str


class EventParser:
    """Takes the bytes of a stream as they come, however they are cut."""

    def __init__(self) -> None:
        text = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._decoder = IncrementalNewlineDecoder(text, translate=True)
        self._line: list[str] = []
        self._name = ""
        self._data: list[str] = []

    def feed(self, piece: bytes, *, final: bool = False) -> Iterator[ServerEvent]:
        """Yield the events that end in this piece; empty events are none."""
        first, *lines = self._decoder.decode(piece, final).split("\n")
        self._line.append(first)
        for line in lines:
            yield from self._end_line("".join(self._line))
            self._line = [line]

    def end(self) -> Iterator[ServerEvent]:
        """Yield the event that the end of the stream leaves without its blank line."""
        yield from self.feed(b"", final=True)
        yield from self._end_line("".join(self._line))
        yield from self._end_line("")

    def _end_line(self, line: str) -> Iterator[ServerEvent]:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if self._data:
                yield ServerEvent(name=self._name, data="\n".join(self._data))
            self._name, self._data = "", []
        elif name == "event":
            self._name = value
        elif name in ("data", "error"):
            self._name = name if name == "error" else self._name
            self._data.append(value)


_DONE = "[DONE]"
_FAILED = ("error", "abort")
_PARTS = ("content", "refusal", "reasoning_content", "reasoning", "arguments")
_HALF = re.compile("[\ud800-\udbff]\\Z")


class ChunkReader:
    """Takes a stream's bytes as they come and says one part of the reply as it grows.

    Attributes:
        finished: whether the reply said why it ended, or that the stream does.
    """

    def __init__(self, part: str, say: Callable[[str], None]) -> None:
        self.begun = self.failed = False
        self.finished = False
        self._part, self._say = part, say
        self._held = ""
        self._events = EventParser()
        self._texts: dict[str, list[str]] = {name: [] for name in _PARTS}
        self._usage: dict[str, Json] = {}
        self._reason: str | None = None
        self._choices = False
        self._call: tuple[Json, Json] | None = None
        self._error: Json = None
        self._ended = False

    def take(self, piece: bytes) -> bool:
        """Read a piece of the stream and return whether more is needed."""
        for event in self._events.feed(piece):
            self._take(event)
        return not self._ended

    def end(self) -> None:
        """Finish the reply at the end of the stream, whether or not an end was announced."""
        for event in self._events.end():
            self._take(event)
        rest, self._held = self._held, ""
        if rest:
            self._say(join_surrogates(rest))

    def document(self) -> dict[str, Json]:
        """Return what came, as a chat completion or an error that is not streamed."""
        if self.failed:
            return {"error": self._error}
        if not self._choices:
            return {"usage": self._usage}
        text = {name: "".join(parts) for name, parts in self._texts.items()}
        call = {"function": {"arguments": text.pop("arguments")}}
        message: dict[str, Json] = {**text, "tool_calls": [call]}
        choice = {"message": message, "finish_reason": self._reason}
        return {"choices": [choice], "usage": self._usage}

    def tokens(self) -> tuple[int | None, int]:
        """Return the tokens in (None = not stated) and out so far (estimated if not stated)."""
        content = "\n".join("".join(parts) for parts in self._texts.values() if parts)
        stated = token_count(self._usage, "completion_tokens")
        asked = token_count(self._usage, "prompt_tokens")
        return asked, stated or (estimate_tokens(content) if content else 0)

    def _take(self, event: ServerEvent) -> None:
        """One event; what comes after the end counts as nothing."""
        whole = reply_document(event.data.encode("utf-8", "replace"))
        texts = [event.data] if whole is not None else event.data.split("\n")
        for text in texts:  # Some servers send chunks a line each, without blank lines.
            if self._ended:
                return
            if text.strip().startswith(_DONE):
                self.finished = self._ended = True
            elif (document := whole or reply_document(text.encode("utf-8", "replace"))) is not None:
                self._object(event, document)
            elif event.name == "error" and text.strip():
                self._fail(text)

    def _object(self, event: ServerEvent, document: dict[str, Json]) -> None:
        failed = document.get("error")
        if failed or event.name == "error" or document.get("object") == "error":
            self._fail(failed or document)
            return
        self.begun = True
        choice = find_inside(document, "choices", 0)
        self._count(document.get("usage"))
        if isinstance(choice, dict) and choice.get("index") in (0, None):
            self._choices = True
            self._count(choice.get("usage"))
            self._choice(choice)

    def _choice(self, choice: dict[str, Any]) -> None:
        delta, message = choice.get("delta"), choice.get("message")
        if isinstance(delta, dict) and delta:
            self._message(delta)
        elif isinstance(message, dict):
            self._whole_message(message)
        elif "text" in choice:
            self._message({"content": choice["text"]})
        reason = choice.get("finish_reason")
        if reason in _FAILED:
            self._fail("the reply ended with an error")
        elif isinstance(reason, str) and reason:
            self._reason, self.finished = reason, True

    def _whole_message(self, message: dict[str, Any]) -> None:
        """A message in the place of a delta, unless it repeats at the end what the deltas said."""
        texts = content_text(message.get("content")), call_arguments(message)
        content = "".join(self._texts["content"]), "".join(self._texts["arguments"])
        if texts != content:
            self._message(message)

    def _message(self, delta: dict[str, Any]) -> None:
        for name in _PARTS[:-1]:
            self._add(name, content_text(delta.get(name)))
        refused = refusal_text(delta)
        if refused and not isinstance(delta.get("refusal"), str):
            self._add("refusal", refused)
        self._add("arguments", self._arguments(delta))

    def _arguments(self, delta: dict[str, Any]) -> str:
        """The new arguments of the first call; those of further calls are left out."""
        calls = delta.get("tool_calls")
        if not isinstance(calls, list) or not calls:
            return call_arguments(delta)
        new = ""
        for call in calls:
            if isinstance(call, dict) and self._is_first(call):
                new += call_arguments({"tool_calls": [call]})
        return new

    def _is_first(self, call: dict[str, Any]) -> bool:
        index, name = call.get("index"), call.get("id") or None
        if self._call is None:
            self._call = index, name
        first, known = self._call
        if isinstance(index, int) and isinstance(first, int):
            return index == first
        return name is None or known is None or name == known

    def _add(self, name: str, text: str) -> None:
        if not text:
            return
        self._texts[name].append(text)
        if name == self._part:
            text = self._held + text
            half = _HALF.search(text)
            self._held = half[0] if half else ""
            text = join_surrogates(text[: half.start()] if half else text)
            if text:
                self._say(text)

    def _count(self, usage: Json) -> None:
        """Usage so far: the last word of a server counts, null and empty ones are none."""
        if isinstance(usage, dict):
            self._usage |= usage

    def _fail(self, error: Json) -> None:
        """An error in the stream; amid a reply one without a code is a failure of the server."""
        if self.begun:
            inner = dict(error) if isinstance(error, dict) else {"message": str(error)}
            statuses = (inner.get("code"), inner.get("status"))
            error = (
                inner
                if any(isinstance(status, int) for status in statuses)
                else inner | {"code": 500}
            )
        self._error = error or "an error without words"
        self.failed = self.finished = self._ended = True
