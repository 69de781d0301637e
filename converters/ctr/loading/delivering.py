"""The batches of a rank by their number, as the workers make them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ingot.converters.ctr.loading.batching import Plan
from ingot.converters.ctr.loading.caching import CachedRows
from ingot.converters.ctr.loading.collating import collate_columns
from ingot.converters.ctr.loading.locating import Split, StoredFeature
from ingot.converters.ctr.loading.packing import pack
from ingot.converters.ctr.loading.reading import Gathering, ParquetRows, Rows, joined, pieces
from ingot.converters.errors import IngotError
from ingot.converters.loading.dealing import Run
from ingot.converters.loading.passing import Failed, in_worker
from ingot.converters.loading.sequencing import Sequenced

Collate = Callable[[list[dict[str, Any]]], Any]


@dataclass(frozen=True, kw_only=True)
class Source:
    """All that a worker needs to know.

    Attributes:
        split: where the rows are.
        plan: which of them make a batch.
        features: those that are read.
        jagged: whether lists stay jagged.
        cache: the file to read in place of Parquet.
        collate: makes a batch of row dicts in place of the vectorised path.
    """

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
    batches: Run
    rows: Gathering
    order: npt.NDArray[np.int64]


class Batches:
    """The batches of a rank by (epoch, number): torch's data set, of which each worker has a copy.

    What it gives is a batch, in a worker `Packed`, or `Failed`.

    Any order gives the right batches; ascending order decodes every row once.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._rows: Rows | None = None
        self._sequence: tuple[int, Sequenced] | None = None
        self._window: _Window | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Batches, (self._source,)

    def __len__(self) -> int:
        return self._source.plan.batches

    def __getitem__(self, place: tuple[int, int]) -> Any:  # noqa: ANN401
        try:
            columns = self._columns(*place)
        except IngotError as error:
            return Failed(error=error)
        source = self._source
        if source.collate is not None:
            return source.collate(columns.to_pylist())
        batch = collate_columns(columns, source.features, jagged=source.jagged)
        return pack(batch) if in_worker() else batch

    def _columns(self, epoch: int, batch: int) -> Any:  # noqa: ANN401
        """The record batch of a batch."""
        plan = self._source.plan
        start, stop = plan.first(batch), plan.first(batch + 1)
        if not plan.shuffle:
            return joined(list(self._read(epoch, start, stop)))
        window = self._window_of(epoch, batch)
        before = plan.first(window.batches[0])
        return window.rows.take(window.order[start - before : stop - before])

    def _window_of(self, epoch: int, batch: int) -> _Window:
        plan, held = self._source.plan, self._window
        batches = plan.window_of(batch)
        if held is not None and (held.epoch, held.batches) == (epoch, batches):
            return held
        self._window = held = None  # before the next one is read: one is in memory
        rows = Gathering(self._read(epoch, plan.first(batches[0]), plan.first(batches[1])))
        order = plan.window_order(len(rows), epoch, batches)
        self._window = _Window(epoch=epoch, batches=batches, rows=rows, order=order)
        return self._window

    def _read(self, epoch: int, start: int, stop: int) -> Iterator[Any]:
        if self._rows is None:
            self._rows = _rows(self._source)
        if self._sequence is None or self._sequence[0] != epoch:
            groups = self._source.split.groups
            sizes = np.array([group.rows for group in groups], np.int64)
            order = self._source.plan.group_order(len(groups), epoch)
            self._sequence = epoch, Sequenced(sizes, order)
        return pieces(self._rows, self._sequence[1], start, stop)


def _rows(source: Source) -> Rows:
    if source.cache is not None:
        return CachedRows(source.split, source.cache, source.features)
    return ParquetRows(source.split, source.features, threads=not in_worker())
