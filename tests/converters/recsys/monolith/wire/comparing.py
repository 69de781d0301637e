"""What kernels make of records, held against the rules told with protobuf's objects."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

import numpy as np
from google.protobuf.message import Message

from ingot.converters.recsys.monolith.record_index import Bad, Records, Rows, records_of_messages
from ingot.converters.recsys.monolith.wire.message_writer import BatchBuilder, example_records
from ingot.converters.recsys.monolith.wire.row_index import (
    index_batches,
    index_examples,
    index_instances,
)
from ingot.converters.sources.recognizers.monolith import Kind
from ingot.schemas.monolith.example_pb2 import Example, ExampleBatch
from ingot.schemas.monolith.instance_pb2 import Instance
from tests.converters.recsys.monolith.reference import (
    Refused,
    canonical,
    example_of,
    parsed,
    row_of,
    rows_of_batch,
)

_SEEN_BEFORE = ("twice", "unknown")
"""What can be wrong with a record before the place where protobuf refuses it."""
M = TypeVar("M", bound=Message)
Place = tuple[int, int | None]
"""A record, and the row in it."""
Judged = dict[Place, bytes | set[str]]
"""What stands at each place: an Example in canonical bytes, or the possible reasons against it."""
Indexed = tuple[Rows, list[Bad]]


def examples_of(rows: Rows) -> list[Example]:
    """Rows as protobuf reads what is written of them."""
    records = example_records(rows)
    return [Example.FromString(records.message(at)) for at in range(len(records))]


def found(parts: Iterable[Indexed], of_batches: bool = False) -> Judged:
    """What was made of records."""
    out: Judged = {}
    for rows, wrong in parts:
        for at, example in enumerate(examples_of(rows)):
            place = int(rows.record[at]), int(rows.row[at]) if of_batches else None
            assert place not in out
            out[place] = canonical(example)
        for bad in wrong:
            assert (bad.record, bad.row) not in out
            out[bad.record, bad.row] = {bad.reason}
    return out


def examples_judged(messages: list[bytes], source: int = 0) -> Judged:
    """What is to be made of Examples."""

    def judge(example: Example) -> Iterator[tuple[int | None, bytes | set[str]]]:
        yield None, canonical(row_of(example, source))

    return _judged(messages, Example, judge)


def instances_judged(messages: list[bytes], source: int = 0) -> Judged:
    """What is to be made of Instances."""

    def judge(instance: Instance) -> Iterator[tuple[int | None, bytes | set[str]]]:
        yield None, canonical(row_of(example_of(instance), source))

    return _judged(messages, Instance, judge)


def batches_judged(messages: list[bytes], source: int = 0) -> Judged:
    """What is to be made of ExampleBatches."""

    def judge(batch: ExampleBatch) -> Iterator[tuple[int | None, bytes | set[str]]]:
        for number, row in enumerate(rows_of_batch(batch, source)):
            yield number, row if isinstance(row, set) else canonical(row)

    return _judged(messages, ExampleBatch, judge)


def _judged(
    messages: list[bytes],
    kind: type[M],
    judge: Callable[[M], Iterator[tuple[int | None, bytes | set[str]]]],
) -> Judged:
    out: Judged = {}
    for record, data in enumerate(messages):
        message = parsed(kind, data)
        if message is None:
            out[record, None] = {"message", *_SEEN_BEFORE}
            continue
        try:
            out.update({(record, row): said for row, said in judge(message)})
        except Refused as refused:
            out[record, None] = refused.reasons
    return out


def agree(one: Judged, other: Judged) -> None:
    """Hold what was found against what is right."""
    assert one.keys() == other.keys()
    for place, said in one.items():
        right = other[place]
        if isinstance(said, set) and isinstance(right, set):
            assert said <= right, place
        else:
            assert said == right, place


def check_examples(messages: list[bytes]) -> Rows:
    """Index Examples, hold the rows against the rules, and give them."""
    rows, wrong = index_examples(records_of_messages(messages))
    agree(found([(rows, wrong)]), examples_judged(messages))
    return rows


def check_batches(messages: list[bytes], most: int = 1 << 17) -> list[Rows]:
    """The same for ExampleBatches."""
    parts = list(index_batches(records_of_messages(messages), most))
    agree(found(parts, of_batches=True), batches_judged(messages))
    return [rows for rows, _ in parts if len(rows)]


def check_instances(messages: list[bytes]) -> Rows:
    """The same for Instances."""
    rows, wrong = index_instances(records_of_messages(messages), Counter())
    agree(found([(rows, wrong)]), instances_judged(messages))
    return rows


def with_sort_ids(records: Records, spans: list[tuple[int, int]]) -> Records:
    """Records with sort_ids at these places of their bytes."""
    start, stop = np.array(spans, np.int64).reshape(-1, 2).T.copy()
    return replace(records, sort_start=start, sort_stop=stop)


def batch_records(parts: Iterable[Rows], size: int, shared: bool = True) -> list[Records]:
    """Rows as ExampleBatches, each a record."""
    batches = BatchBuilder(size, shared=shared)
    full = [record for rows in parts for record in batches.add(rows)]
    return [*full, *batches.finish()]


def read(records: list[Records]) -> list[ExampleBatch]:
    """Batches as protobuf reads them."""
    return [ExampleBatch.FromString(one.message(0)) for one in records]


JUDGES: dict[Kind, Callable[[list[bytes], int], Judged]] = {
    "example": examples_judged,
    "examplebatch": batches_judged,
    "instance": instances_judged,
}
