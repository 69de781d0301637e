"""The fast engines there are, how they are opened, and what keeps one from being offered."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Final, Protocol

from ingot.converters.megatron.engines.engine import Engine
from ingot.converters.megatron.engines.fastokens import open_fastokens
from ingot.converters.megatron.engines.gigatoken import open_gigatoken
from ingot.converters.megatron.loading import UnloadableError
from ingot.converters.megatron.tokenizer import TokenizerFile


class Opener(Protocol):
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
    open: Opener
    knows_plain: bool
    grows: bool


FAST: Final[Mapping[str, FastEngine]] = {
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
    """Open an engine in earnest.

    Raises:
        NotOfferedError: it is not installed, or cannot load the tokenizer.
    """
    try:
        return engine.open(loaded, plain=plain, threads=threads)
    except ImportError as error:
        raise NotOfferedError(f"not installed: {error}", missing=True) from error
    except UnloadableError as error:
        raise NotOfferedError(f"cannot load the tokenizer: {error}") from error


def probe(engine: FastEngine, loaded: TokenizerFile, *, plain: bool, threads: int = 1) -> Engine:
    """Open an engine, distrusting one that warns about the tokenizer.

    Warnings are caught for the whole process: not to be called beside other threads.

    Raises:
        NotOfferedError: it is not installed, cannot load the tokenizer or warns about it.
    """
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        opened = open_fast(engine, loaded, plain=plain, threads=threads)
    if warned:
        raise NotOfferedError(f"warns about the tokenizer: {warned[0].message}")
    return opened
