"""`catalog.parquet`: one row per data set of a lake, for programs. No samples, no times.

Every column says in its metadata (`description`) what it holds. Equal facts give equal bytes.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from ingot.converters.commit import writing
from ingot.converters.lake.facts import STATUSES, SetFacts
from ingot.converters.whole_files import whole_file

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
    pa.struct(
        [
            ("name", pa.string()),
            ("records", pa.int64()),
            ("duplicates", pa.int64()),
            ("tokens", pa.int64()),
        ]
    )
)
_LENGTHS: Final = pa.map_(pa.int64(), pa.int64())
_LEFT_OUT: Final = pa.list_(pa.struct([("name", pa.string()), ("why", pa.string())]))
_TEXTS: Final = pa.list_(pa.string())

Value = Callable[[SetFacts], Any]


def _own(name: str) -> Value:
    return lambda one: getattr(one, name)


def _counted(name: str, keys: Sequence[str]) -> Value:
    """Counts by name; null where nothing was counted."""
    return lambda one: {key: getattr(one, name).get(key, 0) for key in keys} if one.rows else None


def _pairs(counts: dict[Any, int]) -> list[tuple[Any, int]]:
    return sorted(counts.items())


def _said(name: str) -> Value:
    return lambda one: one.card.get(name)


# Name, type, what it holds, and where it is found.
_COLUMNS: Final[tuple[tuple[str, pa.DataType, str, Value], ...]] = (
    (
        "name",
        pa.string(),
        "name in the lake: of its mapping's file, its result's folder",
        _own("name"),
    ),
    ("place", pa.string(), "folder relative to the root; . = the root itself", _own("place")),
    ("status", pa.string(), ", ".join(STATUSES), _own("status")),
    ("why", pa.string(), "why it is so", _own("why")),
    ("hint", pa.string(), "what to do about it", _own("hint")),
    ("decision", pa.string(), "pt, sft, irrelevant, unmappable", _own("decision")),
    ("mapper", pa.string(), "who made the mapping: rules, llm, file, edited", _own("mapper")),
    ("model", pa.string(), "the model that was asked", _own("model")),
    ("confidence", pa.float64(), "of the proposal, 0..1", _own("confidence")),
    ("coverage", pa.float64(), "share of sampled records without a hard error", _own("coverage")),
    ("format", pa.string(), "format of its files", _own("format")),
    ("files", pa.int64(), "files that are read", _own("files")),
    ("bytes", pa.int64(), "their bytes as stored", _own("bytes")),
    ("left_out", _LEFT_OUT, "files beside them that are not read, the first", _own("left_out")),
    ("left_out_count", pa.int64(), "how many there are", _own("left_out_count")),
    ("rows", _struct(_ROWS), "read is the sum of the others", _counted("rows", _ROWS)),
    ("records", _struct(_RECORDS), "of the result", _counted("records", _RECORDS)),
    ("rejects", _COUNTS, "rejected records by reason", lambda one: _pairs(one.rejects)),
    ("tokens", pa.int64(), "tokens of the result, or of its corpus", _own("tokens")),
    ("sequences", pa.int64(), "their sequences", _own("sequences")),
    (
        "characters",
        pa.int64(),
        "characters of text in its records",
        lambda one: one.figures.characters,
    ),
    (
        "lengths",
        _LENGTHS,
        "records by least number of characters of their bin: 0 or a power of two",
        lambda one: _pairs(one.figures.lengths),
    ),
    (
        "languages",
        _COUNTS,
        "records by meta.language, empty = null",
        lambda one: _pairs(one.figures.languages),
    ),
    (
        "heard",
        _COUNTS,
        "records of a sample by the language recognized in them, empty = none was",
        lambda one: _pairs(one.figures.heard),
    ),
    (
        "duplicates_within",
        pa.int64(),
        "records that repeat an earlier one of the data set",
        lambda one: one.figures.within,
    ),
    (
        "duplicates_across",
        pa.int64(),
        "records that repeat one of a data set before it by name, and none of its own",
        _own("across"),
    ),
    (
        "overlaps",
        _COUNTS,
        "records whose text stands in another data set too, by its name; the ten with most",
        lambda one: _pairs(one.overlaps),
    ),
    (
        "splits",
        _SPLITS,
        "what of it went into the corpus",
        lambda one: [
            {"name": s.name, "records": s.records, "duplicates": s.duplicates, "tokens": s.tokens}
            for s in one.splits
        ],
    ),
    (
        "spent",
        pa.struct(list(_SPENT.items())),
        "what asking a model took; cost in USD, null = price unknown; null = none was asked",
        lambda one: {key: one.spent.get(key) for key in _SPENT} if one.spent else None,
    ),
    *(
        (f"card_{name}", pa.string(), "what a file beside the data says", _said(name))
        for name in _CARD
    ),
    ("card_languages", _TEXTS, "languages that it says", lambda one: one.card.get("languages", [])),
    ("card_tasks", _TEXTS, "tasks that it says", lambda one: one.card.get("tasks", [])),
    ("fingerprint", pa.string(), "SHA-256 of the shape of its rows", _own("fingerprint")),
    (
        "mapping_file",
        pa.string(),
        "relative to the lake's folder, or absolute",
        _own("mapping_file"),
    ),
    ("result", pa.string(), "folder of the result, relative to the lake's folder", _own("result")),
)

SCHEMA: Final = pa.schema(
    [
        pa.field(name, kind, metadata={"description": description})
        for name, kind, description, _ in _COLUMNS
    ]
)


def write(sets: Sequence[SetFacts], file: Path) -> None:
    """Write the catalog, data sets by name; the file appears whole.

    Raises:
        OutputError: it cannot be written.
    """
    ordered = sorted(sets, key=lambda one: one.name)
    columns = [pa.array([value(one) for one in ordered], kind) for _, kind, _, value in _COLUMNS]
    table = pa.Table.from_arrays(columns, schema=SCHEMA)
    with writing(file), whole_file(file) as stream:
        pq.write_table(table, stream, compression="zstd")
