"""Delta tables: the files of one version, and how the table sees each of them."""

import datetime as dt
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingot.converters.columnar.lance_files import read_version_time
from ingot.converters.columnar.table_view import TableView
from ingot.converters.errors import (
    SourceError,
    translate_library_errors,
    translate_read_errors,
)
from ingot.converters.sources.storage.listing import Entry
from ingot.converters.sources.tables.table_folders import TableFolder, TableVersion

if TYPE_CHECKING:
    from deltalake import DeltaTable

_LOG: Final = "_delta_log"
_LAST: Final = f"{_LOG}/_last_checkpoint"
_NUMBER: Final = re.compile(rf"{_LOG}/(\d{{20}})\.")
# Not those in several parts, of which some may not be there: then more of the log is copied.
_CHECKPOINT: Final = re.compile(rf"{_LOG}/\d{{20}}\.checkpoint\.([0-9a-f-]{{36}}\.)?(parquet|json)")
_VECTORS: Final = re.compile(r"(^|/)deletion_vector_[0-9a-f-]{36}\.bin$")
_MOST_LOG: Final = 4 << 30


def read_delta_table(
    folder: TableFolder, version: str | None = None
) -> tuple[TableVersion, list[Entry]]:
    """Return a version of a table, by default the current one, and its files by name.

    `version` is a number or a time. Raises SourceError: the log is damaged or has gaps, the version
    does not exist, the table uses a feature that the package does not support, a file is missing.
    """
    from deltalake import DeltaTable

    with (
        _local_log(folder, version) as top,
        translate_library_errors(folder.where, "cannot read the log of the Delta table"),
    ):
        table = DeltaTable(top)
        if version is not None:
            table.load_as_version(_version_number(table, folder, version))
        number, identity = table.version(), str(table.metadata().id)
        schema = pa.schema(table.schema().to_arrow())
        added = pa.table(table.get_add_actions(flatten=False)).combine_chunks()
        deleted = dict(_deleted_rows(pa.table(table.deletion_vectors()), top))
        for path, count in _told_counts(top, number).items() if deleted else ():
            if path in deleted and np.count_nonzero(deleted[path]) != count:
                raise ValueError(f"{count:,} rows of {path} are deleted, and its vector has others")
    table_version = TableVersion(folder=folder.name, kind="delta", version=number, id=identity)
    entries = []
    for row, path in enumerate(added["path"].to_pylist()):
        file = folder.find(unquote(path))
        gone = deleted.pop(PurePosixPath(unquote(path)).as_posix(), np.zeros(0, np.bool_))
        view = TableView(schema=schema, constants=_constants(added, row), deleted=gone)
        entries.append(folder.data_entry(file, table_version, view))
    if deleted:  # a row that was deleted must not come back
        problem = f"the Delta table deletes rows of files that it does not have: {min(deleted)}"
        raise SourceError(folder.where, problem, "restore the log, or write the table again")
    return table_version, sorted(entries, key=lambda entry: entry.name)


def _version_number(table: "DeltaTable", folder: TableFolder, version: str) -> int:
    """The number of a version, or of the one of a time. Raises ValueError."""
    last = table.version()
    if version.isdecimal():
        if int(version) > last:
            raise ValueError(f"there is no version {version}: the last one is {last}")
        return int(version)
    asked = round(read_version_time(version).timestamp() * 1000)
    # As the log says: the times of its files are those of a copy, if it is one.
    times = {
        commit["version"]: commit["timestamp"]
        for commit in table.history()
        if "timestamp" in commit
    }
    if not times:
        raise ValueError("its log tells no times: name a version by its number")
    first = min(times)
    if times[first] > asked:
        time = dt.datetime.fromtimestamp(times[first] / 1000, dt.UTC)
        raise ValueError(f"its first version is {first}, of {time.isoformat()}")
    return int(max(number for number, when in times.items() if when <= asked))


def _told_counts(top: Path, version: int) -> dict[str, int]:
    """How many rows of files are deleted, as far as the log up to a version says it in JSON."""
    logs = (top / f"{_LOG}/{number:020}.json" for number in range(version + 1))
    lines = (line for log in logs if log.exists() for line in log.read_bytes().splitlines())
    added = (json.loads(line).get("add") for line in lines if b'"deletionVector"' in line)
    return {
        PurePosixPath(unquote(action["path"])).as_posix(): action["deletionVector"]["cardinality"]
        for action in added
        if action and action.get("deletionVector")
    }


@contextmanager
def _local_log(folder: TableFolder, version: str | None) -> Iterator[Path]:
    """The folder of a table; of a remote one a copy of its log, read as other remote files are."""
    if folder.is_local:
        yield Path(folder.where)
        return
    first = _first_needed(folder.entries, version)
    needed = {
        name: entry
        for name, entry in folder.entries.items()
        if _VECTORS.search(name)
        or (name.startswith(f"{_LOG}/") and _log_number(name) >= first and name != _LAST)
    }
    if sum(entry.bytes for entry in needed.values()) > _MOST_LOG:
        problem = f"the log of the Delta table has more than {_MOST_LOG >> 30} GiB"
        raise SourceError(folder.where, problem, "write a checkpoint, or read it from a disk")
    with tempfile.TemporaryDirectory(prefix="ingot-log-") as copy:
        for name, entry in needed.items():
            target = Path(copy) / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with (
                translate_read_errors(str(entry.place)),
                entry.place.open() as stream,
                target.open("wb") as out,
            ):
                shutil.copyfileobj(stream, out)
        yield Path(copy)


def _first_needed(names: Iterable[str], version: str | None) -> int:
    """The number of the newest checkpoint that a version can be read from; a time needs all."""
    if version is not None and not version.isdecimal():
        return 0
    numbers = (_log_number(name) for name in names if _CHECKPOINT.fullmatch(name))
    return max(
        (number for number in numbers if version is None or number <= int(version)), default=0
    )


def _log_number(name: str) -> int:
    """The version of a file of the log; of others, which any version may need, the greatest."""
    match = _NUMBER.match(name)
    return int(match[1]) if match else sys.maxsize


def _deleted_rows(vectors: pa.Table, top: Path) -> Iterator[tuple[str, npt.NDArray[np.bool_]]]:
    """The files with deleted rows by their paths in the table, and which rows these are."""
    for place, selected in zip(vectors["filepath"], vectors["selection_vector"], strict=True):
        path = Path(unquote(urlsplit(place.as_py()).path))
        tops = (
            top_form
            for top_form in (top.absolute(), top.resolve())
            if path.is_relative_to(top_form)
        )
        inner = next((path.relative_to(prefix) for prefix in tops), path)
        yield inner.as_posix(), ~selected.values.to_numpy(zero_copy_only=False)


def _constants(added: pa.Table, row: int) -> dict[str, pa.Scalar]:
    """The partition of a file: its values by column."""
    if "partition" not in added.column_names:
        return {}
    parts = added["partition"].chunk(0)
    return {field.name: parts.field(number)[row] for number, field in enumerate(parts.type)}
