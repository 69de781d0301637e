"""The order of an epoch, batches dealt to workers, and the position as a `state_dict`."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby, zip_longest
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

    @property
    def rows(self) -> int:
        """Return the number of positions."""
        return int(self._ends[-1]) if len(self._ends) else 0

    def spans(self, start: int, stop: int) -> Iterator[Span]:
        """Yield the spans that hold positions start..stop-1."""
        index = int(np.searchsorted(self._ends, start, side="right"))
        while start < stop:
            end = int(self._ends[index])
            first = int(self._ends[index - 1]) if index else 0
            until = min(stop, end)
            group = int(self._order[index])
            yield Span(group=group, start=start - first, stop=until - first)
            start, index = until, index + 1


BatchRun = tuple[int, int]  # batches start..stop-1 of a rank


def worker_order(
    batches: Iterable[int], stretch_of: Callable[[int], object], workers: int
) -> list[int]:
    """Return the order in which to ask workers for batches, the next worker each time.

    Neighbours of one stretch go to one worker. No worker is ahead of another by more batches than
    a stretch has.
    """
    shares: list[list[int]] = [[] for _ in range(workers)]
    for _, stretch in groupby(batches, stretch_of):
        min(shares, key=len).extend(stretch)
    return [batch for turn in zip_longest(*shares) for batch in turn if batch is not None]


_VERSION: Final = 1
_FOREIGN: Final = "state: it was not written by this loader"


@dataclass(frozen=True, kw_only=True)
class EpochPlan:
    """What the batches of an epoch depend on."""

    batches: int
    settings: Mapping[str, Any]
    data: Mapping[str, Any]  # `rows`, `files` and a `fingerprint` of what is read
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(kw_only=True)
class EpochProgress:
    """A pass through the batches of an epoch that remained at its beginning, in ascending runs."""

    epoch: int
    runs: tuple[BatchRun, ...]
    delivered: int = 0

    @property
    def numbers(self) -> list[int]:
        """Return the batches of the pass, in the order of delivery."""
        return [number for run in self.runs for number in range(*run)]


def start_epoch(epoch: int, plan: EpochPlan) -> EpochProgress:
    """Return the beginning of an epoch."""
    return EpochProgress(epoch=epoch, runs=((0, plan.batches),))


def progress_state(progress: EpochProgress, plan: EpochPlan) -> dict[str, Any]:
    """Return a pass as JSON: the epoch, runs of its `remaining` batches, settings and data."""
    remaining, delivered = [], progress.delivered
    for start, stop in progress.runs:
        first = min(start + delivered, stop)
        delivered -= first - start
        remaining += [[first, stop]] if first < stop else []
    return {
        "version": _VERSION,
        "epoch": progress.epoch,
        "remaining": [remaining],
        "settings": dict(plan.settings),
        "data": dict(plan.data),
    }


def restore_progress(state: Mapping[str, Any], plan: EpochPlan) -> EpochProgress:
    """Return the pass of a state; the first release kept a list of runs for each worker."""
    try:
        version, epoch = state["version"], int(state["epoch"])
        settings, data = dict(state["settings"]), dict(state["data"])
        shares = [[(int(start), int(stop)) for start, stop in one] for one in state["remaining"]]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{_FOREIGN} ({error!r})") from error
    if version != _VERSION:
        raise ValueError(f"state: its version is {version!r}, this loader reads {_VERSION}")
    differences = [*_settings_differences(settings, plan), *_data_differences(data, plan.data)]
    if differences:
        hint = "create the loader as it was when the state was saved"
        raise ValueError(f"state: {'; '.join(differences)}: {hint}")
    runs = sorted(run for share in shares for run in share)
    before = 0
    for start, stop in runs:
        if not before <= start < stop <= plan.batches:
            problem = f"batches {start} to {stop} of {plan.batches}, or some of them twice"
            raise ValueError(f"{_FOREIGN} ({problem})")
        before = stop
    if epoch < 0 or not shares:
        raise ValueError(f"{_FOREIGN} (epoch or batches)")
    return EpochProgress(epoch=epoch, runs=tuple(runs))


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
    former_text = f"{data.get('rows')} rows in {data.get('files')} files"
    current_text = f"{current['rows']} rows in {current['files']} files"
    return [f"the data were {former_text}, are {current_text}"]
