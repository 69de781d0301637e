"""Where in a text numbers can be: most of a long text is not worth a look by thirty patterns.

Cards, phone numbers and numbers of papers have four digits that stand close together, and nothing
of them is far from some such four: labels before a number are short, and so is what is inside it.
"""

import re
from collections.abc import Callable, Iterator

Span = tuple[int, int]
Finder = Callable[[str], Iterator[Span]]

# More than a match and a look around it reach beside four digits: a label of 19 characters with 24
# between it and its number, or three digits more that stand 8 apart.
_MARGIN = 128
_FOUR_DIGITS = re.compile(r"\d(?:[^\d\n]{0,8}\d){3}")


def windows(text: str) -> list[Span]:
    """The stretches of the text that are worth a look, in order, apart from each other."""
    found: list[Span] = []
    for match in _FOUR_DIGITS.finditer(text):
        start, end = match.start() - _MARGIN, match.end() + _MARGIN
        if found and start <= found[-1][1]:
            start = found.pop()[0]
        found.append((max(0, start), min(end, len(text))))
    return found


def within(finder: Finder, text: str, looked_at: list[Span]) -> Iterator[Span]:
    """What a finder finds in the text, given where it is worth a look."""
    for start, end in looked_at:
        for first, last in finder(text[start:end]):
            yield start + first, start + last
