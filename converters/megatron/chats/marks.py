"""Marks in texts that a template moves about: code points that stand for no character.

Unicode keeps 32 code points free of characters for uses of this kind. A text goes into a template
between two marks with a number, and what comes out shows where it is now.
"""

import re
from collections.abc import Sequence
from typing import Final, TypeAlias

from ingot.converters.megatron.chats.render import TemplateError

Marks: TypeAlias = tuple[str, str, str, str]  # around the numbers of openings and of closings
Place: TypeAlias = tuple[int, int]  # from where to where in a text
_MARK_SETS: Final[tuple[Marks, ...]] = tuple(
    (chr(first), chr(first + 1), chr(first + 2), chr(first + 3))
    for first in range(0xFDD0, 0xFDF0, 4)  # code points that Unicode keeps free of characters
)


def choose_marks(texts: Sequence[str]) -> Marks:
    """Marks that occur in none of the texts.

    Raises:
        TemplateError: every set of them occurs.
    """
    used = {
        one for text in texts if not text.isascii() for one in re.findall("[\ufdd0-\ufdef]", text)
    }
    free = next((marks for marks in _MARK_SETS if used.isdisjoint(marks)), None)
    if free is None:
        raise TemplateError("the chat holds every code point that could mark its messages")
    return free


def marked(text: str, number: int, marks: Marks) -> str:
    """A text between an opening and a closing mark that carry a number."""
    a, b, c, d = marks
    return f"{a}{number}{b}{text}{c}{number}{d}"


def read_marks(text: str, marks: Marks) -> tuple[str, dict[int, Place]]:
    """A text without its marks, and the places that were marked once, by their numbers."""
    a, b, c, d = marks
    pieces: list[str] = []
    opened: dict[int, list[int]] = {}
    closed: dict[int, list[int]] = {}
    done = length = 0
    for found in re.finditer(f"{a}([0-9]+){b}|{c}([0-9]+){d}", text):
        pieces.append(text[done : found.start()])
        length += found.start() - done
        done = found.end()
        table, number = (opened, found[1]) if found[1] else (closed, found[2])
        table.setdefault(int(number), []).append(length)
    pieces.append(text[done:])
    places = {
        number: (starts[0], closed[number][0])
        for number, starts in opened.items()
        if len(starts) == len(closed.get(number, ())) == 1 and starts[0] <= closed[number][0]
    }
    return "".join(pieces), places
