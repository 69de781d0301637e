"""Tables that are folders with a log: which files of a listing are theirs, and which are current.

Below such a folder lie the files of its current version beside those of former ones, and rows that
were deleted: only the log says which are which. Reading the files would bring deleted rows back.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

from ingot.converters.errors import (
    SourceError,
    error_text,
    redact_urls,
    require_package,
    translate_native_errors,
)
from ingot.converters.imports import LateFunction
from ingot.converters.sources.facts import NoData
from ingot.converters.sources.storage.listing import (
    Entry,
    Listing,
    LocalFile,
    Place,
    drop_own_results,
    enclosing_folders,
    list_location,
)
from ingot.converters.sources.storage.places import UnreadableName, is_local

if TYPE_CHECKING:
    from ingot.converters.columnar.lance_files import LanceFragment
    from ingot.converters.columnar.table_view import TableView


class _TableKind(NamedTuple):
    """A kind of table: the folder of its log, the names of files there, the package that reads."""

    log: str
    files: re.Pattern[str]
    package: str
    module: str = ""  # where it has another name


_ICEBERG: Final = r"(v\d{1,9}|\d{1,9}-[^/]{1,100}?)(\.gz)?\.metadata\.json"
# The first word is the extra of the package, and the module here that asks it.
_KINDS: Final = {
    "Delta table": _TableKind(
        "_delta_log", re.compile(r"\d{20}\.(json|checkpoint\..+)"), "deltalake"
    ),
    "Iceberg table": _TableKind("metadata", re.compile(_ICEBERG), "pyiceberg"),
    "Hudi table": _TableKind(".hoodie", re.compile(r"hoodie\.properties"), "hudi"),
    "Lance table": _TableKind("_versions", re.compile(r"\d{1,20}\.manifest"), "pylance", "lance"),
}
LOG_FOLDERS: Final = tuple(kind.log for kind in _KINDS.values())
_METADATA: Final = re.compile(rf"(.+)/(metadata/{_ICEBERG})", re.DOTALL)
_CATALOG: Final = "iceberg://"
# pyiceberg also reads that of the current folder, whoever wrote it.
_SETTINGS: Final = ".pyiceberg.yaml"
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
        """Return the version for people, such as `Delta table users, version 12`.

        `source` is the source's name.
        """
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
        """Open the file, or what stands for a fragment, from the start. Raises SourceError."""
        from ingot.converters.columnar.table_view import FragmentStream, TableStream, TableView

        if isinstance(self.view, TableView):
            return TableStream(self.places[0].open(), self.view)
        return FragmentStream(self.view)


@dataclass(frozen=True, slots=True)
class TableFolder:
    """The files of a listing that lie below a table.

    Attributes:
        name: in the listing, "" = the location.
        where: its path or URL, for messages; a path leads there.
        entries: by their names in the folder.
        metadata: the metadata file of Iceberg that is to be read; "" = the newest.
        used: names of entries that were found for the version that is read.
    """

    name: str
    kind: str
    where: str
    entries: Mapping[str, Entry]
    metadata: str = ""
    used: set[str] = field(default_factory=set)

    @property
    def is_local(self) -> bool:
        """Return whether all files are on this machine."""
        return all(is_local(entry.place) for entry in self.entries.values())

    def require_local(self) -> None:
        """Raise SourceError where the table is behind a URL."""
        if not self.is_local:
            problem = f"a {self.kind} is read from this machine only"
            raise SourceError(self.where, problem, "copy the table to a disk")

    def find(self, path: str, location: str = "") -> Entry:
        """Return the file that a log names by its path from the table's folder, or by its location.

        Raises SourceError if it is outside of the table, or missing.
        """
        path = path.removeprefix(f"{location.rstrip('/')}/") if location else path
        inner = PurePosixPath(path)
        if inner.is_absolute() or ".." in inner.parts or "://" in path:
            problem = f"a file of the {self.kind} lies elsewhere: {redact_urls(path[:200])}"
            hint = "copy the table as a whole, not as a shallow clone"
            raise SourceError(self.where, problem, hint)
        if (entry := self.entries.get(inner.as_posix())) is None:
            problem = f"a file of this version of the table is gone: {path[:200]}"
            raise SourceError(self.where, problem, "read a later version, or restore it")
        self.used.add(inner.as_posix())
        return entry

    def former_files(self) -> Iterator[Entry]:
        """Yield the data files that do not belong to the version that was read."""
        for name, entry in self.entries.items():
            parts = name.split("/")
            is_own = any(part.startswith(("_", ".")) and "=" not in part for part in parts)
            is_own |= parts[0] == _KINDS[self.kind].log or parts[-1].startswith("deletion_vector_")
            if not is_own and name not in self.used:
                yield entry

    def data_entry(self, file: Entry, table: TableVersion, view: "TableView") -> Entry:
        """Return a data file of the table; its content mark includes what the table says of it."""
        place = TableFile((file.place,), table, view)
        etag = f"{file.etag}:{view.digest()}" if file.etag else view.digest()
        return replace(file, place=place, etag=etag)


def tables_read(places: Iterable[Place]) -> list[TableVersion]:
    """Return the tables to which the places belong, each once."""
    return list(dict.fromkeys(place.table for place in places if isinstance(place, TableFile)))


def table_folders(entries: Iterable[Entry]) -> dict[str, str]:
    """Return the folders of a listing that are tables, and their kinds; "" is the listed one."""
    tables: dict[str, str] = {}
    for entry in entries:
        folder, _, base = entry.name.rpartition("/")
        outer, _, last = folder.rpartition("/")
        for kind, known in _KINDS.items():
            if last == known.log and known.files.fullmatch(base):
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
    for kind, known in _KINDS.items():
        with suppress(OSError):
            if any(known.files.fullmatch(file.name) for file in (folder / known.log).iterdir()):
                return kind
    return None


def refuse_table_files(folders: Iterable[Path]) -> None:
    """Raise SourceError for the folder of a table, unless all of its files are of one version."""
    for folder in sorted(folders):
        kind, log = _kind_of_folder(folder), folder / _KINDS["Delta table"].log
        if kind is not None and [file.name for file in log.glob("*")] != [f"{0:020}.json"]:
            problem = f"{kind}: its folder holds files of former versions and deleted rows too"
            raise SourceError(str(folder), problem, "convert it first, and build from the records")


def split_version(location: str) -> tuple[str, str | None]:
    """Split a location from its table version (`users@12`, `users@2026-11-01T00:00:00Z`)."""
    base, mark, version = location.rpartition("@")
    if "://" in location and not location.startswith("file://"):
        if not mark or not _URL_VERSION.fullmatch(version) or base.startswith("hf://"):
            return location, None
        with suppress(SourceError):
            if not location.startswith(_CATALOG) and list_location(location):
                return location, None  # a name that holds an `@`
        return base, version
    if not mark or Path(location).expanduser().exists() or not Path(base).expanduser().is_dir():
        return location, None
    return base, version


def list_tables(location: str) -> Listing:
    """List a location as `list_location` does, and replace each table by the files of one version.

    A location may be `FOLDER@VERSION`, a metadata file or a table of a catalog. Raises SourceError.
    """
    named, version = split_version(location)
    tables = named
    if named.startswith(_CATALOG):
        tables = find_in_catalog(named)
    if (metadata := _METADATA.fullmatch(tables)) is None:
        if tables != named:
            problem = (
                f"its metadata file does not lie in a folder `metadata`: {redact_urls(tables)}"
            )
            raise SourceError(named, problem, "name the folder of the table")
        return read_tables(drop_own_results(list_location(tables), tables), version)
    listing = read_tables(list_location(metadata[1]), version, metadata[2])
    return replace(listing, base=named.rpartition(".")[2]) if tables != named else listing


def find_in_catalog(location: str) -> str:
    """Return where the current metadata file of a table lies: `iceberg://CATALOG/NAMESPACE.TABLE`.

    The catalog is one of pyiceberg's configuration, which holds its address and its keys.
    Raises SourceError.
    """
    require_package(location, "an Iceberg table", "pyiceberg", "iceberg")
    catalog, _, table = location.removeprefix(_CATALOG).partition("/")
    if not re.fullmatch(r"[\w-]{1,100}", catalog) or "." not in table:
        hint = "name the table as iceberg://CATALOG/NAMESPACE.TABLE"
        raise SourceError(redact_urls(location), "no table of a catalog", hint)
    homes = filter(None, [os.environ.get("PYICEBERG_HOME"), str(Path.home())])
    if Path(_SETTINGS).is_file() and not any(Path(home, _SETTINGS).is_file() for home in homes):
        problem = f"{_SETTINGS} of this folder may say where the catalog is"
        raise SourceError(location, problem, "name the folder in PYICEBERG_HOME if that is right")
    try:
        with translate_native_errors(ValueError):
            from pyiceberg.catalog import load_catalog
            from pyiceberg.utils.config import Config

            # As it is now, not at the import.
            settings: dict[str, Any] = dict(Config().get_catalog_config(catalog) or {})
            return str(load_catalog(catalog, **settings).load_table(table).metadata_location)
    except ValueError as error:
        hint = f"check the name, and PYICEBERG_CATALOG__{catalog.upper()}__URI in the environment"
        # The error may quote what the environment tells of catalogs.
        cause = redact_urls(error_text(error))[:500]
        for name, value in os.environ.items():
            if name.startswith("PYICEBERG_") and len(value) > 3:
                cause = cause.replace(value, "***")
        raise SourceError(location, f"not found: {cause}", hint) from None


def read_tables(listing: Listing, version: str | None = None, metadata: str = "") -> Listing:
    """Return the listing with the files of one version in place of everything below a table.

    The other files are in `unreadable`, tables that cannot be read in `closed`. Raises SourceError
    if the location itself is a table that cannot be read, or if a version is requested.
    """
    if any(entry.name.rpartition("/")[2] == "index.json" for entry in listing.entries):
        listing = _read_mds_indexes(listing)
    tables = _find_tables(listing)
    if version is not None and "" not in tables:
        problem = f"no table with a log: it has no version {version}"
        raise SourceError(listing.base, problem, "leave @VERSION out")
    for name, kind in sorted(tables.items()):
        problem = ""
        try:
            if folder := _whole_folder(listing, name, kind):
                folder = folder if name else replace(folder, metadata=metadata)
                listing = _with_current_files(listing, folder, None if name else version)
                continue
        except SourceError as error:
            if not name:
                raise
            problem = f": {error.problem}"
        closed = {**listing.closed, name: (part_of_table(kind), problem, "table")}
        listing = replace(listing, closed=closed)
    return listing


_read_mds_indexes = LateFunction("ingot.converters.sources.containers.mds:read_mds_indexes")


def _one_of(kind: str) -> str:
    return f"{'an' if kind.startswith('I') else 'a'} {kind}"


def part_of_table(kind: str) -> str:
    """Return what to call the files of a table that are left out."""
    return f"part of {_one_of(kind)}"


def _whole_folder(listing: Listing, name: str, kind: str) -> TableFolder | None:
    """The folder of a table that is listed as a whole."""
    inner = f"{name}/" if name else ""
    log = f"{inner}{_KINDS[kind].log}/"
    first = next((entry for entry in listing.entries if entry.name.startswith(log)), None)
    if first is None:
        return None
    below = (entry for entry in listing.entries if entry.name.startswith(inner))
    return TableFolder(
        name=name or ".",
        kind=kind,
        where=str(first.place).removesuffix(first.name.removeprefix(inner)).rstrip("/"),
        entries={entry.name.removeprefix(inner): entry for entry in below},
    )


def _with_current_files(listing: Listing, folder: TableFolder, version: str | None) -> Listing:
    known, name = _KINDS[folder.kind], folder.kind.partition(" ")[0].lower()
    require_package(folder.where, _one_of(folder.kind), known.package, name, known.module)
    read = LateFunction(f"ingot.converters.sources.tables.{name}:read_{name}_table")
    table, files = read(folder, version)
    why = f"not in version {table.version} of its {folder.kind}"
    below = {entry.name for entry in folder.entries.values()}
    kept_entries = [entry for entry in listing.entries if entry.name not in below]
    gone = tuple(UnreadableName(entry.name, why) for entry in folder.former_files())
    return replace(
        listing,
        entries=tuple(sorted([*kept_entries, *files], key=lambda entry: entry.name)),
        unreadable=(*listing.unreadable, *gone),
    )


def table_reason(name: str, closed: Mapping[str, tuple[str, str, str]]) -> NoData | None:
    """Return why a file is not read if it belongs to a table that is not read, else None."""
    folders = ("", *enclosing_folders(name)) if closed else ()
    reasons = (NoData.unread(*closed[folder]) for folder in folders if folder in closed)
    return next((replace(reason, kind="table") for reason in reasons), None)
