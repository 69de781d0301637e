"""What rows hold that no mapping converts: why that there is nothing to convert is not sure."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from ingot.agent.proposing.columns import parse_json_text
from ingot.agent.proposing.names import NAMED, name_strength
from ingot.converters.rows import Json

MOST_SURE = 0.2  # that nothing is to be converted, where one of these is found
_SHARE = 0.5  # of the rows
_LOOKED_AT = 100  # rows
_FEW_ROWS = 12
# A list or an object as Python writes it, which is no JSON: with apostrophes, or as a tuple.
_PYTHON = re.compile(r"\s*+(?:[\[{(]\s*+)++'(?>.*?'\s*+[:,\])}]).*[\])}]\s*+", re.DOTALL)
_EVENT_PARTS = ("message", "payload", "item", "data", "event")
_EVENT_MARKS = ("timestamp", "ts", "time", "uuid", "id", "sessionId", "session_id")


def unconverted_reason(rows: Sequence[Json]) -> str:
    """Return why rows without a mapping may hold something to convert, "" if nothing says so."""
    some = [row for row in rows[:_LOOKED_AT] if isinstance(row, dict)]
    literals = Counter(key for row in some for key, text in row.items() if _is_python(text))
    keys = [key for key, times in literals.items() if times >= _SHARE * len(some)]
    if keys:
        return f"{keys[0]} holds values as Python writes them, which are not read: write JSON"
    if some and sum(map(_is_event, some)) >= _SHARE * len(some):
        return "the rows look like the log of a session, an event each, which is not converted yet"
    sides = [next(_named(some, side), "") for side in ("question", "answer")]
    if all(sides) and len(rows) <= _FEW_ROWS:  # too few to judge by what they hold
        return f"{sides[0]} and {sides[1]} are named as a question and its answer"
    return ""


def _is_python(value: Json) -> bool:
    return (
        isinstance(value, str)
        and bool(_PYTHON.fullmatch(value[:20_000]))
        and parse_json_text(value) is None
    )


def _is_event(row: dict[str, Json]) -> bool:
    """Whether a row says what kind of event it is, when or which, and holds what happened."""
    is_event = any(isinstance(row.get(part), dict) for part in _EVENT_PARTS)
    return isinstance(row.get("type"), str) and is_event and any(row.get(k) for k in _EVENT_MARKS)


def _named(rows: Sequence[dict[str, Json]], side: str) -> Iterator[str]:
    keys = dict.fromkeys(key for row in rows for key, value in row.items() if value)
    return (key for key in keys if len(key) > 1 and name_strength(key, side) >= NAMED)
