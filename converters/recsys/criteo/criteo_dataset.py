"""`CriteoDataset`: batches of preprocessed Criteo data for training.

An epoch is the rows 0..N-1 of the chosen parts, one behind another, or a permutation of them. It
is cut into batches that are dealt to the ranks in turn: batch k of rank r is batch k * W + r of all
W ranks, as torchrec deals them. The last batch of each rank takes what full batches for all ranks
leave over: so every rank has as many batches, and every row is in one.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Unpack, cast

import numpy as np
import numpy.typing as npt

from ingot.converters.errors import SourceError
from ingot.converters.recsys.criteo.contract import (
    DTYPES,
    KINDS,
    MappedRows,
    Selection,
    locate_arrays,
    take_modulo,
)
from ingot.converters.recsys.criteo.kjt import CriteoBatch, KeyedJaggedTensor
from ingot.converters.recsys.criteo.kjt_fields import check_sizes
from ingot.converters.recsys.training.batch_order import EpochPlan, RowSequence, permutation
from ingot.converters.recsys.training.environment import (
    check_integer,
    import_torch,
    in_worker,
    resolve_rank,
)
from ingot.converters.recsys.training.loader import (
    BatchMaker,
    BatchPlan,
    TrainingLoader,
    WorkerOptions,
)
from ingot.converters.sources.recognizers.criteo import SPARSE, WIDTHS

if TYPE_CHECKING:
    from ingot.converters.recsys.criteo.multihot.conversion import MultiHot


Array = npt.NDArray[Any]
BatchRequest = tuple[int, int] | Array  # positions start..stop-1, or the numbers of rows
_Piece = tuple[Array, ...]  # rows: [n, 13], [n, 1], int32 [n, 26]

_MOST_SEED: Final = (1 << 32) - 1
_TILE: Final = 256  # rows that are turned into columns at a time: they stay in the cache
_BATCHES: Final = 2  # what a permutation is of; part of its seeds
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
        remaining = self.rows % (self.batch_size * self.world_size)
        if self.drop_last:
            return 0
        if 0 < remaining < self.world_size:  # not a row for each: the last full batches take them
            return remaining + self.batch_size * self.world_size
        return remaining

    @cached_property
    def full(self) -> int:
        """Return the number of full batches of all ranks, at least W times that of a rank."""
        global_batch = self.batch_size * self.world_size
        return (self.rows - self._left) // global_batch * self.world_size

    @property
    def batches(self) -> int:
        """Return the number of batches of a rank."""
        return self.full // self.world_size + (self._left > 0)

    @property
    def dropped(self) -> int:
        """Return the number of rows that no rank delivers."""
        return self.rows - self.full * self.batch_size if self.drop_last else 0

    def epoch_plan(self, data: Mapping[str, Any], sizes: tuple[int, ...] | None) -> EpochPlan:
        """Return what the batches depend on; `sizes`: those that ids are taken modulo."""
        names = ["batch_size", "drop_last", "rank", "world_size", "shuffle_batches", "shuffle_rows"]
        if self.shuffle_batches or self.shuffle_rows:
            names.append("seed")
        settings = {name: getattr(self, name) for name in names}
        return EpochPlan(
            batches=self.batches,
            settings=settings | {"num_embeddings": None if sizes is None else list(sizes)},
            data=data,
        )

    def positions(self, batch: int, order: npt.NDArray[np.int64] | None = None) -> tuple[int, int]:
        """Return the rows start..stop-1 of a batch of this rank as positions of the epoch."""
        number = batch * self.world_size + self.rank
        if number < self.full:
            start = self.batch_size * (number if order is None else int(order[number]))
            return start, start + self.batch_size
        size, remainder = divmod(self._left, self.world_size)
        start = self.full * self.batch_size + self.rank * size + min(self.rank, remainder)
        return start, start + size + (self.rank < remainder)

    def batch_order(self, epoch: int) -> npt.NDArray[np.int64]:
        """Return int64[full]: the full batches of all ranks in the order of an epoch."""
        return permutation(self.full, self.seed, epoch, _BATCHES)

    def row_order(self, epoch: int) -> npt.NDArray[Any]:
        """Return the row at each position of an epoch: uint32[rows], uint64 from 2**32 rows on.

        In epoch 0 it is the order of torchrec's `shuffle_training_set` with the same seed; twice
        its memory is needed while it is made.
        """
        kind = np.uint32 if self.rows <= _SMALL else np.uint64
        positions = np.arange(self.rows, dtype=kind)
        np.random.RandomState((self.seed + epoch) % (_MOST_SEED + 1)).shuffle(positions)
        order = np.empty_like(positions)  # torchrec draws the place of each row
        for start in range(0, self.rows, _BLOCK):
            block = positions[start : start + _BLOCK]
            order[block] = np.arange(start, start + len(block), dtype=kind)
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
        rows: npt.NDArray[Any] = cast("npt.NDArray[Any]", self._rows[1])[start:stop]
        return rows.copy()  # a view would be sent with all of it


class Batches(BatchMaker):
    """Makes a `CriteoBatch` of positions; all that a worker needs to know."""

    def __init__(
        self, selection: Selection, sizes: tuple[int, ...] | None, multi_hot: "MultiHot | None"
    ) -> None:
        """Take `sizes`, 26 that ids are taken modulo, or None; `multi_hot` makes lists of ids."""
        self._selection, self._sizes, self._multi_hot = selection, sizes, multi_hot

    def __reduce__(self) -> tuple[Any, ...]:
        return Batches, (self._selection, self._sizes, self._multi_hot)

    def batch(self, request: BatchRequest) -> CriteoBatch:
        """Make the batch of these positions."""
        rows = request[1] - request[0] if isinstance(request, tuple) else len(request)
        dense, labels = _empty_array("dense", rows), _empty_array("labels", rows)
        columns: Array = np.empty((WIDTHS["sparse"], rows), DTYPES["sparse"])
        start = 0
        for part_dense, part_labels, sparse in self._pieces(request):
            stop = start + len(part_dense)
            dense[start:stop], labels[start:stop] = part_dense, part_labels
            for tile in range(start, stop, _TILE):  # quicker by half than all at once
                end = min(tile + _TILE, stop)
                columns[:, tile:end] = sparse[tile - start : end - start].T
            start = stop
        if self._sizes is not None:
            take_modulo(columns, self._sizes)
        of_numpy = import_torch().from_numpy
        ids = KeyedJaggedTensor.from_columns(of_numpy(columns))
        if self._multi_hot is not None:
            ids = self._multi_hot.convert(ids)
        return CriteoBatch(of_numpy(dense), ids, of_numpy(labels).reshape(-1))

    def _pieces(self, request: BatchRequest) -> Iterator[_Piece]:
        """Rows one part after another, views of the files; or one piece of chosen rows."""
        if not isinstance(request, tuple):
            yield self._gather_rows(request)
            return
        for span in self._sequence.spans(*request):
            first = self._selection.stretches[span.group].start
            start, stop = first + span.start, first + span.stop
            yield self._piece(span.group, *(m.span(start, stop) for m in self._mapped[span.group]))

    def _gather_rows(self, rows: Array) -> _Piece:
        stretches = self._selection.stretches
        stops = np.cumsum([one.stop - one.start for one in stretches])
        parts = np.searchsorted(stops, rows, side="right")
        gathered = tuple(_empty_array(kind, len(rows)) for kind in KINDS)
        for part in np.unique(parts).tolist():
            matching = np.flatnonzero(parts == part)
            stored = rows[matching].astype(np.int64) - (stops[part] - stretches[part].stop)
            piece = self._piece(part, *(mapped.take(stored) for mapped in self._mapped[part]))
            for target, values in zip(gathered, piece, strict=True):
                target[matching] = values
        return gathered

    def _piece(self, part: int, dense: Array, labels: Array, sparse: Array) -> _Piece:
        """Rows with ids as int32: torchrec's own scripts leave int64 where they did not shuffle."""
        if sparse.dtype == DTYPES["sparse"]:
            return dense, labels, sparse
        if self._sizes is not None:
            sparse = sparse % np.array(self._sizes)
        narrow: Array = sparse.astype(DTYPES["sparse"])
        if not np.array_equal(narrow, sparse):
            path = self._selection.stretches[part].arrays[KINDS.index("sparse")].path
            problem = f"holds ids from {sparse.min():,} to {sparse.max():,}, beyond int32"
            raise SourceError(str(path), problem, "give num_embeddings: ids are taken modulo these")
        return dense, labels, narrow

    @cached_property
    def _mapped(self) -> list[tuple[MappedRows, ...]]:
        return [tuple(map(MappedRows, stretch.arrays)) for stretch in self._selection.stretches]

    @cached_property
    def _sequence(self) -> RowSequence:
        sizes = np.array([one.stop - one.start for one in self._selection.stretches], np.int64)
        return RowSequence(sizes, np.arange(len(sizes)))


def _empty_array(kind: str, rows: int) -> Array:
    return np.empty((rows, WIDTHS[kind]), DTYPES[kind])


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
        folder: with `day_0_dense.npy`, `day_0_labels.npy`, `day_0_sparse.npy` and so on; or the
            URL of a result in an object store.
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
        workers: arguments of torch's `DataLoader`: num_workers (0, this process alone, is quick
            enough for most), pin_memory, persistent_workers, prefetch_factor,
            multiprocessing_context, timeout.

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
        **workers: Unpack[WorkerOptions],
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
        self.parts: Final = selection.parts
        data = {
            "rows": plan.rows,
            "files": len(selection.arrays),
            "fingerprint": selection.fingerprint,
        }
        super().__init__(
            plan,
            Batches(selection, self.num_embeddings, None if counted else multi_hot),
            plan.epoch_plan(data, self.num_embeddings),
            workers,
            epoch=check_integer("epoch", epoch, 0),
            request=EpochOrders(plan).request,
        )

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
    num_embeddings: Sequence[int] | int | None, multi_hot: "MultiHot | None"
) -> tuple[int, ...] | None:
    tables = None if multi_hot is None else tuple(multi_hot.parameters.num_embeddings)
    if tables is not None and len(tables) != SPARSE:
        raise ValueError(f"multi_hot: tables of {len(tables)} features, and data of {SPARSE}")
    if num_embeddings is None:
        return tables
    per_table: Any = num_embeddings if np.ndim(num_embeddings) else [num_embeddings] * SPARSE
    sizes = tuple(check_sizes(per_table, SPARSE))
    if tables is not None and sizes != tables:
        raise ValueError("num_embeddings: not those of multi_hot: leave them to it")
    return sizes
