"""Which tokens are trained on: the spans of characters of a rendered chat, as one byte per id.

A token is trained on if it holds a character of a trained span, or a byte of one. A token that
holds nothing of the text (a space that a tokenizer puts before it) is trained on if a span covers
the place where it stands.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from ingot.converters.errors import ConversionError
from ingot.converters.megatron.chats.render import Span
from ingot.converters.megatron.chats.token_bytes import Places, token_bytes
from ingot.converters.megatron.engines.engine import Encoded, EngineWrongError, Ids
from ingot.converters.megatron.engines.panics import panics_caught
from ingot.converters.megatron.loading import huggingface, sentencepiece

if TYPE_CHECKING:
    from ingot.converters.megatron.tokenizer import TokenizerFile

Mask: TypeAlias = npt.NDArray[np.uint8]
_Library: TypeAlias = Any  # a tokenizers.Tokenizer or a SentencePieceProcessor
_Edges: TypeAlias = list[tuple[int, int]]
_SHOWN: Final = 80  # characters of a text in an error


class Masker:
    """Makes loss masks for one tokenizer; an instance belongs to one thread."""

    def __init__(self, loaded: "TokenizerFile", *, plain: bool = False) -> None:
        """Read the tokens.

        Args:
            loaded: the tokenizer.
            plain: the texts of special tokens were split like other text.
        """
        self._loaded = loaded
        self._plain = plain
        self._bytes = token_bytes(loaded)
        self._library: _Library = None  # made when a text needs it

    def mask(
        self,
        texts: Sequence[str],
        spans: Sequence[Sequence[Span]],
        encoded: Encoded,
        *,
        engine: str = "the engine",
    ) -> Mask:
        """One byte per id of `encoded`, 1 = trained on.

        Args:
            texts: what was encoded.
            spans: of each text; parts of one that lie outside it, and untrained ones, do not count.
            encoded: the ids, without any that were put around a text.
            engine: who encoded them, for the error.

        Raises:
            EngineWrongError: the ids are not those of the text.
            ConversionError: the library cannot say where the tokens of a text stand.
        """
        mask = np.zeros(len(encoded.ids), np.uint8)
        bounds = pairwise([0, *np.cumsum(encoded.lengths).tolist()])
        for text, own, (first, last) in zip(texts, spans, bounds, strict=True):
            edges = _edges(own, len(text))
            if edges and first < last:
                mask[first:last] = self._one(text, edges, encoded.ids[first:last], engine)
        return mask

    def _one(self, text: str, edges: _Edges, ids: Ids, engine: str) -> Mask:
        data = text.encode()
        places = self._bytes.places(ids, data)
        if places is not None:
            return _covered(*places, edges if len(data) == len(text) else _in_bytes(text, edges))
        found, starts, ends = self._ask(text)
        if not np.array_equal(found, ids):
            raise EngineWrongError(engine, text[:_SHOWN])
        return _covered(starts, ends, edges)

    def _ask(self, text: str) -> tuple[Ids, Places, Places]:
        """Ids of a text from its own library, and the characters where they begin and end."""
        if self._library is None:
            self._library = self._opened()
        try:
            ids, offsets = self._called(text)
        except Exception as error:  # the libraries raise nothing more precise
            raise self._refused(text, error) from error
        table = np.array(offsets, np.int64).reshape(-1, 2)
        return np.array(ids, np.uint32), table[:, 0], table[:, 1]

    def _refused(self, text: str, error: BaseException) -> ConversionError:
        return ConversionError(
            str(self._loaded.path),
            f"cannot say where the tokens of {text[:_SHOWN]!r} stand: {error}",
            "build without loss masks, or report it",
        )

    def _called(self, text: str) -> tuple[Sequence[int], Iterable[tuple[int, int]]]:
        if self._loaded.kind == "sentencepiece":
            found = self._library.encode(text, return_type="offset_mapping")
            return found["ids"], found["offsets"]
        with panics_caught():
            encoding = self._library.encode(text, add_special_tokens=False)
        return encoding.ids, encoding.offsets

    def _opened(self) -> _Library:
        if self._loaded.kind == "sentencepiece":
            return sentencepiece(self._loaded.data)
        tokenizer = huggingface.__wrapped__(self._loaded.data)  # its own: it is changed here
        tokenizer.encode_special_tokens = self._plain
        tokenizer.post_processor = None  # it may cut white space off the places
        return tokenizer


def _edges(spans: Sequence[Span], length: int) -> _Edges:
    """The trained characters of a text, from where to where."""
    cut = ((max(one.start, 0), min(one.end, length)) for one in spans if one.trained)
    return [(start, end) for start, end in cut if start < end]


def _in_bytes(text: str, edges: _Edges) -> _Edges:
    """The same places in UTF-8 bytes; each stretch of the text is measured once."""
    wanted = sorted({place for edge in edges for place in edge})
    sizes = [len(text[first:last].encode()) for first, last in pairwise([0, *wanted])]
    at = dict(zip(wanted, np.cumsum(sizes).tolist(), strict=True))
    return [(at[start], at[end]) for start, end in edges]


def _covered(starts: Places, ends: Places, edges: _Edges) -> Mask:
    """Which tokens hold a place between edges; one without width stands for the place behind it."""
    reached = np.maximum(ends, starts + 1)
    mask = np.zeros(len(starts), np.uint8)
    for first, last in edges:
        mask[(starts < last) & (reached > first)] = 1
    return mask
