"""Which engine a build runs with: the fastest on the user's own text that is exact."""

import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Final, Literal

import pyarrow as pa

from ingot.converters.errors import ConversionError
from ingot.converters.measuring import usable_cores
from ingot.converters.megatron.engines.choice import Choice
from ingot.converters.megatron.engines.codepoints import count, shown
from ingot.converters.megatron.engines.engine import Engine
from ingot.converters.megatron.engines.fast import (
    FAST,
    FastEngine,
    NotOfferedError,
    installed_version,
    probe,
)
from ingot.converters.megatron.engines.gate import Answered, examine
from ingot.converters.megatron.engines.reference import reference
from ingot.converters.megatron.engines.results import runs, text_bytes
from ingot.converters.megatron.engines.routing import Needles, Routed, needles
from ingot.converters.megatron.engines.trials import trials
from ingot.converters.megatron.engines.verdicts import (
    LIBRARIES,
    Case,
    Verdict,
    case_of,
    keep,
    recall,
)
from ingot.converters.megatron.monitor import Monitor, log
from ingot.converters.megatron.tokenizer import TokenizerFile

Wanted = Literal["auto", "hf", "gigatoken", "fastokens"]

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


def choose(
    loaded: TokenizerFile,
    wanted: Wanted,
    sample: pa.LargeStringArray,
    *,
    plain: bool,
    total_bytes: int,
    exclude: Set[str] = frozenset(),
    threads: int,
    monitor: Monitor,
) -> Choice:
    """The engine to run with.

    Args:
        loaded: the tokenizer.
        wanted: `auto`, or an engine by name; `hf` is sentencepiece itself for a `.model`.
        sample: texts of the user's own, some MB.
        plain: the texts of special tokens are split like other text.
        total_bytes: text there is to tokenize, estimated.
        exclude: engines that were switched off before.
        threads: threads an engine may use by itself.
        monitor: takes `engine_chosen`, `engine_examined` and `engine_not_offered`.

    Raises:
        ConversionError: the engine asked for is not installed, cannot load the tokenizer or gives
            other ids than the reference.
    """
    race = _Race(loaded, sample, plain, threads, monitor)
    if wanted == "hf":
        return race.chosen(race.exact(), "asked for")
    if wanted == "auto":
        trusted = [fast for name, fast in FAST.items() if name not in exclude]
        return race.fastest(trusted, total_bytes)
    if wanted in exclude:
        return race.chosen(race.exact(), f"{wanted} was switched off before")
    return race.chosen(race.stated(FAST[wanted]), "asked for")


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
        self._sample = runs(sample, _RUN)
        cores = usable_cores()
        self._cores = max(cores, threads)
        self._answered: Answered | None = None

    def exact(self) -> Choice:
        """The reference as the choice."""
        library = LIBRARIES[self._loaded.kind]
        name = "hf" if self._loaded.kind == "huggingface" else "sentencepiece"
        return Choice(engine=name, version=installed_version(library) or "", plain=self._plain)

    def chosen(self, choice: Choice, why: str) -> Choice:
        """Tell what is chosen."""
        log(
            self._monitor,
            "info",
            "tokenizer",
            "engine_chosen",
            engine=choice.engine,
            version=choice.version,
            why=why,
            denied=count(choice.denied),
            mb_per_second={name: round(rate, 1) for name, rate in choice.rates.items()},
        )
        return choice

    def stated(self, fast: FastEngine) -> Choice:
        """An engine that the user named.

        Raises:
            ConversionError: it cannot serve.
        """
        where = f"--tok-engine {fast.name}"
        try:
            verdict = self._examined(fast)
        except NotOfferedError as error:
            hint = "install the extra fast" if error.missing else "choose auto or hf"
            raise ConversionError(where, str(error), hint) from error
        if not verdict.passed:
            raise ConversionError(where, verdict.problem, "choose auto or hf")
        return self._choice(_Entrant(fast=fast, verdict=verdict), {})

    def fastest(self, engines: Sequence[FastEngine], total_bytes: int) -> Choice:
        """The fastest exact engine, or the reference where a race would not pay."""
        installed = [fast for fast in engines if installed_version(fast.distribution) is not None]
        known = all(recall(self._case(fast)) is not None for fast in installed)
        worth = EXAMINED_BYTES if known else UNEXAMINED_BYTES
        if not installed:
            return self.chosen(self.exact(), "no other engine is installed and trusted")
        if total_bytes < worth:
            return self.chosen(self.exact(), f"{total_bytes >> 20} MiB of text do not pay a race")
        entrants = [entrant for fast in installed if (entrant := self._entrant(fast)) is not None]
        return self._raced(entrants)

    def _case(self, fast: FastEngine) -> Case:
        return case_of(fast, self._loaded, plain=self._plain)

    def _entrant(self, fast: FastEngine) -> _Entrant | None:
        try:
            verdict = self._examined(fast)
        except NotOfferedError as error:
            self._refused(fast, str(error))
            return None
        if not verdict.passed:
            self._refused(fast, verdict.problem)
            return None
        return _Entrant(fast=fast, verdict=verdict)

    def _refused(self, fast: FastEngine, why: str) -> None:
        log(self._monitor, "info", "tokenizer", "engine_not_offered", engine=fast.name, why=why)

    def _examined(self, fast: FastEngine) -> Verdict:
        """The verdict that was kept, else the gate's, kept now."""
        kept = recall(self._case(fast))
        if kept is not None:
            return kept
        opened = probe(fast, self._loaded, plain=self._plain, threads=self._cores)
        started = time.monotonic()
        if self._answered is None:
            exact = reference(self._loaded, plain=self._plain, threads=self._cores)
            self._answered = Answered(exact, trials(self._loaded))
        verdict = examine(fast, opened, self._loaded, self._answered, plain=self._plain)
        return self._kept(fast, verdict, time.monotonic() - started)

    def _kept(self, fast: FastEngine, verdict: Verdict, seconds: float) -> Verdict:
        keep(self._case(fast), verdict)
        log(
            self._monitor,
            "info",
            "tokenizer",
            "engine_examined",
            engine=fast.name,
            passed=verdict.passed,
            denied=count(verdict.denied),
            ranges=shown(verdict.denied, _SHOWN),
            problem=verdict.problem,
            seconds=round(seconds, 1),
        )
        return verdict

    def _raced(self, entrants: Sequence[_Entrant]) -> Choice:
        """Encode the user's text with all of them; what differs there is out, or denied."""
        self._answered = None
        exact = reference(self._loaded, plain=self._plain, threads=self._threads)
        seconds = _RACE_SECONDS * _REFERENCE_SHARE
        rate, answered = _timed(exact, self._sample, seconds)
        rates = {self.exact().engine: rate}
        racers: list[_Entrant] = []
        for entrant in entrants:
            each = (_RACE_SECONDS - seconds) / len(entrants)
            racer, rate = self._run(entrant, Answered(exact, self._sample[:answered]), each)
            if racer is not None:
                racers.append(racer)
                rates[racer.fast.name] = rate
        best = max(rates, key=lambda name: rates[name])
        winner = next((racer for racer in racers if racer.fast.name == best), None)
        if winner is None:
            return self.chosen(replace(self.exact(), rates=rates), "no exact engine is faster")
        return self.chosen(self._choice(winner, rates), "fastest on this text")

    def _run(
        self, entrant: _Entrant, answered: Answered, seconds: float
    ) -> tuple[_Entrant | None, float]:
        opened = probe(entrant.fast, self._loaded, plain=self._plain, threads=self._threads)
        started = time.monotonic()
        verdict = examine(
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
        held = Needles((), verdict.denied)
        routed = sum(int(held.holding(texts).sum()) for texts in self._sample)
        if routed > _MOST_ROUTED * sum(map(len, self._sample)):
            self._refused(entrant.fast, f"wrong on letters of {routed} texts of the sample")
            return None, 0.0
        held = needles(entrant.fast, self._loaded, verdict.denied, plain=self._plain)
        rate, _ = _timed(Routed(opened, answered.reference, held), self._sample, seconds)
        return _Entrant(fast=entrant.fast, verdict=verdict), rate

    def _choice(self, entrant: _Entrant, rates: Mapping[str, float]) -> Choice:
        return Choice(
            engine=entrant.fast.name,
            version=installed_version(entrant.fast.distribution) or "",
            denied=entrant.verdict.denied,
            plain=self._plain,
            rates=rates,
        )


def _timed(
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
        size += text_bytes(texts).size
        if done == 1:
            first, warm = size, now
        if now - started > seconds:
            break
    if done > 1:
        size, started = size - first, warm
    return size / max(now - started, 1e-9) / 1e6, done
