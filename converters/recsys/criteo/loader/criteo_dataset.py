"""`CriteoDataset`: batches of preprocessed Criteo data for training."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ingot.converters.recsys.criteo.kjt import CriteoBatch
from ingot.converters.recsys.criteo.kjt_fields import check_sizes
from ingot.converters.recsys.criteo.loader.batch_plan import EpochOrders, Plan
from ingot.converters.recsys.criteo.loader.batches import Batches, Source
from ingot.converters.recsys.criteo.stored_arrays import locate_arrays
from ingot.converters.recsys.training.environment import (
    check_integer,
    import_torch,
    in_worker,
    resolve_rank,
)
from ingot.converters.recsys.training.loader import TrainingLoader, WorkerOptions
from ingot.converters.sources.recognizers.criteo import SPARSE

if TYPE_CHECKING:
    from ingot.converters.recsys.criteo.multihot.conversion import MultiHot

_MOST_SEED: Final = (1 << 32) - 1


class CriteoDataset(TrainingLoader[CriteoBatch]):
    """Batches of a preprocessed folder, memory-mapped: a batch at a time is in memory.

        for epoch in range(3):
            for dense, sparse, labels in CriteoDataset("out", batch_size=16384):
                ...

    The folder is one of `ingot criteo preprocess` or of torchrec's own scripts. The last part is
    kept for validation and test; its first half is "val". Without shuffling the batches are those
    of torchrec's `InMemoryBinaryCriteoIterDataPipe`, on every rank.

    Every row is in one batch of one rank, and every rank has as many batches. What is a batch and
    which comes next depends on the data and the arguments, not on the workers.

    With `DataLoader(dataset, batch_size=None, num_workers=2)` of torch's own it works too, by the
    batches' numbers: in the epoch of the data set, which such a loader does not advance, nor the
    position that `state_dict` tells.

    Args:
        folder: with `day_0_dense.npy`, `day_0_labels.npy`, `day_0_sparse.npy` and so on.
        batch_size: rows of a batch. Without `drop_last` the last one of each rank is smaller; where
            less than `world_size` rows are left over, the last one has a row more on so many ranks.
        split: train (all parts but the last), val (the first half of the last part's rows, the
            larger one), test (its other half), last (both), all.
        parts: names, such as "day_3" or "train", or numbers of days, in the order in which they
            are read; the last one is the last part of `split`. None for all in the folder.
        rank: which batches of each `world_size`; None for torch.distributed's if it is
            initialised, else the only rank.
        world_size: how many ranks there are; None likewise.
        drop_last: full batches only; `dropped_rows` are left out over all ranks.
        shuffle_batches: whether full batches come in an order drawn for the epoch, over all ranks;
            the last ones stay last. Rows within a batch keep theirs: torchrec's argument of this
            name does only the other thing, which no loss sees.
        shuffle_rows: whether rows come in an order drawn for the epoch, for data that were not
            shuffled when they were written, such as Kaggle's. It takes 4 bytes a row of memory,
            8 while it is drawn, and reads rows from everywhere. In epoch 0 of rank 0 of 1 it is
            torchrec's `shuffle_training_set`.
        seed: of what is drawn, from 0 to 2**32 - 1.
        epoch: the first one, from 0; it goes on by itself after each full pass.
        num_embeddings: sizes that ids are taken modulo, 26 or one for all (torchrec's `hashes`);
            None for those of `multi_hot`, or ids as they are.
        multi_hot: makes lists of ids of the larger features, in the workers; where it counts
            frequencies, in this process.
        num_workers: processes that read; 0 for this one, which is quick enough for most.
        pin_memory: whether batches are copied to page-locked memory; nothing happens without CUDA.
        persistent_workers: whether workers stay from one pass to the next.
        prefetch_factor: batches that a worker reads ahead; None for torch's default, 2.
        multiprocessing_context: how workers start, such as "spawn"; None for torch's default.
        timeout: seconds to wait for a worker's batch; 0 for ever.

    Attributes:
        batch_size, drop_last, num_workers, rank, world_size: as given or found.
        num_embeddings: 26 sizes, or None.
        parts: the names of those that rows are of.
        rows: of the split.
        dropped_rows: of an epoch that no rank delivers; 0 without `drop_last`.

    Raises:
        SourceError: as `locate`; while iterating, a file that is gone or was changed, ids that
            int32 does not hold.
        ValueError: an argument that cannot be, rows that do not give every rank a batch,
            WORLD_SIZE set and no rank known.
        ConversionError: torch is not installed.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        batch_size: int,
        *,
        split: str = "train",
        parts: Sequence[str | int] | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        drop_last: bool = False,
        shuffle_batches: bool = False,
        shuffle_rows: bool = False,
        seed: int = 0,
        epoch: int = 0,
        num_embeddings: Sequence[int] | int | None = None,
        multi_hot: "MultiHot | None" = None,
        num_workers: int = 0,
        pin_memory: bool = False,
        persistent_workers: bool = False,
        prefetch_factor: int | None = None,
        multiprocessing_context: Any = None,  # noqa: ANN401
        timeout: float = 0,
    ) -> None:
        batch_size = check_integer("batch_size", batch_size, 1)
        import_torch()
        rank, world_size = resolve_rank(rank, world_size)
        self.num_embeddings = _table_sizes(num_embeddings, multi_hot)
        selection = locate_arrays(folder, split, parts)
        plan = Plan(
            rows=selection.rows,
            batch_size=batch_size,
            rank=rank,
            world_size=world_size,
            drop_last=bool(drop_last),
            shuffle_batches=bool(shuffle_batches),
            shuffle_rows=bool(shuffle_rows),
            seed=check_integer("seed", seed, 0, _MOST_SEED),
        )
        counted = multi_hot is not None and multi_hot.collect_multi_hot_freqs_stats
        self._counting = multi_hot if counted else None
        source = Source(
            selection=selection,
            num_embeddings=self.num_embeddings,
            multi_hot=None if counted else multi_hot,
        )
        self._parts = selection.parts
        data = {
            "rows": plan.rows,
            "files": len(selection.arrays),
            "fingerprint": selection.fingerprint,
        }
        super().__init__(
            plan,
            Batches(source),
            plan.epoch_plan(data, self.num_embeddings),
            WorkerOptions(
                num_workers=num_workers,
                pin_memory=pin_memory,
                persistent_workers=persistent_workers,
                prefetch_factor=prefetch_factor,
                multiprocessing_context=multiprocessing_context,
                timeout=timeout,
            ),
            epoch=check_integer("epoch", epoch, 0),
            request=EpochOrders(plan).request,
        )

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts that rows are of, in their order."""
        return self._parts

    def __getitem__(self, batch: int) -> CriteoBatch:
        """A batch of the present epoch by its number.

        Raises:
            IndexError: there is none of that number.
            SourceError: as while iterating.
            ValueError: frequencies would be counted in a worker, where they are lost.
        """
        if not 0 <= batch < len(self):
            raise IndexError(f"batch {batch} of {len(self)}")
        if self._counting is not None and in_worker():
            problem = "collect_multi_hot_freqs_stats: a worker's counts are lost"
            raise ValueError(f"{problem}: iterate over the data set itself, or take no workers")
        return self._finish(self._maker.batch(self._request(self.epoch, int(batch))))

    def _finish(self, batch: CriteoBatch) -> CriteoBatch:
        if self._counting is None:
            return batch
        return batch._replace(sparse_features=self._counting.convert(batch.sparse_features))


def _table_sizes(
    given: Sequence[int] | int | None, multi_hot: "MultiHot | None"
) -> tuple[int, ...] | None:
    tables = None if multi_hot is None else tuple(multi_hot.parameters.num_embeddings)
    if tables is not None and len(tables) != SPARSE:
        raise ValueError(f"multi_hot: tables of {len(tables)} features, and data of {SPARSE}")
    if given is None:
        return tables
    each: Any = given if np.ndim(given) else [given] * SPARSE
    sizes = tuple(check_sizes(each, SPARSE))
    if tables is not None and sizes != tables:
        raise ValueError("num_embeddings: not those of multi_hot: leave them to it")
    return sizes
