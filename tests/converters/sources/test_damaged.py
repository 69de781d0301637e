"""Files that are damaged, that lie about themselves or that change while they are read."""

import gzip
import io
import os
import struct
import time
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingot.converters.errors import SourceError
from ingot.converters.sources import Source, open_source
from ingot.converters.sources.formats.delimited import column_names
from ingot.converters.sources.storage.listing import list_location

ROWS = 40
TEXTS = pa.table({"text": ["What is it?"] * ROWS})


def values(source: Source) -> list[object]:
    return [value for batch in source.batches() for value in batch.values]


def ipc_bytes(table: pa.Table, *, stream: bool = True) -> bytes:
    out = io.BytesIO()
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(out, table.schema) as writer:
        writer.write_table(table, max_chunksize=ROWS)
    return out.getvalue()


def with_offsets(data: bytes, old: list[int], new: list[int]) -> bytes:
    """The bytes with the last of some equal runs of 32 bit offsets replaced."""
    before = struct.pack(f"<{len(old)}i", *old)
    at = data.rindex(before)
    return data[:at] + struct.pack(f"<{len(new)}i", *new) + data[at + len(before) :]


def stray_texts(*, stream: bool = True) -> bytes:
    """Two batches of texts; offsets in the second one point behind its texts, but not the last."""
    table = pa.table({"text": ["abcde"] * (2 * ROWS - 1) + [None]})
    old = [5 * n for n in range(ROWS)] + [5 * (ROWS - 1)]
    new = [0, *(4096 + 16 * n for n in range(ROWS - 1)), 5 * (ROWS - 1)]
    return with_offsets(ipc_bytes(table, stream=stream), old, new)


def stray_list() -> bytes:
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), pa.array(["a", "b", "c"]))
    return with_offsets(ipc_bytes(pa.table({"x": lists})), [0, 1, 2, 3], [0, 1, 1_000_000, 3])


def stray_index() -> bytes:
    indices = pa.array([0, 1, 99_999, -7], pa.int32())
    column = pa.DictionaryArray.from_arrays(indices, pa.array(["a", "b"]), safe=False)
    return ipc_bytes(pa.table({"x": column}))


def stray_beside_bad_text() -> bytes:
    bad = pa.array([b"\xff"] * ROWS).view(pa.string())
    table = pa.table({"a": bad, "b": ["abcde"] * (ROWS - 1) + [None]})
    old = [5 * n for n in range(ROWS)] + [5 * (ROWS - 1)]
    return with_offsets(ipc_bytes(table), old, [0, *([4096] * (ROWS - 1)), 5 * (ROWS - 1)])


def negative_length() -> bytes:
    data = ipc_bytes(pa.table({"x": [{"a": 1, "b": "c"}] * ROWS}))
    at = data.rindex(struct.pack("<qq", ROWS, 0))
    return data[:at] + struct.pack("<q", -(1 << 50)) + data[at + 8 :]


@pytest.mark.parametrize(
    ("data", "number"),
    [
        (stray_texts(), 1),
        (stray_texts(stream=False), 1),
        (stray_list(), 0),
        (stray_index(), 0),
        (stray_beside_bad_text(), 0),
        (negative_length(), 0),
    ],
)
def test_a_damaged_arrow_batch_is_an_error_that_names_it(
    tmp_path: Path, data: bytes, number: int
) -> None:
    path = tmp_path / "a.arrow"
    path.write_bytes(data)
    source = open_source(str(path))
    with pytest.raises(SourceError, match=f"a.arrow: record batch {number} is damaged"):
        values(source)


def test_arrow_values_that_break_their_type_alone_are_read(tmp_path: Path) -> None:
    words = pa.array([b"ok", b"\xff"]).view(pa.string())
    table = pa.table(
        {
            "day": pa.array([12, 86_400_000], pa.int64()).view(pa.date64()),
            "words": pa.ListArray.from_arrays(pa.array([0, 1, 1], pa.int32()), words),
            "name": pa.DictionaryArray.from_arrays(pa.array([0, 0]), words, safe=False),
        }
    )
    path = tmp_path / "a.arrow"
    path.write_bytes(ipc_bytes(table))
    (batch,) = open_source(str(path)).batches()
    assert [row["name"] for row in batch.values] == ["ok", "ok"]
    path.write_bytes(ipc_bytes(table.slice(0, 1).select(["name"]).append_column("w", [words[1:]])))
    (batch,) = open_source(str(path)).batches()
    assert batch.bad[0].detail == "text that is not valid UTF-8"


def test_an_arrow_column_name_that_is_not_text_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    path.write_bytes(ipc_bytes(pa.table({"name": ["x"]})).replace(b"name", b"n\xffme"))
    with pytest.raises(SourceError, match=r"a\.arrow: cannot read its Arrow schema"):
        open_source(str(path))


GOOD = b"".join(b'{"question": "What is %d?", "answer": "It is %d."}\n' % (n, n) for n in range(30))


def test_a_zero_byte_costs_the_rows_it_stands_in(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(GOOD + b'{"question": "a\0b"}\n' + bytes(500) + b"\n" + GOOD)
    (tmp_path / "b.txt").write_bytes(b"A line of text.\n" * 30 + b"zero\0byte\n")
    table = b"".join(b"%d,number %d\n" % (n, n) for n in range(30))
    (tmp_path / "c.csv").write_bytes(b"id,name\n" + table + b"30,zero\0byte\n")
    counts = {}
    for name in ("a.jsonl", "b.txt", "c.csv"):
        found = list(open_source(str(tmp_path / name)).batches())
        bad = [one.row for batch in found for one in batch.bad]
        counts[name] = sum(len(batch.values) for batch in found), bad
    assert counts == {"a.jsonl": (60, [30, 31]), "b.txt": (30, [30]), "c.csv": (30, [30])}


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.arrow", ipc_bytes(TEXTS)[:4] + b"\x00\xff\xff\x7f" + ipc_bytes(TEXTS)[8:], "damaged"),
        ("a.parquet", bytes(range(256)), "damaged"),
        ("a.jsonl.gz", gzip.compress(gzip.compress(GOOD)), "a gz file inside another file"),
    ],
)
def test_a_file_that_is_not_what_its_name_says_is_an_error(
    tmp_path: Path, name: str, content: bytes, problem: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SourceError, match=problem):
        open_source(str(tmp_path / name))


def test_an_archive_inside_an_archive_is_named(tmp_path: Path) -> None:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("rows.jsonl", GOOD)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("in.zip", inner.getvalue())
    (left_out,) = open_source(str(tmp_path)).left_out
    assert left_out.why == "a zip file inside another file, which is not read: unpack it"


@pytest.mark.parametrize(
    "rest", [b"x\n" + b'"q1","a1"\n"q2","a2"\n' * 30, b"x\n" + b"q,a\n" * 3000]
)
def test_a_quote_without_an_end_costs_one_row(tmp_path: Path, rest: bytes) -> None:
    head = b'"q","a"\n' * 60 if b'"' in rest else b""
    (tmp_path / "a.csv").write_bytes(b"question,answer\n" + head + b'"unclosed,' + rest)
    found = list(open_source(str(tmp_path / "a.csv")).batches())
    assert [one.detail for batch in found for one in batch.bad] == ["a quoted field does not end"]
    values = [row for batch in found for row in batch.values]
    assert len(values) == head.count(b"\n") + rest.count(b"\n") - 1
    assert not any('"' in cell for row in values for cell in row.values())


def test_many_equal_column_names_take_linear_time() -> None:
    begun = time.process_time()
    names = column_names(["name"] * 100_000 + [""] * 100_000 + ["name.1"])
    assert time.process_time() - begun < 5  # 2,000 took 14 s
    assert names[99_999:100_001] == ("name.99999", "c100000")
    assert names[-1] == "name.1.1"
    assert len(set(names)) == len(names)


def test_a_folder_that_is_too_deep_is_left_out_or_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "good.jsonl").write_bytes(GOOD)
    monkeypatch.chdir(tmp_path)
    for _ in range(260):
        Path("d" * 20).mkdir()
        os.chdir("d" * 20)
    monkeypatch.chdir(tmp_path)
    listing = list_location(str(tmp_path), whole=False)
    assert [entry.name for entry in listing.entries] == ["good.jsonl"]
    (shut,) = listing.unreadable
    assert (shut.why, shut.dangling) == ("its path is too long or too deep", False)
    with pytest.raises(SourceError, match=r"…: its path is too long or too deep"):
        open_source(str(tmp_path))


@pytest.mark.more
@pytest.mark.parametrize(
    "kind", [pa.string(), pa.list_(pa.string()), pa.struct({"a": pa.string()})]
)
def test_a_long_value_that_a_dictionary_repeats_makes_short_batches(
    tmp_path: Path, kind: pa.DataType
) -> None:
    text = "a" * 1_000_000
    value = {"a": text} if pa.types.is_struct(kind) else [text] if pa.types.is_list(kind) else text
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": pa.array([value] * 300, kind)}), path, compression="zstd")
    assert path.stat().st_size < 3_000
    sizes = [len(batch.values) for batch in open_source(str(path)).batches()]
    assert sum(sizes) == 300
    assert max(sizes) <= 33  # of 1 MB: 300 in one batch before


def test_a_parquet_footer_that_cannot_be_as_long_as_it_says_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    with path.open("wb") as file:
        file.write(b"PAR1")
        file.truncate(1 << 33)
        file.seek(0, 2)
        file.write(struct.pack("<I", 0x7FFFFFFF) + b"PAR1")
    with pytest.raises(SourceError, match="its Parquet footer would have 2,147,483,647 bytes"):
        open_source(str(path))


def test_a_zip_member_without_a_name_is_left_out(tmp_path: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a", b"x")
        archive.writestr("rows.jsonl", GOOD)
    data = bytearray(out.getvalue())
    at = data.index(b"PK\x01\x02")
    struct.pack_into("<H", data, at + 28, 0)  # the name's length: its byte becomes a comment
    struct.pack_into("<H", data, at + 32, 1)
    (tmp_path / "a.zip").write_bytes(data)
    source = open_source(str(tmp_path))
    assert [(one.name, one.why) for one in source.left_out] == [
        ("a.zip/(no name)", "it has no name")
    ]
    assert len(values(source)) == 30
