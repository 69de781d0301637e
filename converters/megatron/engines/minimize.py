"""The smallest part of a text that still shows a difference: delta debugging over characters."""

from collections.abc import Callable
from typing import Final

_MOST_TESTS: Final = 1500


def minimized(text: str, differs: Callable[[str], bool]) -> str:
    """A text from which no part can be left out, or the best found in a bounded number of tests.

    Args:
        text: a text for which `differs` is true.
        differs: whether a text still shows the difference.
    """
    tests = 0
    parts = 2
    while len(text) > 1 and tests < _MOST_TESTS:
        size = -(-len(text) // parts)
        smaller = None
        for start in range(0, len(text), size):
            tests += 1
            rest = text[:start] + text[start + size :]
            if tests > _MOST_TESTS or (rest and differs(rest)):
                smaller = rest if tests <= _MOST_TESTS else None
                break
        if smaller is not None:
            text, parts = smaller, max(parts - 1, 2)
        elif size == 1:
            break
        else:
            parts = min(parts * 2, len(text))
    return text
