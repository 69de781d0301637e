"""Rows of groups as one sequence of positions, and orders drawn from seeds."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


def permutation(size: int, *seeds: int) -> npt.NDArray[np.int64]:
    """int64[size], an order of 0..size-1 that the seeds give in every release of numpy."""
    # RandomState's stream is frozen; Generator's may change between releases of numpy.
    state = np.random.RandomState(np.random.MT19937(np.random.SeedSequence(list(seeds))))
    return state.permutation(size).astype(np.int64, copy=False)


@dataclass(frozen=True, kw_only=True)
class Span:
    """Rows start..stop-1 of a group, such as a row group or a file."""

    group: int
    start: int
    stop: int


class Sequenced:
    """The positions of an epoch, as groups of rows one behind another.

    Args:
        sizes: int64[G], the rows of each group.
        order: int64[G], the groups as they stand in the sequence.
    """

    def __init__(self, sizes: npt.NDArray[np.int64], order: npt.NDArray[np.int64]) -> None:
        self._order = order
        self._ends = np.cumsum(sizes[order])

    def spans(self, start: int, stop: int) -> Iterator[Span]:
        """The rows at positions start..stop-1."""
        place = int(np.searchsorted(self._ends, start, side="right"))
        while start < stop:
            end = int(self._ends[place])
            begin = int(self._ends[place - 1]) if place else 0
            until = min(stop, end)
            group = int(self._order[place])
            yield Span(group=group, start=start - begin, stop=until - begin)
            start, place = until, place + 1
