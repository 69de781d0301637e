"""Make loss masks: one byte per id, by the spans of characters of a rendered chat.

Ids whose bytes, one after another, are the very bytes of their text show where each of them stands
in it, whatever the tokenizer does inside. That always holds for byte-level BPE, and mostly for
tokenizers that write `▁` for a space; for others the library is asked.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from ingot.converters.errors import ConversionError
from ingot.converters.megatron.chat.rendering import TextSpan
from ingot.converters.megatron.engines.engine import Encoded, EngineWrongError, Ids
from ingot.converters.megatron.tokenizer_files import (
    catch_panics,
    load_huggingface,
    load_sentencepiece,
)

if TYPE_CHECKING:
    from ingot.converters.megatron.tokenizer import TokenizerFile

TokenPlaces = npt.NDArray[np.int64]
_UNKNOWN: Final = -1
_SPACE: Final = "▁"


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenBytes:
    """Bytes by id."""

    flat: npt.NDArray[np.uint8]  # uint8, the bytes of all tokens, one after another
    starts: TokenPlaces  # int64, where those of an id begin
    sizes: TokenPlaces  # int64, how many they are; -1 = not known, or none

    def places(self, ids: Ids, data: bytes) -> tuple[TokenPlaces, TokenPlaces] | None:
        """Where tokens begin and end in the bytes of their text.

        A space that the tokenizer put before the text has no width there.
        """
        if not len(ids) or int(ids.max()) >= len(self.sizes):
            return None
        sizes = self.sizes[ids]
        if int(sizes.min()) == _UNKNOWN:
            return None
        ends = np.cumsum(sizes)
        added = int(ends[-1]) - len(data)
        if added not in (0, 1) or self._text(ids, sizes, ends) != b" " * added + data:
            return None
        return np.maximum(ends - sizes - added, 0), ends - added

    def _text(self, ids: Ids, sizes: TokenPlaces, ends: TokenPlaces) -> bytes:
        offsets = np.repeat(self.starts[ids] - (ends - sizes), sizes)
        return self.flat[offsets + np.arange(len(offsets))].tobytes()


def read_token_bytes(loaded: "TokenizerFile") -> TokenBytes:
    """The table of a tokenizer."""
    tokens = (
        _huggingface_bytes(loaded) if loaded.kind == "huggingface" else _sentencepiece_bytes(loaded)
    )
    known = {number: data for number, data in tokens if data}
    sizes = np.full(loaded.largest_id + 1, _UNKNOWN, np.int64)
    starts = np.zeros(loaded.largest_id + 1, np.int64)
    done = 0
    for number, data in known.items():
        sizes[number], starts[number] = len(data), done
        done += len(data)
    return TokenBytes(
        flat=np.frombuffer(b"".join(known.values()), np.uint8), starts=starts, sizes=sizes
    )


def _huggingface_bytes(loaded: "TokenizerFile") -> Iterable[tuple[int, bytes | None]]:
    tokenizer = load_huggingface(loaded.data)
    letters = _byte_letters() if b'"ByteLevel"' in loaded.data else None
    for text, number in tokenizer.get_vocab(with_added_tokens=True).items():
        yield number, _spelling_bytes(text, letters) if letters else _piece_bytes(text)
    for number, token in tokenizer.get_added_tokens_decoder().items():
        yield number, token.content.encode()


def _sentencepiece_bytes(loaded: "TokenizerFile") -> Iterable[tuple[int, bytes | None]]:
    processor = load_sentencepiece(loaded.data)
    for number in range(processor.get_piece_size()):
        if not (processor.is_unknown(number) or processor.is_control(number)):
            yield number, _piece_bytes(processor.id_to_piece(number))


def _byte_letters() -> dict[str, int]:
    """The letters that byte-level BPE writes for bytes: itself if printable, else from 256 on."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {chr(byte): byte for byte in shown} | {
        chr(256 + place): byte for place, byte in enumerate(hidden)
    }


def _spelling_bytes(text: str, letters: dict[str, int]) -> bytes | None:
    try:
        return bytes(letters[letter] for letter in text)
    except KeyError:
        return None


def _piece_bytes(text: str) -> bytes:
    if len(text) == 6 and text.startswith("<0x") and text.endswith(">"):
        try:
            return bytes([int(text[3:5], 16)])
        except ValueError:
            pass  # no byte, a token that looks like one
    return text.replace(_SPACE, " ").encode()


LossMask: TypeAlias = npt.NDArray[np.uint8]
_Library: TypeAlias = Any  # a tokenizers.Tokenizer or a SentencePieceProcessor
_TrainedEdges: TypeAlias = list[tuple[int, int]]
_SHOWN: Final = 80  # characters of a text in an error


class LossMasker:
    """Makes loss masks for one tokenizer; an instance belongs to one thread."""

    def __init__(self, loaded: "TokenizerFile", *, plain: bool = False) -> None:
        """Read the tokens."""
        self._loaded = loaded
        self._plain = plain
        self._bytes = read_token_bytes(loaded)
        self._library: _Library = None  # made when a text needs it

    def mask(
        self,
        texts: Sequence[str],
        spans: Sequence[Sequence[TextSpan]],
        encoded: Encoded,
        *,
        engine: str = "the engine",
    ) -> LossMask:
        """One byte per id of `encoded`, 1 = trained on."""
        mask = np.zeros(len(encoded.ids), np.uint8)
        bounds = pairwise([0, *np.cumsum(encoded.lengths).tolist()])
        for text, own, (first, last) in zip(texts, spans, bounds, strict=True):
            edges = _span_edges(own, len(text))
            if edges and first < last:
                mask[first:last] = self._mask_text(text, edges, encoded.ids[first:last], engine)
        return mask

    def _mask_text(self, text: str, edges: _TrainedEdges, ids: Ids, engine: str) -> LossMask:
        data = text.encode()
        # A SentencePiece model may drop a space that begins a text, and put its own in the place.
        is_plain = self._loaded.kind == "huggingface" or not text.startswith(" ")
        places = self._bytes.places(ids, data) if is_plain else None
        if places is not None:
            return _mask_covered(
                *places, edges if len(data) == len(text) else _byte_edges(text, edges)
            )
        found, starts, ends = self._locate_tokens(text)
        if not np.array_equal(found, ids):
            raise EngineWrongError(engine, text[:_SHOWN])
        return _mask_covered(starts, ends, edges)

    def _locate_tokens(self, text: str) -> tuple[Ids, TokenPlaces, TokenPlaces]:
        """Ids of a text from its own library, and the characters where they begin and end."""
        if self._library is None:
            self._library = self._opened()
        try:
            ids, offsets = self._call_library(text)
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

    def _call_library(self, text: str) -> tuple[Sequence[int], Iterable[tuple[int, int]]]:
        if self._loaded.kind == "sentencepiece":
            found = self._library.encode(text, return_type="offset_mapping")
            return found["ids"], found["offsets"]
        with catch_panics():
            encoding = self._library.encode(text, add_special_tokens=False)
        return encoding.ids, encoding.offsets

    def _opened(self) -> _Library:
        if self._loaded.kind == "sentencepiece":
            return load_sentencepiece(self._loaded.data)
        tokenizer = load_huggingface.__wrapped__(self._loaded.data)  # its own: it is changed here
        tokenizer.encode_special_tokens = self._plain
        tokenizer.post_processor = None  # it may cut white space off the places
        return tokenizer


def _span_edges(spans: Sequence[TextSpan], length: int) -> _TrainedEdges:
    """The trained characters of a text, from where to where."""
    cut = ((max(one.start, 0), min(one.end, length)) for one in spans if one.trained)
    return [(start, end) for start, end in cut if start < end]


def _byte_edges(text: str, edges: _TrainedEdges) -> _TrainedEdges:
    """The same places in UTF-8 bytes; each stretch of the text is measured once."""
    wanted = sorted({place for edge in edges for place in edge})
    sizes = [len(text[first:last].encode()) for first, last in pairwise([0, *wanted])]
    at = dict(zip(wanted, np.cumsum(sizes).tolist(), strict=True))
    return [(at[start], at[end]) for start, end in edges]


def _mask_covered(starts: TokenPlaces, ends: TokenPlaces, edges: _TrainedEdges) -> LossMask:
    """Which tokens hold a place between edges; one without width stands for the place behind it."""
    reached = np.maximum(ends, starts + 1)
    mask = np.zeros(len(starts), np.uint8)
    for first, last in edges:
        mask[(starts < last) & (reached > first)] = 1
    return mask
