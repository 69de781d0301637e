"""Generated Examples of every shape, as protobuf objects, and how two of them are compared."""

from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from ingot.converters.recsys.monolith.contract import FEATURE_KINDS
from ingot.converters.recsys.monolith.record_index import Bad, Records, Rows
from ingot.converters.recsys.monolith.tables.arrow_to_examples import encode_batch
from ingot.converters.recsys.monolith.tables.column_plan import ColumnPlan
from ingot.converters.recsys.monolith.tables.rows_to_arrow import decode_batch
from ingot.converters.recsys.monolith.tables.schema import TableSchema, see_rows
from ingot.converters.recsys.monolith.wire.message_writer import example_records
from ingot.schemas.monolith.example_pb2 import (
    Example,
    Feature,
    NamedFeature,
    NamedRawFeature,
    RawFeature,
)
from ingot.schemas.monolith.line_id_pb2 import LineId

KINDS = [name for number, name in FEATURE_KINDS.items() if number]
ANY = (*KINDS, "unset")
UINT64 = st.one_of(st.integers(0, 300), st.integers(0, (1 << 64) - 1))
FID2 = st.integers(0, (1 << 63) - 1)
INT64 = st.one_of(st.integers(-3, 300), st.integers(-(1 << 63), (1 << 63) - 1))
INT32 = st.one_of(st.integers(-3, 300), st.integers(-(1 << 31), (1 << 31) - 1))
FLOAT = st.floats(width=32)
DOUBLE = st.floats()
BYTES = st.binary(max_size=200)
NAMES = st.sampled_from(["user", "item", "käse", "", "user:2", "__UID__", "f" * 130])

_VALUES = {"fid_v1": UINT64, "fid_v2": FID2, "float": FLOAT, "double": DOUBLE, "int64": INT64}


def values_of(kind: str) -> st.SearchStrategy[Any]:
    """The values that a kind takes."""
    return next((each for name, each in _VALUES.items() if kind.startswith(name)), BYTES)


def encode_records(
    batch: pa.RecordBatch, plan: ColumnPlan, first: int
) -> tuple[Records, list[Bad]]:
    """Rows of a table as Example messages."""
    rows, bad = encode_batch(batch, plan, first)
    return example_records(rows), bad


def decode_rows(rows: Rows, schema: TableSchema) -> pa.RecordBatch:
    """Rows as one record batch."""
    return decode_batch(rows, schema, see_rows(rows, schema.keys))


def unknown() -> st.SearchStrategy[bytes]:
    """Fields that no message has: of every wire type, groups included."""
    varint = st.integers(0, 127).map(lambda value: b"\xe0\x25" + bytes([value]))
    fixed64 = st.binary(min_size=8, max_size=8).map(lambda value: b"\xe1\x25" + value)
    text = st.binary(max_size=127).map(lambda value: b"\xe2\x25" + bytes([len(value)]) + value)
    fixed32 = st.binary(min_size=4, max_size=4).map(lambda value: b"\xe5\x25" + value)
    group = varint.map(lambda value: b"\xe3\x25" + value + b"\xe4\x25")
    fields = st.lists(st.one_of(varint, fixed64, text, fixed32, group), min_size=1, max_size=3)
    return fields.map(b"".join)


def sometimes(strategy: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Nothing four times out of five."""
    return st.integers(0, 4).flatmap(lambda die: strategy if die == 4 else st.just(b""))


@st.composite
def features(draw: st.DrawFn, kinds: tuple[str, ...] = ANY, strange: bool = True) -> Feature:
    """A Feature of any kind; with unknown fields inside at every level now and then."""
    more = sometimes(unknown()) if strange else st.just(b"")
    feature = Feature()
    kind = draw(st.sampled_from(kinds))
    if kind.endswith("_value"):
        setattr(feature, kind, draw(values_of(kind)))
    elif kind.endswith("_list"):
        part = getattr(feature, kind)
        part.SetInParent()
        part.value.extend(draw(st.lists(values_of(kind), max_size=4)))
        part.MergeFromString(draw(more))
    elif kind.endswith("_lists"):
        lists = getattr(feature, kind)
        lists.SetInParent()
        for values in draw(st.lists(st.lists(values_of(kind), max_size=3), max_size=3)):
            lists.list.add(value=values).MergeFromString(draw(more))
        lists.MergeFromString(draw(more))
    feature.MergeFromString(draw(more))
    return feature


@st.composite
def line_ids(draw: st.DrawFn) -> LineId:
    """A LineId with any of its fields, unknown ones, and text that is none."""
    line = LineId()
    for name in draw(st.sets(st.sampled_from(["uid", "item_id"]))):
        setattr(line, name, draw(UINT64))
    for name in draw(st.sets(st.sampled_from(["req_time", "chnid", "generate_time"]))):
        setattr(line, name, draw(INT64))
    for name in draw(st.sets(st.sampled_from(["emit_type", "rank"]))):
        setattr(line, name, draw(INT32))
    for name in draw(st.sets(st.sampled_from(TEXT_FIELDS))):
        setattr(line, name, draw(st.text(max_size=9)))
    for name in draw(st.sets(st.sampled_from(LIST_FIELDS))):
        getattr(line, name).extend(draw(st.lists(INT32, max_size=3)))
    if draw(st.booleans()):
        line.sample_rate = draw(FLOAT)
    if draw(st.booleans()):
        line.is_draw = draw(st.booleans())
    line.MergeFromString(draw(sometimes(unknown())))
    line.MergeFromString(draw(sometimes(st.just(b"\x2a\x03\xff\xfe\x41"))))  # req_id, no UTF-8
    return line


TEXT_FIELDS = ["req_id", "model_names", "device_type", "cid", "user_id", "data_source_name"]
LIST_FIELDS = ["actions", "pre_actions", "special_strategies"]


@st.composite
def examples(draw: st.DrawFn, strange: bool = True) -> Example:
    """An Example with anything in it.

    Args:
        draw: hypothesis's.
        strange: raw features, unknown fields and text that is none too.
    """
    example = Example()
    numbers = st.sampled_from([0, 0, 0, 1, 300, -1])
    for name in draw(st.lists(NAMES, max_size=6)):
        named = NamedFeature(name=name, id=draw(numbers), sorted_id=draw(numbers))
        named.feature.CopyFrom(draw(features(strange=strange)))
        named.MergeFromString(draw(sometimes(unknown())) if strange else b"")
        example.named_feature.append(named)
    if draw(st.booleans()):
        example.line_id.CopyFrom(draw(line_ids()))
    example.label.extend(draw(st.lists(FLOAT, max_size=3)))
    example.instance_weight = draw(st.sampled_from([0.0, -0.0, 1.0, 0.5]))
    example.data_source_key = draw(st.sampled_from([0, 0, 256, (1 << 32) - 256]))
    if strange:
        for name in draw(st.lists(NAMES, max_size=1)):
            raw = RawFeature(feature=draw(st.lists(features(), max_size=2)))
            example.named_raw_feature.append(NamedRawFeature(name=name, raw_feature=raw))
        example.MergeFromString(draw(sometimes(unknown())))
    return example


def meaning(message: bytes) -> tuple[bytes, list[bytes]]:
    """What an Example says, whatever the order of its features; NaNs are equal to themselves."""
    example = Example.FromString(message)
    named = sorted(one.SerializeToString() for one in example.named_feature)
    example.ClearField("named_feature")
    return example.SerializeToString(), named
