"""What a token build reads: the files in their order, and the units of work that they make.

A unit is a file, or, where a row is a document, a range of row groups of a large Parquet file. The
plan depends on the files alone, so the result does not depend on how the work is spread.
"""

import fnmatch
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from ingot.converters.errors import SourceError
from ingot.converters.megatron.filenames import name_of, text_of
from ingot.converters.rows import Json

UNIT_BYTES: Final = 64 << 20  # compressed; larger files are cut between row groups


@dataclass(frozen=True, kw_only=True, slots=True)
class InputFile:
    """A file to be read.

    Attributes:
        name: relative to the input folder, with `/`; names it in the results.
        path: where it lies.
        bytes: its size.
        mtime_ns: when it was changed last, nanoseconds since 1970.
    """

    name: str
    path: Path
    bytes: int
    mtime_ns: int

    def to_document(self) -> dict[str, Json]:
        """As JSON, for another process."""
        return {
            "name": text_of(self.name),
            "path": text_of(self.path),
            "bytes": self.bytes,
            "mtime_ns": self.mtime_ns,
        }

    @staticmethod
    def from_document(document: dict[str, Json]) -> "InputFile":
        """The file of such a document."""
        name, path = (name_of(document[key]) for key in ("name", "path"))
        size, changed = document["bytes"], document["mtime_ns"]
        return InputFile(name=name, path=Path(path), bytes=size, mtime_ns=changed)


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """A piece of work, done as a whole or not at all.

    Attributes:
        number: its place in the plan.
        file: number of its file.
        row_groups: the row groups from, and up to; None = all of the file.
        first_row: number of its first row in the file.
        bytes: of the file, its share.
    """

    number: int
    file: int
    row_groups: tuple[int, int] | None
    first_row: int
    bytes: int


def scan(folder: Path, pattern: str = "*.parquet", *, recursive: bool = True) -> list[InputFile]:
    """The files under a folder whose name fits a glob, sorted by their relative path.

    A pattern with a `/` is compared with the relative path. Hidden files and folders, and folders
    that are links, are left out. A file given in place of the folder is taken whatever the pattern.
    A file that cannot be looked at is among them: it fails when it is to be read.

    Raises:
        SourceError: no such folder, or no file in it fits.
    """
    if folder.is_file():
        return [_stamped(folder.name, folder)]
    if not folder.is_dir():
        raise SourceError(str(folder), "no such folder", "give --input-dir an existing one")
    found = sorted(name for name in _names(folder, recursive) if _fits(name, pattern))
    if not found:
        where = "in it or its folders" if recursive else "in it"
        problem = f"no file {where} fits {pattern!r}"
        raise SourceError(str(folder), problem, "state --pattern, such as '*.parquet'")
    return [_stamped(name, folder / name) for name in found]


def _names(folder: Path, recursive: bool) -> Iterator[str]:
    def stop(error: OSError) -> None:
        problem = f"cannot be listed: {error.strerror or error}"
        raise SourceError(str(error.filename), problem, "see to its permissions") from error

    for root, folders, names in os.walk(folder, onerror=stop):
        folders[:] = sorted(one for one in folders if recursive and not one.startswith("."))
        place = Path(root).relative_to(folder)
        yield from ((place / name).as_posix() for name in names if not name.startswith("."))


def _fits(name: str, pattern: str) -> bool:
    if "/" in pattern:
        return fnmatch.fnmatchcase(name, pattern.removeprefix("./"))
    return fnmatch.fnmatchcase(name.rpartition("/")[2], pattern)


def stamped(files: Iterable[Path]) -> list[InputFile]:
    """Files given one by one, in that order, under their own names."""
    return [_stamped(file.name, file) for file in files]


def _stamped(name: str, path: Path) -> InputFile:
    try:
        facts = path.stat()
    except OSError:  # it has vanished, or is a link to nowhere
        return InputFile(name=name, path=path, bytes=0, mtime_ns=0)
    return InputFile(name=name, path=path, bytes=facts.st_size, mtime_ns=facts.st_mtime_ns)


def opened(file: InputFile) -> pa.NativeFile:
    """A file, whatever its name is made of; Arrow takes names as UTF-8 alone."""
    return pa.OSFile(os.fsencode(file.path))


def plan(files: list[InputFile], *, whole_files: bool) -> list[Unit]:
    """The units of the files, in order.

    Args:
        files: in order.
        whole_files: never cut a file.
    """
    units: list[Unit] = []
    for number, file in enumerate(files):
        for groups, first_row, size in _ranges(file, whole_files):
            units.append(
                Unit(
                    number=len(units),
                    file=number,
                    row_groups=groups,
                    first_row=first_row,
                    bytes=size,
                )
            )
    return units


def _ranges(file: InputFile, whole: bool) -> Iterator[tuple[tuple[int, int] | None, int, int]]:
    metadata = None if whole or file.bytes <= UNIT_BYTES else _footer(file)
    if metadata is None or metadata.num_row_groups < 2:
        yield None, 0, file.bytes
        return
    begin, first_row, rows = 0, 0, 0
    share = file.bytes / max(1, metadata.num_rows)
    for group in range(metadata.num_row_groups):
        rows += metadata.row_group(group).num_rows
        if rows * share >= UNIT_BYTES or group == metadata.num_row_groups - 1:
            yield (begin, group + 1), first_row, round(rows * share)
            begin, first_row, rows = group + 1, first_row + rows, 0


def _footer(file: InputFile) -> pq.FileMetaData | None:
    """The metadata; None where it is no Parquet file: reading it will say what is wrong."""
    try:
        return pq.read_metadata(opened(file))
    except (pa.ArrowException, OSError):
        return None
