"""Rows of the sample beside the records that they become, all of them or those that are asked for.

What is shown or compared of a row stands in the redacted sample. A colour is the number of a field
that the mapping takes.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from ingot.agent.chat.conversation import Conversation
from ingot.agent.context import Context
from ingot.agent.judging.trial import Trial, try_out
from ingot.agent.privacy import DIFFERS, NOT_SHOWN
from ingot.agent.proposing.columns import text_of, values_at
from ingot.agent.reporting.mapping_words import cut_text
from ingot.agent.reporting.preview import speaker_text
from ingot.agent.ui.field_uses import FieldUse
from ingot.converters.errors import MappingError
from ingot.converters.json_yaml import leaves
from ingot.converters.mapping.check import sample_batches
from ingot.converters.mapping.rows.executor import RowExecutor
from ingot.converters.mapping.rows.values import row_nodes
from ingot.converters.mapping.walk import mapping_layouts
from ingot.converters.paths import Node, PathSyntaxError, join_path
from ingot.converters.rows import Json, limit_looks
from ingot.converters.sources.sample import Sample

Facts = dict[str, Json]  # a part of an answer
CELL = 300  # characters of a value of a field
RECORD = "record"  # what becomes of a row that gives one
_EXAMPLES = 8  # rows beside their records
_TEXT = 4_000  # characters of one line of a row or record
_LINES, _ELEMENTS = 160, 12  # lines of a row or a record; elements of a list in a row
_SHORT = 4  # characters below which a text is only found as a whole


class RowFilter(NamedTuple):
    """Which rows are asked for: by a value of a field, and by what becomes of them; "" = any."""

    field: str = ""
    value: str = ""
    outcome: str = ""


ANY_ROW = RowFilter()


class _TriedRow(NamedTuple):
    """A row, its first record, and `record` or why it gives none ("" if that is not shown)."""

    row: Json
    record: Json
    outcome: str
    hidden: bool = False


def view_rows(
    conversation: Conversation,
    context: Context,
    uses: Sequence[FieldUse],
    wanted: RowFilter = ANY_ROW,
) -> Facts:
    """Return the first rows asked for, those with a record before others, and their counts."""
    rows = _tried_rows(conversation, context)
    grouped = bool(conversation.mapping.group)
    held = [one for one in rows if _holds_value(one.row, wanted, grouped=grouped)]
    chosen = [one for one in held if wanted.outcome in ("", one.outcome)]
    chosen.sort(key=lambda one: one.record is None)
    counts = Counter(one.outcome for one in held if one.outcome)
    return {
        "rows": {"of": len(rows), "found": len(chosen), "outcomes": [*counts.most_common()]},
        "examples": list(_view_examples(conversation, context, chosen[:_EXAMPLES], uses)),
    }


def _tried_rows(conversation: Conversation, context: Context) -> list[_TriedRow]:
    """The rows of the sample as they may be shown, each with what becomes of the real one."""
    order = conversation.order
    if not conversation.state.get("check"):
        shown_sample = context.data.show_sample(order)
        rows = [_TriedRow(one.value, None, "") for one in shown_sample.rows] if shown_sample else []
        return _mark_hidden(rows, [one.value for one in context.data.sample.rows])
    try:
        trial = try_out(context.readings, order, conversation.mapping, where="the mapping", show=0)
    except MappingError:
        return []
    name = order.source_name or trial.source.name
    real = list(_try_rows(trial, trial.sample, name, order.language))
    sample = trial.reading.show_sample(order)
    if sample is trial.sample:
        return real
    shown = list(_try_rows(trial, sample, name, order.language)) if sample else []
    if [one.outcome for one in shown] == [one.outcome for one in real]:
        return _mark_hidden(shown, [one.row for one in real])
    told: Json = {"text": DIFFERS if sample else NOT_SHOWN, "meta": {}}
    return [_TriedRow(one.row, told, "") for one in shown or [_TriedRow(NOT_SHOWN, told, "")]]


def _mark_hidden(shown: Sequence[_TriedRow], real: Iterable[Json]) -> list[_TriedRow]:
    return [one._replace(hidden=one.row != row) for one, row in zip(shown, real, strict=False)]


def _try_rows(trial: Trial, sample: Sample, name: str, language: str | None) -> Iterator[_TriedRow]:
    executor = RowExecutor(trial.mapping, source_name=name, language=language)
    with limit_looks():
        for batch in sample_batches(sample, trial.mapping):
            for node in row_nodes(batch):
                records, failed = executor.row(node)
                reason = failed[0][1].reason if failed else "no_record"
                made = records[0] if records else None
                yield _TriedRow(node.value, made, RECORD if records else reason)


def _holds_value(row: Json, wanted: RowFilter, *, grouped: bool) -> bool:
    if not wanted.field:
        return True
    inside = wanted.field if wanted.field.startswith("[") else f".{wanted.field}"
    try:
        found = values_at(f"[*]{inside}" if grouped else wanted.field, Node(row))
    except PathSyntaxError:
        return False
    return any(cut_text(text_of(one), CELL) == wanted.value for one in found)


def _view_examples(
    conversation: Conversation,
    context: Context,
    rows: Sequence[_TriedRow],
    uses: Sequence[FieldUse],
) -> Iterator[Facts]:
    """Rows beside their first record."""
    redactor = context.data.redactor
    colours = {one.field: one for one in uses if one.colour is not None}
    layouts = mapping_layouts(conversation.mapping)
    has_each = any(one.each for _, one in layouts)  # then a row may give several records
    for one in rows:
        shown, made = redactor.value(one.row).json, redactor.value(one.record).json
        found = [
            (text, use)
            for use in uses
            if use.colour is not None
            for value in values_at(use.path, Node(shown))
            for text in map(text_of, leaves(value))
        ]
        records = [list(islice(_record_lines(made, found), _LINES))] if made else []
        yield {
            "row": list(islice(_row_lines(shown, (), "", colours, None), _LINES)),
            "records": records,
            "outcome": one.outcome,
            "more": has_each and bool(records),
            "hidden": one.hidden or shown != one.row,
        }


def _row_lines(
    value: Json,
    place: tuple[str, ...],
    label: str,
    colours: Mapping[str, FieldUse],
    around: FieldUse | None,
) -> Iterator[Facts]:
    """A row as lines, one a value; what the mapping takes has its colour."""
    path = join_path(*place) if place else ""
    use = colours.get(path) or colours.get(path.removeprefix("[*].")) or around
    line: Facts = {"depth": max(len(place) - 1, 0), "label": label, "path": path or None}
    if not isinstance(value, list | dict):
        yield {**line, "spans": [_span(cut_text(text_of(value), _TEXT), use)]}
        return
    if place:
        yield {**line, "spans": [_span(f"{len(value):,} {_kind_of(value)}", None)]}
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _row_lines(one, (*place, key), key, colours, use)
        return
    for number, one in enumerate(value[:_ELEMENTS]):
        yield from _row_lines(one, (*place, "[*]"), str(number), colours, use)
    if len(value) > _ELEMENTS:
        more = _span(f"(+{len(value) - _ELEMENTS:,} more)", None)
        yield {"depth": len(place), "label": "", "path": None, "spans": [more]}


def _kind_of(value: Json) -> str:
    return "elements" if isinstance(value, list) else "fields"


def view_record(record: Json) -> list[Facts]:
    """Return a unified record as lines without colours."""
    return list(islice(_record_lines(record, ()), _LINES))


def _record_lines(record: Json, found: Iterable[tuple[str, FieldUse]]) -> Iterator[Facts]:
    """A record as lines; texts that stand in the row have the colour of their field."""
    told = [*found]
    said = [(speaker_text(one), one["role"], one["content"]) for one in record.get("messages", ())]
    for label, role, text in [*_outer_texts(record), *said]:
        values = [one for one in told if role in one[1].lines]
        yield {"depth": 0, "label": label, "path": None, "spans": _split_text(text, values)}
    for key, value in record["meta"].items():
        if value is not None:
            values = [one for one in told if f"meta.{key}" in one[1].lines]
            spans = _split_text(text_of(value), values)
            yield {"depth": 0, "label": f"meta.{key}", "path": None, "spans": spans}


def _outer_texts(record: Json) -> Iterator[tuple[str, str, str]]:
    for key in ("text", "system", "tools"):
        if record.get(key) is not None:
            yield key, key, record[key]


def _split_text(text: str, values: Iterable[tuple[str, FieldUse]]) -> list[Facts]:
    """A text as spans: each value is looked for once, the longest first, in what has no colour."""
    parts: list[tuple[str, FieldUse | None]] = [(text, None)]
    for value, use in sorted(values, key=lambda one: -len(one[0])):
        wanted = value.strip()
        for place, (part, taken) in enumerate(parts):
            if taken or not wanted:
                continue
            whole = len(wanted) < _SHORT and wanted not in (one.strip() for one in part.split("\n"))
            at = -1 if whole else part.find(wanted)
            if at >= 0:
                end = at + len(wanted)
                parts[place : place + 1] = [(part[:at], None), (wanted, use), (part[end:], None)]
                break
    return list(_cut_spans(parts))


def _cut_spans(parts: Iterable[tuple[str, FieldUse | None]]) -> Iterator[Facts]:
    left = _TEXT
    for text, use in parts:
        if text and left > 0:
            yield _span(cut_text(text, left), use)
        left -= len(text)


def _span(text: str, use: FieldUse | None) -> Facts:
    return {
        "text": text,
        "colour": use.colour if use else None,
        "field": use.field if use else None,
    }
