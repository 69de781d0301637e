"""`ingot monolith convert`: convert Examples, ExampleBatches and tables into each other."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from ingot.cli import options as o
from ingot.cli.console import print_json, progress_meter, stderr_console, stdout_console
from ingot.cli.display import note_rows, print_grid
from ingot.cli.options import command_options
from ingot.converters.convert.options import Overwrite
from ingot.converters.recsys.monolith.contract import REASONS
from ingot.converters.recsys.monolith.convert.settings import Filters, Settings
from ingot.converters.settings import Setting

if TYPE_CHECKING:
    from ingot.converters.recsys.monolith.convert.job import ConversionResult


@command_options
def convert_monolith(
    *,
    where: Annotated[
        str,
        Setting("File, folder, glob or URL; - for standard input.", metavar="IN", positional=True),
    ],
    out: Annotated[
        str,
        Setting(
            "File for a file, folder for a folder; - for standard output.",
            metavar="OUT",
            positional=True,
        ),
    ],
    settings: Settings,
    filters: Filters,
    overwrite: Overwrite = False,
    as_json: o.Json = False,
) -> None:
    """Convert streams of Examples, ExampleBatches and Instances, and Parquet tables.

    Rejected records are listed in OUT.rejects.jsonl, in OUT/rejects.jsonl for a folder, or on
    standard error.
    """
    from ingot.converters.recsys.monolith.convert.job import convert

    if filters.negative_rate is None and filters != replace(filters, seed=0, negative=_NEGATIVE):
        raise typer.BadParameter("--negative and --seed need --negative-rate")
    if as_json and out == "-":
        raise typer.BadParameter("--json and records cannot share stdout: name a file as OUT")
    settings = replace(settings, filters=filters)
    with progress_meter() as progress:
        done = convert(where, out, settings, overwrite=overwrite, progress=progress)
    if as_json:
        print_json(done.document())
        return
    console = stderr_console() if done.out == "-" else stdout_console()
    print_grid(console, list(_summary_lines(done, settings)))


_NEGATIVE = Filters().negative


def _summary_lines(done: "ConversionResult", settings: Settings) -> Iterator[tuple[str, str]]:
    counts = done.counts
    yield "rows", f"{counts['written']:,} of {counts['rows']:,}"
    if settings.target == "examplebatch":
        early = f", {counts['early']:,} of them ended early" if counts["early"] else ""
        yield "batches", f"{counts['batches']:,}{early}"
    for reason, rows in counts["filtered"].items():
        yield "left out", f"{rows:,}: {reason}"
    for reason, times in counts["rejects"].items():
        yield "rejected", f"{times:,}: {REASONS[reason]}"
    if done.rejects:
        yield "", f"each is listed with its position in {done.rejects}"
    yield from note_rows([*_summary_notes(done), *done.notes])
    if done.out != "-":
        yield "files", done.out


def _summary_notes(done: "ConversionResult") -> Iterator[str]:
    """Yield what is not an error but should be known."""
    counts = done.counts
    if counts["lacking"]:
        yield f"{counts['lacking']:,} rows lack uid, req_time or sample_rate in the LineId"
    if done.unmatched:
        yield f"no feature matches {', '.join(done.unmatched)}"
    if counts["filled"]:
        yield f"{counts['filled']:,} unset features stand for those that a row of a batch lacks"
    if counts["lost_sort_ids"]:
        yield f"{counts['lost_sort_ids']:,} rows have sort_ids that differ within a batch: left out"
    if done.reordered:
        yield f"{done.reordered:,} rows have their features in another order than the columns"
    for name, times in counts["lost"].items():
        yield f"{times:,} Instances have what an Example has no place for: {name}"
