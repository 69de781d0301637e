"""Rows of groups as one sequence of positions, and orders drawn from seeds.

Batches by their numbers, dealt to streams that deliver them in turn.
Where an epoch stands: what is delivered, what is left, as plain JSON in between.
Which part of an epoch is this process's, and arguments that are whole numbers.
Passes over batches by their numbers, with torch's `DataLoader` for the workers.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ingot.converters.errors import ConversionError, IngotError


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


class RowSequence:
    """The positions of an epoch, as groups of rows one behind another."""

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


BatchRun = tuple[int, int]
"""Batches start..stop-1 of a rank."""
Share = tuple[BatchRun, ...]
"""The batches of one stream, such as a worker."""


def deal_batches(runs: Sequence[BatchRun], streams: int) -> tuple[Share, ...]:
    """Batches dealt to streams in contiguous stretches, the first ones one longer if need be."""
    total = count_batches(runs)
    sizes = [total // streams + (number < total % streams) for number in range(streams)]
    shares, rest = [], list(runs)
    for size in sizes:
        taken, rest = _split_runs(rest, size)
        shares.append(tuple(taken))
    return tuple(shares)


def _split_runs(runs: Sequence[BatchRun], size: int) -> tuple[list[BatchRun], list[BatchRun]]:
    """The first `size` batches of runs, and the others."""
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
    """How many batches."""
    return sum(stop - start for start, stop in runs)


def delivery_order(shares: Sequence[Share]) -> Iterator[int]:
    """The batches of dealt shares as they are delivered: one of each stream in turn."""
    turns = [_share_batches(share) for share in shares]
    for _ in range(max(map(count_batches, shares), default=0)):
        for turn in turns:
            batch = next(turn, None)
            if batch is not None:
                yield batch


def _share_batches(share: Share) -> Iterator[int]:
    for start, stop in share:
        yield from range(start, stop)


def remaining_shares(shares: Sequence[Share], delivered: int) -> tuple[Share, ...]:
    """What is left of dealt shares after so many batches, whose turn it is first."""
    streams = len(shares)
    left = []
    for number, share in enumerate(shares):
        done = max(0, -(-(delivered - number) // streams))
        left.append(tuple(_split_runs(share, done)[1]))
    turn = delivered % streams
    return tuple(left[turn:] + left[:turn])


_VERSION: Final = 1
_HINT: Final = "make the loader as it was when the state was taken"


@dataclass(frozen=True, kw_only=True)
class EpochPlan:
    """What the batches of an epoch depend on.

    Attributes:
        batches: of an epoch, on this rank.
        streams: that deliver them in turn.
        settings: arguments that batches and order depend on; plain JSON.
        data: `rows`, `files` and a `fingerprint` of what is read.
        names: how messages call settings, where not by their keys.
    """

    batches: int
    streams: int
    settings: Mapping[str, Any]
    data: Mapping[str, Any]
    names: Mapping[str, str]


@dataclass(kw_only=True)
class EpochProgress:
    """A pass through an epoch.

    Attributes:
        epoch: which.
        shares: the batches of each stream as the pass began.
        delivered: how many of them the caller has.
    """

    epoch: int
    shares: tuple[Share, ...]
    delivered: int = 0


def start_epoch(epoch: int, course: EpochPlan) -> EpochProgress:
    """The beginning of an epoch."""
    return EpochProgress(epoch=epoch, shares=deal_batches([(0, course.batches)], course.streams))


def progress_state(progress: EpochProgress, course: EpochPlan) -> dict[str, Any]:
    """A pass as JSON: `epoch`, the batches that `remain` by stream, what the order depends on."""
    left = remaining_shares(progress.shares, progress.delivered)
    return {
        "version": _VERSION,
        "epoch": progress.epoch,
        "remaining": [[list(run) for run in share] for share in left],
        "settings": dict(course.settings),
        "data": dict(course.data),
    }


def restore_progress(state: Mapping[str, Any], course: EpochPlan) -> EpochProgress:
    """The pass that a state tells of, dealt anew if the number of streams is another."""
    try:
        version, epoch = state["version"], int(state["epoch"])
        settings, data = dict(state["settings"]), dict(state["data"])
        shares = tuple(tuple(_parse_run(run) for run in share) for share in state["remaining"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"state: not one of this loader's ({error!r})") from error
    if version != _VERSION:
        raise ValueError(f"state: version {version!r}, this loader writes {_VERSION}")
    differences = [*_settings_differences(settings, course), *_data_differences(data, course.data)]
    if differences:
        raise ValueError(f"state: {'; '.join(differences)}: {_HINT}")
    runs = sorted(run for share in shares for run in share)
    _check_runs(runs, course.batches)
    if epoch < 0 or not _is_dealt_evenly(shares):
        raise ValueError("state: not one of this loader's (epoch or the workers' batches)")
    if len(shares) != course.streams:
        shares = deal_batches(runs, course.streams)
    return EpochProgress(epoch=epoch, shares=shares)


def _parse_run(run: Any) -> BatchRun:  # noqa: ANN401
    start, stop = run
    return int(start), int(stop)


def _is_dealt_evenly(shares: tuple[Share, ...]) -> bool:
    """Whether streams can take turns: as many batches each, the first ones one more."""
    sizes = [count_batches(share) for share in shares]
    return bool(sizes) and sizes == sorted(sizes, reverse=True) and sizes[0] - sizes[-1] <= 1


def _check_runs(runs: list[BatchRun], batches: int) -> None:
    before = 0
    for start, stop in runs:
        if not before <= start < stop <= batches:
            said = f"batches {start} to {stop} of {batches}, or some of them twice"
            raise ValueError(f"state: not one of this loader's ({said})")
        before = stop


def _settings_differences(settings: Mapping[str, Any], course: EpochPlan) -> list[str]:
    mine = course.settings
    return [
        f"{course.names.get(name, name)} was {settings.get(name)!r}, is {mine.get(name)!r}"
        for name in dict.fromkeys([*mine, *settings])
        if settings.get(name) != mine.get(name)
    ]


def _data_differences(data: Mapping[str, Any], mine: Mapping[str, Any]) -> list[str]:
    if data.get("fingerprint") == mine["fingerprint"]:
        return []
    was = f"{data.get('rows')} rows in {data.get('files')} files"
    return [f"the data was other: {was}, is {mine['rows']} rows in {mine['files']} files"]


_LARGEST: Final = (1 << 64) - 1


def resolve_rank(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """The rank and the number of ranks, given or torch.distributed's.

    Environment variables are not taken for it: they may be another program's, and a guess that is
    wrong would lose rows or give them twice without a word.
    """
    if rank is None and world_size is None:
        return _torch_rank()
    if rank is None or world_size is None:
        raise ValueError("rank and world_size: give both, or neither")
    if world_size < 1 or not 0 <= rank < world_size:
        raise ValueError(f"rank: {rank} of {world_size}: ranks are 0 to world_size - 1")
    return rank, world_size


def _torch_rank() -> tuple[int, int]:
    from torch import distributed

    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    if os.environ.get("WORLD_SIZE", "").strip() not in ("", "1"):
        said = "WORLD_SIZE is set, but torch.distributed is not initialised"
        raise ValueError(f"rank: {said}: call init_process_group before, or give rank, world_size")
    return 0, 1


def check_integer(name: str, value: int, least: int, most: int = _LARGEST) -> int:
    """An argument that is a whole number."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ValueError(f"{name}: {value!r} is no whole number")
    if not least <= value <= most:
        bits = (most + 1).bit_length() - 1
        top = f"2**{bits} - 1" if most + 1 == 1 << bits and bits >= 31 else f"{most}"
        raise ValueError(f"{name}: {value} is not from {least} to {top}")
    return int(value)


BatchRequest = Callable[[int, int], Any]
"""(epoch, batch) to what the data set is asked for."""


def torch_missing_error() -> ConversionError:
    """The error of an environment without torch."""
    return ConversionError("", "torch is not installed", "pip install 'ingot[torch]'")


def import_torch() -> Any:  # noqa: ANN401
    """The module."""
    try:
        import torch
    except ImportError as error:
        raise torch_missing_error() from error
    return torch


def in_worker() -> bool:
    """Whether this process is a worker of a `DataLoader`."""
    return import_torch().utils.data.get_worker_info() is not None


@dataclass(frozen=True, kw_only=True)
class WorkerFailure:
    """An `error` on its way out of a worker: torch would make another of it."""

    error: IngotError


def _pair(epoch: int, batch: int) -> tuple[int, int]:
    return epoch, batch


def _return_batch(batch: Any) -> Any:  # noqa: ANN401
    return batch


class _PassSampler:
    """The order of a pass, as torch's sampler."""

    def __init__(self, progress: EpochProgress, want: BatchRequest) -> None:
        self.progress = progress
        self._want = want

    def __iter__(self) -> Iterator[Any]:
        progress = self.progress  # of this pass, also when the next one has begun
        return (self._want(progress.epoch, batch) for batch in delivery_order(progress.shares))


class ResumableLoader:
    """Epoch after epoch of batches, a position in them, workers."""

    def __init__(
        self,
        batches: Any,  # noqa: ANN401
        course: EpochPlan,
        *,
        epoch: int,
        want: BatchRequest | None = None,
        seed: int = 0,
        **options: Any,  # noqa: ANN401
    ) -> None:
        self._batches = batches
        self._course = course
        self._progress = start_epoch(epoch, course)
        self._order = _PassSampler(self._progress, want or _pair)
        options["pin_memory"] = (
            bool(options.get("pin_memory")) and import_torch().cuda.is_available()
        )
        self._alone = not options.get("num_workers") and not options["pin_memory"]
        self._loader: Any = import_torch().utils.data.DataLoader(
            batches,
            batch_size=None,
            sampler=self._order,
            collate_fn=_return_batch,
            generator=import_torch().Generator().manual_seed(seed % (1 << 63)),
            **options,
        )

    @property
    def epoch(self) -> int:
        """The epoch of the pass under way, else of the next one."""
        return self._progress.epoch

    def __iter__(self) -> Iterator[Any]:
        """A pass: what a loaded state left of the epoch, else the epoch from its beginning.

        A pass to the end goes on to the next epoch; one that was left begins the epoch anew.
        """
        shares = self._progress.shares
        if self._progress.delivered:
            shares = start_epoch(self.epoch, self._course).shares
        self._progress = EpochProgress(epoch=self.epoch, shares=shares)
        self._order.progress = self._progress
        return self._pass(self._progress, self._made())

    def _made(self) -> Iterator[Any]:
        if self._alone:  # torch's own way round takes time for nothing
            return (self._batches[wanted] for wanted in self._order)
        return iter(self._loader)

    def _pass(self, progress: EpochProgress, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            if isinstance(batch, WorkerFailure):
                raise batch.error
            progress.delivered += 1
            yield batch
        if self._progress is progress:
            self._progress = start_epoch(progress.epoch + 1, self._course)

    def set_epoch(self, epoch: int) -> None:
        """Go to an epoch: the next pass begins with it.

        The epoch that is under way keeps its position, so that a training loop may call this at
        the head of every epoch, also of the one that it goes on with after `load_state_dict`.
        """
        epoch = check_integer("epoch", epoch, 0)
        if epoch != self.epoch:
            self._progress = start_epoch(epoch, self._course)

    def state_dict(self) -> dict[str, Any]:
        """The batches not yet handed to the caller, as plain JSON; see `resuming.to_state`."""
        return progress_state(self._progress, self._course)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where a state was taken."""
        self._progress = restore_progress(state, self._course)
