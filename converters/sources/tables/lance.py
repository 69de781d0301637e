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
    lance_version = find_lance_version(FindVersion(folder.where, version))
    table_version = TableVersion(
        folder=folder.name,
        kind="lance",
        version=lance_version.number,
        id=_identity(folder, lance_version.number),
    )
    schema = lance_version.schema.to_string(show_field_metadata=True)
    return table_version, [
        _fragment_entry(folder, table_version, fragment, number, schema)
        for number, fragment in enumerate(lance_version.fragments)
    ]


def _identity(folder: TableFolder, version: int) -> str:
    """What tells a version, as tables have no name of their own: the hash of its manifest."""
    names = (f"_versions/{number}.manifest" for number in (_FIRST_NUMBER - version, version))
    with folder.find(next(filter(folder.entries.get, names), "_versions")).place.open() as stream:
        return hashlib.sha256(stream.read()).hexdigest()


def _fragment_entry(
    folder: TableFolder, table: TableVersion, fragment: FoundFragment, number: int, schema: str
) -> Entry:
    """A fragment: the bytes of its files, one after another.

    Its name begins with its place in the table, so that the order of names is that of the rows.
    """
    files = [folder.find(path) for path in fragment.files]
    size, inner = sum(file.bytes for file in files), "" if folder.name == "." else f"{folder.name}/"
    known = repr([schema, fragment.files])
    return Entry(
        name=f"{inner}fragment-{number:06d}-{files[0].name.rpartition('/')[2]}",
        place=TableFile(
            tuple(file.place for file in files),
            table,
            LanceFragment(folder.where, table.version, fragment.number, size),
        ),
        bytes=size,
        mtime_ns=max(file.mtime_ns or 0 for file in files),
        etag=hashlib.sha256(known.encode()).hexdigest(),
    )
