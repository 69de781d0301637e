"""Unified records from JSONL files, and what is wrong with a line that holds none.

Errors name file and line (from 1); the values themselves are never shown.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import orjson
import pyarrow as pa

from ingot.converters.errors import ConversionError
from ingot.converters.record_kinds import KINDS, Record, RecordKind, to_batch
from ingot.converters.rows import Json

READ_BYTES: Final = 16 << 20  # of lines per batch

_BOM: Final = b"\xef\xbb\xbf"
_AGAIN: Final = "write the records again"
_SHAPES: Final = "docs/tokens.md shows both shapes"
_MAIN: Final[dict[RecordKind, str]] = {"sft": "messages", "pt": "text"}  # the key that tells
_FOUND: Final = {
    type(None): "null",
    bool: "a truth value",
    int: "a number",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "an object",
}
_WANTED: Final[dict[pa.DataType, tuple[tuple[type, ...], str]]] = {
    pa.string(): ((str,), "a text"),
    pa.bool_(): ((bool,), "true or false"),
    pa.int64(): ((int,), "a whole number of 64 bits"),
    pa.float64(): ((int, float), "a number"),
}


def read_lines(file: Path, rows: int) -> Iterator[tuple[int, list[Record]]]:
    """The records of a file, at most `rows` or about `READ_BYTES` at once, with their first line.

    A byte order mark at the start is passed over.

    Raises:
        ConversionError: the file cannot be read, or a line is no object with `text` or `messages`.
    """
    batch: list[Record] = []
    first = 1
    size = 0
    for number, line in enumerate(_lines(file), start=1):
        batch.append(_parsed(file, number, line))
        size += len(line)
        if len(batch) == rows or size >= READ_BYTES:
            yield first, batch
            batch, size, first = [], 0, number + 1
    if batch:
        yield first, batch


def read_line_batches(file: Path, rows: int) -> Iterator[pa.RecordBatch]:
    """The same as batches of the schema of the first record's kind.

    Raises:
        ConversionError: the file cannot be read, or a line holds no record of that kind.
    """
    kind: RecordKind | None = None
    for first, records in read_lines(file, rows):
        kind = kind or kind_of(records[0])
        try:
            yield to_batch(records, kind, where=str(file))
        except ConversionError as error:
            raise _located(file, first, records, kind) from error


def kind_of(record: Record) -> RecordKind:
    """The kind of a record as its keys tell it."""
    return "sft" if "messages" in record else "pt"


def _lines(file: Path) -> Iterator[bytes]:
    try:
        with file.open("rb") as lines:
            first = next(lines, b"").removeprefix(_BOM)
            if first:
                yield first
            yield from lines
    except OSError as error:
        raise ConversionError(str(file), f"cannot be read: {error.strerror}") from error


def _parsed(file: Path, number: int, line: bytes) -> Record:
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        problem = f"line {number}: {_unparsed(line, error)}"
        raise ConversionError(str(file), problem, _AGAIN) from error
    if not isinstance(record, dict):
        problem = f"line {number}: no unified record, {_FOUND[type(record)]} and no object"
        raise ConversionError(str(file), problem, _SHAPES)
    if not ({"text", "messages"} & record.keys()):
        problem = f"line {number}: no unified record, it has neither text nor messages"
        raise ConversionError(str(file), problem, "convert the data set first: `ingot convert`")
    return record


def _unparsed(line: bytes, error: orjson.JSONDecodeError) -> str:
    if not line.strip():
        return "empty"
    try:
        line.decode()
    except UnicodeDecodeError as undecoded:
        return f"no UTF-8 at byte {undecoded.start + 1}"
    return f"not JSON: {error.msg}, at character {error.colno}"


def _located(file: Path, first: int, records: list[Record], kind: RecordKind) -> ConversionError:
    """The first of some records, not all of which fit, that does not."""
    for number, record in enumerate(records, start=first):
        try:
            to_batch([record], kind, where="")
        except ConversionError:
            problem = f"line {number}: {_misfit(record, kind)}"
            return ConversionError(str(file), problem, _SHAPES)
    last = first + len(records) - 1
    problem = f"lines {first} to {last}: too much text for one batch"
    return ConversionError(str(file), problem, "write shorter records")


def _misfit(record: Record, kind: RecordKind) -> str:
    """What keeps a record from fitting."""
    if _MAIN[kind] not in record:
        return f"a {kind_of(record)} record in a file of {kind} records"
    fields = [one for one in KINDS[kind].schema if one.name in record or one.name != "tools"]
    said = _wrong(record, pa.struct(fields), "")
    return f"a {kind} record that does not fit its schema{f': {said}' if said else ''}"


def _wrong(value: Json, wanted: pa.DataType, path: str) -> str | None:
    """The first place below `path` that is not of the type that is wanted, in words."""
    if pa.types.is_struct(wanted):
        return _wrong_object(value, wanted, path)
    if pa.types.is_list(wanted):
        if not isinstance(value, list):
            return f"{path} is {_FOUND[type(value)]}, not a list"
        found = (_wrong(one, wanted.value_type, f"{path}[{n}]") for n, one in enumerate(value))
        return next(filter(None, found), None)
    types, name = _WANTED[wanted]
    if value is None or (type(value) in types and _fits(value, wanted)):
        return None
    return f"{path} is {_FOUND[type(value)]}, not {name}"


def _wrong_object(value: Json, wanted: pa.DataType, path: str) -> str | None:
    if not isinstance(value, dict):
        return f"{path} is {_FOUND[type(value)]}, not an object"
    for field in wanted:
        place = f"{path}.{field.name}" if path else field.name
        if field.name not in value:
            return f"{place} is missing"
        if said := _wrong(value[field.name], field.type, place):
            return said
    return None


def _fits(value: Json, wanted: pa.DataType) -> bool:
    return wanted != pa.int64() or value in range(-(1 << 63), 1 << 63)
