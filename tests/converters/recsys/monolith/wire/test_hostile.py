"""What hostile records may cost: no time that grows with a square, memory of a few records."""

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from ingot.converters.recsys.monolith.contract import MAX_BATCH_ROWS, MAX_FEATURES
from ingot.converters.recsys.monolith.record_index import Bad, records_of_messages
from ingot.converters.recsys.monolith.wire.message_writer import BatchBuilder, example_records
from ingot.converters.recsys.monolith.wire.row_index import REPEATED, index_batches, index_examples
from ingot.schemas.monolith.example_pb2 import Example
from ingot.schemas.monolith.line_id_pb2 import LineId
from tests.converters.recsys.monolith.reference import size_bytes

MANY = 300_000
ENOUGH = 20.0  # seconds; a square of MANY steps takes minutes


def sized(number: int, data: bytes) -> bytes:
    """A field of bytes."""
    return size_bytes(number << 3 | 2) + size_bytes(len(data)) + data


def rows_and_wrong(data: bytes) -> tuple[int, list[Bad]]:
    """Of an ExampleBatch, all of whose rows are written."""
    count, wrong = 0, []
    for rows, bad in index_batches(records_of_messages([data])):
        count += len(example_records(rows))
        wrong += bad
    return count, wrong


@pytest.fixture(autouse=True)
def _in_time(warm: None) -> Iterator[None]:
    started = time.process_time()
    yield
    assert time.process_time() - started < ENOUGH


@pytest.fixture(scope="module")
def warm() -> None:
    """Compiles what the tests call."""
    rows, _ = index_examples(records_of_messages([sized(1, sized(1, b"a"))]))
    (batch,) = [*(batches := BatchBuilder(2)).add(rows), *batches.finish()]
    assert rows_and_wrong(batch.message(0)) == (1, [])


def test_one_name_many_times_in_a_row():
    rows, wrong = index_examples(records_of_messages([b"\x0a\x00" * MANY]))
    assert (len(rows), wrong) == (1, [])
    batches = BatchBuilder(1)
    assert len([*batches.add(rows), *batches.finish()]) == 1


def test_many_lists_that_say_the_label():
    count, wrong = rows_and_wrong(sized(1, sized(1, b"__LABEL__")) * MANY)
    assert (count, [bad.reason for bad in wrong]) == (0, ["twice"])


def test_a_shared_feature_behind_many_fields():
    one = sized(1, b"x") + b"\x28\x00" * MANY + sized(2, b"") + b"\x18\x01"
    data = sized(1, one) + b"\x18" + size_bytes(20)
    assert rows_and_wrong(data) == (20, [])


def test_a_shared_feature_is_found_once_for_all_rows():
    one = sized(2, b"") + sized(1, b"x") + b"\x18\x01" + b"\x18\x01" * 50_000
    data = sized(1, one) + b"\x18" + size_bytes(100_000)
    assert rows_and_wrong(data) == (100_000, [])


def test_more_features_or_rows_than_are_read():
    _, wrong = index_examples(records_of_messages([b"\x0a\x00" * (MAX_FEATURES + 1)]))
    assert [bad.reason for bad in wrong] == ["features"]
    count, wrong = rows_and_wrong(b"\x0a\x00" * (MAX_FEATURES + 1))
    assert (count, [bad.reason for bad in wrong]) == (0, ["features"])
    count, wrong = rows_and_wrong(b"\x18" + size_bytes(MAX_BATCH_ROWS + 1))
    assert (count, [bad.reason for bad in wrong]) == (0, ["batch_size"])


@pytest.mark.more
def test_rows_that_close_each_batch_early_among_many_names():
    messages = [
        Example(
            named_feature=[{"name": f"{at}"}], data_source_key=256 * (at % 2)
        ).SerializeToString()
        for at in range(20_000)
    ]
    rows, _ = index_examples(records_of_messages(messages))
    batches = BatchBuilder(1000)
    assert len([*batches.add(rows), *batches.finish()]) == 20_000
    assert batches.early == 19_999


@pytest.mark.parametrize("what", ["feature", "name", "unknown", "batch"])
def test_what_many_batches_say_once_is_within_the_bound_for_all_rows_at_a_time(what):
    """Batches of 1 to 40 rows, which say 40 KB once: as many go together as there is room for."""
    filler = b"x" * 40_000
    parts = {
        "feature": sized(1, b"a") + sized(2, sized(1, sized(1, filler))),
        "name": sized(1, filler) + sized(2, b""),
        "unknown": sized(1, b"a") + sized(2, b"") + sized(99, filler),
        "batch": sized(1, b"a") + sized(2, b""),
    }
    shared = sized(1, parts[what] + b"\x18\x01") + (sized(999, filler) if what == "batch" else b"")
    sizes = [1 + at * 7 % 40 for at in range(200)]
    messages = [shared + b"\x18" + size_bytes(size) for size in sizes]
    records, most = [], 0
    for rows, wrong in index_batches(records_of_messages(messages)):
        assert not wrong
        assert 40_000 * len(rows) <= REPEATED
        records += [set(rows.record.tolist())]
        most = max(most, len(rows))
    assert 2 * 40_000 * (most + 40) > REPEATED  # a name counts twice
    assert max(map(len, records)) > 10
    assert set.union(*records) == set(range(200))


def deep(depth: int) -> bytes:
    """Groups within each other."""
    return b"\xe3\x25" * depth + b"\xe4\x25" * depth


@pytest.mark.parametrize("depth", [31, 63, 64, 90, 95, 96, 97, 98, 99, 100])
def test_what_is_written_of_deep_groups_can_be_read(depth):
    """Protobuf reads 100 levels of messages and groups together, and an Example has more than a
    LineId alone."""
    line = LineId.FromString(deep(depth)).SerializeToString()
    feature = sized(1, sized(1, b"__LINE_ID__") + sized(2, sized(6, sized(1, line))))
    lists = sized(1, sized(2, sized(7, sized(1, deep(depth)))))
    for message in (feature, lists, sized(100, line), deep(depth)):
        records = example_records(index_examples(records_of_messages([message]))[0])
        for at in range(len(records)):
            Example.FromString(records.message(at))


MEMORY = """
import sys
from pathlib import Path
from ingot.converters.recsys.monolith.record_index import records_of_messages
from ingot.converters.recsys.monolith.wire.message_writer import example_records
from ingot.converters.recsys.monolith.wire.row_index import index_batches
from tests.converters.recsys.monolith.wire.test_hostile import BOMBS
total = 0
for rows, wrong in index_batches(records_of_messages([BOMBS[sys.argv[1]]()])):
    total += len(example_records(rows).data)
    if total > 4 << 30:
        break
peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line)
print(int(peak.split()[1]) >> 10)
"""
BIG = 4 << 20


def _bomb(name: bytes = b"x", extra: bytes = b"", rest: bytes = b"", shared: bytes = b"") -> bytes:
    """A batch of many rows, each of which has what the batch says once."""
    count = 20_000
    one = sized(1, name) + b"\x12\x00" * count + extra
    two = sized(1, b"y") + sized(2, sized(15, shared)) + b"\x18\x01" if shared else b""
    return sized(1, one) + (sized(1, two) if two else b"") + b"\x18" + size_bytes(count) + rest


BOMBS = {
    "name": lambda: _bomb(name=b"n" * BIG),
    "extra": lambda: _bomb(extra=sized(9, b"e" * BIG)),
    "rest": lambda: _bomb(rest=sized(9, b"r" * BIG)),
    "shared": lambda: _bomb(shared=b"s" * BIG),
}


@pytest.mark.more
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is read from /proc")
@pytest.mark.parametrize("what", BOMBS)
def test_what_a_batch_says_once_is_not_in_memory_for_all_its_rows(what, repository):
    argv = [sys.executable, "-c", MEMORY, what]
    done = subprocess.run(argv, cwd=repository, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 700  # MB; all rows would be 80,000
