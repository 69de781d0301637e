"""Rows and a mapping to unified records and rejects: the row executor, for rows of any shape.

Order of evaluation: record-level `each`, then per element the alternatives; in each `where`, text
or messages, the record checks, `system`, `tools` and `meta`. docs/mapping.md is the reference.
"""

import json
import math
import re
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from ingot.converters.json_yaml import found_text
from ingot.converters.mapping.language import META_KEYS, Layout, Mapping, Value
from ingot.converters.mapping.rows.conditions import compile_condition
from ingot.converters.mapping.rows.messages import compile_messages
from ingot.converters.mapping.rows.values import (
    PathStats,
    compile_single,
    compile_text,
    each_nodes,
    is_blank,
    json_text,
    row_nodes,
)
from ingot.converters.paths import Node
from ingot.converters.rows import BadRow, Batch, Json, Reject, RowError

_NUMBER = re.compile(r"[+-]?(?:0|[1-9][0-9]{0,999})(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?")

Record = dict[str, Any]
Build = Callable[[Node], Record]
PART_CHARS = 32 << 20  # of the records of one row that are held; more are given in parts
RowOutcome = tuple[list[Record], list[tuple[int | None, RowError]]]

# An alternative that fails for one of these gives way to the next; any other rejects the record.
SOFT_REASONS = ("filtered", "empty_text", "no_prompt", "no_assistant")
REASONS = (
    "bad_row",
    "bad_json",
    "not_a_list",
    "not_an_object",
    "not_text",
    "unmapped_value",
    "bad_pick",
    "unmarked_text",
    "not_a_number",
    "too_deep",
    "ambiguous_lookup",
    *SOFT_REASONS,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What became of a batch: rows read = converted + rejected + filtered."""

    rejects: list[Reject] = field(default_factory=list)  # `filtered` records included
    converted: int = 0
    rejected: int = 0
    filtered: int = 0
    ragged: int = 0  # records with a one-sided turn
    meta_failures: Counter[str] = field(default_factory=Counter)  # by `key: reason`


@dataclass(frozen=True, kw_only=True, slots=True)
class UnifiedBatch(Outcome):
    """What became of a batch, with the records as objects and the row of each."""

    records: list[Record] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)

    @property
    def written(self) -> int:
        """Return how many records there are."""
        return len(self.records)


class RowExecutor:
    """Executes one mapping on batches of rows; `stats` counts the looks at each path."""

    def __init__(self, mapping: Mapping, *, source_name: str, language: str | None = None) -> None:
        self.mapping = mapping
        self.stats = PathStats()
        self._tally = _Tally()
        self.defaults = {"source": source_name, "language": language}
        self._alternatives = [
            (layout, _compile_layout(layout, self.defaults, self.stats, self._tally))
            for layout in mapping.alternatives()
        ]
        self._expand_within = any(variant.each for variant in mapping.any_of)

    def batch(self, batch: Batch) -> UnifiedBatch:
        """Convert a batch. Nothing is raised for bad rows: they are rejects of the result."""
        return _join_parts(list(self.parts(batch)))

    def look(self, batch: Batch) -> UnifiedBatch:
        """Convert rows for a look at them; of a row with many records the middle is left out."""
        parts = self.parts(batch)
        first = next(parts)
        return _join_parts([first, *deque(parts, maxlen=1)])

    def parts(self, batch: Batch) -> Iterator[UnifiedBatch]:
        """Convert a batch in parts of `PART_CHARS`; all that is counted comes with the last."""
        records: list[Record] = []
        of_rows: list[int] = []
        rejects: list[Reject] = []
        rows: Counter[str] = Counter()
        weights = batch.weights
        self._tally.clear()
        for place, (number, node) in enumerate(zip(batch.rows, row_nodes(batch), strict=True)):
            weight = weights[place] if weights is not None else 1
            converted, failed = False, []
            for made, wrong in self._row_parts(node):
                if converted:
                    yield UnifiedBatch(records=records, rows=of_rows)
                    records, of_rows = [], []
                records += made
                of_rows += [number] * len(made)
                failed += wrong
                converted = converted or bool(made)
            if converted:
                rows["converted"] += weight
            else:
                filtered = all(error.reason == "filtered" for _, error in failed)
                rows["filtered" if filtered else "rejected"] += weight
            if failed:
                rejects += _row_rejects(batch.file, number, failed, 0 if converted else weight)
        for bad in batch.bad:
            rejects.append(_bad_row_reject(batch.file, bad))
        yield UnifiedBatch(
            records=records,
            rows=of_rows,
            rejects=rejects,
            converted=rows["converted"],
            rejected=rows["rejected"] + len(batch.bad),
            filtered=rows["filtered"],
            ragged=self._tally.ragged,
            meta_failures=self._tally.meta,
        )

    def row(self, node: Node) -> RowOutcome:
        """Return the records of one row, and per element (None = the row) why it gave none.

        Of records with more than `PART_CHARS` only the first are given.
        """
        parts = self._row_parts(node)
        records, failed = next(parts)
        for _, wrong in parts:
            failed += wrong
        return records, failed

    def _row_parts(self, node: Node) -> Iterator[RowOutcome]:
        layout = self._alternatives[0][0]
        if self._expand_within:
            return self._parts_of_variants(node)
        return _expand_layout(layout, self._record, node)

    def _record(self, node: Node) -> Record:
        if len(self._alternatives) == 1:
            return self._alternatives[0][1](node)
        soft: list[RowError] = []
        for _, build in self._alternatives:
            try:
                return build(node)
            except RowError as error:
                if error.reason not in SOFT_REASONS:
                    raise
                soft.append(error)
        raise _first_fault(soft)

    def _parts_of_variants(self, node: Node) -> Iterator[RowOutcome]:
        """Alternatives with an `each` of their own are tried for the whole row."""
        soft: list[RowError] = []
        for layout, build in self._alternatives:
            parts, waiting = _expand_layout(layout, build, node), []
            for made, failed in parts:
                waiting.append((made, failed))
                if made or any(error.reason not in SOFT_REASONS for _, error in failed):
                    yield from waiting
                    yield from parts
                    return
            soft += [error for _, failed in waiting for _, error in failed]
        yield [], [(None, _first_fault(soft))]


def _join_parts(parts: list[UnifiedBatch]) -> UnifiedBatch:
    records = [record for part in parts for record in part.records]
    return replace(parts[-1], records=records, rows=[row for part in parts for row in part.rows])


class _Tally:
    """Counts that are made deep inside and read per batch."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.ragged = 0
        self.meta: Counter[str] = Counter()


def _expand_layout(layout: Layout, build: Build, node: Node) -> Iterator[RowOutcome]:
    """What becomes of the elements of a layout, or of the row itself where it has no `each`."""
    records: list[Record] = []
    failed: list[tuple[int | None, RowError]] = []
    elements: list[tuple[int | None, Node]] = [(None, node)]
    try:
        if layout.each:
            elements = list(enumerate(each_nodes(layout.each, node)))
    except RowError as error:
        yield [], [(None, error)]
        return
    if not elements:
        reason = "no_prompt" if layout.messages else "empty_text"
        yield [], [(None, RowError(reason, layout.each[0].text, "no element"))]
        return
    seen = 0
    for number, element in elements:
        try:
            record = build(element)
        except RowError as error:
            failed.append((number, error))
            continue
        records.append(record)
        seen += _record_chars(record) if len(elements) > 1 else 0
        if seen > PART_CHARS:
            yield records, failed
            records, failed, seen = [], [], 0
    yield records, failed


def _record_chars(record: Record) -> int:
    if "text" in record:
        return len(record["text"])
    return sum([len(turn["content"]) for turn in record["messages"]])


def _first_fault(errors: list[RowError]) -> RowError:
    """Of the alternatives' reasons the first that is a fault, else `filtered`."""
    return next((e for e in errors if e.reason != "filtered"), errors[0])


def _row_rejects(
    file: str, row: int, failed: list[tuple[int | None, RowError]], weight: int
) -> Iterator[Reject]:
    """One reject per failed element; the first fault carries the rows that gave nothing else."""
    first = next((n for n, (_, e) in enumerate(failed) if e.reason != "filtered"), 0)
    for number, (element, error) in enumerate(failed):
        yield Reject(
            file=file,
            row=row,
            element=element,
            reason=error.reason,
            path=error.path,
            found=error.found,
            rows=weight if number == first else 0,
        )


def _bad_row_reject(file: str, bad: BadRow) -> Reject:
    return Reject(
        file=file,
        row=bad.row,
        element=None,
        reason=bad.reason,
        path=bad.path,
        found=f"{bad.detail}: {found_text(bad.found)}",
    )


def _compile_layout(
    layout: Layout, defaults: dict[str, str | None], stats: PathStats, tally: _Tally
) -> Build:
    conditions = [compile_condition(condition, stats) for condition in layout.where]
    body = (
        _compile_text_body(layout.text, stats)
        if layout.text
        else _compile_chat_body(layout, stats, tally)
    )
    meta = _compile_meta(layout.meta, defaults, stats, tally)

    def build(node: Node) -> Record:
        for condition in conditions:
            condition.require(node)
        record = body(node)
        record["meta"] = meta(node)
        return record

    return build


def _compile_text_body(value: Value, stats: PathStats) -> Build:
    text = compile_text(value, stats)
    name = ", ".join(path.text for path in value.paths()) or None

    def build(node: Node) -> Record:
        found = text(node)
        if is_blank(found):
            raise RowError("empty_text", name, found_text(found))
        return {"text": found}

    return build


def _compile_chat_body(layout: Layout, stats: PathStats, tally: _Tally) -> Build:
    messages = compile_messages(layout.messages or (), stats)
    system = compile_text(layout.system, stats) if layout.system else None
    tools = compile_text(layout.tools, stats) if layout.tools else None

    def build(node: Node) -> Record:
        turns, ragged = messages(node)
        roles = {turn["role"] for turn in turns}
        if "user" not in roles and "tool" not in roles:
            raise RowError("no_prompt", None, _roles_text(turns))
        if "assistant" not in roles:
            raise RowError("no_assistant", None, _roles_text(turns))
        tally.ragged += ragged
        prompt = system(node) if system and "system" not in roles else None
        record: Record = {"messages": turns, "system": None if is_blank(prompt) else prompt}
        if tools:
            offered = tools(node)
            record["tools"] = None if is_blank(offered) else offered
        return record

    return build


def _roles_text(turns: list[dict[str, Any]]) -> str:
    return "no messages" if not turns else "only " + ", ".join(sorted({t["role"] for t in turns}))


def _compile_meta(
    values: dict[str, Value], defaults: dict[str, str | None], stats: PathStats, tally: _Tally
) -> Callable[[Node], dict[str, Json]]:
    singles = [(key, compile_single(value, stats), CASTS[key]) for key, value in values.items()]

    blank = {key: defaults.get(key) for key in META_KEYS}

    def build(node: Node) -> dict[str, Json]:
        meta: dict[str, Json] = blank.copy()
        for key, single, cast in singles:
            try:
                found = single(node)
                cast_value = None if found is None or found == "" else cast(found)
            except RowError as error:
                tally.meta[f"{key}: {error.reason}"] += 1
                continue
            if cast_value is not None:
                meta[key] = cast_value
        return meta

    return build


def _to_text(value: Json) -> str | None:
    text = json_text(value)
    return None if is_blank(text) else text


def _to_integer(value: Json) -> int | None:
    """A whole number that fits 64 bits."""
    number = _parse_number(value)
    if number != number // 1 or not -(2**63) <= number < 2**63:
        raise RowError("not_a_number", None, found_text(value))
    return int(number)


def _parse_number(value: Json) -> int | float:
    """A number, or a text that spells one as JSON does (white space around it is let pass)."""
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        value = json.loads(value.strip().removeprefix("+"))
    endless = isinstance(value, float) and not math.isfinite(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or endless:
        raise RowError("not_a_number", None, found_text(value))
    return value


def _to_score(value: Json) -> float:
    """A number from 0 to 1."""
    score = _parse_number(value)
    if not 0 <= score <= 1:
        raise RowError("not_a_number", None, found_text(value))
    return float(score)


CASTS: dict[str, Callable[[Json], Json]] = {
    "source": _to_text,
    "language": _to_text,
    "timestamp": _to_text,
    "original_id": _to_text,
    "token_count": _to_integer,
    "quality_score": _to_score,
}
