"""Where a text may be cut for a tokenizer: what is proved, taken together.

A place between two characters is safe when added tokens, normalizer, pre-tokenizer and model each
treat both sides as if the other were not there. The questions are asked of the few characters
around the place, and the answers hold for every text that has them: what is right of the place
gets the same ids whatever stands left of those few characters.

Where a tokenizer puts something before every text, a piece by itself would begin with that. So the
piece begins with the few characters before the place once more, and their ids are dropped: they
are the ids that these characters have alone.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Final, Protocol

from ingot.converters.megatron.cutting.added import Added, read_added
from ingot.converters.megatron.cutting.chars import is_plain
from ingot.converters.megatron.cutting.normalizers import (
    Normalizing,
    Sides,
    read_normalizer,
)
from ingot.converters.megatron.cutting.parsing import UnprovableError
from ingot.converters.megatron.cutting.sentencepiece import REACH, Neighbours
from ingot.converters.megatron.cutting.splitting import (
    Judge,
    Verdict,
    read_model,
    read_pre_tokenizer,
)
from ingot.converters.megatron.engines.panics import panics_caught
from ingot.converters.megatron.loading import huggingface
from ingot.converters.megatron.tokenizer import TokenizerFile

_CACHE: Final = 1 << 16


class _Described(Protocol):
    """A part of a tokenizer, which the library can describe as JSON."""

    def __getstate__(self) -> bytes: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """Where texts may be cut.

    Attributes:
        reach: characters to show on each side of a place.
        again: characters before its place that a piece begins with: `reach`, or 0 where nothing is
            put before a text.
        possible: may a place between these neighbours be safe?
        safe: is the place between these characters, `reach` on either side, safe?
        count: ids of a short text by itself; `None` where it has none.
    """

    reach: int
    again: int
    possible: Callable[[str, str], bool]
    safe: Callable[[str, str], bool]
    count: Callable[[str], int | None]


def read_rules(loaded: TokenizerFile, *, plain: bool) -> Rules:
    """Analyse a tokenizer.

    Raises:
        UnprovableError: nothing is known about where its texts may be cut.
    """
    if loaded.kind == "sentencepiece":
        return _sentencepiece(Neighbours(loaded.data))
    document = json.loads(loaded.data)
    if document["model"].get("dropout"):
        raise UnprovableError("a model with dropout gives other ids every time")
    normalizing = read_normalizer(_state(loaded.tokenizer.normalizer))
    splitting = read_pre_tokenizer(_state(loaded.tokenizer.pre_tokenizer))
    judges = [*splitting.stages, read_model(document["model"], splitting.space)]
    prefixed = normalizing.prefixed or splitting.prefixed
    possible, safe = _combined(
        normalizing, read_added(loaded, plain), partial(_judge, judges), prefixed
    )
    return Rules(
        reach=normalizing.reach,
        again=normalizing.reach if prefixed else 0,
        possible=possible,
        safe=lru_cache(maxsize=_CACHE)(safe),
        count=lru_cache(maxsize=_CACHE)(_Counter(loaded, plain)),
    )


def _sentencepiece(apart: Neighbours) -> Rules:
    def safe(left: str, right: str) -> bool:
        return possible(left[-1], right[0]) and all(map(is_plain, left + right))

    possible = lru_cache(maxsize=_CACHE)(apart)
    count = lru_cache(maxsize=_CACHE)(apart.count)
    return Rules(reach=REACH, again=REACH, possible=possible, safe=safe, count=count)


def _combined(
    normalizing: Normalizing, added: Added, together: Judge, prefixed: bool
) -> tuple[Callable[[str, str], bool], Callable[[str, str], bool]]:
    """What two neighbours tell by themselves, and what all characters within reach do."""

    @lru_cache(maxsize=_CACHE)
    def junction(x: str, y: str) -> bool:
        return added.apart(x, y) and not (prefixed and added.ends(x)) and together(x, y) == "cut"

    def independent(left: str, right: str) -> bool:
        sides: Sides | None = normalizing.apply((list(reversed(left)), list(right)))
        return sides is not None and junction(sides[0][0][-1], sides[1][0][0])

    @lru_cache(maxsize=_CACHE)
    def possible(x: str, y: str) -> bool:
        if not (is_plain(x) and is_plain(y) and added.apart(x, y)):
            return False
        if prefixed and added.ends(x):
            return False  # a prefix is put behind an added token, too
        made_x, made_y = normalizing.alone(x), normalizing.alone(y)
        return bool(made_x and made_y) and junction(made_x[-1], made_y[0])

    def safe(left: str, right: str) -> bool:
        alike = possible(left[-1], right[0]) and all(map(is_plain, left + right))
        return alike and independent(left, right)

    return possible, safe


def _state(part: _Described | None) -> dict[str, Any] | None:
    """The description of a normalizer or pre-tokenizer, in the library's present spelling."""
    state: dict[str, Any] | None = None if part is None else json.loads(part.__getstate__())
    return state


def _judge(stages: list[Judge], x: str, y: str) -> Verdict:
    """The first stage that is sure to split, with none before it for which that matters."""
    verdicts = (stage(x, y) for stage in stages)
    return next((verdict for verdict in verdicts if verdict != "open"), "bound")


class _Counter:
    """Counts the ids of short texts."""

    def __init__(self, loaded: TokenizerFile, plain: bool) -> None:
        self._tokenizer = loaded.tokenizer
        if plain:
            self._tokenizer = huggingface.__wrapped__(loaded.data)  # its own: it is changed
            self._tokenizer.encode_special_tokens = True

    def __call__(self, text: str) -> int | None:
        try:
            with panics_caught():
                return len(self._tokenizer.encode(text, add_special_tokens=False).ids)
        except Exception:  # noqa: BLE001 -- the library raises nothing more precise
            return None
