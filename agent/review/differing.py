"""Two records of one place as a reviewer reads them: redacted, cut to where they differ."""

from collections.abc import Mapping, Sequence

from ingot.agent.preview import record_lines
from ingot.agent.redaction import hidden, redact, redacted
from ingot.agent.review.matching import Difference, Kind
from ingot.agent.review.places import written
from ingot.converters.rows import Json
from ingot.converters.unify import Record

MOST_EXAMPLES = 3
_ORDER: tuple[Kind, ...] = ("lost", "changed", "gained")
_READ = 24_000  # characters of a text that are looked at
_MESSAGES = 8  # messages that are shown
_BEFORE = 80  # characters shown of what both texts begin with, where that is long


def examples(
    differences: Sequence[Difference], secrets: Mapping[str, str] | None = None
) -> list[dict[str, Json]]:
    """At most three differences as plain JSON, of every kind that there is at least one.

    Args:
        differences: in the order of the sample.
        secrets: text -> placeholder, what is hidden in the rows for their keys alone.
    """
    first = [next((one for one in differences if one.kind == kind), None) for kind in _ORDER]
    chosen = [one for one in first if one is not None]
    others = [one for one in differences if not any(one is other for other in chosen)]
    chosen += sorted(others, key=lambda one: _ORDER.index(one.kind))[: MOST_EXAMPLES - len(chosen)]
    ordered = sorted(chosen, key=lambda one: _ORDER.index(one.kind))
    return [_example(one, secrets or {}) for one in ordered]


def _example(one: Difference, secrets: Mapping[str, str]) -> dict[str, Json]:
    before, after = hidden(one.old, secrets), hidden(one.new, secrets)
    old, new = _lines(before, after), _lines(after, before)
    return {"kind": one.kind, "place": redact(written(one.place)), "old": old, "new": new}


def _lines(record: Record | None, other: Record | None) -> list[list[str]] | None:
    """A record beside another one; None where there is none."""
    if record is None:
        return None
    skipped = _same_messages(record, other)
    left_out = f"({skipped} message{'s' * (skipped != 1)} as in the other)"
    shown, beside = _begun(record, skipped), _begun(other, skipped) if other else None
    lines = record_lines(_narrowed(shown, beside) if beside else shown)
    return [*([["", left_out]] if skipped else []), *map(list, lines)]


def _same_messages(record: Record, other: Record | None) -> int:
    """How many messages at the beginning are left out, since both records have them."""
    pairs = zip(record.get("messages", []), (other or {}).get("messages", []), strict=False)
    same = next((n for n, (a, b) in enumerate(pairs) if a != b), 0)
    return max(0, same - 1) if same > 2 else 0


def _begun(record: Record, skipped: int) -> Record:
    """The record redacted, as far as it is shown; what is only counted says nothing."""
    begun = {**record}
    for key in ("text", "system", "tools"):
        if isinstance(begun.get(key), str):
            begun[key] = begun[key][:_READ]
    messages = begun.pop("messages", None)
    shown: Record = redacted(begun)
    if messages is not None:
        left = messages[skipped:]
        seen = [redacted({**one, "content": one["content"][:_READ]}) for one in left[:_MESSAGES]]
        shown["messages"] = [*seen, *({**one, "content": ""} for one in left[_MESSAGES:])]
    return shown


def _narrowed(record: Record, other: Record) -> Record:
    """The record with texts that begin where they begin to differ."""
    narrow: Record = {
        key: _from_difference(record[key], other.get(key))
        for key in ("text", "system", "tools")
        if key in record
    }
    if "messages" not in record:
        return {**record, **narrow}
    beside = [*other.get("messages", []), *[None] * len(record["messages"])]
    messages = [
        {**one, "content": _from_difference(one["content"], two["content"] if two else None)}
        for one, two in zip(record["messages"], beside, strict=False)
    ]
    return {**record, **narrow, "messages": messages}


def _from_difference(text: Json, other: Json) -> Json:
    if not isinstance(text, str) or not isinstance(other, str) or text == other:
        return text
    pairs = zip(text, other, strict=False)
    same = next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(text), len(other)))
    start = same - _BEFORE
    return text if start < _BEFORE else f"({start} characters as in the other) ...{text[start:]}"
