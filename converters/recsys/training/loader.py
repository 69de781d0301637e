"""The loader frame: passes over the batches of one rank, with torch's `DataLoader` for workers.

A format gives a `BatchPlan` (which rows are in which batch) and a `BatchMaker` (`batch(request)`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, TypedDict, TypeVar, cast

from ingot.converters.errors import IngotError
from ingot.converters.recsys.training import batch_order
from ingot.converters.recsys.training.environment import check_integer, import_torch

BatchT = TypeVar("BatchT")


@dataclass(frozen=True, kw_only=True)
class BatchPlan(ABC):
    """How the rows of an epoch become the batches of one rank."""

    rows: int
    batch_size: int
    rank: int = 0
    world_size: int = 1
    drop_last: bool = False
    seed: int = 0

    @property
    @abstractmethod
    def batches(self) -> int:
        """Return the batches of an epoch, the same number on every rank."""

    @property
    @abstractmethod
    def dropped(self) -> int:
        """Return the rows of an epoch that no rank delivers."""


class ReadingOptions(TypedDict, total=False):
    """How workers start and read: arguments of torch's `DataLoader`, with its defaults."""

    pin_memory: bool
    persistent_workers: bool
    prefetch_factor: int | None
    multiprocessing_context: Any
    timeout: float


class WorkerOptions(ReadingOptions, total=False):
    """The same, and how many there are."""

    num_workers: int


@dataclass(frozen=True, kw_only=True)
class WorkerFailure:
    """An error on its way out of a worker: torch would raise another class."""

    error: IngotError


class BatchMaker(ABC):
    """Makes batches: torch's data set, of which each worker has a copy."""

    @abstractmethod
    def batch(self, request: Any) -> Any:  # noqa: ANN401
        """Make the batch of a request, in a worker where there are any."""

    def stretch(self, epoch: int, number: int) -> object:
        """Return what is the same for neighbours that one worker makes with less reading."""
        return number

    def __getitem__(self, request: Any) -> Any:  # noqa: ANN401
        try:
            return self.batch(request)
        except IngotError as error:
            return WorkerFailure(error=error)


def _return_batch(batch: Any) -> Any:  # noqa: ANN401
    return batch


Request = Callable[[int, int], Any]  # epoch and number of a batch to what its maker is sent


def _number_request(epoch: int, number: int) -> tuple[int, int]:
    return epoch, number


class _PassSampler:
    """What the present pass asks for, as torch's sampler."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self.epoch = 0
        self.order: list[int] = []

    def __iter__(self) -> Iterator[Any]:
        # Of this pass, also when the next one has begun.
        return map(partial(self._request, self.epoch), self.order)


def _in_order(order: list[int], arriving: Iterator[Any]) -> Iterator[Any]:
    """Yield batches by their numbers; those that arrive before their turn wait."""
    waiting: dict[int, Any] = {}
    turns = iter(sorted(order))
    turn = next(turns, None)
    for number, batch in zip(order, arriving, strict=True):
        waiting[number] = batch
        while turn in waiting:
            yield waiting.pop(turn)
            turn = next(turns, None)


class TrainingLoader(Generic[BatchT]):
    """Epoch after epoch of batches of one rank, with a position that is saved and restored.

    It holds a DataLoader and is not one itself: frameworks deal the samples of a DataLoader to
    ranks, which is done here already.
    """

    def __init__(
        self,
        plan: BatchPlan,
        maker: BatchMaker,
        epoch_plan: batch_order.EpochPlan,
        workers: WorkerOptions,
        *,
        epoch: int,
        request: Request | None = None,
    ) -> None:
        # No attribute may refer to the loader itself: what it holds must go when it is dropped.
        self._request = request or _number_request
        self._plan, self._maker, self._epoch_plan = plan, maker, epoch_plan
        self._workers = workers
        self.num_workers: Final = check_integer("num_workers", workers.get("num_workers", 0), 0)
        self.batch_size: Final = plan.batch_size
        self.drop_last: Final = plan.drop_last
        self.rank: Final = plan.rank
        self.world_size: Final = plan.world_size
        self.rows: Final = plan.rows
        self.dropped_rows: Final = plan.dropped
        self._progress = batch_order.start_epoch(epoch, epoch_plan)
        self._connect()

    def _connect(self) -> None:
        """Make torch's loader."""
        torch, options = import_torch(), dict(self._workers)
        options["pin_memory"] = bool(options.get("pin_memory")) and torch.cuda.is_available()
        self._alone = not self.num_workers and not options["pin_memory"]
        self._sampler = _PassSampler(self._request)
        self._loader: Any = torch.utils.data.DataLoader(
            self._maker,
            batch_size=None,
            sampler=self._sampler,
            collate_fn=_return_batch,
            generator=torch.Generator().manual_seed(self._plan.seed % (1 << 63)),
            **options,
        )

    def _finish(self, batch: Any) -> BatchT:  # noqa: ANN401
        """Complete a batch that arrives, in the caller's process."""
        return cast("BatchT", batch)

    @property
    def epoch(self) -> int:
        """Return the epoch of the pass under way, else of the next one."""
        return self._progress.epoch

    def __len__(self) -> int:
        """Batches of a whole epoch on this rank, and on every other."""
        return self._plan.batches

    def __iter__(self) -> Iterator[BatchT]:
        """Deliver what a loaded state left of the epoch, else the epoch from its beginning.

        A complete pass goes on to the next epoch; an abandoned pass begins its epoch again.
        """
        runs = self._progress.runs
        if self._progress.delivered:
            runs = batch_order.start_epoch(self.epoch, self._epoch_plan).runs
        progress = self._progress = batch_order.EpochProgress(epoch=self.epoch, runs=runs)
        stretch_of = partial(self._maker.stretch, progress.epoch)
        order = batch_order.worker_order(progress.numbers, stretch_of, max(self.num_workers, 1))
        self._sampler.epoch, self._sampler.order = progress.epoch, order
        return self._pass(progress, _in_order(order, self._arriving_batches()))

    def _arriving_batches(self) -> Iterator[Any]:
        if self._alone:  # torch's own path takes time for nothing
            return (self._maker[request] for request in self._sampler)
        return iter(self._loader)

    def _pass(
        self, progress: batch_order.EpochProgress, batches: Iterator[Any]
    ) -> Iterator[BatchT]:
        for batch in batches:
            if isinstance(batch, WorkerFailure):
                del batches  # else the error keeps the workers, and each takes 5 s to end
                raise batch.error
            progress.delivered += 1
            yield self._finish(batch)
        if self._progress is progress:
            self._progress = batch_order.start_epoch(progress.epoch + 1, self._epoch_plan)

    def set_epoch(self, epoch: int) -> None:
        """Go to an epoch: the next pass begins with it.

        The epoch that is under way keeps its position, so that a training loop may call this at
        the head of every epoch, also of the one that it resumes after `load_state_dict`.
        """
        epoch = check_integer("epoch", epoch, 0)
        if epoch != self.epoch:
            self._progress = batch_order.start_epoch(epoch, self._epoch_plan)

    def state_dict(self) -> dict[str, Any]:
        """Return the position of this rank as plain JSON: batches the caller has not received.

        What workers read ahead does not count. Take it in the process that iterates, one of each
        rank. After a whole pass it is the beginning of the next epoch.
        """
        return batch_order.progress_state(self._progress, self._epoch_plan)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume where a state was taken: the next pass delivers what remained of its epoch.

        Data in another folder are the same data if their files are.
        """
        self._progress = batch_order.restore_progress(state, self._epoch_plan)

    def __getstate__(self) -> dict[str, Any]:
        connected = ("_loader", "_sampler", "_progress")
        attributes = {name: value for name, value in vars(self).items() if name not in connected}
        return attributes | {"state": self.state_dict()}

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        state = attributes.pop("state")
        vars(self).update(attributes)
        self._progress = batch_order.restore_progress(state, self._epoch_plan)
        self._connect()
