"""Kernels that parse raw lines, measure dense values and number 32-bit values as first seen.

First the separators are found, then the fields between them become numbers: eight bytes at a time,
with few branches, and no field waits for the one before it.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ingot.converters.kernels.compile import inner_kernel, kernel
from ingot.converters.recsys.criteo.contract import FIRST_ID, RARE_ID

BAD_COLUMNS, BAD_LABEL, BAD_DENSE, BAD_SPARSE = range(4)

LINE, ROWS, REJECTS = 0, 1, 2  # places in the state of `parse`

_TAB, _NEWLINE, _RETURN, _MINUS = 9, 10, 13, 45
_NO_WORD = 0xFFFFFFFFFFFFFFFF  # none of its bytes is a digit
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
    """Return the eight bytes from each position of a text as little-endian words, not copied."""
    return np.ndarray((max(len(text) - 7, 0),), np.dtype("<u8"), text, strides=(1,))


@kernel
def find_breaks(
    text: NDArray[np.uint8],
    words: NDArray[np.uint64],
    field_ends: NDArray[np.uint32],
    breaks: NDArray[np.uint32],
) -> np.int64:
    """Find tabs and newlines."""
    fields, lines = _U(0), _U(0)
    for index in range(0, len(text) - 7, 8):
        word = words[_U(index)]
        matches = _zero_bytes(word ^ _TABS) | _zero_bytes(word ^ _NEWLINES)
        while matches:
            lowest = matches & (~matches + _U(1))
            position = _U(index) + (((lowest >> _U(7)) * _BYTE_NUMBERS) >> _U(56))
            field_ends[fields] = position
            fields += _U(1)
            if text[position] == _NEWLINE:
                breaks[lines] = fields
                lines += _U(1)
            matches ^= lowest
    for index in range(len(text) // 8 * 8, len(text)):
        if text[index] == _TAB or text[index] == _NEWLINE:
            field_ends[fields] = index
            fields += _U(1)
            if text[index] == _NEWLINE:
                breaks[lines] = fields
                lines += _U(1)
    if len(text) and text[len(text) - 1] != _NEWLINE:
        field_ends[fields] = len(text)
        breaks[lines] = fields + _U(1)
        lines += _U(1)
    return np.int64(lines)


@inner_kernel
def _zero_bytes(word: np.uint64) -> np.uint64:
    """The high bit of every byte that is 0."""
    return ~(((word & _OTHER_BITS) + _OTHER_BITS) | word | _OTHER_BITS)


class TextFields(NamedTuple):
    """Lines to parse: bytes, their words (see `words_of`), field ends, fields before line ends."""

    text: NDArray[np.uint8]
    words: NDArray[np.uint64]
    ends: NDArray[np.uint32]
    breaks: NDArray[np.uint32]


class RowArrays(NamedTuple):
    """What lines become: int32[R] (or [0]), int32[R, 13], uint32[26, R], int64[39] empty fields."""

    labels: NDArray[np.int32]
    dense: NDArray[np.int32]
    sparse: NDArray[np.uint32]
    missing: NDArray[np.int64]


@kernel
def parse_lines(
    lines: TextFields, rows: RowArrays, rejects: NDArray[np.uint32], state: NDArray[np.int64]
) -> None:
    """Parse lines until they or the room for rejects end."""
    field_ends, breaks, dense = lines.ends, lines.breaks, rows.dense
    labelled = 1 if len(rows.labels) else 0
    line, row, rejected = state[0], state[1], state[2]
    while line < len(breaks) and rejected < len(rejects):
        line, row, bad_column = _parse_rows(lines, rows, line, row)
        if line < len(breaks):
            first = np.int64(breaks[line - 1]) if line else 0
            fields = np.int64(breaks[line]) - first
            _write_reject(
                field_ends, first, fields, bad_column, labelled, dense.shape[1], rejects[rejected]
            )
            rejects[rejected, 0] = line
            rejected += 1
            line += 1
    state[0], state[1], state[2] = line, row, rejected


@inner_kernel
def _parse_rows(lines: TextFields, rows: RowArrays, line: int, row: int) -> tuple[int, int, int]:
    """Parse lines up to one that is no row; gives it, the rows, and its first bad column or -1."""
    text, words, field_ends, breaks = lines
    labels, dense, sparse, missing = rows
    labelled, columns = 1 if len(labels) else 0, len(missing)
    ints, word_count = labelled + dense.shape[1], _U(len(words))
    while line < len(breaks):
        first = np.int64(breaks[line - 1]) if line else np.int64(0)
        if np.int64(breaks[line]) - first != columns:
            return line, row, -1
        start = _U(field_ends[_U(first - 1)]) + _U(1) if first else _U(0)
        for column in range(columns):
            end = _U(field_ends[_U(first + column)])
            word = words[start] if start < word_count else _U(_NO_WORD)
            if column < ints:
                number = _parse_short_integer(word, end - start)
            else:
                number = _parse_short_hexadecimal(word, end - start)
            if number == _BAD:
                number = _parse_slowly(text, start, end, column < ints, column == columns - 1)
            if number == _BAD:
                return line, row, column
            if column >= ints:
                sparse[_U(column - ints), _U(row)] = number
            elif column >= labelled:
                dense[_U(row), _U(column - labelled)] = number
            else:
                labels[_U(row)] = number
            start = end + _U(1)
        _count_empty(text, field_ends, first, missing)
        row, line = row + 1, line + 1
    return line, row, -1


@inner_kernel
def _parse_slowly(
    text: NDArray[np.uint8], start: np.uint64, end: np.uint64, integer: bool, last: bool
) -> np.int64:
    """The number of any field, 0 for none, or `_BAD`; `last` ones may end with a return."""
    number: np.int64
    if integer:
        number = _parse_any_integer(text, start, end)
    else:
        returns = last and end > start and text[end - _U(1)] == _RETURN
        number = _parse_any_hexadecimal(text, start, end - _U(1) if returns else end)
    return number


@inner_kernel
def _count_empty(
    text: NDArray[np.uint8], field_ends: NDArray[np.uint32], first: int, missing: NDArray[np.int64]
) -> None:
    """Count the empty fields of a row whose fields begin at `first`."""
    last = len(missing) - 1
    for column in range(1, last):
        field = _U(first + column)
        missing[_U(column)] += field_ends[field] - field_ends[field - _U(1)] == 1
    start = np.int64(field_ends[first - 1]) + 1 if first else 0
    missing[0] += np.int64(field_ends[first]) == start
    start, end = np.int64(field_ends[first + last - 1]) + 1, np.int64(field_ends[first + last])
    missing[last] += start == end or (start == end - 1 and text[start] == _RETURN)


@inner_kernel
def _parse_short_integer(word: np.uint64, length: np.uint64) -> np.int64:
    """The number of up to seven decimal digits that a word begins with, or `_BAD`."""
    if length > _U(7):
        return np.int64(_BAD)
    bits = length << _U(3)
    # Zeros in front, so that there are eight digits; in two steps: none may shift by 64.
    word = ((word << (_U(56) - bits)) << _U(8)) | (_ZEROS >> bits)
    number = word ^ _ZEROS
    if ((number + _ABOVE_9) | word) & _HIGH_BITS:
        return np.int64(_BAD)
    number = ((number * _U(2561)) >> _U(8)) & _EVERY_2ND
    number = ((number * _U(6553601)) >> _U(16)) & _EVERY_4TH
    return np.int64((number * _U(42949672960001)) >> _U(32))


@inner_kernel
def _parse_short_hexadecimal(word: np.uint64, length: np.uint64) -> np.int64:
    """The number of up to eight hexadecimal digits that a word begins with, or `_BAD`."""
    if length > _U(8):
        return np.int64(_BAD)
    shift = length << _U(2)
    word = ((word << (_U(32) - shift)) << (_U(32) - shift)) | ((_ZEROS >> shift) >> shift)
    no_digit = (word ^ _ZEROS) + _ABOVE_9
    letter = (word | _SMALL_LETTER) ^ _BEFORE_A  # a to f: 1 to 6
    no_letter = (letter + _ABOVE_6) | ~(letter + _ABOVE_0)
    if (word | (no_digit & no_letter)) & _HIGH_BITS:
        return np.int64(_BAD)
    number = (word & _LOW_HALVES) + ((word >> _U(6)) & _ONES) * _U(9)
    number = ((number << _U(4)) | (number >> _U(8))) & _EVERY_2ND
    number = ((number << _U(8)) | (number >> _U(16))) & _EVERY_4TH
    return np.int64(((number << _U(16)) | (number >> _U(32))) & _U(0xFFFFFFFF))


@inner_kernel
def _parse_any_integer(text: NDArray[np.uint8], start: np.uint64, end: np.uint64) -> np.int64:
    negative = start < end and text[start] == _MINUS
    if negative:
        start += _U(1)
    number = np.int64(_BAD) if negative and start == end else np.int64(0)
    for index in range(start, end):
        digit = np.int64(text[index]) - 48
        if digit < 0 or digit > 9 or number > 1 << 31:
            return np.int64(_BAD)
        number = number * 10 + digit
    if negative and number != _BAD:
        number = -number
    return number if -2147483648 <= number <= 2147483647 else np.int64(_BAD)


@inner_kernel
def _parse_any_hexadecimal(text: NDArray[np.uint8], start: np.uint64, end: np.uint64) -> np.int64:
    number = np.int64(0)
    for index in range(start, end):
        byte = np.int64(text[index])
        letter = (byte | 32) - 97
        digit = byte - 48 if byte < 58 else letter + 10
        if digit < 0 or digit > 15 or (byte >= 58 and letter < 0):
            return np.int64(_BAD)
        number = (number << 4) | digit
        if number > 0xFFFFFFFF:
            return np.int64(_BAD)
    return number


@inner_kernel
def _write_reject(
    field_ends: NDArray[np.uint32],
    first: int,
    fields: int,
    bad_column: int,
    labelled: int,
    dense_columns: int,
    reject: NDArray[np.uint32],
) -> None:
    """Say what is wrong with the line whose fields begin at `first`, see `parse`."""
    if bad_column < 0:
        reject[1] = BAD_COLUMNS
        first_field, last = first, first + fields - 1
        reject[4] = fields
    else:
        ints = labelled + dense_columns
        reject[1] = (
            BAD_LABEL if bad_column < labelled else BAD_DENSE if bad_column < ints else BAD_SPARSE
        )
        first_field = last = first + bad_column
        reject[4] = bad_column
    reject[2] = np.int64(field_ends[first_field - 1]) + 1 if first_field else 0
    reject[3] = field_ends[last]


BUCKETS: Final = 34
_CHUNK = 4096


@kernel
def measure_dense(
    dense: NDArray[np.int32],
    minima: NDArray[np.int64],
    maxima: NDArray[np.int64],
    total: NDArray[np.int64],
    histogram: NDArray[np.int64],
) -> None:
    """Add values to the statistics of their columns."""
    for first in range(0, len(dense), _CHUNK):  # so that a chunk stays in the cache
        stop = min(first + _CHUNK, len(dense))
        for column in range(dense.shape[1]):
            low, high, added = minima[column], maxima[column], np.int64(0)
            for row in range(first, stop):
                value = np.int64(dense[row, column])
                low, high = min(low, value), max(high, value)
                added += value
                histogram[column, _bucket_of(value)] += 1
            minima[column], maxima[column] = low, high
            total[column] += added


@inner_kernel
def _bucket_of(value: np.int64) -> np.int64:
    """0 for a negative value, 1 for 0, else 1 + its bits."""
    if value <= 0:
        return 1 + (value >> 63)
    bits: np.int64 = bit_length(value)
    return bits + 1


@kernel
def bit_length(value: np.int64) -> int:
    """Return the number of bits of a positive number, without leading zeros."""
    bits = 1
    for power in (32, 16, 8, 4, 2, 1):
        if value >> power:
            bits += power
            value >>= power
    return bits


@inner_kernel
def _mix_bits(value: np.uint64) -> np.uint64:
    """The finalizer of MurmurHash3 (32 bit): similar values are far apart."""
    low = np.uint64(0xFFFFFFFF)
    value = ((value ^ (value >> np.uint64(16))) * np.uint64(0x85EBCA6B)) & low
    value = ((value ^ (value >> np.uint64(13))) * np.uint64(0xC2B2AE35)) & low
    return value ^ (value >> np.uint64(16))


@kernel
def assign_ids(
    values: NDArray[np.uint32],
    start: int,
    slots: NDArray[np.uint64],
    count: int,
    counts: NDArray[np.uint32],
    ids: NDArray[np.int32],
    fresh: NDArray[np.uint32],
) -> tuple[int, int]:
    """Give each value `FIRST_ID` + its number, a new one the next; stops where `counts` is full."""
    mask = np.uint64(len(slots) - 1)
    low = np.uint64(0xFFFFFFFF)
    shift = np.uint64(32)
    known = count
    for index in range(start, len(values)):
        value = np.uint64(values[index])
        position = _mix_bits(value) & mask
        while True:
            slot = slots[position]
            if slot == 0:
                if count >= len(counts):
                    return index, count
                slots[position] = (value << shift) | np.uint64(count + 1)
                counts[count] = 1
                fresh[count - known] = values[index]
                ids[index] = FIRST_ID + count
                count += 1
                break
            if slot >> shift == value:
                number = np.int64(slot & low) - 1
                counts[number] += np.uint32(1)
                ids[index] = FIRST_ID + number
                break
            position = (position + np.uint64(1)) & mask
    return len(values), count


@kernel
def look_up_ids(
    values: NDArray[np.uint32],
    slots: NDArray[np.uint64],
    counts: NDArray[np.uint32],
    ids: NDArray[np.int32],
) -> int:
    """Give each value `FIRST_ID` + its number, `RARE_ID` if unseen; gives how many were unseen."""
    mask = np.uint64(len(slots) - 1)
    low = np.uint64(0xFFFFFFFF)
    shift = np.uint64(32)
    unseen = 0
    for index in range(len(values)):
        value = np.uint64(values[index])
        position = _mix_bits(value) & mask
        while slots[position] != 0 and slots[position] >> shift != value:
            position = (position + np.uint64(1)) & mask
        if slots[position] == 0:
            ids[index] = RARE_ID
            unseen += 1
        else:
            number = np.int64(slots[position] & low) - 1
            counts[number] += np.uint32(1)
            ids[index] = FIRST_ID + number
    return unseen


@kernel
def rehash_slots(old: NDArray[np.uint64], new: NDArray[np.uint64]) -> None:
    """Put the slots of a table into a larger, empty one."""
    mask = np.uint64(len(new) - 1)
    for slot in old:
        if slot != 0:
            position = _mix_bits(slot >> np.uint64(32)) & mask
            while new[position] != 0:
                position = (position + np.uint64(1)) & mask
            new[position] = slot
