"""`ingot monolith convert`: Examples, ExampleBatches and tables into each other."""

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ingot.cli import options as o
from ingot.cli.recsys.monolith_inspect import Compression, From
from ingot.converters.recsys.monolith.contract import REASONS

if TYPE_CHECKING:
    from ingot.converters.recsys.monolith.convert.job import ConversionResult


class To(StrEnum):
    """What is written."""

    example = "example"
    examplebatch = "examplebatch"
    parquet = "parquet"


class Fid(StrEnum):
    """The layout of feature ids."""

    v1 = "v1"
    v2 = "v2"


_STREAMS, _ROWS, _FEATURES, _TABLES, _RUN = "Streams", "Rows", "Features", "Tables", "Run"
_NEGATIVES = "0<=0"
_FRAMES = "sort_id, kafka_dump, kafka_dump_prefix with commas between, or lagrangex_header, or none"


def convert_monolith(
    source: Annotated[
        str,
        typer.Argument(
            metavar="IN",
            help="File, folder, glob or URL; - for standard input.",
            show_default=False,
        ),
    ],
    out: Annotated[
        str,
        typer.Argument(
            metavar="OUT",
            help="File for a file, folder for a folder; - for standard output.",
            show_default=False,
        ),
    ],
    kind: Annotated[From, typer.Option("--from", help="What is read.", show_default=False)],
    target: Annotated[To, typer.Option("--to", help="What is written.", show_default=False)],
    framing: Annotated[
        str,
        typer.Option(
            "--framing",
            metavar="FRAMING",
            help=f"Of what is read: {_FRAMES}.",
            rich_help_panel=_STREAMS,
        ),
    ] = "sort_id",
    out_framing: Annotated[
        str,
        typer.Option(
            "--out-framing",
            metavar="FRAMING",
            help="Of what is written; Monolith reads the default by its own defaults.",
            rich_help_panel=_STREAMS,
        ),
    ] = "sort_id",
    compression: Annotated[
        Compression | None,
        typer.Option(
            "--compression",
            help="Of what is read; told by name and content by default.",
            rich_help_panel=_STREAMS,
            show_default=False,
        ),
    ] = None,
    out_compression: Annotated[
        Compression | None,
        typer.Option(
            "--out-compression",
            help="Of what is written; by default as OUT's name says, else none.",
            rich_help_panel=_STREAMS,
            show_default=False,
        ),
    ] = None,
    batch_size: Annotated[
        int,
        typer.Option(
            "--batch-size",
            metavar="N",
            min=1,
            max=1 << 20,
            help="Rows of an ExampleBatch.",
            rich_help_panel=_STREAMS,
        ),
    ] = 512,
    shared: Annotated[
        bool,
        typer.Option(
            "--shared/--no-shared",
            help="Write a feature once that is equal in all rows of a batch.",
            rich_help_panel=_STREAMS,
        ),
    ] = True,
    labels: Annotated[
        list[str] | None,
        typer.Option(
            "--label",
            metavar="TEST",
            help="Keep rows whose label passes, as 0>=1: the first is at least 1. Repeatable.",
            rich_help_panel=_ROWS,
            show_default=False,
        ),
    ] = None,
    has: Annotated[
        list[str] | None,
        typer.Option(
            "--has",
            metavar="NAME",
            help="Keep rows that have a value of this feature. Repeatable.",
            rich_help_panel=_ROWS,
            show_default=False,
        ),
    ] = None,
    lacks: Annotated[
        list[str] | None,
        typer.Option(
            "--lacks",
            metavar="NAME",
            help="Keep rows that have none. Repeatable.",
            rich_help_panel=_ROWS,
            show_default=False,
        ),
    ] = None,
    negative_rate: Annotated[
        float | None,
        typer.Option(
            "--negative-rate",
            metavar="RATE",
            help="Keep this share of the negatives, and say so in their sample_rate.",
            rich_help_panel=_ROWS,
            show_default=False,
        ),
    ] = None,
    negative: Annotated[
        str,
        typer.Option(
            "--negative",
            metavar="TEST",
            help="Which rows are negatives.",
            rich_help_panel=_ROWS,
        ),
    ] = _NEGATIVES,
    seed: Annotated[
        int,
        typer.Option(
            "--seed",
            metavar="SEED",
            min=0,
            max=(1 << 64) - 1,
            help="Of the choice among negatives.",
            rich_help_panel=_ROWS,
        ),
    ] = 0,
    require_line_id: Annotated[
        bool,
        typer.Option(
            "--require-lineid",
            help="Reject rows without uid, req_time or sample_rate.",
            rich_help_panel=_ROWS,
        ),
    ] = False,
    features: Annotated[
        list[str] | None,
        typer.Option(
            "--feature",
            metavar="PATTERN",
            help="Keep features of such names only, as user_*. Repeatable.",
            rich_help_panel=_FEATURES,
            show_default=False,
        ),
    ] = None,
    drop_features: Annotated[
        list[str] | None,
        typer.Option(
            "--drop-feature",
            metavar="PATTERN",
            help="Leave features of such names out. Repeatable.",
            rich_help_panel=_FEATURES,
            show_default=False,
        ),
    ] = None,
    drop_raw: Annotated[
        bool,
        typer.Option("--drop-raw", help="Leave raw features out.", rich_help_panel=_FEATURES),
    ] = False,
    drop_unset: Annotated[
        bool,
        typer.Option(
            "--drop-unset",
            help="Leave features without a value out.",
            rich_help_panel=_FEATURES,
        ),
    ] = False,
    table: Annotated[
        Path | None,
        typer.Option(
            "--table",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="YAML or JSON: what the columns of Parquet files are; docs/monolith.md.",
            rich_help_panel=_TABLES,
            show_default=False,
        ),
    ] = None,
    fid: Annotated[
        Fid,
        typer.Option(
            "--fid",
            help="Layout of fids in columns of which nothing says it.",
            rich_help_panel=_TABLES,
        ),
    ] = Fid.v2,
    skip_bad: Annotated[
        bool,
        typer.Option(
            "--skip-bad",
            help="Count what cannot be used and go on; else the first ends it.",
            rich_help_panel=_RUN,
        ),
    ] = False,
    overwrite: o.OverwriteOption = False,
    as_json: o.JsonOption = False,
) -> None:
    """Convert streams of Examples, ExampleBatches and Instances, and Parquet tables.

    What was bad is told in OUT.rejects.jsonl, OUT/rejects.jsonl in a folder, or on standard error.
    """
    from ingot.cli.console import print_json, progress_meter
    from ingot.converters.errors import ConversionError
    from ingot.converters.recsys.monolith.convert.filters import Filters, LabelTest
    from ingot.converters.recsys.monolith.convert.job import convert as converted
    from ingot.converters.recsys.monolith.convert.settings import Settings
    from ingot.converters.recsys.monolith.frames.framing import Framing
    from ingot.converters.recsys.monolith.tables.table_file import load_table_file

    if negative_rate is None and (negative != _NEGATIVES or seed):
        raise typer.BadParameter("--negative and --seed need --negative-rate")
    if as_json and out == "-":
        raise typer.BadParameter("--json would stand between the records: name a file")
    try:
        settings = Settings(
            source=kind.value,
            target=target.value,
            framing=Framing.parse(framing),
            out_framing=Framing.parse(out_framing),
            compression=compression.value if compression else None,
            out_compression=out_compression.value if out_compression else None,
            batch_size=batch_size,
            shared=shared,
            filters=Filters(
                labels=tuple(map(LabelTest.parse, labels or ())),
                has=tuple(has or ()),
                lacks=tuple(lacks or ()),
                negative=LabelTest.parse(negative),
                negative_rate=negative_rate,
                seed=seed,
                features=tuple(features or ()),
                drop_features=tuple(drop_features or ()),
                drop_raw=drop_raw,
                drop_unset=drop_unset,
            ),
            require_line_id=require_line_id,
            skip_bad=skip_bad,
            table=load_table_file(table) if table else None,
            fid=fid.value,
        )
    except ConversionError as error:
        raise typer.BadParameter(str(error)) from error
    with progress_meter() as progress:
        done = converted(source, out, settings, overwrite=overwrite, progress=progress)
    if as_json:
        print_json(done.document())
    else:
        _print_summary(done, target)


def _print_summary(done: "ConversionResult", target: To) -> None:
    from ingot.cli.console import stderr_console, stdout_console
    from ingot.cli.display import print_grid

    console = stderr_console() if done.out == "-" else stdout_console()
    print_grid(console, list(_summary_lines(done, target)))


def _summary_lines(done: "ConversionResult", target: To) -> Iterator[tuple[str, str]]:
    counts = done.counts
    yield "rows", f"{counts['written']:,} of {counts['rows']:,}"
    if target is To.examplebatch:
        early = f", {counts['early']:,} of them ended early" if counts["early"] else ""
        yield "batches", f"{counts['batches']:,}{early}"
    for reason, rows in counts["filtered"].items():
        yield "left out", f"{rows:,}: {reason}"
    for reason, times in counts["rejects"].items():
        yield "rejected", f"{times:,}: {REASONS[reason]}"
    if done.rejects:
        yield "", f"each with its place in {done.rejects}"
    yield from (("note", said) for said in _summary_notes(done))
    yield from (("note", note) for note in done.notes)
    if done.out != "-":
        yield "files", done.out


def _summary_notes(done: "ConversionResult") -> Iterator[str]:
    """What is no fault, and should be known."""
    counts = done.counts
    if counts["lacking"]:
        said = "of the rows read lack uid, req_time or sample_rate in the LineId"
        yield f"{counts['lacking']:,} {said}"
    if done.unmatched:
        yield f"no feature is named like {', '.join(done.unmatched)}"
    if counts["filled"]:
        yield f"{counts['filled']:,} unset features stand for those that a row of a batch lacks"
    if counts["lost_sort_ids"]:
        yield f"{counts['lost_sort_ids']:,} rows have sort_ids that differ within a batch: left out"
    if done.reordered:
        yield f"{done.reordered:,} rows have their features in another order than the columns"
    for name, times in counts["lost"].items():
        yield f"{times:,} Instances have what an Example has no place for: {name}"
