"""Rows of a split as Arrow record batches, decoded as they are asked for.

Whoever reads on where the last reading ended decodes every row once; memory holds the piece at
hand, whatever the size of a row group.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from ingot.converters.ctr.contract import ENTITY_ID, LABELS, ROW_ID
from ingot.converters.ctr.loading.locating import Split, StoredFeature, changed, columns_of, gone
from ingot.converters.errors import SourceError
from ingot.converters.loading.sequencing import Sequenced, Span

PIECE: Final = 8192
"""Rows that are decoded at a time."""
_BUFFER: Final = 1 << 20  # bytes of a column that are read ahead: a row group may be large


class Rows(Protocol):
    """Where record batches come from."""

    def pieces(self, span: Span) -> Iterator[Any]:
        """Record batches with the rows of a span, in order."""
        ...


class ParquetRows:
    """The rows of a split from its Parquet files.

    Args:
        split: what to read.
        features: whose columns.
        threads: whether to decode columns in parallel.
        piece: rows that are decoded at a time.
    """

    def __init__(
        self,
        split: Split,
        features: Sequence[StoredFeature],
        *,
        threads: bool = False,
        piece: int = PIECE,
    ) -> None:
        self._split = split
        self._features = features
        self._threads = threads
        self._piece = piece
        self._layout = layout(features)
        self._metadata: dict[int, Any] = {}
        self._group = -1
        self._at = 0  # the row of the group that is read next
        self._held: Any = None
        self._coming: Iterator[Any] = iter(())

    def pieces(self, span: Span) -> Iterator[Any]:
        """Record batches with the rows of a span, in order.

        Raises:
            SourceError: a file that is gone or was changed, bytes that cannot be decoded, null
                cells, lists of ids and values that differ in length.
        """
        if span.group != self._group or span.start < self._at:
            self._open(span.group)
        while self._at < span.stop:
            held = self._held if self._held is not None else self._next()
            skipped = min(max(span.start - self._at, 0), held.num_rows)
            taken = min(span.stop - self._at, held.num_rows) - skipped
            self._at += skipped + taken
            rest = held.slice(skipped + taken)
            self._held = rest if rest.num_rows else None
            if taken > 0:
                yield held.slice(skipped, taken)

    def _open(self, number: int) -> None:
        group = self._split.groups[number]
        path = self._split.files[group.file]
        self._group, self._at, self._held = -1, 0, None
        try:
            if path.stat().st_size != self._split.sizes[group.file]:
                raise changed(path)
            file = pq.ParquetFile(
                path, metadata=self._metadata.get(group.file), buffer_size=_BUFFER, pre_buffer=False
            )
        except (OSError, pa.ArrowException) as error:
            raise _unreadable(path, error) from error
        self._metadata[group.file] = file.metadata
        self._coming = self._decoded(file, group.number)
        self._group = number

    def _decoded(self, file: Any, number: int) -> Iterator[Any]:  # noqa: ANN401
        return iter(
            file.iter_batches(
                batch_size=self._piece,
                row_groups=[number],
                columns=columns_of(self._features),
                use_threads=self._threads,
            )
        )

    def _next(self) -> Any:  # noqa: ANN401
        """The next piece, checked."""
        number, self._group = self._group, -1  # an error leaves nothing to read on from
        path = self._split.files[self._split.groups[number].file]
        try:
            piece = next(self._coming, None)
        except (OSError, pa.ArrowException) as error:
            raise _unreadable(path, error) from error
        if piece is None:
            raise SourceError(str(path), "holds fewer rows than its footer says")
        # A file may have its columns in another order than the first one.
        piece = piece.select(columns_of(self._features))
        _check(piece, self._features, path)
        self._group = number
        return _laid_out(piece, self._layout)


def _unreadable(path: Path, error: Exception) -> SourceError:
    if isinstance(error, FileNotFoundError):
        return gone(path)
    return SourceError(str(path), f"cannot be read: {' '.join(str(error).split())[:300]}")


def _check(piece: Any, features: Sequence[StoredFeature], path: Path) -> None:  # noqa: ANN401
    """Hold a piece to what the tensors depend on."""
    for name, column in zip(piece.schema.names, piece.columns, strict=True):
        _hold_cells(piece, name, column, path)
    try:
        piece.column(ENTITY_ID).validate(full=True)
    except pa.ArrowException as error:
        raise SourceError(str(path), f"{ENTITY_ID} holds bytes that are no UTF-8") from error
    for feature in features:
        if feature.is_multi_hot and feature.use_value:
            _hold_lengths(piece, feature, path)


def _hold_cells(piece: Any, name: str, column: Any, path: Path) -> None:  # noqa: ANN401
    nulls = column.null_count
    if not nulls and isinstance(column, pa.ListArray | pa.LargeListArray):
        nulls = column.flatten().null_count
    if nulls:
        said = f"{name} holds {nulls:,} null cells{_among(piece)}"
        raise SourceError(str(path), said, "the contract knows none: missing is id 1")


def _hold_lengths(piece: Any, feature: StoredFeature, path: Path) -> None:  # noqa: ANN401
    index, value = (lengths(piece.column(name)) for name in feature.columns)
    differing = np.flatnonzero(index != value)
    if differing.size:
        row = int(differing[0])
        said = f"{feature.name} has {index[row]} ids and {value[row]} values in the row"
        where = f"with {ROW_ID} {piece.column(ROW_ID)[row].as_py()}"
        raise SourceError(str(path), f"{said} {where}", "`ingot ctr validate` finds all")


def _among(piece: Any) -> str:  # noqa: ANN401
    """Which rows a piece has, by their ids where there are any."""
    ids = piece.column(ROW_ID).drop_null()
    return f" in the rows from {ROW_ID} {ids[0].as_py()}" if len(ids) else ""


def lengths(column: Any) -> Any:  # noqa: ANN401
    """int64[n], the lengths of a column's lists."""
    return np.diff(column.offsets.to_numpy()).astype(np.int64, copy=False)


def read(rows: Rows, sequence: Sequenced, start: int, stop: int) -> Any:  # noqa: ANN401
    """One record batch with the rows at positions start..stop-1 of a sequence.

    Raises:
        SourceError: as `Rows.pieces`.
    """
    return joined(list(pieces(rows, sequence, start, stop)))


def pieces(rows: Rows, sequence: Sequenced, start: int, stop: int) -> Iterator[Any]:
    """The rows at positions start..stop-1 of a sequence, as record batches.

    Raises:
        SourceError: as `Rows.pieces`.
    """
    for span in sequence.spans(start, stop):
        yield from rows.pieces(span)


class Gathering:
    """Rows that are held to be taken in another order.

    Args:
        coming: record batches; small ones are joined, others stay as they are.
    """

    def __init__(self, coming: Iterable[Any]) -> None:
        self._pieces: list[Any] = []
        small: list[Any] = []
        rows = 0
        for piece in coming:
            small.append(piece)
            rows += piece.num_rows
            if rows >= PIECE:
                self._pieces.append(joined(small))
                small, rows = [], 0
        if small:
            self._pieces.append(joined(small))
        self._starts = np.cumsum([0, *(piece.num_rows for piece in self._pieces)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def take(self, rows: npt.NDArray[np.int64]) -> Any:  # noqa: ANN401
        """One record batch of these rows, in ascending order: nearly as quick as a copy."""
        rows = np.sort(rows)
        cuts = np.searchsorted(rows, self._starts)
        taken = [
            self._pieces[place].take(pa.array(rows[cuts[place] : cuts[place + 1]] - start))
            for place, start in enumerate(self._starts[:-1])
            if cuts[place] < cuts[place + 1]
        ]
        return joined(taken)


def joined(pieces: Sequence[Any]) -> Any:  # noqa: ANN401
    """One record batch of several, or the only one as it is."""
    if len(pieces) == 1:
        return pieces[0]
    hint = "take a smaller shuffle_buffer or batch_size"
    try:
        batches = pa.Table.from_batches(pieces).combine_chunks().to_batches()
    except pa.ArrowException as error:
        raise SourceError("", f"rows cannot be joined: {error}", hint) from error
    if len(batches) > 1:  # offsets of 32 bits have an end
        raise SourceError("", "more tokens than one record batch can hold", hint)
    return batches[0]


def layout(features: Sequence[StoredFeature]) -> Any:  # noqa: ANN401
    """The Arrow schema of what is read: the contract's types, however the files spell them."""
    fields = [pa.field(name, pa.float32()) for name in LABELS]
    fields += [pa.field(ROW_ID, pa.int64()), pa.field(ENTITY_ID, pa.string())]
    for feature in features:
        for name, element in zip(feature.columns, (pa.int64(), pa.float32()), strict=False):
            kind = pa.list_(element) if feature.is_multi_hot else element
            fields.append(pa.field(name, kind))
    return pa.schema(fields)


def _laid_out(piece: Any, schema: Any) -> Any:  # noqa: ANN401
    """A checked piece in that schema, without copying where the types are only spelt otherwise."""
    columns = []
    for field, column in zip(schema, piece.columns, strict=True):
        if pa.types.is_list(field.type):
            offsets = column.offsets.cast(pa.int32())
            columns.append(pa.ListArray.from_arrays(offsets, column.values, type=field.type))
        else:
            columns.append(column.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
