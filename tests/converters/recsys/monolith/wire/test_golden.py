"""The public sample: 51 rows of 139 lists, as a batch and as Examples."""

from pathlib import Path

import pytest

from ingot.converters.recsys.monolith.contract import INSTANCE_WEIGHT, LABEL, LINE_ID
from ingot.converters.recsys.monolith.record_index import Records, records_of_messages
from ingot.converters.recsys.monolith.wire.message_writer import example_records
from ingot.converters.recsys.monolith.wire.row_index import index_batches, index_examples
from ingot.schemas.monolith.example_pb2 import Example, ExampleBatch
from tests.converters.recsys.monolith.reference import (
    batch_of,
    fields,
    groups,
    in_any_order,
    row_of,
    rows_of_batch,
)
from tests.converters.recsys.monolith.wire.comparing import (
    batch_records,
    check_batches,
    check_examples,
    read,
)


@pytest.fixture(scope="module")
def batch(repository: Path) -> bytes:
    """The sample as a batch."""
    return (repository / "tests/golden/monolith/example_batch.pb").read_bytes()


@pytest.fixture(scope="module")
def examples(repository: Path) -> list[bytes]:
    """The same as Examples."""
    data = (repository / "tests/golden/monolith/mono_example_plain.pb").read_bytes()
    found, at = [], 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 8], "little")
        found.append(data[at + 8 : at + 8 + size])
        at += 8 + size
    return found


def messages(records: Records) -> list[bytes]:
    """All messages."""
    return [records.message(at) for at in range(len(records))]


def written_of_batch(data: bytes, most: int = 1 << 17) -> list[bytes]:
    """The Examples of a batch."""
    parts = [
        example_records(rows) for rows, wrong in index_batches(records_of_messages([data]), most)
    ]
    return [one for records in parts for one in messages(records)]


def test_it_is_indexed_as_protobuf_reads_it(batch, examples):
    assert sum(map(len, check_batches([batch]))) == 51
    assert len(check_examples(examples)) == 51


def test_its_examples_are_byte_by_byte_those_of_protobuf_but_for_line_ids(batch):
    """Known fields, then unknown ones: protobuf writes a LineId anew, here it is as it came."""
    written = written_of_batch(batch)
    right = [one.SerializeToString() for one in rows_of_batch(ExampleBatch.FromString(batch))]
    for one, other in zip(written, right, strict=True):
        here, there = list(fields(one)), list(fields(other))
        assert [f.whole for f in here if f.number != 100] == [
            f.whole for f in there if f.number != 100
        ]
        (mine,), (theirs,) = ([f.value for f in each if f.number == 100] for each in (here, there))
        assert sorted(f.whole for f in fields(mine)) == sorted(f.whole for f in fields(theirs))


def test_line_ids_are_copied_byte_by_byte(batch):
    lists = ExampleBatch.FromString(batch).named_feature_list
    lines = next(one for one in lists if one.name == LINE_ID)
    found = [
        rows.line_id(at)
        for rows, _ in index_batches(records_of_messages([batch]))
        for at in range(51)
    ]
    assert found == [feature.bytes_list.value[0] for feature in lines.feature]


@pytest.mark.parametrize("most", [1, 139, 1000])
def test_stretches_of_rows_are_the_whole(batch, most):
    assert written_of_batch(batch, most) == written_of_batch(batch)


def test_what_is_said_of_rows_is_no_feature(batch):
    for one in written_of_batch(batch):
        example = Example.FromString(one)
        names = {named.name for named in example.named_feature}
        assert not names & {LINE_ID, LABEL, INSTANCE_WEIGHT}
        assert example.HasField("line_id")
        assert example.label
        assert len(example.named_feature) == 137


@pytest.mark.more
@pytest.mark.parametrize("size", [1, 2, 10, 51, 100])
@pytest.mark.parametrize("shared", [True, False])
def test_regrouped_batches_are_those_of_protobuf_and_give_the_same_examples(batch, size, shared):
    parts = [rows for rows, _ in index_batches(records_of_messages([batch]))]
    records = batch_records(parts, size, shared)
    rows = [row_of(one) for one in rows_of_batch(ExampleBatch.FromString(batch))]
    right = [batch_of(group, shared) for group in groups(rows, size)]
    assert [in_any_order(one) for one in read(records)] == [in_any_order(one) for one in right]
    back = [one for record in records for one in written_of_batch(record.message(0))]
    assert back == written_of_batch(batch)


def test_examples_of_the_sample_are_the_batchs(batch, examples):
    rows, wrong = index_examples(records_of_messages(examples))
    assert not wrong
    written = [Example.FromString(one) for one in messages(example_records(rows))]
    right = [Example.FromString(one) for one in written_of_batch(batch)]
    assert [in_any_order(one) for one in written] == [in_any_order(one) for one in right]
