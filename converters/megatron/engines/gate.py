"""The exactness gate: no engine serves a tokenizer before it gave the reference's ids on `trials`.

A difference is reduced to the smallest text that shows it. Where that text holds a code point
outside ASCII, texts with that code point go to the reference from then on; otherwise, or where
there are too many such code points, the engine fails. A gate is evidence, not proof: real batches
are sampled too (`sampling.py`).
"""

from collections.abc import Iterable, Iterator
from itertools import islice

import pyarrow as pa

from ingot.converters.megatron.engines.engine import Encoded, Engine
from ingot.converters.megatron.engines.fast import FastEngine
from ingot.converters.megatron.engines.minimize import minimized
from ingot.converters.megatron.engines.results import differing
from ingot.converters.megatron.engines.routing import Routed, needles
from ingot.converters.megatron.engines.verdicts import MOST_DENIED, Verdict, failed_on
from ingot.converters.megatron.tokenizer import TokenizerFile


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
    denied = list(known.denied) if known is not None else []
    examiner = _Examiner(engine, opened, loaded, answered.reference, plain, denied)
    try:
        for texts, expected in answered:
            examiner.compare(texts, expected)
    except _FailedError as error:
        return failed_on(str(error))
    return Verdict(passed=True, denied=tuple(sorted(denied)))


class _Examiner:
    """Adds to `denied` until no difference is left."""

    def __init__(
        self,
        engine: FastEngine,
        opened: Engine,
        loaded: TokenizerFile,
        reference: Engine,
        plain: bool,
        denied: list[int],
    ) -> None:
        self._engine = engine
        self._opened = opened
        self._loaded = loaded
        self._reference = reference
        self._plain = plain
        self._denied = denied
        self._routed = self._make()

    def _make(self) -> Routed:
        held = needles(self._engine, self._loaded, self._denied, plain=self._plain)
        return Routed(self._opened, self._reference, held)

    def compare(self, texts: pa.LargeStringArray, expected: Encoded) -> None:
        """Raise _FailedError where no set of denied code points makes the ids right."""
        wrong = texts.take(pa.array(differing(expected, self._routed.encode(texts)), pa.int64()))
        while len(wrong):
            self._deny(wrong[0].as_py())
            found = differing(self._reference.encode(wrong), self._routed.encode(wrong))
            wrong = wrong.take(pa.array(found, pa.int64()))

    def _deny(self, text: str) -> None:
        if not self._differs(text):  # only in company: what it depends on cannot be routed
            raise _FailedError(text)
        smallest = minimized(text, self._differs)
        point = ord(max(smallest))
        if point < 128 or len(self._denied) >= MOST_DENIED:
            raise _FailedError(smallest)
        # the highest is the rarest by far in real text, where several are needed to show it
        self._denied.append(point)
        self._routed = self._make()

    def _differs(self, text: str) -> bool:
        texts = pa.array([text], pa.large_string())
        return bool(differing(self._reference.encode(texts), self._routed.encode(texts)))
