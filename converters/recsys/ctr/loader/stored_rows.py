"""Rows of a split in pieces: decoded from Parquet, or mapped from a plain copy.

Reading on where the last reading ended decodes every row once; memory holds the piece at hand, and
the next one, whatever the size of a row group.
"""

import errno
import json
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cached_property
from itertools import groupby
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
    RowGroup,
    Split,
    StoredFeature,
    changed_error,
    columns_of,
)
from ingot.converters.recsys.training.batch_order import RowSequence, Span
from ingot.converters.rows import read_ahead

PIECE: Final = 8192  # rows that are decoded at a time
_BUFFER: Final = 1 << 20  # bytes of a column that are read ahead: a row group may be large

_SMALL: Final = 512  # rows that are joined with their neighbours: a kernel call is for more

Cells = tuple[npt.NDArray[Any], npt.NDArray[np.int32] | None]
"""The values of a column; of lists those of all rows, and the offset of each row."""


class Piece:
    """Neighbouring rows as a record batch, and their cells as arrays for kernels."""

    def __init__(self, rows: Any) -> None:  # noqa: ANN401
        self.rows = rows

    @cached_property
    def cells(self) -> dict[str, Cells]:
        """Return the cells by column, views of the record batch, without texts."""
        columns = zip(self.rows.schema, self.rows.columns, strict=True)
        return {field.name: _cells(column) for field, column in columns if field.name != ENTITY_ID}


def _cells(column: Any) -> Cells:  # noqa: ANN401
    if isinstance(column, pa.ListArray):
        return column.values.to_numpy(), column.offsets.to_numpy()
    return column.to_numpy(), None


Part = tuple[Piece, int, int]  # rows start..stop-1 of a piece
Taken = tuple[Piece, npt.NDArray[np.int64]]  # rows of a piece by their numbers in it


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

    def parts(self, span: Span) -> Iterator[Part]:
        """Yield the rows of a span, in order."""
        group = self._split.groups[span.group]
        path = self._split.files[group.file]
        position = 0
        try:
            for rows in self._decoded(group, path):
                start, stop = (
                    max(span.start - position, 0),
                    min(span.stop - position, rows.num_rows),
                )
                position += rows.num_rows
                if start < stop:
                    yield Piece(self._checked(rows, path)), start, stop
                if position >= span.stop:
                    return
        except (OSError, pa.ArrowException) as error:
            raise _unreadable_error(path, error) from error
        raise SourceError(str(path), "holds fewer rows than its footer says")

    def _decoded(self, group: RowGroup, path: Path) -> Iterator[Any]:
        if path.stat().st_size != self._split.sizes[group.file]:
            raise changed_error(path)
        known = self._metadata.get(group.file)
        file = pq.ParquetFile(path, metadata=known, buffer_size=_BUFFER, pre_buffer=False)
        self._metadata[group.file] = file.metadata
        yield from file.iter_batches(
            batch_size=PIECE,
            row_groups=[group.number],
            columns=columns_of(self._features),
            use_threads=self._threads,
        )

    def _checked(self, rows: Any, path: Path) -> Any:  # noqa: ANN401
        # A file may have its columns in another order than the first one.
        rows = rows.select(columns_of(self._features))
        for name, column in zip(rows.schema.names, rows.columns, strict=True):
            _check_cells(rows, name, column, path)
        try:
            rows.column(ENTITY_ID).validate(full=True)
        except pa.ArrowException as error:
            raise SourceError(str(path), f"{ENTITY_ID} holds bytes that are not UTF-8") from error
        for feature in self._features:
            if feature.is_multi_hot and feature.use_value:
                _check_lengths(rows, feature, path)
        return _cast_piece(rows, self._layout)


def _unreadable_error(path: Path, error: Exception) -> SourceError:
    if isinstance(error, FileNotFoundError):
        return changed_error(path, "removed")
    return SourceError(str(path), f"cannot be read: {' '.join(str(error).split())[:300]}")


def _check_cells(piece: Any, name: str, column: Any, path: Path) -> None:  # noqa: ANN401
    nulls = column.null_count
    if not nulls and isinstance(column, pa.ListArray | pa.LargeListArray):
        nulls = column.flatten().null_count
    if nulls:
        ids = piece.column(ROW_ID).drop_null()
        rows = f" in the rows from {ROW_ID} {ids[0].as_py()}" if len(ids) else ""
        problem = f"{name} holds {nulls:,} null cells{rows}"
        raise SourceError(str(path), problem, "the contract has none: a missing value is id 1")


def _check_lengths(piece: Any, feature: StoredFeature, path: Path) -> None:  # noqa: ANN401
    index, value = (np.diff(piece.column(name).offsets.to_numpy()) for name in feature.columns)
    differing = np.flatnonzero(index != value)
    if differing.size:
        row = int(differing[0])
        problem = f"{feature.name} has {index[row]} ids and {value[row]} values in the row"
        row_name = f"with {ROW_ID} {piece.column(ROW_ID)[row].as_py()}"
        raise SourceError(
            str(path), f"{problem} {row_name}", "validate the folder to see all of them"
        )


class RowReader:
    """Reads rows by their positions in an epoch, from where the last reading ended or anywhere."""

    def __init__(
        self, rows: "ParquetRows | CachedRows", sequence: RowSequence, *, ahead: bool = False
    ) -> None:
        """Decode the piece that follows in a thread, with `ahead`."""
        self._rows, self._sequence = rows, sequence
        self._thread = ThreadPoolExecutor(1, "decode") if ahead else None
        self._at = -1  # the position behind the last reading
        self._coming: Iterator[Part] = iter(())
        self._rest: Part | None = None

    def parts(self, start: int, stop: int) -> Iterator[Part]:
        """Yield the rows at positions start..stop-1, in order."""
        if start != self._at:
            coming = self._following(start)
            self._coming = read_ahead(coming, self._thread) if self._thread else coming
            self._rest = None
        self._at = -1  # an error leaves nothing to read on from
        while start < stop:
            piece, first, end = self._rest or next(self._coming)
            cut = min(end, first + stop - start)
            self._rest = (piece, cut, end) if cut < end else None
            start += cut - first
            yield piece, first, cut
        self._at = start

    def _following(self, start: int) -> Iterator[Part]:
        for span in self._sequence.spans(start, self._sequence.rows):
            yield from self._rows.parts(span)


class RowBuffer:
    """Rows that are held to be taken in another order."""

    def __init__(self, coming: Iterable[Part]) -> None:
        self._parts: list[Part] = []
        for is_small, run in groupby(coming, lambda part: part[2] - part[1] < _SMALL):
            parts = list(run)
            if is_small and len(parts) > 1:
                joined = join_batches(
                    [one.rows.slice(start, to - start) for one, start, to in parts]
                )
                parts = [(Piece(joined), 0, joined.num_rows)]
            self._parts += parts
        self._starts = np.cumsum([0, *(stop - start for _, start, stop in self._parts)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def take(self, rows: npt.NDArray[np.int64]) -> list[Taken]:
        """Return these rows in ascending order."""
        rows = np.sort(rows)
        cuts = np.searchsorted(rows, self._starts)
        return [
            (piece, rows[cuts[number] : cuts[number + 1]] - (self._starts[number] - start))
            for number, (piece, start, _) in enumerate(self._parts)
            if cuts[number] < cuts[number + 1]
        ]


def join_batches(pieces: Sequence[Any]) -> Any:  # noqa: ANN401
    """Join several record batches, or return the only one as it is."""
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


def rows_schema(features: Sequence[StoredFeature], ids: Any = None) -> Any:  # noqa: ANN401
    """Return the Arrow schema of what is read: the contract's types, or `ids` of another type."""
    fields = [pa.field(name, pa.float32()) for name in LABELS]
    fields += [pa.field(ROW_ID, pa.int64()), pa.field(ENTITY_ID, pa.string())]
    for feature in features:
        for name, element in zip(feature.columns, (ids or pa.int64(), pa.float32()), strict=False):
            kind = pa.list_(element) if feature.is_multi_hot else element
            fields.append(pa.field(name, kind))
    return pa.schema(fields)


def _cast_piece(piece: Any, schema: Any) -> Any:  # noqa: ANN401
    """A checked piece in that schema, without copying where the types are only spelt otherwise."""
    columns = []
    for field, column in zip(schema, piece.columns, strict=True):
        if pa.types.is_list(field.type):
            offsets = column.offsets.cast(pa.int32())
            values = column.values.cast(field.type.value_type)
            columns.append(pa.ListArray.from_arrays(offsets, values, type=field.type))
        else:
            columns.append(column.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


BLOCK: Final = 16384  # rows of a record batch of the cache, the last one aside
_VERSION: Final = 1
_NO_LOCKS: Final = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)
_KEY: Final = b"ingot.ctr.cache"
_BLOCK_KEY: Final = b"ingot.ctr.cache.block"
ID_TYPES: Final = (pa.uint32(), pa.int64())
"""Types of ids, of which the first that holds all is taken: less is read for a batch."""


def cache_file(split: Split, folder: Path) -> Path:
    """Return the path of a split's cache in a folder of caches."""
    return folder / f"ctr-{split.fingerprint[:32]}.arrow"


def ensure_cache(split: Split, folder: Path) -> Path:
    """Make the cache of a split unless it is there; one process makes it, the others wait."""
    target = cache_file(split, folder)
    if _is_cache_of(target, split):
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            locked = True
            try:
                stack.enter_context(hold_lock(target.with_suffix(".lock"), wait_s=inf))
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
                locked = False  # each makes its own, and the last one stays
            if not _is_cache_of(target, split):
                # Those of killed processes: nobody else writes now.
                for unfinished in folder.glob(f".{target.name}.*") if locked else ():
                    unfinished.unlink(missing_ok=True)
                write_cache(split, target)
    except OSError as error:
        problem = f"cannot be written: {error.strerror or error}"
        raise OutputError(str(target), problem, "give another folder as cache=") from error
    return target


def write_cache(split: Split, target: Path, *, block: int = BLOCK) -> None:
    """Write the cache of a split, under another name until it is whole."""
    narrow, wide = ID_TYPES
    try:
        _write_cache(split, target, block, narrow)
    except pa.ArrowInvalid:
        _write_cache(split, target, block, wide)


def _write_cache(split: Split, target: Path, block: int, ids: Any) -> None:  # noqa: ANN401
    stamps = {_KEY: _cache_stamp(split), _BLOCK_KEY: b"%d" % block}
    schema = rows_schema(split.features, ids)
    rows = ParquetRows(split, split.features, threads=True)
    pieces = (
        _cast_piece(piece.rows, schema)
        for number, group in enumerate(split.groups)
        for piece, _, _ in rows.parts(Span(group=number, start=0, stop=group.rows))
    )
    with (
        whole_file(target, exclusive=False) as stream,
        pa.ipc.new_file(stream, schema.with_metadata(stamps)) as writer,
    ):
        for block_batch in _regroup_rows(pieces, block):
            writer.write_batch(block_batch)


def _regroup_rows(pieces: Iterable[Any], size: int) -> Iterator[Any]:
    """The rows of record batches in batches of `size` rows, the last one smaller."""
    pending: list[Any] = []
    rows = 0
    for piece in pieces:
        pending.append(piece)
        rows += piece.num_rows
        if rows < size:
            continue
        joined = join_batches(pending)
        full = rows - rows % size
        yield from (joined.slice(start, size) for start in range(0, full, size))
        pending, rows = ([joined.slice(full)], rows - full) if full < rows else ([], 0)
    if pending:
        yield join_batches(pending)


def _cache_stamp(split: Split) -> bytes:
    stamp = {"version": _VERSION, "fingerprint": split.fingerprint, "rows": split.rows}
    return json.dumps(stamp, sort_keys=True).encode()


def _is_cache_of(path: Path, split: Split) -> bool:
    try:
        opened = pa.ipc.open_file(pa.memory_map(str(path)))
        facts = opened.schema.metadata or {}
        layouts = [rows_schema(split.features, ids) for ids in ID_TYPES]
        stamped = facts.get(_KEY) == _cache_stamp(split) and int(facts[_BLOCK_KEY]) > 0
        return stamped and opened.schema.remove_metadata() in layouts
    except (OSError, pa.ArrowException, ValueError, KeyError):  # none, or what is left of one
        return False


class CachedRows:
    """The rows of a split from its cache; record batches are views of the mapped file."""

    def __init__(self, split: Split, path: Path, features: Sequence[StoredFeature]) -> None:
        if not _is_cache_of(path, split):
            problem = "is no longer a cache of this split"
            raise SourceError(str(path), problem, "create the loader again")
        self._first = [group.first for group in split.groups]
        self._rows, self._path = split.rows, str(path)
        self._file: Any = pa.ipc.open_file(pa.memory_map(str(path)))
        self._block = int(self._file.schema.metadata[_BLOCK_KEY])
        self._columns = columns_of(features)
        self._last: tuple[int, Piece | None] = -1, None

    def parts(self, span: Span) -> Iterator[Part]:
        """Yield the rows of a span, in order."""
        start, stop = (self._first[span.group] + row for row in (span.start, span.stop))
        while start < stop:
            block, offset = divmod(start, self._block)
            end = min(offset + stop - start, self._block)
            number, piece = self._last
            if piece is None or number != block:
                with translate_read_errors(self._path, "the cache is damaged, delete it"):
                    rows = self._file.get_batch(block).select(self._columns)
                    rows.validate(full=True)  # kernels go where offsets lead
                    expected = min(self._block, self._rows - block * self._block)
                    if rows.num_rows != expected or any(one.null_count for one in rows.columns):
                        raise pa.ArrowInvalid(f"block {block} is not one of {expected} rows")
                piece = Piece(rows)
                self._last = block, piece
            yield piece, offset, end
            start += end - offset
