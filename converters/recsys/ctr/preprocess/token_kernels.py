"""Kernels that find lines and tokens in raw Ali-CCP files and give every distinct token a code.

The hash table from (field, bytes) to codes is a set of arrays, so that it holds tens of millions
of tokens in little more than their bytes.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ingot.converters.kernels.compile import allocating_kernel, kernel

_PRIME = np.uint64(0x100000001B3)
_BASIS = np.uint64(0xCBF29CE484222325)
_MIX = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(32)


@kernel
def hash_bytes(text: NDArray[np.uint8], start: int, length: int, field: int) -> np.uint64:
    """Return a mixed FNV-1a hash of a span of bytes and a number; it is not cryptographic."""
    value = (_BASIS ^ np.uint64(field)) * _MIX
    for at in range(start, start + length):
        value = (value ^ np.uint64(text[at])) * _PRIME
    value = (value ^ (value >> _SHIFT)) * _MIX
    return value ^ (value >> _SHIFT)


@allocating_kernel
def hash_spans(
    text: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int32]
) -> NDArray[np.uint64]:
    """Return the hash of every span."""
    hashes = np.empty(len(starts), np.uint64)
    for at in range(len(starts)):
        hashes[at] = hash_bytes(text, starts[at], lengths[at], 0)
    return hashes


@kernel
def rehash_slots(slots: NDArray[np.int32], hashes: NDArray[np.uint64], count: int) -> None:
    """Enter all codes into larger, free slots."""
    mask = np.uint64(len(slots) - 1)
    for code in range(count):
        at = hashes[code] & mask
        while slots[at] >= 0:
            at = (at + np.uint64(1)) & mask
        slots[at] = code


class TokenTable(NamedTuple):
    """The table: free `slots` are -1; for each code its hash, field and end in `arena`."""

    slots: NDArray[np.int32]
    hashes: NDArray[np.uint64]
    owners: NDArray[np.int16]
    arena: NDArray[np.uint8]
    ends: NDArray[np.int64]


@kernel
def intern_tokens(
    text: NDArray[np.uint8],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int32],
    fields: NDArray[np.int16],
    table: TokenTable,
    count: int,
    codes: NDArray[np.int32],
) -> int:
    """Give every token its code; the arrays must have room for all of them being new."""
    slots, ends = table.slots, table.ends
    mask = np.uint64(len(slots) - 1)
    for token in range(len(starts)):
        start, length, field = starts[token], lengths[token], fields[token]
        value = hash_bytes(text, start, length, field)
        at = value & mask
        while True:
            code = slots[at]
            if code < 0:
                slots[at] = count
                table.hashes[count] = value
                table.owners[count] = field
                first = ends[count]
                for byte in range(length):
                    table.arena[first + byte] = text[start + byte]
                ends[count + 1] = first + length
                code = count
                count += 1
                break
            if table.hashes[code] == value and _matches_code(
                text, start, length, field, code, table
            ):
                break
            at = (at + np.uint64(1)) & mask
        codes[token] = code
    return count


@kernel
def _matches_code(
    text: NDArray[np.uint8], start: int, length: int, field: int, code: int, table: TokenTable
) -> bool:
    first = table.ends[code]
    if table.owners[code] != field or table.ends[code + 1] - first != length:
        return False
    different = 0
    for byte in range(length):
        different |= table.arena[first + byte] ^ text[start + byte]
    return different == 0


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
    r"""Find lines and their first commas; a line's `\r` before its `\n` is no part of it."""
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
def _parse_decimal(block: NDArray[np.uint8], start: int, end: int) -> tuple[bool, float]:
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


class FieldNames(NamedTuple):
    """Names as bytes, one after the other, and where each ends."""

    text: NDArray[np.uint8]
    ends: NDArray[np.int64]


@kernel
def _field_number(
    block: NDArray[np.uint8], start: int, end: int, names: FieldNames, guess: int
) -> int:
    """The number of the field whose name stands there; the number of fields for none."""
    count = len(names.ends)
    for step in range(count):
        at = (guess + step) % count
        first = names.ends[at - 1] if at else 0
        if names.ends[at] - first != end - start:
            continue
        same = True
        for byte in range(end - start):
            if block[start + byte] != names.text[first + byte]:
                same = False
                break
        if same:
            return at
    return count


class TokenArrays(NamedTuple):
    """Tokens of a block: row, field number, place and length of the id, value."""

    rows: NDArray[np.int32]
    fields: NDArray[np.int16]
    ids: NDArray[np.int64]
    lengths: NDArray[np.int32]
    values: NDArray[np.float32]  # NaN where Python has to read the number
    numbers: NDArray[np.int64]  # where the number begins
    doubtful: NDArray[np.bool_]

    def take(self, places: NDArray[np.int64]) -> "TokenArrays":
        """Return the tokens at some positions."""
        return TokenArrays._make(column[places] for column in self)


@kernel
def parse_tokens(
    block: NDArray[np.uint8],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    names: FieldNames,
    tokens: TokenArrays,
    counts: NDArray[np.int32],
) -> tuple[int, int, int]:
    """Split lists of tokens."""
    count, no_id, no_value, field = 0, 0, 0, 0
    for row in range(len(starts)):
        at, end, pieces = starts[row], ends[row], 0
        while at < end:
            # One look at every byte: the separators in the order in which they have to stand.
            first = _find_byte_or_token_end(block, at, end, ID)
            stop = first
            if first < end and block[first] == ID:
                second = _find_byte_or_token_end(block, first + 1, end, VALUE)
                stop = second
                if second < end and block[second] == VALUE:
                    stop = _find_byte_or_token_end(block, second + 1, end, JOIN)
                    exact, value = _parse_decimal(block, second + 1, stop)
                    high = 0
                    for byte in range(at, second):
                        high |= block[byte]
                    field = _field_number(block, at, first, names, field)
                    tokens.rows[count] = row
                    tokens.fields[count] = field
                    tokens.ids[count] = first + 1
                    tokens.lengths[count] = second - first - 1
                    tokens.values[count] = np.float32(value if exact else np.nan)
                    tokens.numbers[count] = second + 1
                    tokens.doubtful[count] = not exact or high >= 128
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
def _find_byte_or_token_end(block: NDArray[np.uint8], start: int, end: int, wanted: int) -> int:
    """The first place of a byte or of the end of the token."""
    at = start
    while at < end and block[at] != wanted and block[at] != JOIN:
        at += 1
    return at


@allocating_kernel
def group_tokens(
    rows: NDArray[np.int32],
    fields: NDArray[np.int16],
    codes: NDArray[np.int32],
    values: NDArray[np.float32],
    count: int,
    kinds: int,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]:
    """Order tokens by (field, row), keeping the order within both."""
    offsets = np.zeros((kinds, count + 1), np.int32)
    for at in range(len(rows)):
        offsets[fields[at], rows[at] + 1] += 1
    starts = np.zeros(kinds + 1, np.int64)
    for kind in range(kinds):
        for row in range(count):
            offsets[kind, row + 1] += offsets[kind, row]
        starts[kind + 1] = starts[kind] + offsets[kind, count]
    free = starts[:-1].copy()
    new_codes = np.empty(len(rows), np.int32)
    new_values = np.empty(len(rows), np.float32)
    for at in range(len(rows)):
        place = free[fields[at]]
        new_codes[place] = codes[at]
        new_values[place] = values[at]
        free[fields[at]] = place + 1
    return starts, offsets, new_codes, new_values


@kernel
def count_codes(codes: NDArray[np.int32], counts: NDArray[np.int64]) -> None:
    """Count occurrences."""
    for at in range(len(codes)):
        counts[codes[at]] += 1


@kernel
def count_weighted(
    offsets: NDArray[np.int32],
    codes: NDArray[np.int32],
    weights: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> None:
    """Count occurrences, those of row i weights[i] times."""
    for row in range(len(weights)):
        if weights[row]:
            for at in range(offsets[row], offsets[row + 1]):
                counts[codes[at]] += weights[row]
