"""Read ingot records back from Parquet and JSONL, and say what is wrong with a line."""

from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from ingot.converters.errors import ConversionError, error_text
from ingot.converters.records.schema import (
    KINDS,
    RECORD_KEY,
    Record,
    RecordKind,
    to_batch,
    to_records,
)
from ingot.converters.records.writers import part_order
from ingot.converters.rows import Json, group_sized

READ_ROWS: Final = 1_000


def record_files(location: Path | Sequence[Path]) -> list[Path]:
    """Return the parts of a folder, by number; files given as such, in the order given."""
    if not isinstance(location, Path):
        return [file for item in location for file in record_files(item)]
    if location.is_dir():
        parts = [f for f in location.glob("part-*") if f.suffix in (".parquet", ".jsonl")]
        return sorted(parts, key=lambda part: part_order(part.name))
    if not location.is_file():
        raise ConversionError(str(location), "no such file or folder", "name a folder of records")
    return [location]


def read_batches(
    location: Path | Sequence[Path], *, rows: int = READ_ROWS
) -> Iterator[pa.RecordBatch]:
    """Stream records as batches of `PT_SCHEMA` or `SFT_SCHEMA`, at most `rows` each, file by file.

    Args:
        location: a folder of parts or files, Parquet or JSONL.
        rows: records per batch; a batch of JSONL is also cut at 16 MiB of lines.

    Raises:
        ConversionError: a file is missing, cut, or holds no unified records.
    """
    for file in record_files(location):
        if file.suffix == ".parquet":
            yield from _parquet_batches(file, rows)
        else:
            yield from read_line_batches(file, rows)


def read_records(location: Path | Sequence[Path]) -> Iterator[Record]:
    """Stream records as dicts, the same from Parquet and JSONL (`tools` only if it is not null).

    Raises:
        ConversionError: a file is missing, cut, or holds no unified records.
    """
    for file in record_files(location):
        if file.suffix == ".parquet":
            for batch in _parquet_batches(file, READ_ROWS):
                yield from to_records(batch)
        else:
            for _, records in read_lines(file, READ_ROWS):
                yield from records


def kind_of_schema(schema: pa.Schema) -> RecordKind | None:
    """Return `pt` or `sft` as the Parquet metadata key `ingot.record` says, else None."""
    stated = (schema.metadata or {}).get(RECORD_KEY, b"")
    return next((kind for kind in KINDS if kind.encode() == stated), None)


def _parquet_batches(file: Path, rows: int) -> Iterator[pa.RecordBatch]:
    try:
        with pq.ParquetFile(file, pre_buffer=False) as parquet:  # else the file is in memory
            kind = kind_of_schema(parquet.schema_arrow)
            if kind is None or not parquet.schema_arrow.equals(KINDS[kind].schema):
                hint = "convert the data set first"
                raise ConversionError(str(file), "holds no ingot records", hint)
            for batch in parquet.iter_batches(batch_size=rows):
                batch.validate(full=True)  # Parquet readers do not look whether a text is UTF-8
                yield batch.replace_schema_metadata(KINDS[kind].schema.metadata)
    except (pa.ArrowException, OSError) as error:
        problem = f"not a readable Parquet file: {error}"
        raise ConversionError(str(file), problem, _WRITE_AGAIN) from error


READ_BYTES: Final = 16 << 20  # of lines per batch

_WRITE_AGAIN: Final = "write the records again"
_SHAPES: Final = "docs/tokens.md shows both shapes"
_MAIN: Final[dict[RecordKind, str]] = {"sft": "messages", "pt": "text"}  # the key that tells
_FOUND: Final = {
    **dict.fromkeys((int, float), "a number"),
    **{type(None): "null", bool: "a truth value", str: "a text", list: "a list", dict: "an object"},
}
_WANTED: Final[dict[pa.DataType, tuple[tuple[type, ...], str]]] = {
    pa.string(): ((str,), "a text"),
    pa.bool_(): ((bool,), "true or false"),
    pa.int64(): ((int,), "a whole number of 64 bits"),
    pa.float64(): ((int, float), "a number"),
}


def read_lines(file: Path, rows: int) -> Iterator[tuple[int, list[Record]]]:
    """Yield the records of a file with their first line, at most `rows` or `READ_BYTES` at once."""
    lines = enumerate(_file_lines(file), start=1)
    sized = ((_parse_record(file, number, line), len(line)) for number, line in lines)
    first = 1
    for batch in group_sized(sized, rows, READ_BYTES):
        yield first, batch
        first += len(batch)


def read_line_batches(file: Path, rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the same as batches of the schema of the first record's kind."""
    kind: RecordKind | None = None
    for first, records in read_lines(file, rows):
        kind = kind or kind_of(records[0])
        try:
            yield to_batch(records, kind, where=str(file))
        except ConversionError as error:
            raise _misfit_error(file, first, records, kind) from error


def kind_of(record: Record) -> RecordKind:
    """Return the kind of a record as its keys tell it."""
    return "sft" if "messages" in record else "pt"


def _file_lines(file: Path) -> Iterator[bytes]:
    try:
        with file.open("rb") as lines:
            yield from filter(None, (line.removeprefix(BOM_UTF8) for line in lines))
    except OSError as error:
        raise ConversionError(str(file), f"cannot be read: {error_text(error)}") from error


def _parse_record(file: Path, number: int, line: bytes) -> Record:
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        problem = f"line {number}: {_parse_problem(line, error)}"
        raise ConversionError(str(file), problem, _WRITE_AGAIN) from error
    if not isinstance(record, dict):
        problem = f"line {number}: not an ingot record but {_FOUND[type(record)]}"
        raise ConversionError(str(file), problem, _SHAPES)
    if not ({"text", "messages"} & record.keys()):
        problem = f"line {number}: not an ingot record, it has neither text nor messages"
        raise ConversionError(str(file), problem, "convert the data set first")
    return record


def _parse_problem(line: bytes, error: orjson.JSONDecodeError) -> str:
    if not line.strip():
        return "empty"
    try:
        line.decode()
    except UnicodeDecodeError as undecoded:
        return f"not UTF-8 at byte {undecoded.start + 1}"
    return f"not JSON: {error.msg}, at character {error.colno}"


def _misfit_error(
    file: Path, first: int, records: list[Record], kind: RecordKind
) -> ConversionError:
    """The first of some records, not all of which fit, that does not."""
    for number, record in enumerate(records, start=first):
        try:
            to_batch([record], kind, where="")
        except ConversionError:
            problem = f"line {number}: {_misfit_problem(record, kind)}"
            return ConversionError(str(file), problem, _SHAPES)
    last = first + len(records) - 1
    problem = f"lines {first} to {last}: too much text for one batch"
    return ConversionError(str(file), problem, "write shorter records")


def _misfit_problem(record: Record, kind: RecordKind) -> str:
    """What keeps a record from fitting."""
    if _MAIN[kind] not in record:
        return f"a {kind_of(record)} record in a file of {kind} records"
    fields = [one for one in KINDS[kind].schema if one.name in record or one.name != "tools"]
    problem = _type_problem(record, pa.struct(fields), "")
    return f"a {kind} record that does not fit its schema{f': {problem}' if problem else ''}"


def _type_problem(value: Json, wanted: pa.DataType, path: str) -> str | None:
    """The first place below `path` that is not of the type that is wanted, in words."""
    if pa.types.is_struct(wanted):
        if not isinstance(value, dict):
            return f"{path} is {_FOUND[type(value)]}, not an object"
        for field in wanted:
            place = f"{path}.{field.name}" if path else field.name
            if field.name not in value:
                return f"{place} is missing"
            if problem := _type_problem(value[field.name], field.type, place):
                return problem
        return None
    if pa.types.is_list(wanted):
        if not isinstance(value, list):
            return f"{path} is {_FOUND[type(value)]}, not a list"
        found = (
            _type_problem(one, wanted.value_type, f"{path}[{n}]") for n, one in enumerate(value)
        )
        return next(filter(None, found), None)
    types, name = _WANTED[wanted]
    fits = type(value) in types and (wanted != pa.int64() or -(1 << 63) <= value < 1 << 63)
    if value is None or fits:
        return None
    return f"{path} is {_FOUND[type(value)]}, not {name}"
