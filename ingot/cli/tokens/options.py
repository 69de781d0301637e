"""The options of `ingot tokens build`, which is `parquet2mbt`, by what they are about."""

from dataclasses import dataclass
from enum import Enum, StrEnum
from pathlib import Path
from typing import Annotated

import typer

_INPUT = "What is read"
_TEXT = "Texts"
_TOKENS = "Tokens"
_CHATS = "Conversations"
_WORK = "How the work is done (changes no byte)"
_TOLD = "What a run shows"


class Boundary(StrEnum):
    """What a document is."""

    row = "row"
    file = "file"


class Long(Enum):
    """What becomes of a document over a maximum."""

    filter = "filter"
    split = "split"
    truncate = "truncate"


class Dtype(StrEnum):
    """The type of the tokens on disk."""

    u16 = "u16"
    u32 = "u32"
    auto = "auto"


class Empty(Enum):
    """What becomes of documents without tokens."""

    index = "index"
    drop = "drop"
    eod = "eod"


class InText(Enum):
    """How the text of a special token is read."""

    encode = "encode"
    plain = "plain"


class Parallel(StrEnum):
    """Where tokenizing is parallel."""

    auto = "auto"
    internal = "internal"
    external = "external"
    both = "both"


class Engine(StrEnum):
    """What tokenizes."""

    auto = "auto"
    hf = "hf"
    gigatoken = "gigatoken"
    fastokens = "fastokens"


class Exporter(StrEnum):
    """Where metrics go."""

    none = "none"
    prometheus = "prometheus"
    stdout = "stdout"


class Level(StrEnum):
    """The least level of log lines."""

    trace = "trace"
    debug = "debug"
    info = "info"
    warn = "warn"
    error = "error"


_ESCAPES = {"\\n": "\n", "\\t": "\t", "\\r": "\r", "\\\\": "\\"}


def _separator(given: str) -> str:
    """The text with the escapes that a shell leaves as they are."""
    import re

    return re.sub(r"\\[ntr\\]", lambda found: _ESCAPES[found[0]], given)


def _columns(given: str | None) -> str | None:
    if given is not None and not all(name.strip() for name in given.split(",")):
        raise typer.BadParameter("an empty name between commas")
    return given


def _shards(given: str | None) -> str | None:
    if given is None or given == "auto" or (given.isdecimal() and int(given) > 0):
        return given
    raise typer.BadParameter(f"{given!r} is neither auto nor a number from 1 on")


@dataclass(frozen=True, kw_only=True)
class InputOptions:
    """What is read."""

    pattern: Annotated[
        str,
        typer.Option(
            "--pattern",
            metavar="GLOB",
            help="Files of the folder; *.jsonl for unified records in that form.",
            rich_help_panel=_INPUT,
        ),
    ] = "*.parquet"
    recursive: Annotated[
        bool,
        typer.Option(
            "--recursive/--no-recursive", help="Folders in it too.", rich_help_panel=_INPUT
        ),
    ] = True
    text_cols: Annotated[
        str | None,
        typer.Option(
            "--text-cols",
            metavar="COLS",
            callback=_columns,
            help="Text columns, such as title,content.  [default: the first there is of text, "
            "content, doc; unified records need none]",
            rich_help_panel=_INPUT,
            show_default=False,
        ),
    ] = None
    doc_boundary: Annotated[
        Boundary,
        typer.Option(
            "--doc-boundary", help="A document is a row, or a whole file.", rich_help_panel=_INPUT
        ),
    ] = Boundary.row


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """What is done to texts."""

    concat_sep: Annotated[
        str,
        typer.Option(
            "--concat-sep",
            metavar="STR",
            callback=_separator,
            help="Between columns, and between the rows of a file; \\n, \\t, \\r, \\\\ are read.",
            rich_help_panel=_TEXT,
            show_default="a line break",
        ),
    ] = "\n"
    strip: Annotated[
        bool,
        typer.Option(
            "--strip/--no-strip",
            help="Take white space off both ends of a column's text; never of unified records.",
            rich_help_panel=_TEXT,
        ),
    ] = True
    min_chars: Annotated[
        int | None,
        typer.Option(
            "--min-chars",
            metavar="INT",
            min=0,
            help="Leave shorter documents out.",
            rich_help_panel=_TEXT,
            show_default=False,
        ),
    ] = None
    max_chars: Annotated[
        int | None,
        typer.Option(
            "--max-chars",
            metavar="INT",
            min=1,
            help="Longer ones: see --long-docs.",
            rich_help_panel=_TEXT,
            show_default=False,
        ),
    ] = None
    min_tokens: Annotated[
        int | None,
        typer.Option(
            "--min-tokens",
            metavar="INT",
            min=0,
            help="Leave shorter documents out.",
            rich_help_panel=_TEXT,
            show_default=False,
        ),
    ] = None
    max_tokens: Annotated[
        int | None,
        typer.Option(
            "--max-tokens",
            metavar="INT",
            min=1,
            help="Longer ones: see --long-docs.",
            rich_help_panel=_TEXT,
            show_default=False,
        ),
    ] = None
    long_docs: Annotated[
        Long,
        typer.Option(
            "--long-docs",
            help="Documents over a maximum: leave out, cut into sequences, or cut off.",
            rich_help_panel=_TEXT,
        ),
    ] = Long.filter
    truncate: Annotated[
        bool,
        typer.Option("--truncate", help="The same as --long-docs truncate.", rich_help_panel=_TEXT),
    ] = False


@dataclass(frozen=True, kw_only=True)
class TokenOptions:
    """What the tokens are."""

    dtype: Annotated[
        Dtype,
        typer.Option(
            "--dtype",
            help="u16, u32 (int32 on disk) or by the vocabulary.",
            rich_help_panel=_TOKENS,
        ),
    ] = Dtype.auto
    add_special_tokens: Annotated[
        bool,
        typer.Option(
            "--add-special-tokens",
            help="Put BOS and EOS around every document.",
            rich_help_panel=_TOKENS,
        ),
    ] = False
    bos_id: Annotated[
        int | None,
        typer.Option(
            "--bos-id",
            metavar="INT",
            min=0,
            help="The BOS id, in place of the tokenizer's.",
            rich_help_panel=_TOKENS,
            show_default=False,
        ),
    ] = None
    eos_id: Annotated[
        int | None,
        typer.Option(
            "--eos-id",
            metavar="INT",
            min=0,
            help="The EOS and EOD id, in place of the tokenizer's.",
            rich_help_panel=_TOKENS,
            show_default=False,
        ),
    ] = None
    append_eod: Annotated[
        bool,
        typer.Option(
            "--append-eod",
            help="Put the end-of-document id after every document that has tokens.",
            rich_help_panel=_TOKENS,
        ),
    ] = False
    empty_docs: Annotated[
        Empty,
        typer.Option(
            "--empty-docs",
            help="Documents without tokens: as Megatron has them, left out, or the EOD alone.",
            rich_help_panel=_TOKENS,
        ),
    ] = Empty.index
    special_in_text: Annotated[
        InText,
        typer.Option(
            "--special-in-text",
            help="The text of a special token in a document is that token, or plain text.",
            rich_help_panel=_TOKENS,
        ),
    ] = InText.encode
    special_tokens_json: Annotated[
        Path | None,
        typer.Option(
            "--special-tokens-json",
            metavar="PATH",
            help="The special tokens and ids that are expected.",
            rich_help_panel=_TOKENS,
            show_default=False,
        ),
    ] = None
    strict_special_ids: Annotated[
        bool,
        typer.Option(
            "--strict-special-ids",
            help="End if one of those is missing or has another id.",
            rich_help_panel=_TOKENS,
        ),
    ] = False
    pack: Annotated[
        int | None,
        typer.Option(
            "--pack",
            metavar="INT",
            min=2,
            help="Put texts together into documents of at most so many tokens.",
            rich_help_panel=_TOKENS,
            show_default=False,
        ),
    ] = None
    chat_template: Annotated[
        str | None,
        typer.Option(
            "--chat-template",
            metavar="NAME|FILE",
            help="How conversations are rendered.  [default: the tokenizer's own, else chatml]",
            rich_help_panel=_CHATS,
            show_default=False,
        ),
    ] = None
    loss_mask: Annotated[
        bool,
        typer.Option(
            "--loss-mask/--no-loss-mask",
            help="Write PREFIX.loss_mask.bin/.idx.",
            rich_help_panel=_CHATS,
        ),
    ] = True


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How the work is done."""

    batch_size: Annotated[
        int,
        typer.Option(
            "--batch-size",
            metavar="INT",
            min=1,
            help="Texts per batch, at most; one also ends at 4 MiB.",
            rich_help_panel=_WORK,
        ),
    ] = 16_384
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            metavar="INT",
            min=1,
            help="Tokenizing threads.  [default: cores - 2, at least 1]",
            rich_help_panel=_WORK,
            show_default=False,
        ),
    ] = None
    queue_cap: Annotated[
        int,
        typer.Option(
            "--queue-cap",
            metavar="INT",
            min=1,
            help="Shards of about a MiB between two stages, at most.",
            rich_help_panel=_WORK,
        ),
    ] = 8
    tok_parallel: Annotated[
        Parallel,
        typer.Option(
            "--tok-parallel",
            help="Threads with an engine each, threads inside one engine "
            "(RAYON_NUM_THREADS), or both.",
            rich_help_panel=_WORK,
        ),
    ] = Parallel.auto
    batch_shards: Annotated[
        str | None,
        typer.Option(
            "--batch-shards",
            metavar="INT",
            callback=_shards,
            help="Parts that a batch is cut into for the workers.  [default: auto]",
            rich_help_panel=_WORK,
            show_default=False,
        ),
    ] = None
    rowgroup_parallel: Annotated[
        int,
        typer.Option(
            "--rowgroup-parallel",
            metavar="INT",
            min=1,
            help="Row groups of a file that are decoded at once.",
            rich_help_panel=_WORK,
        ),
    ] = 1
    processes: Annotated[
        int,
        typer.Option(
            "--processes",
            metavar="INT",
            min=1,
            help="Processes with a pipeline each, supervised.",
            rich_help_panel=_WORK,
        ),
    ] = 1
    affinity: Annotated[
        bool,
        typer.Option(
            "--affinity", help="Bind each process to cores of its own.", rich_help_panel=_WORK
        ),
    ] = False
    tok_engine: Annotated[
        Engine,
        typer.Option(
            "--tok-engine",
            help="auto: the fastest that gives exactly the ids of Hugging Face.",
            rich_help_panel=_WORK,
        ),
    ] = Engine.auto
    keep_order: Annotated[
        bool,
        typer.Option(
            "--keep-order",
            help="Accepted; the order is always that of files and rows.",
            rich_help_panel=_WORK,
        ),
    ] = False
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Go on with a build that was broken off.", rich_help_panel=_WORK
        ),
    ] = False
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", help="Replace a data set that is there.", rich_help_panel=_WORK
        ),
    ] = False
    fail_fast: Annotated[
        bool,
        typer.Option(
            "--fail-fast", help="End at the first failed file or row.", rich_help_panel=_WORK
        ),
    ] = False
    tmp_dir: Annotated[
        Path | None,
        typer.Option(
            "--tmp-dir",
            metavar="PATH",
            help="Where unfinished files lie, on the same file system.  "
            "[default: beside the prefix]",
            rich_help_panel=_WORK,
            show_default=False,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """What a run shows."""

    log_level: Annotated[
        Level, typer.Option("--log-level", help="Log lines from here on.", rich_help_panel=_TOLD)
    ] = Level.info
    log_file: Annotated[
        Path | None,
        typer.Option(
            "--log-file",
            metavar="PATH",
            help="Log lines go there.  [default: stdout]",
            rich_help_panel=_TOLD,
            show_default=False,
        ),
    ] = None
    progress: Annotated[
        bool,
        typer.Option(
            "--progress/--no-progress", help="A bar on a terminal.", rich_help_panel=_TOLD
        ),
    ] = True
    metrics_exporter: Annotated[
        Exporter,
        typer.Option(
            "--metrics-exporter",
            help="A line in the log, HTTP /metrics and /healthz, or nothing.",
            rich_help_panel=_TOLD,
        ),
    ] = Exporter.stdout
    metrics_interval: Annotated[
        float,
        typer.Option(
            "--metrics-interval",
            metavar="SECONDS",
            min=0.1,
            help="Between two samples.",
            rich_help_panel=_TOLD,
        ),
    ] = 5.0
    metrics_port: Annotated[
        int,
        typer.Option(
            "--metrics-port",
            metavar="INT",
            min=0,
            max=65_535,
            help="Of the HTTP server; 0 = any free one.",
            rich_help_panel=_TOLD,
        ),
    ] = 9464
    stall_seconds: Annotated[
        float,
        typer.Option(
            "--stall-seconds",
            metavar="SECONDS",
            min=1,
            help="Without a finished batch until an alarm.",
            rich_help_panel=_TOLD,
        ),
    ] = 300.0
    error_streak: Annotated[
        int,
        typer.Option(
            "--error-streak",
            metavar="INT",
            min=1,
            help="Failed rows in a row until an alarm.",
            rich_help_panel=_TOLD,
        ),
    ] = 1_000
