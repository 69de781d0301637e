"""The rows of a split as an uncompressed Arrow file that is mapped into memory.

Made once, read without decoding by any number of processes. Its name holds the split's fingerprint,
so that another build gets a file of its own; it appears under that name complete or not at all.
"""

import fcntl
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from ingot.converters.ctr.loading.locating import Split, StoredFeature, columns_of
from ingot.converters.ctr.loading.reading import ParquetRows, joined, layout
from ingot.converters.errors import OutputError, SourceError
from ingot.converters.loading.sequencing import Span

BLOCK: Final = 16384
"""Rows of a record batch of the cache, the last one aside."""
_VERSION: Final = 1
_KEY: Final = b"ingot.ctr.cache"
_BLOCK_KEY: Final = b"ingot.ctr.cache.block"


def cache_file(split: Split, folder: Path) -> Path:
    """Where the cache of a split stands in a folder of caches."""
    return folder / f"ctr-{split.fingerprint[:32]}.arrow"


def ensure_cache(split: Split, folder: Path) -> Path:
    """Make the cache of a split unless it is there.

    Processes that ask for it at the same time wait for the one that makes it; where the storage
    knows no locks each makes its own and the last one stays, which holds the same.

    Args:
        split: its source.
        folder: of caches; made if it is missing.

    Returns:
        The file.

    Raises:
        SourceError: the Parquet files cannot be read.
        OutputError: the cache cannot be written.
    """
    target = cache_file(split, folder)
    if _is_cache_of(target, split):
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(target.with_suffix(".lock")) as locked:
            if not _is_cache_of(target, split):
                if locked:
                    _sweep(target)
                write_cache(split, target)
    except OSError as error:
        said = f"cannot be written: {error.strerror or error}"
        raise OutputError(str(target), said, "give another folder as cache=") from error
    return target


@contextmanager
def _alone(lock: Path) -> Iterator[bool]:
    """Wait until no other process is in here; whether that can be known."""
    with lock.open("ab") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX)
        except OSError:  # a storage without locks
            yield False
            return
        yield True


def _sweep(target: Path) -> None:
    """Remove what killed processes left: nobody else writes now."""
    for left in target.parent.glob(f".{target.name}.*"):
        left.unlink(missing_ok=True)


def write_cache(split: Split, target: Path, *, block: int = BLOCK) -> None:
    """Write the cache of a split, under another name until it is whole.

    Args:
        split: its source.
        target: the file, replaced if it is there.
        block: rows of a record batch.

    Raises:
        SourceError: the Parquet files cannot be read.
        OSError: the file cannot be written.
    """
    temporary = target.parent / f".{target.name}.{os.getpid()}.{secrets.token_hex(4)}"
    try:
        with temporary.open("xb") as stream:
            _write_blocks(split, stream, block)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _write_blocks(split: Split, stream: Any, size: int) -> None:  # noqa: ANN401
    schema = layout(split.features).with_metadata({_KEY: _stamp(split), _BLOCK_KEY: b"%d" % size})
    rows = ParquetRows(split, split.features, threads=True)
    pieces = (
        piece
        for number, group in enumerate(split.groups)
        for piece in rows.pieces(Span(group=number, start=0, stop=group.rows))
    )
    with pa.ipc.new_file(stream, schema) as writer:
        for block in _blocks(pieces, size):
            writer.write_batch(block)


def _blocks(pieces: Iterable[Any], size: int) -> Iterator[Any]:
    """The rows of record batches in batches of `size` rows, the last one smaller."""
    held: list[Any] = []
    rows = 0
    for piece in pieces:
        held.append(piece)
        rows += piece.num_rows
        if rows < size:
            continue
        whole = joined(held)
        full = rows - rows % size
        yield from (whole.slice(start, size) for start in range(0, full, size))
        held, rows = ([whole.slice(full)], rows - full) if full < rows else ([], 0)
    if held:
        yield joined(held)


def _stamp(split: Split) -> bytes:
    stamp = {"version": _VERSION, "fingerprint": split.fingerprint, "rows": split.rows}
    return json.dumps(stamp, sort_keys=True).encode()


def _is_cache_of(path: Path, split: Split) -> bool:
    try:
        opened = _opened(path)
    except (OSError, pa.ArrowException):  # none, or what is left of one
        return False
    return (opened.schema.metadata or {}).get(_KEY) == _stamp(split)


def _opened(path: Path) -> Any:  # noqa: ANN401
    return pa.ipc.open_file(pa.memory_map(str(path)))


class CachedRows:
    """The rows of a split from its cache; record batches are views of the mapped file.

    Args:
        split: whose rows.
        path: as `ensure_cache` gives it.
        features: whose columns.

    Raises:
        SourceError: the cache is gone or of another split.
    """

    def __init__(self, split: Split, path: Path, features: Sequence[StoredFeature]) -> None:
        if not _is_cache_of(path, split):
            said = "is no cache of this split any more"
            raise SourceError(str(path), said, "make the loader again")
        self._first = [group.first for group in split.groups]
        self._file = _opened(path)
        self._block = int(self._file.schema.metadata[_BLOCK_KEY])
        self._columns = columns_of(features)

    def pieces(self, span: Span) -> Iterator[Any]:
        """Record batches with the rows of a span, in order."""
        start, stop = (self._first[span.group] + row for row in (span.start, span.stop))
        while start < stop:
            block, offset = divmod(start, self._block)
            piece = self._file.get_batch(block).select(self._columns)
            piece = piece.slice(offset, stop - start)
            yield piece
            start += piece.num_rows
