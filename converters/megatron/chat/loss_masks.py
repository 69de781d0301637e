"""Make loss masks: one byte per id, by the spans of characters of a rendered chat.

Ids whose bytes, one after another, are the very bytes of their text show where each of them stands
in it, whatever the tokenizer does inside. That always holds for byte-level BPE, and mostly for
tokenizers that write `▁` for a space; for others the library is asked.
"""

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingot.converters.errors import ConversionError, catch_panics
from ingot.converters.megatron.chat.rendering import TextSpan
from ingot.converters.megatron.engines.engine import (
    FIRST_BYTE,
    Encoded,
    EngineWrongError,
    Ids,
    byte_offsets,
    id_offsets,
    texts_buffer,
)
from ingot.converters.megatron.tokenizer_files import load_huggingface, load_sentencepiece

if TYPE_CHECKING:
    from ingot.converters.megatron.tokenizer import TokenizerFile

TokenPlaces = npt.NDArray[np.int64]
_Flags: TypeAlias = npt.NDArray[np.bool_]
_SPACE: Final = "▁"


class TrainedSpans(NamedTuple):
    """What is trained on of some texts: for each span its text, and where it begins and ends."""

    owners: TokenPlaces
    starts: TokenPlaces
    ends: TokenPlaces
    closing: _Flags  # per text, whether only white space follows its last span

    @classmethod
    def of_texts(cls, texts: Sequence[str], spans: Sequence[Sequence[TextSpan]]) -> "TrainedSpans":
        """Return the spans of each text that are trained on."""
        trained = [[one for one in text_spans if one.trained] for text_spans in spans]
        flat = [
            (number, one.start, one.end)
            for number, text_spans in enumerate(trained)
            for one in text_spans
        ]
        last = (max((one.end for one in text_spans), default=None) for text_spans in trained)
        pairs = zip(texts, last, strict=True)
        closing = [end is not None and not text[end:].strip() for text, end in pairs]
        owners, starts, stops = np.array(flat, np.int64).reshape(-1, 3).T
        return cls(owners, starts, stops, np.array(closing, np.bool_))

    def slice(self, begin: int, end: int) -> "TrainedSpans":
        """Return the spans of the texts from `begin` to `end`."""
        selected = slice(*np.searchsorted(self.owners, (begin, end)))
        closing = self.closing[begin:end]
        return TrainedSpans(
            self.owners[selected] - begin, self.starts[selected], self.ends[selected], closing
        )

    def of_text(self, number: int) -> tuple[TextSpan, ...]:
        """Return the spans of one text."""
        spans = self.slice(number, number + 1)
        pairs = zip(spans.starts.tolist(), spans.ends.tolist(), strict=True)
        return tuple(TextSpan(start, end, True) for start, end in pairs)


@dataclass(frozen=True, kw_only=True, slots=True, weakref_slot=True)
class TokenBytes:
    """Bytes by id, the last for larger ids; empty where they are not known or there are none."""

    spellings: pa.LargeBinaryArray

    def place(
        self, texts: pa.LargeStringArray, encoded: Encoded
    ) -> tuple[TokenPlaces, TokenPlaces, _Flags]:
        """Return where tokens begin and end in the bytes of all texts, and whether that is sure.

        Certainty is given per text. A space that was put before a text has no width; both kinds of
        positions never fall.
        """
        borders, firsts = byte_offsets(texts) - byte_offsets(texts)[0], id_offsets(encoded.lengths)
        spellings = self.spellings.take(pa.array(np.minimum(encoded.ids, len(self.spellings) - 1)))
        expected, token_ends = texts_buffer(texts), byte_offsets(spellings)
        added = np.diff(token_ends[firsts]) - np.diff(borders)
        exact = (added == 0) | (added == 1)
        unknown = np.flatnonzero(token_ends[1:] == token_ends[:-1])
        exact[np.searchsorted(firsts, unknown, side="right") - 1] = False
        if not exact.all():
            expected = expected[np.repeat(exact, np.diff(borders))]
            in_exact = np.repeat(exact, encoded.lengths)
            spellings = spellings.filter(pa.array(in_exact))
            token_ends = id_offsets(np.where(in_exact, np.diff(token_ends), 0))
            added[~exact] = 0
        begins = id_offsets(np.where(exact, np.diff(borders) + added, 0))
        spaced = begins[:-1][added > 0]
        if len(spaced):
            expected = np.insert(expected, spaced - np.arange(len(spaced)), ord(" "))
        wrong = np.flatnonzero(texts_buffer(spellings) != expected)
        exact[np.searchsorted(begins, wrong, side="right") - 1] = False
        shift = borders[:-1] - begins[:-1] - added
        if not shift.any():
            return token_ends[:-1], token_ends[1:], exact
        stops = token_ends[1:] + np.repeat(shift, encoded.lengths)
        starts = np.maximum(stops - np.diff(token_ends), np.repeat(borders[:-1], encoded.lengths))
        return starts, stops, exact


def read_token_bytes(loaded: "TokenizerFile") -> TokenBytes:
    """Return the table of the bytes of each token of a tokenizer."""
    tokens = (
        _huggingface_bytes(loaded) if loaded.kind == "huggingface" else _sentencepiece_bytes(loaded)
    )
    spellings = [b""] * (loaded.largest_id + 2)
    for number, data in tokens:
        spellings[number] = data or spellings[number]
    return TokenBytes(spellings=pa.array(spellings, pa.large_binary()))


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
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {
        chr(256 + number): byte for number, byte in enumerate(hidden)
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
_SHOWN: Final = 80  # characters of a text in an error
_READ: Final[WeakValueDictionary[str, TokenBytes]] = WeakValueDictionary()
_READING: Final = threading.Lock()


class LossMasker:
    """Makes loss masks for one tokenizer; an instance belongs to one thread."""

    def __init__(self, loaded: "TokenizerFile", *, plain: bool = False) -> None:
        """Read the tokens."""
        self._loaded = loaded
        self._plain = plain
        with _READING:
            self._bytes = _READ.get(loaded.sha256) or read_token_bytes(loaded)
            _READ[loaded.sha256] = self._bytes
        self._library: _Library = None  # made when a text needs it

    def mask(
        self,
        texts: pa.LargeStringArray,
        spans: TrainedSpans,
        encoded: Encoded,
        *,
        engine: str = "the engine",
    ) -> LossMask:
        """Return one byte per id of `encoded`, 1 = trained on."""
        mask = np.zeros(len(encoded.ids), np.uint8)
        owners = spans.owners
        if not len(owners) or not len(mask):
            return mask
        first, last = _to_byte_offsets(texts, owners, np.stack([spans.starts, spans.ends]))
        starts, ends, exact = self._bytes.place(texts, encoded)
        if self._loaded.kind == "sentencepiece":
            # A model may drop a space that begins a text, and put its own in the place.
            exact &= ~pc.starts_with(texts, " ").to_numpy(zero_copy_only=False)
        firsts, is_exact, nonempty = id_offsets(encoded.lengths), exact[owners], first < last
        # A token without width stands for the place behind it.
        first_tokens = np.searchsorted(np.maximum(ends, starts + 1), first, side="right")
        first_tokens = np.maximum(first_tokens, firsts[owners])[nonempty & is_exact]
        last_tokens = np.minimum(np.searchsorted(starts, last), firsts[owners + 1])[
            nonempty & is_exact
        ]
        for start, stop in zip(first_tokens.tolist(), last_tokens.tolist(), strict=True):
            mask[start:stop] = 1
        for number in np.unique(
            owners[nonempty & ~is_exact & (encoded.lengths[owners] > 0)]
        ).tolist():
            id_range = slice(firsts[number], firsts[number + 1])
            text, own_spans = texts[number].as_py(), spans.of_text(number)
            mask[id_range] = self._mask_text(text, own_spans, encoded.ids[id_range], engine)
        return mask

    def _mask_text(self, text: str, spans: Sequence[TextSpan], ids: Ids, engine: str) -> LossMask:
        found_ids, starts, ends = self._locate_tokens(text)
        if not np.array_equal(found_ids, ids):
            raise EngineWrongError(engine, text[:_SHOWN])
        within = [one for one in spans if max(one.start, 0) < min(one.end, len(text))]
        # A token is trained on if more spans begin before its end than are over before it begins.
        span_starts = np.sort(np.array([one.start for one in within], np.int64))
        span_ends = np.sort(np.array([one.end for one in within], np.int64))
        begun_before = np.searchsorted(span_starts, np.maximum(ends, starts + 1), side="left")
        over_before = np.searchsorted(span_ends, starts, side="right")
        mask: LossMask = (begun_before > over_before).astype(np.uint8)
        return mask

    def _locate_tokens(self, text: str) -> tuple[Ids, TokenPlaces, TokenPlaces]:
        """Ids of a text from its own library, and the characters where they begin and end."""
        if self._library is None:
            self._library = self._opened()
        try:
            ids, offsets = self._call_library(text)
        except Exception as error:  # the libraries raise nothing more precise
            problem = f"cannot say where the tokens of {text[:_SHOWN]!r} stand: {error}"
            hint = "build without loss masks, or report it"
            raise ConversionError(str(self._loaded.path), problem, hint) from error
        table = np.array(offsets, np.int64).reshape(-1, 2)
        return np.array(ids, np.uint32), table[:, 0], table[:, 1]

    def _call_library(self, text: str) -> tuple[Sequence[int], Iterable[tuple[int, int]]]:
        if self._loaded.kind == "sentencepiece":
            output = self._library.encode(text, return_type="offset_mapping")
            return output["ids"], output["offsets"]
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


def _to_byte_offsets(
    texts: pa.LargeStringArray, owners: TokenPlaces, positions: TokenPlaces
) -> TokenPlaces:
    """Places in characters of texts as bytes of all of them, within the text that owns each."""
    data = texts_buffer(texts)
    char_starts = np.append(np.flatnonzero(data.view(np.int8) >= FIRST_BYTE), len(data))
    before = np.searchsorted(char_starts, byte_offsets(texts) - byte_offsets(texts)[0])
    byte_positions: TokenPlaces = char_starts[
        before[owners] + np.clip(positions, 0, np.diff(before)[owners])
    ]
    return byte_positions
