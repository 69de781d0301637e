"""Parquet files: row groups, damage."""

import io
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingot.converters.errors import SourceError
from ingot.converters.recsys.monolith.convert.settings import Counts
from ingot.converters.recsys.monolith.record_index import records_of_messages
from ingot.converters.recsys.monolith.tables import rows_to_arrow
from ingot.converters.recsys.monolith.tables.rows_to_arrow import (
    TableSink,
    open_table,
)
from ingot.converters.recsys.monolith.tables.schema import TableScan
from ingot.converters.recsys.monolith.wire.row_index import index_examples
from ingot.schemas.monolith.example_pb2 import Example
from tests.converters.recsys.monolith.made import decode_rows


def _written(to: Path, count: int) -> pa.RecordBatch:
    messages = [Example(label=[at]).SerializeToString() for at in range(count)]
    rows, _ = index_examples(records_of_messages(messages))
    scan = TableScan()
    scan.add(rows)
    schema = scan.schema()
    batch = decode_rows(rows, schema)
    sink = TableSink(to, schema, Counts())
    sink.write(batch)
    sink.write(batch.slice(0, 0))
    sink.close()
    return batch


def _batches(stream: BinaryIO, where: str = "a.parquet") -> list[pa.RecordBatch]:
    with open_table(stream, where) as (_, batches):
        return list(batches)


def test_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_to_arrow, "ROW_GROUP_ROWS", 40)
    batch = _written(tmp_path / "a.parquet", 100)
    file = pq.ParquetFile(tmp_path / "a.parquet")
    assert [file.metadata.row_group(at).num_rows for at in range(3)] == [40, 40, 20]
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"
    assert file.read().equals(pa.Table.from_batches([batch]))


def test_row_groups_by_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_to_arrow, "ROW_GROUP_BYTES", 1)
    messages = [Example(label=[at]).SerializeToString() for at in range(3)]
    rows, _ = index_examples(records_of_messages(messages))
    scan = TableScan()
    scan.add(rows)
    sink = TableSink(tmp_path / "a.parquet", scan.schema(), Counts())
    for at in range(3):
        sink.write(decode_rows(rows, scan.schema()).slice(at, 1))
    sink.close()
    assert pq.ParquetFile(tmp_path / "a.parquet").metadata.num_row_groups == 3


def test_batches_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = _written(tmp_path / "a.parquet", 100)
    monkeypatch.setattr(rows_to_arrow, "_READ_ROWS", 30)
    with (tmp_path / "a.parquet").open("rb") as stream:
        found = _batches(stream)
    assert [one.num_rows for one in found] == [30, 30, 30, 10]
    assert pa.Table.from_batches(found).equals(pa.Table.from_batches([batch]))
    monkeypatch.setattr(rows_to_arrow, "_READ_BYTES", 400)
    with (tmp_path / "a.parquet").open("rb") as stream:
        assert max(one.num_rows for one in _batches(stream)) < 100


def test_no_rows(tmp_path: Path) -> None:
    _written(tmp_path / "a.parquet", 0)
    with (tmp_path / "a.parquet").open("rb") as stream:
        assert sum(one.num_rows for one in _batches(stream)) == 0


def test_damage(tmp_path: Path) -> None:
    _written(tmp_path / "a.parquet", 100)
    content = (tmp_path / "a.parquet").read_bytes()
    with pytest.raises(SourceError, match=r"x\.parquet"):
        _batches(io.BytesIO(content[:-9]), "x.parquet")
    hurt = bytearray(content)
    hurt[4:60] = bytes(56)
    with (
        pytest.raises(SourceError, match=r"x\.parquet"),
        open_table(io.BytesIO(hurt), "x.parquet") as (_, batches),
    ):
        list(batches)
