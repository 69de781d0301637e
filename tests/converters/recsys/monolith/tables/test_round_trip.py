"""Examples to tables and back: equal up to the order of features."""

import io
from pathlib import Path

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingot.converters.recsys.monolith.convert.settings import Counts
from ingot.converters.recsys.monolith.record_index import Records, Rows, records_of_messages
from ingot.converters.recsys.monolith.tables.column_plan import plan_columns
from ingot.converters.recsys.monolith.tables.rows_to_arrow import (
    TableSink,
    decode_batches,
    open_table,
)
from ingot.converters.recsys.monolith.tables.schema import TableScan, TableSchema
from ingot.converters.recsys.monolith.wire.message_writer import example_records
from ingot.converters.recsys.monolith.wire.row_index import index_batches, index_examples
from ingot.schemas.monolith.example_pb2 import Example
from tests.converters.recsys.monolith.made import (
    ANY,
    decode_rows,
    encode_records,
    examples,
    meaning,
)


def _rows(given_examples: list[Example]) -> Rows:
    records = records_of_messages([one.SerializeToString() for one in given_examples])
    rows, bad = index_examples(records)
    assert not bad
    return rows


def _schema(*stretches: Rows) -> tuple[TableSchema, TableScan]:
    scan = TableScan()
    for rows in stretches:
        scan.add(rows)
    return scan.schema(), scan


def _back(batch: pa.RecordBatch) -> list[bytes]:
    batch.validate(full=True)
    records, bad = encode_records(batch, plan_columns(batch.schema, None), 0)
    assert not bad
    return _messages(records)


def _messages(records: Records) -> list[bytes]:
    return [records.message(at) for at in range(len(records))]


@pytest.mark.more
@settings(max_examples=40)
@given(st.lists(examples(), max_size=5))
def test_anything(given_examples: list[Example]) -> None:
    rows = _rows(given_examples)
    schema, _ = _schema(rows)
    found = _back(decode_rows(rows, schema))
    assert [meaning(one) for one in found] == [
        meaning(one.SerializeToString()) for one in given_examples
    ]


@pytest.mark.more
@settings(max_examples=40)
@given(st.lists(examples(), min_size=1, max_size=4))
def test_through_a_file(given_examples: list[Example]) -> None:
    stretches = [_rows([one]) for one in given_examples]
    schema, _ = _schema(*stretches)
    file = io.BytesIO()
    sink = TableSink(file, schema, Counts())
    for rows in stretches:
        sink.write(decode_rows(rows, schema))
    sink.close()
    with open_table(file, "a.parquet") as (arrow, batches):
        plan = plan_columns(arrow, None)
        found = [one for batch in batches for one in _messages(encode_records(batch, plan, 0)[0])]
    expected = [meaning(one.SerializeToString()) for one in given_examples]
    assert [meaning(one) for one in found] == expected


@settings(max_examples=40)
@given(st.lists(examples(strange=False), max_size=5))
def test_equal_bytes_where_the_order_is_kept(given_examples: list[Example]) -> None:
    for example in given_examples:
        example.line_id.DiscardUnknownFields()
        example.line_id.ClearField("req_id")
        if not example.line_id.ByteSize():
            example.ClearField("line_id")
    rows = _rows(given_examples)
    schema, scan = _schema(rows)
    expected = _messages(example_records(rows))
    found = _back(decode_rows(rows, schema))
    different = sum(one != other for one, other in zip(found, expected, strict=True))
    assert different <= scan.reordered


def test_how_rows_are_stretched_does_not_matter() -> None:
    many = [Example(label=[at]) for at in range(10)]
    for at, example in enumerate(many):
        named = example.named_feature.add(name="a" if at % 3 else "b")
        named.feature.int64_list.value.extend(range(at))
    rows = _rows(many)
    schema, _ = _schema(rows)
    again, _ = _schema(_rows(many[:4]), _rows(many[4:]))
    assert again.arrow.equals(schema.arrow, check_metadata=True)
    whole = decode_rows(rows, schema)
    parts = [decode_rows(_rows([one]), again) for one in many]
    assert pa.Table.from_batches(parts).combine_chunks().equals(pa.Table.from_batches([whole]))


def test_large_rows_are_taken_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    many = [Example() for _ in range(7)]
    for at, example in enumerate(many):
        example.named_feature.add(name="a").feature.bytes_list.value.append(bytes(100 * at))
    rows = _rows(many)
    schema, _ = _schema(rows)
    monkeypatch.setattr("ingot.converters.recsys.monolith.tables.schema.PART_BYTES", 350)
    batches = list(decode_batches(rows, schema))
    assert [batch.num_rows for batch in batches] == [3, 1, 1, 1, 1]
    found = [one for batch in batches for one in _back(batch)]
    assert found == [one.SerializeToString() for one in many]


def _golden(repository: Path) -> Rows:
    content = (repository / "tests/golden/monolith/example_batch.pb").read_bytes()
    [(rows, bad)] = index_batches(records_of_messages([content]))
    assert not bad
    return rows


def test_the_public_sample(repository: Path) -> None:
    rows = _golden(repository)
    schema, scan = _schema(rows)
    assert scan.reordered == 0
    file = io.BytesIO()
    sink = TableSink(file, schema, Counts())
    sink.write(decode_rows(rows, schema))
    sink.close()
    with open_table(file, "sample.parquet") as (_, batches):
        [batch] = batches
    assert (batch.num_rows, batch.num_columns) == (51, 137 + 7)
    assert schema.arrow.names[:7] == [
        "__REQ_TIME__",
        "__ITEM_ID__",
        "__ACTIONS__",
        "__GENERATE_TIME__",
        "__USER_ID__",
        "__LINE_ID_REST__",
        "__LABEL__",
    ]
    expected = [meaning(one) for one in _messages(example_records(rows))]
    assert [meaning(one) for one in _back(batch)] == expected


def test_others_read_the_sample(repository: Path, tmp_path: Path) -> None:
    rows = _golden(repository)
    schema, _ = _schema(rows)
    sink = TableSink(tmp_path / "sample.parquet", schema, Counts())
    sink.write(decode_rows(rows, schema))
    sink.close()
    frame = pd.read_parquet(tmp_path / "sample.parquet")
    assert frame["__REQ_TIME__"][0] == 1617194181
    assert frame["f_user_id"][0].dtype == np.uint64
    with (tmp_path / "sample.parquet").open("rb") as file:
        hub = datasets.Dataset(pq.read_table(file))
    assert hub[0]["f_user_id"] == frame["f_user_id"][0].tolist()
    assert hub[0]["f_goods_source_id:unset"] is True


@pytest.mark.parametrize("kind", [kind for kind in ANY if kind != "unset"])
def test_a_kind_alone(kind: str) -> None:
    example = Example()
    getattr(example.named_feature.add(name="x").feature, kind.removesuffix("_value"), None)
    feature = example.named_feature[0].feature
    if kind.endswith("_value"):
        setattr(feature, kind, b"ab" if "bytes" in kind else 3)
    elif kind.endswith("_list"):
        getattr(feature, kind).value.extend([b"ab", b""] if "bytes" in kind else [3, 4])
    else:
        lists = getattr(feature, kind).list
        for values in ([b"ab", b""], [], [b"c"]):
            lists.add(value=values if "bytes" in kind else [len(one) for one in values])
    rows = _rows([example, Example()])
    schema, _ = _schema(rows)
    assert schema.arrow.names == ["x"]
    assert _back(decode_rows(rows, schema)) == [example.SerializeToString(), b""]
