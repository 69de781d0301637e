"""Where in a text numbers can be: most of a long text is not worth a look by thirty patterns.

Cards, phone numbers and numbers of papers have four digits that stand close together, and nothing
of them is far from some such four: labels before a number are short, and so is what is inside it.

A text as the patterns read it: ASCII digits and signs, nothing invisible, escapes undone.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass

Span = tuple[int, int]
Finder = Callable[[str], Iterator[Span]]

# More than a match and a look around it reach beside four digits: a label of 19 characters with 24
# between it and its number, or three digits more that stand 8 apart.
_WINDOW_MARGIN = 128
_FOUR_DIGITS = re.compile(r"\d(?:[^\d\n]{0,8}\d){3}")


def search_windows(text: str) -> list[Span]:
    """The stretches of the text that are worth a look, in order, apart from each other."""
    found: list[Span] = []
    for match in _FOUR_DIGITS.finditer(text):
        start, end = match.start() - _WINDOW_MARGIN, match.end() + _WINDOW_MARGIN
        if found and start <= found[-1][1]:
            start = found.pop()[0]
        found.append((max(0, start), min(end, len(text))))
    return found


def find_within(finder: Finder, text: str, looked_at: list[Span]) -> Iterator[Span]:
    """What a finder finds in the text, given where it is worth a look."""
    for start, end in looked_at:
        for first, last in finder(text[start:end]):
            yield start + first, start + last


_INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u20e3\ufe00-\ufe0f\ufeff\U000e0000-\U000e0fff"
)
# JSON in a string, perhaps twice: \u0040 \" \n with any number of backslashes. Patterns that look
# at quotes need their backslashes.
_UNICODE_ESCAPE = "(?<!\\\\)\\\\++(?:u([0-9a-fA-F]{4})"
_QUOTED = re.compile(f"[{_INVISIBLE}]++|{_UNICODE_ESCAPE}())")
_ESCAPED = re.compile(f"[{_INVISIBLE}]++|{_UNICODE_ESCAPE}|([nrt\"'/]))")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63"
_SPACES = "\u00a0\u1680\u202f\u205f\u3000"


class _Folding(dict[int, str]):
    """Character by character: digits of all scripts, full-width signs, spaces and dashes."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        self[code] = folded = _fold_char(char)
        return folded


def _fold_char(char: str) -> str:
    digit = unicodedata.decimal(char, None)
    if digit is not None:
        return str(digit)
    if "\uff01" <= char <= "\uff5e":
        return chr(ord(char) - 0xFEE0)
    if char in _SPACES or "\u2000" <= char <= "\u200a":
        return " "
    return "-" if char in _DASHES else char


_FOLDING = _Folding()


@dataclass(frozen=True, kw_only=True, slots=True)
class FoldedView:
    """Folded text and the way back: from `at[i]` on, place in the original = place + `shift[i]`."""

    text: str
    at: list[int]
    shift: list[int]

    def origin(self, place: int) -> int:
        """Where in the original the character at `place` of the view stands."""
        found = bisect_right(self.at, place)
        return place + self.shift[found - 1] if found else place


def fold_text(text: str, *, escapes: bool) -> FoldedView:
    """The view of a text; with `escapes` also quotes and line breaks that JSON escapes.

    Time and memory grow linearly with the text.
    """
    folded = text if text.isascii() else text.translate(_FOLDING)
    pattern = _ESCAPED if escapes else _QUOTED
    pieces: list[str] = []
    at: list[int] = []
    shift: list[int] = []
    done = length = 0
    for match in pattern.finditer(folded):
        char = _escape_meaning(match)
        pieces += (folded[done : match.start()], char)
        length += match.start() - done + len(char)
        done = match.end()
        at.append(length)
        shift.append(done - length)
    if not pieces:
        return FoldedView(text=folded, at=[], shift=[])
    return FoldedView(text="".join([*pieces, folded[done:]]), at=at, shift=shift)


def _escape_meaning(match: re.Match[str]) -> str:
    code, char = match.groups()
    if code:
        spelled = _FOLDING[int(code, 16)]
        return "" if _QUOTED.fullmatch(spelled) else spelled
    return _ESCAPES.get(char, char) if char else ""
