"""`ingot tokens build`, also called `parquet2mbt`: its options, and how it is watched."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ingot.cli.command import command_options, show_parts
from ingot.cli.console import (
    note_line,
    open_bar,
    open_log,
    print_error,
    stderr_console,
)
from ingot.cli.job_watch import JobWatch, Watching
from ingot.cli.tokens.display import (
    BuildMeasures,
    BuildSummary,
    draw_progress,
    measure_sequential_mbps,
    print_summary,
    summarize_build,
)
from ingot.converters.errors import ExitCode, SourceError, redact_urls
from ingot.converters.megatron.messages import BuildMeter, log_event
from ingot.converters.megatron.options import (
    INPUT,
    LOGGING,
    TEXT,
    WORK,
    BuildOptions,
    WatchOptions,
    WorkOptions,
)
from ingot.converters.output.files import is_store_url
from ingot.converters.output.monitoring import LogStream
from ingot.converters.progress import TerminatedError, drain_on_sigterm
from ingot.converters.settings import Setting, existing_tokenizer

if TYPE_CHECKING:
    from ingot.converters.megatron import TokenStats
    from ingot.converters.megatron.read.input_files import InputFile


@command_options
def build_tokens(
    *,
    source: Annotated[
        str | None, Setting("The same as --input-dir.", metavar="SOURCE", positional=True)
    ] = None,
    input_dir: Annotated[
        str | None,
        Setting(
            "Folder of the input, or with a URL as output also a URL (s3://BUCKET/DIR).",
            metavar="PATH|URL",
            default="SOURCE",
        ),
    ] = None,
    output_prefix: Annotated[
        str,
        Setting(
            "Prefix of the output: PATH.bin, PATH.idx, PATH.meta.json; or the URL of a folder in "
            "an object store (s3://BUCKET/DIR), which gets shards.",
            metavar="PATH|URL",
            also="out",
        ),
    ],
    tokenizer: Annotated[
        str,
        Setting(
            "tokenizer.json, SentencePiece .model, a folder of one, or hf://REPO[@REVISION].",
            metavar="PATH|HF_REPO",
            parse=existing_tokenizer,
        ),
    ],
    pattern: Annotated[
        str,
        Setting(
            "Files of the folder to read; *.jsonl for ingot records.", metavar="GLOB", section=INPUT
        ),
    ] = "*.parquet",
    recursive: Annotated[
        bool, Setting("Also read subfolders.", section=INPUT, negative="no-recursive")
    ] = True,
    options: BuildOptions,
    truncate: Annotated[bool, Setting("Short for --long-docs truncate.", section=TEXT)] = False,
    work: WorkOptions,
    keep_order: Annotated[
        bool,
        Setting(
            "Accepted for compatibility; the order is always that of files and rows.", section=WORK
        ),
    ] = False,
    watching: WatchOptions,
    log_file: Annotated[
        Path | None,
        Setting("File for log lines.", metavar="PATH", section=LOGGING, default="stdout"),
    ] = None,
    progress: Annotated[
        bool, Setting("Show a progress bar on a terminal.", section=LOGGING, negative="no-progress")
    ] = True,
) -> None:
    """Tokenize Parquet texts or ingot records into a Megatron data set (.bin/.idx).

    Rows that cannot be tokenized are listed in PREFIX.rejects.jsonl, files that cannot be read in
    PREFIX.meta.json; with --fail-fast the first one stops the build. Log lines (JSON) go to stdout.
    """
    location = source or input_dir
    if location is None or (source and input_dir):
        raise typer.BadParameter("name the folder of the input once, as SOURCE or --input-dir")
    # Arrow's own pools keep what they freed: 90 MB more at a text of 200 MB. Workers inherit it.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    from ingot.converters.megatron.run.build import build as build_data_set

    threads = os.environ.get("RAYON_NUM_THREADS") or "1"
    if not (threads.isdecimal() and int(threads)):
        raise typer.BadParameter(f"RAYON_NUM_THREADS is {threads!r}, not a number of 1 or more")
    if truncate:
        options = replace(options, long_docs="truncate")
    with (
        show_parts(),
        _explain_interrupt(),
        open_bar(shown=progress) as move,
        open_log(log_file, sys.stdout) as stream,
    ):
        log = LogStream(stream, watching.log_level)
        shown = Watching(
            log=log,
            port=watching.port if watching.exporter == "prometheus" else None,
            interval=watching.interval,
            progress_lines=watching.exporter == "stdout",
            stall_seconds=watching.stall_seconds,
            error_streak=watching.error_streak,
            draw=partial(draw_progress, move) if move else None,
        )
        with JobWatch("tokens build", shown) as watch:
            meter = BuildMeter(watch, log.log)
            if keep_order:
                log_event(meter, "info", "pipeline", "keep_order", said="the order is always kept")
            with drain_on_sigterm():
                files = _list_input(location, output_prefix, pattern, recursive=recursive)
                size = sum(file.bytes for file in files)
                log_event(meter, "info", "scanner", "scanned", files=len(files), bytes=size)
                stats = build_data_set(
                    files, tokenizer, output_prefix, options, work, monitor=meter
                )
            if not stats.already_done:
                summary = _summarize(meter, watch, log, stats, files)
    with _ignore_closed_output():
        if not stats.already_done:
            print_summary(stderr_console(), summary)
        _print_result(output_prefix, stats)


def _summarize(
    meter: BuildMeter,
    watch: JobWatch,
    log: LogStream,
    stats: "TokenStats",
    files: "Sequence[InputFile]",
) -> BuildSummary:
    """Return the summary of a finished build, and write it as a line of the log."""
    watch.machine.measure()
    measured = BuildMeasures(
        wall_seconds=watch.seconds,
        engine=stats.engine,
        disk_mbps=measure_sequential_mbps(file.path for file in files),
        peak_rss_bytes=watch.machine.peak_memory,
        log_lines_lost=log.lost,
    )
    summary = summarize_build(meter, measured)
    head = {"level": "info", "component": "pipeline", "event": "summary"}
    log.write({**head, **summary.to_document()})
    return summary


def _list_input(
    location: str, output: str, pattern: str, *, recursive: bool
) -> "Sequence[InputFile]":
    from ingot.converters.megatron.read.input_files import scan
    from ingot.converters.sources.tables.table_folders import LOG_FOLDERS, refuse_table_files

    if is_store_url(location):
        if not is_store_url(output):
            problem = "can be read only where the output is a URL too"
            raise SourceError(redact_urls(location), problem, "copy it here first")
        return _list_stored(location, pattern, recursive=recursive)
    folder = Path(location)
    files = scan(folder, pattern, recursive=recursive)
    # Of a Delta table and its like some rows may be deleted.
    folders = {parent for file in files for parent in file.path.absolute().parents}
    logs = [one for one in folders if any((one / log).is_dir() for log in LOG_FOLDERS)]
    if logs and folder.is_dir():
        refuse_table_files(logs)
    return files


def _list_stored(url: str, pattern: str, *, recursive: bool) -> "Sequence[InputFile]":
    from ingot.converters.megatron.read.input_files import InputFile, match_names
    from ingot.converters.sources.storage.listing import list_location
    from ingot.converters.sources.tables.table_folders import LOG_FOLDERS

    listing = list_location(url)
    entries = {one.name: one for one in listing.entries}
    if any(not {*LOG_FOLDERS}.isdisjoint(name.split("/")) for name in entries):
        problem = "a table: its folder holds files of former versions and deleted rows too"
        hint = "convert it first, and build from the records"
        raise SourceError(redact_urls(url), problem, hint)
    if not listing.direct:
        names = match_names(entries, redact_urls(url), pattern, recursive=recursive)
        entries = {name: entries[name] for name in names}
    return [
        InputFile(
            name=name,
            path=Path(str(one.place)),
            bytes=one.bytes,
            mtime_ns=one.mtime_ns or 0,
            stored=one.place,
            etag=one.etag,
        )
        for name, one in entries.items()
    ]


@contextmanager
def _ignore_closed_output() -> Iterator[None]:
    """Print what does not change the result; a closed pipe is not a failure."""
    try:
        yield
        sys.stderr.flush()
    except (OSError, SystemExit):  # rich ends the process where a pipe is broken
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


@contextmanager
def _explain_interrupt() -> Iterator[None]:
    """Say how an interrupted build goes on."""
    try:
        yield
    except KeyboardInterrupt as error:
        by_signal = isinstance(error, TerminatedError)
        event = "terminated" if by_signal else "interrupted"
        print_error(f"{event}: run the same command with --resume to continue")
        raise typer.Exit(ExitCode.TERMINATED if by_signal else ExitCode.INTERRUPTED) from error


def _print_result(prefix: str, stats: "TokenStats") -> None:
    if stats.already_done:
        note_line(f"{prefix}: this data set exists already: nothing to do")
    warnings = (
        (stats.failed_files, "files could not be read", "meta.json"),
        (stats.rejected, "rows were not tokenized", "rejects.jsonl"),
        (stats.doubled, "documents begin with two BOS or end with two EOS or EOD", "meta.json"),
    )
    for count, problem, file in warnings:
        if count:
            file_name = f"{prefix}/shard-*.{file}" if is_store_url(prefix) else f"{prefix}.{file}"
            note_line(f"warning: {count} {problem}, see {file_name}", "yellow")
