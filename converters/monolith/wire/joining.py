"""Rows of several stretches of a stream as one, and rows without the bytes of others."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from ingot.converters.monolith.rows import ENTRY_ARRAYS, ROW_ARRAYS, Rows
from ingot.converters.monolith.wire.assembling import gathered

_SPANS: Final = (
    ("start", "stop"),
    ("extra_start", "extra_stop"),
    ("line_start", "line_stop"),
    ("rest_start", "rest_stop"),
    ("sort_start", "sort_stop"),
)
"""The arrays of `Rows` that are places in its bytes: where something begins, where it ends."""
_PLACES: Final = frozenset(name for span in _SPANS for name in span)


def compact(rows: Rows) -> Rows:
    """The same rows in bytes of their own, without those of others."""
    starts = np.concatenate([getattr(rows, start) for start, _ in _SPANS])
    stops = np.concatenate([getattr(rows, stop) for _, stop in _SPANS])
    data, first = gathered(rows.data, starts, stops)
    moved: dict[str, Any] = {}
    at = 0
    for start, stop in _SPANS:
        before = getattr(rows, start)
        places = slice(at, at + len(before))
        moved[start] = np.where(before < 0, -1, first[:-1][places])
        moved[stop] = np.where(before < 0, -1, first[1:][places])
        at = places.stop
    return replace(rows, data=data, **moved)


def join(parts: Sequence[Rows]) -> Rows:
    """Rows one behind the other.

    Args:
        parts: at least one.
    """
    if len(parts) == 1:
        return parts[0]
    numbers: dict[bytes, int] = {}
    arrays: dict[str, list[Any]] = {name: [] for name in (*ENTRY_ARRAYS, *ROW_ARRAYS)}
    shifts = _shifts(parts)
    for part in parts:
        renamed = np.array([numbers.setdefault(n, len(numbers)) for n in part.names], np.int32)
        for name, pieces in arrays.items():
            piece = getattr(part, name)
            if name == "name":
                piece = renamed[piece]
            elif name in _PLACES:
                piece = np.where(piece < 0, -1, piece + shifts[id(part.data)])
            pieces.append(piece)
    stretches = {id(part.data): part.data for part in parts}
    return Rows(
        data=np.concatenate(list(stretches.values())),
        names=tuple(numbers),
        first=_summed([np.diff(part.first) for part in parts]),
        label_first=_summed([np.diff(part.label_first) for part in parts]),
        label=np.concatenate([part.label for part in parts]),
        **{name: np.concatenate(pieces) for name, pieces in arrays.items()},
    )


def _shifts(parts: Sequence[Rows]) -> dict[int, int]:
    """Where the bytes of each stretch begin among all of them; parts can lie in the same bytes."""
    shifts: dict[int, int] = {}
    at = 0
    for part in parts:
        if id(part.data) not in shifts:
            shifts[id(part.data)] = at
            at += len(part.data)
    return shifts


def _summed(counts: list[Any]) -> Any:  # noqa: ANN401 - an array of places
    first = np.zeros(sum(map(len, counts)) + 1, np.int64)
    np.cumsum(np.concatenate(counts), out=first[1:])
    return first
