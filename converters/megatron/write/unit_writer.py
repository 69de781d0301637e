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
from ingot.converters.megatron.documents import DocumentRules, Mask, ShapedDocuments, Shard
from ingot.converters.megatron.indexed_dataset import Tokens
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
        position = bisect_left(self._open, (len(ids), 0))
        if position == len(self._open):
            if len(self._open) == self._most:
                finished.append(self._close(0))
            space, number = self.size, self._opened
            self._opened += 1
        else:
            space, number = self._open.pop(position)
        self._texts.setdefault(number, []).append(ids.copy())  # a view keeps its whole batch alive
        if mask is not None:
            self._masks.setdefault(number, []).append(mask.copy())
        insort(self._open, (space - len(ids), number))
        if space == len(ids):
            finished.append(self._close(0))
        return finished

    def finish(self) -> list[ShapedDocuments]:
        """Return the packs that are still open, in the order in which they were opened."""
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

    def _close(self, position: int) -> ShapedDocuments:
        _, number = self._open.pop(position)
        texts, masks = self._texts.pop(number), self._masks.pop(number, None)
        return ShapedDocuments(
            tokens=np.concatenate(texts),
            mask=np.concatenate(masks) if masks else None,
            lengths=np.fromiter(map(len, texts), np.int64, len(texts)),
            sizes=np.array([len(texts)]),
        )


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
    documents: ShapedDocuments | None = None  # as they are written; None where it has no texts
    rejects: tuple[Reject, ...] = ()  # rows that ended before or in the engine, in order
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
        self._engine = ""

    def write(self, tokenized: TokenizedShard) -> None:
        """Write what a shard became."""
        self._facts.update(tokenized.tally)
        self._reject(tokenized.rejects)
        self._engine = tokenized.engine or self._engine
        if tokenized.documents is not None:
            self._documents(tokenized.documents)

    def _reject(self, rejects: Iterable[Reject]) -> None:
        for reject in rejects:
            if self._fail_fast:
                row_name = f"{reject.file}, row {reject.row}"
                problem = f"{reject.reason}: {reject.found}"
                raise ConversionError(row_name, problem, "leave out `fail_fast` to go on")
            self._lane.reject(reject_line(reject))

    def _documents(self, documents: ShapedDocuments) -> None:
        self._facts.update(documents.tally)
        if self._packer is None:
            self._append(documents)
            return
        stops = np.cumsum(documents.lengths)[:-1]
        texts = np.split(documents.tokens, stops)
        masks = None if documents.mask is None else np.split(documents.mask, stops)
        for number in range(len(documents.lengths)):
            mask = None if masks is None else masks[number]
            for pack in self._packer.add(texts[number], mask):
                self._append(pack)

    def _append(self, documents: ShapedDocuments) -> None:
        self._lane.append(documents)
        self._facts["documents"] += len(documents.sizes)
        self._facts["sequences"] += len(documents.lengths)
        self._facts["tokens"] += len(documents.tokens)

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
