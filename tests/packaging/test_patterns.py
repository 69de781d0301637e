"""Every regular expression of the product takes steps in proportion to the text."""

import re
import sys
from collections.abc import Iterator

import pytest

from tests.packaging.patterns import (
    Pattern,
    Steps,
    TooManyStepsError,
    may_grow,
    parsed,
    product_patterns,
    slow_texts,
)

# Patterns that are given short texts only, and how short these are.
SHORT = {
    "agent.judging.model_gates._HEADING": "a label of at most 60 characters",
    "converters.sources.storage.listing._UNFINISHED": "the name of a file",
    "converters.sources.text_kinds._FILE": "a text of at most 300 characters",
    "converters.sources.text_kinds._EMAIL": "a text of at most 300 characters",
}
# Patterns that stand in a list or a table, and how they are applied; others are searched for.
APPLIED = {
    "agent.privacy.secrets._BY_LOOK": "fullmatch",
    "converters.sources.file_kinds.MARKUP": "match",
    "converters.sources.recognizers.aliccp._KINDS": "match",
    "converters.sources.text_kinds._TIME": "fullmatch",
}


def _growing() -> Iterator[Pattern]:
    for one in product_patterns():
        name = one.place.removeprefix("ingot.")
        if name not in SHORT and may_grow(parsed(one.compiled)):
            yield one._replace(
                place=name, uses=frozenset([APPLIED[name]]) if name in APPLIED else one.uses
            )


PATTERNS = list(_growing())
GROWTH = 2.8  # of the steps where the text is twice as long: 2 is linear, 4 is the square
LITTLE = 8  # steps for a character that need no look


@pytest.fixture(autouse=True)
def _deep_calls() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(200_000)
    yield
    sys.setrecursionlimit(before)


def slowest(one: Pattern, size: int, seed: int, samples: int) -> str:
    """Return on what the pattern takes more than twice the steps for twice the text, or nothing."""
    tree = parsed(one.compiled)
    steps = Steps(tree, one.compiled.flags, 500_000)
    for short, long in slow_texts(tree, size, f"{one.place} {seed}", samples):
        try:
            fast, slow = steps.count(short, one.uses), steps.count(long, one.uses)
        except TooManyStepsError:
            return f"{one.place}: endless on {short[:40]!r}...{short[-8:]!r}"
        if slow > LITTLE * len(long) and slow > GROWTH * fast:
            return f"{one.place}: {fast}, {slow} steps on {short[:40]!r}...{short[-8:]!r}"
    return ""


@pytest.mark.parametrize(
    ("pattern", "grows"),
    [
        (r"a+b", True),
        (r"a++b", True),
        (r"(?<!a)a++b", False),
        (r"(a+)+$", True),
        (r"\s+$", True),
        (r"x.{0,400}y", False),
        (r"<[^<>]*>", False),
        (r"<[^>]*>", True),
        (r'"(?:[^"\\]|\\.)*"', True),
        (r"(.)\1*b", True),
    ],
)
def test_the_count_of_steps_tells_slow_patterns_from_others(pattern: str, grows: bool) -> None:
    one = Pattern(pattern, re.compile(pattern), frozenset({"search"}))
    assert bool(slowest(one, 200, 0, 20)) == grows


def test_patterns_are_found() -> None:
    assert len(PATTERNS) > 90
    assert "agent.privacy.secrets._JWT" in {one.place for one in PATTERNS}


@pytest.mark.parametrize("one", PATTERNS, ids=[one.place for one in PATTERNS])
def test_a_pattern_takes_linear_steps(one: Pattern) -> None:
    assert not slowest(one, 80, 0, 3)


@pytest.mark.long
@pytest.mark.parametrize("one", PATTERNS, ids=[one.place for one in PATTERNS])
def test_a_pattern_takes_linear_steps_on_many_texts(one: Pattern) -> None:
    assert not [found for seed in range(5) if (found := slowest(one, 200, seed, 20))]
