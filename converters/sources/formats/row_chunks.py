"""Chunks of consecutive rows, as every reader gives them, and exact parsing of JSON texts."""

import codecs
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import orjson

from ingot.converters.errors import SourceError
from ingot.converters.paths import Index, Key, Mark, Names, Step, compile_path
from ingot.converters.rows import BadRow, Batch, Json

# orjson reads integers beyond 64 bits as floats; such texts, found by a long run of digits, are
# read again by the slower parser of the standard library.
_LONG_NUMBER = re.compile(rb"-[0-9]{19}|[0-9]{20}")
_DIGITS = bytes(48 if 48 <= byte <= 57 else 32 for byte in range(256))
_ZERO_RUN = b"0" * 19
_STRIDE = 6
_SMALL = 4096
_STEP = 1 << 16
# What Python's json.dumps writes for numbers that JSON does not have; texts are passed over.
_NON_FINITE = re.compile(rb'"(?:[^"\\]|\\.)*+"?|-?Infinity|NaN', re.DOTALL)
# No data set is nested like this; what walks a row may then be written as plain recursion.
MAX_DEPTH = 256


class JsonTextError(ValueError):
    """A text is no JSON; the message says what is wrong and at which character of the row."""


def has_long_digits(data: bytes) -> bool:
    """Return whether a block holds a run of at least 19 digits: the cheap test before `loads`."""
    if len(data) > _SMALL:  # such a run covers three neighbours among every sixth byte
        sixth = np.frombuffer(data, dtype=np.uint8)[::_STRIDE] - np.uint8(48) < 10
        if not (sixth[:-2] & sixth[1:-1] & sixth[2:]).any():
            return False
    return _ZERO_RUN in data.translate(_DIGITS)


def may_be_deep(data: bytes) -> bool:
    """Return whether a text may be nested too deeply: a cheap test before `loads`."""
    return len(data) > 2 * MAX_DEPTH and data.count(b"[") + data.count(b"{") > MAX_DEPTH


def _some_may_be_deep(rows: Sequence[bytes], text: bytes) -> bool:
    """Whether one of the rows of a text, a byte between each two, has brackets enough for that."""
    data = np.frombuffer(text, np.uint8)
    # In steps that stay in the cache. Both brackets that open differ from `[` in one bit at most.
    steps = range(0, max(1, len(data)), _STEP)
    opened = [np.flatnonzero(data[at : at + _STEP] & 0xDF == ord("[")) + at for at in steps]
    ends = np.cumsum([len(row) + 1 for row in rows])
    of_rows = np.diff(np.searchsorted(np.concatenate(opened), ends), prepend=0)
    return bool((of_rows > MAX_DEPTH).any())


def load_json(data: bytes) -> tuple[Json, int]:
    """Return the value of a JSON text, and how many numbers became null. Raises JSONDecodeError."""
    try:
        return orjson.loads(data), 0
    except orjson.JSONDecodeError:
        text, count = nullify_non_finite(data)
        if not count:
            raise
    try:
        return orjson.loads(text), count
    except orjson.JSONDecodeError:
        # A text of the same length, so that the error names the place in the data.
        return orjson.loads(_NON_FINITE.sub(_same_length_number, data)), count


def nullify_non_finite(data: bytes) -> tuple[bytes, int]:
    """Return a JSON text with null for `NaN` and infinities, and how many there were."""
    if b"NaN" not in data and b"Infinity" not in data:
        return data, 0
    found = [one.span() for one in _NON_FINITE.finditer(data) if not one[0].startswith(b'"')]
    ends = [0, *(end for _, end in found)]
    starts = [*(start for start, _ in found), len(data)]
    kept = [data[end:start] for end, start in zip(ends, starts, strict=True)]
    return b"null".join(kept), len(found)


def _same_length_number(found: re.Match[bytes]) -> bytes:
    return found[0] if found[0].startswith(b'"') else b"0".rjust(len(found[0]))


def parse_json(data: bytes) -> Json:
    """Return the value of a JSON text in UTF-8. Raises JsonTextError."""
    return parse_counted(data)[0]


def parse_counted(data: bytes) -> tuple[Json, int]:
    """As `parse_json`, with how many numbers that are not finite were read as null."""
    try:
        value, count = load_json(data)
    except orjson.JSONDecodeError as error:
        raise JsonTextError(f"{error.msg} at character {error.pos}") from error
    if may_be_deep(data) and is_deep(value):
        raise JsonTextError(f"nested more than {MAX_DEPTH} levels deep")
    if has_long_digits(data) and _LONG_NUMBER.search(data):
        return _parse_exactly(nullify_non_finite(data)[0] if count else data), count
    return value, count


def ends_early(data: bytes) -> bool:
    """Return whether nothing is wrong with a JSON text but that it ends before its value does."""
    try:
        text, _ = codecs.utf_8_decode(data)  # without a last character that is cut off itself
        load_json(text.encode())
    except orjson.JSONDecodeError as error:
        return error.pos >= len(text)
    except UnicodeDecodeError:
        return False
    return False


def is_deep(value: Json) -> bool:
    """Return whether a value is nested more than MAX_DEPTH levels deep."""
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
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise JsonTextError(str(error).partition(";")[0]) from error


# Columns cost little per row and much per batch.
BATCH_ROWS = 4096  # at most; of text one block of the file
TABLE_ROWS = 1024  # of a batch with an Arrow form or of a table in JSON
CHUNK_BYTES = 4 << 20  # of rows that come one by one, about
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
    """Consecutive rows of a file: values or `BrokenRow`, where known their keys and Arrow form."""

    values: Sequence[Json]
    keys: Sequence[str] | None = None
    table: Any | None = None
    sound: bool = False  # no value is `BrokenRow`: nobody has to look at each of them
    non_finite: Mapping[int, int] = field(default_factory=dict)  # by place, what was read as null


ChunkReader = Callable[[], Iterator[RowChunk]]


def row_excerpt(data: bytes | str) -> str:
    """Return the start of a broken row, as text that can be shown and stored."""
    if isinstance(data, bytes):
        return (
            data[: EXCERPT_CHARACTERS * 4].decode("utf-8", "replace")[:EXCERPT_CHARACTERS].strip()
        )
    return data[:EXCERPT_CHARACTERS].encode("utf-8", "replace").decode().strip()


def join_parts(parts: Iterable[bytes], limit: int = MAX_ROW_BYTES) -> bytes | BrokenRow:
    """Return a whole file as one row; broken where it has more than `limit` bytes."""
    data: list[bytes] = []
    size = 0
    for part in parts:
        size += len(part)
        data.append(part)
        if size > limit:
            problem = f"file of more than {limit >> 20} MiB as one row"
            return BrokenRow(problem, row_excerpt(data[0]))
    return b"".join(data)


def rows_of_columns(names: Iterable[str], columns: Sequence[Sequence[Json]]) -> list[Json]:
    """Return rows as objects, filled column by column, which takes far less work."""
    rows: list[Json] = [{} for _ in columns[0]] if columns else []
    for name, values in zip(names, columns, strict=False):
        for row, value in zip(rows, values, strict=True):
            row[name] = value
    return rows


def chunk_sized_rows(
    rows: Iterator[tuple[Any, int]],
    to_chunk: Callable[[list[Any]], RowChunk] = lambda held: RowChunk(values=held),
) -> Iterator[RowChunk]:
    """Yield chunks of rows that come with their sizes.

    Rows before an error are given before it is raised.
    """
    held: list[Any] = []
    size = 0
    try:
        for row, cost in rows:
            held.append(row)
            size += cost
            if size > CHUNK_BYTES or len(held) == BATCH_ROWS:
                yield to_chunk(held)
                held, size = [], 0
    except SourceError:
        if held:
            yield to_chunk(held)
        raise
    if held:
        yield to_chunk(held)


def parse_sound_rows(rows: Sequence[bytes], text: bytes) -> RowChunk | None:
    """Return the values of rows, in `text` with a byte between each two.

    None: look closer at one.
    """
    if has_long_digits(text) or _some_may_be_deep(rows, text):
        return None
    try:
        return RowChunk(values=[orjson.loads(row) for row in rows], sound=True)
    except orjson.JSONDecodeError:
        return None


def parse_rows(rows: Sequence[bytes | None]) -> RowChunk:
    """Return the values of JSON texts (None = too long), `BrokenRow` for what is not JSON."""
    texts = [row for row in rows if row]
    sound = parse_sound_rows(texts, b"\n".join(texts)) if len(texts) == len(rows) else None
    return sound or chunk_of_counted([parse_row(row) for row in rows])


def chunk_of_counted(rows: Sequence[tuple[Json, int]]) -> RowChunk:
    """Return the chunk of some values, each with the number of what was read as null in it."""
    counts = {place: count for place, (_, count) in enumerate(rows) if count}
    return RowChunk(values=[value for value, _ in rows], non_finite=counts)


def parse_row(row: bytes | None) -> tuple[Json, int]:
    """Return the value of one JSON text, or `BrokenRow`, and how many numbers became null."""
    if row is None:
        return BrokenRow(f"line of more than {MAX_ROW_BYTES >> 20} MiB", ""), 0
    try:
        return parse_counted(row)
    except JsonTextError as error:
        return BrokenRow(str(error), row_excerpt(row)), 0


def to_batches(
    name: str, stretches: Iterator[RowChunk], fields: Sequence[str] = (), *, first: int = 0
) -> Iterator[Batch]:
    """Number the rows of a file from `first` and give them as batches of at most BATCH_ROWS.

    `fields` are the paths of strings that hold JSON; a row whose text does not parse becomes a
    `bad_json` row.
    """
    for stretch in stretches:
        most = BATCH_ROWS if stretch.table is None else TABLE_ROWS
        for start in range(0, len(stretch.values), most):
            part = slice_chunk(stretch, start, start + most)
            part = _parse_chunk_fields(part, fields) if fields else part
            yield _number_batch(name, first + start, part)
        first += len(stretch.values)


def slice_chunk(stretch: RowChunk, start: int, stop: int) -> RowChunk:
    """Return the rows of a chunk from `start` to `stop`."""
    if start == 0 and stop >= len(stretch.values):
        return stretch
    table = stretch.table
    return RowChunk(
        values=stretch.values[start:stop],
        keys=None if stretch.keys is None else stretch.keys[start:stop],
        table=None if table is None else table.slice(start, stop - start),
        sound=stretch.sound,
        non_finite={p - start: n for p, n in stretch.non_finite.items() if start <= p < stop},
    )


def _number_batch(name: str, first: int, part: RowChunk) -> Batch:
    values = part.values
    non_finite = [(first + place, count) for place, count in part.non_finite.items()]
    whole = Batch(
        file=name,
        rows=range(first, first + len(values)),
        values=values,
        keys=part.keys,
        table=part.table,
        non_finite=non_finite,
    )
    broken = [] if part.sound else [p for p, value in enumerate(values) if type(value) is BrokenRow]
    if not broken:
        return whole
    gone = frozenset(broken)
    kept = [place for place in range(len(values)) if place not in gone]
    bad = [to_bad_row(first + place, values[place]) for place in broken]
    table = None if part.table is None else part.table.take(np.array(kept, dtype=np.int64))
    return replace(whole.take(kept, bad), table=table, non_finite=non_finite)


def to_bad_row(row: int, broken: BrokenRow) -> BadRow:
    """Return the public form of a broken row at its place."""
    return BadRow(row=row, **asdict(broken))


def _parse_chunk_fields(part: RowChunk, fields: Sequence[str]) -> RowChunk:
    """The same rows with the JSON of their text fields parsed; the Arrow form no longer applies."""
    rows = []
    for place, row in enumerate(part.values):
        counts = [part.non_finite.get(place, 0)]
        value = row if type(row) is BrokenRow else parse_fields(row, fields, counts)
        rows.append((value, 0 if type(value) is BrokenRow else sum(counts)))
    return replace(chunk_of_counted(rows), keys=part.keys)


def parse_fields(row: Json, fields: Sequence[str], counts: list[int] | None = None) -> Json:
    """Replace the texts at these paths by the JSON they hold; else `BrokenRow` (`bad_json`).

    The fields are parsed in order, so that a later one may lead into what an earlier one gave.
    What is missing or null stays as it is, and blank texts become null. To `counts` is added how
    many numbers that are not finite each text holds.
    """
    counts = [] if counts is None else counts
    for path in fields:
        if row.__class__ is dict and path in row and path.isidentifier():  # the usual case
            parsed = _parse_text(row[path], path, counts)
            row = parsed if type(parsed) is BrokenRow else {**row, path: parsed}
        else:
            change = partial(_parse_text, path=path, counts=counts)
            row = change_at(row, compile_path(path).steps, change)
        if type(row) is BrokenRow:
            return row
    return row


def change_at(value: Json, steps: Sequence[Step], change: Callable[[Json], Json]) -> Json:
    """Return a value with all that a path leads to changed.

    `BrokenRow` where a change gives that.
    """
    if not steps:
        return change(value)
    copy = value
    for place, left in _inner_places(value, steps[0]):
        inner = change_at(value[place], (*left, *steps[1:]), change)
        if type(inner) is BrokenRow:
            return inner
        copy = value.copy() if copy is value else copy
        copy[place] = inner
    return copy


def _inner_places(value: Json, step: Step) -> Iterable[tuple[str | int, tuple[Step, ...]]]:
    """The keys or places that a step leads to, with what is left of a run of names."""
    if isinstance(value, dict):
        if isinstance(step, Names):
            return next(([run] for run in _name_runs(step.names) if run[0] in value), ())
        if isinstance(step, Mark) and step.mark == "*":
            return [(key, ()) for key in value]
        return [(step.name, ())] if isinstance(step, Key) and step.name in value else ()
    if not isinstance(value, list):
        return ()
    if isinstance(step, Mark) and step.mark == "[*]":
        return [(place, ()) for place in range(len(value))]
    if isinstance(step, Index) and -len(value) <= step.place < len(value):
        return [(step.place, ())]
    return ()


@lru_cache(maxsize=4096)
def _name_runs(names: tuple[str, ...]) -> tuple[tuple[str, tuple[Step, ...]], ...]:
    """The keys that a run of names may begin with, longest first, and what follows each."""
    ends = range(len(names), 0, -1)
    return tuple((".".join(names[:n]), (Names(names[n:]),) if names[n:] else ()) for n in ends)


def _parse_text(value: Json, path: str, counts: list[int]) -> Json:
    if not isinstance(value, str):
        return value
    if not value.strip():
        return None
    try:
        parsed, count = parse_counted(value.encode())
    except JsonTextError as error:
        return BrokenRow(str(error), row_excerpt(value), "bad_json", path)
    counts.append(count)
    return parsed
