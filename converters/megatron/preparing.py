"""Rows to texts that an engine can take: stripped, joined, limited, conversations rendered.

What is given on is a shard: about a MiB of texts, in order, with the row of each. A text that is
too long for one call is cut where that changes no id; its pieces are shards of their own, which
together are one document.
"""

import codecs
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingot.converters.megatron.chats.render import Rendered, Span
from ingot.converters.megatron.chats.templates import ChatTemplate, TemplateError
from ingot.converters.megatron.cutting.cutter import Cutter, UncuttableError
from ingot.converters.megatron.longtexts import LONG, SHORT, UNCUTTABLE, LongText, sequences
from ingot.converters.megatron.options import BuildOptions
from ingot.converters.megatron.reading import Layout, Rows
from ingot.converters.megatron.shaping import GOES_ON, NEW_DOCUMENT, NEW_SEQUENCE
from ingot.converters.rows import Json, Reject

SHARD_BYTES: Final = 1 << 20
LONG_CHARS: Final = 1 << 20  # a longer text is cut
# What `str.strip` takes off.
WHITE_SPACE: Final = "".join(c for c in map(chr, range(0x3001)) if c.isspace())

BAD_UTF8: Final = "bad_utf8"
TEMPLATE: Final = "template"
FOUND_BYTES: Final = 100
_ChatPiece: TypeAlias = tuple[int, str, tuple[Span, ...]]  # kind, text, what of it is trained on
_BLOCK: Final = 1 << 20


_NO_ROWS: Final = np.zeros(0, np.int64)
_NO_TEXTS: Final = pa.array([], pa.large_string())


@dataclass(frozen=True, kw_only=True, slots=True)
class Shard:
    """Texts for one call of an engine; or none, where there is only something to be counted.

    Attributes:
        texts: the texts, without nulls.
        rows: number of the row of each.
        kinds: what each is to the one before it (see `shaping`); None = each is a document.
        spans: per text, what of it is trained on; None where nothing is a conversation.
        long: belongs to one long document; else all its documents are complete.
        opens: the long document begins here.
        closes: it ends here.
        dropped: on the shard that closes it: it is left out after all.
        tally: what became of rows: see `build.COUNTS`.
        rejects: rows that end here.
        read: bytes of the file that have been read now.
        row_group: where the rows lie.
    """

    texts: pa.LargeStringArray = field(default_factory=lambda: _NO_TEXTS)
    rows: npt.NDArray[np.int64] = field(default_factory=lambda: _NO_ROWS)
    kinds: npt.NDArray[np.uint8] | None = None
    spans: tuple[tuple[Span, ...], ...] | None = None
    long: bool = False
    opens: bool = False
    closes: bool = False
    dropped: bool = False
    tally: dict[str, int] = field(default_factory=dict)
    rejects: tuple[Reject, ...] = ()
    read: int = 0
    row_group: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Preparer:
    """Makes shards of the rows of a unit.

    Attributes:
        layout: what the rows are.
        options: of the build.
        cutter: cuts long texts.
        template: renders conversations; None where there are none.
        shards: parts that a batch is cut into at least.
    """

    layout: Layout
    options: BuildOptions
    cutter: Cutter
    template: ChatTemplate | None = None
    shards: int = 1

    def prepare(self, name: str, batches: Iterable[Rows]) -> Iterator[Shard]:
        """The shards of all rows of a unit, in order.

        Args:
            name: of the file, for rejects.
            batches: its rows.

        Raises:
            SourceError: the rows cannot be read to their end.
        """
        if self.options.doc_boundary == "file":
            yield from self._file(name, batches)
            return
        for rows in batches:
            yield from _settled(rows, self._batch(name, rows))

    def _batch(self, name: str, rows: Rows) -> Iterator[Shard]:
        if not rows.table.num_rows:
            return
        if self.layout.kind == "sft":
            yield from self._chats(name, rows)
        else:
            yield from self._texts(name, rows)

    # Texts

    def _texts(self, name: str, rows: Rows) -> Iterator[Shard]:
        texts, rejects, tally = self._columns(name, rows)
        chars = pc.utf8_length(texts).to_numpy()
        kept = np.ones(len(texts), np.bool_)
        kept[[reject.row - rows.first for reject in rejects]] = False
        tally |= self._filter(chars, kept)
        yield Shard(tally=tally)
        limit = min(self.options.max_chars or LONG_CHARS, LONG_CHARS)
        batch = _Batch(rows.first, texts, kept, kept & (chars > limit))
        long = np.flatnonzero(kept & (chars > LONG_CHARS)).tolist()
        yield from _with_rejects(self._in_order(name, batch, long), rejects)

    def _in_order(self, name: str, batch: "_Batch", long: list[int]) -> Iterator[Shard]:
        begin = 0
        for place in long:
            yield from self._stretch(batch, begin, place)
            yield from self._long(name, batch.first + place, _blocks(batch.texts, place))
            begin = place + 1
        yield from self._stretch(batch, begin, len(batch.texts))

    def _columns(
        self, name: str, rows: Rows
    ) -> tuple[pa.LargeStringArray, list[Reject], dict[str, int]]:
        bad: dict[int, Reject] = {}
        columns = []
        for column in rows.table.columns:
            texts, wrong = _decoded(column)
            columns.append(texts)
            for place, found in wrong:
                bad[place] = _reject(name, rows.first + place, BAD_UTF8, found)
        joined, missing = self._joined(columns)
        missing[list(bad)] = False
        tally = {"rows": len(joined), "rejected": len(bad), "null": int(missing.sum())}
        return joined, [bad[place] for place in sorted(bad)], tally

    def _joined(
        self, columns: list[pa.LargeStringArray]
    ) -> tuple[pa.LargeStringArray, npt.NDArray[np.bool_]]:
        """The texts of the rows, and which rows have no text at all."""
        if self.options.strip and self.layout.kind == "raw":
            columns = [pc.utf8_trim(column, characters=WHITE_SPACE) for column in columns]
        missing = np.ones(len(columns[0]), np.bool_)
        for column in columns:
            missing &= column.is_null().to_numpy(zero_copy_only=False)
        if len(columns) == 1:
            return columns[0].fill_null(""), missing
        parts = [pc.if_else(pc.equal(pc.binary_length(c), 0), _NULL, c) for c in columns]
        # A row of nothing but nulls would be missing from what Arrow joins.
        bare = np.logical_and.reduce([p.is_null().to_numpy(zero_copy_only=False) for p in parts])
        parts[0] = pc.if_else(pa.array(bare), pa.scalar("", pa.large_string()), parts[0])
        separator = pa.scalar(self.options.concat_sep, pa.large_string())
        return pc.binary_join_element_wise(*parts, separator, null_handling="skip"), missing

    def _filter(self, chars: npt.NDArray[Any], kept: npt.NDArray[np.bool_]) -> dict[str, int]:
        """Take what is too short or too long out of `kept`; gives how many."""
        short = kept & (chars < (self.options.min_chars or 0))
        long = np.zeros_like(kept)
        if self.options.max_chars is not None and self.options.long_docs == "filter":
            long = kept & (chars > self.options.max_chars)
        kept &= ~(short | long)
        return {"short": int(short.sum()), "long": int(long.sum())}

    def _stretch(self, batch: "_Batch", begin: int, end: int) -> Iterator[Shard]:
        """Rows from `begin` to `end`, none of which is a long document."""
        places = np.flatnonzero(batch.kept[begin:end]) + begin
        own = batch.texts.slice(begin, end - begin)
        if len(places) < end - begin:
            own = batch.texts.take(pa.array(places))
        if not batch.over[begin:end].any():
            yield from self._slices(own, places + batch.first)
            return
        pieces = [self._limited(text) for text in own.to_pylist()]
        counts = np.array([len(some) for some in pieces])
        kinds = np.full(int(counts.sum()), NEW_SEQUENCE, np.uint8)
        kinds[np.cumsum(counts) - counts] = NEW_DOCUMENT
        over = int(batch.over[begin:end].sum())
        way = "truncated" if self.options.long_docs == "truncate" else "split"
        yield Shard(
            texts=pa.array([text for some in pieces for text in some], pa.large_string()),
            rows=np.repeat(places + batch.first, counts),
            kinds=kinds,
            tally={way: over},
        )

    def _limited(self, text: str) -> list[str]:
        most = self.options.max_chars
        if most is None or len(text) <= most:
            return [text]
        if self.options.long_docs == "truncate":
            return [text[:most]]
        return list(sequences(text, most))

    def _slices(self, texts: pa.LargeStringArray, rows: npt.NDArray[np.int64]) -> Iterator[Shard]:
        """Shards of about `SHARD_BYTES`, or smaller ones where `shards` asks for more."""
        if not len(texts):
            return
        ends = np.cumsum(pc.binary_length(texts).to_numpy())
        size = max(1, min(SHARD_BYTES, -(-int(ends[-1]) // self.shards)))
        borders = (np.flatnonzero(np.diff(ends // size)) + 1).tolist()
        for begin, end in zip([0, *borders], [*borders, len(texts)], strict=True):
            yield Shard(texts=texts.slice(begin, end - begin), rows=rows[begin:end])

    def _long(self, name: str, row: int, blocks: Iterable[str]) -> Iterator[Shard]:
        document = LongText(self.cutter, self.options)
        opens = True
        for block in blocks:
            for piece in document.feed(block):
                yield _piece(row, piece, opens)
                opens = False
            if document.ended:
                break
        for piece in document.finish():
            yield _piece(row, piece, opens)
            opens = False
        yield _closing(name, row, document, opens)

    def _file(self, name: str, batches: Iterable[Rows]) -> Iterator[Shard]:
        """All rows of a file as one document."""
        document = LongText(self.cutter, self.options)
        opens = True
        separator = ""
        for rows in batches:
            if rows.table.num_rows:
                texts, rejects, tally = self._columns(name, rows)
                yield Shard(tally=tally, rejects=tuple(rejects))
                joined = self.options.concat_sep.join(filter(None, texts.to_pylist()))
                for piece in document.feed(f"{separator}{joined}" if joined else ""):
                    yield _piece(rows.first, piece, opens)
                    opens = False
                separator = separator or (self.options.concat_sep if joined else "")
            yield Shard(read=rows.read, row_group=rows.row_group)
        for piece in document.finish():
            yield _piece(0, piece, opens)
            opens = False
        yield _closing(name, 0, document, opens)

    def _chats(self, name: str, rows: Rows) -> Iterator[Shard]:
        assert self.template is not None
        tally = dict.fromkeys(("short", "long", "truncated", "split", "rejected"), 0)
        rejects: list[Reject] = []
        pending = _Chats()
        shards: list[Shard] = []
        for number, chat in enumerate(_conversations(rows), rows.first):
            try:
                rendered = _rendered(self.template, chat)
                pieces = self._chat_pieces(rendered, tally)
            except (TemplateError, UncuttableError) as error:
                reason = TEMPLATE if isinstance(error, TemplateError) else UNCUTTABLE
                rejects.append(_reject(name, number, reason, str(error)))
                continue
            pending.add(number, pieces)
            if pending.bytes >= SHARD_BYTES // self.shards:
                shards.append(pending.shard())
                pending = _Chats()
        tally |= {"rows": rows.table.num_rows, "rejected": len(rejects)}
        yield Shard(tally=tally)
        yield from _with_rejects(iter([*shards, pending.shard()]), rejects)

    def _chat_pieces(self, chat: Rendered, tally: dict[str, int]) -> list[_ChatPiece]:
        """The texts of a conversation, none where the limits leave it out."""
        limits, length = self.options, len(chat.text)
        over = limits.max_chars is not None and length > limits.max_chars
        if length < (limits.min_chars or 0):
            tally["short"] += 1
            return []
        if over and limits.long_docs == "filter":
            tally["long"] += 1
            return []
        if over:
            tally["truncated" if limits.long_docs == "truncate" else "split"] += 1
        pieces: list[_ChatPiece] = []
        start = 0
        for text in self._limited(chat.text):
            pieces += self._cut_chat(
                text, start, chat.spans, NEW_SEQUENCE if pieces else NEW_DOCUMENT
            )
            start += len(text)
        return pieces

    def _cut_chat(
        self, text: str, start: int, spans: Sequence[Span], kind: int
    ) -> Iterator[_ChatPiece]:
        if len(text) <= LONG_CHARS:
            yield kind, text, _clipped(spans, start, start + len(text))
            return
        pieces = self.cutter.pieces(text)
        if pieces is None:
            raise UncuttableError(f"{len(text)} characters without a place to cut them")
        for piece in pieces:
            begin = start + piece.start
            yield kind, piece.text, _clipped(spans, begin, begin + len(piece.text))
            kind = GOES_ON


@dataclass(slots=True)
class _Chats:
    """Conversations on their way into a shard."""

    texts: list[str] = field(default_factory=list)
    spans: list[tuple[Span, ...]] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    bytes: int = 0

    def add(self, row: int, pieces: Iterable[_ChatPiece]) -> None:
        for kind, text, spans in pieces:
            self.texts.append(text)
            self.spans.append(spans)
            self.kinds.append(kind)
            self.rows.append(row)
            self.bytes += len(text)

    def shard(self) -> Shard:
        return Shard(
            texts=pa.array(self.texts, pa.large_string()),
            rows=np.array(self.rows, np.int64),
            kinds=np.array(self.kinds, np.uint8) if any(self.kinds) else None,
            spans=tuple(self.spans),
        )


def _clipped(spans: Sequence[Span], start: int, end: int) -> tuple[Span, ...]:
    """What of the spans lies in a part of the text, by its own characters."""
    return tuple(
        Span(
            start=max(span.start, start) - start,
            end=min(span.end, end) - start,
            trained=span.trained,
        )
        for span in spans
        if span.start < end and span.end > start
    )


_NULL: Final = pa.scalar(None, pa.large_string())


@dataclass(frozen=True, slots=True)
class _Batch:
    """Texts of consecutive rows: which stay, and which of those are over the limit."""

    first: int
    texts: pa.LargeStringArray
    kept: npt.NDArray[np.bool_]
    over: npt.NDArray[np.bool_]


def _settled(rows: Rows, shards: Iterator[Shard]) -> Iterator[Shard]:
    """The shards of a batch; the last says how much of the file was read."""
    yield from shards
    yield Shard(read=rows.read, row_group=rows.row_group)


def _with_rejects(shards: Iterator[Shard], rejects: list[Reject]) -> Iterator[Shard]:
    """Rejects with the shard that holds the rows around them, so that they stay in order."""
    left = list(rejects)
    for shard in shards:
        last = int(shard.rows[-1]) if len(shard.rows) else -1
        own = [reject for reject in left if reject.row < last]
        if own:
            left = left[len(own) :]
            shard = replace(shard, rejects=(*own, *shard.rejects))
        yield shard
    if left:
        yield Shard(rejects=tuple(left))


def _piece(row: int, piece: tuple[int, str], opens: bool) -> Shard:
    kind, text = piece
    return Shard(
        texts=pa.array([text], pa.large_string()),
        rows=np.array([row], np.int64),
        kinds=np.array([kind], np.uint8),
        long=True,
        opens=opens,
    )


def _closing(name: str, row: int, document: LongText, opens: bool) -> Shard:
    rejects = []
    if document.verdict == UNCUTTABLE:
        rejects.append(_reject(name, row, UNCUTTABLE, document.problem))
    tally = {
        "truncated": int(document.truncated and document.verdict is None),
        "split": int(document.split and document.verdict is None),
        "short": int(document.verdict == SHORT),
        "long": int(document.verdict == LONG),
        "rejected": len(rejects),
    }
    return Shard(
        long=True,
        opens=opens,
        closes=True,
        dropped=document.verdict is not None,
        tally=tally,
        rejects=tuple(rejects),
    )


def _blocks(texts: pa.LargeStringArray, place: int) -> Iterator[str]:
    """A long text, decoded bit by bit."""
    content = texts[place].as_buffer()
    decoder = codecs.getincrementaldecoder("utf-8")()
    for start in range(0, content.size, _BLOCK):
        yield decoder.decode(memoryview(content)[start : start + _BLOCK])


def _decoded(column: pa.Array) -> tuple[pa.LargeStringArray, list[tuple[int, str]]]:
    """A column as texts; values that are no UTF-8 are null, their places and starts are given."""
    try:
        texts = column.cast(pa.large_string())
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return _decoded_one_by_one(column)
    return texts, []


def _decoded_one_by_one(
    column: pa.Array,
) -> tuple[pa.LargeStringArray, list[tuple[int, str]]]:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary.cast(pa.large_binary()).take(column.indices)
    texts: list[str | None] = []
    wrong: list[tuple[int, str]] = []
    for place, value in enumerate(column.cast(pa.large_binary()).to_pylist()):
        try:
            texts.append(None if value is None else value.decode())
        except UnicodeDecodeError as error:
            wrong.append((place, f"byte {error.start}: {value[:FOUND_BYTES]!r}"))
            texts.append(None)
    return pa.array(texts, pa.large_string()), wrong


def _conversations(rows: Rows) -> Iterator[dict[str, Json] | str]:
    """Records as dicts, or what is wrong with one."""
    try:
        rows.table.validate(full=True)
    except pa.ArrowInvalid:
        yield from (_conversation(rows.table.slice(i, 1)) for i in range(rows.table.num_rows))
        return
    yield from rows.table.to_pylist()


def _conversation(row: pa.RecordBatch) -> dict[str, Json] | str:
    try:
        row.validate(full=True)
    except pa.ArrowInvalid as error:
        return str(error)
    chat: dict[str, Json] = row.to_pylist()[0]
    return chat


def _rendered(template: ChatTemplate, chat: dict[str, Json] | str) -> Rendered:
    if isinstance(chat, str):
        raise TemplateError(chat)
    messages = chat["messages"] or []
    return template.render(messages, system=chat["system"], tools=chat["tools"])


def _reject(name: str, row: int, reason: str, found: str) -> Reject:
    return Reject(file=name, row=row, element=None, reason=reason, path=None, found=found)
