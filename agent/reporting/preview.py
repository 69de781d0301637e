"""A mapping as people read it: one line per target, rows of each path, rows beside records.

Everything here is text of unknown origin; the doors that print it take out control characters. What
identifies people and what opens doors is replaced by placeholders, unless the order says `raw`.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ingot.agent.context import Readings
from ingot.agent.judging.trial import shown_report, try_out
from ingot.agent.privacy import Redactor, Safe, SafeValue, redact
from ingot.agent.reporting.mapping_words import cut_text, mapping_lines
from ingot.agent.state import State
from ingot.converters.mapping.check import PathReach
from ingot.converters.rows import Json

EXAMPLES = 3
_TEXT, _PART, _MESSAGES, _ELEMENTS = 600, 160, 8, 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Preview:
    """What a reviewer looks at.

    Attributes:
        lines: (target, where it comes from), in the order of the mapping.
        sampled: "196/200 rows", and the same per path, as (path, pointer, rows).
        masked: whether rows or records are shown otherwise than they are.
    """

    lines: tuple[tuple[Safe, Safe], ...]
    sampled: str
    paths: tuple[tuple[Safe, Safe, Safe], ...]
    examples: tuple[tuple[SafeValue, SafeValue], ...]
    masked: bool = False


def preview(state: State, readings: Readings, *, examples: int = EXAMPLES) -> Preview:
    """Return the preview of the state's proposal, on the data that it is for."""
    proposal, order, check = state["proposal"], state["order"], state["check"]
    mapping = proposal.mapping if proposal else None
    where = f"the {proposal.mapper}" if proposal else "the mapping"
    trial = try_out(readings, order, mapping, where=where, show=examples)
    share = order.seen_share
    report = shown_report(order, trial, show=examples, share=share)
    redactor = trial.reading.redactors[share]
    return Preview(
        lines=tuple(mapping_lines(trial.mapping, redactor)),
        sampled=f"{report.ok_rows}/{report.rows} rows",
        paths=tuple(path_reach(check.paths if check else (), redactor)),
        examples=tuple(
            (redactor.value(row), redactor.value(record)) for row, record in report.examples
        ),
        masked=report.examples != trial.report.examples,
    )


def path_reach(paths: Iterable[PathReach], redactor: Redactor) -> Iterator[tuple[Safe, Safe, Safe]]:
    """Yield (path, pointer, "196/200 rows, 4 null") for every path of a checked mapping."""
    for one in paths:
        rows = one.resolved + one.null + one.missing
        counts = {"null": one.null, "missing": one.missing}
        absent = [f"{count} {name}" for name, count in counts.items() if count]
        found = ", ".join([f"{one.resolved}/{rows} rows", *absent])
        yield redactor.text(one.path), redact(one.pointer), Safe(found)


def row_text(row: SafeValue) -> Safe:
    """Return a row of the data as people read it: JSON with long texts and lists cut."""
    return Safe(json.dumps(_shorten(row.json), ensure_ascii=False, indent=1))


def row_line(row: SafeValue) -> Safe:
    """Return the beginning of a row of the data in one line."""
    return Safe(cut_text(json.dumps(_shorten(row.json), ensure_ascii=False), _PART))


def _shorten(value: Json) -> Json:
    if isinstance(value, str):
        return cut_text(value, _PART)
    if isinstance(value, list):
        more = [f"(+{len(value) - _ELEMENTS} more)"] if len(value) > _ELEMENTS else []
        return [*map(_shorten, value[:_ELEMENTS]), *more]
    if isinstance(value, dict):
        return {key: _shorten(inner) for key, inner in value.items()}
    return value


def record_lines(shown: SafeValue, *, most: int = _TEXT) -> Iterator[tuple[Safe, Safe]]:
    """Yield a unified record as people read it: (role or key, text), line breaks as they are."""
    yield from ((Safe(name), Safe(text)) for name, text in _record_texts(shown, most))


def _record_texts(shown: SafeValue, most: int) -> Iterator[tuple[str, str]]:
    record: dict[str, Json] = shown.json
    if "text" in record:
        yield "text", cut_text(record["text"], most)
    messages = record.get("messages", [])
    for message in messages[:_MESSAGES]:
        yield speaker_text(message), cut_text(message["content"], most)
    if len(messages) > _MESSAGES:
        yield "", f"(+{len(messages) - _MESSAGES} messages)"
    for key in ("system", "tools"):
        if record.get(key) is not None:
            yield key, cut_text(record[key], most)
    yield "meta", ", ".join(f"{k} {v}" for k, v in record["meta"].items() if v is not None)


def speaker_text(message: dict[str, Json]) -> str:
    """Return the role, and whether it is trained on where that is not as usual."""
    usual = message["role"] == "assistant"
    if message["loss_mask"] == usual:
        return str(message["role"])
    return f"{message['role']} ({'trained' if message['loss_mask'] else 'not trained'})"
