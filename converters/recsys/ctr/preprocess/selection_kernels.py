"""Which tokens of a row are kept, in which order, as which ids.

Tokens come as positions in the sorted list of all tokens of their field, so that comparing
positions is comparing texts. Sort keys are pairs of 32 bits in one unsigned number.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ingot.converters.kernels.compile import allocating_kernel, kernel

# Columns of the sums of a feature, one row per split.
MISSING_ROWS, TOKENS, DISTINCT, CUT_ROWS, OOV_IDS, TAIL_IDS = 0, 1, 2, 3, 4, 5
# Columns of its float sums.
VALUE_BEFORE, VALUE_KEPT = 0, 1

AUTO, AUTO_MIX, TOPK = 0, 1, 2
_LOW = np.uint64(0xFFFFFFFF)
_HIGH = np.uint64(32)
_SIGN = np.uint32(0x80000000)
_ALL = np.uint32(0xFFFFFFFF)


class TokenLists(NamedTuple):
    """Lists of tokens of rows: int32[n + 1] offsets, uint32 tokens, float32 values."""

    offsets: NDArray[np.int32]
    tokens: NDArray[np.uint32]
    values: NDArray[np.float32]


class TokenIds(NamedTuple):
    """What becomes of the tokens of a field, by their places in its sorted texts."""

    ids: NDArray[np.int64]  # int64, see `ids_of`
    priorities: NDArray[np.uint32]  # uint32, the place in the order of (rank, text)
    tails: NDArray[np.bool_]
    oov: int  # the id of unknown tokens, -1 for none
    missing_id: int
    missing_value: float


class Choice(NamedTuple):
    """How tokens of a list are chosen: the longest list, how many of them by value, strategy."""

    longest: int
    first: int
    strategy: int
    ratio: float
    deviation: float


class RowWeights(NamedTuple):
    """The split of each row (uint8), and how often it counts (int64)."""

    splits: NDArray[np.uint8]
    weights: NDArray[np.int64]


class _Scratch(NamedTuple):
    """Room for the tokens of a row."""

    keys: NDArray[np.uint32]
    pairs: NDArray[np.uint64]
    distinct: NDArray[np.float32]
    order: NDArray[np.uint64]
    taken: NDArray[np.bool_]


@allocating_kernel
def _descending_keys(values: NDArray[np.float32], keys: NDArray[np.uint32]) -> None:
    """Numbers that are the smaller the larger the value is; -0.0 counts as 0.0."""
    bits = (values + np.float32(0.0)).view(np.uint32)
    for at in range(len(values)):
        number = bits[at]
        ascending = number ^ _ALL if number & _SIGN else number | _SIGN
        keys[at] = ascending ^ _ALL


@allocating_kernel
def _distinct_pairs(
    tokens: NDArray[np.uint32], keys: NDArray[np.uint32], out: NDArray[np.uint64]
) -> int:
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


@kernel
def _are_informative(values: NDArray[np.float32], ratio: float, deviation: float) -> bool:
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
    return bool(np.sqrt(squares / count) >= deviation)


@allocating_kernel
def _order_pairs(
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


@kernel
def _list_room(offsets: NDArray[np.int32], longest: int) -> tuple[int, int]:
    """The most ids that the lists can have together, and the most tokens of a row, at least 1."""
    room, widest = 0, 1
    for row in range(len(offsets) - 1):
        length = offsets[row + 1] - offsets[row]
        room += max(1, min(length, longest))
        widest = max(widest, length)
    return room, widest


@kernel
def _keep_signs(
    tokens: NDArray[np.uint32],
    values: NDArray[np.float32],
    pairs: NDArray[np.uint64],
    distinct: NDArray[np.float32],
) -> None:
    """Give zeros the sign that they came with; of equal values of a token the first one's."""
    negative = False
    for at in range(len(values)):
        negative |= values[at] == 0 and np.signbit(values[at])
    if not negative:
        return
    for at in range(len(tokens) - 1, -1, -1):
        if values[at] == 0:
            # Behind all pairs of smaller tokens, at the first of this one: there is one only.
            place = np.searchsorted(pairs, np.uint64(tokens[at]) << _HIGH)
            if distinct[place] == 0:
                distinct[place] = values[at]


@kernel
def _choose_tokens(
    tokens: NDArray[np.uint32],
    values: NDArray[np.float32],
    priorities: NDArray[np.uint32],
    choice: Choice,
    scratch: _Scratch,
) -> tuple[int, int]:
    """Select the tokens of a row.

    Fills `pairs` with its distinct tokens, `distinct` with their values and `order` with the places
    of those that are kept; returns how many are distinct and how many are kept.
    """
    pairs, distinct = scratch.pairs, scratch.distinct
    _descending_keys(values, scratch.keys)
    count = _distinct_pairs(tokens, scratch.keys, pairs)
    bits = distinct.view(np.uint32)
    for at in range(count):  # -0.0 becomes 0.0
        ascending = np.uint32(pairs[at] & _LOW) ^ _ALL
        bits[at] = ascending ^ _SIGN if ascending & _SIGN else ascending ^ _ALL
    _keep_signs(tokens, values, pairs[:count], distinct)
    mixed = choice.strategy == AUTO_MIX
    if choice.strategy == AUTO:
        mixed = _are_informative(distinct[:count], choice.ratio, choice.deviation)
    first = choice.first if mixed else 0
    kept = _order_pairs(
        pairs[:count], priorities, first, choice.longest, scratch.order, scratch.taken
    )
    return count, kept


@kernel
def _encode_chosen(
    scratch: _Scratch,
    kept: int,
    vocabulary: TokenIds,
    weight: int,
    out_ids: NDArray[np.int64],
    out_values: NDArray[np.float32],
    counts: NDArray[np.int64],
) -> float:
    """Fill in ids and values of the chosen tokens; returns the sum of their absolute values."""
    total = 0.0
    for at in range(kept):
        index = scratch.order[at]
        token = scratch.pairs[index] >> _HIGH
        number = vocabulary.ids[token]
        out_ids[at] = number
        out_values[at] = scratch.distinct[index]
        total += abs(scratch.distinct[index])
        counts[OOV_IDS] += weight * (number == vocabulary.oov)
        counts[TAIL_IDS] += weight * vocabulary.tails[token]
    return total


@kernel
def add_exactly(pair: NDArray[np.float64], number: float) -> None:
    """Add to a sum and note what rounding takes, so that parts of it can be added up later."""
    total = pair[0] + number
    there = total - pair[0]
    pair[1] += (pair[0] - (total - there)) + (number - there)
    pair[0] = total


@allocating_kernel
def select_lists(
    lists: TokenLists,
    vocabulary: TokenIds,
    choice: Choice,
    weighted: RowWeights,
    counts: NDArray[np.int64],
    sums: NDArray[np.float64],
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.float32], NDArray[np.int32]]:
    """Select, order and encode the lists of a multi-value feature."""
    offsets = lists.offsets
    rows = len(offsets) - 1
    room, widest = _list_room(offsets, choice.longest)
    out_offsets, before = np.zeros(rows + 1, np.int32), np.zeros(rows, np.int32)
    out_ids, out_values = np.empty(room, np.int64), np.empty(room, np.float32)
    scratch = _Scratch(
        np.empty(widest, np.uint32),
        np.empty(widest, np.uint64),
        np.empty(widest, np.float32),
        np.empty(widest, np.uint64),
        np.empty(widest, np.bool_),
    )
    place = 0
    for row in range(rows):
        start, end = offsets[row], offsets[row + 1]
        split, weight = weighted.splits[row], weighted.weights[row]
        if start == end:
            out_ids[place] = vocabulary.missing_id
            out_values[place] = vocabulary.missing_value
            place += 1
            counts[split, MISSING_ROWS] += weight
        else:
            tokens, values = lists.tokens[start:end], lists.values[start:end]
            count, kept = _choose_tokens(tokens, values, vocabulary.priorities, choice, scratch)
            share = _encode_chosen(
                scratch,
                kept,
                vocabulary,
                weight,
                out_ids[place:],
                out_values[place:],
                counts[split],
            )
            before[row] = count
            place += kept
            counts[split, TOKENS] += weight * kept
            counts[split, DISTINCT] += weight * count
            counts[split, CUT_ROWS] += weight * (kept < count)
            total = 0.0  # of 64 bits: values near the largest of 32 have a sum
            for at in range(count):
                total += abs(scratch.distinct[at])
            add_exactly(sums[split, VALUE_BEFORE], weight * total)
            add_exactly(sums[split, VALUE_KEPT], weight * share)
        out_offsets[row + 1] = place
    return out_offsets, out_ids[:place], out_values[:place], before


@allocating_kernel
def select_single(
    lists: TokenLists, vocabulary: TokenIds, weighted: RowWeights, counts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Encode the one token of a single-value feature: largest value, then (rank, text)."""
    offsets, tokens, values = lists.offsets, lists.tokens, lists.values
    priorities = vocabulary.priorities
    rows = len(offsets) - 1
    out_ids = np.empty(rows, np.int64)
    out_values = np.empty(rows, np.float32)
    for row in range(rows):
        start, end = offsets[row], offsets[row + 1]
        split, weight = weighted.splits[row], weighted.weights[row]
        if start == end:
            out_ids[row] = vocabulary.missing_id
            out_values[row] = vocabulary.missing_value
            counts[split, MISSING_ROWS] += weight
            continue
        best = start
        for at in range(start + 1, end):
            if values[at] > values[best] or (
                values[at] == values[best] and priorities[tokens[at]] < priorities[tokens[best]]
            ):
                best = at
        others = 0
        for at in range(start, end):
            others |= tokens[at] != tokens[best]
        number = vocabulary.ids[tokens[best]]
        out_ids[row] = number
        out_values[row] = values[best]
        counts[split, TOKENS] += weight
        counts[split, CUT_ROWS] += weight * others
        counts[split, OOV_IDS] += weight * (number == vocabulary.oov)
        counts[split, TAIL_IDS] += weight * vocabulary.tails[tokens[best]]
    return out_ids, out_values


@allocating_kernel
def gather_lists(
    rows: NDArray[np.int64],
    offsets: NDArray[np.int64],
    ids: NDArray[np.uint32],
    values: NDArray[np.float32],
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.float32]]:
    """Copy the lists of rows, one after the other."""
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
