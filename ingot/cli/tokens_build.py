"""`ingot tokens build`, and the same as a command of its own: `parquet2mbt`."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from ingot.cli import tokens_options as t
from ingot.cli.grouped import expands
from ingot.cli.options import known_tokenizer

if TYPE_CHECKING:
    from ingot.converters.megatron import BuildOptions, TokenStats, WorkOptions
    from ingot.converters.megatron.monitor import Monitor

_INTERRUPTED = 130


@expands
def build(
    input_dir: Annotated[
        Path,
        typer.Option(
            "--input-dir", metavar="PATH", help="Folder of the input.", show_default=False
        ),
    ],
    output_prefix: Annotated[
        Path,
        typer.Option(
            "--output-prefix",
            metavar="PATH",
            help="Makes PATH.bin, PATH.idx, PATH.meta.json.",
            show_default=False,
        ),
    ],
    tokenizer: Annotated[
        str,
        typer.Option(
            "--tokenizer",
            metavar="PATH|HF_REPO",
            callback=known_tokenizer,
            help="tokenizer.json, SentencePiece .model, their folder, or hf://REPO[@REVISION].",
            show_default=False,
        ),
    ],
    reading: t.InputOptions,
    texts: t.TextOptions,
    tokens: t.TokenOptions,
    run: t.RunOptions,
    told: t.ToldOptions,
) -> None:
    """Tokenize Parquet texts or unified records into a Megatron data set (.bin/.idx).

    Rows that cannot be tokenized are listed in PREFIX.rejects.jsonl, files that cannot be read in
    PREFIX.meta.json; --fail-fast ends at the first. Log lines (JSON) go to stdout.
    """
    # Arrow's own pools keep what they freed: 90 MB more at a text of 200 MB. Workers inherit it.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    from ingot.cli.console import notes
    from ingot.cli.tokens_bar import print_summary, token_meter
    from ingot.converters import megatron
    from ingot.converters.errors import ConversionError
    from ingot.converters.megatron.monitor import log
    from ingot.converters.megatron.watching.disk import sequential_mbps
    from ingot.converters.megatron.watching.summary import Measured
    from ingot.converters.megatron.watching.watch import Watch, WatchOptions

    try:
        options, work = _build_options(reading, texts, tokens), _work_options(run)
    except ConversionError as error:
        raise typer.BadParameter(error.problem) from error
    with token_meter(shown=told.progress) as meter, _log_file(told.log_file) as file:
        watch_options = WatchOptions(
            log_level=told.log_level.value,
            log_stream=file or meter.log_stream,
            exporter=told.metrics_exporter.value,
            interval=told.metrics_interval,
            port=told.metrics_port,
            progress=meter.progress,
            stall_seconds=told.stall_seconds,
            error_streak=told.error_streak,
        )
        with Watch(watch_options) as watch:
            if run.keep_order:
                log(watch, "info", "pipeline", "keep_order", said="the order is always kept")
            with _ended(watch):
                files = megatron.scan(input_dir, reading.pattern, recursive=reading.recursive)
                size = sum(file.bytes for file in files)
                log(watch, "info", "scanner", "scanned", files=len(files), bytes=size)
                stats = megatron.build(
                    files, tokenizer, output_prefix, options, work, monitor=watch
                )
            if not stats.already_done:
                disk = sequential_mbps(file.path for file in files)
                measured = Measured(
                    engine=stats.engine, engine_mbps=stats.engine_mbps, disk_mbps=disk
                )
                summary = watch.summary(measured)
                watch.summary_log(summary)
    with _heard():
        if not stats.already_done:
            print_summary(notes(), summary)
        _tell(output_prefix, stats)


@contextmanager
def _heard() -> Iterator[None]:
    """Tell what changes no result: a reader that is gone does not make it a failure."""
    try:
        yield
        sys.stderr.flush()
    except (OSError, SystemExit):  # rich ends the process where a pipe is broken
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


@contextmanager
def _ended(monitor: "Monitor") -> Iterator[None]:
    """Write the line of the log that says why a build came to nothing."""
    from ingot.cli.console import complain
    from ingot.converters.errors import IngotError
    from ingot.converters.megatron.monitor import log

    try:
        yield
    except IngotError as error:
        log(monitor, "error", "pipeline", "failed", error=str(error))
        raise
    except KeyboardInterrupt as error:
        log(monitor, "error", "pipeline", "interrupted")
        complain("interrupted: the same command with --resume goes on")
        raise typer.Exit(_INTERRUPTED) from error


def _build_options(
    reading: t.InputOptions, texts: t.TextOptions, tokens: t.TokenOptions
) -> "BuildOptions":
    from ingot.converters.megatron import BuildOptions

    columns = reading.text_cols
    long_docs = t.Long.truncate if texts.truncate else texts.long_docs
    return BuildOptions(
        text_cols=tuple(name.strip() for name in columns.split(",")) if columns else None,
        doc_boundary=reading.doc_boundary.value,
        concat_sep=texts.concat_sep,
        strip=texts.strip,
        min_chars=texts.min_chars,
        max_chars=texts.max_chars,
        min_tokens=texts.min_tokens,
        max_tokens=texts.max_tokens,
        long_docs=long_docs.value,
        add_special_tokens=tokens.add_special_tokens,
        bos_id=tokens.bos_id,
        eos_id=tokens.eos_id,
        append_eod=tokens.append_eod,
        empty_docs=tokens.empty_docs.value,
        dtype=tokens.dtype.value,
        special_in_text=tokens.special_in_text.value,
        chat_template=tokens.chat_template,
        loss_mask=tokens.loss_mask,
        pack=tokens.pack,
        special_tokens_json=tokens.special_tokens_json,
        strict_special_ids=tokens.strict_special_ids,
    )


def _work_options(run: t.RunOptions) -> "WorkOptions":
    from ingot.converters.megatron import WorkOptions

    threads = os.environ.get("RAYON_NUM_THREADS") or "1"
    if not (threads.isdecimal() and int(threads)):
        raise typer.BadParameter(f"RAYON_NUM_THREADS is {threads!r}, not a number from 1 on")
    shards = None if run.batch_shards in (None, "auto") else int(run.batch_shards or 0)
    return WorkOptions(
        batch_size=run.batch_size,
        workers=run.workers,
        queue_cap=run.queue_cap,
        tok_parallel=run.tok_parallel.value,
        batch_shards=shards,
        rowgroup_parallel=run.rowgroup_parallel,
        processes=run.processes,
        affinity=run.affinity,
        tok_engine=run.tok_engine.value,
        resume=run.resume,
        overwrite=run.overwrite,
        fail_fast=run.fail_fast,
        tmp_dir=run.tmp_dir,
    )


@contextmanager
def _log_file(path: Path | None) -> Iterator[IO[bytes] | None]:
    from ingot.converters.commit import writing

    if path is None:
        yield None
        return
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("ab", buffering=0)
    with file:
        yield file


def _tell(prefix: Path, stats: "TokenStats") -> None:
    from ingot.cli.console import notes, plain

    if stats.already_done:
        notes().print(plain(f"{prefix}: this data set was there already: nothing to do"))
    if stats.failed_files:
        said = f"{stats.failed_files} files could not be read, see {prefix}.meta.json"
        notes().print(plain(f"warning: {said}", "yellow"))
    if stats.rejected:
        said = f"{stats.rejected} rows were not tokenized, see {prefix}.rejects.jsonl"
        notes().print(plain(f"warning: {said}", "yellow"))
