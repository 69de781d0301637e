"""Write what tokenized shards become: documents or packs in the lane, rejects, counts of units.

Packs of a fixed size take the best fit: a text goes into the open pack that it leaves the least
room in; where it fits into none, a new one is opened, and where too many are open the fullest is
closed. The same texts in the same order always give the same packs.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ingot.converters.errors import ConversionError
from ingot.converters.megatron.engines.engine import Encoded
from ingot.converters.megatron.indexed_dataset import MAX_SEQUENCE, Tokens
from ingot.converters.megatron.text.documents import (
    NEW_DOCUMENT,
    NEW_SEQUENCE,
    DocumentRules,
    Mask,
    ShapedDocuments,
    Shard,
    TextKinds,
    TokenizedTexts,
    cast_ids,
    count_doubled,
    shape_documents,
)
from ingot.converters.megatron.write.lanes import Lane, LaneStretch
from ingot.converters.records.writers import reject_line
from ingot.converters.rows import Reject


class Packer:
    """Takes texts in order, gives packs as they are full, the rest at the end.

    A pack is one document: texts that are trained on as one row, each a sequence of it.
    Memory: `open_packs` packs of `size` tokens; what is given is copied.
    """

    def __init__(self, size: int, open_packs: int = 32) -> None:
        if size < 1 or open_packs < 1:
            problem = f"{size} tokens in {open_packs} open packs"
            raise ConversionError("packing", problem, "give positive numbers")
        self.size = size
        self._most = open_packs
        self._open: list[tuple[int, int]] = []  # room left, number of the pack; ascending
        self._texts: dict[int, list[Tokens]] = {}
        self._masks: dict[int, list[Mask]] = {}
        self._opened = 0
        self._masked: bool | None = None

    def add(self, ids: Tokens, mask: Mask | None = None) -> list[ShapedDocuments]:
        """Put a text into a pack."""
        self._check(ids, mask)
        finished = []
        place = bisect_left(self._open, (len(ids), 0))
        if place == len(self._open):
            if len(self._open) == self._most:
                finished.append(self._close(0))
            room, number = self.size, self._opened
            self._opened += 1
        else:
            room, number = self._open.pop(place)
        self._texts.setdefault(number, []).append(ids.copy())  # a view keeps its whole batch alive
        if mask is not None:
            self._masks.setdefault(number, []).append(mask.copy())
        insort(self._open, (room - len(ids), number))
        if room == len(ids):
            finished.append(self._close(0))
        return finished

    def finish(self) -> list[ShapedDocuments]:
        """The packs that are still open, in the order in which they were opened."""
        self._open.sort(key=lambda entry: entry[1])
        return [self._close(0) for _ in range(len(self._open))]

    def _check(self, ids: Tokens, mask: Mask | None) -> None:
        if not 1 <= len(ids) <= self.size:
            problem = f"a text of {len(ids):,} tokens"
            hint = f"leave it out, or cut it to 1 to {self.size:,}"
            raise ConversionError("packing", problem, hint)
        if mask is not None and len(mask) != len(ids):
            raise ConversionError("packing", f"a mask of {len(mask)} for {len(ids)} tokens")
        if self._masked not in (None, mask is not None):
            raise ConversionError("packing", "some texts have a mask and some have none")
        self._masked = mask is not None

    def _close(self, place: int) -> ShapedDocuments:
        _, number = self._open.pop(place)
        texts, masks = self._texts.pop(number), self._masks.pop(number, None)
        return ShapedDocuments(
            tokens=np.concatenate(texts),
            mask=np.concatenate(masks) if masks else None,
            lengths=np.fromiter(map(len, texts), np.int64, len(texts)),
            sizes=np.array([len(texts)]),
        )


_NO_TEXTS_LEFT: Final = TokenizedTexts(ids=np.zeros(0, np.uint32), lengths=np.zeros(1, np.int64))


class StreamedDocument:
    """Writes a document piece by piece, so that it may be larger than the memory.

    What it writes is what `shape` makes of the whole.
    """

    def __init__(self, lane: Lane, rules: DocumentRules) -> None:
        self._lane = lane
        self._rules = rules
        self._start = lane.mark()
        self._lengths: list[int] = []
        self._current = 0  # tokens of the sequence that is open
        self._breaks = False  # the next tokens begin a sequence
        self._total = 0  # tokens of the document, EOD not counted
        self._first = self._last = np.zeros(0, np.uint32)
        self._dropped = False
        self._tally: Counter[str] = Counter()

    def add(self, ids: Tokens, kinds: TextKinds | None) -> None:
        """Take the ids of a piece."""
        self._breaks |= kinds is not None and len(kinds) > 0 and kinds[0] == NEW_SEQUENCE
        if not len(ids):
            return
        if not self._total:
            self._first = ids[:1]
            self._feed(np.array(self._rules.bos, np.uint32))
        self._last = ids[-1:]
        self._feed(ids)

    def drop(self) -> None:
        """Leave the document out."""
        self._dropped = True
        self._tally.clear()
        self._lane.rollback(self._start)

    def _feed(self, ids: Tokens) -> None:
        if self._dropped or not len(ids):
            return
        most = self._rules.max_tokens
        if most is None:
            self._write(ids)
        elif self._rules.long_docs == "split":
            self._fill(ids, most)
        else:
            room = most - self._total
            if len(ids) > room and self._rules.long_docs == "truncate":
                self._tally["truncated"] = 1
            elif len(ids) > room:
                self.drop()
                self._tally["long"] = 1
            self._write(ids[: max(0, room)])

    def _fill(self, ids: Tokens, most: int) -> None:
        self._break()
        while len(ids):
            if self._current == most:
                self._tally["split"] = 1
                self._close_sequence()
            room = most - self._current
            self._write(ids[:room])
            ids = ids[room:]

    def _write(self, ids: Tokens) -> None:
        if self._dropped or not len(ids):
            return
        self._break()
        self._current += len(ids)
        self._total += len(ids)
        if self._current >= MAX_SEQUENCE:
            problem = "a document of 2^31 tokens or more: Megatron cannot index it"
            hint = "use `doc_boundary` row, or `max_tokens` with `long_docs` split"
            raise ConversionError(str(self._lane.base), problem, hint)
        self._lane.extend(cast_ids(ids, self._rules.dtype), None)

    def _break(self) -> None:
        if self._breaks:
            self._close_sequence()
            self._breaks = False

    def _close_sequence(self) -> None:
        if self._current:
            self._lengths.append(self._current)
            self._current = 0

    def close(self) -> ShapedDocuments | Counter[str]:
        """End the document; gives the counts, or what is still to be written."""
        self._breaks = False
        if self._total:
            self._feed(np.array(self._rules.eos, np.uint32))
        if not self._dropped and self._total < (self._rules.min_tokens or 0):
            self.drop()
            self._tally["short"] = 1
        self._tally.update(count_doubled(self._first, self._last, self._rules))
        if self._dropped:
            return self._tally
        if not self._total:
            return shape_documents(_NO_TEXTS_LEFT, self._rules)
        eod = [] if self._rules.eod is None else [self._rules.eod]
        self._lane.extend(cast_ids(np.array(eod, np.uint32), self._rules.dtype), None)
        self._current += len(eod)
        self._close_sequence()
        self._lane.close_documents(np.array(self._lengths), np.array([len(self._lengths)]))
        counts = {"documents": 1, "sequences": len(self._lengths)}
        return self._tally + Counter(counts | {"tokens": sum(self._lengths)})


class GatheredDocument:
    """Keeps the ids of a document until it is complete, where its sequences are packed."""

    def __init__(self, rules: DocumentRules) -> None:
        self._rules = rules
        self._ids: list[Tokens] = []
        self._kinds: list[int] = []
        self._dropped = False

    def add(self, ids: Tokens, kinds: TextKinds | None) -> None:
        """Take the ids of a piece."""
        if not self._dropped:
            self._ids.append(ids)
            self._kinds.append(NEW_DOCUMENT if kinds is None else int(kinds[0]))

    def drop(self) -> None:
        """Leave the document out."""
        self._dropped = True
        self._ids.clear()

    def close(self) -> ShapedDocuments | Counter[str]:
        """End the document; gives what is to be written, or nothing."""
        if self._dropped:
            return Counter()
        if not self._ids:
            return shape_documents(_NO_TEXTS_LEFT, self._rules)
        texts = TokenizedTexts(
            ids=np.concatenate(self._ids),
            lengths=np.array([len(ids) for ids in self._ids], np.int64),
            kinds=np.array(self._kinds, np.uint8),
        )
        return shape_documents(texts, self._rules)


# What is counted of every unit, file and data set.
UNIT_COUNTS: Final = (
    *("rows", "documents", "sequences", "tokens", "characters", "text_bytes", "empty", "null"),
    *("short", "long", "truncated", "split", "rejected", "tools_unused"),
    *("two_bos", "two_eos"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizedShard:
    """A shard after its engine."""

    shard: Shard
    # of complete documents, as they are written; None for a piece of a long one
    documents: ShapedDocuments | None = None
    encoded: Encoded | None = None  # the ids of a piece of a long document
    rejects: tuple[Reject, ...] = ()  # rows that ended before or in the engine, in order
    # the row of a long document, once for every piece that could not be tokenized
    failed: tuple[Reject, ...] = ()
    tally: dict[str, int] = field(default_factory=dict)  # counts, those of the shard included
    tokens: int = 0  # how many it gave
    engine: str = ""
    seconds: float = 0.0


class UnitWriter:
    """Writes the units of one lane, one after the other."""

    def __init__(
        self, lane: Lane, rules: DocumentRules, *, pack: int | None, fail_fast: bool
    ) -> None:
        self._lane = lane
        self._rules = rules
        self._pack = pack
        self._fail_fast = fail_fast
        self._begin()

    def _begin(self) -> None:
        self._facts: Counter[str] = Counter()
        self._packer = Packer(self._pack) if self._pack else None
        self._long: StreamedDocument | GatheredDocument | None = None
        self._refused: Reject | None = None
        self._engine = ""

    def write(self, tokenized: TokenizedShard) -> None:
        """Write what a shard became."""
        self._facts.update(tokenized.tally)
        self._reject(tokenized.rejects)
        self._engine = tokenized.engine or self._engine
        if tokenized.documents is not None:
            self._documents(tokenized.documents)
        elif tokenized.shard.long:
            self._piece(tokenized)

    def _reject(self, rejects: Iterable[Reject]) -> None:
        for reject in rejects:
            if self._fail_fast:
                where = f"{reject.file}, row {reject.row}"
                problem = f"{reject.reason}: {reject.found}"
                raise ConversionError(where, problem, "leave out `fail_fast` to go on")
            self._lane.reject(reject_line(reject))

    def _documents(self, documents: ShapedDocuments) -> None:
        self._facts.update(documents.tally)
        if self._packer is None:
            self._append(documents)
            return
        ends = np.cumsum(documents.lengths)[:-1]
        texts = np.split(documents.tokens, ends)
        masks = None if documents.mask is None else np.split(documents.mask, ends)
        for place in range(len(documents.lengths)):
            mask = None if masks is None else masks[place]
            for pack in self._packer.add(texts[place], mask):
                self._append(pack)

    def _append(self, documents: ShapedDocuments) -> None:
        self._lane.append(documents)
        self._facts["documents"] += len(documents.sizes)
        self._facts["sequences"] += len(documents.lengths)
        self._facts["tokens"] += len(documents.tokens)

    def _piece(self, tokenized: TokenizedShard) -> None:
        shard = tokenized.shard
        if shard.opens:
            self._refused = None
            self._long = StreamedDocument(self._lane, self._rules)
            if self._packer is not None:
                self._long = GatheredDocument(self._rules)
        assert self._long is not None
        if tokenized.encoded is not None:
            self._long.add(tokenized.encoded.ids, shard.kinds)
        if tokenized.failed:
            self._refused = self._refused or tokenized.failed[0]
            self._long.drop()
        if shard.closes:
            self._close_long(self._long, dropped=shard.dropped)

    def _close_long(self, document: StreamedDocument | GatheredDocument, *, dropped: bool) -> None:
        """End a long document; what came before its tokens decides first, as with short ones."""
        self._long = None
        if dropped:
            document.drop()
        elif self._refused is not None:
            self._reject([self._refused])
            self._facts["rejected"] += 1
        else:
            done = document.close()
            if isinstance(done, ShapedDocuments):
                self._documents(done)
            else:
                self._facts.update(done)

    def finish(self, unit: int) -> LaneStretch:
        """Close the unit."""
        if self._packer is not None:
            for pack in self._packer.finish():
                self._append(pack)
        facts = {name: self._facts[name] for name in UNIT_COUNTS}
        stretch = self._lane.finish(unit, self._engine, facts)
        self._begin()
        return stretch

    def fail(self, unit: int, problem: str) -> LaneStretch:
        """Close a unit whose file cannot be read: nothing of it stays."""
        stretch = self._lane.finish(unit, "", dict.fromkeys(UNIT_COUNTS, 0), problem)
        self._begin()
        return stretch
