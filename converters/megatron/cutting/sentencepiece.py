"""Where a text may be cut for a SentencePiece model: between characters that no piece joins.

BPE merges nothing that the vocabulary does not hold. Unigram adds up scores in single precision
from the start of the text, so that its ids depend on all that came before: the rounding decides
between `0 19` and `01 9` some twenty thousand characters into real text. Such models are refused.
"""

from collections.abc import Iterator
from typing import Final, TypeAlias

from ingot.converters.megatron.cutting.chars import is_plain
from ingot.converters.megatron.cutting.parsing import UnprovableError
from ingot.converters.megatron.cutting.splitting import METASPACE, bigrams
from ingot.converters.megatron.loading import sentencepiece

REACH: Final = 2

# Fields of sentencepiece_model.proto.
_TRAINER: Final = 2
_NORMALIZER: Final = 3
_MODEL_TYPE: Final = 3
_SPACE_BEHIND: Final = 24
_BYTE_FALLBACK: Final = 35
_NORMALIZER_NAME: Final = 1
_ESCAPED_SPACE: Final = 5

_UNIGRAM: Final = 1
_BPE: Final = 2
# Of these it is known that no rule joins a plain character with another.
_NORMALIZERS: Final = frozenset({b"identity", b"nfkc", b"nmt_nfkc", b"nfkc_cf", b"nmt_nfkc_cf"})

_Fields: TypeAlias = dict[int, int | bytes]

_VARINT: Final = 0
_FIXED64: Final = 1
_BYTES: Final = 2
_MORE: Final = 0x80


class Neighbours:
    """Does nothing join a character with the one behind it?"""

    def __init__(self, data: bytes) -> None:
        """Analyse a model that loads.

        Raises:
            UnprovableError: nothing is known about where its texts may be cut.
        """
        trainer = _message(data, _TRAINER)
        _refuse_unknown(trainer, _message(data, _NORMALIZER))
        self._model = sentencepiece(data)
        numbers = range(self._model.get_piece_size())
        pieces = [self._model.id_to_piece(number) for number in numbers]
        if any(" " in piece for piece in pieces) or METASPACE not in pieces:
            raise UnprovableError("a vocabulary with spaces in it, or without a sign for them")
        self._pairs = bigrams(pieces)
        self._known = {
            piece
            for piece, number in zip(pieces, numbers, strict=True)
            if self._is_known(piece, number)
        }
        self._has_bytes = bool(trainer.get(_BYTE_FALLBACK))

    def _is_known(self, piece: str, number: int) -> bool:
        model = self._model
        special = model.is_control(number) or model.is_unknown(number) or model.is_unused(number)
        return len(piece) == 1 and not special

    def __call__(self, x: str, y: str) -> bool:
        """No piece holds both, neither is changed, and they are not two unknown ones in a row."""
        if not (is_plain(x) and is_plain(y) and self._stays(x) and (y == " " or self._stays(y))):
            return False
        y = y.replace(" ", METASPACE)
        known = self._has_bytes or x in self._known or y in self._known
        return known and x + y not in self._pairs

    def _stays(self, char: str) -> bool:
        """Is it no white space, and the same after normalization?"""
        made: str = self._model.normalize(char)
        return made.removeprefix(METASPACE) == char != METASPACE

    def count(self, text: str) -> int:
        """How many ids a text has."""
        return len(self._model.encode(text))


def _refuse_unknown(trainer: _Fields, normalizer: _Fields) -> None:
    if trainer.get(_MODEL_TYPE, _UNIGRAM) != _BPE:
        raise UnprovableError("a SentencePiece model that is not BPE")
    if trainer.get(_SPACE_BEHIND):
        raise UnprovableError("a SentencePiece model with the sign of a space behind words")
    if not normalizer.get(_ESCAPED_SPACE, 1):
        raise UnprovableError("a SentencePiece model without a sign of a space")
    if normalizer.get(_NORMALIZER_NAME) not in _NORMALIZERS:
        raise UnprovableError("a SentencePiece model with rules of normalization of its own")


def _message(data: bytes, number: int) -> _Fields:
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
