"""Which rows make which batch, and who delivers it: arithmetic only.

An epoch is one sequence of positions 0..N-1: the row groups in the files' order or, where
shuffled, in an order drawn from (seed, epoch). Rank r takes a contiguous range of it. Its range is
cut into K batches, K the same on every rank. Shuffling is within windows, which are runs of whole
batches. So batch k of a rank has fixed rows, whoever reads it, and a position within an epoch is
the set of batches still to deliver.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ingot.converters.loading.dealing import Run
from ingot.converters.loading.sequencing import permutation

_GROUPS, _WINDOW = 0, 1  # what a permutation is of; parts of its seed


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How the rows of a split become the batches of one rank.

    Attributes:
        rows: N, of the split.
        batch_size: rows of a full batch, B.
        rank, world_size: which range of the sequence.
        drop_last: whether all batches are full, rows beyond them left out; else the last ones of
            a rank may be smaller, none is empty.
        shuffle: whether the order is drawn.
        shuffle_buffer: rows of a window, rounded up to whole batches.
        seed: of the order.

    Raises:
        ValueError: the rows do not give every rank a batch.
    """

    rows: int
    batch_size: int
    rank: int = 0
    world_size: int = 1
    drop_last: bool = False
    shuffle: bool = False
    shuffle_buffer: int = 65536
    seed: int = 0

    def __post_init__(self) -> None:
        least = self.rows // self.world_size
        if self.drop_last and not self.batches:
            said = f"{self.rows:,} rows over {self.world_size} ranks leave no batch of"
            raise ValueError(f"drop_last: {said} {self.batch_size}: take a smaller batch_size")
        if not least:
            said = f"{self.rows:,} rows cannot be shared by {self.world_size} ranks"
            raise ValueError(f"world_size: {said}: take fewer")
        if least < self.batches:  # with batch_size 1 alone: else a full batch gives a row away
            said = f"{self.rows:,} rows over {self.world_size} ranks give unequal counts"
            raise ValueError(f"batch_size 1: {said}: take drop_last=True or larger batches")

    @cached_property
    def batches(self) -> int:
        """K, on every rank."""
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
        """Rows of the epoch that no rank delivers."""
        kept = self.batches * self.batch_size * self.world_size if self.drop_last else self.rows
        return self.rows - kept

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

    def window_of(self, batch: int) -> Run:
        """The batches of the window that a batch is in."""
        start = batch // self.window * self.window
        return start, min(start + self.window, self.batches)

    def group_order(self, groups: int, epoch: int) -> npt.NDArray[np.int64]:
        """int64[groups], the row groups in the order of an epoch."""
        if not self.shuffle:
            return np.arange(groups, dtype=np.int64)
        return permutation(groups, self.seed, epoch, _GROUPS)

    def window_order(self, rows: int, epoch: int, window: Run) -> npt.NDArray[np.int64]:
        """int64[rows], the rows of a window in the order of an epoch."""
        return permutation(rows, self.seed, epoch, _WINDOW, self.rank, window[0])
