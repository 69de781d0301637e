"""Texts that an engine is known to get wrong go to the reference; so do those it fails on."""

import re
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingot.converters.megatron.engines.codepoints import LARGEST, Ranges
from ingot.converters.megatron.engines.engine import Encoded, Engine
from ingot.converters.megatron.engines.fast import FastEngine
from ingot.converters.megatron.engines.results import merged, offsets, text_bytes
from ingot.converters.megatron.tokenizer import TokenizerFile

# One literal is found ten times as fast as a choice of several.
_SINGLY = 8


class Needles:
    """Finds the texts that hold one of some strings, or a code point of some ranges.

    Args:
        literals: the strings, none empty.
        denied: the code points, none in ASCII.
    """

    def __init__(self, literals: Iterable[str], denied: Ranges = ()) -> None:
        found = sorted(set(literals))
        self._leads = np.array([one.encode()[0] for one in found], np.uint8)
        self._literals = found
        self._denied = _Denied(denied) if denied else None

    def __bool__(self) -> bool:
        return bool(self._literals) or self._denied is not None

    def holding(self, texts: pa.LargeStringArray) -> npt.NDArray[np.bool_]:
        """Per text, whether it holds one."""
        hit = np.zeros(len(texts), np.bool_)
        for pattern in self._patterns(texts):
            matched = pc.match_substring_regex(texts, pattern)
            hit |= matched.to_numpy(zero_copy_only=False)
        if self._denied is not None:
            hit[self._denied.within(texts)] = True
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


class _Denied:
    """Finds code points by their first bytes, then by a table: of English little is looked at."""

    def __init__(self, ranges: Ranges) -> None:
        self._table = np.zeros(LARGEST + 1, np.bool_)
        self._leads = np.zeros(256, np.bool_)
        for first, last in ranges:
            self._table[first : last + 1] = True
            self._leads[_lead(first) : _lead(last) + 1] = True
        self._lowest = np.uint8(np.flatnonzero(self._leads)[0])

    def within(self, texts: pa.LargeStringArray) -> npt.NDArray[np.int64]:
        """Positions of the texts that hold one; some more than once."""
        data = text_bytes(texts)
        at = np.flatnonzero(data >= self._lowest)
        at = at[self._leads[data[at]]]
        if not len(at):
            return at
        found = at[self._table[_decoded(data, at)]]
        starts = offsets(texts)
        return np.searchsorted(starts - starts[0], found, side="right") - 1


def _lead(point: int) -> int:
    """The first byte of a code point in UTF-8; surrogates count as their neighbours."""
    return chr(point).encode(errors="surrogatepass")[0]


def _decoded(data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """The code points outside ASCII that begin at these bytes of valid UTF-8."""
    lead = data[at].astype(np.int32)
    point = lead & 0x1F
    point[lead >= 0xE0] &= 0x0F
    point[lead >= 0xF0] &= 0x07
    point = point << 6 | data[at + 1] & 0x3F
    for least, step in ((0xE0, 2), (0xF0, 3)):
        longer = np.flatnonzero(lead >= least)
        point[longer] = point[longer] << 6 | data[at[longer] + step] & 0x3F
    return point


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


def needles(engine: FastEngine, loaded: TokenizerFile, denied: Ranges, *, plain: bool) -> Needles:
    """What sends a text to the reference: denied code points; specials the engine would read.

    sentencepiece never reads the text of a control symbol as that symbol, other engines do.
    """
    read = (plain and not engine.knows_plain) or loaded.kind == "sentencepiece"
    return Needles((text for text in loaded.special if text and read), denied)
