"""Which rows make which batch: arithmetic only.

An epoch is the rows 0..N-1 of the chosen parts, one behind another, or a permutation of them. It
is cut into batches that are dealt to the ranks in turn: batch k of rank r is batch k * W + r of all
W ranks, as torchrec deals them. The last batch of each rank takes what full batches for all ranks
leave over: so every rank has as many batches, and every row is in one.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ingot.converters.recsys.training import permutation

_BATCHES: Final = 2  # what a permutation is of; part of its seeds
_STATES: Final = 1 << 32  # seeds that RandomState takes
_SMALL: Final = 1 << 32  # rows whose numbers fit in 4 bytes
_BLOCK: Final = 1 << 20  # numbers that are made at a time


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How rows become the batches of one rank.

    Attributes:
        rows: N, of the chosen parts.
        batch_size: rows of a full batch, B.
        rank: which batches of each W.
        world_size: W.
        drop_last: whether all batches are full, rows beyond them left out. Else the last one of
            each rank is smaller, or where less than W rows are left over, full, with a row more on
            so many ranks.
        shuffle_batches: whether full batches come in an order drawn for the epoch.
        shuffle_rows: whether rows come in an order drawn for the epoch.
        seed: of both.
    """

    rows: int
    batch_size: int
    rank: int = 0
    world_size: int = 1
    drop_last: bool = False
    shuffle_batches: bool = False
    shuffle_rows: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        said = f"{self.rows:,} rows over {self.world_size} ranks"
        if self.rows < self.world_size:
            raise ValueError(f"world_size: {said} leave one without a row: take fewer")
        if not self.batches:
            hint = f"leave no full batch of {self.batch_size:,}: take a smaller batch_size"
            raise ValueError(f"drop_last: {said} {hint}")

    @cached_property
    def _left(self) -> int:
        """Rows of the last batches, of all ranks."""
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
        """Of a rank, the same on every one."""
        return self.full // self.world_size + (self._left > 0)

    @property
    def dropped(self) -> int:
        """Rows of an epoch that no rank delivers."""
        return self.rows - self.full * self.batch_size if self.drop_last else 0

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
