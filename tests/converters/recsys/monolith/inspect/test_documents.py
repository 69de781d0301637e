"""Documents of rows hold all that the rows say; lines show it."""

import base64
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingot.converters.recsys.monolith.inspect.documents import (
    feature_document,
    row_cells,
    row_documents,
    row_heading,
)
from ingot.converters.recsys.monolith.record_index import records_of_messages
from ingot.converters.recsys.monolith.wire.row_index import index_batches, index_examples
from ingot.schemas.monolith.example_pb2 import Example, ExampleBatch, Feature
from ingot.schemas.monolith.line_id_pb2 import LineId
from tests.converters.recsys.monolith import made

GOLDEN = Path(__file__).parents[4] / "golden" / "monolith"


def documents_of(*messages: Example) -> list[dict[str, Any]]:
    rows, bad = index_examples(records_of_messages([one.SerializeToString() for one in messages]))
    assert bad == []
    found = list(row_documents(rows))
    return json.loads(json.dumps(found, allow_nan=False))


def bits(value: float) -> bytes:
    """The value of a double; all NaNs are one."""
    return b"NaN" if math.isnan(value) else np.float64(value).tobytes()


def read_back(kind: str, value: Any) -> Any:
    """What stands in a document as protobuf holds it."""
    if isinstance(value, list):
        return [read_back(kind, one) for one in value]
    if kind.startswith("bytes"):
        return value.encode() if isinstance(value, str) else base64.b64decode(value["base64"])
    if kind.startswith("double"):
        return bits(float(value))
    return bits(np.float32(value)) if kind.startswith("float") else value


def held(message: Feature) -> tuple[str, Any]:
    """The kind of a feature and its values."""
    kind = message.WhichOneof("type") or "unset"
    if kind == "unset":
        return kind, None
    value = getattr(message, kind)
    value = [one.value for one in value.list] if kind.endswith("_lists") else value
    value = value.value if kind.endswith("_list") else value

    def plain(one: Any) -> Any:
        if isinstance(one, int | bytes):
            return one
        return bits(one) if isinstance(one, float) else [plain(each) for each in one]

    return kind, plain(value)


def told(document: dict[str, Any]) -> tuple[str, Any]:
    kind = document["kind"]
    return kind, None if kind == "unset" else read_back(kind, document["value"])


SPECIAL = ("__LINE_ID__", "__LABEL__", "instance_weight")


@settings(max_examples=60)
@given(made.examples())
def test_everything_is_there(example: Example) -> None:
    (found,) = documents_of(example)
    named = [one for one in found["features"] if one["kind"] != "raw"]
    assert [one["name"] for one in named] == [one.name for one in example.named_feature]
    assert [told(one) for one in named] == [held(one.feature) for one in example.named_feature]
    numbers = [(one.get("id", 0), one.get("sorted_id", 0)) for one in named]
    assert numbers == [(one.id, one.sorted_id) for one in example.named_feature]
    raw = [[told(each) for each in one["feature"]] for one in found["features"] if "feature" in one]
    wanted = [one.raw_feature.feature for one in example.named_raw_feature]
    assert raw == [list(map(held, each)) for each in wanted]
    assert list(map(bits, map(float, found["label"]))) == [
        bits(float(str(np.float32(one)))) for one in example.label
    ]
    assert found["data_source_key"] == example.data_source_key
    assert (found["line_id"] is not None) == example.HasField("line_id")


@settings(max_examples=60)
@given(made.line_ids())
def test_line_ids(line: LineId) -> None:
    example = Example(line_id=line)
    (found,) = documents_of(example)
    shown = dict(found["line_id"])
    assert ("unknown" in shown) == (_known_size(line) != line.ByteSize())
    shown.pop("unknown", None)
    fields = {field.name: value for field, value in line.ListFields()}
    assert shown.keys() == fields.keys()
    for name, value in fields.items():
        if isinstance(value, bytes):
            assert base64.b64decode(shown[name]["base64"]) == value
        elif isinstance(value, float):
            assert bits(np.float32(shown[name])) == bits(value)
        else:
            assert shown[name] == (value if isinstance(value, int | str) else list(value))


def _known_size(line: LineId) -> int:
    copy = LineId.FromString(line.SerializeToString())
    copy.DiscardUnknownFields()
    return copy.ByteSize()


def test_unknown_fields_by_number() -> None:
    varint, text = b"\xe0\x25\x07", b"\xe2\x25\x02hi"
    number, group = b"\xe1\x25" + bytes([1] + [0] * 7), b"\xe3\x25" + varint + b"\xe4\x25"
    example = Example(line_id=LineId(uid=1))
    named = example.named_feature.add(name="a")
    named.feature.MergeFromString(varint + text)
    named.MergeFromString(number)
    example.line_id.MergeFromString(b"\x5a\x02\xff\xfe" + varint)
    example.MergeFromString(group + group)
    (found,) = documents_of(example)
    assert found["unknown"] == {"604": [{"604": [7]}, {"604": [7]}]}
    assert found["line_id"]["unknown"] == {"11": [{"base64": "//4="}], "604": [7]}
    (one,) = found["features"]
    assert one == {
        "name": "a",
        "kind": "unset",
        "unknown": {"604": [7, "hi"]},
        "unknown_beside": {"604": [1]},
    }
    shown = {name: text for name, _, text in row_cells(found)}
    assert shown["a"] == 'unknown {604: 7 "hi"}, unknown {604: 1}'
    assert shown["unknown"] == "{604: {604: 7} {604: 7}}"
    assert shown["LineId"] == "uid 1, unknown {11: 2 bytes 0xfffe, 604: 7}"


def test_fids_have_slot_and_signature() -> None:
    v1 = Feature(fid_v1_list={"value": [(1023 << 54) | 5]})
    assert feature_document(v1.SerializeToString())["fid"] == ["1023:5"]
    v2 = Feature(fid_v2_lists={"list": [{"value": [(32767 << 48) | 6]}, {}]})
    assert feature_document(v2.SerializeToString())["fid"] == [["32767:6"], []]


@pytest.mark.parametrize(
    ("given_as", "shown"),
    [
        ({"float_list": {"value": [0.1, float("nan")]}}, "0.1 NaN"),
        ({"float_list": {}}, "empty"),
        ({"double_list": {"value": [0.1, -math.inf]}}, "0.1 -Infinity"),
        ({"int64_list": {"value": range(9)}}, "0 1 2 3 4 5 6 7 ... 9 values"),
        ({"fid_v2_list": {"value": [(3 << 48) | 4]}}, "3:4"),
        ({"bytes_list": {"value": [b"a \x1b[31mb", b"\xff"]}}, '"a \\u001b[31mb" 1 bytes 0xff'),
        ({"bytes_value": "日".encode() * 70}, '"' + "日" * 60 + '" ... 70 characters'),
        ({"bytes_value": b"\xff" * 30}, "30 bytes 0x" + "ff" * 20 + "..."),
        ({"int64_lists": {"list": [{"value": [1, 2]}, {}]}}, "[1 2] []"),
        ({"int64_lists": {"list": [{"value": [1]}] * 5}}, "[1] [1] [1] [1] ... 5 lists"),
        ({"float_lists": {}}, "no list"),
        ({"float_value": 2.5}, "2.5"),
    ],
)
def test_values_as_lines(given_as: dict[str, Any], shown: str) -> None:
    example = Example()
    example.named_feature.add(name="it", feature=Feature(**given_as), sorted_id=7)
    (found,) = documents_of(example)
    (line,) = (cell for cell in row_cells(found) if cell[0] == "it")
    assert line == ("it", next(iter(given_as)), f"{shown}, sorted_id 7")


def test_rows_as_lines() -> None:
    example = Example(label=[1, 0.5], instance_weight=2, data_source_key=256)
    example.line_id.MergeFrom(
        LineId(uid=1, req_time=1_617_194_181_000, actions=[1, 2], sample_rate=0.1, is_draw=True)
    )
    example.named_feature.add(name="x").feature.SetInParent()
    raw = example.named_raw_feature.add(name="r").raw_feature
    raw.feature.add(int64_value=1)
    raw.feature.add()
    (found,) = documents_of(example)
    assert row_heading(found) == "row 0, record 0, offset 0"
    assert list(row_cells(found)) == [
        (
            "LineId",
            "",
            "uid 1, req_time 1617194181000 (2021-03-31 12:36:21 UTC), actions [1 2], "
            "sample_rate 0.1, is_draw True",
        ),
        ("__LABEL__", "", "1.0 0.5"),
        ("instance_weight", "", "2.0"),
        ("data_source_key", "", "256"),
        ("r", "raw", "(int64_value) 1, (unset) unset"),
        ("1 unset", "", ""),
    ]


def test_public_sample() -> None:
    batch = (GOLDEN / "example_batch.pb").read_bytes()
    found = [
        document
        for rows, _ in index_batches(records_of_messages([batch]))
        for document in row_documents(rows)
    ]
    lists = {one.name: one.feature for one in ExampleBatch.FromString(batch).named_feature_list}
    assert [one["row_in_batch"] for one in found] == list(range(51))
    for row, document in enumerate(found):
        shown = {one["name"]: one for one in document["features"]}
        assert shown.keys() == lists.keys() - set(SPECIAL)
        for name, one in shown.items():
            assert told(one) == held(lists[name][row])


def test_only_some_features() -> None:
    example = Example()
    for name in ("a", "b", "a"):
        example.named_feature.add(name=name)
    rows, _ = index_examples(records_of_messages([example.SerializeToString()]))
    (found,) = row_documents(rows, 5, {"a", "c"})
    assert (found["row"], [one["name"] for one in found["features"]]) == (5, ["a", "a"])


@given(st.binary(max_size=40))
def test_no_bytes_are_lost(value: bytes) -> None:
    shown = feature_document(Feature(bytes_value=value).SerializeToString())["value"]
    assert read_back("bytes_value", shown) == value
