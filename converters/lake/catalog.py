"""What is known of one data set of a lake: the row of the catalog, and what its page shows.

Plain values that go through JSON: the lake's state keeps them between runs.

`catalog.parquet`: one row per data set of a lake, for programs. No samples, no times.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from ingot.converters.output.commit import output_errors
from ingot.converters.output.result_files import whole_file
from ingot.converters.rows import Json

Status = Literal[
    "converted", "nothing", "other", "waiting", "resting", "failed", "rejected", "gone"
]
STATUSES: Final[dict[Status, str]] = {
    "converted": "its records are written",
    "nothing": "it holds no text to train on, as its result says",
    "other": "another command of ingot reads it",
    "waiting": "its proposal waits for a person",
    "resting": "a budget of the model was used up before it had a proposal",
    "failed": "it could not be read or converted",
    "rejected": "a person has rejected its proposal",
    "gone": "its files were removed; its result is kept",
}
# Shown to people in place of the stored status, which stays as older lakes have it.
STATUS_WORDS: Final[dict[str, str]] = {
    **{status: status for status in STATUSES},
    "nothing": "no training text",
    "other": "other command",
    "resting": "budget exhausted",
    "gone": "removed",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """What was measured over all records of one result.

    Attributes:
        records: number of records.
        characters: characters of text in all of them.
        lengths: records by length: the key is the least number of characters of the bin, 0 or a
            power of two; bins without records are left out.
        languages: records by `meta.language`; "" where it is null.
        heard: records of a sample by the language that was recognized in them; "" = none was.
        within: records that repeat an earlier one of the same result.
        samples: a few records, redacted and cut for people.
    """

    records: int = 0
    characters: int = 0
    lengths: dict[int, int] = field(default_factory=dict)
    languages: dict[str, int] = field(default_factory=dict)
    heard: dict[str, int] = field(default_factory=dict)
    within: int = 0
    samples: tuple[dict[str, Json], ...] = ()

    @classmethod
    def from_json(cls, document: Mapping[str, Json]) -> "Figures":
        """What `asdict` and JSON made of it."""
        lengths = {int(least): count for least, count in document["lengths"].items()}
        return cls(**{**document, "lengths": lengths, "samples": tuple(document["samples"])})


@dataclass(frozen=True, kw_only=True, slots=True)
class Split:
    """One data set's part of one split: records written, repeats left out, tokens (None = none)."""

    name: str
    records: int
    duplicates: int
    tokens: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SetFacts:
    """One data set of a lake.

    Attributes:
        name: its name in the lake: file name of its mapping, folder of its result.
        place: its folder relative to the root, "." = the root itself.
        status: one of STATUSES; people are shown its STATUS_WORDS.
        why: why it is so, for people; redacted.
        hint: what to do about it, such as the command that reads it; "" = nothing.
        decision: `pt`, `sft`, `irrelevant`, `unmappable`; None before there is a proposal.
        mapper: `rules`, `llm`, `file`, `edited`; None before there is a proposal.
        model: the model that was asked, None = none was.
        confidence: of the proposal, 0..1.
        coverage: share of the sampled records without a hard error, 0..1; None = unknown.
        format: format of its files.
        files: number of files that are read.
        bytes: their bytes as stored.
        left_out: files beside them that are not read, with the reason (the first few).
        left_out_count: how many there are.
        rows: read, converted, rejected, filtered: read is the sum of the others.
        records: written, rejected, filtered, as in the result's manifest.
        rejects: rejected records by reason.
        tokens: tokens of the result, None = not tokenized.
        sequences: their sequences, None likewise.
        figures: measured over its records.
        across: records that repeat one of a data set before it (by name), and none of its own.
        overlaps: records whose text stands in another data set too, by the other's name.
        splits: what of it went into which split.
        spent: calls, chars_sent, tokens_in, tokens_out, cost (USD, None = price unknown) of asking.
        card: what a card beside the data says: title, license, languages, tasks; {} = none.
        mapping: the mapping document, executed or proposed; None = there is none.
        mapping_file: where the mapping lies, relative to the lake's folder or absolute.
        result: folder of the result, relative to the lake's folder; None = there is none.
        fingerprint: of its shape, see `ingot.agent.proposing.fingerprint`.
    """

    name: str
    place: str
    status: Status
    why: str = ""
    hint: str = ""
    decision: str | None = None
    mapper: str | None = None
    model: str | None = None
    confidence: float | None = None
    coverage: float | None = None
    format: str = ""
    files: int = 0
    bytes: int = 0
    left_out: tuple[dict[str, str], ...] = ()
    left_out_count: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    records: dict[str, int] = field(default_factory=dict)
    rejects: dict[str, int] = field(default_factory=dict)
    tokens: int | None = None
    sequences: int | None = None
    figures: Figures = Figures()
    across: int = 0
    overlaps: dict[str, int] = field(default_factory=dict)
    splits: tuple[Split, ...] = ()
    spent: dict[str, Json] = field(default_factory=dict)
    card: dict[str, Json] = field(default_factory=dict)
    mapping: dict[str, Json] | None = None
    mapping_file: str | None = None
    result: str | None = None
    fingerprint: str | None = None

    def to_json(self) -> dict[str, Json]:
        """Plain JSON types."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Json]) -> "SetFacts":
        """The inverse of `to_json`, also after JSON; unknown fields are left out."""
        known = {one.name for one in fields(cls)}
        kept = {name: value for name, value in document.items() if name in known}
        return cls(
            **{
                **kept,
                "left_out": tuple(kept.get("left_out", ())),
                "figures": Figures.from_json(kept["figures"]) if "figures" in kept else Figures(),
                "splits": tuple(Split(**one) for one in kept.get("splits", ())),
            }
        )

    def as_text(self) -> "SetFacts":
        """The same with texts that can be written: names of files in archives may be no text."""
        return SetFacts.from_json(encodable_value(self.to_json()))


def encodable_value(value: Json) -> Json:
    """A value whose texts can be written as UTF-8; what cannot is replaced by `?`."""
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

ColumnValue = Callable[[SetFacts], Any]


def _field_value(name: str) -> ColumnValue:
    return lambda one: getattr(one, name)


def _count_values(name: str, keys: Sequence[str]) -> ColumnValue:
    """Counts by name; null where nothing was counted."""
    return lambda one: {key: getattr(one, name).get(key, 0) for key in keys} if one.rows else None


def _pairs(counts: dict[Any, int]) -> list[tuple[Any, int]]:
    return sorted(counts.items())


def _card_value(name: str) -> ColumnValue:
    return lambda one: one.card.get(name)


# Name, type, what it holds, and where it is found.
_COLUMNS: Final[tuple[tuple[str, pa.DataType, str, ColumnValue], ...]] = (
    (
        "name",
        pa.string(),
        "name in the lake: of its mapping's file, its result's folder",
        _field_value("name"),
    ),
    (
        "place",
        pa.string(),
        "folder relative to the root; . = the root itself",
        _field_value("place"),
    ),
    ("status", pa.string(), ", ".join(STATUSES), _field_value("status")),
    ("why", pa.string(), "why it is so", _field_value("why")),
    ("hint", pa.string(), "what to do about it", _field_value("hint")),
    ("decision", pa.string(), "pt, sft, irrelevant, unmappable", _field_value("decision")),
    (
        "mapper",
        pa.string(),
        "who made the mapping: rules, llm, file, edited",
        _field_value("mapper"),
    ),
    ("model", pa.string(), "the model that was asked", _field_value("model")),
    ("confidence", pa.float64(), "of the proposal, 0..1", _field_value("confidence")),
    (
        "coverage",
        pa.float64(),
        "share of sampled records without a hard error",
        _field_value("coverage"),
    ),
    ("format", pa.string(), "format of its files", _field_value("format")),
    ("files", pa.int64(), "files that are read", _field_value("files")),
    ("bytes", pa.int64(), "their bytes as stored", _field_value("bytes")),
    (
        "left_out",
        _LEFT_OUT,
        "files beside them that are not read, the first",
        _field_value("left_out"),
    ),
    ("left_out_count", pa.int64(), "how many there are", _field_value("left_out_count")),
    ("rows", _struct(_ROWS), "read is the sum of the others", _count_values("rows", _ROWS)),
    ("records", _struct(_RECORDS), "of the result", _count_values("records", _RECORDS)),
    ("rejects", _COUNTS, "rejected records by reason", lambda one: _pairs(one.rejects)),
    ("tokens", pa.int64(), "tokens of the result, or of its corpus", _field_value("tokens")),
    ("sequences", pa.int64(), "their sequences", _field_value("sequences")),
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
        _field_value("across"),
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
        (f"card_{name}", pa.string(), "what a file beside the data says", _card_value(name))
        for name in _CARD
    ),
    ("card_languages", _TEXTS, "languages that it says", lambda one: one.card.get("languages", [])),
    ("card_tasks", _TEXTS, "tasks that it says", lambda one: one.card.get("tasks", [])),
    ("fingerprint", pa.string(), "SHA-256 of the shape of its rows", _field_value("fingerprint")),
    (
        "mapping_file",
        pa.string(),
        "relative to the lake's folder, or absolute",
        _field_value("mapping_file"),
    ),
    (
        "result",
        pa.string(),
        "folder of the result, relative to the lake's folder",
        _field_value("result"),
    ),
)

SCHEMA: Final = pa.schema(
    [
        pa.field(name, kind, metadata={"description": description})
        for name, kind, description, _ in _COLUMNS
    ]
)


def write_catalog(sets: Sequence[SetFacts], file: Path) -> None:
    """Write the catalog, data sets by name; the file appears whole."""
    ordered = sorted(sets, key=lambda one: one.name)
    columns = [pa.array([value(one) for one in ordered], kind) for _, kind, _, value in _COLUMNS]
    table = pa.Table.from_arrays(columns, schema=SCHEMA)
    with output_errors(file), whole_file(file) as stream:
        pq.write_table(table, stream, compression="zstd")
