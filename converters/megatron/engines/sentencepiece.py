"""sentencepiece itself: the reference for every `.model`; the ids are those of `encode(text)`."""

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from ingot.converters.errors import ConversionError
from ingot.converters.megatron.engines.engine import Encoded
from ingot.converters.megatron.engines.results import RefusedError, bisected, from_rows
from ingot.converters.megatron.tokenizer import TokenizerFile

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor

# Without a pool of threads a text is encoded in the caller's thread.
_ALONE: Final = 1


def open_sentencepiece(loaded: TokenizerFile, *, threads: int = 1) -> "SentencePiece":
    """The reference engine of a `.model`.

    Raises:
        ConversionError: the library cannot load it.
    """
    from sentencepiece import SentencePieceProcessor

    try:
        processor = SentencePieceProcessor(model_proto=loaded.data)
    except (RuntimeError, ValueError, OSError) as error:
        raise ConversionError(
            loaded.given, f"not a SentencePiece model: {error}", "give a SentencePiece .model"
        ) from error
    return SentencePiece(processor, threads)


class SentencePiece:
    """The engine; `open_sentencepiece` makes it."""

    name = "sentencepiece"

    def __init__(self, processor: "SentencePieceProcessor", threads: int) -> None:
        self._processor = processor
        self._threads = threads

    def encode(self, texts: pa.LargeStringArray) -> Encoded:
        """Encode texts; a text that the library refuses is listed as failed."""
        return bisected(texts, self._call)

    def _call(self, texts: pa.LargeStringArray) -> Encoded:
        values = texts.to_pylist()
        try:
            if self._threads == _ALONE:
                rows = [self._processor.encode(value) for value in values]
            else:
                rows = self._processor.encode(values, num_threads=self._threads)
        except Exception as error:  # the library raises nothing more precise
            raise RefusedError(str(error)) from error
        return from_rows([np.array(row, np.uint32) for row in rows])
