"""Folders named `key=value` are columns of the rows below them."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from ingot.converters.convert.job import convert
from ingot.converters.mapping.bind import bind
from ingot.converters.sources import SourceSpec, open_source
from ingot.converters.sources.sample import draw_sample

TABLE = pa.table(
    {
        "text": [f"row {number}" for number in range(12)],
        "lang": ["en", "zh", None] * 4,
        "year": [2024, 2025] * 6,
        "size": pa.array([3_000_000_000, 7] * 6, pa.int64()),
    }
)


def rows_of(folder: Path) -> list[object]:
    return [row for batch in open_source(str(folder)).batches() for row in batch.values]


@pytest.mark.parametrize("form", ["parquet", "feather", "csv"])
def test_columns_are_those_that_arrow_reads(tmp_path: Path, form: str) -> None:
    keys = ["lang", "year", "size"]
    ds.write_dataset(
        TABLE,
        tmp_path,
        format=form,
        partitioning=keys,
        partitioning_flavor="hive",
        max_open_files=9,
    )
    read = ds.dataset(tmp_path, format=form, partitioning="hive").to_table().to_pylist()
    rows = rows_of(tmp_path)
    assert list(rows[0]) == ["text", *keys]
    assert sorted(rows, key=str) == sorted(read, key=str)
    source = open_source(str(tmp_path))
    assert sorted((one.value for one in draw_sample(source).rows), key=str) == sorted(read, key=str)
    small = draw_sample(source, rows=5, max_bytes=10)
    assert small.rows
    assert all(row.value in read for row in small.rows)


def test_values_of_lines_and_escapes(tmp_path: Path) -> None:
    for name, row in (("a=x%20y/b=01", {"t": 1, "a": "own"}), ("a=z/b=2", {"t": 2})):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "one.jsonl").write_text(json.dumps(row) + "\n")
    assert rows_of(tmp_path) == [{"t": 1, "a": "own", "b": 1}, {"t": 2, "a": "z", "b": 2}]


def test_tables_of_a_database_have_them_too(tmp_path: Path) -> None:
    for lang in ("en", "zh"):
        (tmp_path / f"lang={lang}").mkdir()
        with closing(sqlite3.connect(tmp_path / f"lang={lang}" / "a.db")) as base:
            base.executescript(f"CREATE TABLE t (text TEXT); INSERT INTO t VALUES ('{lang} 1')")
    wanted = [{"text": "en 1", "lang": "en"}, {"text": "zh 1", "lang": "zh"}]
    assert rows_of(tmp_path) == wanted
    assert [one.value for one in draw_sample(open_source(str(tmp_path))).rows] == wanted


def test_folders_that_differ_are_no_columns(tmp_path: Path) -> None:
    for name in ("a=1", "b=1", "plain"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "one.jsonl").write_text('{"t": 1}\n')
    assert rows_of(tmp_path) == [{"t": 1}] * 3


def test_a_mapping_reads_them(tmp_path: Path) -> None:
    for lang in ("en", "zh"):
        (tmp_path / "raw" / f"lang={lang}").mkdir(parents=True)
        table = pa.table({"text": [f"text {lang} {number}" for number in range(3)]})
        pq.write_table(table, tmp_path / "raw" / f"lang={lang}" / "part.parquet")
    source = open_source(str(tmp_path / "raw"), SourceSpec())
    convert(
        source,
        bind({"version": 2, "text": "text", "meta": {"language": "lang"}}, ()),
        tmp_path / "out",
    )
    (records,) = (tmp_path / "out" / "records").glob("*.parquet")
    found = [row["language"] for row in pq.read_table(records)["meta"].to_pylist()]
    assert found == ["en"] * 3 + ["zh"] * 3
