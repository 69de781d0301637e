"""Iceberg tables of this machine, by pyiceberg, with files of deletes that it does not write."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestListWriterV2,
    ManifestWriterV2,
)
from pyiceberg.table import Table
from pyiceberg.typedef import Record


def make_table(folder: Path, schema: pa.Schema) -> Table:
    """A table without rows in `folder/db/people`."""
    folder.mkdir()
    where = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": folder.as_uri()}
    catalog = SqlCatalog("local", **where)
    catalog.create_namespace("db")
    return catalog.create_table("db.people", schema=schema)


class _DeletesWriter(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def delete_rows(
    table: Table,
    file: str,
    numbers: Sequence[int],
    content: DataFileContent = DataFileContent.POSITION_DELETES,
) -> None:
    """Put a file of deletes into the current snapshot: these rows of a data file are gone."""
    snapshot: Any = table.current_snapshot()
    where = f"{table.location()}/data/deletes-{len(snapshot.manifests(table.io))}.parquet"
    local = Path(where.removeprefix("file://"))
    pq.write_table(pa.table({"file_path": [file] * len(numbers), "pos": list(numbers)}), local)
    known = DataFile.from_args(
        content=content,
        file_path=where,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=len(numbers),
        file_size_in_bytes=local.stat().st_size,
        equality_ids=[1] if content == DataFileContent.EQUALITY_DELETES else None,
    )
    own = where.replace("/data/", "/metadata/").replace(".parquet", ".avro")
    made = table.io.new_output(own)
    spec, schema, number = table.spec(), table.schema(), snapshot.snapshot_id
    with _DeletesWriter(spec, schema, made, number, "null") as writer:
        writer.add(
            ManifestEntry.from_args(
                status=ManifestEntryStatus.ADDED,
                snapshot_id=number,
                sequence_number=snapshot.sequence_number,
                data_file=known,
            )
        )
    manifests = [*snapshot.manifests(table.io), writer.to_manifest_file()]
    Path(snapshot.manifest_list.removeprefix("file://")).unlink()
    listed = table.io.new_output(snapshot.manifest_list)
    order = snapshot.sequence_number
    with ManifestListWriterV2(listed, number, None, order, "null") as lists:
        lists.add_manifests(manifests)
