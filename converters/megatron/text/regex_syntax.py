"""Find which neighbours a regular expression can never take into one match, from its syntax."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import or_
from typing import Final

MAX_POSITIONS: Final = 512

_COUNT: Final = re.compile(r"\{(\d*+)(,?)(\d*+)\}")
_CLASS_ESCAPE: Final = re.compile(
    r"\\(?:[pP]\{\^?[A-Za-z_ ]+\}|[sSdDwWhH]|x\{[0-9A-Fa-f]+\}|x[0-7][0-9A-Fa-f]|u[0-9A-Fa-f]{4}"
    r"|[rntfv]|[^A-Za-z0-9])"
)


class UnprovableError(Exception):
    """A part of a tokenizer about which nothing can be proved; the text says which and why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PatternPosition:
    """One character or class of a pattern; `text` as the pattern spells it."""

    text: str
    literal: bool
    folded: bool
    looks: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class _SubExpression:
    """A sub-expression: can it be empty, and bit sets of its first and last positions."""

    nullable: bool
    first: int
    last: int


_EMPTY_EXPRESSION: Final = _SubExpression(nullable=True, first=0, last=0)


class PatternParser:
    """A recursive descent over the pattern; collects positions and who may follow whom."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.folded = False
        self.possessive = False
        self.positions: list[PatternPosition] = []
        self.follow: list[int] = []

    def parse(self) -> int:
        """Read the whole pattern; gives the positions that match a character by themselves."""
        solo = 0
        if self._take("(?i)"):
            self.folded = True
        while True:
            self.possessive = False
            branch = self._sequence()
            if branch.nullable:
                raise self._refuse("it can match nothing")
            if any(self.positions[at].looks for at in _bit_positions(branch.first)):
                raise self._refuse("a match begins with a look ahead")
            solo |= 0 if self.possessive else branch.first & branch.last
            if not self._take("|"):
                break
        if self.at < len(self.text):
            raise self._refuse("an unopened bracket")
        return solo

    def closed_follow(self) -> list[int]:
        """Who may follow whom, with what stands before and behind a look ahead joined up."""
        follow = list(self.follow)
        looks = [at for at, position in enumerate(self.positions) if position.looks]
        for _ in looks:
            for look in looks:
                follow = [seen | follow[look] if seen >> look & 1 else seen for seen in follow]
        return follow

    def _refuse(self, why: str) -> UnprovableError:
        return UnprovableError(f"the pattern {self.text!r}: {why}")

    def _take(self, token: str) -> bool:
        if not self.text.startswith(token, self.at):
            return False
        self.at += len(token)
        return True

    def _alternatives(self) -> _SubExpression:
        part = self._sequence()
        while self._take("|"):
            other = self._sequence()
            part = _SubExpression(
                nullable=part.nullable or other.nullable,
                first=part.first | other.first,
                last=part.last | other.last,
            )
        return part

    def _sequence(self) -> _SubExpression:
        part = _EMPTY_EXPRESSION
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            part = self._joined(part, self._repeated())
        return part

    def _joined(self, left: _SubExpression, right: _SubExpression) -> _SubExpression:
        self._link(left.last, right.first)
        return _SubExpression(
            nullable=left.nullable and right.nullable,
            first=left.first | (right.first if left.nullable else 0),
            last=right.last | (left.last if right.nullable else 0),
        )

    def _link(self, left: int, right: int) -> None:
        for at in _bit_positions(left):
            self.follow[at] |= right

    def _repeated(self) -> _SubExpression:
        start = self.at
        part = self._atom()
        end = self.at
        low, high = self._quantifier()
        if (low, high) != (1, 1):
            stop = self.at
            part = self._copies(part, start, low, high)
            self.at = stop
        elif self.at != end:
            self._link(part.last, part.first)
        return part

    def _quantifier(self) -> tuple[int, int | None]:
        """How often, at least and at most; a mark behind it is read as anything it may mean."""
        for mark, low, high in (("*", 0, None), ("+", 1, None), ("?", 0, 1)):
            if self._take(mark):
                self.possessive |= not self._take("?") and self._take("+")
                return low, high
        found = _COUNT.match(self.text, self.at)
        if found is None:
            return 1, 1
        if not (found[1] or found[3]):
            raise self._refuse(f"the braces at {self.at}")
        self.at = found.end()
        low = int(found[1] or 0)
        high = low if not found[2] else int(found[3]) if found[3] else None
        # `{1,3}+` repeats the whole count in one dialect and only locks it in another.
        if self._take("+"):
            self.possessive = True
            return min(low, 1), None
        if self._take("?"):
            self.possessive = True
            return 0, high
        return low, high

    def _copies(
        self, part: _SubExpression, start: int, low: int, high: int | None
    ) -> _SubExpression:
        whole = _EMPTY_EXPRESSION
        for number in range(max(low, 1) if high is None else high):
            if number:
                self.at = start
                part = self._atom()
            if high is None:
                self._link(part.last, part.first)
            optional = part.nullable or number >= low
            whole = self._joined(
                whole, _SubExpression(nullable=optional, first=part.first, last=part.last)
            )
        return whole

    def _atom(self) -> _SubExpression:
        char = self.text[self.at]
        if char == "(":
            return self._group()
        if char == "[":
            return self._position(self._bracket(), literal=False)
        if char == "\\":
            return self._escape()
        self.at += 1
        if char == "$":
            return self._position("$", literal=True, looks=True)
        if char in "^*+?{":
            raise self._refuse(f"{char} at {self.at - 1}")
        return self._position(char, literal=char != ".")

    def _position(self, text: str, *, literal: bool, looks: bool = False) -> _SubExpression:
        if len(self.positions) == MAX_POSITIONS:
            raise self._refuse("too long")
        bit = 1 << len(self.positions)
        self.positions.append(
            PatternPosition(text=text, literal=literal, folded=self.folded, looks=looks)
        )
        self.follow.append(0)
        return _SubExpression(nullable=False, first=bit, last=bit)

    def _escape(self) -> _SubExpression:
        found = _CLASS_ESCAPE.match(self.text, self.at)
        if found is None:
            raise self._refuse(f"{self.text[self.at : self.at + 2]} at {self.at}")
        self.at = found.end()
        return self._position(found[0], literal=False)

    def _bracket(self) -> str:
        start, depth = self.at, 0
        while self.at < len(self.text):
            char = self.text[self.at]
            self.at += 2 if char == "\\" else 1
            depth += (char == "[") - (char == "]")
            if depth == 0:
                return self.text[start : self.at]
        raise self._refuse("an open class")

    def _group(self) -> _SubExpression:
        if self._take("(?!") or self._take("(?="):
            return self._look_ahead()
        outer = self.folded
        if self._take("(?i:"):
            self.folded = True
        elif not self._take("(?:"):
            self._take("(")
            if self.text[self.at : self.at + 1] in ("?", "*"):
                raise self._refuse(f"the group at {self.at - 1}")
        part = self._alternatives()
        self.folded = outer
        if not self._take(")"):
            raise self._refuse("an open group")
        return part

    def _look_ahead(self) -> _SubExpression:
        """A look at one character; what it asks for does not matter here."""
        count = len(self.positions)
        inside = self._atom()
        one = len(self.positions) == count + 1 and not inside.nullable
        if not one or not self._take(")"):
            raise self._refuse("a look ahead at more than one character")
        self.positions.pop()
        self.follow.pop()
        return self._position("", literal=True, looks=True)


def _bit_positions(members: int) -> list[int]:
    return [at for at in range(members.bit_length()) if members >> at & 1]


_CACHE: Final = 1 << 16


@dataclass(frozen=True, kw_only=True, slots=True)
class RegexPattern:
    """What is known of a pattern."""

    # may one match hold x directly followed by y, or does a match that ends with x depend on what
    # follows?
    crosses: Callable[[str, str], bool]
    alone: Callable[[str], bool]  # is a match sure to hold this character wherever it stands?


def literal_pattern(text: str) -> RegexPattern:
    """The pattern that is this text."""
    if not text:
        raise UnprovableError("a pattern that matches nothing")
    pairs = {text[at : at + 2] for at in range(len(text) - 1)}
    return RegexPattern(crosses=lambda x, y: x + y in pairs, alone=lambda x: x == text)


def regex_pattern(text: str) -> RegexPattern:
    """Analyse a regular expression in the syntax of `tokenizers.Regex`."""
    parser = PatternParser(text)
    solo = parser.parse()
    positions, follow = parser.positions, parser.closed_follow()
    looking = sum(1 << at for at, position in enumerate(positions) if position.looks)
    tests = [_position_test(position) for position in positions]

    @lru_cache(maxsize=_CACHE)
    def fits(char: str) -> int:
        return sum(1 << at for at, test in enumerate(tests) if test(char)) & ~looking

    @lru_cache(maxsize=_CACHE)
    def next_to(char: str) -> int:
        return reduce(or_, (follow[at] for at in _bit_positions(fits(char))), 0)

    return RegexPattern(
        crosses=lambda x, y: bool(next_to(x) & (fits(y) | looking)),
        alone=lambda x: bool(fits(x) & solo),
    )


def _position_test(position: PatternPosition) -> Callable[[str], bool]:
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
