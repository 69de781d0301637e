"""Where a table begins: titles and notes above its header, and a header of two rows.

A title, a note and the facts of an export fill fewer cells than the rows of the table below them. A
row of groups names several columns of the row of names below it.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import TypeAlias

from ingot.converters.sources.formats.delimited import column_names
from ingot.converters.sources.formats.dialect import header_points, looks_like_name

MOST_ABOVE = 20  # rows that may stand above a table
_SURE = 2.0  # points by which a header below others is better, or a second row is one
Numbered: TypeAlias = tuple[int, Sequence[str]]  # a row with its number in the file, from 1
Merged: TypeAlias = tuple[int, int, int, int]  # first row, first column, last row, last column


@dataclass(frozen=True, slots=True)
class Header:
    """The rows of a file that hold the names of columns, and how many rows stand above the last.

    No `rows`: the table has no header. `unclear` says what a person should look at.
    """

    rows: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    above: int = 0
    unclear: str = ""


def stated_header(
    rows: Sequence[Numbered], stated: Sequence[int], merged: Sequence[Merged]
) -> Header | None:
    """Return the header in rows that were stated, None where a row of these has no cell."""
    places = {number: place for place, (number, _) in enumerate(rows)}
    if not all(number in places for number in stated):
        return None
    last = places[stated[-1]]
    names = _spread_cells(rows[last], merged)
    if len(stated) > 1:
        names = _joined_names(_group_labels(rows[places[stated[0]]], rows[last], merged), names)
    return Header(tuple(stated), column_names(names), last)


def find_header(rows: Sequence[Numbered], merged: Sequence[Merged] = ()) -> Header:
    """Return the header of a table that may begin below other rows; all have the same cells."""
    filled = [sum(map(bool, cells)) for _, cells in rows]
    several = [count for count in filled if count > 1]
    if not several:
        return _header_at(rows, 0, merged)
    usual = median_low(several)
    first = next(place for place, count in enumerate(filled) if count > 1 and usual <= 2 * count)
    if first > MOST_ABOVE:
        first = 0
    header = _header_at(rows, _best_place(rows, filled, first), merged)
    if not header.rows and first and not header.unclear:
        return Header(unclear=f"rows above row {rows[first][0]} look like a title")
    return header


def _best_place(rows: Sequence[Numbered], filled: Sequence[int], first: int) -> int:
    """Return the first full row, or one that is much more of a header than what is above it."""
    best, points = first, _points(rows, first)
    for place in range(first + 1, min(MOST_ABOVE, len(rows))):
        gap = rows[place][0] > rows[place - 1][0] + 1
        wider = filled[place] > max(filled[:place])
        if wider and (score := _points(rows, place)) > max(0.0, points if gap else points + _SURE):
            best, points = place, score
    return best


def _points(rows: Sequence[Numbered], place: int) -> float:
    return header_points([cells for _, cells in rows[place:]])


def _header_at(rows: Sequence[Numbered], place: int, merged: Sequence[Merged]) -> Header:
    """Return the header at a row, with the row of groups above it or that of names below it."""
    unclear = ""
    for upper in (place, place - 1):
        if not 0 <= upper < len(rows) - 1 or rows[upper + 1][0] != rows[upper][0] + 1:
            continue
        labels = _group_labels(rows[upper], rows[upper + 1], merged)
        body = [cells for _, cells in rows[upper + 2 :]]
        if not _may_be_groups(rows[upper][1], labels, rows[upper + 1][1], body):
            continue
        numbers = rows[upper][0], rows[upper + 1][0]
        if _are_groups(rows, upper, labels, merged):
            names = _joined_names(labels, _spread_cells(rows[upper + 1], merged))
            return Header(numbers, column_names(names), upper + 1)
        if upper == place and _has_wide_cell(rows[upper][0], merged):
            unclear = f"rows {numbers[0]} and {numbers[1]} may both hold names"
    names = _spread_cells(rows[place], merged)
    if _points(rows, place) <= 0:
        return Header(unclear=unclear)
    return Header((rows[place][0],), column_names(names), place, unclear)


def _spread_cells(row: Numbered, merged: Sequence[Merged]) -> list[str]:
    """Return the cells of a row with the text of a merged one in each of its places."""
    number, cells = row[0], list(row[1])
    for top, left, bottom, right in merged:
        if top <= number <= bottom and 0 <= left <= right < len(cells):
            cells[left : right + 1] = [cells[left]] * (right + 1 - left)
    return cells


def _group_labels(upper: Numbered, lower: Numbered, merged: Sequence[Merged]) -> list[str]:
    """Return what stands above each name: merged cells, else a label up to the next one."""
    labels = _spread_cells(upper, merged)
    for place in range(1, len(labels)) if not _has_wide_cell(upper[0], merged) else ():
        if not labels[place] and lower[1][place] and lower[1][place - 1]:
            labels[place] = labels[place - 1]
    return labels


def _has_wide_cell(number: int, merged: Sequence[Merged]) -> bool:
    return any(top == number and left < right for top, left, _, right in merged)


def _may_be_groups(
    upper: Sequence[str], labels: Sequence[str], lower: Sequence[str], body: Sequence[Sequence[str]]
) -> bool:
    """Whether labels stand above several names each, and no name is a value of its column."""
    wide = Counter(label for label, name in zip(labels, lower, strict=True) if label and name)
    names = [(place, name) for place, name in enumerate(lower) if name]
    return (
        sum(map(bool, upper)) > 1
        and max(wide.values(), default=0) > 1
        and any(not cell or label != cell for label, cell in zip(labels, upper, strict=True))
        and all(looks_like_name(name) for _, name in names)
        and not any(row[place] == name for place, name in names for row in body)
    )


def _are_groups(
    rows: Sequence[Numbered], upper: int, labels: Sequence[str], merged: Sequence[Merged]
) -> bool:
    """Whether the row below labels is certainly one of names."""
    number, lower = rows[upper][0], rows[upper + 1][1]
    if any(top == number and bottom == number + 1 for top, _, bottom, _ in merged):
        return True
    pairs = Counter((label, name) for label, name in zip(labels, lower, strict=True) if name)
    if len(pairs) > len({name for _, name in pairs}) and max(pairs.values()) == 1:
        return True  # question, answer, question, answer
    return _has_wide_cell(number, merged) and _points(rows, upper + 1) >= _SURE


def _joined_names(labels: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return names; of those that occur several times each with its label before it."""
    times = Counter(names)
    return [
        " ".join(filter(None, (label, name)))
        if times[name] > 1 and label != name
        else name or label
        for label, name in zip(labels, names, strict=True)
    ]
