"""Tables that others made: what becomes of their columns, and cells that do not fit."""

import io
from decimal import Decimal
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingot.converters.recsys.monolith import fid
from ingot.converters.recsys.monolith.record_index import Bad
from ingot.converters.recsys.monolith.tables.column_plan import plan_columns
from ingot.converters.recsys.monolith.tables.rows_to_arrow import open_table
from ingot.converters.recsys.monolith.tables.table_file import parse_table_file
from ingot.schemas.monolith.example_pb2 import Example
from tests.converters.recsys.monolith.made import encode_records


def _convert(
    table: pa.RecordBatch, said: str | None = None, version: fid.Version = "v2", first: int = 0
) -> tuple[list[Example], list[Bad]]:
    plan = plan_columns(
        table.schema, None if said is None else parse_table_file(said, "table.yaml"), version
    )
    records, bad = encode_records(table, plan, first)
    return [Example.FromString(records.message(at)) for at in range(len(records))], bad


def _batch(**columns: Any) -> pa.RecordBatch:
    arrays = [
        one if isinstance(one, pa.Array | pa.ExtensionArray) else pa.array(one)
        for one in columns.values()
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _features(example: Example) -> dict[str, tuple[str, Any]]:
    found = {}
    for named in example.named_feature:
        kind = named.feature.WhichOneof("type")
        part = getattr(named.feature, kind) if kind else None
        if kind is None or kind.endswith("_value"):
            found[named.name] = (kind or "unset", part)
        elif kind.endswith("_lists"):
            found[named.name] = (kind, [list(one.value) for one in part.list])
        else:
            found[named.name] = (kind, list(part.value))
    return found


def test_kinds_follow_from_types() -> None:
    table = _batch(
        fids=pa.array([[1, (1 << 63) - 1]], pa.large_list(pa.uint64())),
        one_fid=pa.array([5], pa.uint64()),
        spark=pa.array([Decimal(6)], pa.decimal128(20, 0)),
        whole=pa.array([-3], pa.int16()),
        flag=pa.array([True]),
        half=pa.array([0.5], pa.float16()),
        single=pa.array([[0.5]], pa.list_(pa.float32(), 1)),
        double=pa.array([[0.1]]),
        text=pa.array(["ä"], pa.large_string()),
        word=pa.array(["b"]).dictionary_encode(),
        raw=pa.array([[b"\xff"]]),
        fixed=pa.array([b"ab"], pa.binary(2)),
        nested=pa.array([[[1, 2], []]], pa.list_(pa.list_(pa.int32()))),
        words=pa.array([[["a"], ["b", "c"]]]),
        nothing=pa.nulls(1),
        view=pa.array(["v"], pa.string_view()),
    )
    [example], bad = _convert(table)
    assert not bad
    assert _features(example) == {
        "fids": ("fid_v2_list", [1, (1 << 63) - 1]),
        "one_fid": ("fid_v2_list", [5]),
        "spark": ("fid_v2_list", [6]),
        "whole": ("int64_list", [-3]),
        "flag": ("int64_list", [1]),
        "half": ("float_list", [0.5]),
        "single": ("float_list", [0.5]),
        "double": ("double_list", [0.1]),
        "text": ("bytes_list", ["ä".encode()]),
        "word": ("bytes_list", [b"b"]),
        "raw": ("bytes_list", [b"\xff"]),
        "fixed": ("bytes_list", [b"ab"]),
        "nested": ("int64_lists", [[1, 2], []]),
        "words": ("bytes_lists", [[b"a"], [b"b", b"c"]]),
        "view": ("bytes_list", [b"v"]),
    }


def test_null_is_an_absent_feature() -> None:
    table = _batch(a=[None, 1], b=[[1.5], None], c=[None, "x"], d=[[[1]], None])
    found, bad = _convert(table)
    assert not bad
    assert [sorted(_features(one)) for one in found] == [["b", "d"], ["a", "c"]]


def test_fids_of_version_1_are_taken_from_their_bits() -> None:
    [example], _ = _convert(_batch(a=pa.array([(1 << 64) - 1], pa.uint64())), None, "v1")
    assert _features(example) == {"a": ("fid_v1_list", [(1 << 64) - 1])}
    [example], _ = _convert(_batch(a=[[-1, 5]]), "features: {a: {kind: fid_v1_list}}")
    assert _features(example) == {"a": ("fid_v1_list", [(1 << 64) - 1, 5])}


REVIEWED = """
features:
  user: {column: user_id, slot: 1}
  items: {slot: 2, hash: xxh64, version: v1, id: 7, sorted_id: 9}
  price: {kind: float_list, "null": unset}
  history: {slot: 3, hash: xxh64}
line_id: {uid: user_id, req_time: ts, sample_rate: sr, actions: action, user_id: name}
label: [click, like]
instance_weight: w
data_source_key: key
sort_id: name
others: drop
"""


def test_a_reviewed_file() -> None:
    table = _batch(
        user_id=[7, 8],
        items=[["a", "b"], None],
        price=[None, 2],
        history=[[[1], [2, 3]], []],
        ts=[1700000000, 1700000001],
        sr=[0.5, None],
        action=[1, None],
        name=["n", None],
        click=[1, 0],
        like=[0.5, 1.0],
        w=[None, 3.0],
        key=[None, 256],
        other=["x", "y"],
    )
    plan = plan_columns(table.schema, parse_table_file(REVIEWED, "t.yaml"))
    assert plan.dropped == ("other",)
    records, bad = encode_records(table, plan, 0)
    assert not bad
    first, second = (Example.FromString(records.message(at)) for at in range(2))
    assert _features(first) == {
        "user": ("fid_v2_list", [fid.pack_v2(1, 7)]),
        "items": ("fid_v1_list", fid.from_values(2, ["a", "b"], "v1", "xxh64").tolist()),
        "price": ("unset", None),
        "history": (
            "fid_v2_lists",
            [fid.from_values(3, one, "v2", "xxh64").tolist() for one in ([1], [2, 3])],
        ),
    }
    assert [(one.id, one.sorted_id) for one in first.named_feature] == [
        (0, 0),
        (7, 9),
        (0, 0),
        (0, 0),
    ]
    assert _features(second)["price"] == ("float_list", [2.0])
    assert _features(second)["history"] == ("fid_v2_lists", [])
    assert "items" not in _features(second)
    line = first.line_id
    assert (line.uid, line.req_time, line.sample_rate) == (7, 1700000000, 0.5)
    assert (list(line.actions), line.user_id) == ([1], "n")
    assert not second.line_id.HasField("sample_rate")
    assert list(first.label) == [1, 0.5]
    assert (first.instance_weight, second.instance_weight) == (0, 3)
    assert (first.data_source_key, second.data_source_key) == (0, 256)
    assert [records.sort_id(at) for at in range(2)] == [b"n", b""]
    assert records.source.tolist() == [0, 256]


BAD_CELLS = [
    (
        pa.array([1, 1 << 63], pa.uint64()),
        None,
        "9223372036854775808 does not fit fid_v2_list (a fid of version 1?)",
    ),
    (pa.array([[1], [2, 1 << 63]], pa.list_(pa.uint64())), None, "9223372036854775808 does not"),
    (pa.array([[1], [None]]), None, "null inside a list does not fit int64_list"),
    (pa.array([[[1]], [None]]), None, "null inside a list does not fit int64_lists"),
    (pa.array([[[1]], [[2], [None]]]), None, "null inside a list does not fit int64_lists"),
    (pa.array([["a"], [None]]), None, "null inside a list does not fit bytes_list"),
    (pa.array([1.0, 1e39]), "kind: float_list", "1e+39 does not fit float_list"),
    (pa.array([1.0, 1e39]), "kind: float_value", "1e+39 does not fit float_value"),
    (pa.array([1, 1 << 63], pa.uint64()), "kind: int64_value", "9223372036854775808 does not fit"),
    (pa.array([1, 1 << 48]), "slot: 5", "281474976710656 does not fit fid_v2_list"),
    (pa.array([1, -1]), "slot: 5", "-1 does not fit fid_v2_list"),
    (pa.array([[1], [3, -1]]), "kind: fid_v2_list", "-1 does not fit fid_v2_list"),
    (pa.array([Decimal(1), Decimal(1 << 64)], pa.decimal128(20, 0)), "version: v1", "Decimal('18"),
]


@pytest.mark.parametrize(("column", "rule", "said"), BAD_CELLS)
def test_cells_that_do_not_fit(column: pa.Array, rule: str | None, said: str) -> None:
    table = _batch(a=column, b=[1, 2])
    text = None if rule is None else f"features: {{a: {{{rule}}}}}\nothers: infer"
    found, bad = _convert(table, text, first=40)
    assert len(found) == 1
    assert sorted(_features(found[0])) == ["a", "b"]
    [one] = bad
    assert (one.record, one.row, one.reason, one.offset, one.bytes) == (41, None, "cell", 0, 0)
    assert one.detail.startswith("column a: ")
    assert said in one.detail


@pytest.mark.parametrize(
    ("name", "column", "said"),
    [
        ("__RANK__", pa.array([1, 1 << 31]), "2147483648 does not fit rank of a LineId"),
        ("__IS_DRAW__", pa.array([1, 2]), "2 does not fit is_draw"),
        ("__SAMPLE_RATE__", pa.array([1, 1e39]), "1e+39 does not fit sample_rate"),
        ("__ACTIONS__", pa.array([[1], [None]]), "[None] does not fit actions"),
        ("__UID__", pa.array([Decimal(1), Decimal(-(1 << 64))], pa.decimal128(38, 0)), "uid"),
        ("__LABEL__", pa.array([[1.0], [None]]), "null, or too large a number, in __LABEL__"),
        ("__LABEL__", pa.array([1.0, 1e300]), "too large a number"),
        ("instance_weight", pa.array([1.0, 1e300]), "does not fit instance_weight"),
        ("__DATA_SOURCE_KEY__", pa.array([1, -1]), "-1 does not fit data_source_key"),
        ("__LINE_ID_REST__", pa.array([b"", b"\x18"]), "its bytes cannot be read as"),
        ("__REST__", pa.array([b"", b"\xff"]), "its bytes cannot be read as"),
    ],
)
def test_other_cells_that_do_not_fit(name: str, column: pa.Array, said: str) -> None:
    found, [bad] = _convert(_batch(**{name: column}))
    assert len(found) == 1
    assert bad.detail.startswith(f"column {name}: ")
    assert said in bad.detail


def test_text_that_is_no_utf8() -> None:
    raw = pa.array([b"a", b"\xff"])
    text = pa.Array.from_buffers(pa.string(), 2, raw.buffers())
    found, [bad] = _convert(_batch(__REQ_ID__=text))
    assert [one.line_id.req_id for one in found] == ["a"]
    assert bad.detail == "column __REQ_ID__: text that is not UTF-8 does not fit req_id of a LineId"


def test_labels_of_which_some_are_null() -> None:
    table = _batch(x=[1, None, None], y=[0, 1, None])
    found, [bad] = _convert(table, "label: [x, y]")
    assert [list(one.label) for one in found] == [[1, 0], []]
    assert (bad.record, bad.detail) == (1, "column x: null, where other labels are given")


def test_slices_and_nulls_with_values_behind_them() -> None:
    values = pa.array([1, 2, 3, 4, 5, 6])
    mask = pa.array([False, True, False, False])
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 4, 4, 6], pa.int32()), values, mask=mask)
    found, bad = _convert(_batch(a=lists).slice(1))
    assert not bad
    assert [_features(one).get("a") for one in found] == [
        None,
        ("int64_list", []),
        ("int64_list", [5, 6]),
    ]


def test_a_table_of_pandas() -> None:
    frame = pd.DataFrame(
        {
            "user": np.array([1, 2], np.uint64),
            "items": [[3, 4], []],
            "city": pd.Categorical(["x", "y"]),
            "price": [0.5, None],
        }
    )
    file = io.BytesIO()
    frame.to_parquet(file)
    with open_table(file, "frame.parquet") as (schema, batches):
        plan = plan_columns(schema, None)
        records, bad = encode_records(next(batches), plan, 0)
    assert not bad
    assert [_features(Example.FromString(records.message(at))) for at in range(2)] == [
        {
            "user": ("fid_v2_list", [1]),
            "items": ("int64_list", [3, 4]),
            "city": ("bytes_list", [b"x"]),
            "price": ("double_list", [0.5]),
        },
        {
            "user": ("fid_v2_list", [2]),
            "items": ("int64_list", []),
            "city": ("bytes_list", [b"y"]),
        },
    ]


def test_a_table_of_datasets() -> None:
    rows = {"user": [1, 2], "text": ["a", None], "scores": [[0.5], [1.0, 2.0]]}
    features = datasets.Features(
        user=datasets.Value("uint64"),
        text=datasets.Value("large_string"),
        scores=datasets.Sequence(datasets.Value("float32")),
    )
    file = io.BytesIO()
    datasets.Dataset.from_dict(rows, features=features).to_parquet(file)
    with open_table(file, "set.parquet") as (schema, batches):
        records, bad = encode_records(next(batches), plan_columns(schema, None), 0)
    assert not bad
    assert _features(Example.FromString(records.message(1))) == {
        "user": ("fid_v2_list", [2]),
        "scores": ("float_list", [1.0, 2.0]),
    }


def test_a_table_of_spark() -> None:
    """As Spark writes it: lists named `array` and `element`, unsigned numbers as decimals."""
    element = pa.field("element", pa.decimal128(20, 0))
    table = pa.table({"fids": pa.array([[Decimal((1 << 63) - 1)], None], pa.list_(element))})
    file = io.BytesIO()
    pq.write_table(table, file, use_compliant_nested_type=False, store_schema=False)
    with open_table(file, "spark.parquet") as (schema, batches):
        records, bad = encode_records(next(batches), plan_columns(schema, None), 0)
    assert not bad
    assert _features(Example.FromString(records.message(0))) == {
        "fids": ("fid_v2_list", [(1 << 63) - 1])
    }
    assert records.message(1) == b""


@pytest.mark.parametrize("most", [0, 1 << 20])
def test_columns_that_are_alike(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(
        "ingot.converters.recsys.monolith.tables.arrow_to_examples._GROUP_BYTES", most
    )
    table = _batch(
        a=pa.array(["x", "y", None]).dictionary_encode(),
        n=pa.array([1, 2, 3]),
        b=pa.array(["p", None, "q"], pa.string()),
        m=pa.array([[4], [5], [None]]),
        c=pa.array([[4], [5], []]),
    )
    found, [bad] = _convert(table)
    assert (bad.record, bad.detail) == (
        2,
        "column m: null inside a list does not fit int64_list",
    )
    assert [list(_features(one)) for one in found] == [["a", "n", "b", "m", "c"], list("anmc")]
    assert _features(found[0])["b"] == ("bytes_list", [b"p"])
    assert _features(found[1])["a"] == ("bytes_list", [b"y"])
    assert _features(found[1])["c"] == ("int64_list", [5])
