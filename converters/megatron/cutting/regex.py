"""Which neighbours a regular expression can never take into one match.

The positions of a pattern (its characters and classes, as in Glushkov's automaton) say which
characters may stand next to one another inside a match. Where two characters x, y fit no pair of
positions, no match crosses from x to y in any text, whichever way the engine tries them, and what
it finds left of the place does not depend on what comes right of it. Whether a character is in a
class is asked of the engine that `tokenizers` itself uses, so no table of Unicode can differ.

What is not understood (look-behind, anchors, back references, atomic groups) is refused.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from ingot.converters.megatron.cutting.parsing import Parser, Position, UnprovableError

_CACHE: Final = 1 << 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Pattern:
    """What is known of a pattern.

    Attributes:
        crosses: may one match hold x directly followed by y, or does a match that ends with x
            depend on what follows?
        alone: is a match sure to hold this character wherever it stands?
    """

    crosses: Callable[[str, str], bool]
    alone: Callable[[str], bool]


def literal_pattern(text: str) -> Pattern:
    """The pattern that is this text.

    Raises:
        UnprovableError: an empty text.
    """
    if not text:
        raise UnprovableError("a pattern that matches nothing")
    pairs = {text[at : at + 2] for at in range(len(text) - 1)}
    return Pattern(crosses=lambda x, y: x + y in pairs, alone=lambda x: x == text)


def regex_pattern(text: str) -> Pattern:
    """Analyse a regular expression in the syntax of `tokenizers.Regex`.

    Raises:
        UnprovableError: it uses what is not understood here.
    """
    parser = Parser(text)
    solo = parser.parse()
    positions, follow = parser.positions, parser.closed_follow()
    looking = sum(1 << at for at, position in enumerate(positions) if position.looks)
    tests = [_test(position) for position in positions]

    @lru_cache(maxsize=_CACHE)
    def fits(char: str) -> int:
        return sum(1 << at for at, test in enumerate(tests) if test(char)) & ~looking

    @lru_cache(maxsize=_CACHE)
    def next_to(char: str) -> int:
        return _union(follow, fits(char))

    return Pattern(
        crosses=lambda x, y: bool(next_to(x) & (fits(y) | looking)),
        alone=lambda x: bool(fits(x) & solo),
    )


def _union(follow: list[int], members: int) -> int:
    found = 0
    for at, successors in enumerate(follow):
        if members >> at & 1:
            found |= successors
    return found


def _test(position: Position) -> Callable[[str], bool]:
    if position.looks:
        return lambda _: False
    caseless = position.text.lower() == position.text.upper()
    if position.literal and (caseless or not position.folded):
        return lambda char: char == position.text
    return _class_test(position.text, position.folded)


@lru_cache(maxsize=256)
def _class_test(text: str, folded: bool) -> Callable[[str], bool]:
    """Membership in a class; with `folded` also through any case form of the character."""
    from tokenizers import Regex
    from tokenizers.pre_tokenizers import Split

    try:
        split = Split(Regex(f"(?i:{text})" if folded else text), "removed")
    except Exception as error:  # the library raises nothing more precise
        raise UnprovableError(f"the class {text}: {error}") from error

    @lru_cache(maxsize=_CACHE)
    def test(char: str) -> bool:
        forms = {char, *char.casefold(), *char.lower(), *char.upper()} if folded else {char}
        return any(not split.pre_tokenize_str(form) for form in forms)

    return test
