"""Whole conversions: the public sample, counts, rejects, and what is left behind by errors."""

import io
import json
import struct
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingot.converters.errors import ConversionError, OutputError, ParametersError, SourceError
from ingot.converters.recsys.monolith import ExampleBatchReader, read_examples
from ingot.converters.recsys.monolith.convert.job import convert
from ingot.converters.recsys.monolith.convert.settings import Filters, LabelTest, Settings
from ingot.converters.recsys.monolith.frames.framing import Framing
from ingot.converters.recsys.monolith.tables.table_file import parse_table_file
from ingot.schemas.monolith.example_pb2 import Example, ExampleBatch
from ingot.schemas.monolith.instance_pb2 import Instance

GOLDEN = Path(__file__).parents[4] / "golden" / "monolith"
BATCH = GOLDEN / "mono_examplebatch_sortid.pb"
SORT_ID, PLAIN = GOLDEN / "mono_example_sortid.pb", GOLDEN / "mono_example_plain.pb"
LAGRANGEX = GOLDEN / "mono_example_lagrangex.pb"


def settings(source, target, out_framing="sort_id", framing="sort_id", **how):
    framings = {"framing": Framing.parse(framing), "out_framing": Framing.parse(out_framing)}
    return Settings(source=source, target=target, **framings, **how)


def run(source, out, *args, overwrite=False, **how):
    return convert(str(source), str(out), settings(*args, **how), overwrite=overwrite)


def stream(messages, sort_ids=None):
    sort_ids = sort_ids or [b""] * len(messages)
    frames = zip(sort_ids, messages, strict=True)
    return b"".join(
        struct.pack("<Q", len(s)) + s + struct.pack("<Q", len(m)) + m for s, m in frames
    )


def written(path, messages, sort_ids=None):
    path.write_bytes(stream([m.SerializeToString() for m in messages], sort_ids))
    return path


def split(data, framing=16):
    """The messages of a stream whose frames have a head of so many bytes."""
    messages, at = [], 0
    while at < len(data):
        size = int.from_bytes(data[at + framing - 8 : at + framing], "little")
        messages.append(data[at + framing : at + framing + size])
        at += framing + size
    return messages


def test_the_batch_becomes_the_examples_that_protobuf_makes_of_it(tmp_path):
    for framing, golden, head in (
        ("sort_id", SORT_ID, 16),
        ("none", PLAIN, 8),
        ("lagrangex_header", LAGRANGEX, 16),
    ):
        out = tmp_path / "out.pb"
        done = run(BATCH, out, "examplebatch", "example", framing, overwrite=True)
        assert done.counts.rows == done.counts.written == done.counts.lacking == 51
        ours, theirs = split(out.read_bytes(), head), split(golden.read_bytes(), head)
        assert len(ours) == 51
        for mine, other in zip(ours, theirs, strict=True):
            # The LineId is copied as it came; protobuf puts its unknown fields last.
            assert Example.FromString(mine) == Example.FromString(other)
            assert len(mine) == len(other)
            assert Example.FromString(mine).SerializeToString() != mine
            at = other.index(b"\xa2\x06")  # the LineId's tag; all before it are features
            assert mine[:at] == other[:at]


@pytest.mark.parametrize("framing", ["sort_id", "none", "lagrangex_header"])
def test_reframing_copies_every_byte(framing, tmp_path):
    golden = {"sort_id": SORT_ID, "none": PLAIN, "lagrangex_header": LAGRANGEX}
    for name, path in golden.items():
        out = tmp_path / f"{name}.pb"
        run(path, out, "example", "example", framing, framing=name)
        assert out.read_bytes() == golden[framing].read_bytes()


@pytest.mark.parametrize("size", [1, 7, 51, 1000])
@pytest.mark.parametrize("shared", [True, False])
def test_examples_become_batches_and_examples_again(size, shared, tmp_path):
    batches, back = tmp_path / "batches.pb.snappy", tmp_path / "back.pb"
    how = {"batch_size": size, "shared": shared}
    done = run(SORT_ID, batches, "example", "examplebatch", **how)
    assert done.counts.batches == -(-51 // size)
    assert done.counts.filled == done.counts.early == 0
    read = list(ExampleBatchReader(batches))
    assert [batch.batch_size for batch in read][:-1] == [size] * (len(read) - 1)
    kinds = {one.type for batch in read for one in batch.named_feature_list}
    assert kinds == ({0, 1} if shared and size > 1 else {0})
    run(batches, back, "examplebatch", "example")
    assert back.read_bytes() == SORT_ID.read_bytes()


def test_the_sample_goes_through_a_table(tmp_path):
    table, back = tmp_path / "table.parquet", tmp_path / "back.pb"
    run(SORT_ID, table, "example", "parquet")
    read = pq.read_table(table)
    assert read.num_rows == 51
    assert read.column("__REQ_TIME__").null_count == 0
    run(table, back, "parquet", "example")
    before, after = read_examples(SORT_ID), read_examples(back)
    assert list(before) == list(after)


def test_a_folder_becomes_a_folder_of_tables_of_one_schema(tmp_path):
    raw, out, back = (tmp_path / name for name in ("raw", "out", "back"))
    (raw / "day=1").mkdir(parents=True)
    first, second = Example(label=[1]), Example(label=[0])
    first.named_feature.add(name="a").feature.fid_v2_list.value.append(1)
    second.named_feature.add(name="b").feature.float_list.value.append(0.5)
    written(raw / "day=1" / "x.pb", [first])
    written(raw / "y.pb.data", [second, second])
    (raw / "_SUCCESS").touch()
    (raw / "README.md").write_text("no data")
    done = run(raw, out, "example", "parquet")
    assert [one.made for one in done.streams] == ["day=1/x.parquet", "y.parquet"]
    schemas = [pq.read_schema(out / one.made) for one in done.streams]
    assert schemas[0] == schemas[1]
    assert schemas[0].names == ["__LABEL__", "a", "b"]
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["counts"]["written"] == 3
    assert [one["name"] for one in manifest["inputs"]] == ["day=1/x.pb", "y.pb.data"]
    again = run(raw, out, "example", "parquet")
    assert again.already_done
    assert again.counts == done.counts
    with pytest.raises(OutputError, match="options"):
        run(raw, out, "example", "examplebatch")
    run(out, back, "parquet", "example")
    found = [list(read_examples(back / name)) for name in ("day=1/x.pb", "y.pb")]
    assert found == [[first], [second, second]]


def test_names_that_would_be_one_are_told(tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    written(raw / "a.pb", [Example(label=[1])])
    written(raw / "a.data", [Example(label=[1])])
    with pytest.raises(SourceError, match=r"a\.data and a\.pb would both become a\.pb"):
        run(raw, tmp_path / "out", "example", "example", batch_size=3)


def bad_streams(tmp_path):
    good, other = Example(label=[1]), Example(label=[0])
    for one in (good, other):
        one.named_feature.add(name="f")
    record = [good.SerializeToString(), b"\x0a\xff", other.SerializeToString()]
    path = tmp_path / "bad.pb"
    path.write_bytes(stream(record) + b"\x00" * 8 + struct.pack("<Q", 0xFEFEFEFE) + b"rest")
    return path, [good, other]


def test_what_is_bad_is_told_and_counted(tmp_path):
    path, good = bad_streams(tmp_path)
    out = tmp_path / "out.pb"
    out.write_bytes(b"before")
    with pytest.raises(SourceError, match=r"record 1, at byte .*: a record is not a message"):
        run(path, out, "example", "example", overwrite=True)
    assert out.read_bytes() == b"before"
    assert not list(tmp_path.glob(".*"))
    done = run(path, out, "example", "example", skip_bad=True, overwrite=True)
    assert list(read_examples(out)) == good
    assert done.counts.rejects == {"deadbeef": 1, "message": 1}
    assert done.counts.rejected_records == 2
    lines = [json.loads(line) for line in done.rejects.read_text().splitlines()]
    assert [(one["record"], one["reason"], one["bytes"]) for one in lines] == [
        (1, "message", 0),
        (3, "deadbeef", 20),
    ]
    assert lines[0]["offset"] == 16 + len(good[0].SerializeToString())


def test_rows_of_a_batch_that_cannot_be_used(tmp_path):
    batch = ExampleBatch(batch_size=3)
    labels = batch.named_feature_list.add(name="__LABEL__")
    for value in (0.0, 1.0, 2.0):
        labels.feature.add().float_list.value.append(value)
    lines = batch.named_feature_list.add(name="__LINE_ID__")
    lines.feature.add().bytes_list.value.append(b"\x11" + bytes(8))
    lines.feature.add()  # an unset feature has no LineId
    lines.feature.add().bytes_list.value.append(b"\xff")
    wrong = ExampleBatch(batch_size=4)
    wrong.named_feature_list.add(name="f").feature.add()
    path = written(tmp_path / "b.pb", [batch, wrong])
    out = tmp_path / "out.pb"
    with pytest.raises(SourceError, match="record 0, row 1, at byte 0: __LINE_ID__ does not hold"):
        run(path, out, "examplebatch", "example")
    done = run(path, out, "examplebatch", "example", skip_bad=True)
    counts = done.counts
    assert (counts.rows, counts.written, counts.rejected_rows) == (3, 1, 2)
    assert counts.rejected_records == 1
    assert counts.rejects == {"batch_size": 1, "line_id": 2}
    (left,) = read_examples(out)
    assert list(left.label) == [0.0]


def test_line_ids_can_be_required(tmp_path):
    whole, lacking, none = Example(label=[1]), Example(label=[2]), Example(label=[3])
    whole.line_id.uid, whole.line_id.req_time, whole.line_id.sample_rate = 1, 2, 1.0
    lacking.line_id.uid = 1
    path, out = written(tmp_path / "a.pb", [whole, lacking, none]), tmp_path / "out.pb"
    done = run(path, out, "example", "example")
    assert done.counts.lacking == 2
    assert done.counts.written == 3
    how = {"require_line_id": True, "skip_bad": True}
    done = run(path, out, "example", "example", overwrite=True, **how)
    assert list(read_examples(out)) == [whole]
    assert done.counts.rejects == {"mandatory": 2}
    details = [json.loads(line)["detail"] for line in done.rejects.read_text().splitlines()]
    assert details == ["req_time, sample_rate", "uid, req_time, sample_rate"]


def test_counts_add_up_with_filters(tmp_path):
    examples = [Example(label=[at % 2], instance_weight=1) for at in range(10)]
    path, out = written(tmp_path / "a.pb", examples), tmp_path / "out.pb"
    filters = Filters(labels=(LabelTest.parse("0>0"),))
    done = run(path, out, "example", "examplebatch", filters=filters, batch_size=2)
    counts = done.counts
    assert counts.rows == 10 == counts.written + sum(counts.filtered.values())
    assert counts.filtered == {"label": 5}
    assert counts.batches == 3


def test_labels_are_never_written_twice(tmp_path):
    doubled, other = Example(label=[1]), Example(label=[1])
    for one, label in ((doubled, 1), (other, 2)):
        one.named_feature.add(name="__LABEL__").feature.float_list.value.append(label)
    path, out = written(tmp_path / "a.pb", [doubled, other]), tmp_path / "out.pb"
    done = run(path, out, "example", "example", skip_bad=True)
    assert list(read_examples(out)) == [Example(label=[1])]
    assert done.counts.rejects == {"twice": 1}


def test_a_lagrangex_header_holds_the_data_source_key(tmp_path):
    keys = [0x1200, 0x34]
    examples = [Example(label=[1], data_source_key=key) for key in keys]
    path, out = written(tmp_path / "a.pb", examples), tmp_path / "out.pb"
    done = run(path, out, "example", "example", "lagrangex_header", skip_bad=True)
    assert done.counts.rejects == {"data_source_key": 1}
    header = int.from_bytes(out.read_bytes()[:8], "little")
    assert header == 0x1200
    message = Example(label=[2]).SerializeToString()
    framed = struct.pack("<QQ", 0x5600, len(message)) + message
    path.write_bytes(framed)
    run(path, out, "example", "example", framing="lagrangex_header", overwrite=True)
    (found,) = read_examples(out)
    assert found.data_source_key == 0x5600


def test_sort_ids_stay_with_their_rows(tmp_path):
    examples = [Example(label=[at]) for at in range(1, 5)]
    ids = [b"u1", b"u1", b"u2", b""]
    path = written(tmp_path / "a.pb", examples, ids)
    copy, batches = tmp_path / "copy.pb", tmp_path / "b.pb"
    run(path, copy, "example", "example")
    assert copy.read_bytes() == path.read_bytes()
    done = run(path, batches, "example", "examplebatch", batch_size=2)
    assert done.counts.lost_sort_ids == 1
    assert batches.read_bytes()[:10] == struct.pack("<Q", 2) + b"u1"
    back = tmp_path / "back.pb"
    run(batches, back, "examplebatch", "example")
    assert back.read_bytes()[:10] == struct.pack("<Q", 2) + b"u1"


@pytest.mark.parametrize("framing", ["none", "kafka_dump", "lagrangex_header"])
@pytest.mark.parametrize("target", ["example", "examplebatch"])
def test_sort_ids_that_a_framing_has_no_place_for_are_counted(framing, target, tmp_path):
    examples = [Example(label=[at]) for at in range(1, 5)]
    path = written(tmp_path / "a.pb", examples, [b"u1", b"u1", b"u2", b""])
    if framing == "kafka_dump":
        framing = Framing(sort_id=False, kafka_dump=True)
    done = run(path, tmp_path / "out.pb", "example", target, framing, batch_size=2)
    assert (done.counts.written, done.counts.lost_sort_ids) == (4, 3)


def test_rows_that_no_batch_says_together_end_it_early(tmp_path):
    keys = [0x100, 0x100, 0x200, 0x200, 0x200]
    examples = [Example(label=[1], data_source_key=key) for key in keys]
    path, out = written(tmp_path / "a.pb", examples), tmp_path / "b.pb"
    done = run(path, out, "example", "examplebatch", batch_size=4)
    assert [one.batch_size for one in ExampleBatchReader(out)] == [2, 3]
    assert done.counts.early == 1
    back = tmp_path / "back.pb"
    run(out, back, "examplebatch", "example")
    assert list(read_examples(back)) == examples


def test_missing_features_are_filled_and_counted(tmp_path):
    one, other = Example(label=[1]), Example(label=[0])
    one.named_feature.add(name="a").feature.fid_v2_list.value.append(1)
    path, out = written(tmp_path / "a.pb", [one, other]), tmp_path / "b.pb"
    done = run(path, out, "example", "examplebatch")
    assert done.counts.filled == 1
    back = tmp_path / "back.pb"
    run(out, back, "examplebatch", "example")
    other.named_feature.add(name="a").feature.SetInParent()
    assert list(read_examples(back)) == [one, other]
    run(out, back, "examplebatch", "example", filters=Filters(drop_unset=True), overwrite=True)
    other.ClearField("named_feature")
    assert list(read_examples(back)) == [one, other]


def test_a_weight_of_one_row_does_not_weigh_others(tmp_path):
    examples = [Example(label=[1], instance_weight=0.5), Example(label=[0])]
    path, out = written(tmp_path / "a.pb", examples), tmp_path / "b.pb"
    run(path, out, "example", "examplebatch")
    (batch,) = ExampleBatchReader(out)
    weights = next(one for one in batch.named_feature_list if one.name == "instance_weight")
    # An unset one would be read as 1.
    assert [list(one.float_list.value) for one in weights.feature] == [[0.5], [0.0]]
    back = tmp_path / "back.pb"
    run(out, back, "examplebatch", "example")
    assert list(read_examples(back)) == examples


def test_instances_become_examples(tmp_path):
    fids = [(3 << 54) | 7, (5 << 54) | 1, (3 << 54) | 9]
    instance = Instance(fid=fids, value=[0.5], label=[1], dense=[1.0])
    instance.line_id.uid = 9
    instance.feature.add(name="fc_a").float_value.extend([1, 2])
    instance.feature.add(name="fc_b").fid_list.add().value.append(4)
    instance.feature.add(name="fc_c")
    path, out = written(tmp_path / "i.pb", [instance], [b"s"]), tmp_path / "out.pb"
    done = run(path, out, "instance", "example")
    assert done.counts.lost == {"dense": 1}
    expected = Example(label=[1], instance_weight=1)
    expected.line_id.uid = 9
    expected.named_feature.add(name="value", id=0).feature.float_list.value.append(0.5)
    for number, (name, values) in enumerate(
        {"fc_slot_3": [fids[0], fids[2]], "fc_slot_5": [fids[1]]}.items(), start=1
    ):
        expected.named_feature.add(name=name, id=number).feature.fid_v1_list.value.extend(values)
    expected.named_feature.add(name="fc_a", id=3).feature.float_list.value.extend([1, 2])
    lists = expected.named_feature.add(name="fc_b", id=4).feature.fid_v2_lists
    lists.list.add().value.append(4)
    expected.named_feature.add(name="fc_c", id=5).feature.SetInParent()
    assert list(read_examples(out)) == [expected]
    assert out.read_bytes()[:9] == struct.pack("<Q", 1) + b"s"


def test_a_table_of_raw_values_becomes_examples(tmp_path):
    table = pa.table(
        {
            "user": pa.array(["u1", None], pa.string()),
            "items": pa.array([[1, 2], []], pa.list_(pa.int64())),
            "price": pa.array([1.5, 2.5], pa.float32()),
            "ts": pa.array([10, 11], pa.int64()),
            "click": pa.array([1, 0], pa.int32()),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    out = tmp_path / "out.pb"
    how = parse_table_file("features: {a: {column: nowhere, slot: 1}}\n", "table.yaml")
    with pytest.raises(ParametersError, match="nowhere"):
        run(tmp_path / "t.parquet", out, "parquet", "example", table=how)
    text = """
features:
  user: {slot: 1, hash: xxh64}
  items: {slot: 2}
  price: {kind: float_list}
line_id: {req_time: ts}
label: [click]
"""
    how = parse_table_file(text, "table.yaml")
    run(tmp_path / "t.parquet", out, "parquet", "example", table=how)
    first, second = read_examples(out)
    assert list(first.label) == [1]
    assert first.line_id.req_time == 10
    by_name = {one.name: one.feature for one in first.named_feature}
    assert list(by_name["items"].fid_v2_list.value) == [(2 << 48) | 1, (2 << 48) | 2]
    assert [fid >> 48 for fid in by_name["user"].fid_v2_list.value] == [1]
    assert list(by_name["price"].float_list.value) == [1.5]
    assert "user" not in {one.name for one in second.named_feature}


def test_standard_input_and_output(tmp_path, monkeypatch, capfdbinary):
    source = tmp_path / "in.pb"
    source.write_bytes(SORT_ID.read_bytes())
    with source.open("rb") as stdin:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stdin))
        run("-", "-", "example", "example", "none")
        assert capfdbinary.readouterr().out == PLAIN.read_bytes()
        stdin.seek(0)
        monkeypatch.chdir(tmp_path)
        run("-", tmp_path / "t.parquet", "example", "parquet")
        assert pq.read_metadata(tmp_path / "t.parquet").num_rows == 51
        with pytest.raises(OutputError, match="standard input becomes one file"):
            run("-", f"{tmp_path}/", "example", "example")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.pb", "t.parquet"]


def test_what_cannot_go_together():
    with pytest.raises(ConversionError, match="batches of 0 rows"):
        settings("example", "examplebatch", batch_size=0)
    with pytest.raises(ConversionError, match="a table file for example streams"):
        settings("example", "example", table=parse_table_file("others: drop\n", "t.yaml"))


def test_a_stream_that_is_cut_off_inside_its_compression(tmp_path):
    whole, out = tmp_path / "a.pb.gz", tmp_path / "out.pb"
    rng = np.random.default_rng(0)
    examples = [Example(label=rng.random(50).tolist()) for _ in range(2000)]
    plain = written(tmp_path / "a.pb", examples)
    run(plain, whole, "example", "example")
    data = whole.read_bytes()
    whole.write_bytes(data[: len(data) // 2])
    with pytest.raises(SourceError, match="ends after"):
        run(whole, out, "example", "example")
    assert not out.exists()
    done = run(whole, out, "example", "example", skip_bad=True)
    assert done.counts.rejects == {"unreadable": 1}
    left = list(read_examples(out))
    assert left == examples[: len(left)]
    assert len(left) > 500


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (PLAIN.read_bytes(), "reads with framing none"),
        (b"no stream at all, " * 9, "no record can be used: 1 rejects"),
        (stream([b"\xff", b"\xff"]), "2 rejects, the first: record 0, at byte 0: a record is not"),
    ],
)
def test_skipping_everything_is_no_success(data, said, tmp_path):
    path, out = tmp_path / "a.pb", tmp_path / "out.pb"
    path.write_bytes(data)
    with pytest.raises(SourceError, match=said):
        run(path, out, "example", "example", skip_bad=True)
    assert not out.exists()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.pb"]


def test_another_kind_is_refused_also_where_bad_records_are_skipped(tmp_path):
    with pytest.raises(SourceError, match="of kind examplebatch, not example"):
        run(BATCH, tmp_path / "out.pb", "example", "example", skip_bad=True)


def test_rows_of_tables_are_counted_as_rows(tmp_path):
    table = pa.table({"f": pa.array([1, 1 << 63, None], pa.uint64())})
    pq.write_table(table, tmp_path / "t.parquet")
    out = tmp_path / "out.pb"
    with pytest.raises(SourceError, match=r"row [12]: a (cell|record)"):
        run(tmp_path / "t.parquet", out, "parquet", "example")
    done = run(tmp_path / "t.parquet", out, "parquet", "example", skip_bad=True)
    counts = done.counts
    assert (counts.rows, counts.written, counts.rejected_rows) == (3, 1, 2)
    assert counts.rejects == {"cell": 1, "empty": 1}
    assert counts.rejected_records == 0


def test_a_file_is_not_written_over_itself(tmp_path):
    path = tmp_path / "a.pb"
    path.write_bytes(SORT_ID.read_bytes())
    (tmp_path / "link.pb").symlink_to(path)
    with pytest.raises(OutputError, match="is the file that is read"):
        run(path, tmp_path / "link.pb", "example", "example", overwrite=True)
    assert path.read_bytes() == SORT_ID.read_bytes()


def test_what_a_killed_conversion_left_is_taken_over(tmp_path):
    left = [tmp_path / ".out.pb.ingot-tmp", tmp_path / ".out.pb.rejects.jsonl.ingot-tmp"]
    for path in left:
        path.write_bytes(b"half" * 100_000)
    run(SORT_ID, tmp_path / "out.pb", "example", "example")
    assert (tmp_path / "out.pb").read_bytes() == SORT_ID.read_bytes()
    assert not any(path.exists() for path in left)


@pytest.mark.more
def test_tables_whose_columns_the_first_rows_do_not_tell(tmp_path):
    """What was written with their columns, and what was rejected, is written anew."""
    raw, out, alone = tmp_path / "raw", tmp_path / "out", tmp_path / "alone"
    raw.mkdir()
    first = Example(named_feature=[{"name": "a", "feature": {"fid_v2_list": {"value": [7]}}}])
    other = Example(named_feature=[{"name": "b", "feature": {"float_list": {"value": [0.5]}}}])
    many = [first] * 100_000  # more than is read at a time
    (raw / "1.pb").write_bytes(stream([one.SerializeToString() for one in [*many, other]]))
    (raw / "2.pb").write_bytes(stream([b"\xff", *[other.SerializeToString()] * 3]))
    done = run(raw, out, "example", "parquet", skip_bad=True)
    assert (done.counts.rows, done.counts.written, done.counts.rejected_records) == (
        100_004,
    ) * 2 + (1,)
    assert len((out / "rejects.jsonl").read_text().splitlines()) == 1
    tables = [pq.read_table(out / name) for name in ("1.parquet", "2.parquet")]
    assert [table.column_names for table in tables] == [["a", "b"]] * 2
    assert [table.num_rows for table in tables] == [100_001, 3]
    assert tables[0]["a"].null_count == tables[0]["b"].null_count - 99_999 == 1
    run(raw / "1.pb", alone, "example", "parquet")
    assert alone.read_bytes() == (out / "1.parquet").read_bytes()


def test_what_is_no_parquet(tmp_path):
    with pytest.raises(SourceError, match="is not a Parquet file"):
        run(SORT_ID, tmp_path / "o.pb", "parquet", "example")
    table = tmp_path / "t.parquet"
    pq.write_table(pa.table({"f": [[1]]}), table)
    with pytest.raises(SourceError, match="it is a Parquet file: set `source` to parquet"):
        run(table, tmp_path / "o.pb", "example", "example")


def test_a_fid_of_any_bits_goes_through_a_table(tmp_path):
    example = Example(label=[1])
    example.named_feature.add(name="f").feature.fid_v2_list.value.append((1 << 64) - 1)
    path, table = written(tmp_path / "a.pb", [example]), tmp_path / "t.parquet"
    run(path, table, "example", "parquet")
    run(table, tmp_path / "back.pb", "parquet", "example")
    assert list(read_examples(tmp_path / "back.pb")) == [example]


@pytest.mark.parametrize("target", ["example", "examplebatch"])
def test_a_sort_id_of_a_table_can_be_too_large(target, tmp_path):
    ids = pa.array([b"u", b"u" * (1 << 17)], pa.binary())
    pq.write_table(pa.table({"f": [[1], [2]], "__SORT_ID__": ids}), tmp_path / "t.parquet")
    done = run(tmp_path / "t.parquet", tmp_path / "o.pb", "parquet", target, skip_bad=True)
    assert done.counts.rejects == {"sort_id": 1}
    assert done.counts.written == 1


def test_rows_of_many_features_end_a_batch(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "ingot.converters.recsys.monolith.wire.message_writer.MAX_BATCH_FEATURES", 10
    )
    examples = [Example(label=[1]) for _ in range(6)]
    for one in examples:
        for name in "abc":
            one.named_feature.add(name=name).feature.float_list.value.append(1)
    path, out = written(tmp_path / "a.pb", examples), tmp_path / "b.pb"
    done = run(path, out, "example", "examplebatch")
    assert [one.batch_size for one in ExampleBatchReader(out)] == [2, 2, 2]  # with __LABEL__ 4 each
    assert done.counts.early == 2


def test_an_unknown_field_does_not_become_a_field_of_the_batch(tmp_path):
    message = Example(label=[1]).SerializeToString()
    path = tmp_path / "a.pb"
    path.write_bytes(stream([message + b"\x18\x07", message + b"\xe0\x25\x07"]))  # fields 3, 604
    done = run(path, tmp_path / "b.pb", "example", "examplebatch", skip_bad=True)
    assert done.counts.rejects == {"unknown": 1}
    assert (done.counts.written, done.counts.rejected_rows) == (1, 1)
    (batch,) = ExampleBatchReader(tmp_path / "b.pb")
    assert batch.batch_size == 1
    run(tmp_path / "b.pb", tmp_path / "back.pb", "examplebatch", "example")
    (back,) = split((tmp_path / "back.pb").read_bytes())
    assert back == message + b"\xe0\x25\x07"
