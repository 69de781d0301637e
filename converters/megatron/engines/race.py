"""The smallest part of a text that still shows a difference: delta debugging over characters.

The exactness gate: no engine serves a tokenizer before it gave the reference's ids on `trials`.
Which engine a build runs with: the fastest on the user's own text that is exact.
"""

import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, Literal

import pyarrow as pa

from ingot.converters.errors import ConversionError
from ingot.converters.megatron.engines.engine import (
    FIRST_SURROGATE,
    LARGEST_POINT,
    LAST_SURROGATE,
    Encoded,
    Engine,
    EngineChoice,
    PointRanges,
    count_points,
    differing_texts,
    format_ranges,
    merge_ranges,
    ranges_pattern,
    text_runs,
    texts_buffer,
    unassigned_ranges,
)
from ingot.converters.megatron.engines.fast_engines import (
    FAST_ENGINES,
    LIBRARIES,
    MOST_DENIED,
    FastEngine,
    NotOfferedError,
    Verdict,
    VerdictCase,
    failed_verdict,
    installed_version,
    keep_verdict,
    make_verdict_case,
    probe_engine,
    recall_verdict,
)
from ingot.converters.megatron.engines.guard import RoutedEngine, RoutingRules, make_routing_rules
from ingot.converters.megatron.engines.reference import open_reference
from ingot.converters.megatron.engines.trials import trial_texts
from ingot.converters.megatron.metrics.messages import Monitor, log_event
from ingot.converters.megatron.tokenizer.tokenizer import TokenizerFile
from ingot.converters.progress import usable_cores

_MOST_TESTS: Final = 1500


def minimize_text(text: str, differs: Callable[[str], bool]) -> str:
    """A text of which no part can be left out, or the best found in a bounded number of tests."""
    budget = iter(range(_MOST_TESTS))

    def counted(part: str) -> bool:
        return part != "" and next(budget, None) is not None and differs(part)

    parts = 2
    while len(text) > 1:
        size = -(-len(text) // parts)
        smaller = _try_smaller(text, size, counted)
        if smaller is not None:
            text, parts = smaller, max(parts - 1, 2)
        elif size == 1:
            break
        else:
            parts = min(parts * 2, len(text))
    return text


def _try_smaller(text: str, size: int, differs: Callable[[str], bool]) -> str | None:
    candidates = (text[:at] + text[at + size :] for at in range(0, len(text), size))
    return next((part for part in candidates if differs(part)), None)


_ASCII_END: Final = 0x80
# Letters of Western Europe and the combining marks that the trials put beside a code point.
_MARKS_END: Final = 0x370


class AnsweredTexts:
    """Runs of texts with the reference's ids, encoded once for all engines that are examined."""

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


def examine_engine(
    engine: FastEngine,
    opened: Engine,
    loaded: TokenizerFile,
    answered: AnsweredTexts,
    *,
    plain: bool,
    known: Verdict | None = None,
) -> Verdict:
    """Compare an engine with the reference on texts."""
    examiner = _Examiner(engine, opened, loaded, answered.reference, plain)
    if known is not None:
        examiner.deny(known.denied)
    try:
        for texts, expected in answered:
            examiner.compare(texts, expected)
    except _FailedError as error:
        return failed_verdict(str(error))
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
        self._tried = RoutedEngine(
            opened, reference, make_routing_rules(engine, loaded, (), plain=plain)
        )
        self.denied: PointRanges = ()
        self._pattern = ranges_pattern(())

    def deny(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Compare without these code points from now on."""
        self.denied = merge_ranges((*self.denied, *ranges))
        self._pattern = ranges_pattern(self.denied)

    def compare(self, texts: pa.LargeStringArray, expected: Encoded) -> None:
        """Raise _FailedError where no set of denied code points makes the ids right."""
        for position in differing_texts(expected, self._tried.encode(texts)):
            self._resolve(texts[position].as_py())

    def _resolve(self, text: str) -> None:
        left = self._drop_denied(text)
        if left == text and not self._differs(text):
            raise _FailedError(text)  # only in company: what it depends on cannot be routed
        while self._differs(left):
            self._explain(minimize_text(left, self._differs))
            left = self._drop_denied(left)

    def _drop_denied(self, text: str) -> str:
        return self._pattern.sub("", text)

    def _explain(self, smallest: str) -> None:
        """Deny what makes a text differ of which no part can be left out."""
        # the highest is the rarest by far in real text, where several are needed to show it
        point = ord(max(smallest))
        if point < _ASCII_END:
            raise _FailedError(smallest)
        if unicodedata.category(chr(point)) == "Cn":
            self.deny(unassigned_ranges())
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
        if surrogate or not _ASCII_END <= other <= LARGEST_POINT:
            return False
        return self._differs(smallest.replace(chr(point), chr(other)))

    def _differs(self, text: str) -> bool:
        texts = pa.array([text], pa.large_string())
        return bool(differing_texts(self._reference.encode(texts), self._tried.encode(texts)))


WantedEngine = Literal["auto", "hf", "gigatoken", "fastokens"]

# Bytes of text below which the reference is done before a faster engine would have begun: it
# answers the gate's texts and loads two engines; with kept verdicts there is the loading left.
UNEXAMINED_BYTES: Final = 64 << 20
EXAMINED_BYTES: Final = 8 << 20
# Seconds of encoding in all, and the share of it that goes to the reference.
_RACE_SECONDS: Final = 1.0
_REFERENCE_SHARE: Final = 0.3
_RUN: Final = 128 << 10
# Of the user's texts, those that an engine may leave to the reference.
_MOST_ROUTED: Final = 0.01
# Ranges of denied code points in a log line.
_SHOWN: Final = 12


def choose_engine(
    loaded: TokenizerFile,
    wanted: WantedEngine,
    sample: pa.LargeStringArray,
    *,
    plain: bool,
    total_bytes: int,
    exclude: Set[str] = frozenset(),
    threads: int,
    monitor: Monitor,
) -> EngineChoice:
    """The engine to run with."""
    race = _Race(loaded, sample, plain, threads, monitor)
    if wanted == "hf":
        return race.chosen(race.exact(), "asked for")
    if wanted == "auto":
        trusted = [fast for name, fast in FAST_ENGINES.items() if name not in exclude]
        return race.fastest(trusted, total_bytes)
    if wanted in exclude:
        return race.chosen(race.exact(), f"{wanted} was switched off before")
    return race.chosen(race.use_stated(FAST_ENGINES[wanted]), "asked for")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Entrant:
    fast: FastEngine
    verdict: Verdict


class _Race:
    """One decision; the reference's answers are made when first needed and kept for all engines."""

    def __init__(
        self,
        loaded: TokenizerFile,
        sample: pa.LargeStringArray,
        plain: bool,
        threads: int,
        monitor: Monitor,
    ) -> None:
        self._loaded = loaded
        self._plain = plain
        self._threads = threads
        self._monitor = monitor
        self._sample = text_runs(sample, _RUN)
        cores = usable_cores()
        self._cores = max(cores, threads)
        self._answered: AnsweredTexts | None = None

    def exact(self) -> EngineChoice:
        """The reference as the choice."""
        library = LIBRARIES[self._loaded.kind]
        name = "hf" if self._loaded.kind == "huggingface" else "sentencepiece"
        return EngineChoice(
            engine=name, version=installed_version(library) or "", plain=self._plain
        )

    def chosen(self, choice: EngineChoice, why: str) -> EngineChoice:
        """Tell what is chosen."""
        log_event(
            self._monitor,
            "info",
            "tokenizer",
            "engine_chosen",
            engine=choice.engine,
            version=choice.version,
            why=why,
            denied=count_points(choice.denied),
            mb_per_second={name: round(rate, 1) for name, rate in choice.rates.items()},
        )
        return choice

    def use_stated(self, fast: FastEngine) -> EngineChoice:
        """An engine that the user named."""
        where = f"--tok-engine {fast.name}"
        try:
            verdict = self._recall_or_examine(fast)
        except NotOfferedError as error:
            hint = "install the extra fast" if error.missing else "choose auto or hf"
            raise ConversionError(where, str(error), hint) from error
        if not verdict.passed:
            raise ConversionError(where, verdict.problem, "choose auto or hf")
        return self._choice(_Entrant(fast=fast, verdict=verdict), {})

    def fastest(self, engines: Sequence[FastEngine], total_bytes: int) -> EngineChoice:
        """The fastest exact engine, or the reference where a race would not pay."""
        installed = [fast for fast in engines if installed_version(fast.distribution) is not None]
        known = all(recall_verdict(self._case(fast)) is not None for fast in installed)
        worth = EXAMINED_BYTES if known else UNEXAMINED_BYTES
        if not installed:
            return self.chosen(self.exact(), "no other engine is installed and trusted")
        if total_bytes < worth:
            return self.chosen(self.exact(), f"{total_bytes >> 20} MiB of text do not pay a race")
        entrants = [entrant for fast in installed if (entrant := self._entrant(fast)) is not None]
        return self._run_race(entrants)

    def _case(self, fast: FastEngine) -> VerdictCase:
        return make_verdict_case(fast, self._loaded, plain=self._plain)

    def _entrant(self, fast: FastEngine) -> _Entrant | None:
        try:
            verdict = self._recall_or_examine(fast)
        except NotOfferedError as error:
            self._refused(fast, str(error))
            return None
        if not verdict.passed:
            self._refused(fast, verdict.problem)
            return None
        return _Entrant(fast=fast, verdict=verdict)

    def _refused(self, fast: FastEngine, why: str) -> None:
        log_event(
            self._monitor, "info", "tokenizer", "engine_not_offered", engine=fast.name, why=why
        )

    def _recall_or_examine(self, fast: FastEngine) -> Verdict:
        """The verdict that was kept, else the gate's, kept now."""
        kept = recall_verdict(self._case(fast))
        if kept is not None:
            return kept
        opened = probe_engine(fast, self._loaded, plain=self._plain, threads=self._cores)
        started = time.monotonic()
        if self._answered is None:
            exact = open_reference(self._loaded, plain=self._plain, threads=self._cores)
            self._answered = AnsweredTexts(exact, trial_texts(self._loaded))
        verdict = examine_engine(fast, opened, self._loaded, self._answered, plain=self._plain)
        return self._kept(fast, verdict, time.monotonic() - started)

    def _kept(self, fast: FastEngine, verdict: Verdict, seconds: float) -> Verdict:
        keep_verdict(self._case(fast), verdict)
        log_event(
            self._monitor,
            "info",
            "tokenizer",
            "engine_examined",
            engine=fast.name,
            passed=verdict.passed,
            denied=count_points(verdict.denied),
            ranges=format_ranges(verdict.denied, _SHOWN),
            problem=verdict.problem,
            seconds=round(seconds, 1),
        )
        return verdict

    def _run_race(self, entrants: Sequence[_Entrant]) -> EngineChoice:
        """Encode the user's text with all of them; what differs there is out, or denied."""
        self._answered = None
        exact = open_reference(self._loaded, plain=self._plain, threads=self._threads)
        seconds = _RACE_SECONDS * _REFERENCE_SHARE
        rate, answered = _time_engine(exact, self._sample, seconds)
        rates = {self.exact().engine: rate}
        racers: list[_Entrant] = []
        for entrant in entrants:
            each = (_RACE_SECONDS - seconds) / len(entrants)
            racer, rate = self._run(entrant, AnsweredTexts(exact, self._sample[:answered]), each)
            if racer is not None:
                racers.append(racer)
                rates[racer.fast.name] = rate
        best = max(rates, key=lambda name: rates[name])
        winner = next((racer for racer in racers if racer.fast.name == best), None)
        if winner is None:
            return self.chosen(replace(self.exact(), rates=rates), "no exact engine is faster")
        return self.chosen(self._choice(winner, rates), "fastest on this text")

    def _run(
        self, entrant: _Entrant, answered: AnsweredTexts, seconds: float
    ) -> tuple[_Entrant | None, float]:
        opened = probe_engine(entrant.fast, self._loaded, plain=self._plain, threads=self._threads)
        started = time.monotonic()
        verdict = examine_engine(
            entrant.fast,
            opened,
            self._loaded,
            answered,
            plain=self._plain,
            known=entrant.verdict,
        )
        if verdict != entrant.verdict:
            self._kept(entrant.fast, verdict, time.monotonic() - started)
        if not verdict.passed:
            self._refused(entrant.fast, verdict.problem)
            return None, 0.0
        held = RoutingRules((), verdict.denied)
        routed = sum(int(held.holding(texts).sum()) for texts in self._sample)
        if routed > _MOST_ROUTED * sum(map(len, self._sample)):
            self._refused(entrant.fast, f"wrong on letters of {routed} texts of the sample")
            return None, 0.0
        held = make_routing_rules(entrant.fast, self._loaded, verdict.denied, plain=self._plain)
        rate, _ = _time_engine(
            RoutedEngine(opened, answered.reference, held), self._sample, seconds
        )
        return _Entrant(fast=entrant.fast, verdict=verdict), rate

    def _choice(self, entrant: _Entrant, rates: Mapping[str, float]) -> EngineChoice:
        return EngineChoice(
            engine=entrant.fast.name,
            version=installed_version(entrant.fast.distribution) or "",
            denied=entrant.verdict.denied,
            plain=self._plain,
            rates=rates,
        )


def _time_engine(
    engine: Engine, sample: Sequence[pa.LargeStringArray], seconds: float
) -> tuple[float, int]:
    """MB of text per second, and how many runs of the sample were encoded in the time.

    The first run warms up; it counts where there is no other.
    """
    started = warm = now = time.perf_counter()
    done, first, size = 0, 0, 0
    for done, texts in enumerate(sample, start=1):
        engine.encode(texts)
        now = time.perf_counter()
        size += texts_buffer(texts).size
        if done == 1:
            first, warm = size, now
        if now - started > seconds:
            break
    if done > 1:
        size, started = size - first, warm
    return size / max(now - started, 1e-9) / 1e6, done
