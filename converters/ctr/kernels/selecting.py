"""Which tokens of a row are kept, in which order, as which ids.

Tokens come as positions in the sorted list of all tokens of their field, so that comparing
positions is comparing texts. Sort keys are pairs of 32 bits in one unsigned number.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

# Columns of the sums of a feature, one row per split.
MISSING_ROWS, TOKENS, DISTINCT, CUT_ROWS, OOV_IDS, TAIL_IDS = 0, 1, 2, 3, 4, 5
SUMS = 6
# Columns of its float sums.
VALUE_BEFORE, VALUE_KEPT = 0, 1

AUTO, AUTO_MIX, TOPK = 0, 1, 2
_LOW = np.uint64(0xFFFFFFFF)
_HIGH = np.uint64(32)
_SIGN = np.uint32(0x80000000)
_ALL = np.uint32(0xFFFFFFFF)


@njit(cache=True, nogil=True)
def _descending(values: NDArray[np.float32], keys: NDArray[np.uint32]) -> None:
    """Numbers that are the smaller the larger the value is; -0.0 counts as 0.0."""
    bits = (values + np.float32(0.0)).view(np.uint32)
    for at in range(len(values)):
        number = bits[at]
        ascending = number ^ _ALL if number & _SIGN else number | _SIGN
        keys[at] = ascending ^ _ALL


@njit(cache=True, nogil=True)
def _distinct(tokens: NDArray[np.uint32], keys: NDArray[np.uint32], out: NDArray[np.uint64]) -> int:
    """(token, value) of each token with its largest value, sorted by token; how many."""
    count = len(tokens)
    for at in range(count):
        out[at] = (np.uint64(tokens[at]) << _HIGH) | np.uint64(keys[at])
    out[:count].sort()
    kept = 0
    for at in range(count):
        if kept == 0 or out[at] >> _HIGH != out[kept - 1] >> _HIGH:
            out[kept] = out[at]
            kept += 1
    return kept


@njit(cache=True, nogil=True)
def _value(pair: np.uint64, scratch: NDArray[np.uint32]) -> np.float32:
    """The value of a (token, value) pair; -0.0 has become 0.0."""
    ascending = np.uint32(pair & _LOW) ^ _ALL
    scratch[0] = ascending ^ _SIGN if ascending & _SIGN else ascending ^ _ALL
    return scratch.view(np.float32)[0]


@njit(cache=True, nogil=True)
def _informative(values: NDArray[np.float32], ratio: float, deviation: float) -> bool:
    """Whether values say more than that a token is there."""
    count = len(values)
    others, total = 0, 0.0
    for at in range(count):
        others += values[at] != np.float32(1.0)
        total += values[at]
    if others / count >= ratio:
        return True
    mean, squares = total / count, 0.0
    for at in range(count):
        squares += (values[at] - mean) ** 2
    return np.sqrt(squares / count) >= deviation


@njit(cache=True, nogil=True)
def _order(
    pairs: NDArray[np.uint64],
    priorities: NDArray[np.uint32],
    first: int,
    last: int,
    order: NDArray[np.uint64],
    taken: NDArray[np.bool_],
) -> int:
    """The places in `pairs` that are kept: `first` by value, then by frequency up to `last`.

    Fills `order` with them and returns how many.
    """
    count = len(pairs)
    kept = min(first, count)
    if kept:
        for at in range(count):
            # Pairs are sorted by token: equal values keep that order by their place.
            order[at] = ((pairs[at] & _LOW) << _HIGH) | np.uint64(at)
        order[:count].sort()
        for at in range(kept):
            order[at] &= _LOW
    taken[:count] = False
    for at in range(kept):
        taken[order[at]] = True
    rest = kept
    for at in range(count):
        if not taken[at]:
            priority = priorities[pairs[at] >> _HIGH]
            order[rest] = (np.uint64(priority) << _HIGH) | np.uint64(at)
            rest += 1
    order[kept:rest].sort()
    for at in range(kept, rest):
        order[at] &= _LOW
    return min(last, rest)


@njit(cache=True, nogil=True)
def select_lists(
    offsets: NDArray[np.int32],
    tokens: NDArray[np.uint32],
    values: NDArray[np.float32],
    priorities: NDArray[np.uint32],
    ids: NDArray[np.int64],
    longest: int,
    first: int,
    strategy: int,
    ratio: float,
    deviation: float,
    oov: int,
    tail: int,
    missing: tuple[int, float],
    splits: NDArray[np.uint8],
    weights: NDArray[np.int64],
    sums: NDArray[np.int64],
    shares: NDArray[np.float64],
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.float32], NDArray[np.int32]]:
    """Select, order and encode the lists of a multi-value feature.

    Args:
        offsets: int32[n + 1], the rows' tokens.
        tokens: places of the tokens in the sorted list of the field's tokens.
        values: their values, finite.
        priorities: for each token of the field its place in (rank, text).
        ids: for each token of the field its id.
        longest: the most tokens of a list.
        first: how many of them auto_mix takes by value.
        strategy: AUTO, AUTO_MIX or TOPK.
        ratio: of values that are not 1.0 from which on AUTO mixes,
        deviation: or population standard deviation.
        oov: the id that counts as out of vocabulary; -1 for none.
        tail: ids from it on count as tail.
        missing: id and value that stand for no token.
        splits: split of each row, for the sums.
        weights: how often each row counts in the sums.
        sums: int64[splits, SUMS], added to.
        shares: float64[splits, 2], added to.

    Returns:
        offsets, ids and values of the lists, and int32[n] distinct tokens before the selection.
    """
    rows = len(offsets) - 1
    room = 0
    widest = 1
    for row in range(rows):
        length = offsets[row + 1] - offsets[row]
        room += max(1, min(length, longest))
        widest = max(widest, length)
    out_offsets = np.zeros(rows + 1, np.int32)
    out_ids = np.empty(room, np.int64)
    out_values = np.empty(room, np.float32)
    before = np.zeros(rows, np.int32)
    keys = np.empty(widest, np.uint32)
    pairs = np.empty(widest, np.uint64)
    order = np.empty(widest, np.uint64)
    taken = np.empty(widest, np.bool_)
    row_values = np.empty(widest, np.float32)
    scratch = np.empty(1, np.uint32)
    place = 0
    for row in range(rows):
        start, end = offsets[row], offsets[row + 1]
        split, weight = splits[row], weights[row]
        if start == end:
            out_ids[place] = missing[0]
            out_values[place] = missing[1]
            place += 1
            out_offsets[row + 1] = place
            sums[split, MISSING_ROWS] += weight
            continue
        _descending(values[start:end], keys)
        count = _distinct(tokens[start:end], keys, pairs)
        total = 0.0
        for at in range(count):
            row_values[at] = _value(pairs[at], scratch)
            total += abs(row_values[at])
        mixed = strategy == AUTO_MIX or (
            strategy == AUTO and _informative(row_values[:count], ratio, deviation)
        )
        chosen = _order(pairs[:count], priorities, first if mixed else 0, longest, order, taken)
        kept = 0.0
        for at in range(chosen):
            index = order[at]
            number = ids[pairs[index] >> _HIGH]
            out_ids[place] = number
            out_values[place] = row_values[index]
            kept += abs(row_values[index])
            sums[split, OOV_IDS] += weight * (number == oov)
            sums[split, TAIL_IDS] += weight * (number >= tail)
            place += 1
        before[row] = count
        out_offsets[row + 1] = place
        sums[split, TOKENS] += weight * chosen
        sums[split, DISTINCT] += weight * count
        sums[split, CUT_ROWS] += weight * (chosen < count)
        shares[split, VALUE_BEFORE] += weight * total
        shares[split, VALUE_KEPT] += weight * kept
    return out_offsets, out_ids[:place], out_values[:place], before


@njit(cache=True, nogil=True)
def _count_distinct(tokens: NDArray[np.uint32]) -> int:
    """How many different tokens there are; there is at least one."""
    if len(tokens) == 1:
        return 1
    ordered = tokens.copy()
    ordered.sort()
    count = 1
    for at in range(1, len(ordered)):
        count += ordered[at] != ordered[at - 1]
    return count


@njit(cache=True, nogil=True)
def select_single(
    offsets: NDArray[np.int32],
    tokens: NDArray[np.uint32],
    values: NDArray[np.float32],
    priorities: NDArray[np.uint32],
    ids: NDArray[np.int64],
    oov: int,
    tail: int,
    missing: tuple[int, float],
    splits: NDArray[np.uint8],
    weights: NDArray[np.int64],
    sums: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Select and encode the one token of a single-value feature: largest value, then (rank, text).

    The arguments are those of `select_lists`.

    Returns:
        An id and a value for each row.
    """
    rows = len(offsets) - 1
    out_ids = np.empty(rows, np.int64)
    out_values = np.empty(rows, np.float32)
    for row in range(rows):
        start, end = offsets[row], offsets[row + 1]
        split, weight = splits[row], weights[row]
        if start == end:
            out_ids[row] = missing[0]
            out_values[row] = missing[1]
            sums[split, MISSING_ROWS] += weight
            continue
        best = start
        for at in range(start + 1, end):
            if values[at] > values[best] or (
                values[at] == values[best] and priorities[tokens[at]] < priorities[tokens[best]]
            ):
                best = at
        distinct = _count_distinct(tokens[start:end])
        number = ids[tokens[best]]
        out_ids[row] = number
        out_values[row] = values[best]
        sums[split, TOKENS] += weight
        sums[split, DISTINCT] += weight * distinct
        sums[split, CUT_ROWS] += weight * (distinct > 1)
        sums[split, OOV_IDS] += weight * (number == oov)
        sums[split, TAIL_IDS] += weight * (number >= tail)
    return out_ids, out_values


@njit(cache=True, nogil=True)
def gather_lists(
    rows: NDArray[np.int64],
    offsets: NDArray[np.int64],
    ids: NDArray[np.uint32],
    values: NDArray[np.float32],
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.float32]]:
    """The lists of rows, one after the other.

    Args:
        rows: which rows, in any order, repeated or not.
        offsets: int64[all rows + 1] of their lists.
        ids: of all lists.
        values: of all lists; empty where there are none.

    Returns:
        int32 offsets, ids and values of the lists asked for.
    """
    out_offsets = np.zeros(len(rows) + 1, np.int32)
    for at in range(len(rows)):
        row = rows[at]
        out_offsets[at + 1] = out_offsets[at] + (offsets[row + 1] - offsets[row])
    out_ids = np.empty(out_offsets[-1], np.int64)
    out_values = np.empty(out_offsets[-1] if len(values) else 0, np.float32)
    for at in range(len(rows)):
        start, place = offsets[rows[at]], out_offsets[at]
        for step in range(out_offsets[at + 1] - place):
            out_ids[place + step] = ids[start + step]
            if len(values):
                out_values[place + step] = values[start + step]
    return out_offsets, out_ids, out_values
