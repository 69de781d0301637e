"""`CriteoDataset`: batches of preprocessed Criteo data for training.

What runs the workers is `ingot.converters.recsys.training`.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ingot.converters.recsys.criteo.kjt import CriteoBatch
from ingot.converters.recsys.criteo.kjt_fields import check_sizes
from ingot.converters.recsys.criteo.loader.batch_plan import Plan
from ingot.converters.recsys.criteo.loader.batches import Batches, BatchRequest, Source
from ingot.converters.recsys.criteo.stored_arrays import Selection, locate_arrays
from ingot.converters.recsys.training import (
    EpochPlan,
    ResumableLoader,
    check_integer,
    import_torch,
    in_worker,
    resolve_rank,
)
from ingot.converters.sources.recognizers.criteo import SPARSE

if TYPE_CHECKING:
    from ingot.converters.recsys.criteo.multihot.conversion import MultiHot

_MOST_SEED: Final = (1 << 32) - 1


class CriteoDataset:
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
        self._selection = locate_arrays(folder, split, parts)
        self._plan = Plan(
            rows=self._selection.rows,
            batch_size=batch_size,
            rank=rank,
            world_size=world_size,
            drop_last=bool(drop_last),
            shuffle_batches=bool(shuffle_batches),
            shuffle_rows=bool(shuffle_rows),
            seed=check_integer("seed", seed, 0, _MOST_SEED),
        )
        self._multi_hot = multi_hot
        self._options = {
            "num_workers": check_integer("num_workers", num_workers, 0),
            "pin_memory": pin_memory,
            "persistent_workers": persistent_workers,
            "prefetch_factor": prefetch_factor,
            "multiprocessing_context": multiprocessing_context,
            "timeout": timeout,
        }
        self._begin(check_integer("epoch", epoch, 0))

    def _begin(self, epoch: int) -> None:
        counted = self._multi_hot is not None and self._multi_hot.collect_multi_hot_freqs_stats
        self._here = self._multi_hot if counted else None
        self._batches = Batches(
            Source(
                selection=self._selection,
                num_embeddings=self.num_embeddings,
                multi_hot=None if counted else self._multi_hot,
            )
        )
        self._orders = _Orders(self._plan)
        self._passes = ResumableLoader(
            self._batches,
            _make_course(self._plan, self._selection, self.num_embeddings),
            epoch=epoch,
            want=self._orders.wanted,
            seed=self._plan.seed,
            **self._options,
        )

    @property
    def batch_size(self) -> int:
        """Rows of a full batch."""
        return self._plan.batch_size

    @property
    def drop_last(self) -> bool:
        """Whether all batches are full."""
        return self._plan.drop_last

    @property
    def num_workers(self) -> int:
        """Processes that read."""
        return int(self._options["num_workers"])

    @property
    def rank(self) -> int:
        """Which batches of each `world_size`."""
        return self._plan.rank

    @property
    def world_size(self) -> int:
        """How many ranks share an epoch."""
        return self._plan.world_size

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts that rows are of, in their order."""
        return self._selection.parts

    @property
    def rows(self) -> int:
        """Rows of the split, over all ranks."""
        return self._plan.rows

    @property
    def dropped_rows(self) -> int:
        """Rows of an epoch that no rank delivers."""
        return self._plan.dropped

    @property
    def epoch(self) -> int:
        """The epoch of the pass under way, else of the next one."""
        return self._passes.epoch

    def __len__(self) -> int:
        """Batches of a whole epoch on this rank, and on every other."""
        return self._plan.batches

    def __iter__(self) -> Iterator[CriteoBatch]:
        """A pass: what a loaded state left of the epoch, else the epoch from its beginning.

        A pass to the end goes on to the next epoch; one that was left begins the epoch anew.
        """
        return map(self._finished, self._passes)

    def __getitem__(self, batch: int) -> CriteoBatch:
        """A batch of the present epoch by its number.

        Raises:
            IndexError: there is none of that number.
            SourceError: as while iterating.
            ValueError: frequencies would be counted in a worker, where they are lost.
        """
        if not 0 <= batch < len(self):
            raise IndexError(f"batch {batch} of {len(self)}")
        if self._here is not None and in_worker():
            said = "collect_multi_hot_freqs_stats: a worker's counts are lost"
            raise ValueError(f"{said}: iterate over the data set itself, or take no workers")
        return self._finished(self._batches.batch(self._orders.wanted(self.epoch, int(batch))))

    def _finished(self, batch: CriteoBatch) -> CriteoBatch:
        if self._here is None:
            return batch
        return batch._replace(sparse_features=self._here.convert(batch.sparse_features))

    def set_epoch(self, epoch: int) -> None:
        """Go to an epoch: the next pass begins with it.

        The epoch that the data set is at keeps its position, so that a training loop may call this
        at the head of every epoch, also of the one that it goes on with after `load_state_dict`.

        Raises:
            ValueError: no whole number from 0.
        """
        self._passes.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Where this rank stands, as plain JSON: the batches not yet handed to the caller.

        What workers read ahead does not count. Take it in the process that iterates, one of each
        rank. After a whole pass it is the beginning of the next epoch.
        """
        return self._passes.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where a state was taken: the next pass delivers what was left of its epoch.

        The batches come in the very order of the undisturbed pass, with any number of workers.
        Data in another folder are the same data if their arrays are.

        Raises:
            ValueError: no state of this data set, or one of other data, batch_size, drop_last,
                ranks, order or num_embeddings; every difference is named.
        """
        self._passes.load_state_dict(state)

    def __getstate__(self) -> dict[str, Any]:
        made = ("_here", "_batches", "_orders", "_passes")
        kept = {name: value for name, value in vars(self).items() if name not in made}
        return kept | {"state": self.state_dict()}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        state = kept.pop("state")
        vars(self).update(kept)
        self._begin(state["epoch"])
        self.load_state_dict(state)


class _Orders:
    """What batches hold, by epoch: the orders of one epoch are kept."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._batches = lru_cache(1)(plan.batch_order)
        self._rows: tuple[int, Any] = (-1, None)

    def wanted(self, epoch: int, batch: int) -> BatchRequest:
        """What to ask `Batches` for."""
        order = self._batches(epoch) if self._plan.shuffle_batches else None
        start, stop = self._plan.positions(batch, order)
        if not self._plan.shuffle_rows:
            return start, stop
        if self._rows[0] != epoch:
            self._rows = (-1, None)  # before the next one is made: one is in memory
            self._rows = epoch, self._plan.row_order(epoch)
        rows: BatchRequest = self._rows[1][start:stop].copy()  # a view would be sent with all of it
        return rows


def _table_sizes(
    given: Sequence[int] | int | None, multi_hot: "MultiHot | None"
) -> tuple[int, ...] | None:
    """The sizes that ids are taken modulo."""
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


def _make_course(plan: Plan, selection: Selection, sizes: tuple[int, ...] | None) -> EpochPlan:
    names = ["batch_size", "drop_last", "rank", "world_size", "shuffle_batches", "shuffle_rows"]
    if plan.shuffle_batches or plan.shuffle_rows:
        names.append("seed")
    settings = {name: getattr(plan, name) for name in names}
    files = sum(len(one.arrays) for one in selection.stretches)
    return EpochPlan(
        batches=plan.batches,
        streams=1,  # rows are found by their number: workers may take turns from any place
        settings=settings | {"num_embeddings": None if sizes is None else list(sizes)},
        data={"rows": plan.rows, "files": files, "fingerprint": selection.fingerprint},
        names={},
    )
