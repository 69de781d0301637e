"""The smallest part of a text that still shows a difference: delta debugging over characters."""

from collections.abc import Callable
from typing import Final

_MOST_TESTS: Final = 1500


def minimized(text: str, differs: Callable[[str], bool]) -> str:
    """A text of which no part can be left out, or the best found in a bounded number of tests.

    Args:
        text: a text for which `differs` is true.
        differs: whether a text still shows the difference.
    """
    budget = iter(range(_MOST_TESTS))

    def counted(part: str) -> bool:
        return part != "" and next(budget, None) is not None and differs(part)

    parts = 2
    while len(text) > 1:
        size = -(-len(text) // parts)
        smaller = _smaller(text, size, counted)
        if smaller is not None:
            text, parts = smaller, max(parts - 1, 2)
        elif size == 1:
            break
        else:
            parts = min(parts * 2, len(text))
    return text


def _smaller(text: str, size: int, differs: Callable[[str], bool]) -> str | None:
    candidates = (text[:at] + text[at + size :] for at in range(0, len(text), size))
    return next((part for part in candidates if differs(part)), None)
