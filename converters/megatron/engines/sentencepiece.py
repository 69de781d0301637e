"""sentencepiece itself: the reference for every `.model`; the ids are those of `encode(text)`."""

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ingot.converters.megatron.engines.engine import Encoded
from ingot.converters.megatron.engines.results import (
    RefusedError,
    bisected,
    from_rows,
    joined,
    runs,
)
from ingot.converters.megatron.loading import sentencepiece
from ingot.converters.megatron.tokenizer import TokenizerFile

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor

# Bytes of text in one call, which returns a Python number per token.
_RUN = 1 << 20


def open_sentencepiece(loaded: TokenizerFile, *, threads: int = 1) -> "SentencePiece":
    """The reference engine of a `.model`; with 1 thread a text is encoded in the calling one."""
    return SentencePiece(sentencepiece(loaded.data), threads)


class SentencePiece:
    """The engine; `open_sentencepiece` makes it."""

    name = "sentencepiece"

    def __init__(self, processor: "SentencePieceProcessor", threads: int) -> None:
        self._processor = processor
        self._threads = threads

    def encode(self, texts: pa.LargeStringArray) -> Encoded:
        """Encode texts; a text that the library refuses is listed as failed."""
        return joined([bisected(run, self._call) for run in runs(texts, _RUN)])

    def _call(self, texts: pa.LargeStringArray) -> Encoded:
        values = texts.to_pylist()
        try:
            if self._threads == 1:
                rows = [self._processor.encode(value) for value in values]
            else:
                rows = self._processor.encode(values, num_threads=self._threads)
        except Exception as error:  # the library raises nothing more precise
            raise RefusedError(str(error)) from error
        return from_rows([np.array(row, np.uint32) for row in rows])
