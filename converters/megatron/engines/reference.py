"""Hugging Face `tokenizers`: the reference for every `tokenizer.json`.

The ids are those of `encode_batch_fast(add_special_tokens=False)`. The library reads two
environment variables: TOKENIZERS_PARALLELISM at every call, RAYON_NUM_THREADS when its pool of
threads is first needed. Threads of a process share one tokenizer: it is of some hundred MB for a
large vocabulary, and calls do not wait for each other.

sentencepiece itself: the reference for every `.model`; the ids are those of `encode(text)`.
The reference: the engine whose ids are right by definition.
"""

import os
import threading
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa

from ingot.converters.megatron.engines.engine import (
    Encoded,
    Engine,
    RefusedCallError,
    encode_by_halves,
    join_results,
    join_rows,
    text_runs,
)
from ingot.converters.megatron.tokenizer.libraries import (
    PanickedError,
    catch_panics,
    load_huggingface,
    load_sentencepiece,
)
from ingot.converters.megatron.tokenizer.tokenizer import TokenizerFile

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor
    from tokenizers import Tokenizer

# Bytes of text in one call: what the library returns for them takes some forty times as much.
_RUN_BYTES: Final = 1 << 20


class _Library:
    """The library's object, made again after a panic: that leaves locks behind it unusable."""

    def __init__(self, loaded: TokenizerFile, plain: bool) -> None:
        self._loaded = loaded
        self._plain = plain
        self.tokenizer = self._made() if plain else load_huggingface(loaded.data)

    def renew(self) -> None:
        """Make the object again."""
        self.tokenizer = self._made()

    def _made(self) -> "Tokenizer":
        tokenizer = load_huggingface.__wrapped__(self._loaded.data)
        tokenizer.encode_special_tokens = self._plain
        return tokenizer


_OPEN: Final[WeakValueDictionary[tuple[str, bool], _Library]] = WeakValueDictionary()
_OPENING: Final = threading.Lock()


def open_huggingface(
    loaded: TokenizerFile, *, plain: bool = False, threads: int = 1
) -> "HuggingFace":
    """The reference engine of a `tokenizer.json`."""
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
        return join_results(
            [encode_by_halves(run, self._call) for run in text_runs(texts, _RUN_BYTES)]
        )

    def _call(self, texts: pa.LargeStringArray) -> Encoded:
        try:
            with catch_panics():
                encodings = self._library.tokenizer.encode_batch_fast(
                    texts.to_pylist(), add_special_tokens=False
                )
        except PanickedError as error:
            self._library.renew()
            raise RefusedCallError(str(error)) from error
        except Exception as error:  # the library raises nothing more precise
            raise RefusedCallError(str(error)) from error
        return join_rows([np.array(encoding.ids, np.uint32) for encoding in encodings])


# Bytes of text in one call, which returns a Python number per token.
_SENTENCEPIECE_RUN_BYTES = 1 << 20


def open_sentencepiece(loaded: TokenizerFile, *, threads: int = 1) -> "SentencePiece":
    """The reference engine of a `.model`; with 1 thread a text is encoded in the calling one."""
    return SentencePiece(load_sentencepiece(loaded.data), threads)


class SentencePiece:
    """The engine; `open_sentencepiece` makes it."""

    name = "sentencepiece"

    def __init__(self, processor: "SentencePieceProcessor", threads: int) -> None:
        self._processor = processor
        self._threads = threads

    def encode(self, texts: pa.LargeStringArray) -> Encoded:
        """Encode texts; a text that the library refuses is listed as failed."""
        return join_results(
            [
                encode_by_halves(run, self._call)
                for run in text_runs(texts, _SENTENCEPIECE_RUN_BYTES)
            ]
        )

    def _call(self, texts: pa.LargeStringArray) -> Encoded:
        values = texts.to_pylist()
        try:
            if self._threads == 1:
                rows = [self._processor.encode(value) for value in values]
            else:
                rows = self._processor.encode(values, num_threads=self._threads)
        except Exception as error:  # the library raises nothing more precise
            raise RefusedCallError(str(error)) from error
        return join_rows([np.array(row, np.uint32) for row in rows])


def open_reference(loaded: TokenizerFile, *, plain: bool = False, threads: int = 1) -> Engine:
    """Hugging Face `tokenizers` for a `tokenizer.json`, sentencepiece itself for a `.model`."""
    if loaded.kind == "sentencepiece":
        return open_sentencepiece(loaded, threads=threads)
    return open_huggingface(loaded, plain=plain, threads=threads)
