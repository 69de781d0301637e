"""Rows for a trainer as numbered Parquet files, `SPLIT-00000.parquet`."""

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from ingot.converters.commit import writing
from ingot.converters.record_kinds import Record

GROUP_ROWS: Final = 1_000
GROUP_CHARS: Final = 16 << 20  # a row group is built in memory
PART_BYTES: Final = 256 << 20  # trainers read several files in parallel


def write_parts(
    folder: Path, split: str, rows: Iterable[Record], schema: pa.Schema, *, part_bytes: int
) -> list[str]:
    """Write rows in order; a part ends with the row group that finds it at `part_bytes`.

    The bytes depend on rows, schema and `part_bytes` alone.

    Returns:
        The names of the files.

    Raises:
        OutputError: the folder cannot be written.
    """
    names: list[str] = []
    groups = _groups(rows)
    for first in groups:
        name = f"{split}-{len(names):05d}.parquet"
        with writing(folder / name):
            _write_part(folder / name, itertools.chain([first], groups), schema, part_bytes)
        names.append(name)
    return names


def _write_part(
    path: Path, groups: Iterator[list[Record]], schema: pa.Schema, part_bytes: int
) -> None:
    with (
        pa.OSFile(str(path), "wb") as file,
        pq.ParquetWriter(
            file, schema, compression="zstd", compression_level=1, write_statistics=False
        ) as writer,
    ):
        for group in groups:
            writer.write_table(pa.Table.from_pylist(group, schema))
            if file.tell() >= part_bytes:
                return


def _groups(rows: Iterable[Record]) -> Iterator[list[Record]]:
    group: list[Record] = []
    chars = 0
    for row in rows:
        group.append(row)
        chars += _chars(row)
        if len(group) == GROUP_ROWS or chars >= GROUP_CHARS:
            yield group
            group, chars = [], 0
    if group:
        yield group


def _chars(row: Record) -> int:
    texts = [value for value in row.values() if isinstance(value, str)]
    lists = [value for value in row.values() if isinstance(value, list)]
    return sum(map(len, texts)) + sum(len(one["content"]) for said in lists for one in said)
