"""What a reviewed file and a table's columns may say, and what is wrong with others."""

from pathlib import Path

import pyarrow as pa
import pytest

from ingot.converters.errors import ParametersError
from ingot.converters.recsys.monolith.tables.column_plan import FeatureColumn, plan_columns
from ingot.converters.recsys.monolith.tables.table_file import (
    FeatureRule,
    load_table_file,
    parse_table_file,
)

SCHEMA = pa.schema(
    [
        ("user_id", pa.int64()),
        ("items", pa.list_(pa.string())),
        ("ts", pa.timestamp("ms")),
        ("price", pa.float64()),
        ("nested", pa.list_(pa.list_(pa.list_(pa.int64())))),
        ("parts", pa.struct([("a", pa.int64())])),
    ]
)


def _problems(text: str, schema: pa.Schema = SCHEMA) -> list[str]:
    with pytest.raises(ParametersError) as caught:
        plan_columns(schema, parse_table_file(text, "t.yaml"))
    assert str(caught.value).startswith("t.yaml: ")
    return [str(one) for one in caught.value.problems]


def test_a_file_and_what_is_not_said_in_it() -> None:
    found = parse_table_file(
        "features: {user: {column: u}, x: }\nline_id: {uid: u}\nlabel: l", "t.yaml"
    )
    assert found.features == {"user": FeatureRule(column="u"), "x": FeatureRule(column="x")}
    assert (found.line_id, found.label, found.others) == ({"uid": "u"}, ("l",), None)
    assert parse_table_file("{}", "t.yaml").features == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[1]", "/: schema: expected names and values, got list"),
        ("features: [a]", "/features: schema:"),
        ("feature: {}", "Additional properties"),
        ("features: {5: {}}", 'a text: quote it: "5"'),
        ("features: {a: {null: unset}}", 'a text: quote it: "null"'),
        ("features: {a: {slot: 5.0}}", "a whole number without a point"),
        ("features: {a: {slot: 40000}}", "/features/a/slot: schema"),
        ("features: {a: {kind: fid_list}}", "/features/a/kind: schema"),
        ('features: {"a\\uD800": {}}', "whole characters"),
        ("features: {a: {slot: 1024, version: v1}}", "expected 0..1023, as fids are v1, got 1024"),
        ("features: {a: {slot: 1024, kind: fid_v1_lists}}", "expected 0..1023"),
        ("features: {a: {kind: fid_v1_list, version: v2}}", "expected v1, as kind is fid_v1_list"),
        ("features: {a/b: {kind: float_list, slot: 2}}", "/features/a~1b/slot: contradiction"),
        ("features: {a: {hash: xxh64}}", "expected a slot for the fids that are made"),
        ("line_id: {name: x}", "/line_id: schema"),
        ("others: keep", "/others: schema"),
        ("a: &x 1\nb: *x", "unreadable"),
    ],
)
def test_files_that_are_wrong(text: str, said: str) -> None:
    with pytest.raises(ParametersError) as caught:
        parse_table_file(text, "t.yaml")
    assert said in "\n".join(map(str, caught.value.problems))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ParametersError, match="No such file"):
        load_table_file(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"label: \xe4")
    with pytest.raises(ParametersError, match="not UTF-8"):
        load_table_file(tmp_path / "latin.yaml")
    (tmp_path / "large.yaml").write_bytes(b" " * (5 << 20))
    with pytest.raises(ParametersError, match="larger than 4 MiB"):
        load_table_file(tmp_path / "large.yaml")
    (tmp_path / "good.yaml").write_text("label: x")
    assert load_table_file(tmp_path / "good.yaml").label == ("x",)


def test_all_problems_at_once() -> None:
    said = "features: {u: {column: usr_id, slot: 1}, items: {slot: 1}}\nlabel: ts\nothers: drop"
    assert _problems(said) == [
        "/features/u/column: unresolved: expected a column of the table, got usr_id; "
        "nearest: user_id",
        "/features/items: type: expected whole numbers for fid_v2_list, or hash: xxh64, "
        "got items: list<item: string>",
        "/label/0: type: expected numbers, or one column of lists of them (cast it to int64 first, "
        "of the unit that the model expects), got ts: timestamp[ms]",
    ]


def test_columns_that_are_not_named() -> None:
    assert _problems("features: {items: {}, price: {}}") == [
        "/others: unnamed: expected every column named, or others: drop or infer, "
        "got user_id, ts, nested, parts"
    ]


def test_types_that_become_nothing() -> None:
    with pytest.raises(ParametersError) as caught:
        plan_columns(SCHEMA, None)
    assert [str(one) for one in caught.value.problems] == [
        "/: type: expected a type that becomes a feature (cast it to int64 first, of the unit that "
        "the model expects), got ts: timestamp[ms]",
        "/: type: expected a type that becomes a feature, "
        "got nested: list<item: list<item: list<item: int64>>>",
        "/: type: expected a type that becomes a feature (make its fields columns of their own "
        "first), got parts: struct<a: int64>",
    ]


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("features: {items: {kind: fid_v2_list}}", "or a slot and hash: xxh64"),
        ("features: {items: {kind: int64_list}}", "whole numbers for int64_list"),
        ("features: {items: {kind: float_list}}", "numbers for float_list"),
        ("features: {items: {kind: bytes_lists}}", "lists of lists for bytes_lists"),
        ("features: {items: {kind: bytes_value}}", "plain values for bytes_value"),
        ("features: {price: {kind: bytes_list}}", "texts or byte strings for bytes_list"),
        ("features: {price: {slot: 1, hash: xxh64}}", "whole numbers or texts"),
        ("line_id: {uid: price}", "/line_id/uid: type: expected whole numbers"),
        ("line_id: {actions: price}", "whole numbers, or lists of them"),
        ("line_id: {cid: user_id}", "/line_id/cid: type: expected text"),
        ("line_id: {sample_rate: items}", "/line_id/sample_rate: type: expected numbers"),
        ("instance_weight: items", "/instance_weight: type: expected numbers"),
        ("data_source_key: price", "/data_source_key: type: expected whole numbers"),
        ("sort_id: price", "/sort_id: type: expected byte strings"),
        ("label: [price, none]", "/label/1: unresolved"),
    ],
)
def test_columns_that_do_not_fit(said: str, problem: str) -> None:
    assert problem in "\n".join(_problems(f"{said}\nothers: drop"))


def test_names_that_stand_twice() -> None:
    schema = pa.schema([("a", pa.int64()), ("a", pa.int64())])
    with pytest.raises(ParametersError, match="columns of different names, got a"):
        plan_columns(schema, None)
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    assert "got b" in _problems("features: {b: {column: a}}\nothers: infer", schema)[0]


def test_a_file_goes_before_what_was_written_there() -> None:
    metadata = {"monolith.kind": "int64_list", "monolith.name": "was", "monolith.id": "-5"}
    schema = pa.schema([pa.field("a", pa.int64(), metadata=metadata), ("b", pa.int64())])
    a = FeatureColumn(at=0, label="a", name=b"was", kind=5, ident=-5, own=True)
    b = FeatureColumn(at=1, label="b", name=b"b", kind=5)
    assert plan_columns(schema, None).features == (a, b)
    named = plan_columns(
        schema, parse_table_file("features: {new: {column: a, slot: 3}}\nothers: drop", "t")
    )
    assert [(one.name, one.slot) for one in named.features] == [(b"new", 3)]
    assert named.dropped == ("b",)


@pytest.mark.parametrize(
    "metadata",
    [
        {"monolith.kind": "fid_list"},
        {"monolith.kind": "int64_list", "monolith.id": "4294967296"},
        {"monolith.kind": "int64_list", "monolith.sorted_id": "1_0"},
        {"monolith.kind": "int64_list", "monolith.name": b"\xff"},
        {"monolith.kind": "int64_list", "monolith.null": "zero"},
    ],
)
def test_metadata_that_others_changed(metadata: dict[str, str]) -> None:
    schema = pa.schema([pa.field("a", pa.int64(), metadata=metadata)])
    with pytest.raises(ParametersError, match="metadata as ingot writes it"):
        plan_columns(schema, None)
