"""Unified records on disk: both forms, both ways, exact bytes, and what happens to bad input."""

import json
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingot.converters.errors import ConversionError, OutputError
from ingot.converters.records import writers
from ingot.converters.records.readers import read_batches, read_records
from ingot.converters.records.schema import PT_SCHEMA, SFT_SCHEMA, RecordKind, to_batch
from ingot.converters.records.writers import RecordFormat, RecordWriter, RejectWriter
from ingot.converters.rows import Reject

META = {
    "source": "书库",
    "language": "zh",
    "timestamp": "2024-05-01T00:00:00Z",
    "token_count": 2**40,
    "quality_score": 0.25,
    "original_id": "a/1",
}
NO_META = dict.fromkeys(META)
PT = [
    {"text": '  第一章\n\n床前明月光 \u2028 😀\x00 " \\ ', "meta": META},
    {"text": "", "meta": NO_META},
    {"text": "x" * 70_000, "meta": {**NO_META, "token_count": 0, "quality_score": 1.0}},
]
SFT: list[dict[str, Any]] = [
    {
        "messages": [
            {"role": "user", "content": "今天天气？", "loss_mask": False},
            {"role": "assistant", "content": '{"name": "get_weather"}', "loss_mask": True},
        ],
        "system": "你是助手",
        "tools": '[{"name": "get_weather"}]',
        "meta": META,
    },
    {
        "messages": [{"role": "assistant", "content": "hi", "loss_mask": True}],
        "system": None,
        "meta": NO_META,
    },
]
KINDS: list[tuple[RecordKind, list[dict[str, Any]], pa.Schema]] = [
    ("pt", PT, PT_SCHEMA),
    ("sft", SFT, SFT_SCHEMA),
]
FORMATS: list[RecordFormat] = ["parquet", "jsonl"]

per_kind = pytest.mark.parametrize(("kind", "rows", "schema"), KINDS, ids=["pt", "sft"])
per_format = pytest.mark.parametrize("form", FORMATS)


def write(
    folder: Path, rows: list[dict[str, Any]], kind: RecordKind, form: RecordFormat, part: int = 0
) -> Path:
    with RecordWriter(folder, kind=kind, format=form, part=part) as writer:
        writer.write(rows)
    assert writer.rows == len(rows)
    assert writer.bytes == writer.path.stat().st_size
    return writer.path


@per_kind
@per_format
def test_records_come_back_as_they_were(
    tmp_path: Path,
    kind: RecordKind,
    rows: list[dict[str, Any]],
    schema: pa.Schema,
    form: RecordFormat,
) -> None:
    write(tmp_path, rows, kind, form)
    assert list(read_records(tmp_path)) == rows
    table = pa.Table.from_batches(read_batches(tmp_path, rows=1))
    assert table.schema.equals(schema, check_metadata=True)
    assert table.num_rows == len(rows)


@per_kind
def test_parquet_states_its_schema_and_kind(
    tmp_path: Path, kind: RecordKind, rows: list[dict[str, Any]], schema: pa.Schema
) -> None:
    parquet = pq.ParquetFile(write(tmp_path, rows, kind, "parquet"))
    assert parquet.schema_arrow.equals(schema)
    assert parquet.metadata.metadata[b"ingot.record"] == kind.encode()
    columns = [parquet.metadata.row_group(0).column(i) for i in range(len(parquet.schema.names))]
    assert {column.compression for column in columns} == {"ZSTD"}


def test_jsonl_is_compact_utf8_with_keys_in_fixed_order(tmp_path: Path) -> None:
    shuffled = [dict(reversed(record.items())) for record in SFT]
    lines = write(tmp_path, shuffled, "sft", "jsonl").read_text("utf-8").splitlines()
    assert list(json.loads(lines[0])) == ["messages", "system", "tools", "meta"]
    assert lines[1] == (
        '{"messages":[{"role":"assistant","content":"hi","loss_mask":true}],"system":null,'
        '"meta":{"source":null,"language":null,"timestamp":null,"token_count":null,'
        '"quality_score":null,"original_id":null}}'
    )
    assert "今天天气？" in lines[0]


def test_a_whole_quality_score_is_a_double_in_both_forms(tmp_path: Path) -> None:
    record = {"text": "t", "meta": {**NO_META, "quality_score": 1}}
    for part, form in enumerate(FORMATS):
        write(tmp_path, [record], "pt", form, part)
    assert b'"quality_score":1.0' in (tmp_path / "part-00001.jsonl").read_bytes()
    assert [type(r["meta"]["quality_score"]) for r in read_records(tmp_path)] == [float, float]


@per_kind
def test_hugging_face_datasets_loads_from_parquet_what_jsonl_holds(
    tmp_path: Path,
    kind: RecordKind,
    rows: list[dict[str, Any]],
    schema: pa.Schema,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the library's own
        from datasets import load_dataset

        path = write(tmp_path, rows, kind, "parquet")
        loaded = load_dataset(
            "parquet", data_files=str(path), split="train", cache_dir=str(tmp_path / "cache")
        )
        found = loaded.to_list()
    assert loaded.column_names == schema.names
    lines = write(tmp_path, rows, kind, "jsonl").read_bytes().splitlines()
    assert [{k: v for k, v in r.items() if k != "tools" or v} for r in found] == [
        json.loads(line) for line in lines
    ]


@st.composite
def cut_records(draw: st.DrawFn) -> tuple[list[str], list[int]]:
    texts = draw(st.lists(st.text(max_size=20), min_size=1, max_size=30))
    cuts = draw(st.lists(st.integers(0, len(texts)), max_size=5))
    return texts, [0, *sorted(cuts), len(texts)]


@settings(deadline=None)  # it writes files
@given(case=cut_records(), form=st.sampled_from(FORMATS))
def test_bytes_do_not_depend_on_how_records_were_cut(
    tmp_path_factory: pytest.TempPathFactory, case: tuple[list[str], list[int]], form: RecordFormat
) -> None:
    texts, cuts = case
    rows = [{"text": text, "meta": META} for text in texts]
    folder = tmp_path_factory.mktemp("cut")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writers, "ROW_GROUP_ROWS", 7)
        patch.setattr(writers, "ROW_GROUP_BYTES", 40)
        patch.setattr(writers, "_HELD_ROWS", 3)
        whole = write(folder, rows, "pt", form, 0)
        with (
            RecordWriter(folder, kind="pt", format=form, part=1) as writer,
            RecordWriter(folder, kind="pt", format=form, part=2) as by_batches,
        ):
            for start, end in pairwise(cuts):
                writer.write(rows[start:end])
                by_batches.write_batch(to_batch(rows[start:end], "pt", where="t"))
                assert writer.bytes == by_batches.bytes  # parts end where they do
    assert writer.path.read_bytes() == whole.read_bytes() == by_batches.path.read_bytes()
    assert [r["text"] for r in read_records([whole])] == texts


def test_small_batches_become_large_row_groups(tmp_path: Path) -> None:
    with RecordWriter(tmp_path, kind="pt") as writer:
        for _ in range(25):
            writer.write([{"text": "a", "meta": NO_META}] * 1_000)
    metadata = pq.ParquetFile(writer.path).metadata
    sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    assert sizes == [10_000, 10_000, 5_000]


def test_long_texts_close_a_row_group_early(tmp_path: Path) -> None:
    with RecordWriter(tmp_path, kind="pt") as writer:
        for _ in range(5):
            writer.write([{"text": "a" * (8 << 20), "meta": NO_META}])
    assert pq.ParquetFile(writer.path).metadata.num_row_groups == 3


@per_format
def test_a_part_without_records_is_not_written(tmp_path: Path, form: RecordFormat) -> None:
    with RecordWriter(tmp_path, kind="pt", format=form) as writer:
        writer.write([])
    assert (writer.rows, writer.bytes, list(tmp_path.iterdir())) == (0, 0, [])
    assert list(read_records(tmp_path)) == []


@per_format
def test_a_failure_leaves_nothing(tmp_path: Path, form: RecordFormat) -> None:
    def convert() -> None:
        with RecordWriter(tmp_path, kind="pt", format=form) as writer:
            writer.write(PT)
            assert not writer.path.exists()
            raise ConversionError("raw", "the caller's own")

    with pytest.raises(ConversionError, match="own"):
        convert()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "record",
    [
        {"text": "no meta"},
        {"text": "lone \ud800 surrogate", "meta": META},
        {"text": "t", "meta": {**META, "token_count": 2**64}},
    ],
    ids=["missing key", "surrogate", "65 bits"],
)
@per_format
def test_a_record_that_does_not_fit_is_a_conversion_error(
    tmp_path: Path, record: dict[str, Any], form: RecordFormat
) -> None:
    with (
        pytest.raises(ConversionError, match="a pt record does not fit"),
        RecordWriter(tmp_path, kind="pt", format=form) as writer,
    ):
        writer.write([record])
    assert list(tmp_path.iterdir()) == []


@per_format
def test_a_folder_that_is_not_there_is_an_output_error(tmp_path: Path, form: RecordFormat) -> None:
    with pytest.raises(OutputError, match="cannot be written"):
        write(tmp_path / "missing", PT, "pt", form)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
@per_format
def test_a_full_disk_is_an_output_error(tmp_path: Path, form: RecordFormat) -> None:
    (tmp_path / f"part-00000.{form}.tmp").symlink_to("/dev/full")
    with pytest.raises(OutputError, match="No space left"):
        write(tmp_path, PT, "pt", form)
    assert list(tmp_path.iterdir()) == []


def test_parts_are_read_by_number_and_files_as_given(tmp_path: Path) -> None:
    second = write(tmp_path, PT[1:], "pt", "jsonl", 100_000)
    first = write(tmp_path, PT[:1], "pt", "parquet", 99_999)
    (tmp_path / "part-00002.parquet.tmp").write_bytes(b"unfinished")
    assert list(read_records(tmp_path)) == PT
    assert list(read_records([second, first])) == PT[1:] + PT[:1]


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        (
            "part-00000.jsonl",
            b'{"text": "a", "meta": {}}\n{"text": "b',
            r"\.jsonl: line 2: not JSON: ",
        ),
        ("part-00000.jsonl", b'{"id": 1}\n', "line 1: not an ingot record, it has neither"),
        ("part-00000.jsonl", b'{"text": "a"}\n', r"line 1: a pt record .*: meta is missing"),
        ("part-00000.jsonl", b"[1]\n", "line 1: not an ingot record but a list"),
        ("part-00000.parquet", b"PAR1 cut in half", "not a readable Parquet file"),
    ],
)
def test_what_is_no_record_file_is_said_to_be_none(
    tmp_path: Path, name: str, content: bytes, problem: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConversionError, match=problem):
        list(read_batches(tmp_path))


def test_a_missing_file_and_a_foreign_parquet_are_conversion_errors(tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match="no such file or folder"):
        list(read_records(tmp_path / "nowhere"))
    foreign = tmp_path / "raw.parquet"
    pq.write_table(pa.table({"text": ["a"]}), foreign)
    with pytest.raises(ConversionError, match="holds no ingot records"):
        list(read_batches(foreign))


def test_a_text_that_is_no_utf8_is_found(tmp_path: Path) -> None:
    text = pa.BinaryArray.from_buffers(
        pa.string(), 1, [None, pa.array([0, 2], pa.int32()).buffers()[1], pa.py_buffer(b"\xff\xfe")]
    )
    meta = pa.array([NO_META], PT_SCHEMA.field("meta").type)
    pq.write_table(pa.table([text, meta], schema=PT_SCHEMA), tmp_path / "part-00000.parquet")
    with pytest.raises(ConversionError, match=r"not a readable Parquet file: .*Invalid UTF8"):
        list(read_records(tmp_path))


def test_rejects_are_lines_with_their_place(tmp_path: Path) -> None:
    reject = Reject(
        file="a\udcff.json", row=7, element=2, reason="not_text", path="a.b", found="长" * 500
    )
    with RejectWriter(tmp_path, part=3) as writer:
        writer.write([])
        writer.write([reject])
        writer.write([Reject(file="b", row=0, element=None, reason="x", path=None, found=None)])
    lines = [json.loads(line) for line in writer.path.read_text("utf-8").splitlines()]
    assert writer.path.name == "part-00003.jsonl"
    assert writer.count == 2
    assert lines[0] == {
        "file": "a?.json",
        "row": 7,
        "element": 2,
        "reason": "not_text",
        "path": "a.b",
        "found": "长" * 200 + "…",
    }
    assert list(lines[0]) == ["file", "row", "element", "reason", "path", "found"]
    assert lines[1]["found"] is None


def test_no_rejects_no_file_and_a_failure_leaves_none(tmp_path: Path) -> None:
    def convert() -> None:
        reject = Reject(file="a", row=0, element=None, reason="bad_row", path=None, found=None)
        with RejectWriter(tmp_path) as writer:
            writer.write([reject])
            raise ConversionError("raw", "the caller's own")

    with RejectWriter(tmp_path):
        pass
    with pytest.raises(ConversionError, match="own"):
        convert()
    assert list(tmp_path.iterdir()) == []
