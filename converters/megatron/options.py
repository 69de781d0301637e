"""The settings of a token build: what decides its bytes, how the work is done, what is shown."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Final, Literal

from ingot.converters.errors import ConversionError
from ingot.converters.json_yaml import decode, encode
from ingot.converters.output.sharding import RayAddress, RunnerName, Shard
from ingot.converters.progress import usable_cores
from ingot.converters.settings import Level, Setting, limit_problems

LongDocs = Literal["filter", "split", "truncate"]
EmptyDocs = Literal["index", "drop", "eod"]

RAYON: Final = "RAYON_NUM_THREADS"
INPUT: Final = "Input"
TEXT: Final = "Text"
_TOKENS: Final = "Tokens"
_CHATS: Final = "Conversations"
WORK: Final = "Performance and error handling (no effect on the output)"
LOGGING: Final = "Logging and metrics"

# Declare a setting of one section each.
_input, _text, _tokens, _chats, _work, _logging = (
    partial(Setting, section=section) for section in (INPUT, TEXT, _TOKENS, _CHATS, WORK, LOGGING)
)
_count = partial(_work, metavar="INT", minimum=1)
_limit = partial(_text, metavar="INT")
_id = partial(_tokens, metavar="INT", minimum=0)
_ESCAPES: Final = {"\\n": "\n", "\\t": "\t", "\\r": "\r", "\\\\": "\\"}


def _read_escapes(text: str) -> str:
    return re.sub(r"\\[ntr\\]", lambda match: _ESCAPES[match[0]], text)


def _read_shards(text: str) -> int | None:
    if text == "auto":
        return None
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise ValueError(f"{text!r} is neither auto nor a number of 1 or more")


def _rayon_threads() -> int:
    """Return `RAYON_NUM_THREADS`; 0 where it leaves the number open, as that library does."""
    value = os.environ.get(RAYON, "").strip() or "0"
    if value.isascii() and value.isdigit():
        return int(value)
    hint = "set it to a number, or unset it"
    raise ConversionError(RAYON, f"{value!r} is not a number of threads", hint)


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildOptions:
    """The settings that decide the bytes of a data set, with the inputs and the tokenizer."""

    text_cols: Annotated[
        tuple[str, ...] | None,
        _input(
            "Text columns that make a document, such as title,content.",
            metavar="COLS",
            default="the first of text, content, doc that exists; ingot records need none",
        ),
    ] = None
    doc_boundary: Annotated[
        Literal["row", "file"], _input("A document is one row, or all rows of a file.")
    ] = "row"
    concat_sep: Annotated[
        str,
        _text(
            "Text between the columns of a row and between the rows of a file. "
            "The escapes \\n, \\t, \\r and \\\\ are read.",
            metavar="STR",
            default="a line break",
            parse=_read_escapes,
        ),
    ] = "\n"
    strip: Annotated[
        bool,
        _text(
            "Strip white space from both ends of a column's text, never of ingot records.",
            negative="no-strip",
        ),
    ] = True
    min_chars: Annotated[int | None, _limit("Skip documents of fewer characters.", minimum=0)] = (
        None
    )
    max_chars: Annotated[
        int | None, _limit("Treat documents of more characters as `long_docs` says.", minimum=1)
    ] = None
    min_tokens: Annotated[
        int | None,
        _limit(
            "Skip documents of fewer tokens, counted with BOS and EOS and without EOD.", minimum=0
        ),
    ] = None
    max_tokens: Annotated[
        int | None, _limit("Treat documents of more tokens as `long_docs` says.", minimum=1)
    ] = None
    long_docs: Annotated[
        LongDocs,
        _text(
            "Documents over a maximum: skip them, split them into several sequences of one "
            "document, or keep their beginning."
        ),
    ] = "filter"
    add_special_tokens: Annotated[
        bool, _tokens("Put BOS and EOS around every document that has tokens.")
    ] = False
    bos_id: Annotated[int | None, _id("BOS id, instead of the tokenizer's own.")] = None
    eos_id: Annotated[int | None, _id("EOS and EOD id, instead of the tokenizer's own.")] = None
    append_eod: Annotated[
        bool, _tokens("Append the end-of-document id to every document that has tokens.")
    ] = False
    empty_docs: Annotated[
        EmptyDocs,
        _tokens(
            "Documents without tokens: index them without a sequence as Megatron does, drop them, "
            "or write the EOD alone."
        ),
    ] = "index"
    dtype: Annotated[
        Literal["auto", "u16", "u32"],
        _tokens(
            "Type of the token ids: u16, u32 (int32 on disk), or by the size of the vocabulary."
        ),
    ] = "auto"
    special_in_text: Annotated[
        Literal["encode", "plain"],
        _tokens(
            "Encode the text of a special token in a document as that token, or as plain text."
        ),
    ] = "encode"
    chat_template: Annotated[
        str | None,
        _chats(
            "Chat template for conversations: a name or a file.",
            metavar="NAME|FILE",
            default="the tokenizer's own, else chatml",
        ),
    ] = None
    loss_mask: Annotated[
        bool, _chats("Write loss masks to PREFIX.loss_mask.bin/.idx.", negative="no-loss-mask")
    ] = True
    pack: Annotated[
        int | None,
        _tokens("Pack texts into documents of at most this many tokens.", metavar="INT", minimum=2),
    ] = None
    special_tokens_json: Annotated[
        Path | None,
        _tokens(
            "File with the special tokens and ids that the tokenizer must have.", metavar="PATH"
        ),
    ] = None
    strict_special_ids: Annotated[
        bool, _tokens("Stop if one of those is missing or has another id.")
    ] = False

    def __post_init__(self) -> None:
        for problem in self._problems():
            raise ConversionError("", problem)

    def _problems(self) -> list[str]:
        problems = limit_problems(self)
        ranges = {"chars": (self.min_chars, self.max_chars)}
        ranges["tokens"] = (self.min_tokens, self.most_tokens)
        for unit, (low, high) in ranges.items():
            if low is not None and high is not None and low > high:
                problems.append(f"`min_{unit}` is above `max_{unit}`")
        if (self.bos_id is not None) and not self.add_special_tokens:
            problems.append("`bos_id` needs `add_special_tokens`")
        if self.eos_id is not None and not (self.add_special_tokens or self.append_eod):
            problems.append("`eos_id` needs `add_special_tokens` or `append_eod`")
        if self.empty_docs == "eod" and not self.append_eod:
            problems.append("`empty_docs` eod needs `append_eod`")
        if any("\ud800" <= character <= "\udfff" for character in self.concat_sep):
            problems.append("`concat_sep` is not valid Unicode text")
        if self.text_cols is not None and not (self.text_cols and all(self.text_cols)):
            problems.append("`text_cols` names no column")
        if len(set(self.text_cols or ())) < len(self.text_cols or ()):
            problems.append("`text_cols` names a column twice")
        return [*problems, *self._packing_problems()]

    def _packing_problems(self) -> list[str]:
        if self.pack is None:
            return []
        if self.doc_boundary == "file":
            return ["`pack` joins rows: it cannot be used with `doc_boundary` file"]
        if self.max_tokens is not None and self.max_tokens > self.pack - self.append_eod:
            return ["`max_tokens` is above the size of one pack"]
        return []

    @property
    def most_tokens(self) -> int | None:
        """`max_tokens`, or the room that a pack leaves."""
        if self.pack is None or self.max_tokens is not None:
            return self.max_tokens
        return self.pack - self.append_eod

    @property
    def plain(self) -> bool:
        """Whether special tokens in a text are encoded as text."""
        return self.special_in_text == "plain"

    def to_document(self) -> dict[str, object]:
        """Return the options as `.meta.json` holds them."""
        path = self.special_tokens_json
        return {**encode(self), "special_tokens_json": None if path is None else path.name}

    @staticmethod
    def from_document(document: Mapping[str, object]) -> "BuildOptions":
        """Return the options of a `.meta.json`; unknown keys of later versions are ignored."""
        options = decode(BuildOptions, document)
        path = options.special_tokens_json
        return options if path is None else replace(options, special_tokens_json=Path(path))


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkOptions:
    """The settings of the work; none of them changes a byte of the result."""

    batch_size: Annotated[
        int, _count("Maximum number of texts in a batch; a batch also ends at 4 MiB.")
    ] = 16_384
    workers: Annotated[
        int | None, _count("Number of tokenizing threads.", default="cores - 2, at least 2")
    ] = None
    queue_cap: Annotated[
        int, _count("Maximum number of shards of about 1 MiB between two stages.")
    ] = 8
    tok_parallel: Annotated[
        Literal["auto", "internal", "external", "both"],
        _work(
            "Threads with an engine each (external), threads inside one engine (internal, as many "
            "as RAYON_NUM_THREADS), or both; auto is external."
        ),
    ] = "auto"
    batch_shards: Annotated[
        int | None,
        _count(
            "Number of shards that a batch is split into for the workers.",
            default="auto",
            parse=_read_shards,
        ),
    ] = None
    rowgroup_parallel: Annotated[
        int, _count("Number of row groups of a file that are decoded at the same time.")
    ] = 1
    processes: Annotated[
        int, _count("Number of supervised processes, each with its own pipeline.")
    ] = 1
    affinity: Annotated[bool, _work("Bind each process to its own cores.")] = False
    tok_engine: Annotated[
        Literal["auto", "hf", "gigatoken", "fastokens"],
        _work("Tokenizer engine; auto takes a fast one with exactly the ids of Hugging Face."),
    ] = "auto"
    engine_memory: int = 256 << 20  # bytes that the caches of the engines may take in one process
    resume: Annotated[bool, _work("Resume an interrupted build.")] = False
    overwrite: Annotated[bool, _work("Replace an existing data set.")] = False
    fail_fast: Annotated[bool, _work("Stop at the first file or row that fails.")] = False
    tmp_dir: Annotated[
        Path | None,
        _work(
            "Folder of unfinished files, on the same file system.",
            metavar="PATH",
            default="beside the prefix",
        ),
    ] = None
    shard: Shard = None
    runner: RunnerName = "processes"
    ray_address: RayAddress = None

    def __post_init__(self) -> None:
        for problem in limit_problems(self):
            raise ConversionError("", problem)
        if self.engine_memory < 1:
            raise ConversionError("", f"`engine_memory` is 1 or more, not {self.engine_memory}")

    def threads(self) -> tuple[int, int]:
        """Tokenizing threads of one process, and the threads inside each one's engine."""
        cores = usable_cores()
        process_cores = max(1, cores // self.processes)
        workers = self.workers or max(min(process_cores, 2), process_cores - 2)
        inside = _rayon_threads() or process_cores
        if self.tok_parallel == "internal":
            return 1, inside
        return workers, inside if self.tok_parallel == "both" else 1


@dataclass(frozen=True, kw_only=True, slots=True)
class WatchOptions:
    """The settings of a build's log, metrics and alarms."""

    log_level: Annotated[Level, _logging("Lowest level that is logged.")] = "info"
    exporter: Annotated[
        Literal["none", "prometheus", "stdout"],
        _logging(
            "Where metrics go: a line in the log (stdout), HTTP /metrics and /healthz, or nowhere.",
            flag="metrics-exporter",
        ),
    ] = "stdout"
    interval: Annotated[
        float,
        _logging(
            "Seconds between two samples of the metrics.",
            metavar="SECONDS",
            flag="metrics-interval",
            minimum=0.1,
        ),
    ] = 5.0
    port: Annotated[
        int,
        _logging(
            "Port of the HTTP server; 0 = any free one.",
            metavar="INT",
            flag="metrics-port",
            minimum=0,
            maximum=65_535,
        ),
    ] = 9464
    stall_seconds: Annotated[
        float,
        _logging("Seconds without a finished batch until an alarm.", metavar="SECONDS", minimum=1),
    ] = 300.0
    error_streak: Annotated[
        int, _logging("Number of consecutive failed rows until an alarm.", metavar="INT", minimum=1)
    ] = 1000
