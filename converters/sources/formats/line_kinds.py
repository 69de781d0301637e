"""What the lines of a text are: running text, lists, or what is written for machines."""

import re
from collections.abc import Iterable, Sequence

from ingot.converters.sources.documents import kinds

LISTS = ("addresses", "numbers", "words", "columns")
SYNTAX = "syntax"  # lines that are written for machines
TIMED = "times"  # lines that begin with a time, as those of logs
UNKNOWN = "."  # before the ending of a text of which nobody knows what it is
_JUDGED_LINES = 100
_LONG_LINE = 2_000  # characters of a line that are looked at
_LEAST_WORDS = 5  # fewer words do not make a list
_LEAST_ROWS = 12
_FEW_LABELS = 0.34  # different values in a column of labels, to the rows
_SHARE = 0.9
_LONGEST_WORD = 40
_LETTER_SHARE = 0.3  # of the signs of a text that is not made of numbers
_SIGN_LINES, _SIGN_CHARACTERS = 10, 40  # lines, and characters of each, whose signs are counted
_ADDRESS = re.compile(r"(?:https?|ftp)://\S+", re.IGNORECASE)
_UNSPACED = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]")


def text_shape(name: str, lines: Sequence[str]) -> str:
    """Return what the lines of a text are.

    If the name of the file says nothing that is known: its ending.
    """
    shape = classify_lines(lines)
    found = _find_syntax(lines) if kinds.may_be_syntax(name) else None
    if shape == "text" or (found == TIMED and _hold_words(lines)):
        shape = found or shape
    ending = kinds.unknown_ending(name)
    return f"{UNKNOWN}{ending}" if ending else shape


def _hold_words(lines: Sequence[str]) -> bool:
    """Whether most lines have words behind their numbers, as those of logs."""
    held = [line[:_LONG_LINE] for line in lines if line.strip()][:_JUDGED_LINES]
    return sum(len(_WORDS.findall(line)) > 2 for line in held) > len(held) / 2


def strange_text(shape: Iterable[str]) -> str:
    """Return what a text of this shape is that is none for people, as far as is known.

    "" of others.
    """
    for one in shape:
        if one.startswith(UNKNOWN):
            return f"text of an unknown kind ({one})"
    told = {SYNTAX: "lines written for machines", TIMED: "lines that begin with a time"}
    return next((told[one] for one in shape if one in told), "")


# How lines begin or end that are written for machines: two texts with a tab between them, a name
# and its value (`msgid "..."`, `key = {`, `DTSTART:2020`), `@entry{`, `(1, 2),`, a lone element,
# cues of times. A speaker's name has a blank behind its colon, and none of these.
_SYNTAX_LINE = re.compile(
    r"""[^\t]*+(?<=\S)\t++\S|[\w.\[\]-]++\s?"|[\w.-]++\s*+=[^=]|[A-Z][A-Z0-9-]*+(?:;[^:\s]*+)?:\S"""
    r"""|@\w++\s?[{(]|[(\[{].*[)\]}][,;]$|\{.*\}$|[\])}][,;]?$|</?[A-Za-z][^<>]*+>"""
    r"""|\[[\w .:"-]++\]|INSERT INTO\b"""
)
_COMMENT_LINE = re.compile(r"#|//|--|;|%")
_SYNTAX_SHARE, _CUE_SHARE = 0.6, 0.2
_CUE = re.compile(r"\W{0,2}\d++(?:[^\w\n]{1,5}\d++){5,}+\D{0,15}$")  # six numbers of times
# A date in any order of its parts, or the name of a month or day, and a time; or a time alone.
_TIMED_LINE = re.compile(
    r"\W{0,2}(?:\d{1,4}(?:[-./]\d{1,4}){2}\D{1,3}|(?:[A-Z][a-z]{2} +){1,2}\d{1,2} +(?:\d{4} +)?)"
    r"\d{1,2}:\d\d|\d\d:\d\d\b|\[\d\d?:\d\d"
)
_WORDS = re.compile(r"[^\W\d_]{2,}")


def _find_syntax(lines: Sequence[str]) -> str | None:
    """Whether most lines are written for machines, or begin with a time; comments count nowhere."""
    held = [line.strip()[:_LONG_LINE] for line in lines if line.strip()][: 4 * _JUDGED_LINES]
    held = [line for line in held if not _COMMENT_LINE.match(line)]
    if len(held) < _LEAST_WORDS:
        return None
    cues, timed, marked = (
        sum(bool(match(line)) for line in held)
        for match in (_CUE.match, _TIMED_LINE.match, _SYNTAX_LINE.match)
    )
    if cues >= _CUE_SHARE * len(held):
        return SYNTAX
    if timed >= _SYNTAX_SHARE * len(held):
        return TIMED
    return SYNTAX if marked >= _SYNTAX_SHARE * len(held) else None


def classify_lines(lines: Sequence[str]) -> str:
    """`text`, or one of LISTS where nearly every line is such a thing."""
    held = [line.strip() for line in lines if line.strip()][:_JUDGED_LINES]
    if not held:
        return "text"
    if _holds_for_most(bool(_ADDRESS.fullmatch(line)) for line in held):
        return "addresses"
    signs = "".join("".join(line[:_SIGN_CHARACTERS].split()) for line in held[:_SIGN_LINES])
    if sum(sign.isalpha() for sign in signs) < _LETTER_SHARE * len(signs) and _holds_for_most(
        any(sign.isdigit() for sign in line) for line in held
    ):
        return "numbers"
    if len(held) >= _LEAST_ROWS and _looks_like_columns(held):
        return "columns"
    words = len(held) >= _LEAST_WORDS and _holds_for_most(_is_word(line) for line in held)
    return "words" if words else "text"


def _holds_for_most(verdicts: Iterable[bool]) -> bool:
    found = list(verdicts)
    return sum(found) >= _SHARE * len(found)


def _looks_like_columns(lines: Sequence[str]) -> bool:
    """Rows of a token and its labels: as many pieces in every line, one of few kinds at the end."""
    rows = [line.split() for line in lines]
    width = len(rows[0])
    ends = {row[-1] for row in rows}
    return (
        width > 1
        and _holds_for_most(len(row) == width for row in rows)
        and len(ends) <= _FEW_LABELS * len(rows)
    )


def _is_word(line: str) -> bool:
    """One word; a script without spaces shows a sentence by its length and its marks."""
    if len(line) > _LONGEST_WORD or len(line.split()) > 1:
        return False
    return not _UNSPACED.search(line) or len(line) <= 4
