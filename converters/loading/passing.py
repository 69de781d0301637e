"""Passes over batches by their numbers, with torch's `DataLoader` for the workers.

What a batch is, who reads it and in which order it comes is decided here and not by torch, so that
it can be said, stopped and gone on with.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ingot.converters.errors import ConversionError, IngotError
from ingot.converters.loading.dealing import delivery
from ingot.converters.loading.ranks import whole
from ingot.converters.loading.resuming import Course, Progress, fresh, from_state, to_state

Want = Callable[[int, int], Any]
"""(epoch, batch) to what the data set is asked for."""


def torch_missing() -> ConversionError:
    """The error of an environment without torch."""
    return ConversionError("", "torch is not installed", "pip install 'ingot[torch]'")


def torch() -> Any:  # noqa: ANN401
    """The module.

    Raises:
        ConversionError: it is not installed.
    """
    try:
        import torch
    except ImportError as error:
        raise torch_missing() from error
    return torch


def in_worker() -> bool:
    """Whether this process is a worker of a `DataLoader`."""
    return torch().utils.data.get_worker_info() is not None


@dataclass(frozen=True, kw_only=True)
class Failed:
    """An `error` on its way out of a worker: torch would make another of it."""

    error: IngotError


def _pair(epoch: int, batch: int) -> tuple[int, int]:
    return epoch, batch


def _as_it_is(batch: Any) -> Any:  # noqa: ANN401
    return batch


class _Order:
    """The order of a pass, as torch's sampler."""

    def __init__(self, progress: Progress, want: Want) -> None:
        self.progress = progress
        self._want = want

    def __iter__(self) -> Iterator[Any]:
        progress = self.progress  # of this pass, also when the next one has begun
        return (self._want(progress.epoch, batch) for batch in delivery(progress.shares))


class Passes:
    """Epoch after epoch of batches, a position in them, workers.

    Args:
        batches: gives what is wanted of it, or `Failed`; each worker has a copy.
        course: what its batches depend on.
        epoch: the first one.
        want: what is wanted of `batches`, evaluated in this process; None for (epoch, batch).
        seed: of the workers' own random numbers: none is taken from torch's global stream.
        options: of torch's `DataLoader`, such as `num_workers`; `pin_memory` is for CUDA alone.

    Raises:
        ConversionError: torch is not installed.
        ValueError: options that torch refuses.
    """

    def __init__(
        self,
        batches: Any,  # noqa: ANN401
        course: Course,
        *,
        epoch: int,
        want: Want | None = None,
        seed: int = 0,
        **options: Any,  # noqa: ANN401
    ) -> None:
        self._batches = batches
        self._course = course
        self._progress = fresh(epoch, course)
        self._order = _Order(self._progress, want or _pair)
        options["pin_memory"] = bool(options.get("pin_memory")) and torch().cuda.is_available()
        self._alone = not options.get("num_workers") and not options["pin_memory"]
        self._loader: Any = torch().utils.data.DataLoader(
            batches,
            batch_size=None,
            sampler=self._order,
            collate_fn=_as_it_is,
            generator=torch().Generator().manual_seed(seed % (1 << 63)),
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
            shares = fresh(self.epoch, self._course).shares
        self._progress = Progress(epoch=self.epoch, shares=shares)
        self._order.progress = self._progress
        return self._pass(self._progress, self._made())

    def _made(self) -> Iterator[Any]:
        if self._alone:  # torch's own way round takes time for nothing
            return (self._batches[wanted] for wanted in self._order)
        return iter(self._loader)

    def _pass(self, progress: Progress, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            if isinstance(batch, Failed):
                raise batch.error
            progress.delivered += 1
            yield batch
        if self._progress is progress:
            self._progress = fresh(progress.epoch + 1, self._course)

    def set_epoch(self, epoch: int) -> None:
        """Go to an epoch: the next pass begins with it.

        The epoch that is under way keeps its position, so that a training loop may call this at
        the head of every epoch, also of the one that it goes on with after `load_state_dict`.

        Raises:
            ValueError: no whole number from 0.
        """
        epoch = whole("epoch", epoch, 0)
        if epoch != self.epoch:
            self._progress = fresh(epoch, self._course)

    def state_dict(self) -> dict[str, Any]:
        """The batches not yet handed to the caller, as plain JSON; see `resuming.to_state`."""
        return to_state(self._progress, self._course)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where a state was taken.

        Raises:
            ValueError: as `resuming.from_state`.
        """
        self._progress = from_state(state, self._course)
