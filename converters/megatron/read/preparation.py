"""Turn rows into texts that an engine can take: joined, limited, conversations rendered."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingot.converters.megatron.chat.rendering import RenderedChat, TemplateError, TextSpan
from ingot.converters.megatron.documents import (
    NEW_DOCUMENT,
    NEW_SEQUENCE,
    SHARD_BYTES,
    Flags,
    PendingShard,
    Shard,
    Sizes,
    TextKinds,
    attach_rejects,
    reject_row,
    slice_shards,
)
from ingot.converters.megatron.options import BuildOptions
from ingot.converters.megatron.read.input_files import InputLayout
from ingot.converters.megatron.read.row_batches import RowBatch, join_columns
from ingot.converters.rows import Json, Reject

if TYPE_CHECKING:
    from ingot.converters.megatron.chat.template_process import Conversation
    from ingot.converters.megatron.chat.templates import ChatTemplate

# UTF-8 bytes of the largest text that is tokenized. A text is encoded whole, and the libraries
# need many times its size for that: `docs/tokens.md` says how much.
LARGEST_TEXT: Final = 64 << 20
_TOO_LONG: Final = f"more than {LARGEST_TEXT:,} bytes of text: split it into documents first"

TEMPLATE_REASON: Final = "template"
TOO_LONG_REASON: Final = "too_long"
# Kind, text, what of it is trained on.
_ChatSequence: TypeAlias = tuple[int, str, tuple[TextSpan, ...]]


class _TooLongError(Exception):
    """The text of a conversation is larger than what is tokenized."""


def _clip_spans(spans: Sequence[TextSpan], start: int, end: int) -> tuple[TextSpan, ...]:
    """What of the spans lies in a part of the text, by its own characters."""
    return tuple(
        TextSpan(max(span.start, start) - start, min(span.end, end) - start, span.trained)
        for span in spans
        if span.start < end and span.end > start
    )


def _read_conversations(rows: RowBatch) -> "list[Conversation]":
    """Records as dicts, or what is wrong with one."""
    if rows.valid:
        return [_check_conversation(chat) for chat in rows.table.to_pylist()]
    return [_read_conversation(rows.table.slice(i, 1)) for i in range(rows.table.num_rows)]


def _read_conversation(row: pa.RecordBatch) -> "Conversation":
    try:
        # A slice keeps the values of its neighbours.
        copied = row.take(pa.array([0]))
        copied.validate(full=True)
    except pa.ArrowInvalid as error:
        return TemplateError(str(error))
    return _check_conversation(copied.to_pylist()[0])


def _check_conversation(chat: dict[str, Json]) -> "Conversation":
    return chat if chat["messages"] else TemplateError("no messages")


BAD_UTF8_REASON: Final = "bad_utf8"
APART_BYTES: Final = 16 << 20  # batches of more hold a very long text


@dataclass(frozen=True, kw_only=True, slots=True)
class Preparer:
    """Makes shards of the rows of a unit."""

    layout: InputLayout
    options: BuildOptions
    template: "ChatTemplate | None" = None  # renders conversations; None where there are none
    shards: int = 1  # parts that the texts of a batch are cut into at least

    def prepare(self, name: str, batches: Iterable[RowBatch]) -> Iterator[Shard]:
        """Yield the shards of all rows of a unit, in order."""
        if self.options.doc_boundary == "file":
            yield from self._file(name, batches)
            return
        for rows in batches:
            for part in _split_long_rows(rows):
                if self.template is None:
                    yield from self._texts(name, part)
                else:
                    yield from self._chats(self.template, name, part)
            yield Shard(read=rows.read, row_group=rows.row_group)

    def _chats(self, template: "ChatTemplate", name: str, rows: RowBatch) -> Iterator[Shard]:
        rendered = template.render_table(rows.table) if rows.valid else None
        if rendered is None:
            yield from self._single_chats(template, name, rows)
            return
        texts, spans = rendered
        numbers = np.arange(rows.first, rows.first + len(texts))
        shard = Shard(texts=texts, rows=numbers, spans=spans)
        start = 0
        for position in [*np.flatnonzero(self._beyond_limits(texts)).tolist(), len(texts)]:
            yield Shard(tally={"rows": position - start})
            yield from slice_shards(shard.slice(start, position), self.shards)
            if position < len(texts):  # it is limited or refused
                row = replace(
                    rows, first=rows.first + position, table=rows.table.slice(position, 1)
                )
                yield from self._single_chats(template, name, row)
            start = position + 1

    def _beyond_limits(self, texts: pa.LargeStringArray) -> Flags:
        """Tell which texts a limit in characters applies to, or are too long to be tokenized."""
        chars = pc.utf8_length(texts).to_numpy()
        beyond: Flags = _text_sizes(texts) > LARGEST_TEXT
        beyond |= chars < (self.options.min_chars or 0)
        if self.options.max_chars is not None:
            beyond |= chars > self.options.max_chars
        return beyond

    def _single_chats(self, template: "ChatTemplate", name: str, rows: RowBatch) -> Iterator[Shard]:
        tally: Counter[str] = Counter()
        rejects: list[Reject] = []
        pending = PendingShard()
        shards: list[Shard] = []
        chats = _read_conversations(rows)
        rendered = template.render(chats, file=name, first=rows.first)
        for number, (chat, text) in enumerate(zip(chats, rendered, strict=True), rows.first):
            if isinstance(chat, TemplateError) or isinstance(text, TemplateError):
                rejects.append(reject_row(name, number, TEMPLATE_REASON, str(text)))
                continue
            try:
                sequences = self._chat_sequences(text, tally)
            except _TooLongError as error:
                rejects.append(reject_row(name, number, TOO_LONG_REASON, str(error)))
                continue
            tally["tools_unused"] += chat["tools"] is not None and not template.takes_tools
            for sequence in sequences:
                pending.add(number, *sequence)
            if pending.bytes >= SHARD_BYTES // self.shards:
                shards.append(pending.shard())
                pending = PendingShard()
        tally.update(rows=rows.table.num_rows, rejected=len(rejects))
        yield Shard(tally=tally)
        yield from attach_rejects([*shards, pending.shard()], rejects)

    def _chat_sequences(self, chat: RenderedChat, tally: Counter[str]) -> list[_ChatSequence]:
        options, length = self.options, len(chat.text)
        if length < (options.min_chars or 0):
            tally["short"] += 1
            return []
        over = options.max_chars is not None and length > options.max_chars
        if over and options.long_docs == "filter":
            tally["long"] += 1
            return []
        texts = _limit_text(chat.text, options)
        if sum(len(text.encode()) for text in texts) > LARGEST_TEXT:
            raise _TooLongError(_TOO_LONG)
        if over:
            tally["truncated" if options.long_docs == "truncate" else "split"] += 1
        sequences: list[_ChatSequence] = []
        start = 0
        for text in texts:
            kind = NEW_SEQUENCE if sequences else NEW_DOCUMENT
            sequences.append((kind, text, _clip_spans(chat.spans, start, start + len(text))))
            start += len(text)
        return sequences

    def _texts(self, name: str, rows: RowBatch) -> Iterator[Shard]:
        texts, rejects, tally = self._columns(name, rows)
        yield Shard(tally=tally)
        yield from self._documents(name, rows.first, texts, rejects)

    def _columns(
        self, name: str, rows: RowBatch
    ) -> tuple[pa.LargeStringArray, list[Reject], dict[str, int]]:
        strip = self.options.strip and self.layout.kind == "raw"
        separator = self.options.concat_sep
        texts, missing, invalid = join_columns(rows, strip=strip, separator=separator)
        rejects = [
            reject_row(name, rows.first + position, BAD_UTF8_REASON, value)
            for position, value in invalid.items()
        ]
        tally = {"rows": len(texts), "rejected": len(rejects), "null": int(missing.sum())}
        return texts, rejects, tally

    def _documents(
        self, name: str, first: int, texts: pa.LargeStringArray, invalid: list[Reject]
    ) -> Iterator[Shard]:
        """Shards of the documents that consecutive rows are, but for the bad ones."""
        is_kept = np.ones(len(texts), np.bool_)
        is_kept[[reject.row - first for reject in invalid]] = False
        texts, over, tally = self._limit(texts, is_kept)
        large = np.flatnonzero(is_kept & (_text_sizes(texts) > LARGEST_TEXT)).tolist()
        is_kept[large] = over[large] = False
        refused = [
            reject_row(name, first + position, TOO_LONG_REASON, _TOO_LONG) for position in large
        ]
        action = "truncated" if self.options.long_docs == "truncate" else "split"
        yield Shard(tally=tally | {action: int(over.sum()), "rejected": len(refused)})
        shard = self._sequences(texts, first, is_kept, split=action == "split" and bool(over.any()))
        rejects = sorted([*invalid, *refused], key=lambda reject: reject.row)
        yield from attach_rejects(slice_shards(shard, self.shards), rejects)

    def _limit(
        self, texts: pa.LargeStringArray, is_kept: Flags
    ) -> tuple[pa.LargeStringArray, Flags, dict[str, int]]:
        """Take what is too short or too long out of `is_kept`; truncate what is to be truncated.

        Gives the texts, those that stay although they are over the maximum, and the counts.
        """
        min_chars, max_chars, action = (
            self.options.min_chars,
            self.options.max_chars,
            self.options.long_docs,
        )
        over = long = np.zeros_like(is_kept)
        if min_chars is None and max_chars is None:
            return texts, over, {}
        chars = pc.utf8_length(texts).to_numpy()
        short = is_kept & (chars < (min_chars or 0))
        if max_chars is not None:
            over = is_kept & (chars > max_chars)
        if action == "filter":
            long = over
        is_kept &= ~(short | long)
        over = over & is_kept
        if action == "truncate" and over.any():
            texts = pc.utf8_slice_codeunits(texts, 0, max_chars)
        return texts, over, {"short": int(short.sum()), "long": int(long.sum())}

    def _sequences(
        self, texts: pa.LargeStringArray, first: int, is_kept: Flags, *, split: bool
    ) -> Shard:
        """The texts that are kept, split into sequences if any of them is to be."""
        positions = np.flatnonzero(is_kept)
        kept_texts = texts if len(positions) == len(texts) else texts.take(pa.array(positions))
        if not split:
            return Shard(texts=kept_texts, rows=positions + first)
        parts = [_limit_text(text, self.options) for text in kept_texts.to_pylist()]
        counts = np.array([len(sequences) for sequences in parts])
        kinds: TextKinds = np.full(int(counts.sum()), NEW_SEQUENCE, np.uint8)
        kinds[np.cumsum(counts) - counts] = NEW_DOCUMENT
        texts = pa.array([text for sequences in parts for text in sequences], pa.large_string())
        return Shard(texts=texts, rows=np.repeat(positions + first, counts), kinds=kinds)

    def _file(self, name: str, batches: Iterable[RowBatch]) -> Iterator[Shard]:
        """All rows of a file as one document; what is beyond the largest text is not held."""
        pieces: list[pa.LargeStringArray] = []
        size = 0
        for rows in batches:
            if rows.table.num_rows:
                texts, rejects, tally = self._columns(name, rows)
                yield Shard(tally=tally, rejects=tuple(rejects))
                if size <= LARGEST_TEXT:
                    pieces.append(texts.filter(pc.greater(pc.binary_length(texts), 0)))
                    size += int(_text_sizes(texts).sum())
            yield Shard(read=rows.read, row_group=rows.row_group)
        joined = _join_texts(pieces, self.options.concat_sep)
        yield from self._documents(name, 0, joined, [])


def _text_sizes(texts: pa.LargeStringArray) -> Sizes:
    """Return the UTF-8 bytes of each text."""
    sizes: Sizes = pc.binary_length(texts).to_numpy()
    return sizes


def _split_long_rows(rows: RowBatch) -> Iterator[RowBatch]:
    """Rows as they are, or one by one where some of them are very long."""
    table = rows.table
    if table.nbytes <= APART_BYTES:
        if table.num_rows:
            yield rows
        return
    for position in range(table.num_rows):
        yield replace(rows, first=rows.first + position, table=table.slice(position, 1))


def _join_texts(parts: list[pa.LargeStringArray], separator: str) -> pa.LargeStringArray:
    """Join all texts to one."""
    texts = pa.concat_arrays([pa.array([], pa.large_string()), *parts])
    rows = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    return pc.binary_join(rows, pa.scalar(separator, pa.large_string()))


def _limit_text(text: str, options: BuildOptions) -> list[str]:
    """Return the sequences of a document that stays, as `max_chars` and `long_docs` want them."""
    max_chars = options.max_chars
    if max_chars is None or len(text) <= max_chars:
        return [text]
    if options.long_docs == "truncate":
        return [text[:max_chars]]
    return list(_split_sequences(text, max_chars))


def _split_sequences(text: str, max_chars: int) -> Iterator[str]:
    """Yield a text in parts of at most `max_chars` characters, which join to the text.

    A part ends behind the last line break of its second half, else behind the last white space
    there, else after `max_chars` characters.
    """
    start = 0
    while len(text) - start > max_chars:
        end = _sequence_end(text, start + max_chars // 2, start + max_chars)
        yield text[start:end]
        start = end
    yield text[start:]


def _sequence_end(text: str, start: int, end: int) -> int:
    line = text.rfind("\n", start, end)
    if line >= 0:
        return line + 1
    return next((i for i in range(end, start, -1) if text[i - 1].isspace()), end)
