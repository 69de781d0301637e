"""What a person and a served run say to each other: plain objects, as clients send them.

A message is `{"type": "human" | "ai", "content": text or blocks, "id": ...}`. It is no object of a
library, so that a checkpoint holds plain JSON; every one has an id, by which clients tell them
apart.
"""

from collections.abc import Sequence

from ingot.converters.rows import Json

Message = dict[str, Json]
_PERSON = ("human", "user")


def added(old: Sequence[Message], new: Json) -> list[Message]:
    """The conversation with what was said last: a message, a person's text, or a list of them."""
    said = new if isinstance(new, list) else [new]
    start = len(old)
    return [*old, *(_message(one, start + place) for place, one in enumerate(said))]


def _message(one: Json, place: int) -> Message:
    message = one if isinstance(one, dict) else {"type": "human", "content": str(one)}
    return {**message, "id": message.get("id") or f"message-{place}"}


def answer(text: str) -> Message:
    """A message of the run."""
    return {"type": "ai", "content": text}


def asked(messages: Sequence[Message]) -> str | None:
    """The words that a person said last; None where they are answered, or nobody said any."""
    last = messages[-1] if messages else {}
    if last.get("type", last.get("role")) not in _PERSON:
        return None
    return _words(last.get("content"))


def _words(content: Json) -> str:
    """The text of a message; what else a client may send, such as pictures, says nothing here."""
    blocks = content if isinstance(content, list) else [content]
    texts = (one.get("text") if isinstance(one, dict) else one for one in blocks)
    return "\n".join(one for one in texts if isinstance(one, str)).strip()
