"""The exactness gate: no engine serves a tokenizer before it gave the reference's ids on `trials`.

A difference is reduced to the smallest text that shows it. Where that text holds a code point
outside ASCII, texts with that code point go to the reference from then on, and so do those of its
neighbours that show the same; otherwise, or where there are too many such code points, the engine
fails. Libraries carry the tables of some Unicode version; where they differ on a code point that
is unassigned here, all unassigned ones are denied: what else a newer version makes of them (which
of them compose, say) need not be found one by one.

What was found wrong is left out of a text that is compared on: nothing hides behind it. A gate is
evidence, not proof: real batches are sampled too (`sampling.py`).
"""

import unicodedata
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

import pyarrow as pa

from ingot.converters.megatron.engines.codepoints import (
    FIRST_SURROGATE,
    LARGEST,
    LAST_SURROGATE,
    Ranges,
    merged_ranges,
    pattern,
    unassigned,
)
from ingot.converters.megatron.engines.engine import Encoded, Engine
from ingot.converters.megatron.engines.fast import FastEngine
from ingot.converters.megatron.engines.minimize import minimized
from ingot.converters.megatron.engines.results import differing
from ingot.converters.megatron.engines.routing import Routed, needles
from ingot.converters.megatron.engines.verdicts import MOST_DENIED, Verdict, failed_on
from ingot.converters.megatron.tokenizer import TokenizerFile

_ASCII_END: Final = 0x80
# Letters of Western Europe and the combining marks that the trials put beside a code point.
_MARKS_END: Final = 0x370


class Answered:
    """Runs of texts with the reference's ids, encoded once for all engines that are examined.

    Args:
        reference: the reference.
        runs: the texts; read as far as somebody goes.
    """

    def __init__(self, reference: Engine, runs: Iterable[pa.LargeStringArray]) -> None:
        self.reference = reference
        self._known: list[tuple[pa.LargeStringArray, Encoded]] = []
        self._rest = ((texts, reference.encode(texts)) for texts in runs)

    def __iter__(self) -> Iterator[tuple[pa.LargeStringArray, Encoded]]:
        for at in range(len(self._known)):
            yield self._known[at]
        for answer in self._rest:
            self._known.append(answer)
            yield answer

    def first(self, count: int) -> list[tuple[pa.LargeStringArray, Encoded]]:
        """The first runs."""
        return list(islice(self, count))


class _FailedError(Exception):
    """The engine cannot pass; its text is what shows it."""


def examine(
    engine: FastEngine,
    opened: Engine,
    loaded: TokenizerFile,
    answered: Answered,
    *,
    plain: bool,
    known: Verdict | None = None,
) -> Verdict:
    """Compare an engine with the reference on texts.

    Args:
        engine: which one it is.
        opened: the engine.
        loaded: the tokenizer.
        answered: the texts and the reference's ids.
        plain: the texts of special tokens are split like other text.
        known: what other texts showed before.
    """
    examiner = _Examiner(engine, opened, loaded, answered.reference, plain)
    if known is not None:
        examiner.deny(known.denied)
    try:
        for texts, expected in answered:
            examiner.compare(texts, expected)
    except _FailedError as error:
        return failed_on(str(error))
    return Verdict(passed=True, denied=examiner.denied)


class _Examiner:
    """Adds to `denied` until no difference is left."""

    def __init__(
        self,
        engine: FastEngine,
        opened: Engine,
        loaded: TokenizerFile,
        reference: Engine,
        plain: bool,
    ) -> None:
        self._reference = reference
        self._tried = Routed(opened, reference, needles(engine, loaded, (), plain=plain))
        self.denied: Ranges = ()
        self._pattern = pattern(())

    def deny(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Compare without these code points from now on."""
        self.denied = merged_ranges((*self.denied, *ranges))
        self._pattern = pattern(self.denied)

    def compare(self, texts: pa.LargeStringArray, expected: Encoded) -> None:
        """Raise _FailedError where no set of denied code points makes the ids right."""
        for position in differing(expected, self._tried.encode(texts)):
            self._resolve(texts[position].as_py())

    def _resolve(self, text: str) -> None:
        left = self._without(text)
        if left == text and not self._differs(text):
            raise _FailedError(text)  # only in company: what it depends on cannot be routed
        while self._differs(left):
            self._explain(minimized(left, self._differs))
            left = self._without(left)

    def _without(self, text: str) -> str:
        return self._pattern.sub("", text)

    def _explain(self, smallest: str) -> None:
        """Deny what makes a text differ of which no part can be left out."""
        # the highest is the rarest by far in real text, where several are needed to show it
        point = ord(max(smallest))
        if point < _ASCII_END:
            raise _FailedError(smallest)
        if unicodedata.category(chr(point)) == "Cn":
            self.deny(unassigned())
        else:
            self.deny([self._alike(smallest, point)])
        if len(self.denied) > MOST_DENIED:
            raise _FailedError(smallest)

    def _alike(self, smallest: str, point: int) -> tuple[int, int]:
        """The code point and its neighbours that differ in its place, where it stands alone."""
        others = [ord(character) for character in smallest if ord(character) != point]
        if any(other >= _MARKS_END for other in others):
            return point, point
        first, last = point, point
        while self._differs_as(smallest, point, first - 1):
            first -= 1
        while self._differs_as(smallest, point, last + 1):
            last += 1
        return first, last

    def _differs_as(self, smallest: str, point: int, other: int) -> bool:
        surrogate = FIRST_SURROGATE <= other <= LAST_SURROGATE
        if surrogate or not _ASCII_END <= other <= LARGEST:
            return False
        return self._differs(smallest.replace(chr(point), chr(other)))

    def _differs(self, text: str) -> bool:
        texts = pa.array([text], pa.large_string())
        return bool(differing(self._reference.encode(texts), self._tried.encode(texts)))
