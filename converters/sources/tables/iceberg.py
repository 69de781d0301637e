"""Iceberg tables: the files of one snapshot, and how the table sees each of them.

The newest metadata file of the folder tells it, or one that is named, or that of a catalog. Paths
in the metadata begin with the table's location: they are looked up in the folder, wherever that has
been moved to, and nothing outside of it is opened.
"""

import datetime as dt
import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingot.converters.columnar.lance_files import read_version_time
from ingot.converters.columnar.parquet import open_parquet
from ingot.converters.columnar.table_view import TableView
from ingot.converters.errors import (
    SourceError,
    translate_library_errors,
)
from ingot.converters.sources.storage.listing import Entry, Place
from ingot.converters.sources.tables.table_folders import TableFolder, TableVersion

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import FileScanTask, StaticTable

_METADATA = re.compile(r"metadata/v?(\d{1,9})(-[^/]{1,100}?)?(\.gz)?\.metadata\.json")
_NAME_MAPPING = "schema.name-mapping.default"
_ROWS = 65_536  # of a file of deleted rows that are read at a time


def read_iceberg_table(
    folder: TableFolder, version: str | None = None
) -> tuple[TableVersion, list[Entry]]:
    """Return a snapshot of a table, by default the current one, and its files by name.

    `version` is a snapshot id or a time. Raises SourceError: the metadata is damaged or ambiguous,
    the snapshot does not exist, rows are deleted in a way that the package cannot read, a file is
    missing.
    """
    with translate_library_errors(folder.where, "cannot read the metadata of the Iceberg table"):
        table = _open_table(folder)
        snapshot = _snapshot_id(table, version)
        # Of the current one the current schema, which may be newer than the rows.
        scan = table.scan(snapshot_id=None if version is None else snapshot)
        tasks = [] if snapshot is None else list(scan.plan_files())
        schema = _table_schema(scan.projection())
        identity = str(table.metadata.table_uuid)
    table_version = TableVersion(
        folder=folder.name, kind="iceberg", version=snapshot or 0, id=identity
    )
    files = _TableFiles(folder, table.metadata.location)
    entries = []
    for task in tasks:
        view = TableView(
            schema=schema,
            constants=_partition(table, task, schema),
            deleted=files.deleted_rows(task),
            numbered=_NAME_MAPPING not in table.metadata.properties,
        )
        entries.append(folder.data_entry(files.find(task.file), table_version, view))
    return table_version, sorted(entries, key=lambda entry: entry.name)


def _open_table(folder: TableFolder) -> "StaticTable":
    from pyiceberg.catalog.noop import NoopCatalog
    from pyiceberg.io import FileIO, InputFile
    from pyiceberg.serializers import FromInputFile
    from pyiceberg.table import StaticTable

    class TableInput(InputFile):
        """A file of the table, opened as others of its source are."""

        def __init__(self, entry: Entry) -> None:
            super().__init__(entry.name)
            self._entry = entry

        def __len__(self) -> int:
            return self._entry.bytes

        def exists(self) -> bool:
            return True

        def open(self, seekable: bool = True):  # type: ignore[no-untyped-def]  # noqa: ANN202
            return self._entry.place.open()

    class FolderIO(FileIO):
        """Opens what the metadata tells in the folder, and nothing else."""

        def new_input(self, location: str):  # type: ignore[no-untyped-def]  # noqa: ANN202
            return TableInput(folder.find(location, metadata.location))

        def new_output(self, location: str):  # type: ignore[no-untyped-def]  # noqa: ANN202
            raise NotImplementedError

        def delete(self, location: object) -> None:
            raise NotImplementedError

    chosen = folder.entries[folder.metadata or _newest_metadata(folder)]
    metadata = FromInputFile.table_metadata(TableInput(chosen))
    return StaticTable(
        identifier=("table", folder.name),
        metadata=metadata,
        metadata_location=chosen.name,
        io=FolderIO(),
        catalog=NoopCatalog("none"),
    )


def _newest_metadata(folder: TableFolder) -> str:
    """The name of the newest metadata file. Raises ValueError if two are newest."""
    numbers: dict[int, list[str]] = defaultdict(list)
    for name in folder.entries:
        if match := _METADATA.fullmatch(name):
            numbers[int(match[1])].append(name)
    newest = numbers[max(numbers)]
    if len(newest) > 1:
        names = " and ".join(sorted(name.removeprefix("metadata/") for name in newest))
        raise ValueError(f"more than one metadata file is the newest: {names}")
    return newest[0]


def _snapshot_id(table: "StaticTable", version: str | None) -> int | None:
    """The snapshot that is read; None of a table that has none yet. Raises ValueError."""
    if version is None:
        return table.metadata.current_snapshot_id
    named = table.snapshot_by_name(version)  # a tag, or a branch
    if named is None and version.isdecimal():
        named = table.snapshot_by_id(int(version))
    elif named is None:
        when = read_version_time(version)
        named = table.snapshot_as_of_timestamp(round(when.timestamp() * 1000))
    if named is None:
        known = sorted(
            (snapshot.timestamp_ms, snapshot.snapshot_id) for snapshot in table.snapshots()
        )
        first_time = dt.datetime.fromtimestamp(known[0][0] / 1000, dt.UTC) if known else None
        first = (
            f"the first is {known[0][1]}, of {first_time.isoformat()}"
            if first_time
            else "it has none"
        )
        raise ValueError(f"there is no snapshot {version}: {first}")
    return named.snapshot_id


def _table_schema(schema: "Schema") -> pa.Schema:
    """The schema as Arrow has it. Raises ValueError where former rows have a default."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    for number in schema.field_ids:
        if schema.find_field(number).initial_default is not None:
            name = schema.find_column_name(number)
            raise ValueError(f"column {name} has a default for former rows")
    arrow_schema: pa.Schema = schema_to_pyarrow(schema)
    return arrow_schema


def _partition(
    table: "StaticTable", task: "FileScanTask", schema: pa.Schema
) -> dict[str, pa.Scalar]:
    """The values of columns that all rows of a file share, in which times are numbers."""
    from pyiceberg.transforms import IdentityTransform

    names = {int(field.metadata[b"PARQUET:field_id"]): field for field in schema}
    parts = table.specs()[task.file.spec_id].fields
    return {
        field.name: pa.scalar(task.file.partition[place], field.type)
        for place, part in enumerate(parts)
        if isinstance(part.transform, IdentityTransform) and (field := names.get(part.source_id))
    }


class _TableFiles:
    """The files of a table: where they lie, and which rows files of deletes take out of them."""

    def __init__(self, folder: TableFolder, location: str) -> None:
        self._folder, self._location = folder, location
        self._deleted: dict[str, dict[str, list[npt.NDArray[np.int64]]]] = {}

    def find(self, file: "DataFile") -> Entry:
        """Return the entry of a file. Raises SourceError if its place or format is another."""
        if file.file_format.name not in ("PARQUET", "PUFFIN"):
            problem = f"files of the Iceberg table are {file.file_format.name}, not Parquet"
            raise SourceError(self._folder.where, problem, "write the table again as Parquet")
        return self._folder.find(file.file_path, self._location)

    def deleted_rows(self, task: "FileScanTask") -> npt.NDArray[np.bool_]:
        """Return which rows of a data file are deleted. Raises SourceError."""
        data = task.file
        deletes = [self._deletes(file).get(data.file_path, []) for file in task.delete_files]
        places = np.concatenate([np.zeros(0, np.int64), *chain.from_iterable(deletes)])
        for file, vectors in zip(task.delete_files, deletes, strict=True):
            if file.file_format.name == "PUFFIN" and sum(map(len, vectors)) != file.record_count:
                problem = f"{file.record_count:,} rows are deleted, and its vector has others"
                raise SourceError(self.find(data).name, problem, "write the table again")
        if len(places) and not 0 <= places.min() <= places.max() < data.record_count:
            problem = f"rows are deleted that it does not have, up to row {places.max()}"
            raise SourceError(self.find(data).name, problem, "write the table again")
        deleted = np.zeros(int(places.max(initial=-1)) + 1, np.bool_)
        deleted[places] = True
        return deleted

    def _deletes(self, file: "DataFile") -> dict[str, list[npt.NDArray[np.int64]]]:
        """The numbers of rows that a file of deletes names, by data file."""
        if (known := self._deleted.get(file.file_path)) is not None:
            return known
        where, deleted = (
            self.find(file),
            self._deleted.setdefault(file.file_path, defaultdict(list)),
        )
        read = _read_vectors if file.file_format.name == "PUFFIN" else _read_positions
        problem, hint = "cannot read which rows it deletes", "restore it, or write the table again"
        with translate_library_errors(where.name, problem, hint):
            for path, places in read(where.place):
                deleted[path].append(places)
        return deleted


def _read_positions(file: Place) -> Iterator[tuple[str, npt.NDArray[np.int64]]]:
    with file.open() as stream, open_parquet(stream, str(file)) as opened:
        for batch, _ in opened.batches(_ROWS, columns=["file_path", "pos"]):
            places = batch["pos"].cast(pa.int64()).to_numpy()
            names, numbers = np.unique(batch["file_path"].to_pylist(), return_inverse=True)
            for number, name in enumerate(names.tolist()):
                yield name, places[numbers == number]


def _read_vectors(file: Place) -> Iterator[tuple[str, npt.NDArray[np.int64]]]:
    from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
    from pyiceberg.table.puffin import PuffinFile

    with file.open() as stream:
        puffin = PuffinFile(stream.read())
    for vector in deletion_vectors_from_puffin_file(puffin):
        yield vector.referenced_data_file, vector.to_vector().to_numpy()
