"""Where a text may be cut for a SentencePiece model: at a space behind a known character.

SentencePiece puts one prefix before a text, the same that it writes for a space; a piece without
the space before it therefore reads as it did. BPE merges nothing that the vocabulary does not
hold. Unigram adds up scores in single precision from the start of the text, so that its ids far
into a text may depend on all that came before: nothing is proved about it.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final

from ingot.converters.megatron.cutting.chars import is_plain
from ingot.converters.megatron.cutting.regex import UnprovableError
from ingot.converters.megatron.cutting.splitting import METASPACE
from ingot.converters.megatron.loading import sentencepiece

REACH: Final = 2

# Fields of sentencepiece_model.proto.
_TRAINER: Final = 2
_NORMALIZER: Final = 3
_MODEL_TYPE: Final = 3
_SPACE_BEHIND: Final = 24
_NORMALIZER_NAME: Final = 1
_DUMMY_PREFIX: Final = 3
_ESCAPED_SPACE: Final = 5

_UNIGRAM: Final = 1
_BPE: Final = 2
# Of these it is known that no rule joins a plain character with another.
_NORMALIZERS: Final = frozenset({b"identity", b"nfkc", b"nmt_nfkc", b"nfkc_cf", b"nmt_nfkc_cf"})

_VARINT: Final = 0
_FIXED64: Final = 1
_BYTES: Final = 2
_MORE: Final = 0x80


class SpaceRule:
    """Is the space between these characters a place to cut?"""

    def __init__(self, data: bytes) -> None:
        """Analyse a model that loads.

        Raises:
            UnprovableError: nothing is known about where its texts may be cut.
        """
        _refuse_unknown(data)
        model = sentencepiece(data)
        pieces = [model.id_to_piece(number) for number in range(model.get_piece_size())]
        if any(" " in piece for piece in pieces) or METASPACE not in pieces:
            raise UnprovableError("a vocabulary with spaces in it, or without a sign for them")
        ends = {piece[at - 1] for piece in pieces for at in _marks(piece)}
        self._known = {piece for piece in pieces if len(piece) == 1} - ends - {METASPACE}
        normalize: Callable[[str], str] = model.normalize
        self._normalized = lru_cache(maxsize=1 << 16)(normalize)

    def __call__(self, left: str, right: str) -> bool:
        """Nothing merges the character before the space with it, and none is unknown."""
        if right[0] != " " or not all(map(is_plain, left + right)):
            return False
        x, z = left[-1], right[1]
        return x in self._known and not z.isspace() and self._normalized(x) == METASPACE + x


def _marks(piece: str) -> list[int]:
    return [at for at, char in enumerate(piece) if char == METASPACE and at]


def _refuse_unknown(data: bytes) -> None:
    trainer, normalizer = _message(data, _TRAINER), _message(data, _NORMALIZER)
    if trainer.get(_MODEL_TYPE, _UNIGRAM) != _BPE:
        raise UnprovableError("a SentencePiece model that is not BPE")
    if trainer.get(_SPACE_BEHIND):
        raise UnprovableError("a SentencePiece model with the sign of a space behind words")
    if not (normalizer.get(_DUMMY_PREFIX, 1) and normalizer.get(_ESCAPED_SPACE, 1)):
        raise UnprovableError("a SentencePiece model that puts no sign of a space before a text")
    if normalizer.get(_NORMALIZER_NAME) not in _NORMALIZERS:
        raise UnprovableError("a SentencePiece model with rules of normalization of its own")


def _message(data: bytes, number: int) -> dict[int, int | bytes]:
    """The fields of one inner message; empty where it is absent."""
    inner = dict(_fields(data)).get(number, b"")
    return dict(_fields(inner)) if isinstance(inner, bytes) else {}


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Numbers and values of the fields of a protocol buffer; the last of a repeated one stays."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        value: int | bytes
        if tag & 7 == _VARINT:
            value, at = _varint(data, at)
        else:
            size = 8 if tag & 7 == _FIXED64 else 4
            if tag & 7 == _BYTES:
                size, at = _varint(data, at)
            value, at = data[at : at + size], at + size
        yield tag >> 3, value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & ~_MORE) << shift, shift + 7, at + 1
        if byte < _MORE:
            return value, at
