"""Hive-style folders: in `lang=en/year=2024/part.parquet`, `lang` and `year` are columns."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa

from ingot.converters.rows import Json
from ingot.converters.sources.facts import SourceFile
from ingot.converters.sources.formats.arrow import ArrowRows, make_lazy_rows
from ingot.converters.sources.formats.row_chunks import RowChunk
from ingot.converters.sources.tables.table_folders import TableFile

_FOLDER: Final = re.compile(r"([^=]{1,255})=([^=]{0,255})")
_NULL: Final = "__HIVE_DEFAULT_PARTITION__"


def read_partitions(files: Sequence[SourceFile]) -> tuple[SourceFile, ...]:
    """Return the files with the columns in their folder names, if all files have the same ones.

    A column has 32-bit whole numbers if Arrow reads every value as one, else texts.
    """
    folders = [_named_folders(file.name) for file in files]
    names = [[name for name, _ in pairs] for pairs in folders]
    if not names or not names[0] or len(set(names[0])) < len(names[0]):
        return tuple(files)
    if any(name != names[0] for name in names) or isinstance(files[0].place, TableFile):
        return tuple(files)
    columns = [_typed([pairs[place][1] for pairs in folders]) for place in range(len(names[0]))]
    rows = zip(*columns, strict=True)
    return tuple(
        replace(file, facts=replace(file.facts, partitions=tuple(zip(names[0], row, strict=True))))
        for file, row in zip(files, rows, strict=True)
    )


def _named_folders(name: str) -> list[tuple[str, str | None]]:
    """The names and values of the folders of a file, outermost first."""
    parts = (_FOLDER.fullmatch(part) for part in name.split("/")[:-1])
    pairs = [(unquote(part[1]), unquote(part[2])) for part in parts if part]
    return [(key, None if value == _NULL else value) for key, value in pairs]


def _typed(values: list[str | None]) -> list[Any]:
    try:
        return pa.array(values, pa.string()).cast(pa.int32()).to_pylist()  # type: ignore[no-any-return]
    except pa.ArrowInvalid:
        return values


def add_partitions(file: SourceFile, chunks: Iterator[RowChunk]) -> Iterator[RowChunk]:
    """Yield the rows of a file with the columns of its folders; the file's own columns win."""
    wanted = dict(file.facts.partitions)
    return (_add(chunk, wanted) for chunk in chunks)


def _add(chunk: RowChunk, wanted: dict[str, Json]) -> RowChunk:
    if chunk.table is None or not isinstance(chunk.values, ArrowRows):
        values = [{**row, **wanted, **row} if type(row) is dict else row for row in chunk.values]
        return replace(chunk, values=values, table=None)
    table = chunk.table
    for name, value in wanted.items():
        if name not in table.schema.names:
            kind = pa.int32() if isinstance(value, int) else pa.string()
            table = table.append_column(name, pa.repeat(pa.scalar(value, kind), table.num_rows))
    lazy = make_lazy_rows(table, table.schema.names, valid=True)
    return chunk if lazy is None else replace(chunk, values=lazy[0], table=lazy[1])


def drop_partitions(row: Json, file: SourceFile) -> Json:
    """Return a row without the columns that the folders of its file name."""
    names = [name for name, _ in file.facts.partitions]
    if not names or not isinstance(row, dict):
        return row
    return {key: value for key, value in row.items() if key not in names}
