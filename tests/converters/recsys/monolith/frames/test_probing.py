"""What the beginning of a file reads as, and what it does not."""

import io
import random
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingot.converters.recsys.monolith.frames.framing import (
    FRAMINGS,
    HEAD,
    Framing,
    likely_framings,
    message_kind,
    reading_advice,
)
from ingot.converters.recsys.monolith.frames.record_io import frame_records
from ingot.converters.recsys.monolith.record_index import records_of_messages
from ingot.converters.sources.recognizers.monolith import Kind
from ingot.schemas.monolith import example_pb2, instance_pb2, line_id_pb2

Golden = Callable[[str], bytes]
Make = Callable[[int], bytes]


def batch(rows: int, lists: int) -> bytes:
    message = example_pb2.ExampleBatch(batch_size=rows)
    for number in range(lists):
        column = message.named_feature_list.add(name=f"f_{number}")
        for row in range(rows):
            column.feature.add().fid_v1_list.value.append(row)
    return message.SerializeToString()


def instance(number: int) -> bytes:
    message = instance_pb2.Instance(fid=[number, 2**60], label=[1.0])
    message.line_id.uid = number
    message.feature.add(name="f").float_value.append(0.5)
    return message.SerializeToString()


@pytest.mark.parametrize("size", [4_000, 20_000, HEAD])
@pytest.mark.parametrize(
    ("name", "framing", "kind"),
    [
        ("mono_example_plain.pb", "none", "example"),
        ("mono_example_sortid.pb", "sort_id", "example"),
        ("mono_example_lagrangex.pb", "sort_id", "example"),  # its keys are 0: the same bytes
        ("mono_examplebatch_sortid.pb", "sort_id", "examplebatch"),
    ],
)
def test_the_sample(golden: Golden, name: str, framing: str, kind: Kind, size: int) -> None:
    """Its beginning is enough, even of a record."""
    head = golden(name)[:size]
    found = likely_framings(head)
    assert found[0] == (Framing.parse(framing), kind)
    assert {one for _, one in found} == {kind}
    assert likely_framings(head, kind) == found


@pytest.mark.parametrize("framing", FRAMINGS, ids=str)
@pytest.mark.parametrize("kind", ["example", "examplebatch", "instance"])
def test_every_framing_and_kind(framing: Framing, kind: Kind, example: Make) -> None:
    make = {"example": example, "examplebatch": lambda n: batch(n + 2, 3), "instance": instance}
    messages = [make[kind](number) for number in range(20)]
    data = frame_records(records_of_messages(messages), framing, kind).tobytes()
    found = likely_framings(data)
    assert (framing, kind) in found
    assert {one for _, one in found} == {kind}
    same = [one for one, _ in found]
    assert all(
        frame_records(records_of_messages(messages), one, kind).tobytes() == data for one in same
    )


def test_keys_tell_a_lagrangex_header(example: Make) -> None:
    frames = [struct.pack("<BBHIQ", 1, 7, 9, 0, len(example(n))) + example(n) for n in range(5)]
    found = likely_framings(b"".join(frames))
    assert found[0] == (Framing.parse("lagrangex_header"), "example")


@pytest.mark.more
def test_a_batch_larger_than_what_is_looked_at() -> None:
    message = batch(400, 300)
    assert len(message) > 2 * HEAD
    data = frame_records(records_of_messages([message]), Framing(), "examplebatch").tobytes()
    assert likely_framings(data[:HEAD])[0] == (Framing(), "examplebatch")


def test_what_a_message_is() -> None:
    line = line_id_pb2.LineId(uid=1)
    assert message_kind(example_pb2.Example(line_id=line).SerializeToString()) == "example"
    assert message_kind(example_pb2.Example(label=[1.0]).SerializeToString()) is None
    assert message_kind(batch(1, 1)) == "examplebatch"
    assert message_kind(instance(5)) == "instance"
    for sort_id in (b"", b"123456", b"1700000000_42", b"\0" * 8, b"user:7", b"\t12345678"):
        assert message_kind(sort_id) is None


def parquet() -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"a": list(range(1_000)), "b": ["text"] * 1_000}), out)
    return out.getvalue()


def numbers() -> bytes:
    out = io.BytesIO()
    np.save(out, np.arange(1_000))
    return out.getvalue()


def tf_records(example: Make) -> bytes:
    rows = (example(number) for number in range(5))
    return b"".join(struct.pack("<QI", len(row), 7) + row + struct.pack("<I", 9) for row in rows)


def test_other_files_are_none(example: Make, repository: Path, golden: Golden) -> None:
    noise = random.Random(5)
    others = [
        b"",
        bytes(10_000),
        b"\xff" * 10_000,
        b'{"text": "a row"}\n' * 1_000,
        "标签\t文本\n".encode() * 1_000,
        (repository / "README.md").read_bytes(),
        parquet(),
        numbers(),
        np.arange(5_000, dtype=np.int64).tobytes(),
        np.arange(5_000, dtype=np.int32).tobytes(),
        np.ones(5_000, np.float32).tobytes(),
        tf_records(example),
        golden("example_batch.pb"),
        golden("example_batch.pbtxt"),
        *(noise.randbytes(noise.choice((8, 100, 5_000))) for _ in range(500)),
    ]
    assert [likely_framings(other[:HEAD]) for other in others] == [[] for _ in others]


def test_short_sizes_before_noise_are_none() -> None:
    """Frames that chain are not enough: messages have to name features."""
    noise = random.Random(6)
    for _ in range(500):
        messages = [noise.randbytes(noise.randint(1, 60)) for _ in range(3)]
        assert (
            likely_framings(
                frame_records(records_of_messages(messages), Framing(), "example").tobytes()
            )
            == []
        )


def test_advice(example: Make) -> None:
    data = frame_records(
        records_of_messages([example(1), example(2)]), Framing(sort_id=False), "example"
    ).tobytes()
    plain = Framing(sort_id=False)
    assert reading_advice(data, plain, "example") == ""
    assert reading_advice(data, Framing(), "example") == "it reads with framing none"
    assert reading_advice(data, plain, "examplebatch") == "it reads as example records"
    with_framing = "it reads as example records with framing none"
    assert reading_advice(data, Framing(), "instance") == with_framing
    assert reading_advice(b"noise" * 100, plain, "example") == ""
