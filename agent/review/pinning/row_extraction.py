"""Take sampled rows out of a file, and write them as a file of its kind.

Rows of Parquet and Arrow files are taken by number and redacted column by column.
"""

import datetime as dt
import decimal
import io
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from ingot.agent.privacy.redaction import name_placeholder
from ingot.agent.review.pinning import row_choice
from ingot.agent.review.pinning.row_choice import (
    MOST_ROW,
    PinnableRows,
    PinnedContent,
    PinTask,
    WantedRow,
)
from ingot.agent.review.pinning.sample_redaction import (
    NotRedactableError,
    SafeBytes,
    SafeUnit,
    SampleRedactor,
    Unit,
    parse_unit,
    read_units,
    redact_header,
    redact_unit,
    spell_row,
    whole_file_unit,
)
from ingot.converters.columnar.parquet import open_parquet
from ingot.converters.errors import translate_read_errors
from ingot.converters.rows import Json
from ingot.converters.sources.facts import FileFacts
from ingot.converters.sources.formats.columnar_files import open_ipc, valid_batches
from ingot.converters.sources.formats.json_documents import fold_table, read_json_document
from ingot.converters.sources.formats.json_rows import RowRoot, compile_root
from ingot.converters.sources.formats.row_chunks import BrokenRow
from ingot.converters.sources.readers import file_root
from ingot.converters.sources.sample import UNKNOWN_ROW

_GROUP_ROWS = 100
_DIGITS = "13800138000"  # any number is one under the name of a secret or a phone
_BATCH_ROWS = 256
_PLAIN = (bool, dt.date, dt.time, dt.timedelta, decimal.Decimal)


def _parquet_table(stream: BinaryIO, where: str, numbers: Sequence[int]) -> pa.Table:
    """Return the rows of these numbers, in order, without the file's own metadata."""
    with open_parquet(stream, where) as file:
        parts: list[pa.RecordBatch] = []
        start = 0
        for group, (rows, _) in enumerate(file.groups):
            if any(start <= number < start + rows for number in numbers):
                batches = (batch for batch, _ in file.batches(_BATCH_ROWS, [group]))
                parts += _take_rows(batches, numbers, start)
            start += rows
        return _join_batches(parts, file.schema)


def _take_rows(
    batches: Iterable[pa.RecordBatch], numbers: Sequence[int], start: int
) -> Iterator[pa.RecordBatch]:
    """Yield the wanted rows of batches, the first of which begins at row `start`."""
    last = max(numbers, default=-1)
    for batch in batches:
        stop = start + batch.num_rows
        for number in numbers:
            if start <= number < stop:
                yield batch.slice(number - start, 1)  # not every type has a kernel for `take`
        start = stop
        if start > last:
            return


def _join_batches(parts: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches(parts, schema=schema).replace_schema_metadata(None)


def _arrow_table(stream: BinaryIO, where: str, numbers: Sequence[int]) -> tuple[pa.Table, bool]:
    """Return the rows of these numbers, and whether the data is an IPC file, not a stream."""
    with open_ipc(stream, where) as reader, translate_read_errors(where):
        batches = (batch for batch, _ in valid_batches(reader, where))
        table = _join_batches(list(_take_rows(batches, numbers, 0)), reader.schema)
        return table, hasattr(reader, "num_record_batches")


def _row_sizes(table: pa.Table) -> list[int]:
    """Estimate the bytes of each row. Raises SourceError if values have no Python form."""
    found = [0] * table.num_rows
    for column, field in zip(table.columns, table.schema, strict=True):
        values = [0] * table.num_rows if _has_fixed_width(field.type) else _column_values(column)
        found = [size + len(repr(value)) for size, value in zip(found, values, strict=True)]
    return found


def _has_fixed_width(kind: pa.DataType) -> bool:
    """Check that values of a type hold no text and no number that could identify a person."""
    return bool(
        pa.types.is_temporal(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_null(kind)
        or pa.types.is_float16(kind)
    )


def _column_values(column: pa.ChunkedArray) -> list[Json]:
    with translate_read_errors("a column", "its values cannot be pinned"):
        values: list[Json] = column.to_pylist()
    return values


def _redact_table(table: pa.Table, hiding: SampleRedactor) -> pa.Table:
    """Redact the cells; every column keeps its type.

    Columns are built anew from their values: dictionaries, views and what lies under a null may
    hold more than the rows that were chosen.
    """
    columns = [
        _redact_column(column, field, hiding)
        for column, field in zip(table.columns, table.schema, strict=True)
    ]
    fields = [
        pa.field(hiding.text(field.name), field.type, field.nullable) for field in table.schema
    ]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def _redact_column(column: pa.ChunkedArray, field: pa.Field, hiding: SampleRedactor) -> Any:  # noqa: ANN401
    if _has_fixed_width(field.type):
        hidden_name = not hiding.off and name_placeholder(_DIGITS, field.name)
        kept = pa.nulls(len(column), field.type) if hidden_name else column.combine_chunks()
        return pa.chunked_array([kept], type=field.type)
    values = _column_values(column)
    hidden = values if hiding.off else [_redact_cell(value, field.name, hiding) for value in values]
    try:
        return pa.chunked_array([pa.array(hidden, type=field.type)], type=field.type)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise NotRedactableError from error


def _redact_cell(value: Json, name: str, hiding: SampleRedactor) -> Json:
    """Redact the value of a cell; names of the fields of a struct belong to its type and stay."""
    if value is None or isinstance(value, _PLAIN):
        return value
    if isinstance(value, dict):
        return {key: _redact_cell(inner, key, hiding) for key, inner in value.items()}
    if isinstance(value, list):
        return [_redact_cell(inner, name, hiding) for inner in value]
    if isinstance(value, tuple):  # an entry of a map
        key, inner = value
        return _redact_cell(key, "", hiding), _redact_cell(
            inner, key if isinstance(key, str) else "", hiding
        )
    if isinstance(value, bytes):
        # As the text that they are; if they are not text, the ASCII in them.
        try:
            return hiding.text(value.decode(), name).encode()
        except UnicodeDecodeError:
            return hiding.text(value.decode("latin-1"), name).encode("latin-1")
    return hiding.value(value, name) if isinstance(value, str | int | float) else value


def _arrow_bytes(table: pa.Table, *, as_file: bool) -> bytes:
    out = io.BytesIO()
    new = pa.ipc.new_file if as_file else pa.ipc.new_stream
    with new(out, table.schema) as writer:
        writer.write_table(table, max_chunksize=_GROUP_ROWS)
    return out.getvalue()


# How far a file is read for rows whose number is known, and for those that only their value tells.
_READ, _COMPARED = 256 << 20, 16 << 20


def extract_rows(task: PinTask) -> PinnableRows:
    """Take the rows of a file that may be pinned."""
    if task.file.facts.format in ("parquet", "arrow"):
        return _extract_from_table(task)
    facts = task.file.facts
    if facts.format not in ("jsonl", "json", "csv", "text") or facts.header_rows:
        return _extract_values(task)  # names may stand in several lines
    if task.file.facts.format == "json":
        root = file_root(task.file, task.spec)
        if root.orient is not None:
            return _extract_from_frame(task, root, root.orient)
        if (doc := row_choice.load_document(task)) is not None:
            return row_choice.extract_from_document(task, *doc)
    return _extract_from_text(task)


# --- formats that are not written here


def _extract_values(task: PinTask) -> PinnableRows:
    """Take the values of rows; they are written as JSON Lines."""
    rows = [
        row_choice.unparse_fields(one.value, task.spec)
        for one in task.want
        if _may_stay(task, one, sys.maxsize)
    ]

    def write(kept: Sequence[int]) -> PinnedContent:
        hidden = [task.hiding.value(rows[place]) for place in kept]
        text = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in hidden)
        return PinnedContent(data=SafeBytes(text.encode()), rows=hidden, as_lines=True)

    sizes = [len(json.dumps(row)) for row in rows]
    return PinnableRows(file=task.file, sizes=sizes, broken=[False] * len(rows), write=write)


# --- tables in JSON


def _extract_from_frame(task: PinTask, root: RowRoot, orient: str) -> PinnableRows:
    """Take rows of a table in JSON; they are written as a table in the same orient."""
    where = str(task.file.place)
    with row_choice.open_file(task.file) as stream:
        chunks = list(read_json_document(row_choice.utf8_parts(task.file, stream), "", root, where))
    rows = [row for chunk in chunks for row in chunk.values]
    names = (
        None
        if any(chunk.keys is None for chunk in chunks)
        else [key for chunk in chunks for key in chunk.keys or ()]
    )
    way = compile_root(f"{root.text}[*]", where).keys
    numbers = [one.row for one in task.want if _may_stay(task, one, len(rows))]

    def write(kept: Sequence[int]) -> PinnedContent:
        chosen = [numbers[place] for place in kept]
        hidden = [task.hiding.value(rows[number]) for number in chosen]
        keys = None if names is None else [task.hiding.text(names[number]) for number in chosen]
        value = fold_table(hidden, keys, orient)
        for name, _ in reversed(way):
            value = {name: value}
        data = SafeBytes(f"{json.dumps(value, ensure_ascii=False)}\n".encode())
        return PinnedContent(
            data=row_choice.encode_text(data, task.file, bom=row_choice.has_bom(task.file)),
            rows=hidden,
        )

    return PinnableRows(
        file=task.file,
        sizes=[len(json.dumps(rows[number])) for number in numbers],
        broken=[False] * len(numbers),
        write=write,
    )


def _may_stay(task: PinTask, one: WantedRow, rows: int) -> bool:
    if type(one.value) is BrokenRow or not 0 <= one.row < rows:
        task.counts["not_found"] += 1
        return False
    return row_choice.may_be_pinned(task, one.value, len(json.dumps(one.value)))


# --- Parquet and Arrow


def _extract_from_table(task: PinTask) -> PinnableRows:
    numbers = [one.row for one in task.want if one.row != UNKNOWN_ROW]
    where = str(task.file.place)
    is_file = False
    with row_choice.open_file(task.file) as stream:
        if task.file.facts.format == "parquet":
            table = _parquet_table(stream, where, numbers)
        else:
            table, is_file = _arrow_table(stream, where, numbers)
    sizes = _row_sizes(table)
    small = [place for place, size in enumerate(sizes) if size <= MOST_ROW]
    task.counts["too_large"] += len(sizes) - len(small)
    broken = [type(one.value) is BrokenRow for one in task.want if one.row != UNKNOWN_ROW]

    def write(kept: Sequence[int]) -> PinnedContent:
        rows = [table.slice(small[place], 1) for place in kept] or [table.slice(0, 0)]
        hid = _redact_table(pa.concat_tables(rows), task.hiding)
        if task.file.facts.format == "parquet":
            out = io.BytesIO()
            pq.write_table(hid, out, compression="zstd", row_group_size=_GROUP_ROWS)
            return PinnedContent(data=SafeBytes(out.getvalue()), rows=None)
        return PinnedContent(data=SafeBytes(_arrow_bytes(hid, as_file=is_file)), rows=None)

    return PinnableRows(
        file=task.file,
        sizes=[sizes[place] for place in small],
        broken=[broken[place] for place in small],
        write=write,
    )


# --- lines, records, and JSON that is streamed


def _extract_from_text(task: PinTask) -> PinnableRows:
    header, found = _spelled_rows(task)
    chosen = [unit for one in found if (unit := _redact_or_none(task, one)) is not None]
    bom = row_choice.has_bom(task.file)

    def write(kept: Sequence[int]) -> PinnedContent:
        rows = [chosen[place] for place in kept]
        data = _assemble_file(task, header, rows)
        return PinnedContent(
            data=row_choice.encode_text(data, task.file, bom=bom), rows=[one.value for one in rows]
        )

    return PinnableRows(
        file=task.file,
        sizes=[len(unit.spelled) + 1 for unit in chosen],
        broken=[unit.broken for unit in chosen],
        write=write,
    )


def _spelled_rows(task: PinTask) -> tuple[SafeUnit | None, list[Unit]]:
    """Return the header of a table, and the wanted rows as spelled, in the sample's order."""
    facts = task.file.facts
    header = first = None
    known = all(one.row != UNKNOWN_ROW for one in task.want)
    with row_choice.open_file(task.file) as stream:
        parts = row_choice.utf8_parts(task.file, stream)
        if facts.format == "text" and task.spec.root == "$":
            return None, [whole_file_unit(parts, MOST_ROW)]
        rows = read_units(task.file, task.spec, parts)
        if facts.format == "csv" and facts.header:
            header = _next_row(rows, facts)
        elif facts.format == "csv" and task.spec.columns is not None:
            first = _next_row(rows, facts)  # read without the stated columns it may be a header
            rows = chain([first] if first else [], rows)
        most_bytes = _READ if known else _COMPARED
        by_place = row_choice.find_wanted(rows, task.want, task.spec, facts, most_bytes)
    found = [
        unit for one in task.want if (unit := by_place.get(one.place) or _respell_row(task, one))
    ]
    if first is not None and all(unit.spelled != first.spelled for unit in found):
        found.insert(0, first)
    return redact_header(header, facts, task.hiding) if header else None, found


def _next_row(rows: Iterator[Unit], facts: FileFacts) -> Unit | None:
    unit = next(rows, None)
    return None if unit is None else parse_unit(unit, facts)


def _respell_row(task: PinTask, one: WantedRow) -> Unit | None:
    """Spell a row that was not met again from its value."""
    facts = task.file.facts
    streamed = facts.format != "json" or facts.layout == "values" or _is_streamed(task)
    if type(one.value) is not BrokenRow and streamed:
        try:
            return spell_row(row_choice.unparse_fields(one.value, task.spec), facts, key=one.key)
        except NotRedactableError:
            pass
    task.counts["not_found"] += 1
    return None


def _is_streamed(task: PinTask) -> bool:
    root = file_root(task.file, task.spec)
    return root.streams and root.rest is None


def _redact_or_none(task: PinTask, unit: Unit) -> SafeUnit | None:
    if not unit.spelled or len(unit.spelled) > MOST_ROW:
        task.counts["too_large"] += 1
        return None
    try:
        shown = redact_unit(unit, task.file.facts, task.hiding)
        if task.file.facts.encoding.startswith(("utf-16", "utf-32")):
            shown.spelled.decode()  # bytes that are no text have no place among wide characters
    except (NotRedactableError, UnicodeDecodeError):
        task.counts["not_redactable"] += 1
        return None
    return shown


def _assemble_file(task: PinTask, header: SafeUnit | None, rows: Sequence[SafeUnit]) -> SafeBytes:
    facts = task.file.facts
    if facts.format == "text" and task.spec.root == "$":
        return SafeBytes(rows[0].spelled)
    if facts.format == "json" and not (
        facts.layout == "values" and task.spec.root in (None, "[*]")
    ):
        return row_choice.stream_document(rows, file_root(task.file, task.spec))
    return SafeBytes(b"".join(map(_line_bytes, [header, *rows] if header else rows)))


def _line_bytes(unit: SafeUnit) -> bytes:
    end = b"\r\n" if unit.spelled.endswith(b"\r") else b"\n"
    return end * unit.gap + unit.spelled + b"\n"
