"""`ingot monolith convert`, `cat` and `stats`."""

import json
import os
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ingot.cli import command as o
from ingot.cli.command import command_options, run_job
from ingot.cli.console import (
    JobOptions,
    plain_text,
    print_json,
    progress_meter,
    stderr_console,
    stdout_console,
)
from ingot.cli.display import drop_empty_columns, note_rows, print_grid
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
    from ingot.converters.recsys.monolith.inspect import figures as f
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
    bad = Counter[str]()
    with _ignore_closed_pipe():
        for document in islice(_row_documents(where, hints, feature or None, bad), limit):
            _write_document(console, document)
        sys.stdout.flush()
    if bad:
        raise typer.Exit(ExitCode.FAILED)


def _row_documents(
    where: str, hints: StreamHints, wanted: Collection[str] | None, bad: Counter[str]
) -> "Iterator[dict[str, Json]]":
    """Yield documents of rows; bad records are reported and counted by stream."""
    from ingot.converters.errors import redact_urls
    from ingot.converters.recsys.monolith.inspect.documents import row_documents
    from ingot.converters.recsys.monolith.record_index import Bad, describe_bad
    from ingot.converters.recsys.monolith.streams import open_streams

    notes, rows = stderr_console(), 0

    def tell(text: str, style: str = "") -> None:
        notes.print(plain_text(redact_urls(text), style), soft_wrap=True)

    for stream in open_streams(where, hints):
        if stream.guessed:
            tell(f"{stream.where}: read as {stream.told}")
        for part in stream.parts:
            if isinstance(part, Bad):
                bad[stream.where] += 1
                tell(f"{stream.where}: {describe_bad(part)}", "yellow")
                continue
            yield from row_documents(part, rows, wanted)
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


_SHOWN: Final = 12  # of what there may be many
_STREAMS: Final = 3
_FEW: Final = 3


@command_options
def show_monolith_stats(*, where: _Where, hints: StreamHints, as_json: o.Json = False) -> None:
    """Show statistics of streams: features and fill rates, slots, labels, LineIds.

    Records that cannot be read are counted by reason and skipped.
    """
    from ingot.converters.progress import Progress
    from ingot.converters.recsys.monolith.inspect.counter import RowCounter
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
                far = {"rows": counting.rows, "records": counting.records}
                watch(Progress(stage="count", shards_done=number, shards=number + 1, **far))
    figures = counting.figures()
    if as_json:
        print_json(figures.to_document())
    else:
        _show_figures(stdout_console(), figures)


def _show_figures(console: "Console", figures: "f.Figures") -> None:
    print_grid(console, list(_figure_facts(figures)))
    for table in (_label_rows(figures), _line_id_rows(figures), _feature_rows(figures)):
        rows = list(table)
        if len(rows) > 1:
            console.print()
            print_grid(console, drop_empty_columns(rows))
    never = [one.name for one in figures.features if not one.filled]
    if never:
        console.print()
        names = _first_names(never, len(never))
        console.print(plain_text(f"never filled: {names}"), soft_wrap=not console.is_terminal)
    for line in figures.bad.first:
        console.print(plain_text(f"bad: {line}", "yellow"), soft_wrap=True)


def _figure_facts(figures: "f.Figures") -> Iterator[tuple[str, str]]:
    for where, read_as in list(figures.streams.items())[:_STREAMS]:
        yield "stream", f"{where} ({read_as})"
    if len(figures.streams) > _STREAMS:
        yield "", f"and {len(figures.streams) - _STREAMS:,} more"
    yield "rows", f"{figures.rows:,}"
    yield "records", f"{figures.records:,}" + _lengths_in(figures.batches, " of {} rows")
    yield "labels", _lengths_text(figures.labels) + " a row" if figures.labels else "none"
    if figures.sort_ids:
        yield (
            "sort_ids",
            f"{figures.sort_ids.count:,}" + _lengths_in(figures.sort_ids, " of {} bytes"),
        )
    yield from _spread_facts(figures)
    yield from _slot_facts(figures.slots)
    yield from _unknown_facts(figures.unknown)
    if figures.names_left_out:
        yield (
            "left out",
            f"{figures.names_left_out:,} entries of features beyond {len(figures.features):,}",
        )
    if figures.bad.reasons:
        passed = f"; {figures.bad.bytes:,} bytes passed over" if figures.bad.bytes else ""
        yield "bad", _pairs_text(figures.bad.reasons) + passed


def _spread_facts(figures: "f.Figures") -> Iterator[tuple[str, str]]:
    """Yield the values that rows have besides features, and their share."""
    spreads = (
        ("sample_rate", figures.line_ids.sample_rate, "default 1"),
        ("instance_weight", figures.instance_weight, "none"),
        ("data_source_key", figures.data_source_key, "0"),
    )
    for name, spread, default in spreads:
        if not spread.given and name != "sample_rate":
            continue
        left = figures.rows - spread.given
        counts = {default: left} if left else {}
        counts |= {f"{value:g}": rows for value, rows in spread.values}
        if spread.others:
            counts["others"] = spread.others
        yield name, _pairs_text(counts)


def _slot_facts(slots: "f.Slots") -> Iterator[tuple[str, str]]:
    for version, counts in (("v1", slots.v1), ("v2", slots.v2)):
        if counts:
            ordered = dict(sorted(counts.items(), key=lambda pair: -pair[1]))
            many = f"{sum(counts.values()):,} fids in {len(counts):,} slots"
            yield f"slots {version}", f"{many}: {_pairs_text(ordered)}"
    if slots.beyond:
        yield "no v2 fids", f"{slots.beyond:,} have the top bit set"


def _unknown_facts(unknown: "f.Unknown") -> Iterator[tuple[str, str]]:
    places = {
        "LineId": unknown.line_id,
        "record": unknown.record,
        "beside features": unknown.beside,
    }
    for place, counts in places.items():
        if counts:
            yield f"unknown in {place}", _pairs_text({f"field {n}": c for n, c in counts.items()})
    if unknown.features:
        yield "unknown in features", f"{unknown.features:,} rows"
    if unknown.line_id_text:
        yield "no UTF-8 in LineId", _pairs_text(unknown.line_id_text)


def _label_rows(figures: "f.Figures") -> Iterator[tuple[str, ...]]:
    from ingot.converters.output.pages import format_count

    yield "label", "rows", "above 0", "0", "below 0", "NaN", "least", "mean", "most"
    for position, one in enumerate(figures.label):
        signs = (one.positive, one.zero, one.negative, one.no_number)
        counts = (format_count(n) if n else "" for n in signs)
        ends = (one.least, one.mean, one.most)
        texts = ("" if value is None else f"{value:.6g}" for value in ends)
        yield str(position), format_count(one.count), *counts, *texts


def _line_id_rows(figures: "f.Figures") -> Iterator[tuple[str, ...]]:
    from ingot.converters.output.pages import format_percent, share_of

    lines = figures.line_ids
    yield "LineId field", "rows", "share", "lack it"
    yield "(any)", f"{lines.rows:,}", format_percent(share_of(lines.rows, figures.rows)), ""
    for name in dict.fromkeys([*lines.lacking, *lines.fields]):
        rows = lines.fields.get(name, 0)
        lack = f"{lines.lacking[name]:,}" if lines.lacking.get(name) else ""
        yield name, f"{rows:,}", format_percent(share_of(rows, figures.rows)), lack
    if lines.incomplete:
        yield "(rows that lack one of uid, req_time, sample_rate)", "", "", f"{lines.incomplete:,}"


def _feature_rows(figures: "f.Figures") -> Iterator[tuple[str, ...]]:
    from ingot.converters.output.pages import format_percent, share_of

    yield "feature", "kind", "filled", "empty", "unset", "absent", "again", "values", "slots"
    for one in figures.features:
        if not one.filled:
            continue
        kinds = [kind for kind in one.kinds if kind != "unset"]
        states = (one.filled, one.empty, one.unset, one.absent, one.repeated)
        shares = (format_percent(share_of(rows, figures.rows)) if rows else "" for rows in states)
        slots = f"{one.slots:,}" if one.slots else ""
        if one.slots and one.slots <= _FEW:
            slots += f" ({', '.join(map(str, one.first_slots))})"
        yield one.name, " ".join(kinds), *shares, _lengths_text(one.lengths), slots


def _lengths_in(lengths: "f.Lengths | None", text: str) -> str:
    return text.format(_lengths_text(lengths)) if lengths else ""


def _lengths_text(lengths: "f.Lengths | None") -> str:
    """Return one number, or minimum, maximum, mean and percentiles."""
    if lengths is None:
        return ""
    if lengths.least == lengths.most:
        return f"{lengths.most:,}"
    inner = f"mean {lengths.mean:.3g}, p50 {lengths.p50:,}, p99 {lengths.p99:,}"
    return f"{lengths.least:,} to {lengths.most:,} ({inner})"


def _pairs_text(counts: Mapping[str, int] | Mapping[int, int]) -> str:
    return _first_names((f"{name} ({count:,})" for name, count in counts.items()), len(counts))


def _first_names(names: Iterable[str], count: int) -> str:
    shown = [name for name, _ in zip(names, range(_SHOWN), strict=False)]
    more = f" and {count - len(shown):,} more" if count > len(shown) else ""
    return ", ".join(shown) + more


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
        raise typer.BadParameter("--negative and --seed need --negative-rate")
    if as_json and out == "-":
        raise typer.BadParameter("--json and records cannot share stdout: name a file as OUT")
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
        early = f", {counts.early:,} of them ended early" if counts.early else ""
        yield "batches", f"{counts.batches:,}{early}"
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
