"""Rows of a split as Arrow record batches: decoded from Parquet, or mapped from a plain copy.

Reading on where the last reading ended decodes every row once; memory holds the piece at hand,
whatever the size of a row group.
"""

import errno
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from math import inf
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from ingot.converters.errors import OutputError, SourceError, translate_read_errors
from ingot.converters.output.files import hold_lock, whole_file
from ingot.converters.recsys.ctr.contract import ENTITY_ID, LABELS, ROW_ID
from ingot.converters.recsys.ctr.loader.split_files import (
    Split,
    StoredFeature,
    changed_error,
    columns_of,
)
from ingot.converters.recsys.training.batch_order import RowSequence, Span

PIECE: Final = 8192
"""Rows that are decoded at a time."""
_BUFFER: Final = 1 << 20  # bytes of a column that are read ahead: a row group may be large


class ParquetRows:
    """The rows of a split from its Parquet files."""

    def __init__(
        self, split: Split, features: Sequence[StoredFeature], *, threads: bool = False
    ) -> None:
        self._split = split
        self._features = features
        self._threads = threads
        self._layout = rows_schema(features)
        self._metadata: dict[int, Any] = {}
        self._group = -1
        self._at = 0  # the row of the group that is read next
        self._held: Any = None
        self._coming: Iterator[Any] = iter(())

    def pieces(self, span: Span) -> Iterator[Any]:
        """Record batches with the rows of a span, in order."""
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
                raise changed_error(path)
            file = pq.ParquetFile(
                path, metadata=self._metadata.get(group.file), buffer_size=_BUFFER, pre_buffer=False
            )
        except (OSError, pa.ArrowException) as error:
            raise _unreadable_error(path, error) from error
        self._metadata[group.file] = file.metadata
        self._coming = file.iter_batches(
            batch_size=PIECE,
            row_groups=[group.number],
            columns=columns_of(self._features),
            use_threads=self._threads,
        )
        self._group = number

    def _next(self) -> Any:  # noqa: ANN401
        number, self._group = self._group, -1  # an error leaves nothing to read on from
        path = self._split.files[self._split.groups[number].file]
        try:
            piece = next(self._coming, None)
        except (OSError, pa.ArrowException) as error:
            raise _unreadable_error(path, error) from error
        if piece is None:
            raise SourceError(str(path), "holds fewer rows than its footer says")
        # A file may have its columns in another order than the first one.
        piece = piece.select(columns_of(self._features))
        _check_piece(piece, self._features, path)
        self._group = number
        return _cast_piece(piece, self._layout)


def _unreadable_error(path: Path, error: Exception) -> SourceError:
    if isinstance(error, FileNotFoundError):
        return changed_error(path, "removed")
    return SourceError(str(path), f"cannot be read: {' '.join(str(error).split())[:300]}")


def _check_piece(piece: Any, features: Sequence[StoredFeature], path: Path) -> None:  # noqa: ANN401
    """Hold a piece to what the tensors depend on."""
    for name, column in zip(piece.schema.names, piece.columns, strict=True):
        _check_cells(piece, name, column, path)
    try:
        piece.column(ENTITY_ID).validate(full=True)
    except pa.ArrowException as error:
        raise SourceError(str(path), f"{ENTITY_ID} holds bytes that are not UTF-8") from error
    for feature in features:
        if feature.is_multi_hot and feature.use_value:
            _check_lengths(piece, feature, path)


def _check_cells(piece: Any, name: str, column: Any, path: Path) -> None:  # noqa: ANN401
    nulls = column.null_count
    if not nulls and isinstance(column, pa.ListArray | pa.LargeListArray):
        nulls = column.flatten().null_count
    if nulls:
        ids = piece.column(ROW_ID).drop_null()
        rows = f" in the rows from {ROW_ID} {ids[0].as_py()}" if len(ids) else ""
        said = f"{name} holds {nulls:,} null cells{rows}"
        raise SourceError(str(path), said, "the contract has none: a missing value is id 1")


def _check_lengths(piece: Any, feature: StoredFeature, path: Path) -> None:  # noqa: ANN401
    index, value = (list_lengths(piece.column(name)) for name in feature.columns)
    differing = np.flatnonzero(index != value)
    if differing.size:
        row = int(differing[0])
        said = f"{feature.name} has {index[row]} ids and {value[row]} values in the row"
        where = f"with {ROW_ID} {piece.column(ROW_ID)[row].as_py()}"
        raise SourceError(str(path), f"{said} {where}", "validate the folder to see all of them")


def list_lengths(column: Any) -> Any:  # noqa: ANN401
    """int64[n], the lengths of a column's lists."""
    return np.diff(column.offsets.to_numpy()).astype(np.int64, copy=False)


def read_rows(
    rows: "ParquetRows | CachedRows", sequence: RowSequence, start: int, stop: int
) -> Any:  # noqa: ANN401
    """One record batch with the rows at positions start..stop-1 of a sequence."""
    return join_batches(list(read_pieces(rows, sequence, start, stop)))


def read_pieces(
    rows: "ParquetRows | CachedRows", sequence: RowSequence, start: int, stop: int
) -> Iterator[Any]:
    """The rows at positions start..stop-1 of a sequence, as record batches."""
    for span in sequence.spans(start, stop):
        yield from rows.pieces(span)


class RowBuffer:
    """Rows that are held to be taken in another order."""

    def __init__(self, coming: Iterable[Any]) -> None:
        self._pieces: list[Any] = []
        small: list[Any] = []
        rows = 0
        for piece in coming:
            small.append(piece)
            rows += piece.num_rows
            if rows >= PIECE:
                self._pieces.append(join_batches(small))
                small, rows = [], 0
        if small:
            self._pieces.append(join_batches(small))
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
        return join_batches(taken)


def join_batches(pieces: Sequence[Any]) -> Any:  # noqa: ANN401
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


def rows_schema(features: Sequence[StoredFeature]) -> Any:  # noqa: ANN401
    """The Arrow schema of what is read: the contract's types, however the files spell them."""
    fields = [pa.field(name, pa.float32()) for name in LABELS]
    fields += [pa.field(ROW_ID, pa.int64()), pa.field(ENTITY_ID, pa.string())]
    for feature in features:
        for name, element in zip(feature.columns, (pa.int64(), pa.float32()), strict=False):
            kind = pa.list_(element) if feature.is_multi_hot else element
            fields.append(pa.field(name, kind))
    return pa.schema(fields)


def _cast_piece(piece: Any, schema: Any) -> Any:  # noqa: ANN401
    """A checked piece in that schema, without copying where the types are only spelt otherwise."""
    columns = []
    for field, column in zip(schema, piece.columns, strict=True):
        if pa.types.is_list(field.type):
            offsets = column.offsets.cast(pa.int32())
            columns.append(pa.ListArray.from_arrays(offsets, column.values, type=field.type))
        else:
            columns.append(column.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


BLOCK: Final = 16384
"""Rows of a record batch of the cache, the last one aside."""
_VERSION: Final = 1
_NO_LOCKS: Final = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)
_KEY: Final = b"ingot.ctr.cache"
_BLOCK_KEY: Final = b"ingot.ctr.cache.block"


def cache_file(split: Split, folder: Path) -> Path:
    """Where the cache of a split stands in a folder of caches."""
    return folder / f"ctr-{split.fingerprint[:32]}.arrow"


def ensure_cache(split: Split, folder: Path) -> Path:
    """Make the cache of a split unless it is there; one process makes it, the others wait."""
    target = cache_file(split, folder)
    if _is_cache_of(target, split):
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as held:
            locked = True
            try:
                held.enter_context(hold_lock(target.with_suffix(".lock"), wait_s=inf))
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
                locked = False  # each makes its own, and the last one stays
            if not _is_cache_of(target, split):
                for left in folder.glob(f".{target.name}.*") if locked else ():
                    left.unlink(missing_ok=True)  # of killed processes: nobody else writes now
                write_cache(split, target)
    except OSError as error:
        said = f"cannot be written: {error.strerror or error}"
        raise OutputError(str(target), said, "give another folder as cache=") from error
    return target


def write_cache(split: Split, target: Path, *, block: int = BLOCK) -> None:
    """Write the cache of a split, under another name until it is whole."""
    stamps = {_KEY: _cache_stamp(split), _BLOCK_KEY: b"%d" % block}
    schema = rows_schema(split.features).with_metadata(stamps)
    rows = ParquetRows(split, split.features, threads=True)
    pieces = (
        piece
        for number, group in enumerate(split.groups)
        for piece in rows.pieces(Span(group=number, start=0, stop=group.rows))
    )
    with whole_file(target, exclusive=False) as stream, pa.ipc.new_file(stream, schema) as writer:
        for whole in _regroup_rows(pieces, block):
            writer.write_batch(whole)


def _regroup_rows(pieces: Iterable[Any], size: int) -> Iterator[Any]:
    """The rows of record batches in batches of `size` rows, the last one smaller."""
    held: list[Any] = []
    rows = 0
    for piece in pieces:
        held.append(piece)
        rows += piece.num_rows
        if rows < size:
            continue
        whole = join_batches(held)
        full = rows - rows % size
        yield from (whole.slice(start, size) for start in range(0, full, size))
        held, rows = ([whole.slice(full)], rows - full) if full < rows else ([], 0)
    if held:
        yield join_batches(held)


def _cache_stamp(split: Split) -> bytes:
    stamp = {"version": _VERSION, "fingerprint": split.fingerprint, "rows": split.rows}
    return json.dumps(stamp, sort_keys=True).encode()


def _is_cache_of(path: Path, split: Split) -> bool:
    try:
        opened = _open_mapped(path)
        facts = opened.schema.metadata or {}
        return facts.get(_KEY) == _cache_stamp(split) and int(facts[_BLOCK_KEY]) > 0
    except (OSError, pa.ArrowException, ValueError, KeyError):  # none, or what is left of one
        return False


def _open_mapped(path: Path) -> Any:  # noqa: ANN401
    return pa.ipc.open_file(pa.memory_map(str(path)))


class CachedRows:
    """The rows of a split from its cache; record batches are views of the mapped file."""

    def __init__(self, split: Split, path: Path, features: Sequence[StoredFeature]) -> None:
        if not _is_cache_of(path, split):
            said = "is no longer a cache of this split"
            raise SourceError(str(path), said, "create the loader again")
        self._first = [group.first for group in split.groups]
        self._path, self._file = str(path), _open_mapped(path)
        self._block = int(self._file.schema.metadata[_BLOCK_KEY])
        self._columns = columns_of(features)

    def pieces(self, span: Span) -> Iterator[Any]:
        """Record batches with the rows of a span, in order."""
        start, stop = (self._first[span.group] + row for row in (span.start, span.stop))
        while start < stop:
            block, offset = divmod(start, self._block)
            with translate_read_errors(self._path, "the cache is damaged, delete it"):
                piece = self._file.get_batch(block).select(self._columns)
            piece = piece.slice(offset, stop - start)
            yield piece
            start += piece.num_rows
