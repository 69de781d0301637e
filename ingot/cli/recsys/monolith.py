"""`ingot monolith convert`, `cat` and `stats`."""

import json
import os
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ingot.cli import command as o
from ingot.cli.command import SettingError, command_options, run_job
from ingot.cli.console import (
    JobOptions,
    plain_text,
    print_json,
    progress_meter,
    stderr_console,
    stdout_console,
)
from ingot.cli.display import note_rows, print_figures, print_grid
from ingot.converters.convert.options import Overwrite
from ingot.converters.errors import ExitCode
from ingot.converters.output.sharding import Spread
from ingot.converters.recsys.monolith.contract import REASONS
from ingot.converters.recsys.monolith.convert.settings import Filters, Settings
from ingot.converters.recsys.monolith.frames.framing import StreamHints
from ingot.converters.settings import Setting

if TYPE_CHECKING:
    from rich.console import Console

    from ingot.converters.recsys.monolith.convert.job import ConversionResult
    from ingot.converters.rows import Json


_Where = Annotated[
    str,
    Setting(
        "File, folder, glob or fsspec URL; - for standard input.", metavar="IN", positional=True
    ),
]
_CONTROL: Final = {code: f"\\u{code:04x}" for code in range(0x7F, 0xA0)}


@command_options
def show_monolith_rows(
    *,
    where: _Where,
    limit: Annotated[
        int | None, Setting("Show only the first N rows.", metavar="N", minimum=0, default="all")
    ] = None,
    feature: Annotated[
        tuple[str, ...],
        Setting("Show only this feature. Repeatable.", metavar="NAME", repeatable=True),
    ] = (),
    hints: StreamHints,
    as_json: Annotated[
        bool, Setting("Print one JSON object per line, nothing shortened.", flag="json")
    ] = False,
) -> None:
    """Show rows: LineId, labels, and features with their values; fids as slot:signature.

    Records that cannot be read are reported on stderr and skipped; the exit code is 1 then.
    """
    console = None if as_json else stdout_console()
    bad_records = Counter[str]()
    with _ignore_closed_pipe():
        for document in islice(_row_documents(where, hints, feature or None, bad_records), limit):
            _write_document(console, document)
        sys.stdout.flush()
    if bad_records:
        raise typer.Exit(ExitCode.FAILED)


def _row_documents(
    where: str, hints: StreamHints, features: Collection[str] | None, bad_records: Counter[str]
) -> "Iterator[dict[str, Json]]":
    """Yield documents of rows; bad records are reported and counted by stream."""
    from ingot.converters.errors import redact_urls
    from ingot.converters.recsys.monolith.inspect.documents import row_documents
    from ingot.converters.recsys.monolith.record_index import Bad, describe_bad
    from ingot.converters.recsys.monolith.streams import open_streams

    notes, rows = stderr_console(), 0

    def print_note(text: str, style: str = "") -> None:
        notes.print(plain_text(redact_urls(text), style), soft_wrap=True)

    for stream in open_streams(where, hints):
        if stream.guessed:
            print_note(f"{stream.where}: read as {stream.told}")
        for part in stream.parts:
            if isinstance(part, Bad):
                bad_records[stream.where] += 1
                print_note(f"{stream.where}: {describe_bad(part)}", "yellow")
                continue
            yield from row_documents(part, rows, features)
            rows += len(part)


def _write_document(console: "Console | None", document: "dict[str, Json]") -> None:
    if console is None:
        line = json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        sys.stdout.write(line.translate(_CONTROL) + "\n")
        return
    from ingot.converters.recsys.monolith.inspect.documents import row_cells, row_heading

    console.print(plain_text(row_heading(document), "bold"))
    print_grid(console, list(row_cells(document)))


@contextmanager
def _ignore_closed_pipe() -> Iterator[None]:
    """Ignore that a reader such as head has closed the pipe."""
    try:
        yield
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123 - what is flushed at the exit


@command_options
def show_monolith_stats(*, where: _Where, hints: StreamHints, as_json: o.Json = False) -> None:
    """Show statistics of streams: features and fill rates, slots, labels, LineIds.

    Records that cannot be read are counted by reason and skipped.
    """
    from ingot.converters.progress import Progress
    from ingot.converters.recsys.monolith.inspect.counter import RowCounter
    from ingot.converters.recsys.monolith.inspect.tables import figure_sections
    from ingot.converters.recsys.monolith.record_index import Bad
    from ingot.converters.recsys.monolith.streams import open_streams

    counting = RowCounter()
    with progress_meter() as watch:
        for number, stream in enumerate(open_streams(where, hints)):
            counting.begin(stream.where, stream.told)
            for part in stream.parts:
                if isinstance(part, Bad):
                    counting.bad(stream.where, part)
                    continue
                counting.add(part)
                watch(
                    Progress(
                        stage="count",
                        shards_done=number,
                        shards=number + 1,
                        rows=counting.rows,
                        records=counting.records,
                    )
                )
    figures = counting.figures()
    print_figures(figures, figure_sections, as_json=as_json, apart=True)


@command_options
def convert_monolith(
    *,
    where: _Where,
    out: Annotated[
        str,
        Setting(
            "File for a file, folder (or s3://BUCKET/DIR) for a folder; - for standard output.",
            metavar="OUT",
            positional=True,
        ),
    ],
    settings: Settings,
    filters: Filters,
    overwrite: Overwrite = False,
    spread: Spread,
    watching: JobOptions,
    as_json: o.Json = False,
) -> None:
    """Convert streams of Examples, ExampleBatches and Instances, and Parquet tables.

    Rejected records are listed in OUT.rejects.jsonl, in OUT/rejects.jsonl for a folder, or on
    standard error.
    """
    from ingot.converters.recsys.monolith.convert.job import convert

    if filters.negative_rate is None and filters != replace(filters, seed=0, negative=_NEGATIVE):
        raise SettingError("--negative and --seed need --negative-rate", "negative")
    if as_json and out == "-":
        raise SettingError("--json and records cannot share stdout: name a file as OUT", "as_json")
    settings = replace(settings, filters=filters)
    with run_job(watching, "monolith convert", as_json=as_json) as progress:
        done = convert(where, out, settings, overwrite=overwrite, progress=progress, spread=spread)
    if as_json:
        print_json(done.document())
        return
    console = stderr_console() if done.out == "-" else stdout_console()
    print_grid(console, list(_summary_lines(done, settings)))


_NEGATIVE = Filters().negative


def _summary_lines(done: "ConversionResult", settings: Settings) -> Iterator[tuple[str, str]]:
    counts = done.counts
    yield "rows", f"{counts.written:,} of {counts.rows:,}"
    if settings.target == "examplebatch":
        early_text = f", {counts.early:,} of them ended early" if counts.early else ""
        yield "batches", f"{counts.batches:,}{early_text}"
    for reason, rows in sorted(counts.filtered.items()):
        yield "left out", f"{rows:,}: {reason}"
    for reason, times in sorted(counts.rejects.items()):
        yield "rejected", f"{times:,}: {REASONS[reason]}"
    if done.rejects:
        yield "", f"each is listed with its position in {done.rejects}"
    yield from note_rows([*_summary_notes(done), *done.notes])
    if done.out != "-":
        yield "files", done.out


def _summary_notes(done: "ConversionResult") -> Iterator[str]:
    """Yield what is not an error but should be known."""
    counts = done.counts
    if counts.lacking:
        yield f"{counts.lacking:,} rows lack uid, req_time or sample_rate in the LineId"
    if done.unmatched:
        yield f"no feature matches {', '.join(done.unmatched)}"
    if counts.filled:
        yield f"{counts.filled:,} unset features stand for those that a row of a batch lacks"
    if counts.lost_sort_ids:
        why = "the framing has none, or they differ within a batch"
        yield f"{counts.lost_sort_ids:,} rows have sort_ids that are left out: {why}"
    if done.reordered:
        yield f"{done.reordered:,} rows have their features in another order than the columns"
    for name, times in sorted(counts.lost.items()):
        yield f"{times:,} Instances have what an Example has no place for: {name}"
