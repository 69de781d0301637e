"""The batches of a rank, as the workers make them of positions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from ingot.converters.errors import SourceError
from ingot.converters.recsys.criteo.contract import DTYPES
from ingot.converters.recsys.criteo.kjt import CriteoBatch, KeyedJaggedTensor
from ingot.converters.recsys.criteo.loader.batch_plan import BatchRequest
from ingot.converters.recsys.criteo.stored_arrays import KINDS, MappedRows, Selection, take_modulo
from ingot.converters.recsys.training.batch_order import RowSequence
from ingot.converters.recsys.training.environment import import_torch
from ingot.converters.recsys.training.loader import BatchMaker
from ingot.converters.sources.recognizers.criteo import WIDTHS

if TYPE_CHECKING:
    from ingot.converters.recsys.criteo.multihot.conversion import MultiHot

Array = npt.NDArray[Any]

_TILE: Final = 256  # rows that are turned into columns at a time: they stay in the cache


@dataclass(frozen=True, kw_only=True)
class Source:
    """All that a worker needs to know.

    Attributes:
        num_embeddings: 26 sizes that ids are taken modulo, or None.
        multi_hot: makes lists of ids here, or None.
    """

    selection: Selection
    num_embeddings: tuple[int, ...] | None
    multi_hot: "MultiHot | None"


class Batches(BatchMaker):
    """Makes a `CriteoBatch` of positions."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def __reduce__(self) -> tuple[Any, ...]:
        return Batches, (self._source,)

    def batch(self, request: BatchRequest) -> CriteoBatch:
        """Make the batch of these positions."""
        rows = request[1] - request[0] if isinstance(request, tuple) else len(request)
        dense, labels = _empty_array("dense", rows), _empty_array("labels", rows)
        columns: Array = np.empty((WIDTHS["sparse"], rows), DTYPES["sparse"])
        start = 0
        for piece in self._pieces(request):
            stop = start + len(piece.dense)
            dense[start:stop], labels[start:stop] = piece.dense, piece.labels
            _transpose_tiles(piece.sparse, columns[:, start:stop])
            start = stop
        return self._assemble_batch(dense, labels, columns)

    def _assemble_batch(self, dense: Array, labels: Array, columns: Array) -> CriteoBatch:
        if self._source.num_embeddings is not None:
            take_modulo(columns, self._source.num_embeddings)
        of_numpy = import_torch().from_numpy
        ids = KeyedJaggedTensor.from_columns(of_numpy(columns))
        if self._source.multi_hot is not None:
            ids = self._source.multi_hot.convert(ids)
        return CriteoBatch(of_numpy(dense), ids, of_numpy(labels).reshape(-1))

    def _pieces(self, request: BatchRequest) -> Iterator["_Piece"]:
        """Rows one part after another, views of the files; or one piece of chosen rows."""
        if not isinstance(request, tuple):
            yield self._gather_rows(request)
            return
        for span in self._sequence.spans(*request):
            first = self._source.selection.stretches[span.group].start
            start, stop = first + span.start, first + span.stop
            arrays = [one.span(start, stop) for one in self._mapped[span.group]]
            yield self._piece(span.group, arrays)

    def _gather_rows(self, rows: Array) -> "_Piece":
        selection = self._source.selection
        ends = np.cumsum([one.stop - one.start for one in selection.stretches])
        parts = np.searchsorted(ends, rows, side="right")
        dense, labels, sparse = (_empty_array(kind, len(rows)) for kind in KINDS)
        for part in np.unique(parts).tolist():
            at = np.flatnonzero(parts == part)
            stored = rows[at].astype(np.int64) - (ends[part] - selection.stretches[part].stop)
            piece = self._piece(part, [one.take(stored) for one in self._mapped[part]])
            dense[at], labels[at], sparse[at] = piece.dense, piece.labels, piece.sparse
        return _Piece(dense=dense, labels=labels, sparse=sparse)

    def _piece(self, part: int, arrays: Sequence[Array]) -> "_Piece":
        dense, labels, sparse = arrays
        if sparse.dtype != DTYPES["sparse"]:
            sparse = self._narrow(sparse, part)
        return _Piece(dense=dense, labels=labels, sparse=sparse)

    def _narrow(self, sparse: Array, part: int) -> Array:
        """Ids as int32: torchrec's own scripts leave int64 where they did not shuffle."""
        if self._source.num_embeddings is not None:
            sparse = sparse % np.array(self._source.num_embeddings)
        narrow: Array = sparse.astype(DTYPES["sparse"])
        if not np.array_equal(narrow, sparse):
            path = self._source.selection.stretches[part].arrays[KINDS.index("sparse")].path
            said = f"holds ids from {sparse.min():,} to {sparse.max():,}, beyond int32"
            raise SourceError(str(path), said, "give num_embeddings: ids are taken modulo these")
        return narrow

    @cached_property
    def _mapped(self) -> list[tuple[MappedRows, ...]]:
        stretches = self._source.selection.stretches
        return [tuple(MappedRows(array) for array in stretch.arrays) for stretch in stretches]

    @cached_property
    def _sequence(self) -> RowSequence:
        stretches = self._source.selection.stretches
        sizes = np.array([one.stop - one.start for one in stretches], np.int64)
        return RowSequence(sizes, np.arange(len(sizes)))


@dataclass(frozen=True, kw_only=True)
class _Piece:
    """Rows: [n, 13], [n, 1], int32 [n, 26]."""

    dense: Array
    labels: Array
    sparse: Array


def _empty_array(kind: str, rows: int) -> Array:
    return np.empty((rows, WIDTHS[kind]), DTYPES[kind])


def _transpose_tiles(rows: Array, columns: Array) -> None:
    """Write [n, 26] into [26, n], tile by tile: quicker by half than all at once."""
    for start in range(0, len(rows), _TILE):
        columns[:, start : start + _TILE] = rows[start : start + _TILE].T
