"""Unified records to a Megatron data set: one record, one document, in order, batch by batch."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from ingot.converters.errors import ConversionError
from ingot.converters.megatron.indexed import EmptyDocs, IndexedWriter, TokenDtype, token_dtype
from ingot.converters.megatron.render import RENDERING, render_chat
from ingot.converters.megatron.tokenizer import (
    Encoded,
    TokenizerFile,
    encode,
    find_eod,
    load_tokenizer,
)
from ingot.converters.records import read_batches, record_files
from ingot.converters.rows import Json, Reject

BATCH_CHARS: Final = (
    1 << 20
)  # text per call of the tokenizer, whose results take many times its size
NOT_TOKENIZED: Final = "not_tokenized"


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenStats:
    """What became of the records.

    Attributes:
        documents: documents of the data set, the empty ones that it keeps included.
        sequences: sequences of the data set.
        tokens: ids written, EOD included.
        characters: characters of the tokenized texts (chats as rendered).
        rejected: records that could not be tokenized.
        dtype: `uint16` or `int32`.
        eod_id: the id after every document, None = none.
        vocabulary: tokens of the tokenizer.
        tokenizer_sha256: of the tokenizer's file.
    """

    documents: int
    sequences: int
    tokens: int
    characters: int
    rejected: int
    dtype: TokenDtype
    eod_id: int | None
    vocabulary: int
    tokenizer_sha256: str


class _Progress:
    """Counts what the writer cannot know, and passes the rejects on."""

    def __init__(self, on_reject: Callable[[Reject], None] | None) -> None:
        self.characters = 0
        self.rejected = 0
        self._on_reject = on_reject

    def add(self, file: Path, first: int, texts: Sequence[str], encoded: Encoded) -> None:
        self.characters += sum(map(len, texts))
        for place, problem in encoded.failed:
            self.characters -= len(texts[place])
            self.rejected += 1
            if self._on_reject:
                self._on_reject(_reject(file, first + place, problem))


def build_tokens(
    parts: Path | Sequence[Path],
    tokenizer_file: Path,
    prefix: Path,
    *,
    append_eod: bool = True,
    eod_id: int | None = None,
    empty_docs: EmptyDocs = "index",
    overwrite: bool = False,
    on_reject: Callable[[Reject], None] | None = None,
) -> TokenStats:
    """Tokenize unified records into `PREFIX.bin`, `PREFIX.idx`, `PREFIX.meta.json`.

    Args:
        parts: record files in order, or their folder.
        tokenizer_file: a Hugging Face `tokenizer.json`.
        prefix: where to, without the endings; its folder exists.
        append_eod: put the EOD id after every document that has tokens.
        eod_id: that id; None = `find_eod`.
        empty_docs: what becomes of records without tokens, see `IndexedWriter`.
        overwrite: replace a data set that is there.
        on_reject: called for every record that the tokenizer refuses; it gives no document.

    Raises:
        ConversionError: no usable tokenizer, no EOD id, unreadable records, not a single token.
        OutputError: the data set exists, or it cannot be written.
    """
    files = record_files(parts)
    if not files:
        raise ConversionError(str(parts), "no record parts", "convert a data set there first")
    loaded = load_tokenizer(tokenizer_file)
    eod = _eod(loaded, eod_id) if append_eod else None
    dtype = token_dtype(loaded.vocabulary, loaded.largest_id)
    progress = _Progress(on_reject)
    with IndexedWriter(
        prefix, dtype, eod=eod, empty_docs=empty_docs, overwrite=overwrite
    ) as writer:
        for file in files:
            for first, texts in _texts(file):
                encoded = encode(loaded.tokenizer, texts)
                writer.add_documents(encoded.ids, encoded.lengths)
                progress.add(file, first, texts, encoded)
        stats = _stats(writer, loaded, dtype, eod, progress)
        writer.commit(_meta(stats, loaded, append_eod, empty_docs))
    return stats


def _eod(loaded: TokenizerFile, stated: int | None) -> int:
    if stated is None:
        return find_eod(loaded)
    if not 0 <= stated <= loaded.largest_id:
        raise ConversionError(
            str(loaded.path), f"has no id {stated}", f"ids go from 0 to {loaded.largest_id}"
        )
    return stated


def _texts(file: Path) -> Iterator[tuple[int, list[str]]]:
    """The texts of a part in lists of about `BATCH_CHARS`, each with its first record's number."""
    first = 0
    for batch in read_batches([file]):
        pending: list[str] = []
        size = 0
        for text in _batch_texts(batch):
            pending.append(text)
            size += len(text)
            if size >= BATCH_CHARS:
                yield first, pending
                first, pending, size = first + len(pending), [], 0
        if pending:
            yield first, pending
            first += len(pending)


def _batch_texts(batch: pa.RecordBatch) -> Iterator[str]:
    if "text" in batch.schema.names:
        return (text or "" for text in batch.column("text").to_pylist())
    chats = zip(
        *(batch.column(n).to_pylist() for n in ("messages", "system", "tools")), strict=True
    )
    return (render_chat(m or [], system=s, tools=t).text for m, s, t in chats)


def _reject(file: Path, row: int, problem: str) -> Reject:
    return Reject(
        file=file.name, row=row, element=None, reason=NOT_TOKENIZED, path=None, found=problem
    )


def _stats(
    writer: IndexedWriter,
    loaded: TokenizerFile,
    dtype: TokenDtype,
    eod: int | None,
    progress: _Progress,
) -> TokenStats:
    counts = writer.counts
    return TokenStats(
        documents=counts.documents,
        sequences=counts.sequences,
        tokens=counts.tokens,
        characters=progress.characters,
        rejected=progress.rejected,
        dtype=dtype,
        eod_id=eod,
        vocabulary=loaded.vocabulary,
        tokenizer_sha256=loaded.sha256,
    )


def _meta(
    stats: TokenStats, loaded: TokenizerFile, append_eod: bool, empty_docs: EmptyDocs
) -> dict[str, Json]:
    """What `.meta.json` holds: no times, no places, so that equal runs give equal bytes."""
    counts = ("documents", "sequences", "tokens", "characters", "rejected")
    return {
        "version": 1,
        "dtype": stats.dtype,
        "eod_id": stats.eod_id,
        "tokenizer": {
            "file": loaded.path.name,
            "sha256": loaded.sha256,
            "vocab_size": loaded.vocabulary,
        },
        "counts": {name: getattr(stats, name) for name in counts},
        "options": {
            "append_eod": append_eod,
            "empty_docs": empty_docs,
            "chat_rendering": RENDERING,
        },
    }
