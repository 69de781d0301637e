"""Delta tables: the files of one version, and how the table sees each of them."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingot.converters.columnar.table_view import TableView
from ingot.converters.errors import SourceError, error_text, translate_native_errors
from ingot.converters.sources.storage.listing import Entry
from ingot.converters.sources.tables import table_folders as tables


def read_delta_table(
    folder: Path, name: str, version: str | None = None
) -> tuple[tables.TableVersion, list[Entry]]:
    """The current version of a table (or that of a number or time), and its files by name.

    Raises SourceError: the package is not installed, the log is damaged or has gaps, there is no
    such version, the table has a feature that the package does not know, a file is gone.
    """
    where = str(folder)
    try:
        from deltalake import DeltaTable
    except ImportError as error:
        hint = 'pip install "ingot[delta]"'
        raise SourceError(where, "a Delta table needs the package deltalake", hint) from error
    try:
        with translate_native_errors(tables.UnreadableTableError):
            table = DeltaTable(where)
            if version is not None:
                table.load_as_version(int(version) if version.isdecimal() else version)
            number, made = table.version(), str(table.metadata().id)
            schema = pa.schema(table.schema().to_arrow())
            added = pa.table(table.get_add_actions(flatten=False)).combine_chunks()
            deleted = dict(_deleted_rows(pa.table(table.deletion_vectors())))
    except tables.UnreadableTableError as error:
        problem = f"cannot read the log of the Delta table: {error_text(error)}"
        raise SourceError(where, problem, "check the version, or restore the log") from error
    told = tables.TableVersion(folder=name or ".", kind="delta", version=number, id=made)
    entries = []
    for row, path in enumerate(added["path"].to_pylist()):
        file = tables.data_file(folder, unquote(path), "Delta table")
        gone = deleted.pop(file.resolve(), np.zeros(0, np.bool_))
        view = TableView(schema=schema, constants=_constants(added, row), deleted=gone)
        entries.append(tables.table_entry(folder, file, told, view))
    if deleted:  # a row that was deleted must not come back
        problem = f"the Delta table deletes rows of files that it does not have: {min(deleted)}"
        raise SourceError(where, problem, "restore the log, or write the table anew")
    return told, sorted(entries, key=lambda one: one.name)


def _deleted_rows(vectors: pa.Table) -> Iterator[tuple[Path, npt.NDArray[np.bool_]]]:
    """The files with deleted rows, and which these are."""
    for place, kept in zip(vectors["filepath"], vectors["selection_vector"], strict=True):
        path = Path(unquote(urlsplit(place.as_py()).path))
        yield path.resolve(), ~kept.values.to_numpy(zero_copy_only=False)


def _constants(added: pa.Table, row: int) -> dict[str, pa.Scalar]:
    """The partition of a file: its values by column."""
    if "partition" not in added.column_names:
        return {}
    parts = added["partition"].chunk(0)
    return {one.name: parts.field(number)[row] for number, one in enumerate(parts.type)}
