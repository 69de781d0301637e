"""gigatoken: reads the buffers of Arrow as they are, gives arrays.

Its cache of words grows without bound (`memory.py` drops the instance); an instance belongs to
one thread, `parallel` spreads a batch over the library's own threads.
"""

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ingot.converters.megatron.engines.engine import (
    Encoded,
    RefusedCallError,
    byte_offsets,
    encode_by_halves,
    texts_buffer,
)
from ingot.converters.megatron.tokenizer.libraries import (
    PanickedError,
    UnloadableError,
    catch_panics,
)
from ingot.converters.megatron.tokenizer.tokenizer import TokenizerFile

if TYPE_CHECKING:
    import awkward
    from gigatoken import Tokenizer


def open_gigatoken(loaded: TokenizerFile, *, plain: bool, threads: int) -> "GigaToken":
    """The engine for one thread; it does not know `plain` (texts with special tokens: routing)."""
    import awkward  # noqa: F401  the library needs it for its results and imports it late
    from gigatoken import Tokenizer

    try:
        with catch_panics():
            if loaded.kind == "sentencepiece":
                tokenizer = Tokenizer.from_sentencepiece(loaded.data)
            else:
                tokenizer = Tokenizer.from_json(loaded.data)
    except Exception as error:  # the library raises nothing more precise
        raise UnloadableError(str(error)) from error
    return GigaToken(tokenizer, threads)


class GigaToken:
    """The engine; `open_gigatoken` makes it."""

    name = "gigatoken"

    def __init__(self, tokenizer: "Tokenizer", threads: int) -> None:
        self._tokenizer = tokenizer
        self._parallel = threads > 1

    def encode(self, texts: pa.LargeStringArray) -> Encoded:
        """Encode texts; a text that the library refuses or panics on is listed as failed."""
        return encode_by_halves(texts, self._call)

    def _call(self, texts: pa.LargeStringArray) -> Encoded:
        try:
            with catch_panics():
                rows = self._tokenizer.encode_batch(_library_array(texts), parallel=self._parallel)
        except PanickedError as error:
            raise RefusedCallError(str(error)) from error
        except Exception as error:  # the library raises nothing more precise
            raise RefusedCallError(str(error)) from error
        bounds = np.asarray(rows.layout.offsets.data, np.int64)
        ids = np.asarray(rows.layout.content.data, np.uint32)
        return Encoded(ids=ids[bounds[0] : bounds[-1]], lengths=np.diff(bounds))


def _library_array(texts: pa.LargeStringArray) -> "awkward.Array":
    """The texts as the library takes them, on the same buffers."""
    from awkward import Array
    from awkward.contents import ListOffsetArray, NumpyArray
    from awkward.index import Index64

    starts = byte_offsets(texts)
    characters = NumpyArray(texts_buffer(texts), parameters={"__array__": "char"})
    return Array(
        ListOffsetArray(Index64(starts - starts[0]), characters, parameters={"__array__": "string"})
    )
