"""Facts of one data set of a lake, and `catalog.parquet`: a row of them per data set."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from ingot.converters.convert.result import RECORDS_FOLDER
from ingot.converters.errors import ConversionError
from ingot.converters.json_yaml import OMIT, decode, encode
from ingot.converters.output.difference import FinishedResult
from ingot.converters.output.files import hash_file, output_errors, whole_file
from ingot.converters.output.object_store import fetch_file
from ingot.converters.records.readers import read_batches
from ingot.converters.records.writers import part_order
from ingot.converters.rows import EMPTY_TEXT, Json, MappingDocument, Safe

Status = Literal[
    "converted",
    "no_training_text",
    "other_command",
    "waiting",
    "postponed",
    "failed",
    "rejected",
    "removed",
]
STATUSES: Final[dict[Status, str]] = {
    "converted": "its records are written",
    "no_training_text": "it holds no text to train on; its `report.md` gives the reason",
    "other_command": "another command of ingot reads it",
    "waiting": "its proposal waits for a person",
    "postponed": (
        "the data set has no proposal yet, because a budget is used up or the model did not answer"
    ),
    "failed": "it could not be read or converted",
    "rejected": "a person has rejected its proposal",
    "removed": "its files were removed; its result is kept",
}
# By the status that lakes of version 0.1 hold.
_FORMER_STATUSES: Final[dict[str, Status]] = {
    "nothing": "no_training_text",
    "other": "other_command",
    "resting": "postponed",
    "gone": "removed",
}


def status_text(status: Status) -> str:
    """Write a status for people."""
    return status.replace("_", " ")


@dataclass(frozen=True, kw_only=True, slots=True)
class SetFigures:
    """What was measured over all records of one result."""

    records: int = 0
    characters: int = 0
    # Records by the least number of characters of their bin, 0 or a power of two.
    lengths: dict[int, int] = field(default_factory=dict)
    languages: dict[str, int] = field(default_factory=dict)
    heard: dict[str, int] = field(default_factory=dict)  # by recognized language, "" = none
    within: int = 0
    samples: tuple[dict[str, Json], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Split:
    """One data set's part of one split: records written, repeats left out, tokens (None = none)."""

    name: str
    records: int
    duplicates: int
    tokens: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SetFacts:
    """One data set of a lake, as `_COLUMNS` describes it; texts for people are redacted."""

    name: str
    place: Safe
    status: Status
    why: Safe = EMPTY_TEXT
    hint: Safe = EMPTY_TEXT
    decision: str | None = None
    mapper: str | None = None
    model: str | None = None
    confidence: float | None = None
    coverage: float | None = None
    format: str = ""
    files: int = 0
    bytes: int = 0
    left_out: tuple[dict[str, Safe], ...] = ()
    left_out_count: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    records: dict[str, int] = field(default_factory=dict)
    rejects: dict[str, int] = field(default_factory=dict)
    tokens: int | None = None
    sequences: int | None = None
    figures: SetFigures = SetFigures()
    across: int = 0
    overlaps: dict[str, int] = field(default_factory=dict)
    splits: tuple[Split, ...] = ()
    spent: dict[str, int | float | None] = field(default_factory=dict)
    card: dict[str, object] = field(default_factory=dict)
    mapping: MappingDocument | None = None
    mapping_file: str | None = None
    result: str | None = None
    fingerprint: str | None = None
    approved: Annotated[bool, OMIT] = False  # by a person; the next run converts it

    @classmethod
    def read(cls, document: dict[str, Any]) -> "SetFacts":
        """Read stored facts, also those of a lake of version 0.1."""
        status = str(document.get("status"))
        return decode(cls, {**document, "status": _FORMER_STATUSES.get(status, status)})

    def as_text(self) -> "SetFacts":
        """Return the facts with texts that can be written: names in archives may be invalid."""
        return decode(SetFacts, encodable_value(encode(self)))


def read_result(location: Path | str, result: FinishedResult) -> Iterator[pa.RecordBatch]:
    """Stream the records of a result as `read_batches` does, from its folder or URL.

    A part in a store is copied here for its turn. Raises ConversionError, SourceError.
    """
    records, written = 0, result.manifest["records"]["written"]
    with tempfile.TemporaryDirectory(prefix="ingot-") as folder:
        for part in _local_parts(location, result, Path(folder)):
            for batch in read_batches(part):
                records += batch.num_rows
                yield batch
    if records != written:
        problem = f"holds {records} records, its manifest says {written}"
        raise ConversionError(str(location), problem, "convert the data set again")


def _local_parts(location: Path | str, result: FinishedResult, folder: Path) -> Iterator[Path]:
    if isinstance(location, Path):
        yield location / RECORDS_FOLDER
        return
    listed = {one["path"]: one["sha256"] for one in result.manifest["files"]}
    parts = [name for name in listed if name.startswith(f"{RECORDS_FOLDER}/")]
    for name in sorted(parts, key=lambda one: part_order(Path(one).name)):
        fetch_file(url := f"{location}/{name}", local := folder / f"part{Path(name).suffix}")
        if hash_file(local) != listed[name]:
            raise ConversionError(url, "is not what the manifest lists", "delete it and run again")
        yield local


def encodable_value(value: Json) -> Json:
    """Return a value whose texts can be written as UTF-8; what cannot is replaced by `?`."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {encodable_value(key): encodable_value(one) for key, one in value.items()}
    return type(value)(map(encodable_value, value)) if isinstance(value, list | tuple) else value


_COUNTS: Final = pa.map_(pa.string(), pa.int64())
_ROWS: Final = ("read", "converted", "rejected", "filtered")
_RECORDS: Final = ("written", "rejected", "filtered", "duplicates", "ragged")
_SPENT: Final = {
    "calls": pa.int64(),
    "chars_sent": pa.int64(),
    "tokens_in": pa.int64(),
    "tokens_out": pa.int64(),
    "cost": pa.float64(),
}
_CARD: Final = ("file", "title", "license")


def _struct(names: Sequence[str]) -> pa.DataType:
    return pa.struct([(name, pa.int64()) for name in names])


_SPLITS: Final = pa.list_(
    pa.struct([("name", pa.string()), *_struct(("records", "duplicates", "tokens"))])
)
_LENGTHS: Final = pa.map_(pa.int64(), pa.int64())
_LEFT_OUT: Final = pa.list_(pa.struct([("name", pa.string()), ("why", pa.string())]))
_TEXTS: Final = pa.list_(pa.string())

ColumnValue = Callable[[SetFacts], Any]


def _count_values(name: str, keys: Sequence[str]) -> ColumnValue:
    """Counts by name; null where nothing was counted."""
    return lambda one: {key: getattr(one, name).get(key, 0) for key in keys} if one.rows else None


def _card_value(name: str) -> ColumnValue:
    return lambda one: one.card.get(name)


# Name, type, and what it holds.
_COLUMNS: Final[tuple[tuple[str, pa.DataType, str], ...]] = (
    ("name", pa.string(), "name in the lake: of its mapping's file, its result's folder"),
    ("place", pa.string(), "folder relative to the root; . = the root itself"),
    ("status", pa.string(), ", ".join(STATUSES)),
    ("why", pa.string(), "why it is so"),
    ("hint", pa.string(), "what to do about it"),
    ("decision", pa.string(), "pt, sft, irrelevant, unmappable"),
    ("mapper", pa.string(), "who made the mapping: rules, llm, file, edited"),
    ("model", pa.string(), "the model that was asked"),
    ("confidence", pa.float64(), "of the proposal, 0..1"),
    ("coverage", pa.float64(), "share of sampled records without a hard error"),
    ("format", pa.string(), "format of its files"),
    ("files", pa.int64(), "files that are read"),
    ("bytes", pa.int64(), "their bytes as stored"),
    ("left_out", _LEFT_OUT, "the first files beside them that are not read"),
    ("left_out_count", pa.int64(), "how many there are"),
    ("rows", _struct(_ROWS), "read is the sum of the others"),
    ("records", _struct(_RECORDS), "of the result"),
    ("rejects", _COUNTS, "rejected records by reason"),
    ("tokens", pa.int64(), "tokens of the result, or of its corpus"),
    ("sequences", pa.int64(), "their sequences"),
    ("characters", pa.int64(), "characters of text in its records"),
    (
        "lengths",
        _LENGTHS,
        "records by least number of characters of their bin: 0 or a power of two",
    ),
    ("languages", _COUNTS, "records by meta.language, empty = null"),
    ("heard", _COUNTS, "sampled records by the language detected in their text, empty = none"),
    ("duplicates_within", pa.int64(), "records that duplicate an earlier record of the data set"),
    (
        "duplicates_across",
        pa.int64(),
        "other records that duplicate a record of a data set with an earlier name",
    ),
    ("overlaps", _COUNTS, "records shared with another data set, by its name; the ten with most"),
    ("splits", _SPLITS, "its share of the corpus"),
    (
        "spent",
        pa.struct(list(_SPENT.items())),
        "spent on a model; cost in USD, null = price unknown; null = no model was asked",
    ),
    *((f"card_{name}", pa.string(), "from the card beside the data, unverified") for name in _CARD),
    ("card_languages", _TEXTS, "languages that the card names"),
    ("card_tasks", _TEXTS, "tasks that the card names"),
    ("fingerprint", pa.string(), "SHA-256 of the shape of its rows"),
    ("mapping_file", pa.string(), "relative to the lake's folder, or absolute"),
    ("result", pa.string(), "folder of the result, relative to the lake's folder, or its URL"),
)
# Where a column is found that is not a field of its name.
_VALUES: Final[dict[str, ColumnValue]] = {
    "rows": _count_values("rows", _ROWS),
    "records": _count_values("records", _RECORDS),
    **{
        name: attrgetter(f"figures.{name}")
        for name in ("characters", "lengths", "languages", "heard")
    },
    "duplicates_within": attrgetter("figures.within"),
    "duplicates_across": attrgetter("across"),
    "splits": lambda one: list(map(encode, one.splits)),
    "spent": lambda one: {key: one.spent.get(key) for key in _SPENT} if one.spent else None,
    **{f"card_{name}": _card_value(name) for name in _CARD},
    "card_languages": lambda one: one.card.get("languages", []),
    "card_tasks": lambda one: one.card.get("tasks", []),
}

SCHEMA: Final = pa.schema(
    [
        pa.field(name, kind, metadata={"description": description})
        for name, kind, description in _COLUMNS
    ]
)


def write_catalog(sets: Sequence[SetFacts], file: Path) -> None:
    """Write the catalog, data sets by name; the file appears whole."""
    ordered = sorted(sets, key=lambda one: one.name)
    columns = []
    for name, kind, _ in _COLUMNS:
        values = list(map(_VALUES.get(name, attrgetter(name)), ordered))
        if pa.types.is_map(kind):
            values = [sorted(counts.items()) for counts in values]
        columns.append(pa.array(values, kind))
    table = pa.Table.from_arrays(columns, schema=SCHEMA)
    with output_errors(file), whole_file(file) as stream:
        pq.write_table(table, stream, compression="zstd")
