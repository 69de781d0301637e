"""The bytes that each id of a tokenizer stands for, and texts put together from them again.

Ids whose bytes, one after another, are the very bytes of their text show where each of them stands
in it, whatever the tokenizer does inside. That holds for byte-level BPE always, for tokenizers that
write `▁` for a space mostly; for others the library has to be asked.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from ingot.converters.megatron.engines.engine import Ids
from ingot.converters.megatron.loading import huggingface, sentencepiece

if TYPE_CHECKING:
    from ingot.converters.megatron.tokenizer import TokenizerFile

Places = npt.NDArray[np.int64]
_UNKNOWN: Final = -1
_SPACE: Final = "▁"


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenBytes:
    """Bytes by id.

    Attributes:
        flat: uint8, the bytes of all tokens, one after another.
        starts: int64, where those of an id begin.
        sizes: int64, how many they are; -1 = not known, or none.
    """

    flat: npt.NDArray[np.uint8]
    starts: Places
    sizes: Places

    def places(self, ids: Ids, data: bytes) -> tuple[Places, Places] | None:
        """Where tokens begin and end in the bytes of their text.

        A space that the tokenizer put before the text has no width there.

        Returns:
            int64 beginnings and ends, one per id; None if the tokens are not the text.
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

    def _text(self, ids: Ids, sizes: Places, ends: Places) -> bytes:
        offsets = np.repeat(self.starts[ids] - (ends - sizes), sizes)
        return self.flat[offsets + np.arange(len(offsets))].tobytes()


def token_bytes(loaded: "TokenizerFile") -> TokenBytes:
    """The table of a tokenizer."""
    tokens = _huggingface(loaded) if loaded.kind == "huggingface" else _sentencepiece(loaded)
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


def _huggingface(loaded: "TokenizerFile") -> Iterable[tuple[int, bytes | None]]:
    tokenizer = huggingface(loaded.data)
    letters = _byte_letters() if b'"ByteLevel"' in loaded.data else None
    for text, number in tokenizer.get_vocab(with_added_tokens=True).items():
        yield number, _spelt(text, letters) if letters else _piece(text)
    for number, token in tokenizer.get_added_tokens_decoder().items():
        yield number, token.content.encode()


def _sentencepiece(loaded: "TokenizerFile") -> Iterable[tuple[int, bytes | None]]:
    processor = sentencepiece(loaded.data)
    for number in range(processor.get_piece_size()):
        if not (processor.is_unknown(number) or processor.is_control(number)):
            yield number, _piece(processor.id_to_piece(number))


def _byte_letters() -> dict[str, int]:
    """The letters that byte-level BPE writes for bytes: itself if printable, else from 256 on."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {chr(byte): byte for byte in shown} | {
        chr(256 + place): byte for place, byte in enumerate(hidden)
    }


def _spelt(text: str, letters: dict[str, int]) -> bytes | None:
    try:
        return bytes(letters[letter] for letter in text)
    except KeyError:
        return None


def _piece(text: str) -> bytes:
    if len(text) == 6 and text.startswith("<0x") and text.endswith(">"):
        try:
            return bytes([int(text[3:5], 16)])
        except ValueError:
            pass  # no byte, a token that looks like one
    return text.replace(_SPACE, " ").encode()
