"""Open engines as a build uses them: a fast one is routed, compared by samples, kept in bounds.

Texts that an engine is known to get wrong go to the reference, and so do those it fails on. Some of
the others are encoded by the reference too while the build runs.

What the caches of an instance hold cannot be asked for, so the resident memory of the process is
watched: what it grew by since the engines were opened, or made anew, counts as theirs. Threads have
an instance each; when one sees the limit passed, all are made anew, each before its next batch.
"""

import ctypes
import re
import threading
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingot.converters.errors import ConversionError
from ingot.converters.megatron.engines.engine import (
    LARGE_TEXT,
    REFERENCES,
    Encoded,
    Engine,
    EngineChoice,
    EngineWrongError,
    byte_offsets,
    differing_texts,
    id_offsets,
    merge_parts,
    open_reference,
    texts_buffer,
)
from ingot.converters.megatron.engines.fast_engines import (
    FAST_ENGINES,
    FastEngine,
    NotOfferedError,
    VerdictCase,
    failed_verdict,
    keep_verdict,
    make_verdict_case,
    new_letters,
    open_fast,
)
from ingot.converters.megatron.messages import Monitor, log_event
from ingot.converters.megatron.tokenizer import TokenizerFile


class _MemoryMeter:
    """Growth of this process, shared by the engines in its threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._base: int | None = None
        self.generation = 0

    def start(self, *, anew: bool = False) -> None:
        """Count growth from here: the first engine is opened, or one is made anew."""
        with self._lock:
            if anew or self._base is None:
                self._base = resident_bytes()

    def check(self, limit: int, generation: int) -> None:
        """Ask all engines of this generation to be made anew if the process grew past the limit."""
        resident = resident_bytes()
        with self._lock:
            if generation == self.generation and resident - (self._base or resident) > limit:
                self.generation += 1


_METER = _MemoryMeter()


def resident_bytes() -> int:
    """Bytes of this process in memory."""
    from psutil import Process

    return int(Process().memory_info().rss)


def trim_memory() -> None:
    """Give freed memory back to the system, where the C library has a call for that."""
    call = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if call is not None:
        call(0)
    pa.default_memory_pool().release_unused()


class RebuiltEngine:
    """An engine that is made anew when the engines of the process have grown past a limit."""

    def __init__(self, make: Callable[[], Engine], limit: int, monitor: Monitor) -> None:
        self._make = make
        self._limit = limit
        self._monitor = monitor
        self._generation = _METER.generation
        self._engine: Engine | None = make()
        self.name = self._engine.name
        _METER.start()

    def encode(self, texts: pa.LargeStringArray) -> Encoded:
        """Encode texts, with a new engine if the limit was passed."""
        engine = self._engine
        if engine is None or self._generation != _METER.generation:
            engine = None
            engine = self._renew_engine()
        encoded = engine.encode(texts)
        _METER.check(self._limit, self._generation)
        return encoded

    def _renew_engine(self) -> Engine:
        before = resident_bytes()
        self._generation = _METER.generation
        self._engine = None  # gone before the next one is made
        trim_memory()
        _METER.start(anew=True)
        self._engine = self._make()
        facts = {"engine": self.name, "rss_before": before, "rss_after": resident_bytes()}
        log_event(self._monitor, "info", "tokenizer", "engine_rebuilt", **facts)
        return self._engine


# Of the text: 3 % of the time of an engine that is 30 times as fast as the reference.
_COMPARED_PART: Final = 0.001
_AT_THE_BEGINNING: Final = 96 << 10
_MOST_SAVED: Final = 512 << 10
_LEAST_SAMPLE: Final = 16 << 10
_LEAST_PART: Final = 2 << 10


class Sampler:
    """Compares `_COMPARED_PART` of the text; one per engine instance."""

    def __init__(self, engine: Engine, reference: Engine) -> None:
        self._engine = engine
        self._reference = reference
        self._saved = float(_AT_THE_BEGINNING)

    def check(
        self, texts: pa.LargeStringArray, encoded: Encoded, positions: npt.NDArray[np.int64]
    ) -> None:
        """Compare some of a batch."""
        size = texts_buffer(texts).size
        self._saved = min(self._saved + _COMPARED_PART * size, _MOST_SAVED)
        if not len(positions) or self._saved < min(size, _LEAST_SAMPLE):
            return
        sizes = np.diff(byte_offsets(texts))
        # A seed that follows from the texts, cheaply: from their lengths and their first bytes.
        seed = zlib.crc32(texts_buffer(texts)[:4096].tobytes(), zlib.crc32(sizes.tobytes()))
        order = np.random.default_rng(seed).permutation(positions)
        sampled = order[np.cumsum(sizes[order]) <= self._saved]
        self._saved -= float(sizes[sampled].sum())
        if len(sampled):
            self._compare(texts, encoded, np.sort(sampled))
        elif self._saved >= _LEAST_PART:
            self._compare_part(texts[int(order[0])].as_py()[: int(self._saved) // 4])

    def _compare(
        self, texts: pa.LargeStringArray, encoded: Encoded, positions: npt.NDArray[np.int64]
    ) -> None:
        sample = texts.take(pa.array(positions))
        starts = id_offsets(encoded.lengths)
        rows = [
            encoded.ids[starts[position] : starts[position + 1]] for position in positions.tolist()
        ]
        expected = Encoded(ids=np.concatenate(rows), lengths=encoded.lengths[positions])
        self._raise_first(sample, expected)

    def _compare_part(self, text: str) -> None:
        self._saved -= len(text.encode())
        sample = pa.array([text], pa.large_string())
        encoded = self._engine.encode(sample)
        if not encoded.failed:
            self._raise_first(sample, encoded)

    def _raise_first(self, texts: pa.LargeStringArray, encoded: Encoded) -> None:
        wrong = differing_texts(self._reference.encode(texts), encoded)
        if wrong:
            raise EngineWrongError(self._engine.name, texts[wrong[0]].as_py())


# One literal is found ten times as fast as a choice of several.
_SINGLY = 8


class RoutingRules:
    """Finds the texts that hold one of some strings, or a letter that `letters` marks."""

    def __init__(
        self, literals: Iterable[str], letters: npt.NDArray[np.bool_] | None = None
    ) -> None:
        self._literals = sorted(set(literals))
        self._leads = np.array([one.encode()[0] for one in self._literals], np.uint8)
        self._marked = None if letters is None else _MarkedLetters(letters)

    def __bool__(self) -> bool:
        return bool(self._literals) or self._marked is not None

    def holding(self, texts: pa.LargeStringArray) -> npt.NDArray[np.bool_]:
        """Per text, whether it holds one."""
        hit = np.zeros(len(texts), np.bool_)
        for pattern in self._patterns(texts):
            matched = pc.match_substring_regex(texts, pattern)
            hit |= matched.to_numpy(zero_copy_only=False)
        if self._marked is not None:
            hit[self._marked.within(texts)] = True
        return hit

    def _patterns(self, texts: pa.LargeStringArray) -> list[str]:
        """Patterns for those strings that may stand in the texts at all."""
        data = texts_buffer(texts)
        if not self._literals or not len(data):
            return []
        # a code point's first byte grows with it: texts without emoji hold no byte of 0xF0
        possible = np.flatnonzero(self._leads <= data.max())
        patterns = [re.escape(self._literals[number]) for number in possible.tolist()]
        return patterns if len(patterns) <= _SINGLY else ["|".join(patterns)]


class _MarkedLetters:
    """Finds letters by their first bytes, then by the table: of English little is looked at."""

    def __init__(self, letters: npt.NDArray[np.bool_]) -> None:
        self._letters = letters
        points = np.flatnonzero(letters[0x80:]) + 0x80
        long = np.where(points < 0x10000, 0xE0 | points >> 12, 0xF0 | points >> 18)
        self._leads = np.zeros(256, np.bool_)
        self._leads[np.where(points < 0x800, 0xC0 | points >> 6, long)] = True
        self._lowest = np.uint8(np.flatnonzero(self._leads)[0])

    def within(self, texts: pa.LargeStringArray) -> npt.NDArray[np.int64]:
        """Positions of the texts that hold a marked letter; some more than once."""
        data = texts_buffer(texts)
        offsets = np.flatnonzero(data >= self._lowest)
        offsets = offsets[self._leads[data[offsets]]]
        if not len(offsets):
            return offsets
        marked = offsets[self._letters[_decode_points(data, offsets)]]
        starts = byte_offsets(texts)
        return np.searchsorted(starts - starts[0], marked, side="right") - 1


def _decode_points(
    data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]
) -> npt.NDArray[np.int32]:
    """The code points outside ASCII that begin at these bytes of valid UTF-8."""
    leads = data[offsets].astype(np.int32)
    point = leads & 0x1F
    point[leads >= 0xE0] &= 0x0F
    point[leads >= 0xF0] &= 0x07
    point = point << 6 | data[offsets + 1] & 0x3F
    for lowest_lead, step in ((0xE0, 2), (0xF0, 3)):
        longer = np.flatnonzero(leads >= lowest_lead)
        point[longer] = point[longer] << 6 | data[offsets[longer] + step] & 0x3F
    return point


class RoutedEngine:
    """An engine with the reference beside it for what it cannot do."""

    def __init__(self, engine: Engine, reference: Engine, needles: RoutingRules) -> None:
        self.name = engine.name
        self.engine = engine
        self.reference = reference
        self._needles = needles

    def encode(self, texts: pa.LargeStringArray) -> Encoded:
        """Encode texts; those listed as failed are what the reference fails on."""
        return self.encode_with_positions(texts)[0]

    def encode_with_positions(
        self, texts: pa.LargeStringArray
    ) -> tuple[Encoded, npt.NDArray[np.int64]]:
        """Encode texts, and tell the positions of those that the engine itself encoded."""
        is_routed = np.diff(byte_offsets(texts)) > LARGE_TEXT
        if self._needles:
            is_routed |= self._needles.holding(texts)
        if not is_routed.any():
            return self._tried(texts)
        direct, routed = np.flatnonzero(~is_routed), np.flatnonzero(is_routed)
        tried, encoded_positions = self._tried(texts.take(pa.array(direct)))
        parts = [(direct, tried), (routed, self.reference.encode(texts.take(pa.array(routed))))]
        return merge_parts(len(texts), parts), direct[encoded_positions]

    def _tried(self, texts: pa.LargeStringArray) -> tuple[Encoded, npt.NDArray[np.int64]]:
        encoded = self.engine.encode(texts)
        if not encoded.failed:
            return encoded, np.arange(len(texts))
        routed = np.array([position for position, _ in encoded.failed], np.int64)
        positions = np.setdiff1d(np.arange(len(texts)), routed)
        good = Encoded(ids=encoded.ids, lengths=encoded.lengths[positions])
        rerouted = self.reference.encode(texts.take(pa.array(routed)))
        return merge_parts(len(texts), [(positions, good), (routed, rerouted)]), positions


def make_routing_rules(engine: FastEngine, loaded: TokenizerFile, *, plain: bool) -> RoutingRules:
    """What sends a text to the reference: new letters; specials the engine would read.

    sentencepiece never reads the text of a control symbol as that symbol, other engines do.
    """
    read = plain or loaded.kind == "sentencepiece"
    literals = (text for text in loaded.special if text and read)
    return RoutingRules(literals, new_letters() if engine.routes_new_letters else None)


def open_engine(
    loaded: TokenizerFile,
    choice: EngineChoice,
    *,
    threads: int = 1,
    memory_limit: int,
    monitor: Monitor,
) -> Engine:
    """The chosen engine, for one thread."""
    exact = open_reference(loaded, plain=choice.plain, threads=threads)
    if choice.engine in REFERENCES:
        return exact
    fast = FAST_ENGINES[choice.engine]
    make = partial(open_fast, fast, loaded, plain=choice.plain, threads=threads)
    try:
        engine = RebuiltEngine(make, memory_limit, monitor) if fast.grows else make()
    except NotOfferedError as error:
        hint = "install the extra `fast`, or choose `tok_engine` hf"
        raise ConversionError(choice.engine, str(error), hint) from error
    rules = make_routing_rules(fast, loaded, plain=choice.plain)
    return GuardedEngine(
        name=engine.name,
        routed=RoutedEngine(engine, exact, rules),
        sampler=Sampler(engine, exact),
        case=make_verdict_case(fast, loaded, plain=choice.plain),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class GuardedEngine:
    """A fast engine with its routing and its samples; `open_engine` makes it."""

    name: str
    routed: RoutedEngine
    sampler: Sampler
    case: VerdictCase

    def encode(self, texts: pa.LargeStringArray) -> Encoded:
        """Encode texts."""
        encoded, own = self.routed.encode_with_positions(texts)
        try:
            self.sampler.check(texts, encoded, own)
        except EngineWrongError as error:
            keep_verdict(self.case, failed_verdict(error.text))
            raise EngineWrongError(error.engine, error.text[:200]) from error
        return encoded
