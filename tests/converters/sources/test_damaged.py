"""Files that are damaged, that lie about themselves or that change while they are read."""

import io
import struct
from pathlib import Path

import pyarrow as pa
import pytest

from ingot.converters.errors import SourceError
from ingot.converters.sources import Source, open_source

ROWS = 40


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
