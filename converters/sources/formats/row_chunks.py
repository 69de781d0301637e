"""Chunks of consecutive rows, as every reader gives them, and exact parsing of JSON texts."""

import codecs
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import orjson

from ingot.converters.rows import BadRow, Batch, Json

# orjson reads integers beyond 64 bits as floats; such texts, found by a long run of digits, are
# read again by the slower parser of the standard library.
_LONG_NUMBER = re.compile(rb"-[0-9]{19}|[0-9]{20}")
_DIGITS = bytes(48 if 48 <= byte <= 57 else 32 for byte in range(256))
_ZERO_RUN = b"0" * 19
_STRIDE = 6
_SMALL = 4096
# No data set is nested like this; what walks a row may then be written as plain recursion.
MAX_DEPTH = 256


class JsonTextError(ValueError):
    """A text is no JSON; the message says what is wrong and at which character of the row."""


def has_long_digits(data: bytes) -> bool:
    """Whether a block holds a run of at least 19 digits: the cheap test before `loads`.

    Such a run covers three neighbours among every sixth byte; only where three are digits does the
    whole block have to be looked at.
    """
    if len(data) > _SMALL:
        sixth = np.frombuffer(data, dtype=np.uint8)[::_STRIDE] - np.uint8(48) < 10
        if not (sixth[:-2] & sixth[1:-1] & sixth[2:]).any():
            return False
    return _ZERO_RUN in data.translate(_DIGITS)


def may_be_deep(data: bytes) -> bool:
    """Whether a text has brackets enough to be nested too deeply: the cheap test before `loads`."""
    return len(data) > 2 * MAX_DEPTH and data.count(b"[") + data.count(b"{") > MAX_DEPTH


def parse_json(data: bytes) -> Json:
    """The value of a JSON text in UTF-8. Raises JsonTextError."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise JsonTextError(_json_error_text(error)) from error
    if may_be_deep(data) and _is_deep(value):
        raise JsonTextError(f"nested more than {MAX_DEPTH} levels deep")
    if has_long_digits(data) and _LONG_NUMBER.search(data):
        return _parse_exactly(data)
    return value


def ends_early(data: bytes) -> bool:
    """Whether nothing is wrong with a JSON text but that it ends before its value does."""
    try:
        text, _ = codecs.utf_8_decode(data)  # without a last character that is cut off itself
        orjson.loads(text)
    except orjson.JSONDecodeError as error:
        return error.pos >= len(text)
    except UnicodeDecodeError:
        return False
    return False


def _is_deep(value: Json) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _child_values(outer)]
        if not level:
            return False
    return any(isinstance(value, dict | list) for value in level)


def _child_values(value: Json) -> Iterable[Json]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _parse_exactly(data: bytes) -> Json:
    try:
        return json.loads(data, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise JsonTextError(str(error).partition(";")[0]) from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _json_error_text(error: orjson.JSONDecodeError) -> str:
    return f"{error.msg} at character {error.pos}"


BATCH_ROWS = 256
TABLE_ROWS = (
    1024  # of a batch with an Arrow form: whole columns cost little per row, much per batch
)
MAX_ROW_BYTES = 256 << 20  # a larger row is refused: memory stays bounded whatever the file holds
EXCERPT_CHARACTERS = 200  # characters of a broken row that are shown


@dataclass(frozen=True, slots=True)
class BrokenRow:
    """Takes the place of a row that cannot be read."""

    detail: str
    found: str
    reason: str = "bad_row"
    path: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RowChunk:
    """Consecutive rows of a file: values (or `Broken`), where known their keys and Arrow form.

    `sound` says that no value is `Broken`, so that nobody has to look at each of them.
    """

    values: Sequence[Json]
    keys: Sequence[str] | None = None
    table: Any | None = None
    sound: bool = False


ChunkReader = Callable[[], Iterator[RowChunk]]


def row_excerpt(data: bytes | str) -> str:
    """The start of a broken row, as text that can be shown and stored."""
    if isinstance(data, bytes):
        return (
            data[: EXCERPT_CHARACTERS * 4].decode("utf-8", "replace")[:EXCERPT_CHARACTERS].strip()
        )
    return data[:EXCERPT_CHARACTERS].encode("utf-8", "replace").decode().strip()


def parse_rows(rows: Sequence[bytes | None]) -> list[Json]:
    """The values of JSON texts (None = one that is too long), `BrokenRow` for what is no JSON."""
    try:
        plain = not has_long_digits(b"\n".join(rows))  # type: ignore[arg-type] # None: TypeError
        if plain and not any(map(may_be_deep, rows)):  # type: ignore[arg-type]
            return [orjson.loads(row) for row in rows]  # type: ignore[arg-type]
    except (orjson.JSONDecodeError, TypeError):
        pass
    return [parse_row(row) for row in rows]


def parse_row(row: bytes | None) -> Json:
    """The value of one JSON text, `BrokenRow` where it is too long or no JSON."""
    if row is None:
        return BrokenRow(f"line of more than {MAX_ROW_BYTES >> 20} MiB", "")
    try:
        return parse_json(row)
    except JsonTextError as error:
        return BrokenRow(str(error), row_excerpt(row))


def to_batches(
    name: str, stretches: Iterator[RowChunk], fields: Sequence[str] = (), rows: int = BATCH_ROWS
) -> Iterator[Batch]:
    """Number the rows of a file from 0 and give them as batches of at most `rows` rows.

    Stretches of a columnar file may have up to TABLE_ROWS, as their reader has cut them.
    `fields` are the paths of strings that hold JSON; they are parsed, and a row whose text does not
    parse becomes a `bad_json` row.
    """
    first = 0
    for stretch in stretches:
        most = rows if stretch.table is None else max(rows, TABLE_ROWS)
        for start in range(0, len(stretch.values), most):
            part = _slice_chunk(stretch, start, start + most)
            yield _number_batch(
                name, first + start, _parse_chunk_fields(part, fields) if fields else part
            )
        first += len(stretch.values)


def _slice_chunk(stretch: RowChunk, start: int, stop: int) -> RowChunk:
    if start == 0 and stop >= len(stretch.values):
        return stretch
    table = stretch.table
    return RowChunk(
        values=stretch.values[start:stop],
        keys=None if stretch.keys is None else stretch.keys[start:stop],
        table=None if table is None else table.slice(start, stop - start),
        sound=stretch.sound,
    )


def _number_batch(name: str, first: int, part: RowChunk) -> Batch:
    values = part.values
    broken = [] if part.sound else [p for p, value in enumerate(values) if type(value) is BrokenRow]
    if not broken:
        rows = range(first, first + len(values))
        return Batch(file=name, rows=rows, values=values, keys=part.keys, table=part.table)
    gone = frozenset(broken)
    kept = [place for place in range(len(values)) if place not in gone]
    return Batch(
        file=name,
        rows=[first + place for place in kept],
        values=[values[place] for place in kept],
        keys=None if part.keys is None else [part.keys[place] for place in kept],
        bad=[to_bad_row(first + place, values[place]) for place in broken],
        table=None if part.table is None else part.table.take(kept),
    )


def to_bad_row(row: int, broken: BrokenRow) -> BadRow:
    """The public form of a broken row at its place."""
    return BadRow(
        row=row,
        detail=broken.detail,
        found=broken.found,
        reason=broken.reason,
        path=broken.path,
    )


def _parse_chunk_fields(part: RowChunk, fields: Sequence[str]) -> RowChunk:
    """The same rows with the JSON of their text fields parsed; the Arrow form no longer applies."""
    values = [row if type(row) is BrokenRow else parse_fields(row, fields) for row in part.values]
    return RowChunk(values=values, keys=part.keys)


def parse_fields(row: Json, fields: Sequence[str]) -> Json:
    """A row with the named text fields replaced by the JSON they hold, or `Broken` (`bad_json`).

    A field is a key, or a dotted way down through objects; missing, null and blank fields stay or
    become null.
    """
    for field in fields:
        row = _parse_field(row, field, field)
        if type(row) is BrokenRow:
            return row
    return row


def _parse_field(value: Json, way: str, field: str) -> Json:
    if not isinstance(value, dict):
        return value
    if way in value:
        parsed = _parse_text(value[way], field)
        return parsed if type(parsed) is BrokenRow else {**value, way: parsed}
    cut = way.find(".")
    while cut >= 0:
        if (head := way[:cut]) in value:
            inner = _parse_field(value[head], way[cut + 1 :], field)
            return inner if type(inner) is BrokenRow else {**value, head: inner}
        cut = way.find(".", cut + 1)
    return value


def _parse_text(value: Json, field: str) -> Json:
    if not isinstance(value, str):
        return value
    if not value.strip():
        return None
    try:
        return parse_json(value.encode())
    except JsonTextError as error:
        return BrokenRow(str(error), row_excerpt(value), "bad_json", field)
