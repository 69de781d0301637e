"""ExampleBatches of rows against protobuf's objects, and the way there and back."""

import itertools
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingot.converters.recsys.monolith.record_index import Rows, records_of_messages
from ingot.converters.recsys.monolith.wire.message_writer import BatchBuilder
from ingot.converters.recsys.monolith.wire.row_index import (
    find_unfit_for_batches,
    index_batches,
    index_examples,
)
from ingot.converters.sources.recognizers.monolith import MAX_RECORD
from ingot.schemas.monolith.example_pb2 import SHARED, Example
from ingot.schemas.monolith.line_id_pb2 import LineId
from tests.converters.recsys.monolith.reference import (
    batch_of,
    filled,
    fits_batches,
    groups,
    in_any_order,
    row_of,
    rows_of_batch,
)
from tests.converters.recsys.monolith.strategies import (
    encoded,
    feature,
    made,
    plain_example,
    seldom,
)
from tests.converters.recsys.monolith.wire.comparing import (
    batch_records,
    examples_of,
    read,
    with_sort_ids,
)


def alike(random: Random) -> list[Example]:
    """Rows that often say the same, and often have the same features."""
    base = plain_example(random)
    return [_like(random, base) for _ in range(random.randrange(1, 8))]


def _like(random: Random, base: Example) -> Example:
    if seldom(random, 4):
        return plain_example(random)
    out = Example()
    out.CopyFrom(base)
    for named in out.named_feature:
        if seldom(random, 3):
            named.feature.CopyFrom(feature(random))
    if seldom(random, 4) and out.named_feature:
        del out.named_feature[random.randrange(len(out.named_feature))]
    return out


def fitting(messages: list[Example], random: Random | None = None) -> tuple[Rows, list[Example]]:
    """The rows that batches can hold, and what they say."""
    written = [
        encoded(random, one) if random is not None else one.SerializeToString() for one in messages
    ]
    rows, wrong = index_examples(records_of_messages(written))
    assert not wrong
    fits = np.array([fits_batches(one) for one in messages])
    unfit = set(rows.record[find_unfit_for_batches(rows)].tolist())
    assert unfit == set(np.flatnonzero(~fits).tolist())
    left = [row_of(one) for one, good in zip(messages, fits, strict=True) if good]
    return rows.chosen(fits), left


SIZES = st.integers(1, 5)


@given(made(alike), SIZES, st.booleans())
def test_batches_are_those_that_protobuf_makes(messages, size, shared):
    rows, left = fitting(messages)
    records = batch_records([rows], size, shared)
    right = [batch_of(group, shared) for group in groups(left, size)]
    batches = read(records)
    assert [in_any_order(one) for one in batches] == [in_any_order(one) for one in right]
    assert [one.message(0) for one in records] == [one.SerializeToString() for one in batches]


@pytest.mark.more
@given(made(lambda random: (random, alike(random))), SIZES)
def test_however_examples_are_encoded_their_batches_say_the_same(drawn, size):
    random, messages = drawn
    rows, left = fitting(messages, random)
    right = [rows_of_batch(batch_of(group)) for group in groups(left, size)]
    found = [rows_of_batch(one) for one in read(batch_records([rows], size))]
    assert [[in_any_order(one) for one in rows] for rows in found] == [
        [in_any_order(one) for one in rows] for rows in right
    ]


@pytest.mark.more
@given(made(alike), SIZES, st.data())
def test_how_rows_come_does_not_count(messages, size, data):
    rows, _ = fitting(messages)
    places = st.lists(st.integers(0, len(rows)), max_size=4)
    cuts = sorted([0, len(rows), *data.draw(places)])
    parts = [rows.part(begin, end) for begin, end in itertools.pairwise(cuts)]
    whole, cut = batch_records([rows], size), batch_records(parts, size)
    assert [in_any_order(one) for one in read(cut)] == [in_any_order(one) for one in read(whole)]


@given(made(alike), SIZES, SIZES, st.booleans())
def test_examples_come_back_from_batches_of_any_size(messages, size, other, shared):
    """Features in the order of the lists; those that a row did not have as unset ones."""
    rows, left = fitting(messages)
    for each in (size, other):
        back = [
            part
            for record in batch_records([rows], each, shared)
            for part, wrong in index_batches(record)
            if not wrong
        ]
        found = [one for part in back for one in examples_of(part)]
        assert len(found) == len(left)
        for one, row in zip(found, left, strict=True):
            assert said_by(one, row) == in_any_order(filled(row))
        rows = back[0] if len(back) == 1 else rows


def said_by(found: Example, row: Example) -> list[bytes]:
    """What is left of a row that came back without the unset features that fill it up."""
    out = Example()
    out.CopyFrom(found)
    for name in ("named_feature", "named_raw_feature"):
        wanted = [one.name for one in getattr(row, name)]
        there = sorted(getattr(out, name), key=lambda one: one.name)
        out.ClearField(name)
        for one in there:
            if one.name in wanted:
                wanted.remove(one.name)
                getattr(out, name).append(one)
            else:
                what = "feature" if name == "named_feature" else "raw_feature"
                assert not getattr(one, what).ByteSize()
    return in_any_order(out)


def row(**features: float) -> Example:
    """An Example with a float for each feature."""
    message = Example()
    for name, value in features.items():
        message.named_feature.add(name=name).feature.float_list.value.append(value)
    return message


def batches_of(messages: list[Example], size: int = 10, **options: bool) -> list[list[str]]:
    """The names of the lists of each batch, shared ones with an asterisk."""
    rows, wrong = index_examples(records_of_messages([one.SerializeToString() for one in messages]))
    assert not wrong
    return [
        [one.name + "*" * (one.type == SHARED) for one in batch.named_feature_list]
        for batch in read(batch_records([rows], size, **options))
    ]


def test_lists_of_equal_features_are_shared_from_two_rows_on():
    assert batches_of([row(a=1, b=1)]) == [["a", "b"]]
    assert batches_of([row(a=1, b=1), row(a=1, b=2)]) == [["a*", "b"]]
    assert batches_of([row(a=1, b=1), row(a=1, b=1)], shared=False) == [["a", "b"]]
    assert batches_of([row(a=1), row(a=1, b=1), row(a=1, b=1)]) == [["a*", "b"]]


def test_what_says_something_of_the_row_is_never_shared():
    one = Example(line_id=LineId(uid=1), label=[1.0], instance_weight=0.5)
    assert batches_of([one, one]) == [["__LINE_ID__", "__LABEL__", "instance_weight"]]


@pytest.mark.parametrize(
    "other",
    [
        Example(data_source_key=256),
        Example(line_id=LineId()),
        Example.FromString(b"\xe0\x25\x05"),
    ],
)
def test_a_batch_ends_where_rows_differ_in_what_it_says_once(other):
    rows, _ = index_examples(records_of_messages([b"", other.SerializeToString(), b""]))
    batches = BatchBuilder(10)
    records = [*batches.add(rows), *batches.finish()]
    assert [one.batch_size for one in read(records)] == [1, 1, 1]
    assert batches.early == 2


@pytest.mark.parametrize("what", ["id", "sorted_id", "unknown"])
def test_a_batch_ends_where_a_feature_has_another_id(what):
    one, other = row(a=1), row(a=2)
    if what == "unknown":
        other.named_feature[0].MergeFromString(b"\xe0\x25\x05")
    else:
        setattr(other.named_feature[0], what, 3)
    assert batches_of([one, one, other, one]) == [["a*"], ["a"], ["a"]]


def test_features_that_rows_do_not_have_are_counted():
    rows, _ = index_examples(
        records_of_messages([one.SerializeToString() for one in (row(a=1), row(b=1))])
    )
    batches = BatchBuilder(10)
    assert len([*batches.add(rows), *batches.finish()]) == 1
    assert (batches.filled, batches.early) == (2, 0)


def test_sort_ids_that_differ_are_lost_and_counted():
    records = with_sort_ids(
        records_of_messages([b"\xe0\x25\x05"] * 4), [(0, 2), (0, 2), (0, 2), (0, 3)]
    )
    rows, _ = index_examples(records)
    batches = BatchBuilder(2)
    first, second = [*batches.add(rows), *batches.finish()]
    assert (first.sort_id(0), second.sort_id(0)) == (b"\xe0\x25", b"")
    assert batches.lost_sort_ids == 2


@pytest.mark.more
def test_no_batch_is_larger_than_monoliths_reader_takes():
    message = Example()
    message.named_feature.add(name="a").feature.bytes_value = bytes(50 << 20)
    data = message.SerializeToString()
    batches = BatchBuilder(10)
    sizes = []
    for fill in (1, 2, 3):
        one = data[:-1] + bytes([fill])
        sizes += [r.stop[0] for r in batches.add(index_examples(records_of_messages([one]))[0])]
    sizes += [r.stop[0] for r in batches.finish()]
    assert len(sizes) == 2
    assert max(sizes) <= MAX_RECORD["examplebatch"]
    assert sum(sizes) > 3 * (50 << 20)


@settings(max_examples=30)
@given(made(alike))
def test_rows_that_wait_do_not_change(messages):
    """Batches of one row at a time, given one by one, are the rows."""
    rows, left = fitting(messages)
    batches = BatchBuilder(1)
    found = [
        read([one])[0] for at in range(len(rows)) for one in batches.add(rows.part(at, at + 1))
    ]
    assert not list(batches.finish())
    assert [in_any_order(one) for one in found] == [in_any_order(batch_of([one])) for one in left]
