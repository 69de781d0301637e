"""Number the features of rows by what tells the columns of a table apart."""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ingot.converters.errors import ConversionError
from ingot.converters.kernels.compile import allocating_kernel, inner_kernel, kernel
from ingot.converters.recsys.monolith.features import Features
from ingot.converters.recsys.monolith.record_index import Places, Rows, frozen

MAX_COLUMNS: Final = 10_000  # columns of features that a table may have
MAX_KEYS: Final = 2 * MAX_COLUMNS  # most of them columns, or unset beside values


class KeyParts(NamedTuple):
    """What E features are told apart by, beside their occurrence in the row."""

    name: NDArray[np.int32]
    ident: NDArray[np.int32]
    sorted_id: NDArray[np.int32]
    kind: NDArray[np.uint8]


_PARTS: Final = 5  # of a key: number of the name, occurrence, id, sorted_id, kind


@allocating_kernel
def number_keys(
    first: Places,
    parts: KeyParts,
    skipped: NDArray[np.bool_],
    known: Places,
    keys: NDArray[np.int64],
    count: int,
    table: NDArray[np.int32],
    out: NDArray[np.int32],
) -> int:
    """Number keys in the order in which they are first seen; return how many there are.

    The key after the one before is tried first: rows mostly repeat the order of the last one.
    """
    names, idents, sorted_ids, kinds = parts
    row_of, count_of = np.full(len(known), -1, np.int64), np.zeros(len(known), np.int64)
    number: int = -1
    key = np.empty(_PARTS, np.int64)
    for row in range(len(first) - 1):
        for entry in range(first[row], first[row + 1]):
            out[entry] = -1
            if skipped[entry]:
                continue
            name = names[entry]
            if row_of[name] != row:
                row_of[name], count_of[name] = row, 0
            key[0], key[1], key[2] = known[name], count_of[name], idents[entry]
            key[3], key[4] = sorted_ids[entry], kinds[entry]
            count_of[name] += 1
            number = number + 1 if number + 1 < count else 0
            if count == 0 or not _equals_key(keys, number, key):
                number = _find_key(keys, count, table, key)
                if number == len(keys):
                    return count + 1
                count = max(count, number + 1)
            out[entry] = number
    return count


@inner_kernel
def _equals_key(keys: NDArray[np.int64], number: int, key: Places) -> bool:
    same = True
    for part in range(_PARTS):
        same = same and keys[number, part] == key[part]
    return same


@inner_kernel
def _find_key(keys: NDArray[np.int64], count: int, table: NDArray[np.int32], key: Places) -> int:
    """The number of a key; that of a new one, unless there is no room, is the next."""
    mask, mixed = np.uint64(len(table) - 1), np.uint64(0)
    for part in range(_PARTS):
        mixed = (mixed ^ np.uint64(key[part])) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    slot = mixed & mask
    while table[slot] >= 0:
        if _equals_key(keys, np.int64(table[slot]), key):
            number: int = table[slot]
            return number
        slot = (slot + np.uint64(1)) & mask
    if count < len(keys):
        for part in range(_PARTS):
            keys[count, part] = key[part]
        table[slot] = count
    return count


@kernel
def add_keys(
    new_keys: NDArray[np.int64],
    keys: NDArray[np.int64],
    count: int,
    table: NDArray[np.int32],
    out: NDArray[np.int32],
) -> int:
    """Number keys that are whole, in their order; return how many there are."""
    for index in range(len(new_keys)):
        number = _find_key(keys, count, table, new_keys[index])
        if number == len(keys):
            return count + 1
        count = max(count, number + 1)
        out[index] = number
    return count


@kernel
def count_reordered(
    first: Places, raw: NDArray[np.bool_], numbers: NDArray[np.int32], positions: Places
) -> int:
    """Count the rows with a feature that stands behind one with a later place."""
    count = 0
    for row in range(len(first) - 1):
        before, falls = np.int64(-1), False
        for entry in range(first[row], first[row + 1]):
            if not raw[entry]:
                position = positions[numbers[entry]]
                falls |= position < before
                before = position
        count += falls
    return count


class FeatureKeys:
    """Numbers of what features are told apart by, in the order in which it was first seen.

    That is their name, how often it came before in the row, `id`, `sorted_id` and kind.
    """

    def __init__(self) -> None:
        self.names: dict[bytes, int] = {}
        self.count = 0
        self._keys = np.zeros((MAX_KEYS, _PARTS), np.int64)
        self._table = np.full(1 << (2 * MAX_KEYS).bit_length(), -1, np.int32)

    def number_features(
        self, rows: Rows, features: Features, strange: NDArray[np.bool_]
    ) -> NDArray[np.int32]:
        """Return int32[E]: the number of each feature's key, -1 for strange ones."""
        known = [self.names.setdefault(name, len(self.names)) for name in rows.names]
        of_rows = frozen(rows.name), frozen(rows.ident), frozen(rows.sorted_id)
        parts = KeyParts(*of_rows, frozen(features.kind))
        out = np.empty(len(rows.name), np.int32)
        names = frozen(np.array(known, np.int64))
        arguments = frozen(rows.first), parts, frozen(strange), names
        self.count = number_keys(*arguments, self._keys, self.count, self._table, out)
        if self.count > MAX_KEYS:
            raise too_many_columns(MAX_KEYS)
        return out

    def to_document(self) -> dict[str, Any]:
        """Return names, and all keys by the numbers of these, as JSON."""
        names = [name.decode() for name in self.names]
        return {"names": names, "keys": self._keys[: self.count].tolist()}

    def join(self, document: dict[str, Any]) -> NDArray[np.int32]:
        """Return int32[K]: the numbers of such a document's keys; unknown keys are added."""
        known = [
            self.names.setdefault(name.encode(), len(self.names)) for name in document["names"]
        ]
        other_keys = np.array(document["keys"], np.int64).reshape(-1, _PARTS)
        other_keys[:, 0] = np.array(known, np.int64)[other_keys[:, 0]]
        out = np.empty(len(other_keys), np.int32)
        self.count = add_keys(other_keys, self._keys, self.count, self._table, out)
        if self.count > MAX_KEYS:
            raise too_many_columns(MAX_KEYS)
        return out

    def key(self, number: int) -> tuple[int, int, int, int, int]:
        """Return the number of the name, the occurrence, `id`, `sorted_id` and kind of a key."""
        name, nth, ident, sorted_id, kind = map(int, self._keys[number])
        return name, nth, ident, sorted_id, kind


def too_many_columns(maximum: int) -> ConversionError:
    """Return the error of features that no table holds."""
    problem = f"more than {maximum:,} columns: features of so many names, ids and kinds"
    return ConversionError("", problem, "convert fewer features, or to Example")
