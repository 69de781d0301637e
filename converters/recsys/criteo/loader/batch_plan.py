"""Which rows make which batch: arithmetic only.

An epoch is the rows 0..N-1 of the chosen parts, one behind another, or a permutation of them. It
is cut into batches that are dealt to the ranks in turn: batch k of rank r is batch k * W + r of all
W ranks, as torchrec deals them. The last batch of each rank takes what full batches for all ranks
leave over: so every rank has as many batches, and every row is in one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from ingot.converters.recsys.training.batch_order import permutation
from ingot.converters.recsys.training.loader import BatchPlan
from ingot.converters.recsys.training.position import EpochPlan

BatchRequest = tuple[int, int] | npt.NDArray[Any]
"""Positions start..stop-1, or the numbers of rows."""

_BATCHES: Final = 2  # what a permutation is of; part of its seeds
_STATES: Final = 1 << 32  # seeds that RandomState takes
_SMALL: Final = 1 << 32  # rows whose numbers fit in 4 bytes
_BLOCK: Final = 1 << 20  # numbers that are made at a time


@dataclass(frozen=True, kw_only=True)
class Plan(BatchPlan):
    """How rows become the batches of one rank: batches `rank`, `rank` + W, ... of W ranks.

    Without `drop_last` the last batch of each rank is smaller, or where less than W rows are left
    over, full, with a row more on so many ranks.
    """

    shuffle_batches: bool = False
    shuffle_rows: bool = False

    def __post_init__(self) -> None:
        shares = f"{self.rows:,} rows over {self.world_size} ranks"
        if self.rows < self.world_size:
            raise ValueError(f"world_size: {shares} leave one without a row: take fewer")
        if not self.batches:
            hint = f"leave no full batch of {self.batch_size:,}: take a smaller batch_size"
            raise ValueError(f"drop_last: {shares} {hint}")

    @cached_property
    def _left(self) -> int:
        left = self.rows % (self.batch_size * self.world_size)
        if self.drop_last:
            return 0
        if 0 < left < self.world_size:  # not a row for each: the last full batches take them
            return left + self.batch_size * self.world_size
        return left

    @cached_property
    def full(self) -> int:
        """Batches of B rows that any place may have, of all ranks; W or more times a rank's."""
        taken = self.batch_size * self.world_size
        return (self.rows - self._left) // taken * self.world_size

    @property
    def batches(self) -> int:
        """Batches of a rank."""
        return self.full // self.world_size + (self._left > 0)

    @property
    def dropped(self) -> int:
        """Rows that no rank delivers."""
        return self.rows - self.full * self.batch_size if self.drop_last else 0

    def epoch_plan(self, data: Mapping[str, Any], sizes: tuple[int, ...] | None) -> EpochPlan:
        """Return what the batches depend on; `sizes`: those that ids are taken modulo."""
        names = ["batch_size", "drop_last", "rank", "world_size", "shuffle_batches", "shuffle_rows"]
        if self.shuffle_batches or self.shuffle_rows:
            names.append("seed")
        settings = {name: getattr(self, name) for name in names}
        return EpochPlan(
            batches=self.batches,
            streams=1,  # rows are found by their number: workers may take turns from any place
            settings=settings | {"num_embeddings": None if sizes is None else list(sizes)},
            data=data,
        )

    def positions(self, batch: int, order: npt.NDArray[np.int64] | None = None) -> tuple[int, int]:
        """The rows start..stop-1 that a batch of this rank has, as positions of the epoch."""
        number = batch * self.world_size + self.rank
        if number < self.full:
            start = self.batch_size * (number if order is None else int(order[number]))
            return start, start + self.batch_size
        size, more = divmod(self._left, self.world_size)
        start = self.full * self.batch_size + self.rank * size + min(self.rank, more)
        return start, start + size + (self.rank < more)

    def batch_order(self, epoch: int) -> npt.NDArray[np.int64]:
        """int64[full], the full batches of all ranks in the order of an epoch."""
        return permutation(self.full, self.seed, epoch, _BATCHES)

    def row_order(self, epoch: int) -> npt.NDArray[Any]:
        """uint32[rows] (uint64 from 2**32 on), the row at each position of an epoch.

        In epoch 0 it is the order of torchrec's `shuffle_training_set` with the same seed; twice
        its memory is needed while it is made.
        """
        kind = np.uint32 if self.rows <= _SMALL else np.uint64
        places = np.arange(self.rows, dtype=kind)
        np.random.RandomState((self.seed + epoch) % _STATES).shuffle(places)
        order = np.empty_like(places)  # torchrec draws the place of each row
        for start in range(0, self.rows, _BLOCK):
            some = places[start : start + _BLOCK]
            order[some] = np.arange(start, start + len(some), dtype=kind)
        return order


class EpochOrders:
    """Finds the rows of batches by their numbers; the orders of one epoch are in memory."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._batches: tuple[int, npt.NDArray[np.int64] | None] = (-1, None)
        self._rows: tuple[int, npt.NDArray[Any] | None] = (-1, None)

    def __reduce__(self) -> tuple[Any, ...]:
        return EpochOrders, (self._plan,)

    def request(self, epoch: int, batch: int) -> BatchRequest:
        """Return what a batch maker is asked for."""
        plan = self._plan
        if plan.shuffle_batches and self._batches[0] != epoch:
            self._batches = epoch, plan.batch_order(epoch)
        start, stop = plan.positions(batch, self._batches[1])
        if not plan.shuffle_rows:
            return start, stop
        if self._rows[0] != epoch:
            self._rows = (-1, None)  # before the next one is made: one is in memory
            self._rows = epoch, plan.row_order(epoch)
        rows: npt.NDArray[Any] = cast(npt.NDArray[Any], self._rows[1])[start:stop]
        return rows.copy()  # a view would be sent with all of it
