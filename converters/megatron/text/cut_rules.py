"""Collect what is proved about where a text may be cut without changing an id of its tokenizer."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ingot.converters.errors import catch_panics
from ingot.converters.megatron.text.pre_tokenization import (
    METASPACE,
    NormalizerFacts,
    SplitJudge,
    SplitVerdict,
    TextSides,
    collect_bigrams,
    is_plain,
    read_model,
    read_normalizer,
    read_pre_tokenizer,
)
from ingot.converters.megatron.text.regex_syntax import UnprovableError
from ingot.converters.megatron.tokenizer import TokenizerFile
from ingot.converters.megatron.tokenizer_files import load_huggingface, load_sentencepiece

if TYPE_CHECKING:
    from tokenizers import AddedToken


@dataclass(frozen=True, kw_only=True, slots=True)
class AddedTokens:
    """The characters of added tokens that matter beside a place, raw and normalized."""

    pairs: set[str]  # neighbours inside a token
    last: str  # ends of the tokens that are read as such
    # first_word, last_word: beginnings and ends of those that are read between words only
    first_word: str
    last_word: str
    first_left: str  # beginnings of those that take white space before them
    last_right: str  # ends of those that take white space behind them

    def are_apart(self, x: str, y: str) -> bool:
        """No token crosses from x to y, looks across, or takes white space from across."""
        if x + y in self.pairs or x in self.last_word or y in self.first_word:
            return False
        blank_x, blank_y = x.isspace(), y.isspace()
        taken_right = self.last_right and blank_y and (blank_x or x in self.last_right)
        taken_left = self.first_left and blank_x and (blank_y or y in self.first_left)
        return not (taken_right or taken_left)


def read_added_tokens(loaded: TokenizerFile, plain: bool) -> AddedTokens:
    """Analyse the added tokens; with `plain` special ones are not read as such."""
    tokenizer = load_huggingface(loaded.data)
    everything = tokenizer.get_added_tokens_decoder().values()
    read = [token for token in everything if token.content and not (plain and token.special)]
    normalize = tokenizer.normalizer.normalize_str if tokenizer.normalizer else str

    def spellings(tokens: Iterable["AddedToken"]) -> list[str]:
        forms = ((token.content, normalize(token.content)) for token in tokens)
        return [form for pair in forms for form in pair if form]

    def ends(tokens: list["AddedToken"], at: int) -> str:
        return "".join(form[at] for form in spellings(tokens))

    words = [token for token in read if token.single_word]
    left = [token for token in read if token.lstrip]
    right = [token for token in read if token.rstrip]
    return AddedTokens(
        pairs=collect_bigrams(spellings(everything)),
        last=ends(read, -1),
        first_word=ends(words, 0),
        last_word=ends(words, -1),
        first_left=ends(left, 0),
        last_right=ends(right, -1),
    )


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


class NeighbourRules:
    """Does nothing join a character with the one behind it?"""

    def __init__(self, data: bytes) -> None:
        trainer = _inner_fields(data, _TRAINER)
        _refuse_unknown(trainer, _inner_fields(data, _NORMALIZER))
        self._model = load_sentencepiece(data)
        numbers = range(self._model.get_piece_size())
        pieces = [self._model.id_to_piece(number) for number in numbers]
        if any(" " in piece for piece in pieces) or METASPACE not in pieces:
            raise UnprovableError("a vocabulary with spaces in it, or without a sign for them")
        self._pairs = collect_bigrams(pieces)
        model = self._model
        kinds = (model.is_control, model.is_unknown, model.is_unused)  # none of which is a text's
        self._known = {
            pieces[number]
            for number in numbers
            if len(pieces[number]) == 1 and not any(is_kind(number) for is_kind in kinds)
        }
        self._has_bytes = bool(trainer.get(_BYTE_FALLBACK))

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


def _inner_fields(data: bytes, number: int) -> _Fields:
    inner = dict(_read_fields(data)).get(number, b"")
    return dict(_read_fields(inner)) if isinstance(inner, bytes) else {}


def _read_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Numbers and values of the fields of a protocol buffer; the last of a repeated one stays."""
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        value: int | bytes
        if tag & 7 == _VARINT:
            value, at = _read_varint(data, at)
        else:
            size = 8 if tag & 7 == _FIXED64 else 4
            if tag & 7 == _BYTES:
                size, at = _read_varint(data, at)
            value, at = data[at : at + size], at + size
        yield tag >> 3, value


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & ~_MORE) << shift, shift + 7, at + 1
        if byte < _MORE:
            return value, at


_CACHE: Final = 1 << 16


@dataclass(frozen=True, kw_only=True, slots=True)
class CutRules:
    """Where texts may be cut."""

    reach: int  # characters to show on each side of a place
    # characters before its place that a piece begins with: `reach`, or 0 where nothing is put
    # before a text
    again: int
    possible: Callable[[str, str], bool]  # may a place between these neighbours be safe?
    # is the place between these characters, `reach` on either side, safe?
    safe: Callable[[str, str], bool]
    count: Callable[[str], int | None]  # ids of a short text by itself; `None` where it has none


def read_rules(loaded: TokenizerFile, *, plain: bool) -> CutRules:
    """Analyse a tokenizer."""
    if loaded.kind == "sentencepiece":
        return _sentencepiece_rules(NeighbourRules(loaded.data))
    document = json.loads(loaded.data)
    if document["model"].get("dropout"):
        raise UnprovableError("a model with dropout gives other ids every time")
    tokenizer = load_huggingface(loaded.data)
    normalizing = read_normalizer(_describe_part(tokenizer.normalizer))
    splitting = read_pre_tokenizer(_describe_part(tokenizer.pre_tokenizer))
    judges = [*splitting.stages, read_model(document["model"], splitting.space)]
    prefixed = normalizing.prefixed or splitting.prefixed
    possible, safe = _combine_rules(
        normalizing, read_added_tokens(loaded, plain), partial(_judge_stages, judges), prefixed
    )
    return CutRules(
        reach=normalizing.reach,
        again=normalizing.reach if prefixed else 0,
        possible=possible,
        safe=lru_cache(maxsize=_CACHE)(safe),
        count=_id_counter(loaded, plain),
    )


def _sentencepiece_rules(apart: NeighbourRules) -> CutRules:
    def safe(left: str, right: str) -> bool:
        return possible(left[-1], right[0]) and all(map(is_plain, left + right))

    possible = lru_cache(maxsize=_CACHE)(apart)
    count = lru_cache(maxsize=_CACHE)(apart.count)
    return CutRules(reach=2, again=2, possible=possible, safe=safe, count=count)


def _combine_rules(
    normalizing: NormalizerFacts, added: AddedTokens, together: SplitJudge, prefixed: bool
) -> tuple[Callable[[str, str], bool], Callable[[str, str], bool]]:
    """What two neighbours tell by themselves, and what all characters within reach do."""

    @lru_cache(maxsize=_CACHE)
    def junction(x: str, y: str) -> bool:
        return (
            added.are_apart(x, y) and not (prefixed and x in added.last) and together(x, y) == "cut"
        )

    def independent(left: str, right: str) -> bool:
        sides: TextSides | None = normalizing.apply((list(reversed(left)), list(right)))
        return sides is not None and junction(sides[0][0][-1], sides[1][0][0])

    @lru_cache(maxsize=_CACHE)
    def possible(x: str, y: str) -> bool:
        if not (is_plain(x) and is_plain(y) and added.are_apart(x, y)):
            return False
        if prefixed and x in added.last:
            return False  # a prefix is put behind an added token, too
        made_x, made_y = normalizing.alone(x), normalizing.alone(y)
        return bool(made_x and made_y) and junction(made_x[-1], made_y[0])

    def safe(left: str, right: str) -> bool:
        alike = possible(left[-1], right[0]) and all(map(is_plain, left + right))
        return alike and independent(left, right)

    return possible, safe


def _describe_part(part: Any) -> dict[str, Any] | None:  # noqa: ANN401
    """The description of a normalizer or pre-tokenizer, in the library's present spelling."""
    state: dict[str, Any] | None = None if part is None else json.loads(part.__getstate__())
    return state


def _judge_stages(stages: list[SplitJudge], x: str, y: str) -> SplitVerdict:
    """The first stage that is sure to split, with none before it for which that matters."""
    verdicts = (stage(x, y) for stage in stages)
    return next((verdict for verdict in verdicts if verdict != "open"), "bound")


def _id_counter(loaded: TokenizerFile, plain: bool) -> Callable[[str], int | None]:
    tokenizer = load_huggingface(loaded.data)
    if plain:
        tokenizer = load_huggingface.__wrapped__(loaded.data)  # its own: it is changed
        tokenizer.encode_special_tokens = True

    @lru_cache(maxsize=_CACHE)
    def count(text: str) -> int | None:
        try:
            with catch_panics():
                return len(tokenizer.encode(text, add_special_tokens=False).ids)
        except Exception:  # noqa: BLE001 -- the library raises nothing more precise
            return None

    return count
