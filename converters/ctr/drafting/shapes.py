"""What the cells of a column look like: one token or several, weights, numbers, times, prose.

Judged by the first rows; how often what occurs is counted afterwards, over all of the sample.
"""

import re
from collections.abc import Sequence
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
    r"(?:^|_)(?:ts|time|timestamp|date|datetime|dt|created|updated|at)(?:_|$)|time(?:stamp)?$"
)
_EPOCHS = ((3e8, 2.5e9), (3e11, 2.5e12), (3e14, 2.5e15))
_MOST = 0.95
_NEARLY_ALL = 0.98


@dataclass(frozen=True, kw_only=True)
class Shape:
    """How the cells of a column look.

    Attributes:
        nested: whether they are lists (Parquet, Arrow).
        separator: between the tokens of a text cell, None where it holds one.
        value_separator: between a token and its value, None where there are no values, "" where
            they are objects of both.
        number: whether all are numbers.
        fraction: whether some of these are not whole.
        unread: why they are no tokens, "" where they are.
        doubt: what should be looked at, "" where nothing.
    """

    nested: bool = False
    separator: str | None = None
    value_separator: str | None = None
    number: bool = False
    fraction: bool = False
    unread: str = ""
    doubt: str = ""

    @property
    def many(self) -> bool:
        """Whether a cell holds several tokens."""
        return self.nested or self.separator is not None


def words_of(name: str) -> str:
    """A name of a column in lower case, its words joined by `_` (`userId` = `user_id`)."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.sub(r"\W+", "_", apart).strip("_").lower()


def shape_of_cells(name: str, cells: Sequence[str]) -> Shape:
    """The shape of a column of texts.

    Args:
        name: the column's.
        cells: its first cells, without missing ones.
    """
    if not cells:
        return Shape(unread="no values in the sample")
    if _share(cells, _DAY.fullmatch) >= _MOST:
        return Shape(unread="a date or time")
    if _share(cells, lambda cell: (cell[:1], cell[-1:]) in _WRITTEN) >= 0.9:
        return Shape(unread="lists or objects written out as text: their brackets are no tokens")
    if (number := _numbers(name, cells)) is not None:
        return number
    separator = next((mark for mark in _SEPARATORS if _separates(mark, cells)), None)
    if separator is None and _is_prose(cells):
        return Shape(unread="running text")
    pieces = [one for cell in cells for one in cell.split(separator) if one] if separator else cells
    mark = value_mark(pieces)
    doubt = ""
    unusual = separator is not None and separator.strip() in ("", ",", ";")
    if unusual and mark is None and sum(" " in one.strip() for one in pieces) * 5 > len(pieces):
        doubt = f"its cells are split at {separator!r}, and the parts hold blanks"
    return Shape(separator=separator, value_separator=mark, doubt=doubt)


def value_mark(pieces: Sequence[str]) -> str | None:
    """The sign between tokens and their values, None where there are no values."""
    for mark in _VALUE_MARKS:
        parts = [one.rpartition(mark) for one in pieces]
        if not parts or sum(bool(p[1]) and _is_number(p[2]) for p in parts) < _MOST * len(parts):
            continue
        if _share(pieces, _CLOCK.fullmatch) >= _MOST:
            continue
        tokens, values = {p[0] for p in parts}, {p[2] for p in parts}
        if len(tokens) <= 5 and len(values) > 10 * len(tokens) and "." not in "".join(values):
            continue  # `shop:17`: a prefix of the id
        return mark
    return None


def _share(cells: Sequence[str], holds: object) -> float:
    return sum(bool(holds(cell)) for cell in cells) / max(1, len(cells))  # type: ignore[operator]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _numbers(name: str, cells: Sequence[str]) -> Shape | None:
    plain = [cell.replace(",", "") if _THOUSANDS.fullmatch(cell) else cell for cell in cells]
    if _share(plain, _is_number) < _NEARLY_ALL:
        return None
    values = [float(one) for one in plain if _is_number(one)]
    epoch = any(all(low <= one <= high for one in values) for low, high in _EPOCHS)
    if epoch and _TIME_NAME.search(words_of(name)):
        return Shape(unread="a time, in seconds or parts of them")
    fraction = any(not one.is_integer() for one in values if one == one and abs(one) < 1e300)
    return Shape(number=True, fraction=fraction)


def _separates(mark: str, cells: Sequence[str]) -> bool:
    """Whether cells are lists with this separator."""
    held = [cell for cell in cells if mark in cell]
    if len(held) < max(2, 0.05 * len(cells)):
        return False
    bare = mark.strip() or mark
    if mark != bare and any(cell.count(bare) != cell.count(mark) for cell in held):
        return False
    pieces = [one for cell in held for one in cell.split(mark) if one]
    if mark == " ":
        return _share(pieces, _BARE.fullmatch) >= _NEARLY_ALL
    if not pieces or max(map(len, pieces)) > 200:
        return False
    if _share(pieces, lambda one: not re.search(r"\s", one)) >= _NEARLY_ALL:
        return True
    # Parts with blanks in them are tokens where they come again and again.
    short = sum(map(len, pieces)) <= 40 * len(pieces)
    return short and len(pieces) >= 20 and 2 * len(set(pieces)) <= len(pieces)


def _is_prose(cells: Sequence[str]) -> bool:
    long = sum(map(len, cells)) > 25 * len(cells)
    return long and _share(cells, lambda cell: cell.count(" ") >= 3) > 0.5
