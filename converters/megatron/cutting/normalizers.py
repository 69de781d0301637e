"""What the normalizer of a tokenizer.json makes of the characters around a place in a text."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial, reduce
from itertools import pairwise
from typing import Any, Final, TypeAlias

from ingot.converters.megatron.cutting.chars import starts_apart
from ingot.converters.megatron.cutting.parsing import UnprovableError
from ingot.converters.megatron.cutting.regex import (
    Pattern,
    literal_pattern,
    regex_pattern,
)

# Elements left and right of the place, nearest first: what became of one character each.
Sides: TypeAlias = tuple[list[str], list[str]]
_Stage: TypeAlias = Callable[[Sides], Sides | None]

# These make of every character, between plain ones, what they make of it alone.
_BY_CHARACTER: Final = frozenset(
    {
        "NFC",
        "NFD",
        "NFKC",
        "NFKD",
        "Lowercase",
        "StripAccents",
        "Nmt",
        "Precompiled",
        "BertNormalizer",
        "ByteLevel",
    }
)
NEEDED: Final = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Normalizing:
    """A normalizer.

    Attributes:
        reach: characters that have to be known on each side of a place.
        prefixed: something is put before a text, and behind every added token in it.
        alone: what becomes of one character, where `apply` finds both sides independent.
        apply: the elements around a place before and after, nearest first; `None` where both sides
            are not sure to be independent.
    """

    reach: int
    prefixed: bool
    alone: Callable[[str], str]
    apply: _Stage


def read_normalizer(document: dict[str, Any] | None) -> Normalizing:
    """Analyse the `normalizer` of a tokenizer.json.

    Raises:
        UnprovableError: a kind that is not known here.
    """
    everything = list(_flat(document))
    stages = [stage for stage in everything if stage["type"] != "Prepend"]
    applied = [_stage(stage) for stage in stages]
    return Normalizing(
        reach=NEEDED + sum(stage["type"] == "Replace" for stage in stages),
        prefixed=len(stages) < len(everything),
        alone=lru_cache(maxsize=1 << 16)(_alone(stages)),
        apply=partial(_apply, applied),
    )


def _flat(document: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    if document is None:
        return
    if document["type"] != "Sequence":
        yield document
        return
    for inner in document["normalizers"]:
        yield from _flat(inner)


def _alone(documents: list[dict[str, Any]]) -> Callable[[str], str]:
    changing = [normalize_by(document) for document in documents if document["type"] != "Strip"]
    return lambda char: reduce(lambda made, normalize: normalize(made), changing, char)


def _apply(stages: list[_Stage], sides: Sides) -> Sides | None:
    for stage in stages:
        after = stage(sides)
        if after is None or not all(after[0]) or not all(after[1]):
            return None
        sides = after
    return sides if sides[0] and sides[1] else None


def _stage(document: dict[str, Any]) -> _Stage:
    kind = document["type"]
    if kind in _BY_CHARACTER:
        return partial(_by_character, normalize_by(document))
    if kind == "Replace":
        return partial(_replaced, read_pattern(document["pattern"]), normalize_by(document))
    if kind == "Strip":
        return _stripped
    raise UnprovableError(f"the normalizer {kind}")


def read_pattern(document: dict[str, str]) -> Pattern:
    """Analyse a `pattern` of a tokenizer.json: a text or a regular expression."""
    if "String" in document:
        return literal_pattern(document["String"])
    return regex_pattern(document["Regex"])


def normalize_by(document: dict[str, Any]) -> Callable[[str], str]:
    """What the library's normalizer of this description makes of a short text."""
    from tokenizers import Tokenizer

    model = {"type": "WordLevel", "vocab": {}, "unk_token": ""}
    whole = {"version": "1.0", "added_tokens": [], "normalizer": document, "model": model}
    normalizer = Tokenizer.from_str(json.dumps(whole)).normalizer
    return lru_cache(maxsize=1 << 16)(normalizer.normalize_str)


def _by_character(normalize: Callable[[str], str], sides: Sides) -> Sides | None:
    left, right = ([normalize(element) for element in side] for side in sides)
    apart = all(map(starts_apart, filter(None, left + right)))
    return (left, right) if apart else None


def _replaced(pattern: Pattern, normalize: Callable[[str], str], sides: Sides) -> Sides | None:
    """No match crosses from one element to the next; the outermost may be in one unseen."""
    row = [*reversed(sides[0]), *sides[1]]
    if any(pattern.crosses(x[-1], y[0]) for x, y in pairwise(row)):
        return None
    left, right = ([normalize(element) for element in side[:-1]] for side in sides)
    return left, right


def _stripped(sides: Sides) -> Sides | None:
    """Nothing is stripped at a place that has no white space on either side."""
    blank = sides[0][0][-1].isspace() or sides[1][0][0].isspace()
    return None if blank else sides
