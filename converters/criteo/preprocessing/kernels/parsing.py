"""Raw lines to numbers.

First the separators are found, then the fields between them become numbers: eight bytes at a time,
with few branches, and no field waits for the one before it.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.compiling import kernel
from ingot.converters.criteo.preprocessing.kernels.measuring import bits

BAD_COLUMNS: Final = 0
BAD_LABEL: Final = 1
BAD_DENSE: Final = 2
BAD_SPARSE: Final = 3

LINE, ROWS, REJECTS = 0, 1, 2
"""Places in the state of `parse`."""

_EMPTY = 3  # another: the empty fields of the line at hand, a bit for each
_TAB, _NEWLINE, _RETURN, _MINUS = 9, 10, 13, 45
_BAD = 1 << 40  # a field that is no such number, and beyond all that are

_U = np.uint64
# Words: eight bytes, the first one in the lowest bits. Here those of eight equal bytes.
_ONES = _U(0x0101010101010101)
_HIGH_BITS = _U(0x8080808080808080)
_OTHER_BITS = _U(0x7F7F7F7F7F7F7F7F)
_TABS = _U(0x0909090909090909)
_NEWLINES = _U(0x0A0A0A0A0A0A0A0A)
_ZEROS = _U(0x3030303030303030)
_SMALL_LETTER = _U(0x2020202020202020)
_BEFORE_A = _U(0x6060606060606060)
_LOW_HALVES = _U(0x0F0F0F0F0F0F0F0F)
# Added to bytes below 0x80 these set the high bit of those above 9, 6 and 0.
_ABOVE_9 = _U(0x7676767676767676)
_ABOVE_6 = _U(0x7979797979797979)
_ABOVE_0 = _OTHER_BITS
_BYTE_NUMBERS = _U(0x0001020304050607)
_EVERY_2ND, _EVERY_4TH = _U(0x00FF00FF00FF00FF), _U(0x0000FFFF0000FFFF)


def words_of(text: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """The eight bytes from each place of a text on, as little-endian words, without a copy."""
    return np.ndarray((max(len(text) - 7, 0),), np.dtype("<u8"), text, strides=(1,))


@kernel
def split(
    text: NDArray[np.uint8],
    words: NDArray[np.uint64],
    ends: NDArray[np.uint32],
    breaks: NDArray[np.uint32],
) -> np.int64:
    """Find tabs and newlines.

    Args:
        text: uint8[n], whole lines; the last newline may be missing.
        words: `words_of` it.
        ends: uint32[n + 1], filled: where each field ends.
        breaks: uint32[n + 1], filled: how many fields there are up to the end of each line.

    Returns:
        The lines.
    """
    fields, lines = _U(0), _U(0)
    for at in range(0, len(text) - 7, 8):
        word = words[_U(at)]
        found = _zero_bytes(word ^ _TABS) | _zero_bytes(word ^ _NEWLINES)
        while found:
            lowest = found & (~found + _U(1))
            place = _U(at) + (((lowest >> _U(7)) * _BYTE_NUMBERS) >> _U(56))
            ends[fields] = place
            fields += _U(1)
            if text[place] == _NEWLINE:
                breaks[lines] = fields
                lines += _U(1)
            found ^= lowest
    for at in range(len(text) // 8 * 8, len(text)):
        if text[at] == _TAB or text[at] == _NEWLINE:
            ends[fields] = at
            fields += _U(1)
            if text[at] == _NEWLINE:
                breaks[lines] = fields
                lines += _U(1)
    if len(text) and text[len(text) - 1] != _NEWLINE:
        ends[fields] = len(text)
        breaks[lines] = fields + _U(1)
        lines += _U(1)
    return np.int64(lines)


@kernel
def _zero_bytes(word: np.uint64) -> np.uint64:
    """The high bit of every byte that is 0."""
    return ~(((word & _OTHER_BITS) + _OTHER_BITS) | word | _OTHER_BITS)


@kernel
def parse(
    text: NDArray[np.uint8],
    words: NDArray[np.uint64],
    ends: NDArray[np.uint32],
    breaks: NDArray[np.uint32],
    labels: NDArray[np.int32],
    dense: NDArray[np.int32],
    sparse: NDArray[np.uint32],
    missing: NDArray[np.int64],
    rejects: NDArray[np.uint32],
    state: NDArray[np.int64],
) -> None:
    """Parse lines until they or the room for rejects end.

    Args:
        text: as `split` takes it.
        words: likewise.
        ends: as it fills them.
        breaks: uint32[L], one for each line.
        labels: int32[R], filled; int32[0] where lines have none.
        dense: int32[R, D], filled.
        sparse: uint32[S, R], filled.
        missing: int64[columns of a line], empty fields of good lines are added to it.
        rejects: uint32[m, 5], filled: line from 0, reason, first byte, byte behind the last, and
            the line's columns or the number of the bad one.
        state: int64[4]: the `LINE` to go on at, and `ROWS`, `REJECTS` so far.
    """
    labelled, columns = 1 if len(labels) else 0, len(missing)
    line, row, rejected = state[0], state[1], state[2]
    while line < len(breaks) and rejected < len(rejects):
        first = np.int64(breaks[line - 1]) if line else 0
        fields = np.int64(breaks[line]) - first
        bad = -1
        if fields == columns:
            bad = _line(text, words, ends, first, labelled, labels, dense, sparse, row, state)
        if fields == columns and bad < 0:
            row += 1
            empty = state[_EMPTY]
            while empty:
                lowest = empty & -empty
                missing[bits(lowest) - 1] += 1
                empty ^= lowest
        else:
            _reject(ends, first, fields, bad, labelled, dense.shape[1], rejects[rejected])
            rejects[rejected, 0] = line
            rejected += 1
        line += 1
    state[0], state[1], state[2] = line, row, rejected


@kernel
def _line(
    text: NDArray[np.uint8],
    words: NDArray[np.uint64],
    ends: NDArray[np.uint32],
    first: int,
    labelled: int,
    labels: NDArray[np.int32],
    dense: NDArray[np.int32],
    sparse: NDArray[np.uint32],
    row: int,
    state: NDArray[np.int64],
) -> np.int64:
    """Parse a line whose fields begin at `first` into a row; gives the first bad column, or -1."""
    start = _U(ends[first - 1]) + _U(1) if first else _U(0)
    at, ints = _U(first), _U(labelled + dense.shape[1])
    empty = np.int64(0)
    for column in range(ints):
        end = _U(ends[at])
        number = _integer(text, words, start, end)
        if number == _BAD:
            return np.int64(column)
        empty |= np.int64(start == end) << np.int64(column)
        if column < _U(labelled):
            labels[_U(row)] = number
        else:
            dense[_U(row), column - _U(labelled)] = number
        start, at = end + _U(1), at + _U(1)
    last = _U(len(sparse) - 1)
    for place in range(last + _U(1)):
        end = _U(ends[at])
        if place == last and end > start and text[end - _U(1)] == _RETURN:
            end -= _U(1)
        number = _hexadecimal(text, words, start, end)
        if number == _BAD:
            return np.int64(ints + place)
        empty |= np.int64(start == end) << np.int64(ints + place)
        sparse[place, _U(row)] = number
        start, at = end + _U(1), at + _U(1)
    state[_EMPTY] = empty
    return np.int64(-1)


@kernel
def _integer(
    text: NDArray[np.uint8], words: NDArray[np.uint64], start: np.uint64, end: np.uint64
) -> np.int64:
    """The number of a decimal field, 0 for none, or `_BAD`."""
    if end - start < _U(8) and start < _U(len(words)):
        number: np.int64 = _short_integer(words[start], end - start)
        if number != _BAD:
            return number
    slow: np.int64 = _any_integer(text, start, end)
    return slow


@kernel
def _hexadecimal(
    text: NDArray[np.uint8], words: NDArray[np.uint64], start: np.uint64, end: np.uint64
) -> np.int64:
    """The number of a hexadecimal field, 0 for none, or `_BAD`."""
    if end - start < _U(9) and start < _U(len(words)):
        number: np.int64 = _short_hexadecimal(words[start], end - start)
        if number != _BAD:
            return number
    slow: np.int64 = _any_hexadecimal(text, start, end)
    return slow


@kernel
def _short_integer(word: np.uint64, length: np.uint64) -> np.int64:
    """The number of up to seven decimal digits that a word begins with, or `_BAD`."""
    bits = length << _U(3)
    # Zeros in front, so that there are eight digits; in two steps: none may shift by 64.
    word = ((word << (_U(56) - bits)) << _U(8)) | (_ZEROS >> bits)
    number = word ^ _ZEROS
    if ((number + _ABOVE_9) | word) & _HIGH_BITS:
        return np.int64(_BAD)
    number = ((number * _U(2561)) >> _U(8)) & _EVERY_2ND
    number = ((number * _U(6553601)) >> _U(16)) & _EVERY_4TH
    return np.int64((number * _U(42949672960001)) >> _U(32))


@kernel
def _short_hexadecimal(word: np.uint64, length: np.uint64) -> np.int64:
    """The number of up to eight hexadecimal digits that a word begins with, or `_BAD`."""
    half = length << _U(2)
    word = ((word << (_U(32) - half)) << (_U(32) - half)) | ((_ZEROS >> half) >> half)
    no_digit = (word ^ _ZEROS) + _ABOVE_9
    letter = (word | _SMALL_LETTER) ^ _BEFORE_A  # a to f: 1 to 6
    no_letter = (letter + _ABOVE_6) | ~(letter + _ABOVE_0)
    if (word | (no_digit & no_letter)) & _HIGH_BITS:
        return np.int64(_BAD)
    number = (word & _LOW_HALVES) + ((word >> _U(6)) & _ONES) * _U(9)
    number = ((number << _U(4)) | (number >> _U(8))) & _EVERY_2ND
    number = ((number << _U(8)) | (number >> _U(16))) & _EVERY_4TH
    return np.int64(((number << _U(16)) | (number >> _U(32))) & _U(0xFFFFFFFF))


@kernel
def _any_integer(text: NDArray[np.uint8], start: np.uint64, end: np.uint64) -> np.int64:
    """The decimal number of any field, or `_BAD`."""
    negative = start < end and text[start] == _MINUS
    if negative:
        start += _U(1)
    number = np.int64(_BAD) if negative and start == end else np.int64(0)
    for place in range(start, end):
        digit = np.int64(text[place]) - 48
        if digit < 0 or digit > 9 or number > 1 << 31:
            return np.int64(_BAD)
        number = number * 10 + digit
    if negative and number != _BAD:
        number = -number
    return number if -2147483648 <= number <= 2147483647 else np.int64(_BAD)


@kernel
def _any_hexadecimal(text: NDArray[np.uint8], start: np.uint64, end: np.uint64) -> np.int64:
    """The hexadecimal number of any field, or `_BAD`."""
    number = np.int64(0)
    for place in range(start, end):
        byte = np.int64(text[place])
        letter = (byte | 32) - 97
        digit = byte - 48 if byte < 58 else letter + 10
        if digit < 0 or digit > 15 or (byte >= 58 and letter < 0):
            return np.int64(_BAD)
        number = (number << 4) | digit
        if number > 0xFFFFFFFF:
            return np.int64(_BAD)
    return number


@kernel
def _reject(
    ends: NDArray[np.uint32],
    first: int,
    fields: int,
    bad: int,
    labelled: int,
    dense_columns: int,
    reject: NDArray[np.uint32],
) -> None:
    """Say what is wrong with the line whose fields begin at `first`, see `parse`."""
    if bad < 0:
        reject[1] = BAD_COLUMNS
        begin, last = first, first + fields - 1
        reject[4] = fields
    else:
        ints = labelled + dense_columns
        reject[1] = BAD_LABEL if bad < labelled else BAD_DENSE if bad < ints else BAD_SPARSE
        begin = last = first + bad
        reject[4] = bad
    reject[2] = np.int64(ends[begin - 1]) + 1 if begin else 0
    reject[3] = ends[last]
