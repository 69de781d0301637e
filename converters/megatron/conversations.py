"""Conversations to texts: rendered, limited, long ones cut, each with what of it is trained on."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from ingot.converters.megatron.chats.render import Rendered, Span
from ingot.converters.megatron.chats.templates import ChatTemplate, TemplateError
from ingot.converters.megatron.cutting.cutter import Cutter, UncuttableError
from ingot.converters.megatron.longtexts import UNCUTTABLE, limited
from ingot.converters.megatron.options import BuildOptions
from ingot.converters.megatron.reading import Rows
from ingot.converters.megatron.shaping import GOES_ON, NEW_DOCUMENT, NEW_SEQUENCE
from ingot.converters.megatron.shards import SHARD_BYTES, Shard, rejected, with_rejects
from ingot.converters.rows import Json, Reject

TEMPLATE: Final = "template"
# Kind, text, leading ids to be dropped, what of it is trained on.
_Piece: TypeAlias = tuple[int, str, int, tuple[Span, ...]]


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatPreparer:
    """Makes shards of conversations.

    Attributes:
        template: renders them.
        options: of the build.
        cutter: cuts long ones.
        parts: how many shards the text of one is to be cut into at least.
    """

    template: ChatTemplate
    options: BuildOptions
    cutter: Cutter
    parts: int = 1

    def prepare(self, name: str, rows: Rows) -> Iterator[Shard]:
        """The shards of some rows of the file `name`."""
        names = ("short", "long", "truncated", "split", "rejected", "tools_unused")
        tally = dict.fromkeys(names, 0)
        rejects: list[Reject] = []
        pending = _Pending()
        shards: list[Shard] = []
        for number, chat in enumerate(_conversations(rows), rows.first):
            try:
                pieces = self._pieces(_rendered(self.template, chat), tally)
                tally["tools_unused"] += self._leaves_tools_out(chat)
            except (TemplateError, UncuttableError) as error:
                reason = TEMPLATE if isinstance(error, TemplateError) else UNCUTTABLE
                rejects.append(rejected(name, number, reason, str(error)))
                continue
            pending.add(number, pieces)
            if pending.bytes >= SHARD_BYTES // self.parts:
                shards.append(pending.shard())
                pending = _Pending()
        tally |= {"rows": rows.table.num_rows, "rejected": len(rejects)}
        yield Shard(tally=tally)
        yield from with_rejects([*shards, pending.shard()], rejects)

    def _leaves_tools_out(self, chat: dict[str, Json] | str) -> bool:
        given = not isinstance(chat, str) and chat["tools"] is not None
        return given and not self.template.takes_tools

    def _pieces(self, chat: Rendered, tally: dict[str, int]) -> list[_Piece]:
        """The texts of a conversation, none where the limits leave it out."""
        options, length = self.options, len(chat.text)
        if length < (options.min_chars or 0):
            tally["short"] += 1
            return []
        over = options.max_chars is not None and length > options.max_chars
        if over and options.long_docs == "filter":
            tally["long"] += 1
            return []
        pieces: list[_Piece] = []
        start = 0
        for text in limited(chat.text, options):
            kind = NEW_SEQUENCE if pieces else NEW_DOCUMENT
            pieces += self._cut(text, start, chat.spans, kind)
            start += len(text)
        if over:
            tally["truncated" if options.long_docs == "truncate" else "split"] += 1
        return pieces

    def _cut(self, text: str, start: int, spans: Sequence[Span], kind: int) -> Iterator[_Piece]:
        for piece in self.cutter.cut(text, self.cutter.limit):
            begin = start + piece.start
            own = _clipped(spans, begin, begin + len(piece.text))
            yield kind, piece.text, piece.skip, own
            kind = GOES_ON


@dataclass(slots=True)
class _Pending:
    """Conversations on their way into a shard."""

    texts: list[str] = field(default_factory=list)
    spans: list[tuple[Span, ...]] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)
    skips: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    bytes: int = 0

    def add(self, row: int, pieces: Iterable[_Piece]) -> None:
        for kind, text, skip, spans in pieces:
            self.texts.append(text)
            self.spans.append(spans)
            self.kinds.append(kind)
            self.skips.append(skip)
            self.rows.append(row)
            self.bytes += len(text)

    def shard(self) -> Shard:
        return Shard(
            texts=pa.array(self.texts, pa.large_string()),
            rows=np.array(self.rows, np.int64),
            kinds=np.array(self.kinds, np.uint8) if any(self.kinds) else None,
            skips=np.array(self.skips, np.int64) if any(self.skips) else None,
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
        # A slice keeps the values of its neighbours.
        own = row.take(pa.array([0]))
        own.validate(full=True)
    except pa.ArrowInvalid as error:
        return str(error)
    chat: dict[str, Json] = own.to_pylist()[0]
    return chat


def _rendered(template: ChatTemplate, chat: dict[str, Json] | str) -> Rendered:
    if isinstance(chat, str):
        raise TemplateError(chat)
    if not chat["messages"]:
        raise TemplateError("no messages")
    return template.render(chat["messages"], system=chat["system"], tools=chat["tools"])
