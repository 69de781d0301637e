"""A reply that is streamed: its chunks put together as the one object that servers send else."""

import re
from collections.abc import Callable
from typing import Any

from ingot.agent.model import replies
from ingot.agent.model.budget import tokens_in
from ingot.agent.model.events import Event, Events
from ingot.converters.rows import Json

_DONE = "[DONE]"
_FAILED = ("error", "abort")
_PARTS = ("content", "refusal", "reasoning_content", "reasoning", "arguments")
_HALF = re.compile("[\ud800-\udbff]\\Z")


class Chunks:
    """Takes a stream's bytes as they come and says one part of the reply as it grows.

    Args:
        part: what is said, `content` or `arguments` (of the first tool call).
        say: gets every new text of that part; half a surrogate pair waits for the other half.

    Attributes:
        begun: whether anything came that is part of a reply.
        failed: whether an error came, which is all that counts then.
        finished: whether the reply said why it ended, or that the stream does.
    """

    def __init__(self, part: str, say: Callable[[str], None]) -> None:
        self.begun = self.failed = False
        self.finished = False
        self._part, self._say = part, say
        self._held = ""
        self._events = Events()
        self._texts: dict[str, list[str]] = {name: [] for name in _PARTS}
        self._usage: dict[str, Json] = {}
        self._reason: str | None = None
        self._choices = False
        self._call: tuple[Json, Json] | None = None
        self._error: Json = None
        self._ended = False

    def take(self, piece: bytes) -> bool:
        """Reads on; whether more is wanted."""
        for event in self._events.feed(piece):
            self._take(event)
        return not self._ended

    def end(self) -> None:
        """The stream is over, with or without a word of that."""
        for event in self._events.end():
            self._take(event)
        held, self._held = self._held, ""
        if held:
            self._say(replies.whole(held))

    def document(self) -> dict[str, Json]:
        """What came, as a chat completion or an error that is not streamed."""
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
        """Tokens in (None = not told) and out so far.

        What is not told of those out is estimated, with all that was reasoned.
        """
        said = "\n".join("".join(parts) for parts in self._texts.values() if parts)
        told = replies.count(self._usage, "completion_tokens")
        asked = replies.count(self._usage, "prompt_tokens")
        return asked, told or (tokens_in(said) if said else 0)

    def _take(self, event: Event) -> None:
        """One event; what comes after the end counts as nothing."""
        whole = replies.document(event.data.encode("utf-8", "replace"))
        texts = [event.data] if whole is not None else event.data.split("\n")
        for text in texts:  # Some servers send chunks a line each, without blank lines.
            if self._ended:
                return
            if text.strip().startswith(_DONE):
                self.finished = self._ended = True
            elif (found := whole or replies.document(text.encode("utf-8", "replace"))) is not None:
                self._object(event, found)
            elif event.name == "error" and text.strip():
                self._fail(text)

    def _object(self, event: Event, found: dict[str, Json]) -> None:
        failed = found.get("error")
        if failed or event.name == "error" or found.get("object") == "error":
            self._fail(failed or found)
            return
        self.begun = True
        choices = found.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        self._count(found.get("usage"))
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
        texts = replies.text_of(message.get("content")), replies.arguments_of(message)
        said = "".join(self._texts["content"]), "".join(self._texts["arguments"])
        if texts != said:
            self._message(message)

    def _message(self, delta: dict[str, Any]) -> None:
        for name in _PARTS[:-1]:
            self._add(name, replies.text_of(delta.get(name)))
        refused = replies.refusal_of(delta)
        if refused and not isinstance(delta.get("refusal"), str):
            self._add("refusal", refused)
        self._add("arguments", self._arguments(delta))

    def _arguments(self, delta: dict[str, Any]) -> str:
        """The new arguments of the first call; those of further calls are left out."""
        calls = delta.get("tool_calls")
        if not isinstance(calls, list) or not calls:
            return replies.arguments_of(delta)
        new = ""
        for call in calls:
            if isinstance(call, dict) and self._is_first(call):
                new += replies.arguments_of({"tool_calls": [call]})
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
            text = replies.whole(text[: half.start()] if half else text)
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
            told = (inner.get("code"), inner.get("status"))
            error = inner if any(isinstance(one, int) for one in told) else inner | {"code": 500}
        self._error = error or "an error without words"
        self.failed = self.finished = self._ended = True
