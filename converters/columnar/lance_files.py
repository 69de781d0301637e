"""Lance tables of strangers: versions and fragments, read in the process of `decoder`.

Lance is a library of its own with a format of its own, whose damaged files end its process as those
of Parquet do. A fragment is read as a file is: its rows are those of its data files without the
deleted ones.
"""

import datetime as dt
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa

from ingot.converters.errors import translate_library_errors

LANCE: Final = b"\0a fragment of Lance"  # as the bytes of one
GROUP_ROWS: Final = 8_192  # that are counted as a row group is, for samples
_BUFFER: Final = 16 << 20  # of what is read ahead, and of what is known of files


@dataclass(frozen=True, slots=True)
class FindVersion:
    """Asks for the `FoundVersion` of a table: a number, a tag, or what was current at a time."""

    path: str
    version: str | None


@dataclass(frozen=True, slots=True)
class FoundFragment:
    """A fragment: its number, and its files by their paths in the table, data files first."""

    number: int
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FoundVersion:
    """What a version holds."""

    number: int
    schema: pa.Schema
    fragments: tuple[FoundFragment, ...]


@dataclass(frozen=True, slots=True)
class LanceFragment:
    """A fragment of a version of a table, as it is opened; `size` is that of its files."""

    path: str
    version: int
    number: int
    size: int


def find_version(request: FindVersion) -> FoundVersion:
    """Return what a version of a table holds. Raises SourceError."""
    with translate_library_errors(request.path, "cannot read the version of the Lance table"):
        table = _dataset(request.path, request.version)
        fragments = tuple(map(_describe_fragment, table.get_fragments()))
        return FoundVersion(table.version, table.schema, fragments)


def _dataset(path: str, version: str | int | None) -> Any:  # noqa: ANN401 - it has no types
    os.environ.setdefault("LANCE_IO_THREADS", "2")
    os.environ.setdefault("LANCE_CPU_THREADS", "1")
    os.environ["TZ"] = "UTC"  # it compares times without a zone
    time.tzset()
    import lance

    opened = partial(
        lance.dataset, path, metadata_cache_size_bytes=_BUFFER, index_cache_size_bytes=0
    )
    if not isinstance(version, str) or version.isdecimal():
        return opened(version=None if version is None else int(version))
    if version in opened().tags.list():
        return opened(version=version)
    return opened(asof=read_version_time(version).astimezone(dt.UTC).replace(tzinfo=None))


def read_version_time(version: str) -> dt.datetime:
    """Return the time that a version of a table is named by, of UTC where it has no zone.

    Raises ValueError.
    """
    try:
        timestamp = dt.datetime.fromisoformat(version)
    except ValueError:
        hint = "a number, or a time such as 2026-11-01T00:00:00Z"
        raise ValueError(f"there is no version {version!r}: name {hint}") from None
    return timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=dt.UTC)


def _describe_fragment(fragment: Any) -> FoundFragment:  # noqa: ANN401
    facts = fragment.metadata
    if facts.overlays or any(one.base_id is not None for one in facts.files):
        raise ValueError("a fragment has overlays, or files of another table")
    files = [f"data/{one.path}" for one in facts.files]
    if facts.deletion_file is not None:
        files.append(facts.deletion_file.path(fragment.fragment_id))
    return FoundFragment(fragment.fragment_id, tuple(files))


class OpenFragment:
    """An open fragment: its schema, and its rows in groups."""

    def __init__(self, request: LanceFragment) -> None:
        self._where = request.path
        with translate_library_errors(self._where, "cannot read it"):
            fragment = _dataset(request.path, request.version).get_fragment(request.number)
            if fragment is None:
                raise ValueError(f"there is no fragment {request.number}")
            self._fragment, self.schema = fragment, fragment.schema
            rows = fragment.count_rows()
        counts = [min(GROUP_ROWS, rows - first) for first in range(0, rows, GROUP_ROWS)]
        self.groups = tuple((count, request.size * count // max(1, rows)) for count in counts)

    def batches(
        self, rows: int, groups: Sequence[int] | None, columns: Sequence[str] | None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some groups, or of all."""
        parts: list[dict[str, int]] = [{}]
        if groups is not None:
            parts = [{"offset": one * GROUP_ROWS, "limit": GROUP_ROWS} for one in groups]
        with translate_library_errors(self._where, "cannot read it"):
            for part in parts:
                yield from self._fragment.to_batches(
                    columns=None if columns is None else list(columns),
                    batch_size=rows,
                    batch_readahead=1,
                    io_buffer_size=_BUFFER,
                    **part,
                )
