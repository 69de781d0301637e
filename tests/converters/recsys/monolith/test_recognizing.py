"""Streams of Monolith told by their beginning; nothing else is taken for one."""

import gzip
import io
import random
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from ingot.converters.sources.recognizers.monolith import MonolithStream, recognize_monolith
from ingot.schemas.monolith import example_pb2, instance_pb2, line_id_pb2

GOLDEN = Path(__file__).parents[3] / "golden" / "monolith"
FRAMES = {
    "sort_id": lambda sort_id, size: struct.pack("<Q", len(sort_id)) + sort_id + size,
    "none": lambda sort_id, size: size,
    "sort_id,kafka_dump": lambda sort_id, size: (
        struct.pack("<Q", len(sort_id)) + sort_id + b"\x01" * 8 + size
    ),
    "sort_id,kafka_dump_prefix": lambda sort_id, size: (
        bytes(16) + struct.pack("<Q", len(sort_id)) + sort_id + size
    ),
    "sort_id,kafka_dump,kafka_dump_prefix": lambda sort_id, size: (
        bytes(16) + struct.pack("<Q", len(sort_id)) + sort_id + bytes(8) + size
    ),
    "lagrangex_header": lambda sort_id, size: b"\x00\x12\x34\x56" + bytes(4) + size,
}


def line_id() -> line_id_pb2.LineId:
    return line_id_pb2.LineId(uid=7, req_time=1_700_000_000, sample_rate=0.5)


def example(number: int) -> bytes:
    made = example_pb2.Example(label=[1.0], line_id=line_id())
    made.named_feature.add(name=f"f_用户{number}").feature.fid_v1_list.value.extend([number << 54])
    made.named_feature.add(name="empty").feature.SetInParent()
    made.named_feature.add(name="one", id=3, sorted_id=2).feature.float_value = 0.5
    made.named_raw_feature.add(name="raw").raw_feature.feature.add().int64_value = 3
    return made.SerializeToString()


def batch(rows: int) -> bytes:
    made = example_pb2.ExampleBatch(batch_size=rows, data_source_key=256)
    named = made.named_feature_list.add(name="a", type=example_pb2.INDIVIDUAL)
    for row in range(rows):
        named.feature.add().fid_v2_list.value.append(row)
    shared = made.named_feature_list.add(name="b", type=example_pb2.SHARED)
    shared.feature.add().bytes_list.value.append(b"\xff")
    return made.SerializeToString()


def instance(number: int) -> bytes:
    made = instance_pb2.Instance(fid=[number, 1 << 60], label=[0.0], line_id=line_id())
    made.feature.add(name="f").float_value.append(1.0)
    return made.SerializeToString()


MESSAGES = {
    "example": [example(number) for number in range(6)],
    "examplebatch": [batch(rows) for rows in (1, 3, 2, 5)],
    "instance": [instance(number) for number in range(5)],
}


def stream(kind: str, framing: str, sort_id: bytes = b"u123") -> bytes:
    frame = FRAMES[framing]
    sizes = (struct.pack("<Q", len(one)) for one in MESSAGES[kind])
    return b"".join(
        frame(sort_id, size) + one for size, one in zip(sizes, MESSAGES[kind], strict=True)
    )


@pytest.mark.parametrize("framing", FRAMES)
@pytest.mark.parametrize("kind", MESSAGES)
def test_kind_and_framing(kind, framing):
    seen = recognize_monolith(stream(kind, framing))
    assert seen == MonolithStream(kind=kind, framing=framing, compression="none")


@pytest.mark.parametrize(
    ("name", "kind", "framing"),
    [
        ("mono_example_plain", "example", "none"),
        ("mono_example_sortid", "example", "sort_id"),
        ("mono_example_lagrangex", "example", "sort_id"),  # a header of 0 is an empty sort_id
        ("mono_examplebatch_sortid", "examplebatch", "sort_id"),
    ],
)
@pytest.mark.parametrize("size", [1_000, 30_000, 1 << 20])
def test_public_sample_by_any_beginning(name, kind, framing, size):
    head = (GOLDEN / f"{name}.pb").read_bytes()[:size]
    assert recognize_monolith(head) == MonolithStream(
        kind=kind, framing=framing, compression="none"
    )


def snapped(data: bytes) -> bytes:
    chunk = pa.Codec("snappy").compress(data, asbytes=True)
    return struct.pack(">II", len(data), len(chunk)) + chunk


def test_compressions_without_a_magic():
    data = stream("example", "sort_id")
    for compression, packed in (("zlib", zlib.compress(data)), ("snappy", snapped(data))):
        wanted = MonolithStream(kind="example", framing="sort_id", compression=compression)
        assert recognize_monolith(packed) == wanted
    assert recognize_monolith(snapped(data)[:-1]) is None
    assert recognize_monolith(zlib.compress(b"a text\n" * 100)) is None
    assert recognize_monolith(snapped(b"a text\n" * 100)) is None


def others() -> dict[str, bytes]:
    kept = io.BytesIO()
    np.save(kept, np.arange(9))
    dice = random.Random(7)
    return {
        "nothing": b"",
        "zeros": bytes(1 << 16),
        "text": b"a: 1\n" * 1000,
        "gzip": gzip.compress(b"text" * 100),
        "npy": kept.getvalue(),
        "message alone": MESSAGES["example"][0],
        "ids": np.arange(1000, dtype="<u8").tobytes(),
        "sizes": struct.pack("<Q", 9) + b"no message at all",
        "tfrecord": struct.pack("<QI", 10, 1) + MESSAGES["example"][0][:10] + bytes(4),
        "random": dice.randbytes(1 << 12),
        "size beyond the limit": struct.pack("<QQ", 0, 1 << 40) + MESSAGES["example"][0],
        "other message": struct.pack("<QQ", 0, 8) + b"\x0a\x06\x0a\x04\x08\x01\x10\x02",
    }


@pytest.mark.parametrize("name", others())
def test_others_are_none(name):
    assert recognize_monolith(others()[name]) is None


@pytest.mark.parametrize("kind", MESSAGES)
def test_changed_bytes_do_no_harm(kind):
    dice, whole = random.Random(kind), stream(kind, "sort_id")
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(dice.randrange(1, 6)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        recognize_monolith(bytes(data[: dice.randrange(len(data))]))


@pytest.mark.more
def test_needs_no_extra():
    """Neither protobuf nor numba is there in the core install."""
    script = f"""
import sys
for name in ("google.protobuf", "numba"):
    sys.modules[name] = None
from ingot.converters.sources.recognizers.monolith import recognize_monolith
from ingot.agent.steps import discover
print(recognize_monolith(open({str(GOLDEN / "mono_example_plain.pb")!r}, "rb").read(9999)).kind)
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == ("example\n", "")
