"""Tables that are folders with a log: which files of a listing are theirs, and which are current.

Below such a folder lie the files of its current version beside those of former ones, and rows that
were deleted: only the log says which are which. Reading the files would bring deleted rows back.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO, Final

from ingot.converters.errors import SourceError, error_text, translate_read_errors
from ingot.converters.sources.storage.listing import Entry, Listing, LocalFile, enclosing_folders
from ingot.converters.sources.tables.mds_folders import read_mds_indexes

if TYPE_CHECKING:
    from ingot.converters.columnar.table_view import TableView

# The folder of its log, and the names of the files there.
_LOGS: Final = {
    "Delta table": ("_delta_log", re.compile(r"\d{20}\.(json|checkpoint\..+)")),
    "Iceberg table": (
        "metadata",
        re.compile(
            r"(v\d{1,9}|\d{1,9}-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})(\.gz)?\.metadata\.json"
        ),
    ),
    "Hudi table": (".hoodie", re.compile(r"hoodie\.properties")),
    "Lance table": ("_versions", re.compile(r"\d{1,20}\.manifest")),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class TableVersion:
    """One version of a table: its folder ("." = the location), kind, number and the table's id."""

    folder: str
    kind: str
    version: int
    id: str


@dataclass(frozen=True, slots=True)
class TableFile(LocalFile):
    """A data file of a table, which is read as that version of the table sees it."""

    table: TableVersion
    view: "TableView"

    def open(self) -> BinaryIO:
        """The bytes from the start, seekable. Raises SourceError."""
        from ingot.converters.columnar.table_view import TableStream

        with translate_read_errors(self.path):
            return TableStream(self.path, self.view)


# Reads the table of a folder, under a name, at a version or the current one.
TableReader = Callable[[Path, str, str | None], tuple[TableVersion, list[Entry]]]


class UnreadableTableError(Exception):
    """A package cannot read a log; it raises nothing more precise."""


def data_file(folder: Path, path: str, kind: str, location: str = "") -> Path:
    """Where a file of a log lies, whose path is told from the table's folder, or its location.

    Raises SourceError where that is outside of the table.
    """
    path = path.removeprefix(f"{location.rstrip('/')}/") if location else path
    inner = PurePosixPath(path)
    if inner.is_absolute() or ".." in inner.parts or "://" in path:
        problem = f"a file of the {kind} lies elsewhere: {path[:200]}"
        raise SourceError(str(folder), problem, "copy the table as a whole, not as a shallow clone")
    return folder.absolute() / inner


def table_entry(folder: Path, file: Path, table: TableVersion, view: "TableView") -> Entry:
    """A data file of a table; its mark of content is what the table says of it."""
    try:
        facts = file.stat()
    except OSError as error:
        problem = f"a file of this version of the table is gone: {error_text(error)}"
        raise SourceError(str(file), problem, "read a later version, or restore it") from error
    inner = file.relative_to(folder.absolute()).as_posix()
    return Entry(
        name=inner if table.folder == "." else f"{table.folder}/{inner}",
        place=TableFile(str(file), table, view),
        bytes=facts.st_size,
        mtime_ns=facts.st_mtime_ns,
        etag=view.digest(),
    )


def table_folders(entries: Iterable[Entry]) -> dict[str, str]:
    """The folders of a listing that are tables, "" for the listed one, each with its kind."""
    tables: dict[str, str] = {}
    for entry in entries:
        folder, _, base = entry.name.rpartition("/")
        outer, _, last = folder.rpartition("/")
        for kind, (log, files) in _LOGS.items():
            if last == log and files.fullmatch(base):
                tables.setdefault(outer, kind)  # Delta's log may stand beside that of another kind
    return tables


def _find_tables(listing: Listing) -> dict[str, str]:
    """As `table_folders`; "" is there also where a part of a local table is listed.

    That is one partition, or a glob of its files. A single file that is named is read as it is.
    """
    if listing.direct or not listing.entries:
        return {}
    tables, first = table_folders(listing.entries), listing.entries[0]
    if isinstance(first.place, LocalFile):
        top = Path(first.place.path.removesuffix(first.name)).absolute()
        if kind := next(filter(None, map(_kind_of_folder, (top, *top.parents))), None):
            tables[""] = kind
    return tables


def _kind_of_folder(folder: Path) -> str | None:
    """What table a local folder is."""
    for kind, (log, files) in _LOGS.items():
        with suppress(OSError):
            if any(files.fullmatch(file.name) for file in (folder / log).iterdir()):
                return kind
    return None


def split_version(location: str) -> tuple[str, str | None]:
    """A location without the version of a table (`users@12`, `users@2026-11-01T00:00:00Z`)."""
    base, mark, version = location.rpartition("@")
    folder = Path(base).expanduser()
    if not mark or "://" in base or Path(location).expanduser().exists() or not folder.is_dir():
        return location, None
    return base, version


def read_tables(listing: Listing, version: str | None = None) -> Listing:
    """The listing with the files of one version in the place of all that lie below a table.

    The others are in `unreadable`; tables that cannot be read are in `closed`. Raises SourceError
    where the location itself is a table that cannot be read, or is to be read at a version.
    """
    listing = read_mds_indexes(listing)
    found = _find_tables(listing)
    if version is not None and found.get("") not in _readers():
        problem = f"no Delta or Iceberg table: it has no version {version}"
        raise SourceError(listing.base, problem, "leave @VERSION out")
    for folder, kind in sorted(found.items()):
        why = unread_reason(kind)
        root = _local_root(listing, folder, kind)
        if root is not None and kind in _readers():
            try:
                read = _readers()[kind](root, folder, None if folder else version)
            except SourceError as error:
                if not folder:
                    raise
                why += f": {error.problem}"
            else:
                listing = _with_current_files(listing, folder, kind, *read)
                continue
        listing = replace(listing, closed={**listing.closed, folder: why})
    return listing


def _readers() -> dict[str, TableReader]:
    """What reads the tables of a kind; loaded when there is one."""
    from ingot.converters.sources.tables.delta import read_delta_table
    from ingot.converters.sources.tables.iceberg import read_iceberg_table

    return {"Delta table": read_delta_table, "Iceberg table": read_iceberg_table}


def unread_reason(kind: str) -> str:
    """Why the files of a table are left out."""
    return f"part of {'an' if kind.startswith('I') else 'a'} {kind}, which is not read"


def _local_root(listing: Listing, folder: str, kind: str) -> Path | None:
    """The folder of a table that is listed as a whole, if it lies on this machine."""
    inner = f"{folder}/" if folder else ""
    log = f"{inner}{_LOGS[kind][0]}/"
    first = next((one for one in listing.entries if one.name.startswith(log)), None)
    if first is None or not isinstance(first.place, LocalFile):
        return None
    return Path(first.place.path.removesuffix(first.name.removeprefix(inner)))


def _with_current_files(
    listing: Listing, folder: str, kind: str, table: TableVersion, files: Sequence[Entry]
) -> Listing:
    inner, current = f"{folder}/" if folder else "", {one.name for one in files}
    why = f"not in version {table.version} of its {kind}"
    below = (one.name for one in listing.entries if one.name.startswith(inner))
    kept = [one for one in listing.entries if not one.name.startswith(inner)]
    return replace(
        listing,
        entries=tuple(sorted([*kept, *files], key=lambda one: one.name)),
        unreadable=(*listing.unreadable, *((name, why) for name in below if name not in current)),
    )


def table_reason(name: str, closed: Mapping[str, str]) -> str | None:
    """Why a file is not read: it belongs to a table that is not; None where it does not."""
    folders = ("", *enclosing_folders(name)) if closed else ()
    return next((closed[folder] for folder in folders if folder in closed), None)
