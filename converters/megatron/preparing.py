"""Rows to texts that an engine can take: stripped, joined, limited, conversations rendered.

What is given on are shards, in the order of the rows. Neither the batches that the rows come in
nor the shards that they become change what is written.
"""

import codecs
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingot.converters.megatron.chats.templates import ChatTemplate
from ingot.converters.megatron.columns import Joined, bytes_of, joined
from ingot.converters.megatron.conversations import ChatPreparer
from ingot.converters.megatron.cutting.cutter import Cutter
from ingot.converters.megatron.layouts import Layout
from ingot.converters.megatron.longtexts import (
    LONG,
    SHORT,
    UNCUTTABLE,
    LongText,
    TextPiece,
    limited,
)
from ingot.converters.megatron.options import BuildOptions
from ingot.converters.megatron.reading import Rows
from ingot.converters.megatron.shaping import NEW_DOCUMENT, NEW_SEQUENCE
from ingot.converters.megatron.shards import Shard, rejected, sliced, with_rejects
from ingot.converters.rows import Reject

BAD_UTF8: Final = "bad_utf8"
APART_BYTES: Final = 16 << 20  # batches of more hold a very long text
BLOCK_BYTES: Final = 1 << 20  # of a long text that is decoded at a time


@dataclass(frozen=True, kw_only=True, slots=True)
class Preparer:
    """Makes shards of the rows of a unit.

    Attributes:
        layout: what the rows are.
        options: of the build.
        cutter: cuts texts that are longer than its limit.
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
            for some in _apart(rows):
                yield from self._rows(name, some)
            yield Shard(read=rows.read, row_group=rows.row_group)

    def _rows(self, name: str, rows: Rows) -> Iterator[Shard]:
        if self.template is None:
            return self._texts(name, rows)
        chats = ChatPreparer(
            template=self.template, options=self.options, cutter=self.cutter, parts=self.shards
        )
        return chats.prepare(name, rows)

    def _texts(self, name: str, rows: Rows) -> Iterator[Shard]:
        texts, rejects, tally = self._columns(name, rows)
        chars = pc.utf8_length(texts).to_numpy()
        kept = np.ones(len(texts), np.bool_)
        kept[[reject.row - rows.first for reject in rejects]] = False
        yield Shard(tally=tally | self._filter(chars, kept))
        most = self.options.max_chars
        over = np.zeros_like(kept) if most is None else kept & (chars > most)
        batch = _Batch(rows.first, texts, kept, over)
        long = np.flatnonzero(kept & (chars > self.cutter.limit)).tolist()
        yield from with_rejects(self._in_order(name, batch, long), rejects)

    def _columns(
        self, name: str, rows: Rows
    ) -> tuple[pa.LargeStringArray, list[Reject], dict[str, int]]:
        done = self._joined(rows)
        rejects = [
            rejected(name, rows.first + place, BAD_UTF8, found) for place, found in done.bad.items()
        ]
        missing = int(done.missing.sum())
        return (
            done.texts,
            rejects,
            {"rows": len(done.texts), "rejected": len(rejects), "null": missing},
        )

    def _joined(self, rows: Rows) -> Joined:
        strip = self.options.strip and self.layout.kind == "raw"
        return joined(rows.table, strip=strip, separator=self.options.concat_sep)

    def _filter(self, chars: npt.NDArray[np.int64], kept: npt.NDArray[np.bool_]) -> dict[str, int]:
        """Take what is too short or too long out of `kept`; gives how many."""
        short = kept & (chars < (self.options.min_chars or 0))
        long = np.zeros_like(kept)
        if self.options.max_chars is not None and self.options.long_docs == "filter":
            long = kept & (chars > self.options.max_chars)
        kept &= ~(short | long)
        return {"short": int(short.sum()), "long": int(long.sum())}

    def _in_order(self, name: str, batch: "_Batch", long: list[int]) -> Iterator[Shard]:
        begin = 0
        for place in long:
            yield from self._stretch(batch, begin, place)
            yield from self._long(name, batch.first + place, _blocks(batch.texts, place))
            begin = place + 1
        yield from self._stretch(batch, begin, len(batch.texts))

    def _stretch(self, batch: "_Batch", begin: int, end: int) -> Iterator[Shard]:
        """Rows from `begin` to `end`, none of which is longer than a piece."""
        places = np.flatnonzero(batch.kept[begin:end]) + begin
        own = batch.texts.slice(begin, end - begin)
        if len(places) < end - begin:
            own = batch.texts.take(pa.array(places))
        over = int(batch.over[begin:end].sum())
        if not over:
            yield from sliced(own, places + batch.first, None, self.shards)
            return
        pieces = [limited(text, self.options) for text in own.to_pylist()]
        counts = np.array([len(some) for some in pieces])
        kinds = np.full(int(counts.sum()), NEW_SEQUENCE, np.uint8)
        kinds[np.cumsum(counts) - counts] = NEW_DOCUMENT
        texts = pa.array([text for some in pieces for text in some], pa.large_string())
        way = "truncated" if self.options.long_docs == "truncate" else "split"
        yield Shard(tally={way: over})
        yield from sliced(texts, np.repeat(places + batch.first, counts), kinds, self.shards)

    def _long(self, name: str, row: int, blocks: Iterable[str]) -> Iterator[Shard]:
        document = LongText(self.cutter, self.options)
        yield _opening(row)
        for block in blocks:
            yield from _pieces(row, document.feed(block))
            if document.ended:
                break
        yield from _pieces(row, document.finish())
        yield _closing(name, row, document)

    def _file(self, name: str, batches: Iterable[Rows]) -> Iterator[Shard]:
        """All rows of a file as one document."""
        document = LongText(self.cutter, self.options)
        yield _opening(0)
        begun = False
        for rows in batches:
            if rows.table.num_rows:
                texts, rejects, tally = self._columns(name, rows)
                yield Shard(tally=tally, rejects=tuple(rejects))
                for block in _joined_blocks(texts, self.options.concat_sep, begun):
                    yield from _pieces(rows.first, document.feed(block))
                    begun = True
            yield Shard(read=rows.read, row_group=rows.row_group)
        yield from _pieces(0, document.finish())
        yield _closing(name, 0, document)


@dataclass(frozen=True, slots=True)
class _Batch:
    """Texts of consecutive rows: which stay, and which of those are over `max_chars`."""

    first: int
    texts: pa.LargeStringArray
    kept: npt.NDArray[np.bool_]
    over: npt.NDArray[np.bool_]


def _apart(rows: Rows) -> Iterator[Rows]:
    """Rows as they are, or one by one where some of them are very long."""
    table = rows.table
    if table.nbytes <= APART_BYTES:
        if table.num_rows:
            yield rows
        return
    for place in range(table.num_rows):
        yield replace(rows, first=rows.first + place, table=table.slice(place, 1))


def _opening(row: int) -> Shard:
    return Shard(rows=np.array([row], np.int64), long=True, opens=True)


def _pieces(row: int, pieces: Iterable[TextPiece]) -> Iterator[Shard]:
    for kind, text, skip in pieces:
        yield Shard(
            texts=pa.array([text], pa.large_string()),
            rows=np.array([row], np.int64),
            kinds=np.array([kind], np.uint8),
            skips=np.array([skip], np.int64) if skip else None,
            long=True,
        )


def _closing(name: str, row: int, document: LongText) -> Shard:
    rejects = []
    if document.verdict == UNCUTTABLE:
        rejects.append(rejected(name, row, UNCUTTABLE, document.problem))
    stays = document.verdict is None
    tally = {
        "truncated": int(document.truncated and stays),
        "split": int(document.split and stays),
        "short": int(document.verdict == SHORT),
        "long": int(document.verdict == LONG),
        "rejected": len(rejects),
    }
    return Shard(long=True, closes=True, dropped=not stays, tally=tally, rejects=tuple(rejects))


def _blocks(texts: pa.LargeStringArray, place: int) -> Iterator[str]:
    """A long text, decoded bit by bit."""
    content = bytes_of(texts, place)
    decoder = codecs.getincrementaldecoder("utf-8")()
    for start in range(0, len(content), BLOCK_BYTES):
        yield decoder.decode(content[start : start + BLOCK_BYTES])


def _joined_blocks(texts: pa.LargeStringArray, separator: str, begun: bool) -> Iterator[str]:
    """The texts that are not empty, joined, in blocks.

    Args:
        texts: of consecutive rows.
        separator: between them.
        begun: there were others before; the separator comes first.
    """
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
            yield from _blocks(texts, place)
            held, size = [], 0
            continue
        held.append(texts[place].as_py())
        size += length
        if size > BLOCK_BYTES:
            yield "".join(held)
            held, size = [], 0
    if held:
        yield "".join(held)
