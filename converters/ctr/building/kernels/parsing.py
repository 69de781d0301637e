r"""Lines and tokens of the raw Ali-CCP files: their places in a block of bytes, and values.

A line is `cuts` commas, then tokens joined by byte 1; a token is `field \x02 id \x03 value`.
"""

import numpy as np
from numpy.typing import NDArray

from ingot.converters.compiling import kernel

NEWLINE, RETURN, COMMA, JOIN, ID, VALUE = 10, 13, 44, 1, 2, 3
_MINUS, _PLUS, _DOT, _ZERO = 45, 43, 46, 48
_MOST = ((1 << 53) - 10) // 10  # ten times it and a digit is still a whole number of a float64
_PLACES = 22  # powers of ten up to this one are exact too
_TENS = np.array([float(10**place) for place in range(_PLACES + 1)])


@kernel
def scan_lines(
    block: NDArray[np.uint8],
    size: int,
    commas: int,
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    cuts: NDArray[np.int64],
    plain: NDArray[np.bool_],
) -> int:
    r"""Find lines and their first commas; a line's `\r` before its `\n` is no part of it.

    Args:
        block: whole lines; the last one may lack its `\\n`.
        size: bytes of the block that count.
        commas: how many commas to find.
        starts: filled: first byte of each line.
        ends: filled: byte after each line.
        cuts: [lines, commas], filled: places of the commas; -1 where there are fewer.
        plain: filled: whether all bytes before the last of those commas are ASCII.

    Returns:
        Number of lines.
    """
    line, at = 0, 0
    while at < size:
        starts[line] = at
        found, high = 0, 0
        while at < size and block[at] != NEWLINE:
            if found < commas:
                high |= block[at]
                if block[at] == COMMA:
                    cuts[line, found] = at
                    found += 1
            at += 1
        ends[line] = at - 1 if at > starts[line] and block[at - 1] == RETURN else at
        for missing in range(found, commas):
            cuts[line, missing] = -1
        plain[line] = high < 128
        line += 1
        at += 1
    return line


@kernel
def _number(block: NDArray[np.uint8], start: int, end: int) -> tuple[bool, float]:
    """A plain decimal, exactly as `float` reads it; (False, 0.0) for whatever else it may be."""
    at = start
    negative = at < end and block[at] == _MINUS
    if at < end and (block[at] == _MINUS or block[at] == _PLUS):
        at += 1
    whole, digits, places, dot = np.int64(0), 0, 0, False
    while at < end:
        byte = block[at]
        if byte == _DOT and not dot:
            dot = True
        else:
            digit = np.int64(byte) - _ZERO
            if digit < 0 or digit > 9 or whole > _MOST:
                return False, 0.0
            whole = whole * 10 + digit
            digits += 1
            places += dot
        at += 1
    if digits == 0 or places > _PLACES:
        return False, 0.0
    value = np.float64(whole) / _TENS[places]
    return True, -value if negative else value


@kernel
def _field(
    block: NDArray[np.uint8],
    start: int,
    end: int,
    names: NDArray[np.uint8],
    name_ends: NDArray[np.int64],
    guess: int,
) -> int:
    """The number of the field whose name stands there; the number of fields for none."""
    count = len(name_ends)
    for step in range(count):
        at = (guess + step) % count
        first = name_ends[at - 1] if at else 0
        if name_ends[at] - first != end - start:
            continue
        same = True
        for byte in range(end - start):
            if block[start + byte] != names[first + byte]:
                same = False
                break
        if same:
            return at
    return count


@kernel
def _find(block: NDArray[np.uint8], start: int, end: int, wanted: int) -> int:
    """The first place of a byte; `end` if it is not there."""
    at = start
    while at < end and block[at] != wanted:
        at += 1
    return at


@kernel
def parse_tokens(
    block: NDArray[np.uint8],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    names: NDArray[np.uint8],
    name_ends: NDArray[np.int64],
    rows: NDArray[np.int32],
    fields: NDArray[np.int16],
    ids: NDArray[np.int64],
    lengths: NDArray[np.int32],
    values: NDArray[np.float32],
    numbers: NDArray[np.int64],
    doubtful: NDArray[np.bool_],
    counts: NDArray[np.int32],
) -> tuple[int, int, int]:
    """Split lists of tokens.

    Args:
        block: bytes.
        starts: first byte of each list.
        ends: byte after each list.
        names: the names of the known fields, one after the other.
        name_ends: where each of them ends.
        rows: filled: the list that a token stands in.
        fields: filled: its field, `len(name_ends)` for an unknown one.
        ids: filled: where its id starts.
        lengths: filled: bytes of its id.
        values: filled: its value; NaN where it is no plain decimal.
        numbers: filled: where the text of its value starts.
        doubtful: filled: whether the value is no plain decimal or the id is not ASCII, so that it
            has to be looked at again.
        counts: filled: pieces that are not empty, of each list.

    Returns:
        Tokens found, pieces without a separator before their id, and without one before their
        value.
    """
    count, no_id, no_value, field = 0, 0, 0, 0
    for row in range(len(starts)):
        at, end, pieces = starts[row], ends[row], 0
        while at < end:
            # One look at every byte: the separators in the order in which they have to stand.
            first = _find_two(block, at, end, ID)
            stop = first
            if first < end and block[first] == ID:
                second = _find_two(block, first + 1, end, VALUE)
                stop = second
                if second < end and block[second] == VALUE:
                    stop = _find(block, second + 1, end, JOIN)
                    exact, value = _number(block, second + 1, stop)
                    high = 0
                    for byte in range(at, second):
                        high |= block[byte]
                    field = _field(block, at, first, names, name_ends, field)
                    rows[count] = row
                    fields[count] = field
                    ids[count] = first + 1
                    lengths[count] = second - first - 1
                    values[count] = np.float32(value if exact else np.nan)
                    numbers[count] = second + 1
                    doubtful[count] = not exact or high >= 128
                    count += 1
                    pieces += 1
                else:
                    no_value += 1
                    pieces += 1
            elif first > at:
                no_id += 1
                pieces += 1
            at = stop + 1
        counts[row] = pieces
    return count, no_id, no_value


@kernel
def _find_two(block: NDArray[np.uint8], start: int, end: int, wanted: int) -> int:
    """The first place of a byte or of the end of the token."""
    at = start
    while at < end and block[at] != wanted and block[at] != JOIN:
        at += 1
    return at
