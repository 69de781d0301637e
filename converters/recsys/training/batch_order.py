"""The order of an epoch: rows of groups as positions, batches dealt to streams in turn."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


def permutation(size: int, *seeds: int) -> npt.NDArray[np.int64]:
    """Draw an order of 0..size-1, int64[size], that is the same in every release of numpy."""
    # RandomState's stream is frozen; Generator's may change between releases of numpy.
    state = np.random.RandomState(np.random.MT19937(np.random.SeedSequence(list(seeds))))
    return state.permutation(size).astype(np.int64, copy=False)


@dataclass(frozen=True, kw_only=True)
class Span:
    """Rows start..stop-1 of a group, such as a row group or a file."""

    group: int
    start: int
    stop: int


class RowSequence:
    """The positions of an epoch: the rows of one group after another."""

    def __init__(self, sizes: npt.NDArray[np.int64], order: npt.NDArray[np.int64]) -> None:
        self._order = order
        self._ends = np.cumsum(sizes[order])

    def spans(self, start: int, stop: int) -> Iterator[Span]:
        """Yield the spans that hold positions start..stop-1."""
        place = int(np.searchsorted(self._ends, start, side="right"))
        while start < stop:
            end = int(self._ends[place])
            begin = int(self._ends[place - 1]) if place else 0
            until = min(stop, end)
            group = int(self._order[place])
            yield Span(group=group, start=start - begin, stop=until - begin)
            start, place = until, place + 1


BatchRun = tuple[int, int]
"""Batches start..stop-1 of a rank."""
Share = tuple[BatchRun, ...]
"""The batches of one stream, such as a worker."""


def deal_batches(runs: Sequence[BatchRun], streams: int) -> tuple[Share, ...]:
    """Deal batches to streams in contiguous runs; the first runs may be one batch longer."""
    total = count_batches(runs)
    sizes = [total // streams + (number < total % streams) for number in range(streams)]
    shares, rest = [], list(runs)
    for size in sizes:
        taken, rest = _split_runs(rest, size)
        shares.append(tuple(taken))
    return tuple(shares)


def _split_runs(runs: Sequence[BatchRun], size: int) -> tuple[list[BatchRun], list[BatchRun]]:
    """Return the first `size` batches of runs, and the rest."""
    head: list[BatchRun] = []
    for place, (start, stop) in enumerate(runs):
        if size <= 0:
            return head, list(runs[place:])
        cut = min(stop, start + size)
        head.append((start, cut))
        size -= cut - start
        if cut < stop:
            return head, [(cut, stop), *runs[place + 1 :]]
    return head, []


def count_batches(runs: Sequence[BatchRun]) -> int:
    """Count the batches of runs."""
    return sum(stop - start for start, stop in runs)


def delivery_order(shares: Sequence[Share]) -> Iterator[int]:
    """Yield batches as they are delivered: one of each stream in turn."""
    turns = [(batch for run in share for batch in range(*run)) for share in shares]
    for _ in range(max(map(count_batches, shares), default=0)):
        for turn in turns:
            batch = next(turn, None)
            if batch is not None:
                yield batch


def remaining_shares(shares: Sequence[Share], delivered: int) -> tuple[Share, ...]:
    """Return the shares left after `delivered` batches, the stream whose turn it is first."""
    streams = len(shares)
    left = []
    for number, share in enumerate(shares):
        done = max(0, -(-(delivered - number) // streams))
        left.append(tuple(_split_runs(share, done)[1]))
    turn = delivered % streams
    return tuple(left[turn:] + left[:turn])
