"""A text as the patterns read it: ASCII digits and signs, nothing invisible, escapes undone.

Secrets are looked for in the view and replaced in the original, so that `１３８...` or digits with
zero-width characters between them are found and all that is around them stays as it was.
"""

import re
import unicodedata
from bisect import bisect_right
from dataclasses import dataclass

_INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u20e3\ufe00-\ufe0f\ufeff\U000e0000-\U000e0fff"
)
# JSON in a string, perhaps twice: \u0040 \" \n with any number of backslashes. Patterns that look
# at quotes need their backslashes.
_SPELLED = "(?<!\\\\)\\\\++(?:u([0-9a-fA-F]{4})"
_QUOTED = re.compile(f"[{_INVISIBLE}]++|{_SPELLED}())")
_ESCAPED = re.compile(f"[{_INVISIBLE}]++|{_SPELLED}|([nrt\"'/]))")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63"
_SPACES = "\u00a0\u1680\u202f\u205f\u3000"


class _Folding(dict[int, str]):
    """Character by character: digits of all scripts, full-width signs, spaces and dashes."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        self[code] = folded = _folded(char)
        return folded


def _folded(char: str) -> str:
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
class View:
    """Folded text and the way back: from `at[i]` on, place in the original = place + `shift[i]`."""

    text: str
    at: list[int]
    shift: list[int]

    def origin(self, place: int) -> int:
        """Where in the original the character at `place` of the view stands."""
        found = bisect_right(self.at, place)
        return place + self.shift[found - 1] if found else place


def view(text: str, *, escapes: bool) -> View:
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
        char = _meant(match)
        pieces += (folded[done : match.start()], char)
        length += match.start() - done + len(char)
        done = match.end()
        at.append(length)
        shift.append(done - length)
    if not pieces:
        return View(text=folded, at=[], shift=[])
    return View(text="".join([*pieces, folded[done:]]), at=at, shift=shift)


def _meant(match: re.Match[str]) -> str:
    code, char = match.groups()
    if code:
        spelled = _FOLDING[int(code, 16)]
        return "" if _QUOTED.fullmatch(spelled) else spelled
    return _ESCAPES.get(char, char) if char else ""
