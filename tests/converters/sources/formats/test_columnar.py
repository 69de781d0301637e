"""Parquet and Arrow: JSON values of every type, the table beside them, damage, saved data sets."""

import datetime as dt
import io
import json
import struct
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingot.converters.errors import SourceError
from ingot.converters.rows import Batch, Json
from ingot.converters.sources import Source, open_source

TABLE = pa.table({"id": pa.array(range(3000)), "text": [f"row {n}" for n in range(3000)]})


MAP = pa.map_(pa.string(), pa.int64())


def write_parquet(path: Path, table: pa.Table = TABLE, **options: Json) -> str:
    pq.write_table(table, path, **options)
    return str(path)


def write_arrow(path: Path, table: pa.Table = TABLE, *, stream: bool = True) -> str:
    new = pa.ipc.new_stream if stream else pa.ipc.new_file
    with pa.OSFile(str(path), "wb") as out, new(out, table.schema) as writer:
        writer.write_table(table, max_chunksize=500)
    return str(path)


def values(source: Source) -> list[Json]:
    return [value for batch in source.batches() for value in batch.values]


def one_column(tmp_path: Path, column: pa.Array) -> Batch:
    path = write_arrow(tmp_path / "a.arrow", pa.table({"x": column}))
    (batch,) = open_source(path).batches()
    return batch


@pytest.mark.parametrize("name", ["a.parquet", "a", "a.csv"])
def test_parquet_is_read_in_bounded_batches(tmp_path: Path, name: str) -> None:
    source = open_source(write_parquet(tmp_path / name, row_group_size=700))
    assert source.files[0].facts.rows == 3000
    batches = list(source.batches())
    assert max(len(batch.values) for batch in batches) <= 1024
    assert [row for batch in batches for row in batch.rows] == list(range(3000))
    assert [row for batch in batches for row in batch.values] == TABLE.to_pylist()
    assert pa.Table.from_batches([batch.table for batch in batches]).equals(TABLE)


@pytest.mark.parametrize("stream", [True, False])
def test_arrow_files_and_streams(tmp_path: Path, stream: bool) -> None:
    source = open_source(write_arrow(tmp_path / "a.bin", stream=stream))
    assert source.files[0].facts.format == "arrow"
    assert values(source) == TABLE.to_pylist()


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array(["a", None, "中"], pa.large_string()), ["a", None, "中"]),
        (pa.array(["a", None], pa.string_view()), ["a", None]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"]),
        (pa.array([b"a", None, "中".encode()]), ["a", None, "中"]),
        (pa.array([True, None]), [True, None]),
        (pa.array([2**63], pa.uint64()), [2**63]),
        (pa.array([1.5, float("nan"), float("inf"), None]), [1.5, None, None, None]),
        (pa.array([0.5, None], pa.float32()), [0.5, None]),
        (pa.array([[1.0, float("nan")], None]), [[1.0, None], None]),
        (
            pa.array([Decimal("3.00"), Decimal("0.25"), Decimal("0.1234567890123456789012345")]),
            [3, 0.25, "0.1234567890123456789012345"],
        ),
        (pa.array([10**30], pa.decimal128(38, 0)), [10**30]),
        (pa.array([dt.date(2020, 2, 29)]), ["2020-02-29"]),
        (pa.array([dt.datetime(2020, 1, 2, 3, 4, 5)], pa.timestamp("s")), ["2020-01-02T03:04:05"]),
        (
            pa.array([dt.datetime(2020, 1, 2, 3, 4, 5, 60, dt.UTC)], pa.timestamp("us", "UTC")),
            ["2020-01-02T03:04:05.00006+00:00"],
        ),
        (pa.array([1_000_000_001], pa.timestamp("ns")), ["1970-01-01T00:00:01.000000001"]),
        (pa.array([-1], pa.timestamp("ms")), ["1969-12-31T23:59:59.999"]),
        (pa.array([dt.time(1, 2, 3)], pa.time32("s")), ["01:02:03"]),
        (pa.array([dt.timedelta(seconds=90, milliseconds=5)]), ["PT90.005S"]),
        (pa.array([[("k", 1), ("l", None)]], MAP), [{"k": 1, "l": None}]),
        (
            pa.array([[{"when": 0, "role": "user"}]], pa.list_(
                pa.struct([("when", pa.timestamp("s")), ("role", pa.string())])
            )),
            [[{"when": "1970-01-01T00:00:00", "role": "user"}]],
        ),
        (pa.nulls(2), [None, None]),
    ],
)  # fmt: skip
def test_every_type_becomes_json(tmp_path: Path, column: pa.Array, expected: list[Json]) -> None:
    batch = one_column(tmp_path, column)
    found = [row["x"] for row in batch.values]
    assert found == expected
    assert [type(value) for value in found] == [type(value) for value in expected]
    assert json.loads(json.dumps(found, allow_nan=False)) == expected


@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Tokyo"])
@pytest.mark.parametrize(("unit", "per_second"), [("s", 1), ("ms", 10**3), ("us", 10**6)])
def test_times_of_the_calendar_and_others(
    tmp_path: Path, unit: str, per_second: int, zone: str | None
) -> None:
    first, last = -62_135_596_800, 253_402_300_799  # the seconds that Python's calendar has
    seconds = [first, last, 0, -1, *range(first, last, 4_000_000_001)]
    counts = [second * per_second + second % min(1000, per_second) for second in seconds]
    for others in ([], [(last + 1) * per_second]):  # which has them written one by one
        column = pa.array([*counts, *others, None], pa.int64()).cast(pa.timestamp(unit, zone))
        *found, last_one = [row["x"] for row in one_column(tmp_path, column).values]
        assert last_one is None
        for count, text in zip(counts, found, strict=False):
            second, part = divmod(count, per_second)
            when = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=second)
            fraction = f".{part / per_second:.6f}".replace("0.", "", 1).rstrip("0").rstrip(".")
            assert text == f"{when.isoformat()}{fraction}{'+00:00' if zone else ''}"


def test_binary_that_is_no_text_breaks_its_row_only(tmp_path: Path) -> None:
    batch = one_column(tmp_path, pa.array([b"good", b"\xff\xfe", None]))
    assert [row["x"] for row in batch.values] == ["good", None]
    assert [(bad.row, bad.reason) for bad in batch.bad] == [(1, "bad_row")]
    assert list(batch.rows) == [0, 2]


def test_text_that_is_not_utf8_breaks_its_row_only(tmp_path: Path) -> None:
    broken = pa.array([b"good", b"\xff\xfe", b"x"]).view(pa.string())
    batch = one_column(tmp_path, broken)
    assert [row["x"] for row in batch.values] == ["good", "x"]
    assert [bad.row for bad in batch.bad] == [1]


def test_columns_of_one_name_are_told_apart(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    path = write_arrow(tmp_path / "a.arrow", table)
    assert values(open_source(path)) == [{"a": 1, "a.1": 2}]


def test_an_empty_table_has_no_rows(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "a.parquet", TABLE.slice(0, 0))
    assert values(open_source(path)) == []


def test_a_damaged_column_is_an_error_after_the_rows_before(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(TABLE, path, row_group_size=1000, compression="zstd", use_dictionary=False)
    data = bytearray(path.read_bytes())
    column = pq.ParquetFile(path).metadata.row_group(2).column(1)
    start = column.data_page_offset
    data[start : start + 200] = bytes(200)
    path.write_bytes(bytes(data))
    seen: list[int] = []
    batches = open_source(str(path)).batches()
    with pytest.raises(SourceError, match=r"a\.parquet"):
        seen.extend(row["id"] for batch in batches for row in batch.values)
    assert len(seen) >= 1000
    assert seen == list(range(len(seen)))


def test_a_save_to_disk_folder(tmp_path: Path) -> None:
    """What `datasets.Dataset.save_to_disk` leaves: Arrow streams beside their own bookkeeping."""
    for split in ("train", "test"):
        (tmp_path / split).mkdir()
        write_arrow(tmp_path / split / "data-00000-of-00001.arrow")
        (tmp_path / split / "state.json").write_text('{"_data_files": []}')
        (tmp_path / split / "dataset_info.json").write_text("{}")
        write_arrow(tmp_path / split / "cache-1a2b.arrow")
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    source = open_source(str(tmp_path))
    names = [file.name for file in source.files]
    assert names == ["test/data-00000-of-00001.arrow", "train/data-00000-of-00001.arrow"]
    assert len(values(source)) == 6000


def test_a_folder_that_datasets_saved(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    rows = {"text": ["a", "b"], "n": [1, 2], "tags": [["x"], []]}
    datasets.Dataset.from_dict(rows).save_to_disk(str(tmp_path / "saved"))
    assert values(open_source(str(tmp_path / "saved"))) == [
        {"text": "a", "n": 1, "tags": ["x"]},
        {"text": "b", "n": 2, "tags": []},
    ]


def test_a_source_that_cannot_go_back_is_copied_aside() -> None:
    from ingot.converters.sources.formats.columnar_files import parquet_rows

    class Forward(io.BytesIO):
        def seekable(self) -> bool:
            return False

    held = io.BytesIO()
    pq.write_table(TABLE, held)
    stretches = parquet_rows(Forward(held.getvalue()), "test")
    assert sum(len(stretch.values) for stretch in stretches) == 3000


def views_of_one_text(count: int, size: int) -> pa.Array:
    text = b"x" * size
    views = b"".join(struct.pack("<i4sii", size, text[:4], 0, 0) for _ in range(count))
    return pa.Array.from_buffers(
        pa.string_view(), count, [None, pa.py_buffer(views), pa.py_buffer(text)]
    )


def lists_of_one_text(count: int, size: int) -> pa.Array:
    places = pa.py_buffer(struct.pack("<i", 0) * count)
    sizes = pa.py_buffer(struct.pack("<i", size) * count)
    kind = pa.list_view(pa.string())
    return pa.Array.from_buffers(
        kind, count, [None, places, sizes], children=[pa.array(["x"] * size)]
    )


SHARED: dict[str, Callable[[], pa.Array]] = {
    "views": lambda: views_of_one_text(6_000, 1 << 18),
    "lists": lambda: lists_of_one_text(3_000, 10_000),
    "dictionary": lambda: pa.DictionaryArray.from_arrays(
        pa.array([0] * 6_000, pa.int32()), pa.array(["x" * (1 << 18)])
    ),
    "runs": lambda: pa.RunEndEncodedArray.from_arrays(
        pa.array([1 << 30], pa.int32()), pa.array(["What is it?"])
    ),
    "inside": lambda: pa.StructArray.from_arrays([views_of_one_text(6_000, 1 << 18)], ["a"]),
}

READ_ALL = r"""
import re, sys
from pathlib import Path
from ingot.converters.errors import SourceError
from ingot.converters.sources import open_source
def peak():
    status = Path("/proc/self/status").read_text()
    return int(re.search("VmHWM:\s+(\d+)", status)[1]) >> 10
for path in sys.argv[1:]:
    rows, said = 0, ""
    try:
        for batch in open_source(path).batches():
            rows += len(list(batch.values))
            if rows > 1000:
                break
    except SourceError as error:
        said = str(error)
    print(rows, peak(), said)
"""


@pytest.mark.more
def test_rows_that_share_a_value_take_little_memory(tmp_path: Path) -> None:
    paths = [tmp_path / f"{kind}.arrow" for kind in SHARED]
    for path in paths:
        batch = pa.record_batch({"text": SHARED[path.stem]()})
        with pa.OSFile(str(path), "wb") as out, pa.ipc.new_file(out, batch.schema) as writer:
            writer.write_batch(batch)
    words = [sys.executable, "-c", READ_ALL, *map(str, paths)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == len(SHARED)
    for line in lines:
        rows, peak, said = line.split(" ", 2)
        assert int(peak) < 700, lines
        assert int(rows) > 1000 or "looks like a decompression bomb" in said, lines


@pytest.mark.parametrize("damage", ["no end mark", "two streams", "a text"])
def test_a_stream_ends_by_its_end_mark_and_with_the_file(tmp_path: Path, damage: str) -> None:
    out = io.BytesIO()
    table = pa.table({"text": [f"row {n}" for n in range(30)]})
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table, 10)
    data = out.getvalue()
    changed = {"no end mark": data[:-8], "two streams": data + data, "a text": data + b"more"}
    (tmp_path / "a.arrow").write_bytes(changed[damage])
    with pytest.raises(SourceError, match=r"a\.arrow: .*end mark"):
        list(open_source(str(tmp_path / "a.arrow")).batches())
    (tmp_path / "a.arrow").write_bytes(data + bytes(99))
    assert sum(len(one.values) for one in open_source(str(tmp_path / "a.arrow")).batches()) == 30


def test_runs_are_read_as_their_values(tmp_path: Path) -> None:
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["a", None]))
    batch = pa.record_batch({"text": runs})
    with (
        pa.OSFile(str(tmp_path / "a.arrow"), "wb") as out,
        pa.ipc.new_file(out, batch.schema) as to,
    ):
        to.write_batch(batch)
    (found,) = open_source(str(tmp_path / "a.arrow")).batches()
    assert list(found.values) == [{"text": "a"}, {"text": "a"}, {"text": None}]
