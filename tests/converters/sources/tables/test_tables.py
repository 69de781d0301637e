"""Folders that are tables with a log: none of their files is read as a file of its own."""

import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingot.converters.sources import SourceSpec, open_source
from ingot.converters.sources.storage.listing import list_location
from ingot.converters.sources.tables.table_folders import read_tables

UUID = "0a1b2c3d-0000-4000-8000-00000000000f"
LOGS = {
    "Delta table": ("_delta_log/00000000000000000000.json", "part-0.snappy.parquet"),
    "Iceberg table": (f"metadata/00000-{UUID}.metadata.json", "data/00000-0.parquet"),
    "Hudi table": (".hoodie/hoodie.properties", "2026/part.parquet"),
}


def reason(kind: str) -> str:
    return f"part of {'an' if kind == 'Iceberg table' else 'a'} {kind}, which is not read"


def make_table(folder: Path, kind: str) -> list[str]:
    """A table of one file of rows and its log; the names below the folder."""
    names = list(LOGS[kind])
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / names[0]).write_text('{"commitInfo": {}}\n')
    pq.write_table(pa.table({"text": ["a deleted row"] * 20}), folder / names[1])
    return names


@pytest.mark.more  # with the libraries of all three, which say that the tables are none
@pytest.mark.parametrize("kind", LOGS)
def test_a_table_is_left_out_whole_and_named(tmp_path: Path, kind: str) -> None:
    names = make_table(tmp_path / "users", kind)
    (tmp_path / "plain.jsonl").write_text('{"text": "kept"}\n')
    source = open_source(str(tmp_path))
    assert [file.name for file in source.files] == ["plain.jsonl"]
    assert {one.name for one in source.left_out} == {f"users/{name}" for name in names}
    assert all(one.why.startswith(f"{reason(kind)}: cannot read") for one in source.left_out)


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        ("Delta table", "*.parquet"),
        ("Iceberg table", "data"),
        ("Iceberg table", "*/*.parquet"),
        ("Hudi table", "2026"),
    ],
)
def test_a_part_of_a_table_is_known_by_the_log_above_it(
    tmp_path: Path, kind: str, place: str
) -> None:
    make_table(tmp_path, kind)
    source = open_source(str(tmp_path / place))
    assert not source.files
    assert {one.why for one in source.left_out} == {reason(kind)}


def test_a_single_file_of_a_table_is_read_as_it_is(tmp_path: Path) -> None:
    name = make_table(tmp_path, "Delta table")[1]
    (batch,) = open_source(str(tmp_path / name)).batches()
    assert len(batch.values) == 20


def test_a_table_in_an_archive_is_left_out(tmp_path: Path) -> None:
    names = make_table(tmp_path / "users", "Delta table")
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for name in names:
            archive.write(tmp_path / "users" / name, f"users/{name}")
        archive.writestr("plain.jsonl", '{"text": "kept"}\n')
    source = open_source(str(tmp_path / "all.zip"))
    assert [file.name for file in source.files] == ["plain.jsonl"]
    assert len(source.left_out) == 2


@pytest.mark.parametrize(
    "name",
    [
        "_delta_log/notes.json",
        "metadata/film.metadata.json",
        "metadata/v1.json",
        "_versions/1.txt",
        "delta_log/00000000000000000000.json",
    ],
)
def test_names_that_are_only_alike_make_no_table(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).write_text('{"text": "kept"}\n')
    assert not read_tables(list_location(str(tmp_path))).closed
    assert len(open_source(str(tmp_path)).files) + len(open_source(str(tmp_path)).left_out) == 1


def test_files_that_are_stated_are_no_way_into_a_table(tmp_path: Path) -> None:
    make_table(tmp_path / "users", "Hudi table")
    assert not open_source(str(tmp_path), SourceSpec(files=("*.parquet",))).files
