"""Which rows of a split make which batch, and the maker of the batches.

An epoch is one sequence of positions 0..N-1: the row groups in the files' order or, where
shuffled, in an order drawn from (seed, epoch). Rank r takes a contiguous range of it. Its range is
cut into K batches, K the same on every rank. Shuffling is within windows, which are runs of whole
batches. So batch k of a rank has fixed rows, whoever reads it, and a position within an epoch is
the set of batches still to deliver.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ingot.converters.recsys.ctr.loader.collation import collate_columns, pack
from ingot.converters.recsys.ctr.loader.split_files import Split, StoredFeature
from ingot.converters.recsys.ctr.loader.stored_rows import (
    CachedRows,
    ParquetRows,
    RowBuffer,
    Rows,
    join_batches,
    read_pieces,
)
from ingot.converters.recsys.training.batch_order import BatchRun, RowSequence, permutation
from ingot.converters.recsys.training.environment import in_worker
from ingot.converters.recsys.training.loader import BatchMaker, BatchPlan
from ingot.converters.recsys.training.position import EpochPlan

_GROUPS, _WINDOW = 0, 1  # what a permutation is of; parts of its seed


@dataclass(frozen=True, kw_only=True)
class Plan(BatchPlan):
    """How the rows of a split become the batches of one rank: a contiguous part of their sequence.

    Without `drop_last` the last batches of a rank may be smaller, none is empty.
    """

    shuffle: bool = False
    shuffle_buffer: int = 65536

    def __post_init__(self) -> None:
        least = self.rows // self.world_size
        shares = f"{self.rows:,} rows over {self.world_size} ranks"
        if self.drop_last and not self.batches:
            hint = f"leave no batch of {self.batch_size}: take a smaller batch_size"
            raise ValueError(f"drop_last: {shares} {hint}")
        if not least:
            raise ValueError(f"world_size: {shares} leave one without a row: take fewer")
        if least < self.batches:  # with batch_size 1 alone: else a full batch gives a row away
            hint = "give unequal counts: take drop_last=True or larger batches"
            raise ValueError(f"batch_size 1: {shares} {hint}")

    @property
    def batches(self) -> int:
        """Batches of a rank."""
        if self.drop_last:
            return self.rows // self.world_size // self.batch_size
        return -(-self.rows // (self.world_size * self.batch_size))

    @cached_property
    def range(self) -> tuple[int, int]:
        """The positions of this rank; sizes differ by at most one."""
        start = self.rows * self.rank // self.world_size
        return start, self.rows * (self.rank + 1) // self.world_size

    @property
    def dropped(self) -> int:
        """Rows that no rank delivers."""
        if not self.drop_last:
            return 0
        return self.rows - self.batches * self.batch_size * self.world_size

    def epoch_plan(self, split: Split, workers: int) -> EpochPlan:
        """Return what the batches of a split depend on."""
        names = ["batch_size", "drop_last", "rank", "world_size", "shuffle"]
        if self.shuffle:
            names += ["seed", "window"]
        return EpochPlan(
            batches=self.batches,
            streams=max(workers, 1),
            settings={name: getattr(self, name) for name in names},
            data={
                "rows": split.rows,
                "files": len(split.files),
                "fingerprint": split.fingerprint,
            },
            names={"window": "batches of a shuffle_buffer"},
        )

    def first(self, batch: int) -> int:
        """The position of a batch's first row; of batch K, the position behind the last."""
        start, stop = self.range
        position = start + batch * self.batch_size
        if self.drop_last:
            return position
        return min(position, stop - (self.batches - batch))  # each later batch keeps a row

    @property
    def window(self) -> int:
        """Batches of a window."""
        return -(-self.shuffle_buffer // self.batch_size)

    def window_of(self, batch: int) -> BatchRun:
        """The batches of the window that a batch is in."""
        start = batch // self.window * self.window
        return start, min(start + self.window, self.batches)

    def group_order(self, groups: int, epoch: int) -> npt.NDArray[np.int64]:
        """int64[groups], the row groups in the order of an epoch."""
        if not self.shuffle:
            return np.arange(groups, dtype=np.int64)
        return permutation(groups, self.seed, epoch, _GROUPS)

    def window_order(self, rows: int, epoch: int, window: BatchRun) -> npt.NDArray[np.int64]:
        """int64[rows], the rows of a window in the order of an epoch."""
        return permutation(rows, self.seed, epoch, _WINDOW, self.rank, window[0])


Collate = Callable[[list[dict[str, Any]]], Any]


@dataclass(frozen=True, kw_only=True)
class Source:
    """All that a worker needs to know."""

    split: Split
    plan: Plan
    features: tuple[StoredFeature, ...]
    jagged: bool
    cache: Path | None
    collate: Collate | None


@dataclass(kw_only=True)
class _Window:
    """The shuffled window at hand: its `rows`, and the `order` to take them in."""

    epoch: int
    batches: BatchRun
    rows: RowBuffer
    order: npt.NDArray[np.int64]


class Batches(BatchMaker):
    """Makes a batch, in a worker a packed one, of (epoch, number).

    Any order gives the right batches; ascending order decodes every row once.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._rows: Rows | None = None
        self._sequence: tuple[int, RowSequence] | None = None
        self._window: _Window | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Batches, (self._source,)

    def batch(self, request: tuple[int, int]) -> Any:  # noqa: ANN401
        """Make a batch."""
        columns = self._columns(*request)
        source = self._source
        if source.collate is not None:
            return source.collate(columns.to_pylist())
        batch = collate_columns(columns, source.features, jagged=source.jagged)
        return pack(batch) if in_worker() else batch

    def _columns(self, epoch: int, batch: int) -> Any:  # noqa: ANN401
        plan = self._source.plan
        start, stop = plan.first(batch), plan.first(batch + 1)
        if not plan.shuffle:
            return join_batches(list(self._read(epoch, start, stop)))
        window = self._window_of(epoch, batch)
        before = plan.first(window.batches[0])
        return window.rows.take(window.order[start - before : stop - before])

    def _window_of(self, epoch: int, batch: int) -> _Window:
        plan, window = self._source.plan, self._window
        batches = plan.window_of(batch)
        if window is not None and (window.epoch, window.batches) == (epoch, batches):
            return window
        self._window = window = None  # before the next one is read: one is in memory
        rows = RowBuffer(self._read(epoch, plan.first(batches[0]), plan.first(batches[1])))
        order = plan.window_order(len(rows), epoch, batches)
        self._window = _Window(epoch=epoch, batches=batches, rows=rows, order=order)
        return self._window

    def _read(self, epoch: int, start: int, stop: int) -> Iterator[Any]:
        if self._rows is None:
            self._rows = _open_rows(self._source)
        if self._sequence is None or self._sequence[0] != epoch:
            groups = self._source.split.groups
            sizes = np.array([group.rows for group in groups], np.int64)
            order = self._source.plan.group_order(len(groups), epoch)
            self._sequence = epoch, RowSequence(sizes, order)
        return read_pieces(self._rows, self._sequence[1], start, stop)


def _open_rows(source: Source) -> Rows:
    if source.cache is not None:
        return CachedRows(source.split, source.cache, source.features)
    return ParquetRows(source.split, source.features, threads=not in_worker())
