"""Hugging Face `tokenizers`: the reference for every `tokenizer.json`.

The ids are those of `encode_batch_fast(add_special_tokens=False)`. The library reads two
environment variables: TOKENIZERS_PARALLELISM at every call, RAYON_NUM_THREADS when its pool of
threads is first needed. Threads of a process share one tokenizer: it is of some hundred MB for a
large vocabulary, and calls do not wait for each other.
"""

import os
import threading
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa

from ingot.converters.megatron.engines.engine import Encoded
from ingot.converters.megatron.engines.panics import PanickedError, panics_caught
from ingot.converters.megatron.engines.results import (
    RefusedError,
    bisected,
    from_rows,
    joined,
    runs,
)
from ingot.converters.megatron.loading import huggingface
from ingot.converters.megatron.tokenizer import TokenizerFile

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# Bytes of text in one call: what the library returns for them takes some forty times as much.
_RUN: Final = 1 << 20


class _Library:
    """The library's object, made again after a panic: that leaves locks behind it unusable."""

    def __init__(self, loaded: TokenizerFile, plain: bool) -> None:
        self._loaded = loaded
        self._plain = plain
        self.tokenizer = self._made() if plain else huggingface(loaded.data)

    def renew(self) -> None:
        """Make the object again."""
        self.tokenizer = self._made()

    def _made(self) -> "Tokenizer":
        tokenizer = huggingface.__wrapped__(self._loaded.data)
        tokenizer.encode_special_tokens = self._plain
        return tokenizer


_OPEN: Final[WeakValueDictionary[tuple[str, bool], _Library]] = WeakValueDictionary()
_OPENING: Final = threading.Lock()


def open_huggingface(
    loaded: TokenizerFile, *, plain: bool = False, threads: int = 1
) -> "HuggingFace":
    """The reference engine of a `tokenizer.json`.

    Args:
        loaded: the tokenizer.
        plain: the texts of special tokens are split like other text.
        threads: 1 encodes in the calling thread; more uses the library's own threads. It holds
            for the process: the call made last decides.

    Raises:
        UnloadableError: the library cannot load it.
    """
    if threads > 1:
        os.environ.setdefault("RAYON_NUM_THREADS", str(threads))
    wanted = "true" if threads > 1 else "false"
    if os.environ.get("TOKENIZERS_PARALLELISM") != wanted:
        os.environ["TOKENIZERS_PARALLELISM"] = wanted
    with _OPENING:
        library = _OPEN.get((loaded.sha256, plain))
        if library is None:
            library = _OPEN[loaded.sha256, plain] = _Library(loaded, plain)
    return HuggingFace(library)


class HuggingFace:
    """The engine; `open_huggingface` makes it."""

    name = "hf"

    def __init__(self, library: _Library) -> None:
        self._library = library

    def encode(self, texts: pa.LargeStringArray) -> Encoded:
        """Encode texts; a text that the library refuses or panics on is listed as failed."""
        return joined([bisected(run, self._call) for run in runs(texts, _RUN)])

    def _call(self, texts: pa.LargeStringArray) -> Encoded:
        try:
            with panics_caught():
                encodings = self._library.tokenizer.encode_batch_fast(
                    texts.to_pylist(), add_special_tokens=False
                )
        except PanickedError as error:
            self._library.renew()
            raise RefusedError(str(error)) from error
        except Exception as error:  # the library raises nothing more precise
            raise RefusedError(str(error)) from error
        return from_rows([np.array(encoding.ids, np.uint32) for encoding in encodings])
