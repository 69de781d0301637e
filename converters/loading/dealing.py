"""Batches by their numbers, dealt to streams that deliver them in turn."""

from collections.abc import Iterator, Sequence

Run = tuple[int, int]
"""Batches start..stop-1 of a rank."""
Share = tuple[Run, ...]
"""The batches of one stream, such as a worker."""


def deal(runs: Sequence[Run], streams: int) -> tuple[Share, ...]:
    """Batches dealt to streams in contiguous stretches, the first ones one longer if need be.

    Args:
        runs: batches, ascending.
        streams: at least one.
    """
    total = count(runs)
    sizes = [total // streams + (number < total % streams) for number in range(streams)]
    shares, rest = [], list(runs)
    for size in sizes:
        taken, rest = _split(rest, size)
        shares.append(tuple(taken))
    return tuple(shares)


def _split(runs: Sequence[Run], size: int) -> tuple[list[Run], list[Run]]:
    """The first `size` batches of runs, and the others."""
    head: list[Run] = []
    for place, (start, stop) in enumerate(runs):
        if size <= 0:
            return head, list(runs[place:])
        cut = min(stop, start + size)
        head.append((start, cut))
        size -= cut - start
        if cut < stop:
            return head, [(cut, stop), *runs[place + 1 :]]
    return head, []


def count(runs: Sequence[Run]) -> int:
    """How many batches."""
    return sum(stop - start for start, stop in runs)


def delivery(shares: Sequence[Share]) -> Iterator[int]:
    """The batches of dealt shares as they are delivered: one of each stream in turn."""
    turns = [_batches(share) for share in shares]
    for _ in range(max(map(count, shares), default=0)):
        for turn in turns:
            batch = next(turn, None)
            if batch is not None:
                yield batch


def _batches(share: Share) -> Iterator[int]:
    for start, stop in share:
        yield from range(start, stop)


def remaining(shares: Sequence[Share], delivered: int) -> tuple[Share, ...]:
    """What is left of dealt shares after so many batches, whose turn it is first.

    Args:
        shares: as `deal` or this function gives them.
        delivered: batches taken, in the order of `delivery`.
    """
    streams = len(shares)
    left = []
    for number, share in enumerate(shares):
        done = max(0, -(-(delivered - number) // streams))
        left.append(tuple(_split(share, done)[1]))
    turn = delivered % streams
    return tuple(left[turn:] + left[:turn])
