"""A long document on its way out: its pieces go to the disk as they come, or back again."""

from collections import Counter
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from ingot.converters.errors import ConversionError
from ingot.converters.megatron.indexed import MAX_SEQUENCE
from ingot.converters.megatron.lanes import Lane
from ingot.converters.megatron.shaping import (
    NEW_DOCUMENT,
    NEW_SEQUENCE,
    Documents,
    Rules,
    Texts,
    Tokens,
    shape,
    written,
)

Kinds: TypeAlias = npt.NDArray[np.uint8] | None
_EMPTY: Final = Texts(ids=np.zeros(0, np.uint32), lengths=np.zeros(1, np.int64))


class StreamedDocument:
    """Writes a document piece by piece, so that it may be larger than the memory.

    What it writes is what `shape` makes of the whole.

    Raises:
        ConversionError: a sequence of 2^31 tokens or more; an id does not fit the type.
    """

    def __init__(self, lane: Lane, rules: Rules) -> None:
        self._lane = lane
        self._rules = rules
        self._start = lane.mark()
        self._lengths: list[int] = []
        self._current = 0  # tokens of the sequence that is open
        self._breaks = False  # the next tokens begin a sequence
        self._total = 0  # tokens of the document, EOD not counted
        self._dropped = False
        self._tally: Counter[str] = Counter()

    def add(self, ids: Tokens, kinds: Kinds) -> None:
        """Take the ids of a piece."""
        self._breaks |= kinds is not None and len(kinds) > 0 and kinds[0] == NEW_SEQUENCE
        if not len(ids):
            return
        if not self._total:
            self._feed(np.array(self._rules.bos, np.uint32))
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
            if len(ids) > room:
                self._over()
            self._write(ids[: max(0, room)])

    def _over(self) -> None:
        if self._rules.long_docs == "truncate":
            self._tally["truncated"] = 1
        else:
            self.drop()
            self._tally["long"] = 1

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
            raise ConversionError(
                str(self._lane.base),
                "a document of 2^31 tokens or more: Megatron cannot index it",
                "use --doc-boundary row, or --max-tokens with --long-docs split",
            )
        self._lane.extend(written(ids, self._rules.dtype), None)

    def _break(self) -> None:
        if self._breaks:
            self._close_sequence()
            self._breaks = False

    def _close_sequence(self) -> None:
        if self._current:
            self._lengths.append(self._current)
            self._current = 0

    def close(self) -> Documents | Counter[str]:
        """End the document; gives the counts, or what is still to be written."""
        self._breaks = False
        if self._total:
            self._feed(np.array(self._rules.eos, np.uint32))
        if not self._dropped and self._total < (self._rules.min_tokens or 0):
            self.drop()
            self._tally["short"] = 1
        if self._dropped:
            return self._tally
        if not self._total:
            return shape(_EMPTY, self._rules)
        eod = [] if self._rules.eod is None else [self._rules.eod]
        self._lane.extend(written(np.array(eod, np.uint32), self._rules.dtype), None)
        self._current += len(eod)
        self._close_sequence()
        self._lane.close_documents(np.array(self._lengths), np.array([len(self._lengths)]))
        counts = {"documents": 1, "sequences": len(self._lengths)}
        return self._tally + Counter(counts | {"tokens": sum(self._lengths)})


class GatheredDocument:
    """Keeps the ids of a document until it is complete, where its sequences are packed."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._ids: list[Tokens] = []
        self._kinds: list[int] = []
        self._dropped = False

    def add(self, ids: Tokens, kinds: Kinds) -> None:
        """Take the ids of a piece."""
        if not self._dropped:
            self._ids.append(ids)
            self._kinds.append(NEW_DOCUMENT if kinds is None else int(kinds[0]))

    def drop(self) -> None:
        """Leave the document out."""
        self._dropped = True
        self._ids.clear()

    def close(self) -> Documents | Counter[str]:
        """End the document; gives what is to be written, or nothing."""
        if self._dropped:
            return Counter()
        if not self._ids:
            return shape(_EMPTY, self._rules)
        texts = Texts(
            ids=np.concatenate(self._ids),
            lengths=np.array([len(ids) for ids in self._ids], np.int64),
            kinds=np.array(self._kinds, np.uint8),
        )
        return shape(texts, self._rules)
