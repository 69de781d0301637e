"""Rows of Examples, ExampleBatches and Instances against protobuf's objects."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingot.converters.recsys.monolith.record_index import records_of_messages
from ingot.converters.recsys.monolith.wire.message_writer import example_records
from ingot.converters.recsys.monolith.wire.row_index import index_batches, index_examples
from ingot.schemas.monolith.example_pb2 import SHARED, Example, ExampleBatch, RawFeature
from ingot.schemas.monolith.line_id_pb2 import LineId
from tests.converters.recsys.monolith.reference import Refused, canonical, in_any_order, row_of
from tests.converters.recsys.monolith.strategies import (
    batch,
    damaged,
    encoded,
    example,
    instance,
    made,
    plain_example,
)
from tests.converters.recsys.monolith.wire.comparing import (
    check_batches,
    check_examples,
    check_instances,
    examples_of,
    with_sort_ids,
)

SEVERAL = st.integers(1, 3)


def several(maker, how):
    """Some messages of a kind in bytes, as `how` writes them."""

    def make(random: Random) -> list[bytes]:
        return [how(random, maker(random)) for _ in range(random.randrange(1, 4))]

    return made(make)


def plainly(_: Random, message):
    """A message as protobuf writes it."""
    return message.SerializeToString()


def badly(random: Random, message):
    """A message in unusual bytes, damaged half of the time."""
    data = encoded(random, message)
    return damaged(random, data, 2) if random.randrange(2) else data


CHECKS = [(example, check_examples), (batch, check_batches), (instance, check_instances)]


@pytest.mark.parametrize(("maker", "check"), CHECKS)
@pytest.mark.parametrize("how", [plainly, encoded, badly])
@given(data=st.data())
def test_every_record_is_the_rows_that_protobuf_makes_of_it_or_told(data, maker, check, how):
    check(data.draw(several(maker, how)))


@given(several(plain_example, plainly))
def test_an_example_is_written_byte_by_byte_as_protobuf_writes_it(messages):
    rows, wrong = index_examples(records_of_messages(messages))
    records = example_records(rows)
    assert not wrong
    assert [records.message(at) for at in range(len(records))] == messages


@given(several(example, encoded))
def test_what_was_written_is_indexed_as_it_was(messages):
    rows = check_examples(messages)
    records = example_records(rows)
    again, wrong = index_examples(records)
    assert not wrong
    assert example_records(again).data.tobytes() == records.data.tobytes()


@settings(max_examples=40)
@given(several(batch, encoded), st.integers(1, 30))
def test_how_many_features_are_taken_at_a_time_does_not_count(messages, most):
    """Rows, and what is wrong, do not depend on it."""
    whole = [one for rows in check_batches(messages) for one in examples_of(rows)]
    parts = [one for rows in check_batches(messages, most) for one in examples_of(rows)]
    assert parts == whole or [canonical(one) for one in parts] == [canonical(one) for one in whole]


@given(several(example, badly), st.sampled_from([0, 256, (1 << 32) - 256]))
def test_a_headers_data_source_key_is_the_rows_where_it_is_given(messages, source):
    records = records_of_messages(messages)
    records.source[:] = source
    for one in examples_of(index_examples(records)[0]):
        assert one.data_source_key == source or not source


@settings(max_examples=30)
@given(made(batch), st.sampled_from([256, (1 << 32) - 256]))
def test_a_headers_data_source_key_is_that_of_all_rows_of_a_batch(message, source):
    records = records_of_messages([message.SerializeToString()])
    records.source[:] = source
    for rows, _ in index_batches(records):
        assert (rows.source == source).all()


def test_records_keep_their_numbers_places_and_sort_ids():
    good, bad = Example(label=[1.0]).SerializeToString(), b"\xff"
    records = with_sort_ids(records_of_messages([good, bad, good]), [(0, 0), (0, 0), (0, 3)])
    rows, wrong = index_examples(records.part(1, 3))
    assert (rows.record.tolist(), rows.offset.tolist()) == ([2], [len(good) + 1])
    assert (wrong[0].record, wrong[0].offset, wrong[0].bytes) == (1, len(good), 0)
    assert example_records(rows).sort_id(0) == good[:3]


def test_rows_of_a_batch_bear_its_place_and_sort_id():
    batch_ = ExampleBatch(batch_size=3)
    batch_.named_feature_list.add(name="a").feature.add()
    batch_.named_feature_list[0].type = SHARED
    records = records_of_messages([b"\xff", batch_.SerializeToString()])
    records = with_sort_ids(records, [(0, 0), (0, 1)])
    (none, wrong), (rows, nothing) = index_batches(records)
    assert (len(none), wrong[0].record, nothing) == (0, 0, [])
    assert (rows.record.tolist(), rows.row.tolist()) == ([1, 1, 1], [0, 1, 2])
    assert [example_records(rows).sort_id(at) for at in range(3)] == [b"\xff"] * 3


def groups(depth: int) -> bytes:
    """Unknown groups within each other."""
    return b"\xe3\x25" * depth + b"\xe4\x25" * depth


@pytest.mark.parametrize("depth", [1, 8, 32, 33, 60, 90])
def test_deep_groups_are_never_lost(depth):
    """Those of very many levels may be refused before protobuf does."""
    line = LineId(uid=1)
    line.MergeFromString(groups(depth))
    in_feature, in_field = Example(), Example(line_id=line)
    named = in_feature.named_feature.add(name="__LINE_ID__")
    named.feature.bytes_list.value.append(line.SerializeToString())
    beside = Example.FromString(groups(depth))
    for message in (in_feature, in_field, beside):
        rows, wrong = index_examples(records_of_messages([message.SerializeToString()]))
        assert len(rows) + len(wrong) == 1
        if len(rows):
            assert canonical(examples_of(rows)[0]) == canonical(row_of(message))
        else:
            assert depth > 32


def test_what_two_features_say_of_a_row_is_said_twice():
    message = Example()
    for _ in range(2):
        message.named_feature.add(name="__LABEL__").feature.float_list.value.append(1.0)
    with pytest.raises(Refused):
        row_of(message)
    check_examples([message.SerializeToString()])


def test_a_line_id_said_twice_in_other_bytes_is_the_same():
    """As Monolith writes it: the field's unknown fields last, the feature's as they came."""
    line = b"\xe0\x25\x05" + LineId(uid=3).SerializeToString()
    message = Example(line_id=LineId.FromString(line))
    message.named_feature.add(name="__LINE_ID__").feature.bytes_list.value.append(line)
    assert len(check_examples([message.SerializeToString()])) == 1


def test_another_weight_in_field_and_feature_is_told_whatever_else_is_said_twice():
    line = LineId(uid=3)
    message = Example(line_id=line, instance_weight=0.5)
    message.named_feature.add(name="__LINE_ID__").feature.bytes_list.value.append(
        line.SerializeToString()
    )
    message.named_feature.add(name="instance_weight").feature.float_list.value.append(1.0)
    assert not len(check_examples([message.SerializeToString()]))


def test_raw_features_are_what_their_names_say_even_special_ones():
    message = Example()
    message.named_raw_feature.add(name="__LABEL__", raw_feature=RawFeature())
    rows = check_examples([message.SerializeToString()])
    assert in_any_order(examples_of(rows)[0]) == in_any_order(message)
