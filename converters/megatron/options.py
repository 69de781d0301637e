"""What a user may set about a token build: what decides its bytes, and how the work is done."""

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from ingot.converters.errors import ConversionError
from ingot.converters.megatron.indexed_dataset import EmptyDocs
from ingot.converters.rows import Json

DocBoundary = Literal["row", "file"]
LongDocs = Literal["filter", "split", "truncate"]
DtypeOption = Literal["auto", "u16", "u32"]
SpecialInText = Literal["encode", "plain"]
TokParallel = Literal["auto", "internal", "external", "both"]
TokEngine = Literal["auto", "hf", "gigatoken", "fastokens"]

LEAST_PACK: Final = 2
RAYON: Final = "RAYON_NUM_THREADS"


def _find_too_small(options: object, least: int, *names: str) -> list[str]:
    """What is wrong with numbers that are to be that much or more, or None."""
    given = ((name, getattr(options, name)) for name in names)
    return [
        f"`{name}` takes {least} or more, not {number}"
        for name, number in given
        if number is not None and number < least
    ]


def _rayon_threads() -> int:
    """`RAYON_NUM_THREADS`; 0 where it leaves the number open, as it does for that library."""
    stated = os.environ.get(RAYON, "").strip() or "0"
    if not (stated.isascii() and stated.isdigit()):
        raise ConversionError(
            RAYON, f"{stated!r} is no number of threads", "state one, or unset it"
        )
    return int(stated)


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildOptions:
    """What decides the bytes of a data set, beside the inputs and the tokenizer.

    Attributes:
        text_cols: columns whose texts make a document; None = the first of `text`, `content`,
            `doc` that there is.
        doc_boundary: a document is a `row`, or all rows of a `file`.
        concat_sep: between the columns of a row, and between the rows of a file.
        strip: take white space off both ends of a text (never of unified records).
        min_chars: shorter documents are left out.
        max_chars: longer ones are treated as `long_docs` says.
        min_tokens: as `min_chars`, in tokens with BOS and EOS and without EOD.
        max_tokens: as `max_chars`, in such tokens.
        long_docs: what becomes of a document over a maximum: `filter` leaves it out, `truncate`
            keeps its beginning, `split` cuts it into several sequences of one document.
        add_special_tokens: put BOS and EOS around every document that has tokens.
        bos_id: the BOS id; None = what the tokenizer itself puts there, which may be nothing.
        eos_id: the EOS id, likewise; also the EOD id.
        append_eod: put the EOD id after every document that has tokens.
        empty_docs: what becomes of a document without tokens: `index` = a document without a
            sequence (as Megatron's preprocess_data.py), `drop` = left out, `eod` = the EOD alone.
        dtype: `u16`, `u32` (int32 on disk: Megatron has no uint32), `auto` = by the vocabulary.
        special_in_text: the text of a special token in a document is that token (`encode`), or
            text like any other (`plain`).
        chat_template: name or file; None = the tokenizer's own, else ChatML.
        loss_mask: write the loss masks of conversations.
        pack: put texts together into documents of at most this many tokens.
        special_tokens_json: a file of special tokens and the ids they ought to have.
        strict_special_ids: a difference there ends the build.
    """

    text_cols: tuple[str, ...] | None = None
    doc_boundary: DocBoundary = "row"
    concat_sep: str = "\n"
    strip: bool = True
    min_chars: int | None = None
    max_chars: int | None = None
    min_tokens: int | None = None
    max_tokens: int | None = None
    long_docs: LongDocs = "filter"
    add_special_tokens: bool = False
    bos_id: int | None = None
    eos_id: int | None = None
    append_eod: bool = False
    empty_docs: EmptyDocs = "index"
    dtype: DtypeOption = "auto"
    special_in_text: SpecialInText = "encode"
    chat_template: str | None = None
    loss_mask: bool = True
    pack: int | None = None
    special_tokens_json: Path | None = None
    strict_special_ids: bool = False

    def __post_init__(self) -> None:
        for problem in self._problems():
            raise ConversionError("", problem)

    def _problems(self) -> list[str]:
        found = [
            *_find_too_small(self, 0, "min_chars", "min_tokens"),
            *_find_too_small(self, 1, "max_chars", "max_tokens"),
        ]
        found += [
            f"{option} is above {other}"
            for option, other, low, high in (
                ("`min_chars`", "`max_chars`", self.min_chars, self.max_chars),
                ("`min_tokens`", "`max_tokens`", self.min_tokens, self.most_tokens),
            )
            if low is not None and high is not None and low > high
        ]
        if (self.bos_id is not None) and not self.add_special_tokens:
            found.append("`bos_id` needs `add_special_tokens`")
        if self.eos_id is not None and not (self.add_special_tokens or self.append_eod):
            found.append("`eos_id` needs `add_special_tokens` or `append_eod`")
        if self.empty_docs == "eod" and not self.append_eod:
            found.append("`empty_docs` eod needs `append_eod`")
        if any("\ud800" <= character <= "\udfff" for character in self.concat_sep):
            found.append("`concat_sep` is not valid text")
        if self.text_cols is not None and not (self.text_cols and all(self.text_cols)):
            found.append("`text_cols` names no column")
        if len(set(self.text_cols or ())) < len(self.text_cols or ()):
            found.append("`text_cols` names a column twice")
        return [*found, *self._packing_problems()]

    def _packing_problems(self) -> list[str]:
        if self.pack is None:
            return []
        if self.doc_boundary == "file":
            return ["`pack` joins rows: it cannot be used with `doc_boundary` file"]
        if self.pack < LEAST_PACK:
            return [f"`pack` takes {LEAST_PACK} tokens or more"]
        if self.max_tokens is not None and self.max_tokens > self.pack - self.append_eod:
            return ["`max_tokens` is above what one pack holds"]
        return []

    @property
    def most_tokens(self) -> int | None:
        """`max_tokens`, or what a pack leaves room for."""
        if self.pack is None or self.max_tokens is not None:
            return self.max_tokens
        return self.pack - self.append_eod

    @property
    def plain(self) -> bool:
        """Whether special tokens in a text are text."""
        return self.special_in_text == "plain"

    def to_document(self) -> dict[str, Json]:
        """The options as `.meta.json` holds them."""
        document = dataclasses.asdict(self)
        document["text_cols"] = list(self.text_cols) if self.text_cols else None
        path = self.special_tokens_json
        document["special_tokens_json"] = None if path is None else path.name
        return document

    @staticmethod
    def from_document(document: dict[str, Json]) -> "BuildOptions":
        """The options of a `.meta.json`; unknown keys of later versions are left out."""
        known = {one.name for one in dataclasses.fields(BuildOptions)}
        given: dict[str, Any] = {key: document[key] for key in document.keys() & known}
        columns, path = given.get("text_cols"), given.get("special_tokens_json")
        given["text_cols"] = None if columns is None else tuple(columns)
        given["special_tokens_json"] = None if path is None else Path(path)
        return BuildOptions(**given)


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkOptions:
    """How the work is done; none of it changes a byte of the result.

    Attributes:
        batch_size: texts per batch, at most; a batch also ends at a few MiB.
        workers: tokenizing threads; None = the cores but two, at least one.
        queue_cap: batches between two stages, at most.
        tok_parallel: `external` = threads with an engine each, `internal` = one engine with threads
            of its own, `both`; `auto` = external, internal where there is one worker and several
            cores.
        batch_shards: parts that a batch is cut into for the workers; None = by its size.
        rowgroup_parallel: row groups of a file that are decoded at once.
        processes: processes with a pipeline each.
        affinity: bind each process to cores of its own.
        tok_engine: the engine, or `auto`.
        engine_memory: bytes that the caches of the engines may take in one process.
        resume: go on with a build that was broken off.
        overwrite: replace a data set that is there.
        fail_fast: the first failed file or record ends the build.
        tmp_dir: where unfinished files lie; None = beside the prefix.
    """

    batch_size: int = 16_384
    workers: int | None = None
    queue_cap: int = 8
    tok_parallel: TokParallel = "auto"
    batch_shards: int | None = None
    rowgroup_parallel: int = 1
    processes: int = 1
    affinity: bool = False
    tok_engine: TokEngine = "auto"
    engine_memory: int = 256 << 20
    resume: bool = False
    overwrite: bool = False
    fail_fast: bool = False
    tmp_dir: Path | None = None

    def __post_init__(self) -> None:
        counts = ("batch_size", "workers", "queue_cap", "batch_shards", "rowgroup_parallel")
        for problem in _find_too_small(self, 1, *counts, "processes", "engine_memory"):
            raise ConversionError("", problem)

    def threads(self) -> tuple[int, int]:
        """Tokenizing threads of one process, and the threads inside each one's engine."""
        cores = os.cpu_count() or 1
        workers = self.workers or max(1, cores // self.processes - 2)
        inside = _rayon_threads() or max(1, cores // self.processes)
        if self.tok_parallel == "internal":
            return 1, inside
        if self.tok_parallel == "both":
            return workers, inside
        if self.tok_parallel == "auto" and self.workers is None and workers == 1:
            return 1, inside
        return workers, 1
