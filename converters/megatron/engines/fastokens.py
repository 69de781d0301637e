"""fastokens: takes Python strings, gives two flat buffers; it has a `plain` of its own.

Its caches stop growing at some hundred MB. FASTOKENS_BPE_THREADS is read when it is loaded: with 1
a batch is encoded in the calling thread.
"""

import os
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ingot.converters.megatron.engines.engine import Encoded, RefusedCallError, encode_by_halves
from ingot.converters.megatron.tokenizer.libraries import (
    PanickedError,
    UnloadableError,
    catch_panics,
)
from ingot.converters.megatron.tokenizer.tokenizer import TokenizerFile

if TYPE_CHECKING:
    from fastokens import Tokenizer


def open_fastokens(loaded: TokenizerFile, *, plain: bool, threads: int) -> "FasTokens":
    """The engine for one thread."""
    os.environ["FASTOKENS_BPE_THREADS"] = str(threads)
    from fastokens import Tokenizer

    if loaded.kind == "sentencepiece":
        raise UnloadableError("it reads no SentencePiece models")
    try:
        with catch_panics():
            tokenizer = Tokenizer.from_json_str(loaded.data.decode())
            tokenizer.no_truncation()
            tokenizer.no_padding()
    except Exception as error:  # the library raises nothing more precise
        raise UnloadableError(str(error)) from error
    return FasTokens(tokenizer, plain)


class FasTokens:
    """The engine; `open_fastokens` makes it."""

    name = "fastokens"

    def __init__(self, tokenizer: "Tokenizer", plain: bool) -> None:
        self._tokenizer = tokenizer
        self._plain = plain

    def encode(self, texts: pa.LargeStringArray) -> Encoded:
        """Encode texts; a text that the library refuses or panics on is listed as failed."""
        return encode_by_halves(texts, self._call)

    def _call(self, texts: pa.LargeStringArray) -> Encoded:
        try:
            with catch_panics():
                ids, bounds = self._tokenizer.encode_batch_flat(
                    texts.to_pylist(), split_special_tokens=self._plain
                )
        except PanickedError as error:
            raise RefusedCallError(str(error)) from error
        except Exception as error:  # the library raises nothing more precise
            raise RefusedCallError(str(error)) from error
        starts = np.frombuffer(bounds, np.int64)
        return Encoded(ids=np.frombuffer(ids, np.uint32), lengths=starts[1:] - starts[:-1])
