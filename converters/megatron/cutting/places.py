"""The safe places of a stretch of a text, one after another.

Most neighbours cannot be parted for what they are, and a long stretch has few different ones: so
they are asked about first, and a stretch of which no two can be parted is passed over in one go.
"""

from collections.abc import Iterator
from typing import Final, TypeAlias

from ingot.converters.megatron.cutting.rules import Rules

Place: TypeAlias = tuple[int, int]  # where, and ids that the piece behind it has to skip
# Characters looked at together: few at first, since a place is usually near.
_FEW: Final = 64
_MANY: Final = 1 << 16
_GROWTH: Final = 4


def places_before(rules: Rules, text: str, first: int, last: int) -> Iterator[Place]:
    """Safe places from `last` down to `first`, both included."""
    size, end = _FEW, last + 1
    while end > first:
        begin = max(first, end - size)
        yield from _places(rules, text, range(end - 1, begin - 1, -1))
        size, end = min(size * _GROWTH, _MANY), begin


def places_behind(rules: Rules, text: str, first: int, last: int) -> Iterator[Place]:
    """Safe places from `first` up to `last`, both included."""
    size, begin = _FEW, first
    while begin <= last:
        end = min(last + 1, begin + size)
        yield from _places(rules, text, range(begin, end))
        size, begin = min(size * _GROWTH, _MANY), end


def _places(rules: Rules, text: str, places: range) -> Iterator[Place]:
    low, high = min(places), max(places)
    neighbours = set(zip(text[low - 1 : high], text[low : high + 1], strict=True))
    likely = {x + y for x, y in neighbours if rules.possible(x, y)}
    if not likely:
        return
    for at in places:
        if text[at - 1 : at + 1] in likely:
            skip = _skip(rules, text, at)
            if skip is not None:
                yield at, skip


def _skip(rules: Rules, text: str, at: int) -> int | None:
    """Ids to skip behind a place; `None` where it is not safe."""
    if not rules.safe(text[at - rules.reach : at], text[at : at + rules.reach]):
        return None
    return rules.count(text[at - rules.again : at]) if rules.again else 0
