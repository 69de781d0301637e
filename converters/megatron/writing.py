"""What tokenized shards become: documents in the lane, rejects, and the counts of every unit."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ingot.converters.errors import ConversionError
from ingot.converters.megatron.engines.engine import Encoded
from ingot.converters.megatron.journal import Stretch
from ingot.converters.megatron.lanes import Lane
from ingot.converters.megatron.longdocuments import GatheredDocument, StreamedDocument
from ingot.converters.megatron.packing import Pack, Packer
from ingot.converters.megatron.shaping import Documents, Rules
from ingot.converters.megatron.shards import Shard
from ingot.converters.records import reject_line
from ingot.converters.rows import Reject

# What is counted of every unit, file and data set.
COUNTS: Final = (
    "rows",
    "documents",
    "sequences",
    "tokens",
    "characters",
    "text_bytes",
    "empty",
    "null",
    "short",
    "long",
    "truncated",
    "split",
    "rejected",
    "tools_unused",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Tokenized:
    """A shard after its engine.

    Attributes:
        shard: what was tokenized.
        documents: of complete documents, as they are written; None for a piece of a long one.
        encoded: the ids of a piece of a long document.
        rejects: rows that ended before or in the engine, in order.
        failed: the row of a long document, once for every piece that could not be tokenized.
        tally: counts, those of the shard included.
        tokens: how many it gave.
        engine: what tokenized it.
        seconds: that it took.
    """

    shard: Shard
    documents: Documents | None = None
    encoded: Encoded | None = None
    rejects: tuple[Reject, ...] = ()
    failed: tuple[Reject, ...] = ()
    tally: dict[str, int] = field(default_factory=dict)
    tokens: int = 0
    engine: str = ""
    seconds: float = 0.0


class UnitWriter:
    """Writes the units of one lane, one after the other.

    Args:
        lane: where to.
        rules: of documents.
        pack: tokens per pack, None = no packing.
        fail_fast: a reject ends the build.

    Raises:
        ConversionError: a sequence is too long; a reject with `fail_fast`.
        OSError: the lane cannot be written.
    """

    def __init__(self, lane: Lane, rules: Rules, *, pack: int | None, fail_fast: bool) -> None:
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

    def write(self, tokenized: Tokenized) -> None:
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
                raise ConversionError(
                    where, f"{reject.reason}: {reject.found}", "leave --fail-fast out to go on"
                )
            self._lane.reject(reject_line(reject))

    def _documents(self, documents: Documents) -> None:
        self._facts.update(documents.tally)
        if self._packer is None:
            self._append(documents)
            return
        ends = np.cumsum(documents.lengths)[:-1]
        texts = np.split(documents.tokens, ends)
        masks = None if documents.mask is None else np.split(documents.mask, ends)
        for place in range(len(documents.lengths)):
            mask = None if masks is None else masks[place]
            self._packs(self._packer.add(texts[place], mask))

    def _packs(self, packs: list[Pack]) -> None:
        for pack in packs:
            sizes = np.array([len(pack.lengths)])
            packed = Documents(tokens=pack.ids, mask=pack.mask, lengths=pack.lengths, sizes=sizes)
            self._append(packed)

    def _append(self, documents: Documents) -> None:
        self._lane.append(documents)
        self._facts["documents"] += len(documents.sizes)
        self._facts["sequences"] += len(documents.lengths)
        self._facts["tokens"] += len(documents.tokens)

    def _piece(self, tokenized: Tokenized) -> None:
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

    def _close_long(
        self, document: "StreamedDocument | GatheredDocument", *, dropped: bool
    ) -> None:
        """End a long document; what came before its tokens decides first, as with short ones."""
        self._long = None
        if dropped:
            document.drop()
        elif self._refused is not None:
            self._reject([self._refused])
            self._facts["rejected"] += 1
        else:
            self._closed(document.close())

    def _closed(self, done: Documents | Counter[str]) -> None:
        if isinstance(done, Documents):
            self._documents(done)
        else:
            self._facts.update(done)

    def finish(self, unit: int) -> Stretch:
        """Close the unit."""
        if self._packer is not None:
            self._packs(self._packer.finish())
        facts = {name: self._facts[name] for name in COUNTS}
        stretch = self._lane.finish(unit, self._engine, facts)
        self._begin()
        return stretch

    def fail(self, unit: int, problem: str) -> Stretch:
        """Close a unit whose file cannot be read: nothing of it stays."""
        stretch = self._lane.fail(unit, problem, dict.fromkeys(COUNTS, 0))
        self._begin()
        return stretch
