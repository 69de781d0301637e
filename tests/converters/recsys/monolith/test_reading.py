"""The Python door: Examples and ExampleBatches in and out of files, folders and streams."""

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ingot.converters.recsys.monolith as monolith
from ingot.converters.errors import ConversionError, OutputError, SourceError
from ingot.converters.recsys.monolith import (
    ExampleBatchReader,
    Framing,
    read_examples,
    write_examples,
)
from ingot.converters.recsys.monolith.frames.framing import COMPRESSIONS, FRAMINGS, MAX_SORT_ID
from ingot.schemas.monolith import example_pb2, instance_pb2


@pytest.fixture
def golden(repository: Path) -> Path:
    return repository / "tests/golden/monolith"


def example(number: int) -> Any:
    message = example_pb2.Example(label=[number / 2])
    message.named_feature.add(name="f", id=3).feature.fid_v2_list.value.append(number)
    message.line_id.uid = number
    return message


def test_the_sample(golden: Path) -> None:
    examples = list(read_examples(golden / "mono_example_sortid.pb"))
    assert len(examples) == 51
    assert {len(one.named_feature) for one in examples} == {137}
    assert list(read_examples(golden / "mono_example_plain.pb", framing="none")) == examples
    header = Framing(sort_id=False, lagrangex_header=True)
    with (golden / "mono_example_lagrangex.pb").open("rb") as stream:
        assert list(read_examples(stream, framing=header)) == examples
        assert not stream.closed


def test_a_batch_and_its_rows(golden: Path) -> None:
    reader = ExampleBatchReader(golden / "mono_examplebatch_sortid.pb")
    (batch,) = reader
    wanted = example_pb2.ExampleBatch.FromString((golden / "example_batch.pb").read_bytes())
    assert batch == wanted
    assert batch.batch_size == 51
    examples = list(read_examples(golden / "mono_example_sortid.pb"))
    assert list(reader.examples()) == examples
    assert list(reader.examples()) == examples
    where = golden / "mono_examplebatch_sortid.pb"
    assert list(read_examples(str(where), kind="examplebatch")) == examples


def test_instances(tmp_path: Path) -> None:
    instance = instance_pb2.Instance(fid=[(7 << 54) + 5], label=[1.0])
    instance.line_id.uid = 9
    data = instance.SerializeToString()
    where = tmp_path / "instances"
    where.write_bytes(bytes(8) + len(data).to_bytes(8, "little") + data)
    (row,) = read_examples(where, kind="instance")
    assert row.line_id.uid == 9
    assert list(row.label) == [1.0]
    assert row.named_feature[0].name == "fc_slot_7"


@pytest.mark.parametrize("framing", FRAMINGS, ids=str)
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_what_is_written_is_read(tmp_path: Path, framing: Framing, compression: str) -> None:
    examples = [example(number) for number in range(300)]
    where = tmp_path / "stream"
    count = write_examples(where, examples, framing=framing, compression=compression)
    assert count == 300
    found = list(read_examples(where, framing=str(framing), compression=compression))
    assert found == examples


def test_the_compression_is_that_of_the_name(tmp_path: Path) -> None:
    for end, magic in ((".gz", b"\x1f\x8b"), (".zst", b"\x28\xb5\x2f\xfd"), (".pb", bytes(8))):
        where = tmp_path / f"stream{end}"
        write_examples(where, [example(1)])
        assert where.read_bytes().startswith(magic)
        assert list(read_examples(where)) == [example(1)]
    where = tmp_path / "part.snappy"
    write_examples(where, [example(1), example(2)])
    assert list(read_examples(where)) == [example(1), example(2)]


def test_sort_ids_and_keys(tmp_path: Path) -> None:
    where = tmp_path / "stream"
    write_examples(where, [example(1), example(2)], sort_ids=[b"u1", b""])
    size = len(example(1).SerializeToString())
    assert where.read_bytes()[:10] == (2).to_bytes(8, "little") + b"u1"
    assert where.read_bytes()[10:18] == size.to_bytes(8, "little")
    keyed = example(3)
    keyed.data_source_key = 0xABCD00
    write_examples(where, [keyed], framing="lagrangex_header")
    assert where.read_bytes()[:8] == bytes([0, 0xCD, 0xAB, 0, 0, 0, 0, 0])
    keyed.ClearField("data_source_key")
    data = bytes([0, 7, 0, 0, 0, 0, 0, 0]) + len(keyed.SerializeToString()).to_bytes(8, "little")
    stream = io.BytesIO(data + keyed.SerializeToString())
    (found,) = read_examples(stream, framing="lagrangex_header")
    assert found.data_source_key == 0x700


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"sort_ids": [b""]}, "example 1: has no sort_id"),
        ({"sort_ids": [b""] * 3}, "they are more than the Examples"),
        ({"sort_ids": [b""] * 2, "framing": "none"}, "the framing none has no sort_ids"),
        ({"sort_ids": [b"", bytes(MAX_SORT_ID + 1)]}, "record 1: has a sort_id of over"),
        ({"framing": "sortid"}, "'sortid' is not a framing"),
        ({"compression": "lz4"}, "'lz4' is unknown"),
    ],
)
def test_what_cannot_be_written(tmp_path: Path, options: Any, problem: str) -> None:
    where = tmp_path / "stream"
    where.write_bytes(b"what was there")
    with pytest.raises(ConversionError, match=problem):
        write_examples(where, [example(1), example(2)], **options)
    assert where.read_bytes() == b"what was there"
    assert list(tmp_path.iterdir()) == [where]


def test_examples_that_no_reader_takes(tmp_path: Path) -> None:
    empty = [example(1), example_pb2.Example()]
    with pytest.raises(ConversionError, match="example 1: is empty"):
        write_examples(tmp_path / "stream", empty)
    keyed = example_pb2.Example(data_source_key=1)
    with pytest.raises(ConversionError, match="record 0: has a data_source_key"):
        write_examples(tmp_path / "stream", [keyed], framing="lagrangex_header")
    assert not list(tmp_path.iterdir())


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    where = tmp_path / "stream"

    def some() -> Iterator[Any]:
        yield example(1)
        assert not where.exists()
        raise KeyError("the caller's own trouble")

    with pytest.raises(KeyError):
        write_examples(where, some())
    assert not list(tmp_path.iterdir())
    with pytest.raises(OutputError, match="cannot be written"):
        write_examples(tmp_path / "no" / "folder", [example(1)])
    with pytest.raises(OutputError, match="is not a local file"):
        write_examples("s3://bucket/stream", [example(1)])


def test_a_folder_is_read_by_name_without_what_is_hidden(tmp_path: Path) -> None:
    for number, name in enumerate(("part-b", "part-a.gz", "deeper/part-0")):
        where = tmp_path / name
        where.parent.mkdir(exist_ok=True)
        write_examples(where, [example(number)])
    (tmp_path / "_SUCCESS").write_bytes(b"")
    (tmp_path / ".part-b.crc").write_bytes(b"crc\0")
    (tmp_path / ".unfinished").mkdir()
    (tmp_path / ".unfinished" / "part").write_bytes(b"half")
    (tmp_path / "README.md").write_bytes(b"# Streams")
    assert [one.line_id.uid for one in read_examples(tmp_path)] == [2, 1, 0]
    assert [one.line_id.uid for one in read_examples(f"{tmp_path}/part-*")] == [1, 0]
    assert list(read_examples(f"file://{tmp_path}/part-b")) == [example(0)]


def test_many_megabytes(tmp_path: Path) -> None:
    """More than is held at a time, read and written."""
    large = example(1)
    large.named_feature.add(name="b").feature.bytes_list.value.append(bytes(1 << 20))
    out = io.BytesIO()
    assert write_examples(out, (large for _ in range(10))) == 10
    assert not out.closed
    out.seek(0)
    assert sum(one == large for one in read_examples(out)) == 10


def test_standard_streams(monkeypatch: pytest.MonkeyPatch, capfdbinary: Any) -> None:
    write_examples("-", [example(1)])
    data = capfdbinary.readouterr().out
    stream = io.TextIOWrapper(io.BytesIO(data))
    monkeypatch.setattr(sys, "stdin", stream)
    assert list(read_examples("-")) == [example(1)]
    assert not stream.buffer.closed


def damaged(tmp_path: Path) -> Path:
    """A good Example, an empty record, one that is no message, a good one, and a cut one."""
    where = tmp_path / "stream"
    write_examples(where, [example(1), example(2)])
    one = where.read_bytes()[: where.stat().st_size // 2]
    no_message = bytes(8) + (3).to_bytes(8, "little") + b"\xff\xff\xff"
    where.write_bytes(one + bytes(16) + no_message + one + one[:-1])
    return where


def test_what_is_bad_is_an_error_that_says_where(tmp_path: Path) -> None:
    where = damaged(tmp_path)
    size = len(example(1).SerializeToString()) + 16
    reader = read_examples(where)
    assert next(reader) == example(1)
    with pytest.raises(SourceError) as caught:
        next(reader)
    text = str(caught.value)
    assert text.startswith(f"{where}: record 1, at byte {size}: a record is empty: its size is 0")
    assert text.endswith("(set `skip_bad` to skip what cannot be used)")


def test_what_is_bad_is_counted(tmp_path: Path) -> None:
    reader = read_examples(damaged(tmp_path), skip_bad=True)
    assert list(reader) == [example(1), example(1)]
    assert reader.rejects == {"empty": 1, "message": 1, "truncated": 1}


def test_bad_batches_are_counted() -> None:
    batch = example_pb2.ExampleBatch(batch_size=1)
    batch.named_feature_list.add(name="f").feature.add().fid_v2_list.value.append(1)
    frames = [batch.SerializeToString(), b"", b"\xff\xff", batch.SerializeToString()]
    data = b"".join(len(one).to_bytes(8, "little") + one for one in frames)
    reader = ExampleBatchReader(io.BytesIO(data[:-1]), framing="none", skip_bad=True)
    assert list(reader) == [batch]
    assert reader.rejects == {"empty": 1, "message": 1, "truncated": 1}


def test_another_framing_is_named(golden: Path) -> None:
    with pytest.raises(SourceError, match="it reads with framing sort_id"):
        list(read_examples(golden / "mono_example_sortid.pb", framing="none"))
    with pytest.raises(SourceError, match="it reads with framing none"):
        list(read_examples(golden / "mono_example_plain.pb"))


def test_what_is_no_message_is_advised_on(tmp_path: Path) -> None:
    where = tmp_path / "stream"
    write_examples(where, [example(1)] * 3, sort_ids=[b"\xff"] * 3)
    with pytest.raises(SourceError, match=r"record 0, at byte 0: .*; it reads with framing s"):
        list(read_examples(where, framing="none"))


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no such file or folder"):
        list(read_examples(tmp_path / "nothing"))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        monolith.nothing  # noqa: B018


def test_the_package_says_what_it_has() -> None:
    for name in monolith.__all__:
        assert getattr(monolith, name) is not None
