"""What streams are is told by their content; damaged ones are shown and counted all the same."""

import gzip
import io
import json
import random
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from ingot.converters.errors import SourceError
from ingot.converters.recsys.monolith import write_examples
from ingot.converters.recsys.monolith.frames.framing import Framing
from ingot.converters.recsys.monolith.inspect.counter import RowCounter
from ingot.converters.recsys.monolith.inspect.documents import row_cells, row_documents
from ingot.converters.recsys.monolith.record_index import Bad
from ingot.converters.recsys.monolith.streams import StreamHints, open_streams
from ingot.schemas.monolith.example_pb2 import Example
from ingot.schemas.monolith.instance_pb2 import Instance
from ingot.schemas.monolith.line_id_pb2 import LineId

GOLDEN = Path(__file__).parents[4] / "golden" / "monolith"
BATCH = (GOLDEN / "mono_examplebatch_sortid.pb").read_bytes()
PLAIN = (GOLDEN / "mono_example_plain.pb").read_bytes()
NOTHING = StreamHints()


def looked_at(place: Path, said: StreamHints = NOTHING) -> tuple[str, int, int]:
    """What a stream was read as, its rows and how much was bad; every row was shown."""
    told, rows, bad = "", 0, 0
    counting = RowCounter()
    for stream in open_streams(str(place), said):
        told = stream.told
        for part in stream.parts:
            if isinstance(part, Bad):
                counting.bad(stream.where, part)
                bad += 1
                continue
            rows += len(part)
            counting.add(part)
            for document in row_documents(part):
                assert list(row_cells(document))
                json.dumps(document, allow_nan=False)
    assert counting.figures().rows == rows
    return told, rows, bad


def framed(message: bytes) -> bytes:
    return struct.pack("<QQ", 0, len(message)) + message


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("plain", BATCH),
        ("named.gz", gzip.compress(BATCH)),
        ("unnamed", zstandard.compress(BATCH)),
        ("no_magic", zlib.compress(BATCH)),
    ],
)
def test_compressions_are_told(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    assert looked_at(tmp_path / name) == ("examplebatch, framing sort_id", 51, 0)


def test_snappy_without_a_name(tmp_path: Path) -> None:
    packed = io.BytesIO()
    write_examples(packed, [Example(label=[1], line_id=LineId(uid=1))] * 3, compression="snappy")
    (tmp_path / "it").write_bytes(packed.getvalue())
    told, rows, _ = looked_at(tmp_path / "it", StreamHints(kind="example", compression="snappy"))
    assert (told, rows) == ("example, framing sort_id", 3)


def test_instances(tmp_path: Path) -> None:
    instance = Instance(fid=[(7 << 54) | 1, 8 << 54], label=[1], line_id=LineId(uid=1))
    (tmp_path / "it").write_bytes(2 * framed(instance.SerializeToString()))
    assert looked_at(tmp_path / "it") == ("instance, framing sort_id", 2, 0)


def test_what_is_said_counts(tmp_path: Path) -> None:
    (tmp_path / "it").write_bytes(PLAIN)
    said = StreamHints(kind="example", framing=Framing())
    told, rows, bad = looked_at(tmp_path / "it", said)
    assert (told, rows, bad) == ("example, framing sort_id", 0, 1)


def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    (tmp_path / "it").write_bytes(b"")
    assert looked_at(tmp_path / "it") == ("empty", 0, 0)


@pytest.mark.parametrize("data", [b"a text\n" * 9, bytes(99)])
def test_what_cannot_be_told_is_an_error(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "it").write_bytes(data)
    with pytest.raises(
        SourceError, match="set `source` to example, examplebatch, instance or parquet"
    ):
        looked_at(tmp_path / "it")


def damaged(whole: bytes, seed: int) -> Iterator[bytes]:
    dice = random.Random(seed)
    while True:
        data = bytearray(whole)
        for _ in range(dice.randrange(1, 9)):
            at = dice.randrange(len(data))
            match dice.randrange(4):
                case 0:
                    data[at] = dice.randrange(256)
                case 1:
                    del data[at : at + dice.randrange(1, 40)]
                case 2:
                    data[at:at] = dice.randbytes(dice.randrange(1, 20))
                case _:
                    data = data[: at + 1]
        yield bytes(data)


@pytest.mark.more
@pytest.mark.parametrize(
    ("whole", "said"),
    [
        (BATCH, StreamHints(kind="examplebatch", framing=Framing())),
        (PLAIN[:9_000], StreamHints(kind="example", framing=Framing(sort_id=False))),
    ],
)
def test_damaged_streams(tmp_path: Path, whole: bytes, said: StreamHints) -> None:
    for number, data in zip(range(50), damaged(whole, len(whole)), strict=False):
        (tmp_path / "it").write_bytes(data)
        _, rows, bad = looked_at(tmp_path / "it", said)
        assert rows + bad > 0, number
