"""What features hold, against protobuf's objects."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.converters.recsys.monolith.contract import FEATURE_KINDS
from ingot.converters.recsys.monolith.features import Features, read_features
from ingot.converters.recsys.monolith.record_index import records_of_messages
from ingot.converters.recsys.monolith.wire.row_index import index_batches, index_examples
from ingot.schemas.monolith.example_pb2 import Example, ExampleBatch, Feature, NamedFeature
from tests.converters.recsys.monolith.made import examples, features


def _of(contents: list[bytes]) -> Features:
    """Of one row with these features."""
    example = b"".join(
        b"\x0a" + _size(len(named)) + named
        for named in (b"\x12" + _size(len(content)) + content for content in contents)
    )
    rows, bad = index_examples(records_of_messages([example]))
    assert not bad
    return read_features(rows)


def _size(size: int) -> bytes:
    return bytes([size]) if size < 128 else bytes([size & 0x7F | 0x80]) + _size(size >> 7)


def _payload(feature: Feature) -> tuple[str, bytes, int]:
    """Kind, payload and count, by protobuf."""
    kind = feature.WhichOneof("type")
    if kind is None:
        return "unset", b"", 0
    value: Any = getattr(feature, kind)
    if kind.endswith("_value"):
        content = feature.SerializeToString()
        return kind, value if kind == "bytes_value" else content[1:], 1
    content = value.SerializeToString()
    if kind.endswith("_lists"):
        return kind, content, len(value.list)
    if kind != "bytes_list" and content:
        head = 2
        while content[head - 1] & 0x80:
            head += 1
        content = content[head:]
    return kind, content, len(value.value)


@given(st.lists(features(), min_size=1, max_size=5))
def test_as_protobuf_reads_them(given_features: list[Feature]) -> None:
    found = _of([one.SerializeToString() for one in given_features])
    for at, feature in enumerate(given_features):
        known = Feature.FromString(feature.SerializeToString())
        known.DiscardUnknownFields()
        kind, payload, count = _payload(known)
        assert FEATURE_KINDS[int(found.kind[at])] == kind
        assert found.data[found.start[at] : found.stop[at]].tobytes() == payload
        assert found.counts[at] == count
        assert found.strange[at] == (feature.ByteSize() != known.ByteSize())


UNUSUAL = {
    "numbers that are not packed": b"\x1a\x0a\x0d\x00\x00\x80\x3f\x0d\x00\x00\x00\x40",
    "packed in two pieces": b"\x1a\x0c\x0a\x04\x00\x00\x80\x3f\x0a\x04\x00\x00\x00\x40",
    "said twice": b"\x1a\x06\x0a\x04\x00\x00\x80\x3f\x1a\x06\x0a\x04\x00\x00\x00\x40",
    "another kind first": b"\x60\x05\x1a\x0a\x0a\x08\x00\x00\x80\x3f\x00\x00\x00\x40",
    "a long size": b"\x1a\x8c\x00\x0a\x88\x80\x00\x00\x00\x80\x3f\x00\x00\x00\x40",
}


def test_other_forms_of_the_same_list() -> None:
    found = _of(list(UNUSUAL.values()))
    for at, what in enumerate(UNUSUAL):
        assert FEATURE_KINDS[int(found.kind[at])] == "float_list", what
        assert found.counts[at] == 2, what
        values = found.data[found.start[at] : found.stop[at]].view(np.float32)
        assert values.tolist() == [1.0, 2.0], what
        assert not found.strange[at]


def test_a_known_number_of_another_wire_type_is_unknown() -> None:
    found = _of([b"\x18\x05", b"\x61\x00\x00\x00\x00\x00\x00\x00\x00"])
    assert found.kind.tolist() == [0, 0]
    assert found.strange.tolist() == [True, True]


def test_unknown_fields_beside_a_feature_are_strange() -> None:
    named = NamedFeature(name="a", feature=Feature(int64_value=3))
    named.MergeFromString(b"\x50\x01")
    example = Example(named_feature=[named])
    rows, _ = index_examples(records_of_messages([example.SerializeToString()]))
    found = read_features(rows)
    assert found.strange.tolist() == [True]
    assert found.kind.tolist() == [12]


@pytest.mark.more
@given(st.lists(examples(), max_size=3))
def test_rows_of_anything(given_examples: list[Example]) -> None:
    rows, bad = index_examples(
        records_of_messages([one.SerializeToString() for one in given_examples])
    )
    assert not bad
    found = read_features(rows)
    kinds = [
        one.feature.WhichOneof("type") or "unset"
        for example in given_examples
        for one in example.named_feature
    ]
    entries = np.flatnonzero(~rows.raw)
    assert [FEATURE_KINDS[int(found.kind[at])] for at in entries] == kinds
    assert found.strange[rows.raw].all()


def test_what_rows_share_is_rewritten_once() -> None:
    batch = ExampleBatch(batch_size=3)
    feature = Feature.FromString(UNUSUAL["numbers that are not packed"])
    batch.named_feature_list.add(name="a", type="SHARED").feature.append(feature)
    content = batch.SerializeToString()
    unusual = UNUSUAL["numbers that are not packed"]
    packed = feature.SerializeToString()
    content = content.replace(bytes([len(packed)]) + packed, bytes([len(unusual)]) + unusual)
    [(rows, bad)] = index_batches(records_of_messages([content]))
    assert not bad
    found = read_features(rows)
    assert found.counts.tolist() == [2, 2, 2]
    assert len(found.data) <= len(rows.data) + len(packed)
    assert len(set(found.start.tolist())) == 1
