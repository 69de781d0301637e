"""The log that makes a folder of record parts a Delta table of one version.

It holds neither times nor drawn names, so that equal records have an equal log
(https://github.com/delta-io/delta/blob/master/PROTOCOL.md).
"""

import json
import uuid
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from ingot.converters.output.files import FileEntry, output_errors
from ingot.converters.records.schema import KINDS, RecordKind

_TYPES: Final = {
    pa.string(): "string",
    pa.int64(): "long",
    pa.float64(): "double",
    pa.bool_(): "boolean",
}


def write_delta_log(folder: Path, parts: Sequence[FileEntry], kind: RecordKind) -> None:
    """Write version 0 of a table whose files are the parts of a folder. Raises OutputError."""
    known = ":".join([kind, *(part["sha256"] for part in parts)])
    fields = [_field(one) for one in KINDS[kind].schema]
    metadata = {
        "id": str(uuid.uuid5(uuid.NAMESPACE_OID, known)),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [],
        "configuration": {},
    }
    actions: list[dict[str, object]] = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": metadata},
    ]
    log = folder / "_delta_log" / f"{0:020}.json"
    with output_errors(log):
        for part in parts:
            name = PurePosixPath(part["path"]).name
            rows = pq.read_metadata(folder / name).num_rows
            added = {
                "path": name,
                "partitionValues": {},
                "size": part["bytes"],
                "modificationTime": 0,
                "dataChange": True,
                "stats": json.dumps({"numRecords": rows}),
            }
            actions.append({"add": added})
        log.parent.mkdir(exist_ok=True)
        log.write_text("".join(f"{json.dumps(action)}\n" for action in actions))


def _field(field: pa.Field) -> dict[str, object]:
    return {"name": field.name, "type": _type(field.type), "nullable": True, "metadata": {}}


def _type(kind: pa.DataType) -> object:
    if pa.types.is_struct(kind):
        return {"type": "struct", "fields": [_field(one) for one in kind]}
    if pa.types.is_list(kind):
        return {"type": "array", "elementType": _type(kind.value_type), "containsNull": True}
    return _TYPES[kind]
