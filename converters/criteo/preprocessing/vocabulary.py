"""The vocabulary of a column: which value has which id, and how often it was seen."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ingot.converters.commit import MANIFEST
from ingot.converters.criteo.contract import (
    FIRST_ID,
    KEYS,
    METADATA_KEY,
    RARE_ID,
    vocabulary_path,
)
from ingot.converters.errors import SourceError

SCHEMA: Final = pa.schema(
    [
        pa.field("value", pa.uint32(), nullable=False),
        pa.field("id", pa.int32(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
    ]
)
_HINT: Final = "give the folder of an earlier run as it was written"


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """A saved vocabulary.

    Attributes:
        values: uint32[n], in first-seen order.
        ids: int32[n].
        counts: int64[n].
        next_id: of the next new value.
    """

    values: NDArray[np.uint32]
    ids: NDArray[np.int32]
    counts: NDArray[np.int64]
    next_id: int

    @classmethod
    def empty(cls) -> "Vocabulary":
        """Of a first run."""
        return cls(
            values=np.empty(0, np.uint32),
            ids=np.empty(0, np.int32),
            counts=np.empty(0, np.int64),
            next_id=FIRST_ID,
        )


def load(folder: Path, key: str) -> Vocabulary:
    """The vocabulary of a column in the folder of a run.

    Raises:
        SourceError: there is none, or it is damaged.
    """
    path = vocabulary_path(folder, key)
    try:
        with pq.ParquetFile(path) as file:
            table = file.read()
            told = json.loads((file.metadata.metadata or {}).get(METADATA_KEY, b"null"))
        if not isinstance(told, dict) or told.get("column") != key:
            raise ValueError(f"its metadata are not those of {key}")
        next_id = int(told["next_id"])
        values, ids, counts = (_column(table, field) for field in SCHEMA)
    except FileNotFoundError as error:
        raise SourceError(str(path), "there is no such vocabulary", _HINT) from error
    except (OSError, pa.ArrowException, KeyError, TypeError, ValueError) as error:
        raise SourceError(str(path), f"is no vocabulary of ingot: {error}", _HINT) from error
    found = Vocabulary(values=values, ids=ids, counts=counts, next_id=next_id)
    _check(path, found)
    return found


def _column(table: pa.Table, field: pa.Field) -> NDArray[Any]:
    column = table[field.name]
    if column.type != field.type or column.null_count:
        raise ValueError(f"the column {field.name} is not {field.type}")
    values: NDArray[Any] = column.to_numpy()
    return values


def _check(path: Path, found: Vocabulary) -> None:
    own = found.ids[found.ids != RARE_ID]
    least, most = own.min(initial=FIRST_ID), own.max(initial=FIRST_ID - 1)
    once = len(np.unique(found.values)) == len(found.values)
    whole = len(own) == found.next_id - FIRST_ID == len(np.unique(own))
    if least < FIRST_ID or most >= found.next_id or not whole or not once:
        raise SourceError(str(path), "is damaged: ids are missing, or stand in it twice", _HINT)


def digest(folder: Path) -> str:
    """SHA-256 over the vocabularies of a folder, each held to the folder's manifest if it has one.

    Raises:
        SourceError: one cannot be read, or is not what the run wrote.
    """
    whole, listed = hashlib.sha256(), _listed(folder)
    for key in KEYS:
        path = vocabulary_path(folder, key)
        try:
            with path.open("rb") as file:
                found = hashlib.file_digest(file, "sha256")
        except OSError as error:
            raise SourceError(str(path), f"cannot be read: {error.strerror}", _HINT) from error
        if listed and listed.get(path.relative_to(folder).as_posix()) != found.hexdigest():
            raise SourceError(str(path), "was changed since the run that wrote it", _HINT)
        whole.update(found.digest())
    return whole.hexdigest()


def _listed(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file that the folder's manifest lists; empty without a manifest."""
    try:
        files = json.loads((folder / MANIFEST).read_bytes())["files"]
        return {one["path"]: one["sha256"] for one in files}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
