"""Tables that are folders with a log: which files of a listing are theirs, and which are current.

Below such a folder lie the files of its current version beside those of former ones, and rows that
were deleted: only the log says which are which. Reading the files would bring deleted rows back.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO, Final

from ingot.converters.errors import SourceError, redact_urls
from ingot.converters.sources.storage.listing import (
    Entry,
    Listing,
    LocalFile,
    Place,
    drop_own_results,
    enclosing_folders,
    is_local,
    list_location,
    storage_places,
)
from ingot.converters.sources.tables.mds_folders import read_mds_indexes

if TYPE_CHECKING:
    from ingot.converters.columnar.lance_files import LanceFragment
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

_METADATA: Final = re.compile(rf"(.+)/(metadata/{_LOGS['Iceberg table'][1].pattern})", re.DOTALL)
CATALOG: Final = "iceberg://"
# Of a table behind a URL: a number or a time, as other names may hold an `@` too.
_URL_VERSION: Final = re.compile(r"\d{1,20}|\d{4}-\d\d-\d\d(T[\d:.]{1,20}(Z|[+-][\d:]{1,6})?)?")


@dataclass(frozen=True, kw_only=True, slots=True)
class TableVersion:
    """One version of a table: its folder ("." = the location), kind, number and the table's id."""

    folder: str
    kind: str
    version: int
    id: str

    def text(self, source: str) -> str:
        """As people read it, `Delta table users, version 12`; `source` is the source's name."""
        name = source if self.folder == "." else self.folder
        return f"{self.kind.capitalize()} table {name}, version {self.version}"


@dataclass(frozen=True, slots=True)
class TableFile:
    """A data file of a table, or more (a fragment of Lance), read as a version of it sees them."""

    places: tuple[Place, ...]
    table: TableVersion
    view: "TableView | LanceFragment" = field(compare=False)

    def __str__(self) -> str:
        return str(self.places[0])

    def open(self) -> BinaryIO:
        """The bytes from the start, of one file after another. Raises SourceError."""
        from ingot.converters.columnar.table_view import FragmentStream, TableStream, TableView

        if isinstance(self.view, TableView):
            return TableStream(self.places[0].open(), self.view)
        return FragmentStream(self.places, self.view)


@dataclass(frozen=True, slots=True)
class TableFolder:
    """The files of a listing that lie below a table.

    Attributes:
        name: in the listing, "" = the location.
        where: its path or URL, for messages; a path leads there.
        entries: by their names in the folder.
        metadata: the metadata file of Iceberg that is to be read; "" = the newest.
    """

    name: str
    kind: str
    where: str
    entries: Mapping[str, Entry]
    metadata: str = ""

    @property
    def is_local(self) -> bool:
        """Whether all of it lies on this machine."""
        return all(is_local(one.place) for one in self.entries.values())

    def require_local(self) -> None:
        """Raise SourceError where the table is behind a URL."""
        if not self.is_local:
            problem = f"a {self.kind} is read from this machine only"
            raise SourceError(self.where, problem, "copy the table to a disk")

    def find(self, path: str, location: str = "") -> Entry:
        """The file that a log tells by its path from the table's folder, or its location.

        Raises SourceError where that is outside of the table, or not there.
        """
        path = path.removeprefix(f"{location.rstrip('/')}/") if location else path
        inner = PurePosixPath(path)
        if inner.is_absolute() or ".." in inner.parts or "://" in path:
            problem = f"a file of the {self.kind} lies elsewhere: {redact_urls(path[:200])}"
            hint = "copy the table as a whole, not as a shallow clone"
            raise SourceError(self.where, problem, hint)
        if (found := self.entries.get(inner.as_posix())) is None:
            problem = f"a file of this version of the table is gone: {path[:200]}"
            raise SourceError(self.where, problem, "read a later version, or restore it")
        return found

    def data_entry(self, file: Entry, table: TableVersion, view: "TableView") -> Entry:
        """A data file of the table; its mark of content is also what the table says of it."""
        place = TableFile((file.place,), table, view)
        etag = f"{file.etag}:{view.digest()}" if file.etag else view.digest()
        return replace(file, place=place, etag=etag)


def tables_read(places: Iterable[Place]) -> list[TableVersion]:
    """The tables that places are of, each once."""
    return list(dict.fromkeys(one.table for one in places if isinstance(one, TableFile)))


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


def refuse_table_files(folder: Path) -> None:
    """Raise SourceError for the folder of a table, unless all of its files are of one version."""
    kind, log = _kind_of_folder(folder), folder / _LOGS["Delta table"][0]
    if kind is not None and [one.name for one in log.glob("*")] != [f"{0:020}.json"]:
        problem = f"{kind}: its folder holds files of former versions and deleted rows too"
        raise SourceError(str(folder), problem, "convert it first, and build from the records")


def split_version(location: str) -> tuple[str, str | None]:
    """A location without the version of a table (`users@12`, `users@2026-11-01T00:00:00Z`)."""
    base, mark, version = location.rpartition("@")
    if "://" in location and not location.startswith("file://"):
        if not mark or not _URL_VERSION.fullmatch(version) or base.startswith("hf://"):
            return location, None
        with suppress(SourceError):
            if not location.startswith(CATALOG) and list_location(location):
                return location, None  # a name that holds an `@`
        return base, version
    if not mark or Path(location).expanduser().exists() or not Path(base).expanduser().is_dir():
        return location, None
    return base, version


def list_tables(location: str) -> Listing:
    """As `list_location`, with tables read; `FOLDER@VERSION`, a metadata file, a catalog's table.

    Raises SourceError.
    """
    named, version = split_version(location)
    found = named
    if named.startswith(CATALOG):
        from ingot.converters.sources.tables.iceberg import find_in_catalog

        found = find_in_catalog(named)
    if (metadata := _METADATA.fullmatch(found)) is None:
        if found != named:
            problem = f"its metadata file does not lie in a folder `metadata`: {redact_urls(found)}"
            raise SourceError(named, problem, "name the folder of the table")
        return read_tables(drop_own_results(list_location(found)), version)
    listing = read_tables(list_location(metadata[1]), version, metadata[2])
    return replace(listing, base=named.rpartition(".")[2]) if found != named else listing


def read_tables(listing: Listing, version: str | None = None, metadata: str = "") -> Listing:
    """The listing with the files of one version in the place of all that lie below a table.

    The others are in `unreadable`; tables that cannot be read are in `closed`. Raises SourceError
    where the location itself is a table that cannot be read, or is to be read at a version.
    """
    listing = read_mds_indexes(listing)
    found = _find_tables(listing)
    if version is not None and "" not in found:
        problem = f"no table with a log: it has no version {version}"
        raise SourceError(listing.base, problem, "leave @VERSION out")
    for name, kind in sorted(found.items()):
        why = unread_reason(kind)
        folder = _whole_folder(listing, name, kind)
        if folder is not None:
            try:
                if name:
                    read = _read_table(folder, None)
                else:
                    read = _read_table(replace(folder, metadata=metadata), version)
            except SourceError as error:
                if not name:
                    raise
                why += f": {error.problem}"
            else:
                listing = _with_current_files(listing, name, kind, *read)
                continue
        listing = replace(listing, closed={**listing.closed, name: why})
    return listing


def _read_table(folder: TableFolder, version: str | None) -> tuple[TableVersion, list[Entry]]:
    """Read a table at a version, or the current one. Raises SourceError."""
    require_package(folder.kind, folder.where)
    from ingot.converters.sources.tables import delta, hudi, iceberg, lance

    readers = {
        "Delta table": delta.read_delta_table,
        "Hudi table": hudi.read_hudi_table,
        "Iceberg table": iceberg.read_iceberg_table,
        "Lance table": lance.read_lance_table,
    }
    return readers[folder.kind](folder, version)


# The module that reads the tables of a kind, and its package.
_PACKAGES: Final = {
    "Delta table": ("deltalake", "deltalake"),
    "Hudi table": ("hudi", "hudi"),
    "Iceberg table": ("pyiceberg", "pyiceberg"),
    "Lance table": ("lance", "pylance"),
}


def require_package(kind: str, where: str) -> None:
    """Raise SourceError where the package for tables of a kind is not installed."""
    module, package = _PACKAGES[kind]
    if find_spec(module) is None:
        hint = f'pip install "ingot[{kind.partition(" ")[0].lower()}]"'
        raise SourceError(where, f"{_one_of(kind)} needs the package {package}", hint)


def _one_of(kind: str) -> str:
    return f"{'an' if kind.startswith('I') else 'a'} {kind}"


def unread_reason(kind: str) -> str:
    """Why the files of a table are left out."""
    return f"part of {_one_of(kind)}, which is not read"


def _whole_folder(listing: Listing, name: str, kind: str) -> TableFolder | None:
    """The folder of a table that is listed as a whole."""
    inner = f"{name}/" if name else ""
    log = f"{inner}{_LOGS[kind][0]}/"
    first = next((one for one in listing.entries if one.name.startswith(log)), None)
    if first is None:
        return None
    below = (one for one in listing.entries if one.name.startswith(inner))
    return TableFolder(
        name=name or ".",
        kind=kind,
        where=str(first.place).removesuffix(first.name.removeprefix(inner)).rstrip("/"),
        entries={one.name.removeprefix(inner): one for one in below},
    )


def _with_current_files(
    listing: Listing, folder: str, kind: str, table: TableVersion, files: Sequence[Entry]
) -> Listing:
    inner = f"{folder}/" if folder else ""
    read = {place for one in files for place in storage_places(one.place)}
    why = f"not in version {table.version} of its {kind}"
    below = (one for one in listing.entries if one.name.startswith(inner))
    gone = tuple((one.name, why) for one in below if read.isdisjoint(storage_places(one.place)))
    kept = [one for one in listing.entries if not one.name.startswith(inner)]
    return replace(
        listing,
        entries=tuple(sorted([*kept, *files], key=lambda one: one.name)),
        unreadable=(*listing.unreadable, *gone),
    )


def table_reason(name: str, closed: Mapping[str, str]) -> str | None:
    """Why a file is not read: it belongs to a table that is not; None where it does not."""
    folders = ("", *enclosing_folders(name)) if closed else ()
    return next((closed[folder] for folder in folders if folder in closed), None)
