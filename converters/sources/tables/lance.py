"""Lance tables: the fragments of one version, each read as a file."""

import hashlib

from ingot.converters.columnar.lance_files import FindVersion, FoundFragment, LanceFragment
from ingot.converters.columnar.parquet import find_lance_version
from ingot.converters.sources.storage.listing import Entry
from ingot.converters.sources.tables.table_folders import TableFile, TableFolder, TableVersion

_FIRST_NUMBER = (1 << 64) - 1  # from which later versions count down, so that they are listed first


def read_lance_table(
    folder: TableFolder, version: str | None = None
) -> tuple[TableVersion, list[Entry]]:
    """Return a version of a table, by default the current one, and its fragments.

    `version` is a number, a tag or a time. Raises SourceError: the version is damaged or does not
    exist, the table uses a feature that is not supported, a file is missing.
    """
    folder.require_local()
    found = find_lance_version(FindVersion(folder.where, version))
    told = TableVersion(
        folder=folder.name, kind="lance", version=found.number, id=_identity(folder, found.number)
    )
    schema = found.schema.to_string(show_field_metadata=True)
    return told, [
        _fragment_entry(folder, told, one, number, schema)
        for number, one in enumerate(found.fragments)
    ]


def _identity(folder: TableFolder, version: int) -> str:
    """What tells a version, as tables have no name of their own: the hash of its manifest."""
    names = (f"_versions/{number}.manifest" for number in (_FIRST_NUMBER - version, version))
    with folder.find(next(filter(folder.entries.get, names), "_versions")).place.open() as stream:
        return hashlib.sha256(stream.read()).hexdigest()


def _fragment_entry(
    folder: TableFolder, table: TableVersion, found: FoundFragment, number: int, schema: str
) -> Entry:
    """A fragment: the bytes of its files, one after another.

    Its name begins with its place in the table, so that the order of names is that of the rows.
    """
    files = [folder.find(path) for path in found.files]
    size, inner = sum(one.bytes for one in files), "" if folder.name == "." else f"{folder.name}/"
    known = repr([schema, found.files])
    return Entry(
        name=f"{inner}fragment-{number:06d}-{files[0].name.rpartition('/')[2]}",
        place=TableFile(
            tuple(one.place for one in files),
            table,
            LanceFragment(folder.where, table.version, found.number, size),
        ),
        bytes=size,
        mtime_ns=max(one.mtime_ns or 0 for one in files),
        etag=hashlib.sha256(known.encode()).hexdigest(),
    )
