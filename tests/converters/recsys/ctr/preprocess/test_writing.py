"""Row groups of a file, however its rows come."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingot.converters.errors import OutputError
from ingot.converters.recsys.ctr.preprocess import row_files
from ingot.converters.recsys.ctr.preprocess.row_files import RowFile

SCHEMA = pa.schema(
    [
        pa.field("row_id", pa.int64(), nullable=False),
        pa.field("ids", pa.list_(pa.field("element", pa.int64(), nullable=False)), nullable=False),
    ],
    metadata={"ingot.ctr": "{}"},
)


def batch(first: int, rows: int) -> pa.RecordBatch:
    numbers = range(first, first + rows)
    lists = pa.array([[one] * (one % 4) for one in numbers], SCHEMA.field("ids").type)
    return pa.RecordBatch.from_arrays([pa.array(numbers, pa.int64()), lists], schema=SCHEMA)


def write(path: Path, sizes: list[int]) -> Path:
    """Write batches of so many rows; gives the file."""
    first = 0
    with RowFile(path, SCHEMA) as writer:
        for rows in sizes:
            writer.write(batch(first, rows))
            first += rows
        assert writer.rows == first
    return path


def groups(path: Path) -> list[int]:
    metadata = pq.read_metadata(path)
    return [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row groups of 5 rows."""
    monkeypatch.setattr(row_files, "GROUP_ROWS", 5)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], [0]),
        ([0, 0], [0]),
        ([4], [4]),
        ([5], [5]),
        ([1] * 6, [5, 1]),
        ([3, 0, 9, 4, 16], [5, 5, 5, 5, 5, 5, 2]),
        ([15], [5, 5, 5]),
    ],
)
def test_groups(tmp_path: Path, sizes: list[int], expected: list[int]) -> None:
    file = write(tmp_path / "rows.parquet", sizes)
    assert groups(file) in (expected, []), "an empty split may have a group of no rows, or none"
    table = pq.read_table(file)
    assert table.to_pylist() == pa.Table.from_batches([batch(0, sum(sizes))]).to_pylist()
    assert pq.read_schema(file).equals(SCHEMA, check_metadata=True)


@pytest.mark.usefixtures("small")
def test_bytes_do_not_depend_on_the_batches(tmp_path: Path) -> None:
    written = [
        write(tmp_path / str(number), sizes).read_bytes()
        for number, sizes in enumerate(([33], [1] * 33, [7, 0, 20, 6], [5, 5, 5, 5, 5, 5, 3]))
    ]
    assert all(one == written[0] for one in written)


def test_bytes_of_many_pages_do_not_depend_on_the_batches(tmp_path: Path) -> None:
    numbers = np.random.default_rng(5).integers(0, 1 << 40, (20_000, 40))
    ids = pa.FixedSizeListArray.from_arrays(numbers.ravel(), 40).cast(SCHEMA.field("ids").type)
    rows = pa.array(range(20_000), pa.int64())
    whole = pa.RecordBatch.from_arrays([rows, ids], schema=SCHEMA)
    written = []
    for step in (20_000, 3_000, 777):
        with RowFile(tmp_path / str(step), SCHEMA) as writer:
            for first in range(0, 20_000, step):
                writer.write(whole.slice(first, step))
        written.append((tmp_path / str(step)).read_bytes())
    assert all(one == written[0] for one in written)


def write_then(path: Path, disturb: Callable[[], object]) -> None:
    """Write a row group, do something, and write more."""
    with RowFile(path, SCHEMA) as writer:
        writer.write(batch(0, 7))
        disturb()
        writer.write(batch(7, 7))


@pytest.mark.usefixtures("small")
def test_a_failure_while_rows_are_made(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        write_then(tmp_path / "rows.parquet", lambda: 1 // 0)


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "none" / "rows.parquet"
    with pytest.raises(OutputError, match="cannot be written") as raised:
        RowFile(path, SCHEMA)
    assert str(path) in str(raised.value)
