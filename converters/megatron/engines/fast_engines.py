"""The fast engines: how they are opened, which versions are proved, and the verdicts on them.

An engine serves only in a version that the tests prove (`test_proof.py`), and a tokenizer only
after checks on this machine. What the checks and the samples of a running build found is kept
between runs: one small JSON file per tokenizer, engine and versions.
"""

import hashlib
import json
import os
import threading
import unicodedata
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingot.converters.errors import translate_native_errors
from ingot.converters.json_yaml import load_json
from ingot.converters.megatron.engines.engine import (
    Encoded,
    Engine,
    Library,
    RefusedCallError,
    byte_offsets,
    texts_buffer,
)
from ingot.converters.megatron.tokenizer import TokenizerFile
from ingot.converters.megatron.tokenizer_files import UnloadableError
from ingot.converters.output.files import cache_folder, write_file

if TYPE_CHECKING:
    import awkward
    import fastokens
    import gigatoken


def open_fastokens(loaded: TokenizerFile, *, plain: bool, threads: int) -> "FasTokens":
    """Open fastokens for one thread."""
    # read when the library is loaded: with 1 a batch is encoded in the calling thread
    os.environ["FASTOKENS_BPE_THREADS"] = str(threads)
    if loaded.kind == "sentencepiece":
        raise UnloadableError("it reads no SentencePiece models")
    with _LOADING:
        return FasTokens(load_fastokens(loaded.data), plain)


_LOADING: Final = threading.Lock()


@lru_cache(maxsize=1)
def load_fastokens(data: bytes) -> "fastokens.Tokenizer":
    """Load the engine's tokenizer of a `tokenizer.json`: slow, but threads can share it."""
    from fastokens import Tokenizer

    with translate_native_errors(UnloadableError):
        tokenizer = Tokenizer.from_json_str(data.decode())
        tokenizer.no_truncation()
        tokenizer.no_padding()
    return tokenizer


class FasTokens(Library):
    """fastokens: it takes Python strings and returns two flat buffers; its caches are bounded."""

    name = "fastokens"

    def __init__(self, tokenizer: "fastokens.Tokenizer", plain: bool) -> None:
        self._tokenizer = tokenizer
        self._plain = plain

    def _call(self, texts: pa.LargeStringArray) -> Encoded:
        with translate_native_errors(RefusedCallError):
            ids, bounds = self._tokenizer.encode_batch_flat(
                texts.to_pylist(), split_special_tokens=self._plain
            )
        starts = np.frombuffer(bounds, np.int64)
        return Encoded(ids=np.frombuffer(ids, np.uint32), lengths=starts[1:] - starts[:-1])


def open_gigatoken(loaded: TokenizerFile, *, plain: bool, threads: int) -> "GigaToken":
    """Open gigatoken for one thread; `plain` is the matter of the routing, which it needs."""
    import awkward  # noqa: F401  the library needs it for its results and imports it late
    from gigatoken import Tokenizer

    with translate_native_errors(UnloadableError):
        if loaded.kind == "sentencepiece":
            tokenizer = Tokenizer.from_sentencepiece(loaded.data)
        else:
            tokenizer = Tokenizer.from_json(loaded.data)
    return GigaToken(tokenizer, threads)


class GigaToken(Library):
    """gigatoken: it reads Arrow's buffers as they are; its cache of words has no bound."""

    name = "gigatoken"

    def __init__(self, tokenizer: "gigatoken.Tokenizer", threads: int) -> None:
        self._tokenizer = tokenizer
        self._parallel = threads > 1

    def _call(self, texts: pa.LargeStringArray) -> Encoded:
        with translate_native_errors(RefusedCallError):
            rows = self._tokenizer.encode_batch(_awkward_array(texts), parallel=self._parallel)
        bounds = np.asarray(rows.layout.offsets.data, np.int64)
        ids = np.asarray(rows.layout.content.data, np.uint32)
        return Encoded(ids=ids[bounds[0] : bounds[-1]], lengths=np.diff(bounds))


def _awkward_array(texts: pa.LargeStringArray) -> "awkward.Array":
    from awkward import Array
    from awkward.contents import ListOffsetArray, NumpyArray
    from awkward.index import Index64

    starts = byte_offsets(texts)
    characters = NumpyArray(texts_buffer(texts), parameters={"__array__": "char"})
    return Array(
        ListOffsetArray(Index64(starts - starts[0]), characters, parameters={"__array__": "string"})
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class FastEngine:
    """A fast engine."""

    name: str
    distribution: str  # the package it comes in
    proved: frozenset[str]  # the versions that give the reference's ids in the tests
    # opens it for one thread: loaded, plain=, threads=; raises ImportError or UnloadableError
    open: Callable[..., Engine]
    routes_new_letters: bool  # the reference takes the texts with letters of `new_letters`
    grows: bool  # its caches have no bound of their own


# In the order in which they are taken: gigatoken loads faster, and is at least as fast.
# Neither can split the texts of special tokens like other text exactly: fastokens fails where a
# normalizer puts something before a text.
FAST_ENGINES: Final[Mapping[str, FastEngine]] = {
    engine.name: engine
    for engine in (
        FastEngine(
            name="gigatoken",
            distribution="gigatoken",
            proved=frozenset({"0.10.0"}),
            open=open_gigatoken,
            routes_new_letters=True,
            grows=True,
        ),
        FastEngine(
            name="fastokens",
            distribution="fastokens",
            proved=frozenset({"0.3.5"}),
            open=open_fastokens,
            routes_new_letters=False,
            grows=False,
        ),
    )
}
# The package of the reference by kind of tokenizer, and the series that the proof was run with.
LIBRARIES: Final = {"huggingface": "tokenizers", "sentencepiece": "sentencepiece"}
_PROVED_REFERENCES: Final = {
    "tokenizers": ("0.21.", "0.22.", "0.23."),
    "sentencepiece": ("0.2.",),
}

# Combining marks that Unicode got from version 10 to 14, then what 15.0 to 16.0 added, by blocks.
_LATE_MARKS: Final = """
7fd 898-89f 8ca-8d3 9fe c3c d3b-d3c eba 1715 1abf-1ace 1df6-1dfa a82c 10d24-10d27 10eab-10eac
10f46-10f50 10f82-10f85 11070 1133b 1145e 11839-1183a 11935 1193d-1193e 11943 119e0 11a34 11a47
11a99 11d42 11d44-11d45 11d97 16ff0-16ff1 1e130-1e136 1e2ae 1e2ec-1e2ef
"""
_LATE_LETTERS: Final = """
897 cf3 ece 1b4e-1b4f 1b7f 1c89-1c8a 2427-2429 2ffc-2fff 31e4-31e5 31ef a7cb-a7cd a7da-a7dc
105c0-105ff 10d40-10d8f 10ec2-10ec4 10efc-10eff 1123f-11241 11380-113ff 116d0-116e3 11b00-11b09
11bc0-11bff 11f00-11f5f 1342f 13439-143ff 16100-1613f 16d40-16d7f 1b132 1b155 1cc00-1cebf
1d2c0-1d2d3 1df25-1df2a 1e030-1e08f 1e4d0-1e4f9 1e5d0-1e5ff 1f6dc 1f774-1f776 1f77b-1f77f 1f7d9
1f8b2-1f8bb 1f8c0-1f8c1 1fa75-1fa77 1fa87-1fa8f 1faad-1faaf 1fabb-1fabf 1fac6 1face-1fadf
1fae8-1fae9 1faf7-1faf8 1fbcb-1fbef 2b739 2ebf0-2ee5d 31350-323af
"""
_NEWEST_UNICODE: Final = (16, 0)
_INHABITED: Final = (range(0x33000), range(0xE0000, 0xE0200))  # the rest is private or unassigned
LARGEST_POINT: Final = 0x10FFFF


@cache
def new_letters() -> npt.NDArray[np.bool_]:
    """Tell by code point what libraries of different age read differently: unassigned, or new."""
    table = np.ones(LARGEST_POINT + 1, np.bool_)
    for points in _INHABITED:
        table[points] = np.array([*map(unicodedata.category, map(chr, points))]) == "Cn"
    for points_text in (_LATE_MARKS + _LATE_LETTERS).split():
        first, _, last = points_text.partition("-")
        table[int(first, 16) : int(last or first, 16) + 1] = True
    return table


class NotOfferedError(Exception):
    """An engine cannot serve a tokenizer here; its text says why. `missing`: not installed."""

    def __init__(self, problem: str, *, missing: bool = False) -> None:
        super().__init__(problem)
        self.missing = missing


def installed_version(distribution: str) -> str | None:
    """Return the version of an installed package, None if it is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def find_unproved(engine: FastEngine, loaded: TokenizerFile) -> str | None:
    """Say which installed version no test has proved; None where all are."""
    installed = installed_version(engine.distribution)
    if installed not in engine.proved:
        return f"{engine.distribution} {installed} is not one of the proved versions"
    library = LIBRARIES[loaded.kind]
    reference = installed_version(library) or ""
    if not reference.startswith(_PROVED_REFERENCES[library]):
        return f"{library} {reference} is not one of the proved versions"
    tables = unicodedata.unidata_version
    if tuple(map(int, tables.split(".")))[:2] > _NEWEST_UNICODE:
        return f"Unicode {tables} of this Python is newer than what was proved"
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


_CHECKS: Final = 4  # raised when the checks change
_SHOWN: Final = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """Whether an engine may serve a tokenizer, and why it may not."""

    passed: bool
    problem: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class VerdictCase:
    """What a verdict is about; everything that may change it.

    `tokenizer` is the sha256 of its file, `reference` the reference's package with its version.
    """

    tokenizer: str
    engine: str
    version: str
    reference: str
    plain: bool

    def key(self) -> dict[str, str | bool | int]:
        """Return the case as plain JSON."""
        return {**asdict(self), "trials": _CHECKS}


def make_verdict_case(engine: FastEngine, loaded: TokenizerFile, *, plain: bool) -> VerdictCase:
    """Return the case of an engine and a tokenizer with the installed packages."""
    return VerdictCase(
        tokenizer=loaded.sha256,
        engine=engine.name,
        version=installed_version(engine.distribution) or "",
        reference=f"{LIBRARIES[loaded.kind]} {installed_version(LIBRARIES[loaded.kind])}",
        plain=plain,
    )


def failed_verdict(text: str) -> Verdict:
    """Return the verdict on an engine whose ids for a text differ from the reference."""
    return Verdict(passed=False, problem=f"other ids than the reference on {text[:_SHOWN]!r}")


def recall_verdict(case: VerdictCase) -> Verdict | None:
    """Return the verdict that was kept; None where there is none to be trusted."""
    path = _verdict_path(case)
    if path is None:
        return None
    try:
        document = load_json(path)
        verdict = Verdict(passed=document["passed"], problem=document["problem"])
        if document["case"] != case.key():
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    sound = isinstance(verdict.passed, bool) and isinstance(verdict.problem, str)
    return verdict if sound else None


def keep_verdict(case: VerdictCase, verdict: Verdict) -> None:
    """Keep a verdict for later runs, where that is possible."""
    path = _verdict_path(case)
    if path is None:
        return
    document = {"case": case.key(), **asdict(verdict)}
    with suppress(OSError):  # a cache: the next run finds out again
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, json.dumps(document).encode())


def _verdict_path(case: VerdictCase) -> Path | None:
    folder = cache_folder("engines")
    digest = hashlib.sha256(json.dumps(case.key()).encode()).hexdigest()
    return None if folder is None else folder / f"{case.engine}-{digest[:32]}.json"
