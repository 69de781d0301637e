"""Streams of a conversion as pieces of a job, each done by any process of any machine.

    000000/NAME.pb, rejects.jsonl    what the first stream became
    scan-000000/                     the columns that its rows need, of a table
    schema/                          the columns that the rows of all streams need

A piece that is there is whole.
"""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ingot.converters.json_yaml import encode
from ingot.converters.output.files import file_entry
from ingot.converters.output.pieces import do_piece, find_piece
from ingot.converters.recsys.monolith.convert.settings import Settings
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


@dataclass(frozen=True)
class StreamTask:
    """A stream, and the folder in which its piece appears."""

    file: Entry
    made: str  # what the converted stream is named
    settings: Settings
    folder: Path
    schema: Path  # of a table: the piece with the columns of all streams


def scan_stream(task: StreamTask) -> dict[str, Any]:
    """Find the columns that the rows of a stream need."""

    def scan(_: Path) -> dict[str, Any]:
        found = TableScan()
        with unchanged_files([task.file]):
            for rows in StreamConverter(task.file, task.settings).rows():
                found.add(rows)
        return found.to_document()

    return do_piece(task.folder, scan)


def join_scans(scans: list[dict[str, Any]], folder: Path) -> None:
    """Join the columns of all streams, in the order of these."""
    whole = TableScan()
    for one in scans:
        whole.join(one)
    do_piece(folder, lambda _: whole.to_document())


def convert_stream(task: StreamTask) -> dict[str, Any]:
    """Convert a stream; returns what became of it, see `ConversionRun.write_pieces`."""
    return do_piece(task.folder, partial(_convert_stream, task))


def _convert_stream(task: StreamTask, draft: Path) -> dict[str, Any]:
    filters = replace(task.settings.filters, matched=set())
    settings, path, scan = replace(task.settings, filters=filters), draft / task.made, TableScan()
    path.parent.mkdir(parents=True, exist_ok=True)
    with unchanged_files([task.file]):
        with path.open("wb") as out, (draft / REJECTS).open("wb") as rejects:
            stream = StreamConverter(task.file, settings, reject_writer(rejects))
            sink: Sink
            if settings.target == "parquet":
                scan.join(find_piece(task.schema))
                sink = TableSink(out, scan.schema(), stream.counts, scan)
            else:
                packed = settings.out_compression or "none"
                sink = SINKS[settings.target](out, settings, packed, stream.counts)
            stream.write_to(sink)
        entry = input_entry(task.file)
    bad = stream.first_bad
    return {
        "counts": encode(stream.counts),
        "matched": sorted(filters.matched),
        "reordered": scan.reordered,
        "first_bad": [bad.where, bad.problem] if bad else None,
        "input": entry,
        "file": file_entry(draft, Path(task.made)),
    }
