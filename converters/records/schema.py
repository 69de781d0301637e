"""The two kinds of unified records: their Arrow schemas, and dicts to columns and to JSON lines."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from ingot.converters.errors import ConversionError
from ingot.converters.rows import Json

Record = dict[str, Json]
RecordKind = Literal["pt", "sft"]
Lengths = npt.NDArray[np.int64]
Measure = Callable[[pa.Array], pa.Array]

RECORD_KEY: Final = b"ingot.record"  # key-value metadata of a Parquet part: "pt" or "sft"

META_TYPE: Final = pa.struct(
    [
        ("source", pa.string()),
        ("language", pa.string()),
        ("timestamp", pa.string()),
        ("token_count", pa.int64()),
        ("quality_score", pa.float64()),
        ("original_id", pa.string()),
    ]
)
MESSAGE_TYPE: Final = pa.struct(
    [("role", pa.string()), ("content", pa.string()), ("loss_mask", pa.bool_())]
)
MESSAGES_TYPE: Final = pa.list_(pa.field("element", MESSAGE_TYPE))

PT_SCHEMA: Final = pa.schema(
    [("text", pa.string()), ("meta", META_TYPE)], metadata={RECORD_KEY: b"pt"}
)
SFT_SCHEMA: Final = pa.schema(
    [
        ("messages", MESSAGES_TYPE),
        ("system", pa.string()),
        ("tools", pa.string()),
        ("meta", META_TYPE),
    ],
    metadata={RECORD_KEY: b"sft"},
)


def _to_array(values: Sequence[Json], kind: pa.DataType) -> pa.Array:
    """Values as an array, from flat columns: many times faster than `pa.array` of dicts."""
    if pa.types.is_list(kind):
        offsets = list(accumulate(map(len, values), initial=0))
        flat = [one for inner in values for one in inner]
        inner = _to_array(flat, kind.value_type)
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), inner, type=kind)
    if pa.types.is_struct(kind):
        named = zip(kind.names, kind, strict=True)
        columns = [_to_array([value[name] for value in values], f.type) for name, f in named]
        return pa.StructArray.from_arrays(columns, fields=list(kind))
    return pa.array(values, kind)


def _order_sft(record: Record) -> Record:
    keys = MESSAGE_TYPE.names
    ordered: Record = {
        "messages": [{key: message[key] for key in keys} for message in record["messages"]],
        "system": record["system"],
    }
    if record.get("tools") is not None:
        ordered["tools"] = record["tools"]
    ordered["meta"] = _order_meta(record["meta"])
    return ordered


def _order_meta(meta: Record) -> Record:
    ordered = {key: meta[key] for key in META_TYPE.names}
    if ordered["quality_score"] is not None:
        ordered["quality_score"] = float(ordered["quality_score"])  # 1 is a double in Parquet too
    return ordered


def _utf8_bytes(text: str) -> int:
    return len(text) if str.isascii(text) else len(text.encode())


def _sft_text_bytes(record: Record) -> int:
    fixed = _utf8_bytes(record["system"] or "") + _utf8_bytes(record.get("tools") or "")
    return fixed + sum([_utf8_bytes(message["content"]) for message in record["messages"]])


def _sft_lengths(batch: pa.RecordBatch, measure: Measure) -> Lengths:
    messages = batch.column("messages")
    contents = _text_lengths(pc.struct_field(messages.flatten(), "content"), measure)
    before = np.concatenate(([0], np.cumsum(contents)))
    ends = np.cumsum(pc.list_value_length(messages).to_numpy())
    around = [_text_lengths(batch.column(name), measure) for name in ("system", "tools")]
    lengths: Lengths = np.diff(before[ends], prepend=0) + around[0] + around[1]
    return lengths


def _text_lengths(texts: pa.Array, measure: Measure) -> Lengths:
    if texts.null_count == len(texts):
        return np.zeros(len(texts), np.int64)
    lengths: Lengths = pc.fill_null(measure(texts), 0).to_numpy().astype(np.int64)
    return lengths


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """What there is to know about one kind of record."""

    schema: pa.Schema
    ordered: Callable[[Record], Record]  # as a JSONL line has it, keys in their fixed order
    text_bytes: Callable[[Record], int]  # of the text in a record, as UTF-8
    lengths: Callable[[pa.RecordBatch, Measure], Lengths]  # of the text in each of a batch
    repeats: tuple[str, ...]  # of few different values: the only ones worth a Parquet dictionary
    long: tuple[str, ...]  # of long text: statistics would only copy it into the footer

    @property
    def brief(self) -> list[str]:
        """Return the leaf columns (Parquet paths) that are not `long`."""
        leaves = (leaf for f in self.schema for leaf in _leaf_paths(f.name, f.type))
        return [leaf for leaf in leaves if leaf not in self.long]


_META_REPEATS = ("meta.source", "meta.language")
_MESSAGE = "messages.list.element"

KINDS: Final[dict[RecordKind, Kind]] = {
    "pt": Kind(
        schema=PT_SCHEMA,
        ordered=lambda record: {"text": record["text"], "meta": _order_meta(record["meta"])},
        text_bytes=lambda record: _utf8_bytes(record["text"]),
        lengths=lambda batch, measure: _text_lengths(batch.column("text"), measure),
        repeats=_META_REPEATS,
        long=("text",),
    ),
    "sft": Kind(
        schema=SFT_SCHEMA,
        ordered=_order_sft,
        text_bytes=_sft_text_bytes,
        lengths=_sft_lengths,
        repeats=(f"{_MESSAGE}.role", "system", "tools", *_META_REPEATS),
        long=(f"{_MESSAGE}.content", "system", "tools"),
    ),
}


def _leaf_paths(path: str, kind: pa.DataType) -> list[str]:
    if pa.types.is_list(kind):
        return _leaf_paths(f"{path}.list.element", kind.value_type)
    if pa.types.is_struct(kind):
        return [leaf for f in kind for leaf in _leaf_paths(f"{path}.{f.name}", f.type)]
    return [path]


@contextlib.contextmanager
def schema_errors(kind: RecordKind, where: str) -> Iterator[None]:
    """Turn what goes wrong when a record does not fit its schema into a `ConversionError`."""
    try:
        yield
    except (pa.ArrowException, KeyError, TypeError, ValueError, OverflowError) as error:
        problem = f"a {kind} record does not fit its schema: {type(error).__name__}: {error}"
        hint = "docs/tokens.md shows both kinds of records"
        raise ConversionError(where, problem, hint) from error


def to_batch(records: Sequence[Record], kind: RecordKind, *, where: str) -> pa.RecordBatch:
    """Return records (dicts) as one `RecordBatch` of the kind's schema.

    `where` is named in errors.
    """
    schema = KINDS[kind].schema
    with schema_errors(kind, where):
        named = zip(schema.names, schema.types, strict=True)
        columns = [
            _to_array([r[name] if name != "tools" else r.get(name) for r in records], of_type)
            for name, of_type in named
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)


def to_records(batch: pa.RecordBatch) -> list[Record]:
    """Return a batch of records as dicts (`tools` only if it is not null)."""
    records: list[Record] = batch.to_pylist()
    for record in records:
        if "tools" in record and record["tools"] is None:
            del record["tools"]
    return records


def join_batches(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return batches of one schema, at least one, as one batch."""
    if len(batches) == 1:
        return batches[0]
    columns = [
        pa.concat_arrays([batch.column(place) for batch in batches])
        for place in range(batches[0].num_columns)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batches[0].schema)


def json_line(value: Json) -> bytes:
    """Return a JSON value as one compact UTF-8 line, escaped no further than JSON asks."""
    return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE)
