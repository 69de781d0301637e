"""What the gate found, kept between runs: one small JSON file per tokenizer, engine and versions.

They lie under `$INGOT_HOME/engines`, else `$XDG_CACHE_HOME/ingot/engines`, else
`~/.cache/ingot/engines`. A file that is damaged or about something else counts as none; where
nothing can be written, the gate runs again the next time.
"""

import hashlib
import json
import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ingot.converters.megatron.engines.codepoints import LARGEST, Ranges, merged_ranges
from ingot.converters.megatron.engines.fast import FastEngine, installed_version
from ingot.converters.megatron.engines.trials import TRIALS_VERSION
from ingot.converters.megatron.tokenizer import TokenizerFile
from ingot.converters.rows import Json

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
    denied: Ranges = ()
    problem: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
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


def case_of(engine: FastEngine, loaded: TokenizerFile, *, plain: bool) -> Case:
    """The case of an engine and a tokenizer with what is installed."""
    return Case(
        tokenizer=loaded.sha256,
        engine=engine.name,
        version=installed_version(engine.distribution) or "",
        reference=f"{LIBRARIES[loaded.kind]} {installed_version(LIBRARIES[loaded.kind])}",
        plain=plain,
    )


def failed_on(text: str) -> Verdict:
    """The verdict on an engine that gives other ids than the reference on a text."""
    return Verdict(passed=False, problem=f"other ids than the reference on {text[:_SHOWN]!r}")


def recall(case: Case) -> Verdict | None:
    """The verdict that was kept; None where there is none to be trusted."""
    path = _path(case)
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            document = json.loads(file.read(_LARGEST_FILE))
        return _verdict(document, case)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _verdict(document: dict[str, Any], case: Case) -> Verdict | None:
    denied = _ranges(document["denied"])
    sound = (
        document["case"] == case.key()
        and isinstance(document["passed"], bool)
        and isinstance(document["problem"], str)
        and denied is not None
    )
    if not sound or denied is None:
        return None
    return Verdict(passed=document["passed"], denied=denied, problem=document["problem"])


def _ranges(listed: list[Any]) -> Ranges | None:
    """Ranges as they were kept; None where they are not sound."""
    ranges = tuple((first, last) for first, last in listed)
    plain = all(type(point) is int for pair in ranges for point in pair)
    if not plain or len(ranges) > MOST_DENIED or merged_ranges(ranges) != ranges:
        return None
    if not all(128 <= first <= last <= LARGEST for first, last in ranges):
        return None
    return ranges


def keep(case: Case, verdict: Verdict) -> None:
    """Keep a verdict for later runs, where that is possible."""
    path = _path(case)
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


def _path(case: Case) -> Path | None:
    folder = _folder()
    digest = hashlib.sha256(json.dumps(case.key()).encode()).hexdigest()
    return None if folder is None else folder / f"{case.engine}-{digest[:32]}.json"


def _folder() -> Path | None:
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
