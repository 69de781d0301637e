"""Arrow columns and a mapping to unified records: the Arrow executor, for shapes that it carries.

The meaning is that of unify.py, record by record and count by count. Whole columns are computed at
once for the rows that convert and for those that a condition leaves out; any other row, one in
which something is wrong, is handed to the row executor, which alone says what is wrong.

`carries` says whether a mapping on a schema can be executed so. It cannot where a record is not one
row (`group`, record-level `each`, `any_of` of layouts) or a value gives several hits.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ingot.converters.columnar_frame import (
    Frame,
    Mask,
    NotCarriedError,
    Places,
    blank,
    count_looks,
    without,
)
from ingot.converters.columnar_messages import compile_turns
from ingot.converters.columnar_meta import Meta, compile_meta
from ingot.converters.columnar_values import Filter, Scope, compile_filter, compile_texts
from ingot.converters.evaluate import PathStats
from ingot.converters.language import Layout, Mapping
from ingot.converters.readers.arrowrows import ArrowRows
from ingot.converters.record_kinds import PT_SCHEMA, SFT_SCHEMA, RecordKind, one_batch, to_batch
from ingot.converters.rows import Batch, Reject
from ingot.converters.unify import Unified, Unifier

# A larger batch is cut, so that no column of text outgrows the offsets that Arrow has for it.
MAX_BATCH_BYTES = 64 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnarUnified:
    """What became of a batch: `Unified`, with the records as a batch of their Arrow schema."""

    table: pa.RecordBatch
    rejects: list[Reject] = field(default_factory=list)
    converted: int = 0
    rejected: int = 0
    filtered: int = 0
    ragged: int = 0
    meta_failures: Counter[str] = field(default_factory=Counter)

    @property
    def written(self) -> int:
        """How many records there are."""
        return int(self.table.num_rows)


class _Body(NamedTuple):
    """Records without their meta: the columns, for the good rows; ragged rows."""

    columns: Callable[[Mask], list[pa.Array]]
    good: Mask
    ragged: Mask | None


_BodyOf = Callable[[Frame], _Body]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Plan:
    """A mapping compiled for one schema."""

    filters: list[Filter]
    body: _BodyOf
    meta: Callable[[Frame, Mask], Meta]
    schema: pa.Schema


def carries(mapping: Mapping, schema: pa.Schema) -> str | None:
    """Why a mapping cannot be executed on columns of a schema; None where it can."""
    try:
        _compile(mapping, schema, {}, PathStats())
    except NotCarriedError as reason:
        return str(reason)
    return None


class ColumnarUnifier:
    """Executes one mapping on batches of one schema, on their `table`.

    Args:
        mapping: a bound mapping.
        schema: the schema of every `Batch.table` that will come.
        source_name: `meta.source` where the mapping has none.
        language: `meta.language` likewise.
        rows: the row executor for rows in which something is wrong; None = one of its own. Counts
            per path go to its `stats`.

    Raises:
        ValueError: `carries` gives a reason.
    """

    def __init__(
        self,
        mapping: Mapping,
        schema: pa.Schema,
        *,
        source_name: str,
        language: str | None = None,
        rows: Unifier | None = None,
    ) -> None:
        self._rows = rows or Unifier(mapping, source_name=source_name, language=language)
        self.stats = self._rows.stats
        defaults = {"source": source_name, "language": language}
        try:
            self._plan = _compile(mapping, schema, defaults, self.stats)
        except NotCarriedError as reason:
            raise ValueError(f"not carried: {reason}") from reason
        self._kind: RecordKind = "pt" if mapping.kind == "pt" else "sft"

    def batch(self, batch: Batch) -> ColumnarUnified:
        """Convert a batch. Nothing is raised for bad rows: they are rejects of the result."""
        table = batch.table
        if table is None or batch.weights is not None:
            return self._by_rows(batch)
        if table.nbytes > MAX_BATCH_BYTES:
            halves = _halves(batch)
            return _joined([self.batch(h) for h in halves]) if halves else self._by_rows(batch)
        return self._by_columns(batch, table)

    def _by_rows(self, batch: Batch) -> ColumnarUnified:
        made = self._rows.batch(batch)
        return _columnar(made, to_batch(made.records, self._kind, where=batch.file))

    def _by_columns(self, batch: Batch, table: pa.RecordBatch) -> ColumnarUnified:
        plan, size = self._plan, table.num_rows
        frame = Frame(values=table, size=size, active=np.ones(size, np.bool_))
        left_out = _filter(plan.filters, frame)
        body = plan.body(frame)
        meta = plan.meta(frame, body.good)
        good, kept = body.good, int(body.good.sum())
        columns = [*body.columns(good), _kept(meta.column, good)]
        # Rows that are handed on are counted by the executor that gets them.
        doubtful = np.flatnonzero(frame.active & ~good)
        count_looks(frame.looks, good | ~frame.active)
        unified = ColumnarUnified(
            table=pa.RecordBatch.from_arrays(columns, schema=plan.schema),
            rejects=_left_out_rejects(batch, left_out),
            converted=kept,
            filtered=size - int(frame.active.sum()),
            ragged=0 if body.ragged is None else int((body.ragged & good).sum()),
            meta_failures=meta.failed(good),
        )
        if not len(doubtful) and not batch.bad:
            return unified
        handed = _of_rows(batch, doubtful)
        rows = [batch.rows[place] for place in np.flatnonzero(good).tolist()]
        return _merged(unified, rows, handed, self._by_rows(handed))


def _compile(
    mapping: Mapping, schema: pa.Schema, defaults: dict[str, str | None], stats: PathStats
) -> _Plan:
    layout = mapping.outer
    shapes = {"group": mapping.group, "any_of of layouts": mapping.any_of, "each": layout.each}
    for name, shape in shapes.items():
        if shape:
            raise NotCarriedError(name)
    scope = Scope(kind=pa.struct(list(schema)), stats=stats)
    if mapping.kind == "irrelevant":
        raise NotCarriedError("a mapping that maps nothing")
    return _Plan(
        filters=[compile_filter(condition, scope) for condition in layout.where],
        body=_text_body(layout, scope) if layout.text else _chat_body(layout, scope),
        meta=compile_meta(layout.meta, defaults, scope),
        schema=PT_SCHEMA if layout.text else SFT_SCHEMA,
    )


def _text_body(layout: Layout, scope: Scope) -> _BodyOf:
    if layout.text is None:
        raise ValueError("a layout without a text")
    texts = compile_texts(layout.text, scope)

    def body(frame: Frame) -> _Body:
        found = texts(frame, frame.active)
        good = frame.active & ~blank(found)
        return _Body(lambda kept: [_kept(found, kept)], good, None)

    return body


def _chat_body(layout: Layout, scope: Scope) -> _BodyOf:
    turns_of = compile_turns(layout.messages or (), scope)
    system = compile_texts(layout.system, scope) if layout.system else None
    tools = compile_texts(layout.tools, scope) if layout.tools else None

    def body(frame: Frame) -> _Body:
        turns = turns_of(frame)
        optional = []
        for texts, active in ((system, turns.good & ~turns.system), (tools, turns.good)):
            found = texts(frame, active) if texts else pa.nulls(frame.size, pa.string())
            optional.append(without(found, blank(found) | ~active) if texts else found)

        def columns(kept: Mask) -> list[pa.Array]:
            return [turns.column(kept), *(_kept(array, kept) for array in optional)]

        return _Body(columns, turns.good, turns.ragged)

    return body


def _kept(array: pa.Array, kept: Mask) -> pa.Array:
    return array if kept.all() else array.filter(pa.array(kept))


class _LeftOut(NamedTuple):
    """Rows that a condition left out, and what it found there."""

    name: str
    places: Places
    found: list[str]


def _filter(filters: list[Filter], frame: Frame) -> list[_LeftOut]:
    """Apply conditions in order to `frame.active`; a row that one leaves out sees no other."""
    left_out = []
    for one in filters:
        array = one.scalars(frame, frame.active)
        places = np.flatnonzero(frame.active & ~one.holds(array))
        if len(places):
            left_out.append(_LeftOut(one.name, places, one.found(array, places)))
            frame.active = frame.active.copy()
            frame.active[places] = False
    return left_out


def _left_out_rejects(batch: Batch, left_out: list[_LeftOut]) -> list[Reject]:
    rejects = [
        Reject(
            file=batch.file,
            row=batch.rows[place],
            element=None,
            reason="filtered",
            path=one.name,
            found=found,
        )
        for one in left_out
        for place, found in zip(one.places.tolist(), one.found, strict=True)
    ]
    return sorted(rejects, key=_row_of) if len(left_out) > 1 else rejects


def _row_of(reject: Reject) -> int:
    return reject.row


# --- parts of batches


def _of_rows(batch: Batch, places: Places) -> Batch:
    """Some rows of a batch, and all that could not be read."""
    chosen, values = places.tolist(), batch.values
    return Batch(
        file=batch.file,
        rows=[batch.rows[place] for place in chosen],
        values=values.take(chosen)
        if isinstance(values, ArrowRows)
        else [values[place] for place in chosen],
        keys=None if batch.keys is None else [batch.keys[place] for place in chosen],
        bad=batch.bad,
    )


def _halves(batch: Batch) -> list[Batch]:
    """A batch in two; none where it is a single row. What could not be read comes last."""
    size = len(batch.rows)
    if size < 2 or batch.table is None:
        return []
    middle = size // 2
    return [
        Batch(
            file=batch.file,
            rows=batch.rows[part],
            values=batch.values[part],
            keys=None if batch.keys is None else batch.keys[part],
            bad=batch.bad if part.stop == size else (),
            table=batch.table.slice(part.start, part.stop - part.start),
        )
        for part in (slice(0, middle), slice(middle, size))
    ]


def _columnar(unified: Unified, table: pa.RecordBatch) -> ColumnarUnified:
    return ColumnarUnified(
        table=table,
        rejects=unified.rejects,
        converted=unified.converted,
        rejected=unified.rejected,
        filtered=unified.filtered,
        ragged=unified.ragged,
        meta_failures=unified.meta_failures,
    )


def _joined(parts: Sequence[ColumnarUnified]) -> ColumnarUnified:
    """Results of consecutive batches as one."""
    return ColumnarUnified(
        table=one_batch([part.table for part in parts]),
        rejects=[reject for part in parts for reject in part.rejects],
        converted=sum(part.converted for part in parts),
        rejected=sum(part.rejected for part in parts),
        filtered=sum(part.filtered for part in parts),
        ragged=sum(part.ragged for part in parts),
        meta_failures=sum((part.meta_failures for part in parts), Counter()),
    )


def _merged(
    by_columns: ColumnarUnified, rows: Sequence[int], handed: Batch, by_rows: ColumnarUnified
) -> ColumnarUnified:
    """Results of the same batch by both executors, in the order of its rows.

    Args:
        by_columns: what came of most rows; no reject of it is a row that could not be read.
        rows: the row of each record of it.
        handed: the rows handed to the row executor, and all that could not be read.
        by_rows: what came of them.
    """
    both = _joined([by_columns, by_rows])
    bad = len(handed.bad)
    unreadable = both.rejects[len(both.rejects) - bad :]
    rejects = sorted(both.rejects[: len(both.rejects) - bad], key=_row_of)
    table = both.table
    if by_rows.written:
        failed = {reject.row for reject in rejects}
        order = np.argsort([*rows, *(row for row in handed.rows if row not in failed)])
        table = table.take(pa.array(order))
    return replace(both, table=table, rejects=[*rejects, *unreadable])
