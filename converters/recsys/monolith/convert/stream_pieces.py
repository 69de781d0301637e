"""Streams of a conversion as files, and as pieces of a job that any process of any machine does.

    convert-000000/NAME.pb, rejects.jsonl         what the first stream became
    rewrite-000000/NAME.parquet, rejects.jsonl    the same with all columns, where the first rows
                                                  of the job do not have all

A piece that is there is whole.
"""

from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from ingot.converters.errors import SourceError
from ingot.converters.json_yaml import decode, encode
from ingot.converters.output.files import file_entry
from ingot.converters.output.pieces import do_piece
from ingot.converters.recsys.monolith.convert.settings import Counts, Settings
from ingot.converters.recsys.monolith.convert.stream import (
    SINKS,
    Sink,
    StreamConverter,
    reject_writer,
)
from ingot.converters.recsys.monolith.streams import REJECTS
from ingot.converters.recsys.monolith.tables.rows_to_arrow import TableSink
from ingot.converters.recsys.monolith.tables.schema import TableScan
from ingot.converters.sources.facts import input_entry, unchanged_files
from ingot.converters.sources.storage.listing import Entry

Columns = dict[str, Any]
"""The columns that rows need, as `TableScan.to_document` gives them."""
ReportRows = Callable[[int], object]
"""Called with how many rows were read since the last call."""


@dataclass(frozen=True, kw_only=True)
class StreamResult:
    """What became of one stream; `made` is the file that it became in an output folder."""

    name: str
    counts: Counts
    made: str | None = None
    first_bad: SourceError | None = None
    reordered: int = 0
    columns: Columns | None = None  # of a table: those that it was written with, and more it needs

    def document(self) -> dict[str, object]:
        """As manifests and printed JSON have it."""
        optional = {} if self.made is None else {"made": self.made}
        return {"name": self.name, **encode(self.counts), **optional}


def find_columns(file: Entry, settings: Settings, parts: int | None = None) -> Columns:
    """Find the columns that the rows of a stream need, or only those of its first parts."""
    scan = TableScan()
    with closing(StreamConverter(file, settings).rows()) as row_parts:
        for rows in islice(row_parts, parts):
            scan.add(rows)
    return scan.to_document()


def find_other_columns(first: Columns, columns: Iterable[Columns]) -> Columns | None:
    """Return the columns of all streams, where these are not those of the first rows."""
    joined = _join_columns(columns)
    return None if joined.schema().equals(_join_columns([first]).schema()) else joined.to_document()


def _join_columns(columns: Iterable[Columns]) -> TableScan:
    scan = TableScan()
    for one in columns:
        scan.join(one)
    return scan


def write_stream(
    file: Entry,
    settings: Settings,
    out: BinaryIO,
    rejects: BinaryIO,
    *,
    compression: str,
    columns: Columns | None,
    report: ReportRows,
) -> StreamResult:
    """Convert a stream; a table has `columns`, and lacks rows where these need others."""
    stream = StreamConverter(file, settings, reject_writer(rejects), report)
    scan = _join_columns([columns]) if columns else None
    sink: Sink
    if scan:
        sink = TableSink(out, scan.schema(), stream.counts, scan)
    else:
        sink = SINKS[settings.target](out, settings, compression, stream.counts)
    stream.write_to(sink)
    return StreamResult(
        name=file.name,
        counts=stream.counts,
        first_bad=stream.first_bad,
        reordered=scan.reordered if scan else 0,
        columns=scan.to_document() if scan else None,
    )


@dataclass(frozen=True)
class StreamTask:
    """A stream, and the folder in which its piece appears."""

    file: Entry
    made: str  # what the converted stream is named
    settings: Settings
    folder: Path
    columns: Columns | None  # of a table


def convert_stream(task: StreamTask, report: ReportRows = lambda _: None) -> dict[str, Any]:
    """Convert a stream into its piece; `read_piece` reads what this returns."""
    return do_piece(task.folder, partial(_convert_stream, task, report))


def _convert_stream(task: StreamTask, report: ReportRows, draft: Path) -> dict[str, Any]:
    filters = replace(task.settings.filters, matched=set())
    settings, path = replace(task.settings, filters=filters), draft / task.made
    compression = settings.out_compression or "none"
    path.parent.mkdir(parents=True, exist_ok=True)
    with unchanged_files([task.file]):
        with path.open("wb") as out, (draft / REJECTS).open("wb") as rejects:
            options: Any = {"compression": compression, "columns": task.columns, "report": report}
            done = write_stream(task.file, settings, out, rejects, **options)
        entry = input_entry(task.file)
    error = done.first_bad
    return {
        "counts": encode(done.counts),
        "matched": sorted(filters.matched),
        "reordered": done.reordered,
        "columns": done.columns,
        "first_bad": [error.where, error.problem] if error else None,
        "input": entry,
        "file": file_entry(draft, Path(task.made)),
    }


def read_piece(task: StreamTask, piece: dict[str, Any]) -> StreamResult:
    """Return what a piece says of its stream."""
    return StreamResult(
        name=task.file.name,
        counts=decode(Counts, piece["counts"]),
        made=task.made,
        first_bad=piece["first_bad"] and SourceError(*piece["first_bad"]),
        reordered=piece["reordered"],
    )
