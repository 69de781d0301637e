"""How the cells of a column look: one token or several, numbers, dates, running text."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

MISSING: Final = ("NULL", "null", "\\N", "NaN", "nan", "None", "NA", "N/A", "<NA>")
"""Texts that stand for nothing in many tables; NA may also be a country."""
_SEPARATORS = (" | ", ", ", "; ", "|", "\x01", ";", ",", "^", " ")
_VALUE_MARKS = (":", "=")
_THOUSANDS = re.compile(r"-?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_CLOCK = re.compile(r"\d{1,2}:\d\d(?::\d\d)?")
_DAY = re.compile(
    r"(?:(?:19|20)\d\d[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](?:19|20)\d\d)"
    r"(?:[T ]\d{1,2}:\d\d.*)?"
)
_BARE = re.compile(r"-?\d+|[0-9A-Fa-f]{6,}|\S+[:=]-?\d[\d.eE+-]*")
_WRITTEN = (("[", "]"), ("{", "}"), ("(", ")"))
_TIME_NAME = re.compile(
    r"(?:^|_)(?:ts|time|timestamp|date|datetime|dt|ds|ymd|day|hour|month|epoch|unix|created|updated"
    r"|at)(?:_|$)|(?:time|timestamp|date|day|hour)$"
)
_DAY_DIGITS = r"(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])"  # MMDD
_HOUR_DIGITS = r"(?:[01]\d|2[0-3])(?:[0-5]\d){0,2}"  # HH, HHMM or HHMMSS
_STAMP = re.compile(rf"(?:19|20)\d\d{_DAY_DIGITS}(?:{_HOUR_DIGITS})?(?:\.0)?")
_SHORT_STAMP = re.compile(rf"\d\d{_DAY_DIGITS}(?:{_HOUR_DIGITS})?(?:\.0)?")
_BY_CHANCE = 10  # distinct numbers that are all a short stamp: ids are not by chance
_EPOCHS = ((3e8, 2.5e9), (3e11, 2.5e12), (3e14, 2.5e15))
TIMES: Final = "lists of dates or times"
_MOST = 0.95
_NEARLY_ALL = 0.98


@dataclass(frozen=True, kw_only=True)
class Shape:
    """How the cells of a column look."""

    nested: bool = False
    separator: str | None = None  # between the tokens of a text cell, None where it holds one
    # between a token and its value, None where there are no values, "" where they are objects of
    # both
    value_separator: str | None = None
    number: bool = False
    fraction: bool = False
    unread: str = ""  # why they are no tokens, "" where they are
    doubt: str = ""  # what should be looked at, "" where nothing

    @property
    def many(self) -> bool:
        """Return whether a cell holds several tokens."""
        return self.nested or self.separator is not None


def words_of(name: str) -> str:
    """Return a column's name in lower case, its words joined by `_` (`userId` = `user_id`)."""
    separated = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.sub(r"\W+", "_", separated).strip("_").lower()


def shape_of_cells(name: str, cells: Sequence[str]) -> Shape:
    """Return the shape of a column of texts."""
    if not cells:
        return Shape(unread="no values in the sample")
    if _share_of(cells, _DAY.fullmatch) >= _MOST:
        return Shape(unread="a date or time")
    if _share_of(cells, lambda cell: (cell[:1], cell[-1:]) in _WRITTEN) >= 0.9:
        return Shape(unread="lists or objects written out as text: their brackets are not tokens")
    if (number := _number_shape(name, cells)) is not None:
        return number
    distinct = list(dict.fromkeys(cells))
    separator = next((mark for mark in _SEPARATORS if _separates(mark, cells, distinct)), None)
    long = separator is None and sum(map(len, cells)) > 25 * len(cells)
    if long and _share_of(cells, lambda cell: cell.count(" ") >= 3) > 0.5:
        return Shape(unread="running text")
    pieces = [one for cell in cells for one in cell.split(separator) if one] if separator else cells
    if separator is not None and are_times(name, pieces):
        return Shape(unread=TIMES)
    mark = value_mark(pieces)
    doubt = ""
    unusual = separator is not None and separator.strip() in ("", ",", ";")
    if unusual and mark is None and sum(" " in one.strip() for one in pieces) * 5 > len(pieces):
        doubt = f"its cells are split at {separator!r}, and the parts hold blanks"
    return Shape(separator=separator, value_separator=mark, doubt=doubt)


def are_times(name: str, pieces: Sequence[str]) -> bool:
    """Return whether the elements of lists are times, as texts or as numbers with such a name."""
    if _share_of(pieces, lambda one: _DAY.fullmatch(one) or _CLOCK.fullmatch(one)) >= _MOST:
        return bool(pieces)
    shape = _number_shape(name, pieces) if pieces else None
    return shape is not None and bool(shape.unread)


def value_mark(pieces: Sequence[str]) -> str | None:
    """Return the sign between tokens and their values, None if there are no values."""
    for mark in _VALUE_MARKS:
        parts = [one.rpartition(mark) for one in pieces]
        if not parts or sum(bool(p[1]) and _is_number(p[2]) for p in parts) < _MOST * len(parts):
            continue
        if _share_of(pieces, _CLOCK.fullmatch) >= _MOST:
            continue
        tokens, values = {p[0] for p in parts}, {p[2] for p in parts}
        if len(tokens) <= 5 and len(values) > 10 * len(tokens) and "." not in "".join(values):
            continue  # `shop:17`: a prefix of the id
        return mark
    return None


def _share_of(cells: Sequence[str], predicate: Callable[[str], object]) -> float:
    return sum(bool(predicate(cell)) for cell in cells) / max(1, len(cells))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _number_shape(name: str, cells: Sequence[str]) -> Shape | None:
    numerals = [cell.replace(",", "") if _THOUSANDS.fullmatch(cell) else cell for cell in cells]
    if _share_of(numerals, _is_number) < _NEARLY_ALL:
        return None
    values = [float(one) for one in numerals if _is_number(one)]
    named_as_time = bool(_TIME_NAME.search(words_of(name)))
    epoch = any(all(low <= one <= high for one in values) for low, high in _EPOCHS)
    if epoch and named_as_time:
        return Shape(unread="a time, in seconds or parts of them")
    if _are_stamps(numerals, named_as_time):
        return Shape(unread="a date or time, written as a number")
    fraction = any(not one.is_integer() for one in values if one == one and abs(one) < 1e300)
    return Shape(number=True, fraction=fraction)


def _are_stamps(cells: Sequence[str], named_as_time: bool) -> bool:
    """Whether numbers are dates: YYYYMMDD, YYMMDDHH and the like, which hardly any ids all are."""
    if _share_of(cells, _STAMP.fullmatch) >= _NEARLY_ALL:
        return True
    many = len(set(cells)) >= _BY_CHANCE and min(map(len, cells)) >= len("YYMMDDHH")
    return (named_as_time or many) and _share_of(cells, _SHORT_STAMP.fullmatch) >= _NEARLY_ALL


def _separates(mark: str, cells: Sequence[str], distinct: Sequence[str]) -> bool:
    separated = [cell for cell in cells if mark in cell]
    if len(separated) < max(2, 0.05 * len(cells)):
        return False
    stripped = mark.strip() or mark
    if mark != stripped and any(cell.count(stripped) != cell.count(mark) for cell in separated):
        return False
    pieces = [one for cell in separated for one in cell.split(mark) if one]
    if mark == " ":
        return _share_of(pieces, _BARE.fullmatch) >= _NEARLY_ALL
    if not pieces or max(map(len, pieces)) > 200:
        return False
    # A bracket that is open in one part shows that it is not whole: `(0,10]`, `[a (b, c)]`.
    if _share_of(pieces, _is_balanced) < _MOST:
        return False
    if _share_of(pieces, lambda one: not re.search(r"\s", one)) >= _NEARLY_ALL:
        return True
    # Parts with blanks in them are tokens where they come again in other cells, unlike the parts
    # of a title.
    pieces = [one for cell in distinct for one in cell.split(mark) if one]
    short = sum(map(len, pieces)) <= 40 * len(pieces)
    return short and len(separated) >= 10 and 2 * len(set(pieces)) <= len(pieces)


def _is_balanced(text: str) -> bool:
    return sum(map(text.count, "([{")) == sum(map(text.count, ")]}"))
