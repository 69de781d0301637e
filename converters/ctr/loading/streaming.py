"""The rows of a split as dicts, for a `DataLoader` of torch's own with `collate_fn`."""

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ingot.converters.ctr.loading.batching import Plan
from ingot.converters.ctr.loading.collating import feature_meta_of
from ingot.converters.ctr.loading.locating import Split, locate
from ingot.converters.ctr.loading.reading import ParquetRows, read
from ingot.converters.loading.passing import torch_missing
from ingot.converters.loading.ranks import place
from ingot.converters.loading.sequencing import Sequenced

if TYPE_CHECKING:
    from torch.utils.data import IterableDataset
else:
    try:
        from torch.utils.data import IterableDataset
    except ImportError:  # every module loads with the core alone; the class says what is missing
        IterableDataset = None

_ROWS: Final = 1024  # that are Python objects at a time
_Rows: Any = object if IterableDataset is None else IterableDataset


class ProcessedIterDataset(_Rows):  # type: ignore[misc]
    """The rows of a split as dicts of the contract's columns, in the files' order.

        DataLoader(ProcessedIterDataset("ctr/train"), batch_size=1024, collate_fn=collate_fn)

    Every row comes once, whatever the number of workers and ranks: a worker reads one stretch of
    its rank's rows. With several workers each forms batches of its own rows, so that each may end
    on a smaller one: the batches may be more than `len(DataLoader)`, of which torch warns. An error
    of a worker is a RuntimeError to the caller: torch makes it so. `build_dataloader` has neither
    of it and is many times as fast; this is for code that wants the rows.

    Args:
        data: the folder of a split, or of a built set with `split`, or one Parquet file.
        split: train | valid, where `data` holds both.
        features: names of those that are read; None for all.
        rank, world_size: which part of the rows; None for those of torch.distributed if it is
            initialised, else the only part.

    Attributes:
        feature_meta: per feature `is_multi_hot` and `use_value`, as `collate_fn` takes it.

    Raises:
        SourceError: as `locate`; while reading, cells or files that cannot be taken.
        ValueError: an unknown feature, a rank that cannot be, WORLD_SIZE set and no rank known.
        ConversionError: torch is not installed.
    """

    def __init__(
        self,
        data: str | os.PathLike[str],
        *,
        split: str | None = None,
        features: Sequence[str] | None = None,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        if IterableDataset is None:
            raise torch_missing()
        rank, world_size = place(rank, world_size)
        self._split: Split = locate(data, split)
        self._features = self._split.select(features)
        self.feature_meta = feature_meta_of(self._features)
        self._range = Plan(
            rows=self._split.rows, batch_size=self._split.rows, rank=rank, world_size=world_size
        ).range

    def __len__(self) -> int:
        """The rows of this rank."""
        return self._range[1] - self._range[0]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        from torch.utils.data import get_worker_info

        info = get_worker_info()
        number, workers = (info.id, info.num_workers) if info else (0, 1)
        start, rows = self._range[0], len(self)
        return self._rows(start + rows * number // workers, start + rows * (number + 1) // workers)

    def _rows(self, start: int, stop: int) -> Iterator[dict[str, Any]]:
        sizes = np.array([group.rows for group in self._split.groups], np.int64)
        sequence = Sequenced(sizes, np.arange(len(sizes)))
        source = ParquetRows(self._split, self._features)
        for first in range(start, stop, _ROWS):
            yield from read(source, sequence, first, min(first + _ROWS, stop)).to_pylist()
