"""Batches of a split for training, and its rows as dicts for torch's own `DataLoader`.

An epoch is one sequence of positions 0..N-1: the row groups in the files' order or, where
shuffled, in an order drawn from (seed, epoch). Rank r takes a contiguous range of it. Its range is
cut into K batches, K the same on every rank. Shuffling is within windows, which are runs of whole
batches. So batch k of a rank has fixed rows, whoever reads it, and a position within an epoch is
the set of batches still to deliver.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Unpack

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingot.converters.recsys.ctr.loader import stored_rows
from ingot.converters.recsys.ctr.loader.collation import (
    Batch,
    Form,
    PackedBatch,
    feature_meta_of,
    load_kernels,
)
from ingot.converters.recsys.ctr.loader.split_files import Split, locate_split
from ingot.converters.recsys.training.batch_order import (
    BatchRun,
    EpochPlan,
    RowSequence,
    permutation,
)
from ingot.converters.recsys.training.environment import (
    check_integer,
    import_torch,
    in_worker,
    resolve_rank,
    torch_missing_error,
)
from ingot.converters.recsys.training.loader import (
    BatchMaker,
    BatchPlan,
    ReadingOptions,
    TrainingLoader,
    WorkerOptions,
)

try:
    from torch.utils.data import IterableDataset
except ImportError:  # every module loads with the core alone; the class says what is missing
    IterableDataset = None  # type: ignore[assignment, misc]

_ROWS: Final = 1024  # that are Python objects at a time
_Rows: Any = object if IterableDataset is None else IterableDataset
_GROUPS, _WINDOW = 0, 1  # what a permutation is of; parts of its seed


@dataclass(frozen=True, kw_only=True)
class Plan(BatchPlan):
    """How the rows of a split become the batches of one rank: a contiguous part of their sequence.

    Without `drop_last` the last batches of a rank may be smaller, none is empty.
    """

    shuffle: bool = False
    shuffle_buffer: int = 65536

    def __post_init__(self) -> None:
        share = self.rows // self.world_size
        shares = f"{self.rows:,} rows over {self.world_size} ranks"
        if self.drop_last and not self.batches:
            hint = f"leave no batch of {self.batch_size}: take a smaller batch_size"
            raise ValueError(f"drop_last: {shares} {hint}")
        if not share:
            raise ValueError(f"world_size: {shares} leave one without a row: take fewer")
        if share < self.batches:  # with batch_size 1 alone: else a full batch gives a row away
            hint = "give unequal counts: take drop_last=True or larger batches"
            raise ValueError(f"batch_size 1: {shares} {hint}")

    @property
    def batches(self) -> int:
        """Return the number of batches of a rank."""
        if self.drop_last:
            return self.rows // self.world_size // self.batch_size
        return -(-self.rows // (self.world_size * self.batch_size))

    @cached_property
    def range(self) -> tuple[int, int]:
        """Return the positions of this rank; sizes differ by at most one."""
        start = self.rows * self.rank // self.world_size
        return start, self.rows * (self.rank + 1) // self.world_size

    @property
    def dropped(self) -> int:
        """Return the number of rows that no rank delivers."""
        if not self.drop_last:
            return 0
        return self.rows - self.batches * self.batch_size * self.world_size

    def epoch_plan(self, split: Split) -> EpochPlan:
        """Return what the batches of a split depend on."""
        names = ["batch_size", "drop_last", "rank", "world_size", "shuffle"]
        if self.shuffle:
            names += ["seed", "window"]
        return EpochPlan(
            batches=self.batches,
            settings={name: getattr(self, name) for name in names},
            data={"rows": split.rows, "files": len(split.files), "fingerprint": split.fingerprint},
            names={"window": "batches of a shuffle_buffer"},
        )

    def first(self, batch: int) -> int:
        """Return the position of a batch's first row; of batch K, the position behind the last."""
        start, stop = self.range
        position = start + batch * self.batch_size
        if self.drop_last:
            return position
        return min(position, stop - (self.batches - batch))  # each later batch keeps a row

    @property
    def window(self) -> int:
        """Return the number of batches of a window."""
        return -(-self.shuffle_buffer // self.batch_size)

    def window_of(self, batch: int) -> BatchRun:
        """Return the batches of the window that a batch is in."""
        start = batch // self.window * self.window
        return start, min(start + self.window, self.batches)

    def group_order(self, groups: int, epoch: int) -> npt.NDArray[np.int64]:
        """Return int64[groups]: the row groups in the order of an epoch."""
        if not self.shuffle:
            return np.arange(groups, dtype=np.int64)
        return permutation(groups, self.seed, epoch, _GROUPS)

    def window_order(self, rows: int, epoch: int, window: BatchRun) -> npt.NDArray[np.int64]:
        """Return int64[rows]: the rows of a window in the order of an epoch."""
        return permutation(rows, self.seed, epoch, _WINDOW, self.rank, window[0])


Collate = Callable[[list[dict[str, Any]]], Any]


@dataclass(frozen=True, kw_only=True)
class Source:
    """All that a worker needs to know."""

    split: Split
    plan: Plan
    form: Form
    cache: Path | None
    collate: Collate | None


class Batches(BatchMaker):
    """Makes a packed batch of (epoch, number).

    Any order gives the right batches; ascending order decodes every row once.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._reader: tuple[int, stored_rows.RowReader] | None = None  # of an epoch
        self._order: tuple[int, RowSequence] | None = None
        # The shuffled window at hand: its epoch and batches, rows, and the order to take them in.
        self._window: (
            tuple[tuple[int, BatchRun], stored_rows.RowBuffer, npt.NDArray[np.int64]] | None
        ) = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Batches, (self._source,)

    def batch(self, request: tuple[int, int]) -> Any:  # noqa: ANN401
        """Make a batch."""
        selections, collate = self._take(*request), self._source.collate
        if collate is None:
            return self._source.form.collate(selections)
        rows = [piece.rows.take(pa.array(numbers)) for piece, numbers in selections]
        return collate(stored_rows.join_batches(rows).to_pylist())

    def stretch(self, epoch: int, number: int) -> object:
        """Return the row group, or the shuffled window, of a batch: a worker decodes it whole."""
        plan = self._source.plan
        if self._source.cache is not None:
            return number
        if plan.shuffle:
            return plan.window_of(number)
        first = plan.first(number)
        (span,) = self._sequence(epoch).spans(first, first + 1)
        return span.group, span.start // plan.shuffle_buffer

    def _take(self, epoch: int, batch: int) -> list[stored_rows.Taken]:
        plan = self._source.plan
        start, stop = plan.first(batch), plan.first(batch + 1)
        if not plan.shuffle:
            rows = stored_rows.RowBuffer(self._parts(epoch, start, stop))
            return rows.take(np.arange(stop - start))
        batches = plan.window_of(batch)
        before = plan.first(batches[0])
        if self._window is None or self._window[0] != (epoch, batches):
            self._window = None  # before the next one is read: one is in memory
            rows = stored_rows.RowBuffer(self._parts(epoch, before, plan.first(batches[1])))
            order = plan.window_order(len(rows), epoch, batches)
            self._window = (epoch, batches), rows, order
        _, rows, order = self._window
        return rows.take(order[start - before : stop - before])

    def _parts(self, epoch: int, start: int, stop: int) -> Iterator[stored_rows.Part]:
        source = self._source
        if self._reader is None or self._reader[0] != epoch:
            reads_ahead = source.cache is None and not in_worker()
            reader = stored_rows.RowReader(self._rows, self._sequence(epoch), ahead=reads_ahead)
            self._reader = epoch, reader
        return self._reader[1].parts(start, stop)

    @cached_property
    def _rows(self) -> stored_rows.ParquetRows | stored_rows.CachedRows:
        source = self._source
        if source.cache is not None:
            return stored_rows.CachedRows(source.split, source.cache, source.form.features)
        return stored_rows.ParquetRows(source.split, source.form.features, threads=not in_worker())

    def _sequence(self, epoch: int) -> RowSequence:
        if self._order is None or self._order[0] != epoch:
            groups = self._source.split.groups
            sizes = np.array([group.rows for group in groups], np.int64)
            order = self._source.plan.group_order(len(groups), epoch)
            self._order = epoch, RowSequence(sizes, order)
        return self._order[1]


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
            raise torch_missing_error()
        rank, world_size = resolve_rank(rank, world_size)
        self._split: Split = locate_split(data, split)
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
        source = stored_rows.ParquetRows(self._split, self._features)
        reader = stored_rows.RowReader(source, RowSequence(sizes, np.arange(len(sizes))))
        for piece, first, end in reader.parts(start, stop):
            for position in range(first, end, _ROWS):
                yield from piece.rows.slice(position, min(_ROWS, end - position)).to_pylist()


def build_dataloader(
    data: str | os.PathLike[str],
    batch_size: int = 1024,
    shuffle: bool = False,
    num_workers: int = 0,
    *,
    split: str | None = None,
    features: Sequence[str] | None = None,
    shuffle_buffer: int = 65536,
    seed: int = 0,
    epoch: int = 0,
    rank: int | None = None,
    world_size: int | None = None,
    drop_last: bool = False,
    jagged: bool = False,
    cache: str | os.PathLike[str] | None = None,
    collate_fn: Collate | None = None,
    **reading: Unpack[ReadingOptions],
) -> "ProcessedLoader":
    """Return batches of a processed split, as section 4 of the contract defines them.

    Order: not shuffled, the rows come as the files have them. Shuffled, the row groups are
    permuted and then rows are drawn within windows of `shuffle_buffer` rows, which a worker holds
    in memory: smaller row groups and larger windows mix better. Within a batch rows keep the order
    they were read in. The batches and their order depend on the data, seed, epoch, batch_size,
    shuffle_buffer, rank and world_size, not on the workers. Several workers decode a row group, or
    a window, each; batches that arrive before their turn wait in the caller's process.

    Args:
        data: the folder of a split (`DIR/train`), of a built set with `split`, or a Parquet file;
            a folder may be the URL of a result in an object store.
        batch_size: rows of a batch. Without `drop_last` the last one is smaller, or, where a rank
            has a row less than others, the last two.
        shuffle: see above; the order is another one in each epoch.
        num_workers: processes that read; 0 for this one.
        split: train | valid, where `data` holds both.
        features: names of those that are read, in any order; None for all.
        shuffle_buffer: rows of a window, rounded up to whole batches. 65,536 rows of the 23
            features of Ali-CCP take some 200 MB in each worker; none where they are cached. Without
            `shuffle` several workers decode row groups of more rows together.
        seed: of the order, from 0.
        epoch: the first one, from 0; it goes on by itself after each full pass, see
            `ProcessedLoader.set_epoch`.
        rank: which contiguous part of the epoch's order; None for torch.distributed's if it is
            initialised, else the only part.
        world_size: how many parts; None likewise. Every rank gets as many batches, and every row
            is on one rank.
        drop_last: full batches only; `ProcessedLoader.dropped_rows` are left out over all ranks.
        jagged: whether multi-value features stay jagged: `idx` LongTensor[sum of len], `len`,
            `offsets` LongTensor[B + 1], `val` FloatTensor[sum of len] or None, `type` "jagged".
        cache: a folder for an uncompressed copy that is mapped into memory in place of decoding
            Parquet. It is made at the first call, in the time of a pass, takes three to
            seven times their disk space and may be deleted when nobody reads it.
        collate_fn: makes a batch of row dicts in place of the vectorised path; it costs a Python
            object per row and token.
        reading: further arguments of torch's `DataLoader`: pin_memory, persistent_workers,
            prefetch_factor, multiprocessing_context, timeout.

    Raises:
        SourceError: no contract folder, columns or types that are not the contract's; while
            iterating, a file that is gone, was changed or holds null cells.
        ValueError: an argument that cannot be, an unknown feature, rows that do not give every
            rank a batch, WORLD_SIZE set and no rank known.
        OutputError: the cache cannot be written.
        ConversionError: torch is not installed.
    """
    batch_size = check_integer("batch_size", batch_size, 1)
    shuffle_buffer = check_integer("shuffle_buffer", shuffle_buffer, 1)
    seed, epoch = check_integer("seed", seed, 0), check_integer("epoch", epoch, 0)
    if jagged and collate_fn is not None:
        raise ValueError("jagged: a collate_fn of your own decides what a batch is; give one only")
    import_torch()
    rank, world_size = resolve_rank(rank, world_size)
    stored_split = locate_split(data, split)
    chosen = stored_split.select(features)
    plan = Plan(
        rows=stored_split.rows,
        batch_size=batch_size,
        rank=rank,
        world_size=world_size,
        drop_last=bool(drop_last),
        shuffle=bool(shuffle),
        shuffle_buffer=shuffle_buffer,
        seed=seed,
    )
    source = Source(
        split=stored_split,
        plan=plan,
        form=Form(features=chosen, jagged=jagged),
        cache=stored_rows.ensure_cache(stored_split, Path(cache)) if cache is not None else None,
        collate=collate_fn,
    )
    return ProcessedLoader(source, epoch, WorkerOptions(num_workers=num_workers, **reading))


class ProcessedLoader(TrainingLoader[Batch]):
    """Batches of a split: what `build_dataloader` returns, used as torch's DataLoader is.

    A restored position delivers the batches in the very order of the undisturbed pass, with any
    number of workers.

    Attributes:
        batch_size, drop_last, num_workers, rank, world_size: as given or found.
        feature_meta: per feature `is_multi_hot` and `use_value`.
        rows: of the split.
        dropped_rows: of an epoch that no rank delivers; 0 without `drop_last`.
    """

    def __init__(self, source: Source, epoch: int, workers: WorkerOptions) -> None:
        self.feature_meta = feature_meta_of(source.form.features)
        self._form = source.form
        if workers.get("num_workers"):  # which inherit the kernels that are loaded here
            load_kernels()
        epoch_plan = source.plan.epoch_plan(source.split)
        super().__init__(source.plan, Batches(source), epoch_plan, workers, epoch=epoch)

    def _finish(self, batch: Any) -> Batch:  # noqa: ANN401
        complete: Batch = self._form.unpack(batch) if isinstance(batch, PackedBatch) else batch
        return complete
