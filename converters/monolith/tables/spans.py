"""Stretches of bytes, taken apart and put together by kernels."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.monolith.features import BYTES
from ingot.converters.monolith.records import Bytes, Places
from ingot.converters.monolith.tables.kernels import (
    count_fields,
    count_varints,
    framed_places,
    join,
    put_framed,
    put_varints,
    split_fields,
    varint_places,
)

WIDTHS: Final = (8, 4)
"""Bytes of numbers that are not varints, by what values are."""


@dataclass(frozen=True, kw_only=True)
class Spans:
    """Stretches of bytes, one for each of N things."""

    data: Bytes
    start: Places
    stop: Places

    def __len__(self) -> int:
        return len(self.start)

    def counts(self, values: int) -> Places:
        """int64[N], how many values lie in each; `values` as in `features.VALUES`."""
        if values < len(WIDTHS):
            widths: Places = (self.stop - self.start) // WIDTHS[values]
            return widths
        counts = np.empty(len(self), np.int64)
        count = count_fields if values == BYTES else count_varints
        count(self.data, self.start, self.stop, counts)
        return counts

    def fields(self, count: int) -> "Spans":
        """The contents of the fields in them, `count` in all."""
        start, stop = np.empty(count, np.int64), np.empty(count, np.int64)
        split_fields(self.data, self.start, self.stop, start, stop)
        return Spans(data=self.data, start=start, stop=stop)

    def framed(
        self,
        tag: int,
        given: NDArray[np.bool_] | None = None,
        *,
        sized: bool = True,
        empty: bool = True,
    ) -> "Spans":
        """Each as a field.

        Args:
            tag: of the fields.
            given: bool[N], for the others there is nothing; all of them by default.
            sized: whether the fields have a size: those of other wire types have none.
            empty: whether there is a field for an empty stretch.
        """
        which = np.ones(len(self), np.bool_) if given is None else given
        places = np.empty(len(self) + 1, np.int64)
        framed_places(self.start, self.stop, which, tag, sized, empty, places)
        out = np.empty(int(places[-1]), np.uint8)
        put_framed(self.data, self.start, self.stop, which, tag, sized, empty, out)
        return Spans(data=out, start=places[:-1], stop=places[1:])

    def between(self, start: Places, stop: Places) -> "Spans":
        """Of stretches that follow one another: those from one to before another, joined."""
        places = np.append(self.start, self.stop[-1:] if len(self) else 0)
        return Spans(data=self.data, start=places[start], stop=places[stop])


def of_numbers(values: NDArray[np.generic]) -> Spans:
    """The bytes of each number."""
    width = values.dtype.itemsize
    start = np.arange(len(values), dtype=np.int64) * width
    data = np.ascontiguousarray(values).view(np.uint8)
    return Spans(data=data, start=start, stop=start + width)


def of_varints(values: NDArray[np.int64]) -> Spans:
    """Numbers as varints, negative ones as of 64 bits."""
    places = np.empty(len(values) + 1, np.int64)
    varint_places(values, places)
    out = np.empty(int(places[-1]), np.uint8)
    put_varints(values, out)
    return Spans(data=out, start=places[:-1], stop=places[1:])


def stacked(parts: list[Spans], pieces: int) -> tuple[Bytes, Places, Places]:
    """Parts in one piece of data.

    Args:
        parts: of P times N stretches in all.
        pieces: P.

    Returns:
        uint8[B] and int64[P, N] each where they begin and end.
    """
    offset, start, stop = 0, [], []
    for part in parts:
        start.append(part.start + offset)
        stop.append(part.stop + offset)
        offset += len(part.data)
    shape = pieces, sum(map(len, parts)) // pieces
    data = np.concatenate([part.data for part in parts])
    return data, np.concatenate(start).reshape(shape), np.concatenate(stop).reshape(shape)


def joined(parts: list[Spans]) -> Spans:
    """The stretches of the same thing in all parts, one behind the other."""
    data, start, stop = stacked(parts, len(parts))
    places = np.empty(start.shape[1] + 1, np.int64)
    out = np.empty(int(np.sum(stop - start)), np.uint8)
    join(data, start, stop, places, out)
    return Spans(data=out, start=places[:-1], stop=places[1:])
