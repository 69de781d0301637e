"""Choose the engine of a build: the first listed one that gives the reference's ids, or that one.

An engine that has no verdict for the tokenizer yet is compared with the reference first, on the
user's text and on texts that break tokenizers, for a few seconds at most.
"""

import itertools
import random
import time
import unicodedata
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Final, Literal

import pyarrow as pa

from ingot.converters.errors import ConversionError
from ingot.converters.megatron.engines.engine import (
    Engine,
    EngineChoice,
    differing_texts,
    open_reference,
    text_runs,
)
from ingot.converters.megatron.engines.fast_engines import (
    FAST_ENGINES,
    LIBRARIES,
    FastEngine,
    NotOfferedError,
    Verdict,
    VerdictCase,
    failed_verdict,
    find_unproved,
    installed_version,
    keep_verdict,
    load_fastokens,
    make_verdict_case,
    probe_engine,
    recall_verdict,
)
from ingot.converters.megatron.engines.guard import RoutedEngine, make_routing_rules
from ingot.converters.megatron.messages import Monitor, log_event
from ingot.converters.megatron.tokenizer import TokenizerFile
from ingot.converters.megatron.tokenizer_files import load_huggingface, load_sentencepiece
from ingot.converters.settings import Level

WantedEngine = Literal["auto", "hf", "gigatoken", "fastokens"]

# Bytes of text that the reference has encoded before a faster engine is loaded, and before one
# that has no verdict for the tokenizer yet is also checked.
SMALL_BYTES: Final = 4 << 20
CHECKED_BYTES: Final = 16 << 20
CHECK_SECONDS: Final = 4.0
_RUN_BYTES: Final = 128 << 10


def choose_engine(
    loaded: TokenizerFile,
    requested: WantedEngine,
    sample: pa.LargeStringArray,
    *,
    plain: bool,
    total_bytes: int,
    exclude: Set[str] = frozenset(),
    threads: int,
    instances: int = 1,
    monitor: Monitor,
) -> EngineChoice:
    """Choose the engine to run with, in so many `instances` with so many `threads` each.

    `exclude` names engines that were found wrong.
    """
    selection = _Selection(
        loaded=loaded,
        sample=text_runs(sample, _RUN_BYTES),
        exact=open_reference(loaded, plain=plain, threads=threads * instances),
        plain=plain,
        threads=threads,
        instances=instances,
        monitor=monitor,
    )
    if requested == "hf":
        return selection.report(selection.reference(), "asked for")
    if requested == "auto":
        trusted = [fast for name, fast in FAST_ENGINES.items() if name not in exclude]
        return selection.choose_first(trusted, total_bytes)
    if requested in exclude:
        return selection.report(selection.reference(), f"{requested} was switched off before")
    return selection.choose_stated(FAST_ENGINES[requested])


@dataclass(frozen=True, kw_only=True, slots=True)
class _Selection:
    """One decision: for a tokenizer, on a sample of the user's text."""

    loaded: TokenizerFile
    sample: Sequence[pa.LargeStringArray]
    exact: Engine
    plain: bool
    threads: int
    instances: int
    monitor: Monitor

    def reference(self) -> EngineChoice:
        name = "hf" if self.loaded.kind == "huggingface" else "sentencepiece"
        return self._choice(name, LIBRARIES[self.loaded.kind])

    def _log(self, level: Level, event: str, **fields: object) -> None:
        log_event(self.monitor, level, "tokenizer", event, **fields)

    def report(self, choice: EngineChoice, why: str) -> EngineChoice:
        if choice.engine != "fastokens":
            load_fastokens.cache_clear()
        self._log(
            "info",
            "engine_chosen",
            engine=choice.engine,
            version=choice.version,
            why=why,
        )
        return choice

    def choose_stated(self, fast: FastEngine) -> EngineChoice:
        """The engine that the user named, or the reference where it is not to be trusted."""
        try:
            # opened although there is a verdict: an engine that is not installed is an error
            engine = self._open(fast)
        except NotOfferedError as error:
            hint = "install the extra `fast`" if error.missing else "choose auto or hf"
            raise ConversionError(f"`tok_engine` {fast.name}", str(error), hint) from error
        if self._is_listed(fast):
            verdict = recall_verdict(self._case(fast)) or self._examine(fast, engine)
            if self._is_trusted(fast, verdict):
                return self.report(self._choice(fast.name, fast.distribution), "asked for")
        return self.report(self.reference(), f"{fast.name} is not trusted")

    def choose_first(self, engines: Sequence[FastEngine], total_bytes: int) -> EngineChoice:
        """The first of these engines that is installed, listed and exact, where that pays."""
        if total_bytes < SMALL_BYTES:
            why = f"{total_bytes >> 20} MiB of text do not pay a faster engine"
            return self.report(self.reference(), why)
        for fast in engines:
            if installed_version(fast.distribution) is None or not self._is_listed(fast):
                continue
            verdict = recall_verdict(self._case(fast))
            if verdict is None and total_bytes >= CHECKED_BYTES:
                verdict = self._try(fast)
            if verdict is not None and self._is_trusted(fast, verdict):
                choice = self._choice(fast.name, fast.distribution)
                return self.report(choice, "the first exact engine")
        return self.report(self.reference(), "no other engine is installed and trusted")

    def _case(self, fast: FastEngine) -> VerdictCase:
        return make_verdict_case(fast, self.loaded, plain=self.plain)

    def _refuse(self, fast: FastEngine, why: str) -> None:
        self._log("warn", "engine_not_offered", engine=fast.name, why=why)

    def _is_listed(self, fast: FastEngine) -> bool:
        """Whether the tests have proved what is installed; else it is said what they have not."""
        unproved = find_unproved(fast, self.loaded)
        if unproved is not None:
            self._refuse(fast, unproved)
        return unproved is None

    def _open(self, fast: FastEngine) -> RoutedEngine:
        engine = probe_engine(fast, self.loaded, plain=self.plain, threads=self.threads)
        rules = make_routing_rules(fast, self.loaded, plain=self.plain)
        return RoutedEngine(engine, self.exact, rules)

    def _try(self, fast: FastEngine) -> Verdict | None:
        """Open an engine and examine it; None: it cannot serve."""
        try:
            return self._examine(fast, self._open(fast))
        except NotOfferedError as error:
            self._refuse(fast, str(error))
            return None

    def _examine(self, fast: FastEngine, engine: RoutedEngine) -> Verdict:
        """Compare an engine with the reference for some seconds, and keep the verdict."""
        started = time.monotonic()
        verdict = Verdict(passed=True)
        for texts in itertools.chain(self.sample[:1], check_texts(self.loaded)):
            differing = differing_texts(self.exact.encode(texts), engine.encode(texts))
            if differing:
                verdict = failed_verdict(texts[differing[0]].as_py())
            if differing or time.monotonic() - started > CHECK_SECONDS:
                break
        keep_verdict(self._case(fast), verdict)
        self._log(
            "info",
            "engine_examined",
            engine=fast.name,
            passed=verdict.passed,
            problem=verdict.problem,
            seconds=round(time.monotonic() - started, 1),
        )
        return verdict

    def _is_trusted(self, fast: FastEngine, verdict: Verdict) -> bool:
        if not verdict.passed:
            self._refuse(fast, verdict.problem)
        return verdict.passed

    def _choice(self, name: str, distribution: str) -> EngineChoice:
        version = installed_version(distribution) or ""
        return EngineChoice(engine=name, version=version, plain=self.plain)


_SEED: Final = 20
_MIXES: Final = 4000
_MOST_SPECIALS: Final = 64
SPACES: Final = (
    *(" ", "  ", "   ", "        ", "\t", "\n", "\r", "\r\n", "\n\n", "\x0b", "\x0c", "\x1c"),
    *("\x1f", "\x85", "\xa0", "\u1680", "\u180e", "\u2003", "\u200b", "\u2028", "\u3000", "\ufeff"),
)
_WORD_LIST: Final = """
hello World the don't DON'T I'LL we'Ve 's 'S 'ſ 'ſſ ſ's K'K o’clock 123 1234567890 3.14 1,000 ٣٤٥ १२
Ⅷ ½ x² 我们 漢字 日本語 カタカナ ｶﾞ 한국어 각 привет Ελλάς όσος مرحبا שלום नमस्ते ไทย ﬁ ﬅ İ ı ß ẞ Å é
ǅ ʰ ﷺ 𝒳 𐍈 㐀 𠀀 _ __init__ camelCase HTTPServer a/b/c // /* ... !!! ?! --> </p> {} (); \\n ▁ Ġ Ċ
##ing <0x0A> <| |> [MASK ]] https://a.b/?c=d&e a@b.c $1 ± € 🙂 👍🏽 🇨🇳 🇨🇳🇩 ❤️ 1️⃣ ☎️ 🏳️\u200d🌈
e\u0301 q\u0323\u0307 \u0301 \u0e31 \u05bf \u0378 \U000e0001 \ufffd \x00
👨\u200d👩\u200d👧\u200d👦 🧑🏿\u200d🚀
"""
WORDS: Final = tuple(_WORD_LIST.split())
# One of each kind that a splitting pattern tells apart.
_KINDS: Final = " \n\r\t'sSaA1!_é中"


def check_texts(loaded: TokenizerFile) -> Iterator[pa.LargeStringArray]:
    """Yield texts that break tokenizers, the same every time, in runs of some 100 KB."""
    run: list[str] = []
    size = 0
    for text in _all_texts(loaded):
        run.append(text)
        size += len(text)
        if size > _RUN_BYTES:
            yield pa.array(run, pa.large_string())
            run, size = [], 0
    yield pa.array(run, pa.large_string())


def _all_texts(loaded: TokenizerFile) -> Iterator[str]:
    source = random.Random(_SEED)
    specials = [
        variant
        for text in sorted(loaded.special)[:_MOST_SPECIALS] or ["<|endoftext|>", "</s>"]
        for variant in (text, text, text[:-1], text[1:], text.swapcase(), text * 2)
    ]
    yield from ("", *SPACES, *WORDS)
    for first, second in itertools.product(_KINDS, repeat=2):
        yield "".join(f"{first}{second}{a}{b}" for a, b in itertools.product(_KINDS, repeat=2))
    for space in SPACES:
        yield "".join(f"a{space}{other}b{other}.{space}" for other in SPACES)
        yield from (f"a{space}{special}{space}b{special}{space}" for special in specials)
    for _ in range(_MIXES):
        chosen = source.choices([specials, SPACES, WORDS], [1, 6, 14], k=source.randint(1, 14))
        yield "".join(source.choice(kind) for kind in chosen)
    yield from _vocabulary_texts(loaded, source)
    for letter in map(chr, itertools.chain(range(0xC0, 0x3400), range(0xAC00, 0xD7A4, 13))):
        decomposed = unicodedata.normalize("NFD", letter)
        if decomposed != letter:
            yield f"a{decomposed}b {decomposed}{decomposed} {decomposed[::-1]}"


def _vocabulary_texts(loaded: TokenizerFile, source: random.Random) -> Iterator[str]:
    """The tokens themselves, side by side in any order."""
    if loaded.kind == "sentencepiece":
        model = load_sentencepiece(loaded.data)
        pieces = [str(model.id_to_piece(number)) for number in range(model.get_piece_size())]
        tokens = [piece.replace("▁", " ") for piece in pieces]
    else:
        tokenizer = load_huggingface(loaded.data)
        numbers = sorted(tokenizer.get_vocab(with_added_tokens=False).values())
        tokens = tokenizer.decode_batch([[number] for number in numbers])
    source.shuffle(tokens)
    for first in range(0, len(tokens), 12):
        yield source.choice(("", "", " ", "\n", "'")).join(tokens[first : first + 12])
