"""The registry of containers: how they are recognized, what is in them, how tables are read."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from ingot.converters.sources.containers import duckdb_files, sqlite_files, workbooks
from ingot.converters.sources.containers.tables import Wants
from ingot.converters.sources.facts import NoData, SourceFile, SourceSpec
from ingot.converters.sources.file_kinds import describe_magic
from ingot.converters.sources.formats.detection import FilePeek
from ingot.converters.sources.formats.row_chunks import RowChunk
from ingot.converters.sources.storage.archives import archive_members
from ingot.converters.sources.storage.listing import Entry


def _read_none(file: SourceFile, _: SourceSpec) -> Iterator[RowChunk]:
    raise TypeError(f"{file.name} lies in an archive: it is read by its own format")


@dataclass(frozen=True)
class Container:
    """A kind of file that holds several.

    Attributes:
        detect: whether a file is of this kind; `NoData` where it is and cannot be read.
        members: what is in it in order: an `Entry` that is looked into, a `SourceFile` with its
            facts, or (name, why) of what is left out; ("", why) where that is all of it.
        rows: the rows of a member that has facts of this format.
    """

    detect: Callable[[Entry, FilePeek], bool | NoData]
    members: Callable[[Entry, SourceSpec, Wants], Iterator[Entry | tuple[str, str]]]
    rows: Callable[[SourceFile, SourceSpec], Iterator[RowChunk]] = _read_none


def _archive(kind: str) -> Container:
    return Container(
        lambda _, seen: seen.archive == kind and not describe_magic(seen.head),
        lambda entry, *_: archive_members(entry, kind),
    )


# Each gives its format to its tables.
TABLE_CONTAINERS: Final = {
    "duckdb": Container(
        lambda _, seen: seen.head[8:12] == b"DUCK",
        duckdb_files.duckdb_tables,
        duckdb_files.read_duckdb_table,
    ),
    "excel": Container(workbooks.is_workbook, workbooks.workbook_tables, workbooks.read_sheet),
    "sqlite": Container(
        lambda _, seen: seen.head.startswith(b"SQLite format 3\0"),
        sqlite_files.sqlite_tables,
        sqlite_files.read_sqlite_table,
    ),
}
# In the order in which they are tried: a workbook is a zip file, too.
CONTAINERS: Final = {**TABLE_CONTAINERS, "zip": _archive("zip"), "tar": _archive("tar")}


def find_container(entry: Entry, seen: FilePeek, spec: SourceSpec) -> Container | NoData | None:
    """Return the kind of container that a file is, None for any other. Raises SourceError."""
    for name, container in CONTAINERS.items():
        found = container.detect(entry, seen)
        if isinstance(found, NoData):
            return found
        if found and name in TABLE_CONTAINERS and spec.format not in (None, name):
            return NoData(f"its format is {name}, and {spec.format} is stated")
        if found:
            return container
    return None
