"""Arrow columns and a mapping to unified records: the Arrow executor, for shapes that it carries.

The meaning is that of the row executor, record by record and count by count. Whole columns are
computed at once for the rows that convert and for those that a condition leaves out; any other row,
one in which something is wrong, goes to the row executor, which alone says what is wrong.

`why_not_columnar` says why a mapping on a schema cannot be executed so: for layouts of `any_of`,
trees, lookups, lists walked in step, and types that have no text.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ingot.converters.json_yaml import found_text
from ingot.converters.mapping.columns.frame import (
    MAX_BATCH_BYTES,
    Frame,
    Mask,
    Places,
    TooMuchTextError,
    blank_mask,
    count_evaluations,
    filter_array,
    null_where,
    number_places,
    spread_each,
)
from ingot.converters.mapping.columns.messages import compile_turns
from ingot.converters.mapping.columns.meta import compile_meta
from ingot.converters.mapping.columns.projection import Projection, compile_projection
from ingot.converters.mapping.columns.scope import NotColumnarError, Scope, locate_each
from ingot.converters.mapping.columns.values import Filter, compile_filter, compile_texts
from ingot.converters.mapping.language import Layout, Mapping, Value
from ingot.converters.mapping.rows.executor import Outcome, RowExecutor, UnifiedBatch
from ingot.converters.records.schema import (
    PT_SCHEMA,
    SFT_SCHEMA,
    RecordKind,
    join_batches,
    to_batch,
)
from ingot.converters.rows import Batch, Reject
from ingot.converters.sources.storage.listing import path_stem


@dataclass(frozen=True, kw_only=True, slots=True)
class UnifiedTable(Outcome):
    """What became of a batch: the records as a batch of their Arrow schema, the row of each."""

    table: pa.RecordBatch
    rows: Places

    @property
    def written(self) -> int:
        """Return how many records there are."""
        return int(self.table.num_rows)


class _Body(NamedTuple):
    """Records without their meta: the columns, for the good ones; which are good, and ragged."""

    columns: Callable[[Mask], list[pa.Array]]
    good: Mask
    ragged: Mask | None


_BodyOf = Callable[[Frame], _Body]


def why_not_columnar(mapping: Mapping, schema: pa.Schema) -> str | None:
    """Return why a mapping cannot be executed on columns of a schema; None if it can."""
    try:
        ColumnExecutor(RowExecutor(mapping, source_name=""), schema)
    except NotColumnarError as reason:
        return str(reason)
    return None


class ColumnExecutor:
    """Executes a row executor's mapping on the `table` of batches. Raises NotColumnarError."""

    def __init__(self, rows: RowExecutor, schema: pa.Schema) -> None:
        mapping, layout = rows.mapping, rows.mapping.outer
        _refuse_shapes(mapping)
        self._rows, self.stats, self._kind = rows, rows.stats, _kind_of(mapping)
        kind = schema.field(0).type if mapping.group else pa.struct(list(schema))
        # The lists whose elements are records.
        self._each, scope = locate_each(layout.each, Scope(kind=kind, stats=rows.stats))
        self._filters = [compile_filter(condition, scope) for condition in layout.where]
        self._body = (
            _compile_text_body(layout.text, scope)
            if layout.text
            else _compile_chat_body(layout, scope)
        )
        self._meta = compile_meta(layout.meta, rows.defaults, scope)
        self._schema = PT_SCHEMA if layout.text else SFT_SCHEMA

    def parts(self, batch: Batch) -> Iterator[UnifiedTable]:
        """Convert a batch, a large one in parts; bad rows are rejects of the result."""
        table = batch.table
        try:
            if table is None or table.nbytes > MAX_BATCH_BYTES:
                raise TooMuchTextError
            made = self._by_columns(batch, table)
        except TooMuchTextError:
            halves = _split_batch(batch) if table is not None else []
            for half in halves:
                yield from self.parts(half)
            if not halves:
                for part in self._rows.parts(batch):
                    yield _to_table(part, self._kind, batch.file)
        else:
            yield made

    def _by_columns(self, batch: Batch, table: pa.RecordBatch) -> UnifiedTable:
        size = table.num_rows
        rows = Frame(
            values=table.column(0) if self._rows.mapping.group else table,
            size=size,
            active=np.ones(size, np.bool_),
            failed=np.zeros(size, np.bool_),
            file=path_stem(batch.file),
        )
        frame, of_rows = rows, np.arange(size)
        if self._each:
            frame, of_rows = spread_each(self._each, rows)
            frame = replace(frame, owners=None, numbers=None)  # its places are the records
            rows.fail(np.bincount(of_rows, minlength=size) == 0)
        left_out = _apply_filters(self._filters, frame)
        body = self._body(frame)
        meta = self._meta(frame, body.good)
        frame.fail(frame.active & ~body.good)
        # Rows that are handed on are counted by the executor that gets them.
        count_evaluations(rows.looks, ~rows.failed)
        good = body.good & ~rows.failed[of_rows]
        numbers = np.array(batch.rows, np.int64)[of_rows[good]]
        made = np.zeros(size, np.bool_)
        made[of_rows[good]] = True
        weights = np.ones(size, np.int64) if batch.weights is None else np.array(batch.weights)
        columns = [*body.columns(good), filter_array(meta.column, good)]
        unified = UnifiedTable(
            table=pa.RecordBatch.from_arrays(columns, schema=self._schema),
            rows=numbers,
            rejects=_filter_rejects(batch, left_out, frame, made, weights),
            converted=int(weights[made].sum()),
            filtered=int(weights[~(made | rows.failed)].sum()),
            ragged=0 if body.ragged is None else int((body.ragged & good).sum()),
            meta_failures=meta.failed(good),
        )
        doubtful = np.flatnonzero(rows.failed)
        if not len(doubtful) and not batch.bad:
            return unified
        handed = batch.take(doubtful.tolist(), batch.bad)
        return _merge_results(unified, handed, self._rows.batch(handed), self._kind)


def _kind_of(mapping: Mapping) -> RecordKind:
    return "pt" if mapping.kind == "pt" else "sft"


def _to_table(made: UnifiedBatch, kind: RecordKind, file: str) -> UnifiedTable:
    counts = {one.name: getattr(made, one.name) for one in fields(Outcome)}
    table = to_batch(made.records, kind, where=file)
    return UnifiedTable(table=table, rows=np.array(made.rows, np.int64), **counts)


def _refuse_shapes(mapping: Mapping) -> None:
    if mapping.any_of:
        raise NotColumnarError("any_of of layouts")
    if mapping.kind == "irrelevant":
        raise NotColumnarError("a mapping that maps nothing")


def _compile_text_body(text: Value, scope: Scope) -> _BodyOf:
    texts = compile_texts(text, scope)

    def body(frame: Frame) -> _Body:
        found = texts(frame, frame.active)
        good = frame.active & ~blank_mask(found)
        return _Body(lambda kept: [filter_array(found, kept)], good, None)

    return body


def _compile_chat_body(layout: Layout, scope: Scope) -> _BodyOf:
    turns_of = compile_turns(layout.messages or (), scope)
    system = compile_texts(layout.system, scope) if layout.system else None
    tools = compile_texts(layout.tools, scope) if layout.tools else None

    def body(frame: Frame) -> _Body:
        turns = turns_of(frame)
        optional = []
        for texts, active in ((system, turns.good & ~turns.system), (tools, turns.good)):
            found = texts(frame, active) if texts else pa.nulls(frame.size, pa.string())
            optional.append(null_where(found, blank_mask(found) | ~active) if texts else found)

        def columns(kept: Mask) -> list[pa.Array]:
            return [turns.column(kept), *(filter_array(array, kept) for array in optional)]

        return _Body(columns, turns.good, turns.ragged)

    return body


class _LeftOut(NamedTuple):
    """Places that a condition left out, and what it looked at everywhere."""

    condition: Filter
    places: Places
    looked_at: pa.Array


def _apply_filters(filters: list[Filter], frame: Frame) -> list[_LeftOut]:
    """Apply conditions in order to `frame.active`; a place that one leaves out sees no other."""
    left_out = []
    for one in filters:
        array = one.scalars(frame, frame.active)
        places = np.flatnonzero(frame.active & ~one.holds(array))
        if len(places):
            left_out.append(_LeftOut(one, places, array))
            frame.active = frame.active.copy()
            frame.active[places] = False
    return left_out


def _filter_rejects(
    batch: Batch, left_out: list[_LeftOut], frame: Frame, made: Mask, weights: Places
) -> list[Reject]:
    """The rejects of what conditions left out, but for rows that are `failed`."""
    rejects = []
    elements = None if frame.rows is None else number_places(frame.rows)
    for condition, places, looked_at in left_out:
        of_rows = places if frame.rows is None else frame.rows[places]
        kept = ~frame.failed[of_rows]
        places, of_rows = places[kept], of_rows[kept]
        numbers = None if elements is None else elements[places].tolist()
        found = map(found_text, looked_at.take(pa.array(places)).to_pylist())
        for n, (row, text) in enumerate(zip(of_rows.tolist(), found, strict=True)):
            element = None if numbers is None else numbers[n]
            rejects.append(
                Reject(
                    file=batch.file,
                    row=batch.rows[row],
                    element=element,
                    reason="filtered",
                    path=condition.name,
                    found=text,
                    # The first of a row that made no record carries the input rows behind it.
                    rows=0 if element or made[row] else int(weights[row]),
                )
            )
    return sorted(rejects, key=_reject_place) if len(left_out) > 1 else rejects


def _reject_place(reject: Reject) -> tuple[int, int]:
    return reject.row, reject.element or 0


# --- parts of batches


def _split_batch(batch: Batch) -> list[Batch]:
    """A batch in two; none where it is a single row. What could not be read comes last."""
    size, table = len(batch.rows), batch.table
    if size < 2:
        return []
    middle = size // 2
    return [
        Batch(
            file=batch.file,
            rows=batch.rows[part],
            values=batch.values[part],
            keys=None if batch.keys is None else batch.keys[part],
            weights=None if batch.weights is None else batch.weights[part],
            bad=batch.bad if part.stop == size else (),
            table=None if table is None else table.slice(part.start, part.stop - part.start),
        )
        for part in (slice(0, middle), slice(middle, size))
    ]


def _join_results(parts: Sequence[UnifiedTable]) -> UnifiedTable:
    counted = ("converted", "rejected", "filtered", "ragged")
    counts = {name: sum(getattr(part, name) for part in parts) for name in counted}
    return UnifiedTable(
        table=join_batches([part.table for part in parts]),
        rows=np.concatenate([part.rows for part in parts]),
        rejects=[reject for part in parts for reject in part.rejects],
        meta_failures=sum((part.meta_failures for part in parts), Counter()),
        **counts,
    )


def _merge_results(
    by_columns: UnifiedTable, handed: Batch, found: UnifiedBatch, kind: RecordKind
) -> UnifiedTable:
    """Results of the same batch by both executors, in the order of its `rows`."""
    both = _join_results([by_columns, _to_table(found, kind, handed.file)])
    readable = len(both.rejects) - len(handed.bad)
    rejects = sorted(both.rejects[:readable], key=_reject_place)
    table, rows = both.table, both.rows
    if found.records:
        order = np.argsort(rows, kind="stable")
        table, rows = table.take(pa.array(order)), rows[order]
    return replace(both, table=table, rows=rows, rejects=[*rejects, *both.rejects[readable:]])


# Rows of JSON are cut so far to find those that have no columns, and after so many batches in a row
# with too many of them no more are looked for. Half as many take less time without columns.
_FEWEST_ROWS = 32
_MOST_TRIES = 4
_MOST_SCHEMAS = 256


class MappingExecutor:
    """Executes one mapping on batches of any kind; both executors give the same records."""

    def __init__(
        self,
        mapping: Mapping,
        *,
        source_name: str,
        language: str | None = None,
        columns: bool = True,
    ) -> None:
        self._rows = RowExecutor(mapping, source_name=source_name, language=language)
        self.stats = self._rows.stats
        self._columns, self.kind = columns, _kind_of(mapping)
        self._by_schema: dict[pa.Schema, ColumnExecutor | None] = {}
        self._projection = _projection_of(mapping) if columns else None
        self._tries = 0
        self._handed = 0  # rows of a batch that had no columns

    def parts(self, batch: Batch) -> Iterator[UnifiedBatch | UnifiedTable]:
        """Convert a batch, a large one in parts; bad rows are rejects of the result."""
        if batch.table is not None:
            by_columns = self._executor_for(batch.table.schema)
            yield from (by_columns or self._rows).parts(batch)
        elif self._projection is None or 2 * len(batch.values) <= _FEWEST_ROWS:
            yield from self._rows.parts(batch)
        else:
            self._handed = 0
            yield from self._project(batch, self._projection)
            self._tries = self._tries + 1 if self._handed * 2 > len(batch.rows) else 0
            if self._tries == _MOST_TRIES:
                self._projection = None

    def _project(
        self, batch: Batch, projection: Projection
    ) -> Iterator[UnifiedBatch | UnifiedTable]:
        try:
            table = projection.table(batch.values)
        except NotColumnarError:
            if len(batch.rows) > _FEWEST_ROWS:
                for half in _split_batch(batch):
                    yield from self._project(half, projection)
                return
            table = None
        by_columns = None if table is None else self._executor_for(table.schema)
        if by_columns is None:
            self._handed += len(batch.rows)
        yield from (by_columns or self._rows).parts(replace(batch, table=table))

    def _executor_for(self, schema: pa.Schema) -> ColumnExecutor | None:
        if schema not in self._by_schema:
            if len(self._by_schema) >= _MOST_SCHEMAS:  # rows of JSON lack other keys in each batch
                self._by_schema.clear()
            self._by_schema[schema] = None
            if self._columns:
                with suppress(NotColumnarError):
                    self._by_schema[schema] = ColumnExecutor(self._rows, schema)
        return self._by_schema[schema]


def _projection_of(mapping: Mapping) -> Projection | None:
    try:
        _refuse_shapes(mapping)
        return compile_projection(mapping)
    except NotColumnarError:
        return None
