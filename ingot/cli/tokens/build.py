"""`ingot tokens build`, also called `parquet2mbt`: its options, progress bar and summary."""

import io
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Final, NamedTuple, cast

import typer

from ingot.cli.command import command_options, show_parts
from ingot.cli.console import (
    note_line,
    open_log,
    plain_text,
    print_error,
    safe_text,
    stderr_console,
)
from ingot.converters.errors import SourceError, redact_urls
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
from ingot.converters.settings import Setting, existing_tokenizer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bar

    from ingot.converters.megatron import TokenStats
    from ingot.converters.megatron.metrics.messages import Monitor
    from ingot.converters.megatron.metrics.summary import BuildSummary
    from ingot.converters.megatron.metrics.watch import BuildProgress
    from ingot.converters.megatron.read.input_files import InputFile

_UNITS: Final = ("", "k", "M", "G", "T", "P")
_BAR: Final = 24
_EIGHTHS: Final = "▏▎▍▌▋▊▉"
_ERASE: Final = "\r\x1b[2K"


class Meter(NamedTuple):
    """What draws the bar, and an output that does not write into it; None if there is none."""

    progress: "Callable[[BuildProgress], None] | None" = None
    log_stream: IO[bytes] | None = None


@contextmanager
def token_meter(*, shown: bool = True) -> Iterator[Meter]:
    """Show the progress bar of a build, on stderr and only if that is a terminal."""
    if not (shown and sys.stderr.isatty()):
        yield Meter()
        return
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    amounts = TextColumn("{task.fields[amounts]}")
    bar = Bar(
        *(TextColumn("{task.description}"), BarColumn(None), amounts),
        console=stderr_console(),
        auto_refresh=False,
        transient=True,
        expand=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    task, lock = bar.add_task("", total=None, amounts=""), threading.Lock()

    def draw(progress: "BuildProgress") -> None:
        total = progress.bytes_total if progress.phase == "read" else None
        done = min(progress.bytes_read, progress.bytes_total or progress.bytes_read)
        trouble, text = progress.trouble, progress_text(progress)
        name = f"[red]{trouble.alarm}[/]" if trouble else progress.phase
        with lock:
            bar.start()
            bar.update(task, total=total or None, completed=done, description=name, amounts=text)
            bar.refresh()

    above = _OutputAboveBar(bar, lock) if sys.stdout.isatty() else None
    try:
        yield Meter(draw, cast("IO[bytes] | None", above))
    finally:
        with lock:
            bar.stop()


def progress_text(progress: "BuildProgress") -> str:
    """Return amounts, rates and the time left."""
    parts = [
        _bytes_of_total(progress.bytes_read, progress.bytes_total),
        f"{amount_text(progress.records)} records",
        f"{amount_text(progress.tokens)} tokens",
        f"{amount_text(progress.tokens_per_sec)}/s",
    ]
    if progress.eta is not None:
        parts.append(f"{clock_text(progress.eta)} left")
    return "  ".join(parts)


def amount_text(number: float) -> str:
    """Return a number in four or five characters: 999, 1.23k, 12.3M."""
    power = 0
    while number >= 999.5 and power < len(_UNITS) - 1:
        number, power = number / 1000, power + 1
    if not power:
        return f"{number:.0f}"
    digits = 2 if number < 9.995 else 1 if number < 99.95 else 0
    return f"{number:.{digits}f}{_UNITS[power]}"


def clock_text(seconds: float) -> str:
    """Return a time: 0:07, 12:34, 1:02:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def print_summary(console: "Console", summary: "BuildSummary") -> None:
    """Print what was done, how fast, and where the time went."""
    from rich.table import Table

    rows = [*_amount_rows(summary), *_stage_rows(summary, ascii_only=console.options.ascii_only)]
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    for name, value, more in rows:
        table.add_row(plain_text(name), plain_text(value), plain_text(more))
    with console.capture() as shown:
        console.print(table)
    console.file.write("".join(f"{line.rstrip()}\n" for line in shown.get().splitlines()))


class _OutputAboveBar(io.RawIOBase):
    """Standard output of a terminal whose last line is a bar: text is written above it."""

    def __init__(self, bar: "Bar", lock: threading.Lock) -> None:
        self._bar = bar
        self._lock = lock
        self._out = cast("IO[bytes]", getattr(sys.stdout.buffer, "raw", sys.stdout.buffer))

    def write(self, data: bytes | bytearray | memoryview, /) -> int | None:  # type: ignore[override]
        """Erase the bar and write; the next progress draws it again."""
        with self._lock:
            if self._bar.live.is_started:
                self._bar.console.file.write(_ERASE)
                self._bar.console.file.flush()
            return self._out.write(data)


def _bytes_of_total(done: int, total: int) -> str:
    largest, power = max(done, total), 2
    while largest >= 10 * 1000 ** (power + 1) and power < len(_UNITS) - 1:
        power += 1
    shown = [f"{one / 1000**power:,.1f}" for one in ((done, total) if total else (done,))]
    return f"{'/'.join(shown)} {_UNITS[power]}B"


def _amount_rows(summary: "BuildSummary") -> list[tuple[str, str, str]]:
    speed, left = summary.speed, {"rejected": summary.rejected, "filtered": summary.filtered}
    by = f" by {safe_text(summary.engine)}" if summary.engine else ""
    share = _share_text(speed.disk_share, speed.disk_mbps)
    known = [f"{n} {ms:,.0f} ms" for n, ms in summary.latency_ms.items() if ms is not None]
    errors = ", ".join(f"{n:,} {kind}" for kind, n in summary.errors.items())
    phases = ", ".join(f"{name} {_seconds_text(s)}" for name, s in summary.phases.items())
    rows = [
        ("files", f"{summary.files:,}", _nonzero_text({"failed": summary.failed_files})),
        ("records", f"{summary.records:,}", _nonzero_text(left)),
        ("documents", f"{summary.documents:,}", ""),
        ("tokens", f"{summary.tokens:,}", f"{amount_text(speed.tokens_per_sec)} tokens/s{by}"),
        ("text", _bytes_text(summary.text_bytes), f"{speed.text_mbps:,.1f} MB/s"),
        ("input", _bytes_text(summary.bytes_read), f"{speed.read_mbps:,.1f} MB/s{share}"),
        ("memory", _bytes_text(summary.peak_rss_bytes), "at most, of all processes"),
        ("batches", "", ", ".join(known)),
        ("errors", "", errors),
        ("time", _seconds_text(summary.wall_seconds), phases),
    ]
    return [row for row in rows if any(row[1:])]


def _nonzero_text(counts: "dict[str, int]") -> str:
    return ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)


def _stage_rows(summary: "BuildSummary", *, ascii_only: bool) -> Iterator[tuple[str, str, str]]:
    """Yield name, seconds and a small bar of every stage, over all threads."""
    yield "stages", _seconds_text(sum(one.seconds for one in summary.stages)), "of all threads"
    for one in summary.stages:
        bar = "#" * round(one.share * _BAR) if ascii_only else _fine_bar(one.share)
        yield f"  {one.stage}", _seconds_text(one.seconds), f"{100 * one.share:3.0f} %  {bar}"


def _fine_bar(share: float) -> str:
    whole, eighths = divmod(round(share * _BAR * 8), 8)
    return "█" * whole + (_EIGHTHS[eighths - 1] if eighths else "")


def _share_text(share: float | None, whole: float | None) -> str:
    """Return what part of the disk's speed the reading phase reached; empty where unknown."""
    if share is None:
        return ""
    disk = "the disk's sequential reading"
    return f"; in the reading phase {100 * share:.0f} % of {disk} ({whole:,.0f} MB/s)"


def _bytes_text(number: int) -> str:
    short = amount_text(number)
    digits = short.rstrip("".join(_UNITS))
    return f"{digits} {short[len(digits) :]}B"


def _seconds_text(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 59.95 else clock_text(seconds)


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
    given = source or input_dir
    if given is None or (source and input_dir):
        raise typer.BadParameter("name the folder of the input once, as SOURCE or --input-dir")
    # Arrow's own pools keep what they freed: 90 MB more at a text of 200 MB. Workers inherit it.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    from ingot.converters.megatron.metrics.messages import log_event
    from ingot.converters.megatron.metrics.summary import BuildMeasures, measure_sequential_mbps
    from ingot.converters.megatron.metrics.watch import Watch
    from ingot.converters.megatron.run.build import build as build_data_set
    from ingot.converters.progress import drain_on_sigterm

    threads = os.environ.get("RAYON_NUM_THREADS") or "1"
    if not (threads.isdecimal() and int(threads)):
        raise typer.BadParameter(f"RAYON_NUM_THREADS is {threads!r}, not a number of 1 or more")
    if truncate:
        options = replace(options, long_docs="truncate")
    with (
        token_meter(shown=progress) as meter,
        open_log(log_file) if log_file else nullcontext() as file,
    ):
        log_stream = file or meter.log_stream
        watching = replace(watching, log_stream=log_stream, progress=meter.progress)
        with Watch(watching) as watch:
            if keep_order:
                log_event(watch, "info", "pipeline", "keep_order", said="the order is always kept")
            with show_parts(), _log_failure(watch), drain_on_sigterm():
                files = _list_input(given, output_prefix, pattern, recursive=recursive)
                size = sum(file.bytes for file in files)
                log_event(watch, "info", "scanner", "scanned", files=len(files), bytes=size)
                stats = build_data_set(
                    files, tokenizer, output_prefix, options, work, monitor=watch
                )
            if not stats.already_done:
                disk = measure_sequential_mbps(file.path for file in files)
                summary = watch.summary(BuildMeasures(engine=stats.engine, disk_mbps=disk))
                watch.summary_log(summary)
    with _ignore_closed_output():
        if not stats.already_done:
            print_summary(stderr_console(), summary)
        _print_result(output_prefix, stats)


def _list_input(given: str, output: str, pattern: str, *, recursive: bool) -> "Sequence[InputFile]":
    from ingot.converters.megatron.read.input_files import scan
    from ingot.converters.sources.tables.table_folders import LOG_FOLDERS, refuse_table_files

    if is_store_url(given):
        if not is_store_url(output):
            problem = "can be read only where the output is a URL too"
            raise SourceError(redact_urls(given), problem, "copy it here first")
        return _list_stored(given, pattern, recursive=recursive)
    folder = Path(given)
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
    found = {one.name: one for one in listing.entries}
    if any(not {*LOG_FOLDERS}.isdisjoint(name.split("/")) for name in found):
        problem = "a table: its folder holds files of former versions and deleted rows too"
        hint = "convert it first, and build from the records"
        raise SourceError(redact_urls(url), problem, hint)
    if not listing.direct:
        names = match_names(found, redact_urls(url), pattern, recursive=recursive)
        found = {name: found[name] for name in names}
    return [
        InputFile(
            name=name,
            path=Path(str(one.place)),
            bytes=one.bytes,
            mtime_ns=one.mtime_ns or 0,
            stored=one.place,
            etag=one.etag,
        )
        for name, one in found.items()
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
def _log_failure(monitor: "Monitor") -> Iterator[None]:
    from ingot.converters.errors import ExitCode, IngotError
    from ingot.converters.megatron.metrics.messages import log_event
    from ingot.converters.progress import TerminatedError

    try:
        yield
    except IngotError as error:
        log_event(monitor, "error", "pipeline", "failed", error=str(error))
        raise
    except KeyboardInterrupt as error:
        by_signal = isinstance(error, TerminatedError)
        event = "terminated" if by_signal else "interrupted"
        log_event(monitor, "error", "pipeline", event)
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
    for count, what, file in warnings:
        if count:
            where = f"{prefix}/shard-*.{file}" if is_store_url(prefix) else f"{prefix}.{file}"
            note_line(f"warning: {count} {what}, see {where}", "yellow")
