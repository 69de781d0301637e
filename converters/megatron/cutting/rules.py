"""Where a text may be cut for a tokenizer: what is proved, taken together.

A place between two characters is safe when added tokens, normalizer, pre-tokenizer and model each
treat both sides as if the other were not there. The questions are asked of the few characters
around the place, and the answers hold for every text that has them.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Protocol

from ingot.converters.megatron.cutting.chars import is_plain
from ingot.converters.megatron.cutting.normalizers import (
    NEEDED,
    Normalizing,
    Sides,
    read_normalizer,
)
from ingot.converters.megatron.cutting.regex import UnprovableError
from ingot.converters.megatron.cutting.sentencepiece import REACH, SpaceRule
from ingot.converters.megatron.cutting.splitting import (
    Judge,
    Verdict,
    bigrams,
    read_model,
    read_pre_tokenizer,
    space_mark,
)
from ingot.converters.megatron.tokenizer import TokenizerFile

if TYPE_CHECKING:
    from tokenizers import AddedToken

_CACHE: Final = 1 << 16


class _Described(Protocol):
    """A part of a tokenizer, which the library can describe as JSON."""

    def __getstate__(self) -> bytes: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """Where texts may be cut.

    Attributes:
        reach: characters to show on each side of a place.
        replaces_space: a place is a space that belongs to neither piece.
        safe: is the place between these characters, `reach` on either side, safe?
    """

    reach: int
    replaces_space: bool
    safe: Callable[[str, str], bool]


def read_rules(loaded: TokenizerFile, *, plain: bool) -> Rules:
    """Analyse a tokenizer.

    Raises:
        UnprovableError: nothing is known about where its texts may be cut.
    """
    if loaded.kind == "sentencepiece":
        return Rules(reach=REACH, replaces_space=True, safe=SpaceRule(loaded.data))
    document = json.loads(loaded.data)
    if document["model"].get("dropout"):
        raise UnprovableError("a model with dropout gives other ids every time")
    normalizing = read_normalizer(_state(loaded.tokenizer.normalizer))
    added = _read_added(loaded, plain)
    together = _judges(loaded, document["model"])
    return _combined(normalizing, added, together)


def _combined(normalizing: Normalizing, added: "_Added", together: Judge) -> Rules:
    junction = lru_cache(maxsize=_CACHE)(lambda x, y: added.apart(x, y) and together(x, y) == "cut")

    @lru_cache(maxsize=_CACHE)
    def possible(x: str, y: str) -> bool:
        """What two neighbours tell by themselves: most places end here, long runs at once."""
        if not (is_plain(x) and is_plain(y) and added.apart(x, y)):
            return False
        return normalizing.reach > NEEDED or independent(x, y)

    def independent(left: str, right: str) -> bool:
        sides: Sides | None = normalizing.apply((list(reversed(left)), list(right)))
        return sides is not None and junction(sides[0][0][-1], sides[1][0][0])

    def safe(left: str, right: str) -> bool:
        x, y = left[-1], right[0]
        if normalizing.replaces_space and not (y == " " and added.clear(x, right[1])):
            return False
        return possible(x, y) and all(map(is_plain, left + right)) and independent(left, right)

    return Rules(reach=normalizing.reach, replaces_space=normalizing.replaces_space, safe=safe)


def _state(part: _Described | None) -> dict[str, Any] | None:
    """The description of a normalizer or pre-tokenizer, in the library's present spelling."""
    state: dict[str, Any] | None = None if part is None else json.loads(part.__getstate__())
    return state


def _judges(loaded: TokenizerFile, model: dict[str, Any]) -> Judge:
    """The first stage that is sure to split, with none before it for which that matters."""
    splitting = _state(loaded.tokenizer.pre_tokenizer)
    stages = [*read_pre_tokenizer(splitting), read_model(model, space_mark(splitting))]

    def judge(x: str, y: str) -> Verdict:
        verdicts = (stage(x, y) for stage in stages)
        return next((verdict for verdict in verdicts if verdict != "open"), "bound")

    return judge


@dataclass(frozen=True, kw_only=True, slots=True)
class _Added:
    """What added tokens forbid: they are found in the text before all else."""

    pairs: set[str]
    first: str
    last: str
    first_word: str
    last_word: str
    first_left: str
    last_right: str

    def apart(self, x: str, y: str) -> bool:
        """No token crosses from x to y, looks across, or takes white space from across."""
        if x + y in self.pairs or x in self.last_word or y in self.first_word:
            return False
        blank_x, blank_y = x.isspace(), y.isspace()
        taken_right = self.last_right and blank_y and (blank_x or x in self.last_right)
        taken_left = self.first_left and blank_x and (blank_y or y in self.first_left)
        return not (taken_right or taken_left)

    def clear(self, x: str, z: str) -> bool:
        """No token ends at x or begins at z: a prefix is put behind each token too."""
        return x not in self.last and z not in self.first


def _read_added(loaded: TokenizerFile, plain: bool) -> _Added:
    tokenizer = loaded.tokenizer
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
    return _Added(
        pairs=bigrams(spellings(everything)),
        first="".join(token.content[0] for token in read),
        last="".join(token.content[-1] for token in read),
        first_word=ends(words, 0),
        last_word=ends(words, -1),
        first_left=ends(left, 0),
        last_right=ends(right, -1),
    )
