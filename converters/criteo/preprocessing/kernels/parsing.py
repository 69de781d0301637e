"""Raw lines to numbers."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.compiling import kernel

BAD_COLUMNS: Final = 0
BAD_LABEL: Final = 1
BAD_DENSE: Final = 2
BAD_SPARSE: Final = 3

POSITION, ROWS, LINES, REJECTS = 0, 1, 2, 3
"""Places in the state of `parse`."""

_TAB, _NEWLINE, _RETURN, _MINUS = 9, 10, 13, 45
_NO_HEX = 255


def _hex_digits() -> NDArray[np.uint8]:
    values = np.full(256, _NO_HEX, np.uint8)
    for value, digit in enumerate("0123456789abcdef"):
        values[ord(digit)] = values[ord(digit.upper())] = value
    return values


HEX_DIGITS: Final = _hex_digits()
"""uint8[256]: what a byte stands for in base 16, 255 for none."""


@kernel
def count_lines(text: NDArray[np.uint8]) -> int:
    """Newlines in a text, and one for what stands behind the last."""
    lines = 1
    for byte in text:
        lines += byte == _NEWLINE
    return lines


@kernel
def parse(
    text: NDArray[np.uint8],
    digits: NDArray[np.uint8],
    labelled: int,
    dense_columns: int,
    labels: NDArray[np.int32],
    dense: NDArray[np.int32],
    sparse: NDArray[np.uint32],
    missing: NDArray[np.int64],
    rejects: NDArray[np.int64],
    state: NDArray[np.int64],
) -> None:
    """Parse lines until the text or the room for rejects ends.

    Args:
        text: uint8[n], whole lines; the last newline may be missing.
        digits: `HEX_DIGITS`.
        labelled: 1 where lines begin with a label, else 0.
        dense_columns: D; then come S hexadecimal ones, the height of `sparse`.
        labels: int32[R], filled; untouched where lines have none.
        dense: int32[R, D], filled.
        sparse: uint32[S, R], filled.
        missing: int64[1 + D + S], empty fields of good rows by column are added to it.
        rejects: int64[m, 5], filled: line from 0, reason, first byte, byte behind the last, and
            the line's columns or the number of the bad one.
        state: int64[4], `POSITION` to go on at, and `ROWS`, `LINES`, `REJECTS` so far.
    """
    size = len(text)
    columns = labelled + dense_columns + len(sparse)
    position, row, line, rejected = state[0], state[1], state[2], state[3]
    while position < size and rejected < len(rejects):
        begin = position
        good = True
        empty = np.uint64(0)
        column = 0
        start = position
        while column < columns:
            start = position
            if column < labelled + dense_columns:
                negative = position < size and text[position] == _MINUS
                if negative:
                    position += 1
                first = position
                number = np.int64(0)
                while position < size:
                    digit = np.int64(text[position]) - 48
                    if digit < 0 or digit > 9:
                        break
                    if number < 1 << 40:  # beyond it the number is too large anyway
                        number = number * 10 + digit
                    position += 1
                if negative:
                    number = -number
                if position == first:
                    empty |= np.uint64(1) << np.uint64(column)
                    good = not negative
                elif number > 2147483647 or number < -2147483648:
                    good = False
                if column < labelled:
                    labels[row] = number if good else 0
                else:
                    dense[row, column - labelled] = number if good else 0
            else:
                value = np.uint64(0)
                while position < size:
                    digit_16 = digits[text[position]]
                    if digit_16 == _NO_HEX:
                        break
                    if value > 0xFFFFFFF:
                        good = False
                    value = (value << np.uint64(4)) | np.uint64(digit_16)
                    position += 1
                if position == start:
                    empty |= np.uint64(1) << np.uint64(column)
                sparse[column - labelled - dense_columns, row] = value & np.uint64(0xFFFFFFFF)
            if not good:
                break
            column += 1
            if column < columns:
                if position >= size or text[position] != _TAB:
                    good = False
                    column -= 1
                    break
                position += 1
        if good:
            end = position
            if end < size and text[end] == _RETURN:
                end += 1
            if end == size or text[end] == _NEWLINE:
                position = end + 1
            else:
                good = False
                column = columns - 1
        if good:
            row += 1
            if empty:
                for place in range(columns):
                    missing[place] += np.int64((empty >> np.uint64(place)) & np.uint64(1))
        else:
            position = _reject(
                text,
                begin,
                start,
                column,
                columns,
                labelled,
                dense_columns,
                line,
                rejects[rejected],
            )
            rejected += 1
        line += 1
    state[0], state[1], state[2], state[3] = min(position, size), row, line, rejected


@kernel
def _reject(
    text: NDArray[np.uint8],
    begin: int,
    start: int,
    column: int,
    columns: int,
    labelled: int,
    dense_columns: int,
    line: int,
    reject: NDArray[np.int64],
) -> int:
    """Say what is wrong with the line that begins at `begin`; gives where the next one begins."""
    end = begin
    tabs = 0
    while end < len(text) and text[end] != _NEWLINE:
        tabs += text[end] == _TAB
        end += 1
    field_end = start
    while field_end < end and text[field_end] != _TAB:
        field_end += 1
    if tabs + 1 != columns:
        reject[0], reject[1], reject[2], reject[3], reject[4] = line, 0, begin, end, tabs + 1
    else:
        reason = 1 if column < labelled else 2 if column < labelled + dense_columns else 3
        reject[0], reject[1], reject[2], reject[3] = line, reason, start, field_end
        reject[4] = column
    return end + 1


@kernel
def measure(
    dense: NDArray[np.int32],
    least: NDArray[np.int64],
    most: NDArray[np.int64],
    total: NDArray[np.int64],
    histogram: NDArray[np.int64],
) -> None:
    """Add raw dense values to their statistics.

    Args:
        dense: int32[R, D].
        least, most, total: int64[D].
        histogram: int64[D, 34]: negative values, zeros, then [1, 2), [2, 4), [4, 8), ...
    """
    for row in range(len(dense)):
        for column in range(dense.shape[1]):
            value = np.int64(dense[row, column])
            least[column] = min(least[column], value)
            most[column] = max(most[column], value)
            total[column] += value
            bucket = 0
            if value >= 0:
                bucket = 1
                while value:
                    bucket += 1
                    value >>= 1
            histogram[column, bucket] += 1
