"""A record for people: its beginning, redacted, within a few thousand characters."""

from collections.abc import Callable
from typing import Final

import pyarrow as pa

from ingot.converters.record_kinds import Record
from ingot.converters.rows import Json

Begun = Record
"""A record of which long texts and long conversations are only begun."""

MESSAGES: Final = 12
TEXT_CHARS: Final = 4_000
TURN_CHARS: Final = 1_000
META_CHARS: Final = 200
MORE: Final = "…"
# Secrets are looked for in more than is shown, so that none is shown because it was cut in two.
_READ: Final = 4


def begun(batch: pa.RecordBatch, place: int) -> Begun:
    """The record at a place of a batch; `messages_left_out` counts the messages that are cut off.

    Of each text four times what is shown is kept.
    """
    record: Begun = {}
    for name in batch.schema.names:
        value = batch.column(name)[place]
        if name == "messages" and value.is_valid:
            record["messages_left_out"] = max(len(value) - MESSAGES, 0)
            value = value.values.slice(0, MESSAGES)
            record[name] = [_begun(one, _limit(name)) for one in value.to_pylist()]
        else:
            record[name] = _begun(value.as_py(), _limit(name))
    return record


def _limit(name: str) -> int:
    return {"text": TEXT_CHARS, "meta": META_CHARS}.get(name, TURN_CHARS)


def _begun(value: Json, limit: int) -> Json:
    if isinstance(value, dict):
        return {key: _begun(one, limit) for key, one in value.items()}
    return value[: _READ * limit + 1] if isinstance(value, str) else value


def spoken(record: Begun) -> str:
    """What the record says, to tell its language: the text, or the contents of its messages."""
    if "text" in record:
        return record["text"] or ""
    messages = record["messages"] or []
    return "\n".join((one or {}).get("content") or "" for one in messages)


def shown(record: Begun, redact: Callable[[str], str]) -> Record:
    """The record redacted, its texts cut; `messages_left_out` is there where messages were.

    A text that is cut ends in `…`. `tools` is left out where it is null.
    """
    kept = {
        name: value
        for name, value in record.items()
        if value or name not in ("messages_left_out", "tools")
    }
    return {name: _shown(value, _limit(name), redact) for name, value in kept.items()}


def _shown(value: Json, limit: int, redact: Callable[[str], str]) -> Json:
    if isinstance(value, dict):
        return {key: _shown(one, limit, redact) for key, one in value.items()}
    if isinstance(value, list):
        return [_shown(one, limit, redact) for one in value]
    return _cut(value, limit, redact) if isinstance(value, str) else value


def _cut(text: str, limit: int, redact: Callable[[str], str]) -> str:
    whole = len(text) <= _READ * limit
    clean = redact(text)
    if whole and len(clean) <= limit:
        return clean
    # Of a text that was begun only the end may hold half a secret, however short it became.
    return clean[: limit if whole else min(limit, len(clean) // 2)] + MORE
