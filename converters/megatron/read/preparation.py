"""Turn rows into texts that an engine can take: joined, limited, cut, conversations rendered."""

import codecs
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingot.converters.megatron.chat.chatml import render_table
from ingot.converters.megatron.chat.rendering import RenderedChat, TemplateError, TextSpan
from ingot.converters.megatron.options import BuildOptions
from ingot.converters.megatron.read.input_files import InputLayout
from ingot.converters.megatron.read.row_batches import RowBatch, join_columns, text_view
from ingot.converters.megatron.text.documents import (
    GOES_ON,
    NEW_DOCUMENT,
    NEW_SEQUENCE,
    SHARD_BYTES,
    PendingShard,
    Shard,
    attach_rejects,
    reject_row,
    slice_shards,
)
from ingot.converters.megatron.text.long_texts import (
    LONG_REASON,
    SHORT_REASON,
    UNCUTTABLE_REASON,
    Cutter,
    LongText,
    TextPiece,
    UncuttableError,
    limit_text,
)
from ingot.converters.rows import Json, Reject

if TYPE_CHECKING:
    from ingot.converters.megatron.chat.template_process import Conversation
    from ingot.converters.megatron.chat.templates import ChatTemplate

TEMPLATE_REASON: Final = "template"
# Kind, text, leading ids to be dropped, what of it is trained on.
_ChatPiece: TypeAlias = tuple[int, str, int, tuple[TextSpan, ...]]


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
        own = row.take(pa.array([0]))
        own.validate(full=True)
    except pa.ArrowInvalid as error:
        return TemplateError(str(error))
    return _check_conversation(own.to_pylist()[0])


def _check_conversation(chat: dict[str, Json]) -> "Conversation":
    return chat if chat["messages"] else TemplateError("no messages")


BAD_UTF8_REASON: Final = "bad_utf8"
APART_BYTES: Final = 16 << 20  # batches of more hold a very long text
BLOCK_BYTES: Final = 1 << 20  # of a long text that is decoded at a time


@dataclass(frozen=True, kw_only=True, slots=True)
class Preparer:
    """Makes shards of the rows of a unit."""

    layout: InputLayout
    options: BuildOptions
    cutter: Cutter  # cuts texts that are longer than its limit
    template: "ChatTemplate | None" = None  # renders conversations; None where there are none
    shards: int = 1  # parts that the texts of a batch are cut into at least

    def prepare(self, name: str, batches: Iterable[RowBatch]) -> Iterator[Shard]:
        """The shards of all rows of a unit, in order."""
        if self.options.doc_boundary == "file":
            yield from self._file(name, batches)
            return
        for rows in batches:
            for some in _split_long_rows(rows):
                if self.template is None:
                    yield from self._texts(name, some)
                else:
                    yield from self._chats(self.template, name, some)
            yield Shard(read=rows.read, row_group=rows.row_group)

    def _chats(self, template: "ChatTemplate", name: str, rows: RowBatch) -> Iterator[Shard]:
        found = render_table(rows.table) if template.is_chatml and rows.valid else None
        if found is None:
            yield from self._single_chats(template, name, rows)
            return
        texts, spans = found
        chars = pc.utf8_length(texts).to_numpy()
        most = min(self.cutter.limit, self.options.max_chars or self.cutter.limit)
        odd = np.flatnonzero((chars < (self.options.min_chars or 0)) | (chars > most)).tolist()
        begin = 0
        for place in [*odd, len(texts)]:
            numbers = np.arange(rows.first + begin, rows.first + place)
            yield Shard(tally={"rows": len(numbers)})
            own = texts.slice(begin, len(numbers))
            yield from slice_shards(own, numbers, None, self.shards, spans.slice(begin, place))
            if place < len(texts):  # it is limited or cut
                row = replace(rows, first=rows.first + place, table=rows.table.slice(place, 1))
                yield from self._single_chats(template, name, row)
            begin = place + 1

    def _single_chats(self, template: "ChatTemplate", name: str, rows: RowBatch) -> Iterator[Shard]:
        tally: Counter[str] = Counter()
        rejects: list[Reject] = []
        pending = PendingShard()
        shards: list[Shard] = []
        chats = _read_conversations(rows)
        rendered = template.render(chats, file=name, first=rows.first)
        for number, (chat, made) in enumerate(zip(chats, rendered, strict=True), rows.first):
            if isinstance(chat, TemplateError) or isinstance(made, TemplateError):
                rejects.append(reject_row(name, number, TEMPLATE_REASON, str(made)))
                continue
            try:
                pieces = self._chat_pieces(made, tally)
            except UncuttableError as error:
                rejects.append(reject_row(name, number, UNCUTTABLE_REASON, str(error)))
                continue
            tally["tools_unused"] += chat["tools"] is not None and not template.takes_tools
            for piece in pieces:
                pending.add(number, *piece)
            if pending.bytes >= SHARD_BYTES // self.shards:
                shards.append(pending.shard())
                pending = PendingShard()
        tally.update(rows=rows.table.num_rows, rejected=len(rejects))
        yield Shard(tally=tally)
        yield from attach_rejects([*shards, pending.shard()], rejects)

    def _chat_pieces(self, chat: RenderedChat, tally: Counter[str]) -> list[_ChatPiece]:
        options, length = self.options, len(chat.text)
        if length < (options.min_chars or 0):
            tally["short"] += 1
            return []
        over = options.max_chars is not None and length > options.max_chars
        if over and options.long_docs == "filter":
            tally["long"] += 1
            return []
        spans = chat.spans
        whole = not over and length <= self.cutter.limit
        if whole and (not spans or (spans[0].end and spans[-1].start < length)):  # none is empty
            return [(NEW_DOCUMENT, chat.text, 0, spans)]
        pieces: list[_ChatPiece] = []
        start = 0
        for text in limit_text(chat.text, options):
            kind = NEW_SEQUENCE if pieces else NEW_DOCUMENT
            for piece in self.cutter.cut(text, self.cutter.limit):
                begin = start + piece.start
                own = _clip_spans(spans, begin, begin + len(piece.text))
                pieces.append((kind, piece.text, piece.skip, own))
                kind = GOES_ON
            start += len(text)
        if over:
            tally["truncated" if options.long_docs == "truncate" else "split"] += 1
        return pieces

    def _texts(self, name: str, rows: RowBatch) -> Iterator[Shard]:
        texts, rejects, tally = self._columns(name, rows)
        chars = pc.binary_length(texts).to_numpy()  # at least
        limits = self.options.min_chars, self.options.max_chars
        if limits != (None, None) or chars.max(initial=0) > self.cutter.limit:
            chars = pc.utf8_length(texts).to_numpy()
        kept = np.ones(len(texts), np.bool_)
        kept[[reject.row - rows.first for reject in rejects]] = False
        yield Shard(tally=tally | self._filter(chars, kept))
        most = self.options.max_chars
        over = np.zeros_like(kept) if most is None else kept & (chars > most)
        batch = _TextBatch(rows.first, texts, kept, over)
        long = np.flatnonzero(kept & (chars > self.cutter.limit)).tolist()
        yield from attach_rejects(self._ordered_shards(name, batch, long), rejects)

    def _columns(
        self, name: str, rows: RowBatch
    ) -> tuple[pa.LargeStringArray, list[Reject], dict[str, int]]:
        strip = self.options.strip and self.layout.kind == "raw"
        separator = self.options.concat_sep
        texts, missing, bad = join_columns(rows, strip=strip, separator=separator)
        rejects = [
            reject_row(name, rows.first + place, BAD_UTF8_REASON, found)
            for place, found in bad.items()
        ]
        tally = {"rows": len(texts), "rejected": len(rejects), "null": int(missing.sum())}
        return texts, rejects, tally

    def _filter(self, chars: npt.NDArray[np.int64], kept: npt.NDArray[np.bool_]) -> dict[str, int]:
        """Take what is too short or too long out of `kept`; gives how many."""
        short = kept & (chars < (self.options.min_chars or 0))
        long = np.zeros_like(kept)
        if self.options.max_chars is not None and self.options.long_docs == "filter":
            long = kept & (chars > self.options.max_chars)
        kept &= ~(short | long)
        return {"short": int(short.sum()), "long": int(long.sum())}

    def _ordered_shards(self, name: str, batch: "_TextBatch", long: list[int]) -> Iterator[Shard]:
        begin = 0
        for place in long:
            yield from self._stretch(batch, begin, place)
            yield from self._long(name, batch.first + place, _decode_blocks(batch.texts, place))
            begin = place + 1
        yield from self._stretch(batch, begin, len(batch.texts))

    def _stretch(self, batch: "_TextBatch", begin: int, end: int) -> Iterator[Shard]:
        """Rows from `begin` to `end`, none of which is longer than a piece."""
        places = np.flatnonzero(batch.kept[begin:end]) + begin
        own = batch.texts.slice(begin, end - begin)
        if len(places) < end - begin:
            own = batch.texts.take(pa.array(places))
        over = int(batch.over[begin:end].sum())
        if not over:
            yield from slice_shards(own, places + batch.first, None, self.shards)
            return
        pieces = [limit_text(text, self.options) for text in own.to_pylist()]
        counts = np.array([len(some) for some in pieces])
        kinds = np.full(int(counts.sum()), NEW_SEQUENCE, np.uint8)
        kinds[np.cumsum(counts) - counts] = NEW_DOCUMENT
        texts = pa.array([text for some in pieces for text in some], pa.large_string())
        way = "truncated" if self.options.long_docs == "truncate" else "split"
        yield Shard(tally={way: over})
        yield from slice_shards(texts, np.repeat(places + batch.first, counts), kinds, self.shards)

    def _long(self, name: str, row: int, blocks: Iterable[str]) -> Iterator[Shard]:
        document = LongText(self.cutter, self.options)
        yield _opening_shard(row)
        for block in blocks:
            yield from _piece_shards(row, document.feed(block))
            if document.ended:
                break
        yield from _piece_shards(row, document.finish())
        yield _closing_shard(name, row, document)

    def _file(self, name: str, batches: Iterable[RowBatch]) -> Iterator[Shard]:
        """All rows of a file as one document."""
        document = LongText(self.cutter, self.options)
        yield _opening_shard(0)
        begun = False
        for rows in batches:
            if rows.table.num_rows:
                texts, rejects, tally = self._columns(name, rows)
                yield Shard(tally=tally, rejects=tuple(rejects))
                for block in _join_blocks(texts, self.options.concat_sep, begun):
                    yield from _piece_shards(rows.first, document.feed(block))
                    begun = True
            yield Shard(read=rows.read, row_group=rows.row_group)
        yield from _piece_shards(0, document.finish())
        yield _closing_shard(name, 0, document)


@dataclass(frozen=True, slots=True)
class _TextBatch:
    """Texts of consecutive rows: which stay, and which of those are over `max_chars`."""

    first: int
    texts: pa.LargeStringArray
    kept: npt.NDArray[np.bool_]
    over: npt.NDArray[np.bool_]


def _split_long_rows(rows: RowBatch) -> Iterator[RowBatch]:
    """Rows as they are, or one by one where some of them are very long."""
    table = rows.table
    if table.nbytes <= APART_BYTES:
        if table.num_rows:
            yield rows
        return
    for place in range(table.num_rows):
        yield replace(rows, first=rows.first + place, table=table.slice(place, 1))


def _opening_shard(row: int) -> Shard:
    return Shard(rows=np.array([row], np.int64), long=True, opens=True)


def _piece_shards(row: int, pieces: Iterable[TextPiece]) -> Iterator[Shard]:
    for kind, text, skip in pieces:
        yield Shard(
            texts=pa.array([text], pa.large_string()),
            rows=np.array([row], np.int64),
            kinds=np.array([kind], np.uint8),
            skips=np.array([skip], np.int64) if skip else None,
            long=True,
        )


def _closing_shard(name: str, row: int, document: LongText) -> Shard:
    rejects = []
    if document.verdict == UNCUTTABLE_REASON:
        rejects.append(reject_row(name, row, UNCUTTABLE_REASON, document.problem))
    stays = document.verdict is None
    tally = {
        "truncated": int(document.truncated and stays),
        "split": int(document.split and stays),
        "short": int(document.verdict == SHORT_REASON),
        "long": int(document.verdict == LONG_REASON),
        "rejected": len(rejects),
    }
    return Shard(long=True, closes=True, dropped=not stays, tally=tally, rejects=tuple(rejects))


def _decode_blocks(texts: pa.LargeStringArray, place: int) -> Iterator[str]:
    """A long text, decoded bit by bit."""
    content = text_view(texts, place)
    decoder = codecs.getincrementaldecoder("utf-8")()
    for start in range(0, len(content), BLOCK_BYTES):
        yield decoder.decode(content[start : start + BLOCK_BYTES])


def _join_blocks(texts: pa.LargeStringArray, separator: str, begun: bool) -> Iterator[str]:
    """The texts that are not empty, joined, in blocks."""
    held: list[str] = []
    size = 0
    for place, length in enumerate(pc.binary_length(texts).to_pylist()):
        if not length:
            continue
        if begun:
            held.append(separator)
        begun = True
        if length > BLOCK_BYTES:
            yield "".join(held)
            yield from _decode_blocks(texts, place)
            held, size = [], 0
            continue
        held.append(texts[place].as_py())
        size += length
        if size > BLOCK_BYTES:
            yield "".join(held)
            held, size = [], 0
    if held:
        yield "".join(held)
