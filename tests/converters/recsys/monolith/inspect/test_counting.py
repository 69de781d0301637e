"""Figures are those that protobuf's own objects give, however rows are cut into pieces."""

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingot.converters.recsys.monolith.inspect import counter
from ingot.converters.recsys.monolith.inspect import kernels as k
from ingot.converters.recsys.monolith.inspect.counter import RowCounter
from ingot.converters.recsys.monolith.inspect.figures import (
    FeatureFigures,
    FieldTally,
    Figures,
    LengthTally,
    SpreadTally,
)
from ingot.converters.recsys.monolith.record_index import Bad, records_of_messages
from ingot.converters.recsys.monolith.wire.row_index import index_batches, index_examples
from ingot.schemas.monolith.example_pb2 import Example, ExampleBatch, Feature
from ingot.schemas.monolith.line_id_pb2 import LineId
from tests.converters.recsys.monolith import made

GOLDEN = Path(__file__).parents[4] / "golden" / "monolith"


def counted(examples: list[Example], cuts: tuple[int, ...] = ()) -> Figures:
    """The figures of Examples that come in several pieces."""
    records = records_of_messages([one.SerializeToString() for one in examples])
    told = RowCounter()
    told.begin("it", "example")
    for first, last in zip((0, *cuts), (*cuts, len(examples)), strict=True):
        rows, bad = index_examples(records.part(first, last))
        assert bad == []
        told.add(rows)
    return told.figures()


def length(feature: Feature) -> int:
    kind = str(feature.WhichOneof("type"))
    if kind.endswith("_value"):
        return 1
    value = getattr(feature, kind)
    return len(value.list if kind.endswith("_lists") else value.value)


def fids(feature: Feature) -> Iterator[tuple[str, int]]:
    kind = feature.WhichOneof("type") or ""
    if kind.startswith("fid"):
        value = getattr(feature, kind)
        lists = value.list if kind.endswith("lists") else [value]
        version = kind[4:6]
        for one in lists:
            yield from ((version, fid >> (54 if version == "v1" else 48)) for fid in one.value)


def check_feature(found: FeatureFigures, examples: list[Example]) -> None:
    rows = [[e.feature for e in one.named_feature if e.name == found.name] for one in examples]
    entries = [one for row in rows for one in row]
    set_ones = [one for one in entries if one.WhichOneof("type")]
    assert found.kinds == Counter(one.WhichOneof("type") or "unset" for one in entries)
    filled = [any(one.WhichOneof("type") and length(one) for one in row) for row in rows]
    listed = [any(one.WhichOneof("type") for one in row) for row in rows]
    assert found.filled == sum(filled)
    assert found.empty == sum(listed) - sum(filled)
    assert found.absent == sum(not row for row in rows)
    assert found.unset == len(rows) - found.filled - found.empty - found.absent
    assert found.repeated == sum(max(0, len(row) - 1) for row in rows)
    lengths = [length(one) for one in set_ones]
    if not lengths:
        assert found.lengths is None
    else:
        assert found.lengths is not None
        ends = found.lengths.count, found.lengths.least, found.lengths.most
        assert ends == (len(lengths), min(lengths), max(lengths))
        assert found.lengths.mean == sum(lengths) / len(lengths)
    slots = {pair for one in entries for pair in fids(one) if pair[1] < 1 << 15}
    if any((one.WhichOneof("type") or "").startswith("fid") for one in entries):
        assert (found.slots, found.first_slots) == (
            len(slots),
            tuple(slot for _, slot in sorted(slots)[:8]),
        )
    else:
        assert found.slots is None


def finite(values: list[float]) -> list[float]:
    return [one for one in values if not math.isnan(one)]


def check_labels(told: Figures, examples: list[Example]) -> None:
    for position, found in enumerate(told.label):
        values = [float(one.label[position]) for one in examples if len(one.label) > position]
        assert found.count == len(values)
        assert found.no_number == sum(map(math.isnan, values))
        assert (found.positive, found.zero, found.negative) == (
            sum(one > 0 for one in values),
            sum(one == 0 for one in values),
            sum(one < 0 for one in values),
        )
        if finite(values):
            assert (found.least, found.most) == (min(finite(values)), max(finite(values)))
    assert len(told.label) == max((len(one.label) for one in examples), default=0)


def check_line_ids(told: Figures, examples: list[Example]) -> None:
    lines = [one.line_id for one in examples if one.HasField("line_id")]
    assert told.line_ids.rows == len(lines)
    given_ones: Counter[str] = Counter()
    for line in lines:
        given_ones.update(
            field.name for field, value in line.ListFields() if not isinstance(value, bytes)
        )
    assert told.line_ids.fields == given_ones
    wanted = ("uid", "req_time", "sample_rate")
    lack = {name: len(examples) - given_ones[name] for name in wanted}
    assert told.line_ids.lacking == lack
    whole = [all(line.HasField(name) for name in wanted) for line in lines]
    assert told.line_ids.incomplete == len(examples) - sum(whole)
    rates = [line.sample_rate for line in lines if line.HasField("sample_rate")]
    assert told.line_ids.sample_rate.given == len(rates)
    assert sum(rows for _, rows in told.line_ids.sample_rate.values) == len(rates)


@pytest.mark.more
@settings(max_examples=60)
@given(st.lists(made.examples(), max_size=6), st.data())
def test_equal_to_objects(examples: list[Example], data: st.DataObject) -> None:
    cuts = tuple(sorted(data.draw(st.lists(st.integers(0, len(examples)), max_size=3))))
    told = counted(examples, cuts)
    named = [one for one in told.features if not one.raw]
    assert [one.name for one in named] == list(
        dict.fromkeys(e.name for one in examples for e in one.named_feature)
    )
    assert (told.rows, told.records) == (len(examples), len(examples))
    for found in named:
        check_feature(found, examples)
    check_labels(told, examples)
    check_line_ids(told, examples)
    every = Counter(pair for one in examples for e in one.named_feature for pair in fids(e.feature))
    assert told.slots.v1 == {slot: n for (version, slot), n in every.items() if version == "v1"}
    assert told.slots.v2 == {slot: n for (version, slot), n in every.items() if version == "v2"}
    keys = [one.data_source_key for one in examples if one.data_source_key]
    assert dict(told.data_source_key.values) == Counter(keys)
    assert told.to_document() == counted(examples).to_document()  # NaNs are equal there


def test_raw_features_are_told_apart() -> None:
    example = Example()
    example.named_feature.add(name="a").feature.int64_value = 1
    example.named_raw_feature.add(name="a").raw_feature.feature.add().int64_value = 1
    example.named_raw_feature.add(name="b").raw_feature.SetInParent()
    told = counted([example])
    assert [(one.name, one.raw, one.filled, one.unset) for one in told.features] == [
        ("a", False, 1, 0),
        ("a", True, 1, 0),
        ("b", True, 0, 1),
    ]
    assert told.features[1].kinds == {"raw": 1}


def test_unknown_fields_by_row() -> None:
    varint, large = b"\xe0\x25\x07", b"\xf8\xff\xff\xff\x0f\x01"  # fields 604 and 2^29 - 1
    example = Example(line_id=LineId(uid=1))
    example.line_id.MergeFromString(varint + varint + large + b"\x2a\x02\xff\xfe")
    named = example.named_feature.add(name="a")
    named.feature.MergeFromString(varint)
    example.named_feature.add(name="b").MergeFromString(varint + large)
    example.named_feature.add(name="c").MergeFromString(varint)
    example.MergeFromString(large)
    told = counted([example, example, Example(label=[1])], (1,)).unknown
    largest = (1 << 29) - 1
    assert told.line_id == {604: 2, largest: 2}
    assert told.line_id_text == {"req_id": 2}
    assert told.record == {largest: 2}
    assert told.beside == {604: 2, largest: 2}
    assert (told.features, told.unnoted) == (2, 0)


def test_large_field_numbers_are_bounded() -> None:
    tally, number = FieldTally(), 5_000
    fields = b"".join(b"\xf8\xff\xff\xff\x0f\x01" for _ in range(number))
    data = np.frombuffer(fields, np.uint8)
    tally.add(data, np.array([0]), np.array([len(data)]), np.array([0]))
    assert tally.figures() == {(1 << 29) - 1: 1}
    assert tally.unnoted == number - 4096


def test_batches_and_sort_ids() -> None:
    batch = ExampleBatch.FromString((GOLDEN / "example_batch.pb").read_bytes())
    small = ExampleBatch(batch_size=2)
    named = small.named_feature_list.add(name="__LABEL__")
    for value in (1.0, 0.0):
        named.feature.add().float_list.value.append(value)
    records = records_of_messages([batch.SerializeToString(), small.SerializeToString()])
    told = RowCounter()
    for rows, bad in index_batches(records, 500):  # some rows of a batch at a time
        assert bad == []
        told.add(rows)
    figures = told.figures()
    assert (figures.rows, figures.records) == (53, 2)
    assert figures.batches is not None
    ends = figures.batches.least, figures.batches.mean, figures.batches.most
    assert ends == (2, 26.5, 51)
    assert figures.sort_ids is None
    assert [one.name for one in figures.features if one.name.startswith("__")] == []
    assert (figures.label[0].positive, figures.label[0].zero) == (1, 52)


def test_sort_ids() -> None:
    message = Example(label=[1]).SerializeToString()
    data = np.frombuffer(b"ab" + message + b"c" + message + message, np.uint8)
    size = len(message)
    base = records_of_messages([message] * 3)
    from dataclasses import replace

    records = replace(
        base,
        data=data,
        start=np.array([2, 3 + size, 3 + 2 * size]),
        stop=np.array([2 + size, 3 + 2 * size, 3 + 3 * size]),
        sort_start=np.array([0, 2 + size, 0]),
        sort_stop=np.array([2, 3 + size, 0]),
    )
    told = RowCounter()
    told.add(index_examples(records)[0])
    lengths = told.figures().sort_ids
    assert lengths is not None
    assert (lengths.count, lengths.least, lengths.most) == (2, 1, 2)


def test_bad_ones_are_counted() -> None:
    told = RowCounter()
    told.begin("a.pb", "example")
    for number in range(7):
        bad = Bad(offset=number, bytes=2, record=number, row=None, reason="empty", detail="\x1b")
        told.bad("a.pb", bad)
    figures = told.figures().bad
    assert (figures.reasons, figures.bytes, len(figures.first)) == ({"empty": 7}, 14, 5)
    assert figures.first[0] == "a.pb: record 0, offset 0: a record is empty: \x1b"


def test_features_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counter, "MOST_FEATURES", 2)
    example = Example()
    for name in "abc":
        example.named_feature.add(name=name).feature.fid_v1_list.value.append(1)
    told = counted([example, example])
    assert [one.name for one in told.features] == ["a", "b"]
    assert told.names_left_out == 2
    assert told.slots.v1 == {0: 6}


@given(st.lists(st.integers(0, 1 << 27), min_size=1, max_size=50))
def test_lengths(values: list[int]) -> None:
    tally = LengthTally()
    tally.add(np.array(values, np.int64))
    found = tally.figures()
    assert found is not None
    for share, told in ((50, found.p50), (99, found.p99)):
        exact = sorted(values)[-(-len(values) * share // 100) - 1]
        assert exact * (1 - 1 / 32) <= told <= exact
        assert exact >= k.EXACT or told == exact


def test_lengths_beyond_all_buckets() -> None:
    tally = LengthTally()
    tally.add(np.array([1 << 40]))
    assert tally.figures() is not None


def test_spread_is_bounded() -> None:
    tally = SpreadTally()
    tally.add(np.arange(2_000, dtype=np.float32))
    tally.add(np.arange(10, dtype=np.float32))
    found = tally.figures()
    assert (found.given, len(found.values), found.others) == (2_010, 1_000, 1_000)
    assert (found.numbers.least, found.numbers.most) == (0, 1_999)


def test_document() -> None:
    document: dict[str, Any] = counted([Example(label=[1])]).to_document()
    assert document["streams"] == {"it": "example"}
    assert document["labels"]["most"] == 1
