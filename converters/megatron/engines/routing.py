"""Texts that an engine is known to get wrong go to the reference; so do those it fails on."""

import re
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingot.converters.megatron.engines.engine import Encoded, Engine
from ingot.converters.megatron.engines.fast import FastEngine
from ingot.converters.megatron.engines.results import merged, text_bytes
from ingot.converters.megatron.tokenizer import TokenizerFile

# One literal is found ten times as fast as a choice of several.
_SINGLY = 8


class Needles:
    """Finds the texts that hold one of some strings.

    Args:
        literals: the strings, none empty.
    """

    def __init__(self, literals: Iterable[str]) -> None:
        found = sorted(set(literals))
        self._leads = np.array([one.encode()[0] for one in found], np.uint8)
        self._literals = found

    def __bool__(self) -> bool:
        return bool(self._literals)

    def holding(self, texts: pa.LargeStringArray) -> npt.NDArray[np.bool_]:
        """Per text, whether it holds one."""
        hit = np.zeros(len(texts), np.bool_)
        for pattern in self._patterns(texts):
            matched = pc.match_substring_regex(texts, pattern)
            hit |= matched.to_numpy(zero_copy_only=False)
        return hit

    def _patterns(self, texts: pa.LargeStringArray) -> list[str]:
        """Patterns for those strings that may stand in the texts at all."""
        data = text_bytes(texts)
        if not self._literals or not len(data):
            return []
        # a code point's first byte grows with it: texts without emoji hold no byte of 0xF0
        possible = np.flatnonzero(self._leads <= data.max())
        patterns = [re.escape(self._literals[at]) for at in possible.tolist()]
        return patterns if len(patterns) <= _SINGLY else ["|".join(patterns)]


class Routed:
    """An engine with the reference beside it for what it cannot do.

    Args:
        engine: the fast engine.
        reference: the reference.
        needles: texts that hold one of these go to the reference.
    """

    def __init__(self, engine: Engine, reference: Engine, needles: Needles) -> None:
        self.name = engine.name
        self.engine = engine
        self.reference = reference
        self._needles = needles

    def encode(self, texts: pa.LargeStringArray) -> Encoded:
        """Encode texts; those listed as failed are what the reference fails on."""
        return self.encode_told(texts)[0]

    def encode_told(self, texts: pa.LargeStringArray) -> tuple[Encoded, npt.NDArray[np.int64]]:
        """Encode texts, and tell the positions of those that the engine itself encoded."""
        held = self._needles.holding(texts) if self._needles else None
        if held is None or not held.any():
            return self._tried(texts)
        kept, routed = np.flatnonzero(~held), np.flatnonzero(held)
        tried, own = self._tried(texts.take(pa.array(kept)))
        parts = [(kept, tried), (routed, self.reference.encode(texts.take(pa.array(routed))))]
        return merged(len(texts), parts), kept[own]

    def _tried(self, texts: pa.LargeStringArray) -> tuple[Encoded, npt.NDArray[np.int64]]:
        encoded = self.engine.encode(texts)
        if not encoded.failed:
            return encoded, np.arange(len(texts))
        routed = np.array([position for position, _ in encoded.failed], np.int64)
        own = np.setdiff1d(np.arange(len(texts)), routed)
        good = Encoded(ids=encoded.ids, lengths=encoded.lengths[own])
        again = self.reference.encode(texts.take(pa.array(routed)))
        return merged(len(texts), [(own, good), (routed, again)]), own


def needles(
    engine: FastEngine, loaded: TokenizerFile, denied: Iterable[int], *, plain: bool
) -> Needles:
    """What sends a text to the reference: denied code points; specials the engine would read.

    sentencepiece never reads the text of a control symbol as that symbol, other engines do.
    """
    literals = [chr(point) for point in denied]
    if (plain and not engine.knows_plain) or loaded.kind == "sentencepiece":
        literals += [text for text in loaded.special if text]
    return Needles(literals)
