"""Hudi tables: the base files of one instant of a table whose rows are all in base files.

Rows in log files replace some of the base files, so a table that has them is refused.
"""

from typing import TYPE_CHECKING

from ingot.converters.columnar.table_view import TableView
from ingot.converters.errors import SourceError, translate_library_errors
from ingot.converters.sources.storage.listing import Entry
from ingot.converters.sources.tables.table_folders import TableFolder, TableVersion

if TYPE_CHECKING:
    from hudi import HudiFileSlice, HudiTimeline


def read_hudi_table(
    folder: TableFolder, version: str | None = None
) -> tuple[TableVersion, list[Entry]]:
    """Return an instant of a table, by default the latest one, and its files by name.

    Raises SourceError: the timeline is damaged, the instant does not exist, rows are in log files,
    the table uses a feature that the package does not support, a file is missing.
    """
    from hudi import HudiReadOptions, HudiTableBuilder

    folder.require_local()
    with translate_library_errors(folder.where, "cannot read the timeline of the Hudi table"):
        table = HudiTableBuilder.from_base_uri(folder.where).build()
        instants = _completed_instants(table.get_timeline())
        instant = max(instants, default="0") if version is None else version
        if version is not None and version not in instants:
            last = f"the last one is {max(instants)}" if instants else "it has none"
            raise ValueError(f"there is no instant {version}: {last}")
        options = HudiReadOptions().with_as_of_timestamp(instant)
        slices = table.get_file_slices(options) if instants else []
        schema, name = table.get_schema(), table.table_name
    paths = _base_files(slices, folder.where)
    table_version = TableVersion(
        folder=folder.name, kind="hudi", version=int(instant), id=str(name)
    )
    view = TableView(schema=schema)
    entries = [folder.data_entry(folder.find(path), table_version, view) for path in paths]
    return table_version, sorted(entries, key=lambda entry: entry.name)


def _base_files(slices: "list[HudiFileSlice]", where: str) -> list[str]:
    """The files that hold all rows. Raises SourceError where some are held by others."""
    paths = [file_slice.base_file_relative_path() for file_slice in slices]
    parquet = all(path.endswith(".parquet") for path in paths)
    if not parquet or any(file_slice.has_log_files() for file_slice in slices):
        problem = "rows of the Hudi table lie in log files, or its files are not Parquet"
        raise SourceError(where, problem, "run a compaction, or write it as Parquet files")
    return paths


def _completed_instants(timeline: "HudiTimeline") -> set[str]:
    """The instants at which the table changed, each the digits of a time."""
    done = [
        *timeline.get_completed_commits(),
        *timeline.get_completed_deltacommits(),
        *timeline.get_completed_replacecommits(),
        *timeline.get_completed_clustering_commits(),
    ]
    return {str(instant.timestamp) for instant in done}
