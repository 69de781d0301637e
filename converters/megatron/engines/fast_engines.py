"""The fast engines there are, how they are opened, and what keeps one from being offered.

What the gate found, kept between runs: one small JSON file per tokenizer, engine and versions.
"""

import hashlib
import json
import os
import tempfile
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, Protocol

from ingot.converters.megatron.engines.engine import (
    LARGEST_POINT,
    Engine,
    PointRanges,
    merge_ranges,
)
from ingot.converters.megatron.engines.fastokens import open_fastokens
from ingot.converters.megatron.engines.gigatoken import open_gigatoken
from ingot.converters.megatron.engines.trials import TRIALS_VERSION
from ingot.converters.megatron.tokenizer.libraries import UnloadableError
from ingot.converters.megatron.tokenizer.tokenizer import TokenizerFile
from ingot.converters.rows import Json


class EngineOpener(Protocol):
    """Opens an engine for one thread."""

    def __call__(self, loaded: TokenizerFile, *, plain: bool, threads: int) -> Engine:
        """Open it; raises ImportError or UnloadableError."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class FastEngine:
    """A fast engine.

    Attributes:
        name: as the user names it.
        distribution: the package it comes in.
        open: opens it.
        knows_plain: it can split the texts of special tokens like other text.
        grows: its caches have no bound of their own.
    """

    name: str
    distribution: str
    open: EngineOpener
    knows_plain: bool
    grows: bool


FAST_ENGINES: Final[Mapping[str, FastEngine]] = {
    engine.name: engine
    for engine in (
        FastEngine(
            name="gigatoken",
            distribution="gigatoken",
            open=open_gigatoken,
            knows_plain=False,
            grows=True,
        ),
        FastEngine(
            name="fastokens",
            distribution="fastokens",
            open=open_fastokens,
            knows_plain=False,  # not exactly, where a normalizer puts something before a text
            grows=False,
        ),
    )
}


class NotOfferedError(Exception):
    """An engine cannot serve a tokenizer here; its text says why.

    Attributes:
        missing: its package is not installed.
    """

    def __init__(self, problem: str, *, missing: bool = False) -> None:
        super().__init__(problem)
        self.missing = missing


def installed_version(distribution: str) -> str | None:
    """The version of an installed package; None where it is not."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def open_fast(
    engine: FastEngine, loaded: TokenizerFile, *, plain: bool, threads: int = 1
) -> Engine:
    """Open an engine in earnest."""
    try:
        return engine.open(loaded, plain=plain, threads=threads)
    except ImportError as error:
        raise NotOfferedError(f"not installed: {error}", missing=True) from error
    except UnloadableError as error:
        raise NotOfferedError(f"cannot load the tokenizer: {error}") from error


def probe_engine(
    engine: FastEngine, loaded: TokenizerFile, *, plain: bool, threads: int = 1
) -> Engine:
    """Open an engine, distrusting one that warns about the tokenizer.

    Warnings are caught for the whole process: not to be called beside other threads.
    """
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        opened = open_fast(engine, loaded, plain=plain, threads=threads)
    if warned:
        raise NotOfferedError(f"warns about the tokenizer: {warned[0].message}")
    return opened


# Ranges of denied code points; all unassigned ones are some 700.
MOST_DENIED: Final = 1500
_LARGEST_FILE: Final = 64 << 10
_SHOWN: Final = 200
# The package of the reference, by kind of tokenizer.
LIBRARIES: Final = {"huggingface": "tokenizers", "sentencepiece": "sentencepiece"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """Whether an engine may serve a tokenizer.

    Attributes:
        passed: it may.
        denied: code points that it gets wrong; texts with one go to the reference.
        problem: why it may not.
    """

    passed: bool
    denied: PointRanges = ()
    problem: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class VerdictCase:
    """What a verdict is about; everything that may change it.

    Attributes:
        tokenizer: sha256 of its file.
        engine: the engine.
        version: of its package.
        reference: the reference's package and its version.
        plain: the texts of special tokens are split like other text.
    """

    tokenizer: str
    engine: str
    version: str
    reference: str
    plain: bool

    def key(self) -> dict[str, Json]:
        """The case as plain JSON."""
        return {
            "tokenizer": self.tokenizer,
            "engine": self.engine,
            "version": self.version,
            "reference": self.reference,
            "plain": self.plain,
            "trials": TRIALS_VERSION,
        }


def make_verdict_case(engine: FastEngine, loaded: TokenizerFile, *, plain: bool) -> VerdictCase:
    """The case of an engine and a tokenizer with what is installed."""
    return VerdictCase(
        tokenizer=loaded.sha256,
        engine=engine.name,
        version=installed_version(engine.distribution) or "",
        reference=f"{LIBRARIES[loaded.kind]} {installed_version(LIBRARIES[loaded.kind])}",
        plain=plain,
    )


def failed_verdict(text: str) -> Verdict:
    """The verdict on an engine that gives other ids than the reference on a text."""
    return Verdict(passed=False, problem=f"other ids than the reference on {text[:_SHOWN]!r}")


def recall_verdict(case: VerdictCase) -> Verdict | None:
    """The verdict that was kept; None where there is none to be trusted."""
    path = _verdict_path(case)
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            document = json.loads(file.read(_LARGEST_FILE))
        return _read_verdict(document, case)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _read_verdict(document: dict[str, Any], case: VerdictCase) -> Verdict | None:
    denied = _read_ranges(document["denied"])
    sound = (
        document["case"] == case.key()
        and isinstance(document["passed"], bool)
        and isinstance(document["problem"], str)
        and denied is not None
    )
    if not sound or denied is None:
        return None
    return Verdict(passed=document["passed"], denied=denied, problem=document["problem"])


def _read_ranges(listed: list[Any]) -> PointRanges | None:
    """Ranges as they were kept; None where they are not sound."""
    ranges = tuple((first, last) for first, last in listed)
    plain = all(type(point) is int for pair in ranges for point in pair)
    if not plain or len(ranges) > MOST_DENIED or merge_ranges(ranges) != ranges:
        return None
    if not all(128 <= first <= last <= LARGEST_POINT for first, last in ranges):
        return None
    return ranges


def keep_verdict(case: VerdictCase, verdict: Verdict) -> None:
    """Keep a verdict for later runs, where that is possible."""
    path = _verdict_path(case)
    if path is None:
        return
    document = {
        "case": case.key(),
        "passed": verdict.passed,
        "denied": [[first, last] for first, last in verdict.denied],
        "problem": verdict.problem,
    }
    with suppress(OSError):  # a cache: the next run finds out again
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".verdict-")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(document, file)
            Path(temporary).replace(path)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
            raise


def _verdict_path(case: VerdictCase) -> Path | None:
    folder = _verdict_folder()
    digest = hashlib.sha256(json.dumps(case.key()).encode()).hexdigest()
    return None if folder is None else folder / f"{case.engine}-{digest[:32]}.json"


def _verdict_folder() -> Path | None:
    home = os.environ.get("INGOT_HOME")
    if home:
        return Path(home) / "engines"
    cache = os.environ.get("XDG_CACHE_HOME")
    if cache and Path(cache).is_absolute():
        return Path(cache) / "ingot" / "engines"
    try:
        return Path.home() / ".cache" / "ingot" / "engines"
    except RuntimeError:  # a user without a home
        return None
