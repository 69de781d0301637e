"""A Delta table by the words of its protocol, with what the package does not write.

Renamed columns, and deletion vectors (https://github.com/delta-io/delta/blob/master/PROTOCOL.md).
"""

import json
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_PHYSICAL = "delta.columnMapping.physicalName"


def renamed(name: str, kind: Any, physical: str, number: int) -> dict[str, Any]:
    """A field of the schema that has another name in the files."""
    known = {"delta.columnMapping.id": number, _PHYSICAL: physical}
    return {"name": name, "type": kind, "nullable": True, "metadata": known}


def begin_table(folder: Path, fields: Sequence[dict[str, Any]], partitions: Sequence[str]) -> None:
    """Version 0: a table with these fields and without rows."""
    (folder / "_delta_log").mkdir(parents=True)
    features = ["columnMapping", "deletionVectors"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
    _commit(
        folder,
        {"protocol": {**protocol, "readerFeatures": features, "writerFeatures": features}},
        {
            "metaData": {
                "id": str(uuid4()),
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": list(fields)}),
                "partitionColumns": list(partitions),
                "configuration": {
                    "delta.columnMapping.mode": "name",
                    "delta.columnMapping.maxColumnId": "100",
                    "delta.enableDeletionVectors": "true",
                },
                "createdTime": 0,
            }
        },
    )


def add_file(
    folder: Path,
    name: str,
    table: pa.Table,
    partition: dict[str, str | None],
    deleted: Sequence[int] = (),
    **how: Any,
) -> None:
    """One more version, with one more file, rows of which are deleted."""
    pq.write_table(table, folder / name, **how)
    _commit(folder, _add_action(folder, name, partition, deleted))


def mark_deleted(
    folder: Path, name: str, partition: dict[str, str | None], deleted: Sequence[int]
) -> None:
    """One more version, in which these rows of a file are deleted; the file stays as it is."""
    removed = {"path": quote(name), "deletionTimestamp": 0, "dataChange": True}
    _commit(folder, {"remove": removed}, _add_action(folder, name, partition, deleted))


def _add_action(
    folder: Path, name: str, partition: dict[str, str | None], deleted: Sequence[int]
) -> dict[str, Any]:
    action = {
        "path": quote(name),
        "partitionValues": partition,
        "size": (folder / name).stat().st_size,
        "modificationTime": 0,
        "dataChange": True,
        "stats": json.dumps({"numRecords": pq.read_metadata(folder / name).num_rows}),
    }
    if deleted:
        action["deletionVector"] = _write_vector(folder, deleted)
    return {"add": action}


def _commit(folder: Path, *actions: dict[str, Any]) -> None:
    version = len(list((folder / "_delta_log").glob("*.json")))
    lines = "".join(json.dumps(action) + "\n" for action in actions)
    (folder / f"_delta_log/{version:020}.json").write_text(lines)


def _write_vector(folder: Path, deleted: Sequence[int]) -> dict[str, Any]:
    """A file with one bitmap (rows below 65,536) in the portable form of Roaring."""
    values = sorted(deleted)
    bitmap = struct.pack("<IIHHI", 12346, 1, 0, len(values) - 1, 16)
    bitmap += struct.pack(f"<{len(values)}H", *values)
    data = struct.pack("<iqi", 1681511377, 1, 0) + bitmap
    name = uuid4()
    stored = b"\x01" + struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    (folder / f"deletion_vector_{name}.bin").write_bytes(stored)
    return {
        "storageType": "u",
        "pathOrInlineDv": _z85(name.bytes),
        "offset": 1,
        "sizeInBytes": len(data),
        "cardinality": len(values),
    }


def _z85(data: bytes) -> str:
    digits = []
    for start in range(0, len(data), 4):
        number = int.from_bytes(data[start : start + 4], "big")
        digits += [_Z85[number // 85**place % 85] for place in (4, 3, 2, 1, 0)]
    return "".join(digits)
