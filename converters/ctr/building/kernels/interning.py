"""A hash table from (field, bytes) to codes 0, 1, 2, ... in order of appearance.

The table is a set of arrays, so that it holds tens of millions of tokens in little more than their
bytes: `slots` (open addressing, -1 = free), and for each code its hash, its field and the end of
its bytes in `arena`.
"""

import numpy as np
from numpy.typing import NDArray

from ingot.converters.compiling import kernel

_PRIME = np.uint64(0x100000001B3)
_BASIS = np.uint64(0xCBF29CE484222325)
_MIX = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(32)
_BYTE = np.uint64(8)


@kernel
def hash_bytes(text: NDArray[np.uint8], start: int, length: int, field: int) -> np.uint64:
    """FNV-1a of a stretch of bytes and a number, mixed; not a cryptographic hash."""
    value = (_BASIS ^ np.uint64(field)) * _MIX
    for at in range(start, start + length):
        value = (value ^ np.uint64(text[at])) * _PRIME
    value = (value ^ (value >> _SHIFT)) * _MIX
    return value ^ (value >> _SHIFT)


@kernel
def hash_spans(
    text: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int32]
) -> NDArray[np.uint64]:
    """The hash of every stretch."""
    hashes = np.empty(len(starts), np.uint64)
    for at in range(len(starts)):
        hashes[at] = hash_bytes(text, starts[at], lengths[at], 0)
    return hashes


@kernel
def rehash(slots: NDArray[np.int32], hashes: NDArray[np.uint64], count: int) -> None:
    """Enter all codes into larger, free slots."""
    mask = np.uint64(len(slots) - 1)
    for code in range(count):
        at = hashes[code] & mask
        while slots[at] >= 0:
            at = (at + np.uint64(1)) & mask
        slots[at] = code


@kernel
def intern(
    text: NDArray[np.uint8],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int32],
    fields: NDArray[np.int16],
    slots: NDArray[np.int32],
    hashes: NDArray[np.uint64],
    owners: NDArray[np.int16],
    arena: NDArray[np.uint8],
    ends: NDArray[np.int64],
    count: int,
    codes: NDArray[np.int32],
) -> int:
    """Give every token its code; the arrays must have room for all of them being new.

    Args:
        text: bytes with the tokens.
        starts: first byte of each token.
        lengths: bytes of each token.
        fields: field of each token.
        slots: a power of two of them, -1 = free.
        hashes: of each code.
        owners: field of each code.
        arena: bytes of all codes.
        ends: ends[code] is where its bytes start in the arena, ends[code + 1] where they end.
        count: codes so far.
        codes: filled: the code of each token.

    Returns:
        Codes after it.
    """
    mask = np.uint64(len(slots) - 1)
    for token in range(len(starts)):
        start, length, field = starts[token], lengths[token], fields[token]
        value = hash_bytes(text, start, length, field)
        at = value & mask
        while True:
            code = slots[at]
            if code < 0:
                slots[at] = count
                hashes[count] = value
                owners[count] = field
                first = ends[count]
                for byte in range(length):
                    arena[first + byte] = text[start + byte]
                ends[count + 1] = first + length
                code = count
                count += 1
                break
            if hashes[code] == value and _is(text, start, length, field, code, owners, arena, ends):
                break
            at = (at + np.uint64(1)) & mask
        codes[token] = code
    return count


@kernel
def _is(
    text: NDArray[np.uint8],
    start: int,
    length: int,
    field: int,
    code: int,
    owners: NDArray[np.int16],
    arena: NDArray[np.uint8],
    ends: NDArray[np.int64],
) -> bool:
    """Whether a code stands for these bytes and this field."""
    first = ends[code]
    if owners[code] != field or ends[code + 1] - first != length:
        return False
    different = 0
    for byte in range(length):
        different |= arena[first + byte] ^ text[start + byte]
    return different == 0
