"""The order of an epoch, batches dealt to streams in turn, and the position as a `state_dict`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

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


_VERSION: Final = 1
_FOREIGN: Final = "state: it was not written by this loader"


@dataclass(frozen=True, kw_only=True)
class EpochPlan:
    """What the batches of an epoch depend on."""

    batches: int
    streams: int
    settings: Mapping[str, Any]
    data: Mapping[str, Any]  # `rows`, `files` and a `fingerprint` of what is read
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(kw_only=True)
class EpochProgress:
    """A pass through an epoch."""

    epoch: int
    shares: tuple[Share, ...]
    delivered: int = 0


def start_epoch(epoch: int, plan: EpochPlan) -> EpochProgress:
    """Return the beginning of an epoch."""
    return EpochProgress(epoch=epoch, shares=deal_batches([(0, plan.batches)], plan.streams))


def progress_state(progress: EpochProgress, plan: EpochPlan) -> dict[str, Any]:
    """Return a pass as JSON: the epoch, its `remaining` batches by stream, settings and data."""
    left = remaining_shares(progress.shares, progress.delivered)
    return {
        "version": _VERSION,
        "epoch": progress.epoch,
        "remaining": [[list(run) for run in share] for share in left],
        "settings": dict(plan.settings),
        "data": dict(plan.data),
    }


def restore_progress(state: Mapping[str, Any], plan: EpochPlan) -> EpochProgress:
    """Return the pass of a state; its batches are dealt anew to another number of streams."""
    try:
        version, epoch = state["version"], int(state["epoch"])
        settings, data = dict(state["settings"]), dict(state["data"])
        shares = tuple(
            tuple((int(start), int(stop)) for start, stop in share) for share in state["remaining"]
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{_FOREIGN} ({error!r})") from error
    if version != _VERSION:
        raise ValueError(f"state: its version is {version!r}, this loader reads {_VERSION}")
    differences = [*_settings_differences(settings, plan), *_data_differences(data, plan.data)]
    if differences:
        hint = "create the loader as it was when the state was saved"
        raise ValueError(f"state: {'; '.join(differences)}: {hint}")
    runs = sorted(run for share in shares for run in share)
    _check_runs(runs, plan.batches)
    sizes = [count_batches(share) for share in shares]
    even = sizes == sorted(sizes, reverse=True) and sizes[0] - sizes[-1] <= 1 if sizes else False
    if epoch < 0 or not even:  # streams that take turns have as many batches, the first one more
        raise ValueError(f"{_FOREIGN} (epoch or the batches of the workers)")
    if len(shares) != plan.streams:
        shares = deal_batches(runs, plan.streams)
    return EpochProgress(epoch=epoch, shares=shares)


def _check_runs(runs: list[BatchRun], batches: int) -> None:
    before = 0
    for start, stop in runs:
        if not before <= start < stop <= batches:
            problem = f"batches {start} to {stop} of {batches}, or some of them twice"
            raise ValueError(f"{_FOREIGN} ({problem})")
        before = stop


def _settings_differences(settings: Mapping[str, Any], plan: EpochPlan) -> list[str]:
    current = plan.settings
    return [
        f"{plan.names.get(name, name)} was {settings.get(name)!r}, is {current.get(name)!r}"
        for name in dict.fromkeys([*current, *settings])
        if settings.get(name) != current.get(name)
    ]


def _data_differences(data: Mapping[str, Any], current: Mapping[str, Any]) -> list[str]:
    if data.get("fingerprint") == current["fingerprint"]:
        return []
    was = f"{data.get('rows')} rows in {data.get('files')} files"
    now = f"{current['rows']} rows in {current['files']} files"
    return [f"the data were {was}, are {now}"]
