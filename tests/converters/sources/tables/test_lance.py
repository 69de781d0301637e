"""Lance tables, written by pylance: one version, fragment by fragment, in the table's order."""

import datetime as dt
import hashlib
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("lance", reason="lance is not installed: make test-more brings it")
import lance

from ingot.converters.convert.job import ConvertOptions, convert
from ingot.converters.errors import SourceError
from ingot.converters.json_yaml import load_json, validator
from ingot.converters.mapping.bind import bind
from ingot.converters.rows import Json
from ingot.converters.sources import Source, open_source
from ingot.converters.sources.sample import draw_sample

pytestmark = pytest.mark.more


def rows(source: Source) -> list[Json]:
    return [value for batch in source.batches() for value in batch.values]


def people(first: int, last: int) -> pa.Table:
    numbers = range(first, last)
    vectors = [[n / 2, 0.25] for n in numbers]
    return pa.table(
        {
            "id": list(numbers),
            "text": [f"text {n}" for n in numbers],
            "said": [[{"role": "user", "content": f"c{n}"}] * (n % 3) for n in numbers],
            "vector": pa.array(vectors, pa.list_(pa.float32(), 2)),
            "day": [dt.date(2026, 1, 1 + n % 9) for n in numbers],
        }
    )


def seen(first: int, last: int) -> list[Json]:
    return [{**row, "day": row["day"].isoformat()} for row in people(first, last).to_pylist()]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Version 4: 50 rows in three fragments, of which 5 are deleted and one has changed."""
    folder = tmp_path / "a b%20c" / "people"
    lance.write_dataset(people(0, 40), folder, max_rows_per_file=25)
    made = lance.write_dataset(people(40, 50), folder, mode="append")
    made.tags.create("stable", 2)
    made.delete("id < 5")
    made.update({"text": "'changed'"}, where="id = 49")
    return folder


def test_the_rows_are_those_of_the_current_version_in_its_order(table: Path) -> None:
    source = open_source(str(table))
    expected = seen(5, 50)
    expected[-1]["text"] = "changed"
    assert rows(source) == expected == lance_rows(table)
    assert [file.facts.rows for file in source.files] == [20, 15, 9, 1]
    assert not source.left_out  # not the files of its log either


def lance_rows(table: Path) -> list[Json]:
    found = lance.dataset(str(table)).to_table().to_pylist()
    return [{**row, "day": row["day"].isoformat()} for row in found]


@pytest.mark.parametrize(("version", "count"), [("1", 40), ("2", 50), ("stable", 50), ("3", 45)])
def test_a_former_version_can_be_named_by_number_and_tag(
    table: Path, version: str, count: int
) -> None:
    assert len(rows(open_source(f"{table}@{version}"))) == count


def test_a_version_can_be_named_by_its_time(table: Path) -> None:
    made = lance.dataset(str(table)).versions()[0]["timestamp"]
    when = made.astimezone(dt.UTC) + dt.timedelta(microseconds=1)
    assert len(rows(open_source(f"{table}@{when.isoformat()}"))) == 40
    assert len(rows(open_source(f"{table}@2100-01-01"))) == 45


@pytest.mark.parametrize("version", ["99", "0", "nope", "-1", "2020-01-01", "2026-13-01"])
def test_a_version_that_is_not_there_is_an_error_that_names_it(table: Path, version: str) -> None:
    with pytest.raises(SourceError, match=version):
        open_source(f"{table}@{version}")


def test_an_input_is_a_fragment_with_the_hash_of_its_files(table: Path, tmp_path: Path) -> None:
    mapping = bind({"version": 2, "text": "text", "meta": {"original_id": "id"}})
    options = ConvertOptions(overwrite=True)
    made = convert(open_source(str(table)), mapping, tmp_path / "out", options)
    assert made.manifest["rows"]["read"] == 45
    manifest = load_json(tmp_path / "out/manifest.json")
    validator("manifest").validate(manifest)
    (told,) = manifest["tables"]
    assert (told["folder"], told["kind"], told["version"]) == (".", "lance", 4)
    (first, *_) = lance.dataset(str(table)).get_fragments()
    parts = [table / "data" / first.data_files()[0].path, table / first.deletion_file()]
    data = b"".join(part.read_bytes() for part in parts)
    entry = manifest["inputs"][0]
    assert entry["name"] == f"fragment-000000-{parts[0].name}"
    assert (entry["bytes"], entry["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    again = convert(open_source(str(table)), mapping, tmp_path / "out", options)
    lance.dataset(str(table)).delete("id = 20")
    later = convert(open_source(str(table)), mapping, tmp_path / "out", options)
    assert (again.already_done, later.already_done) == (True, False)
    assert later.run["shards_taken_over"] == 0  # one shard, of which a fragment has changed
    assert later.manifest["rows"]["read"] == 44


def test_columns_that_came_later_lie_in_files_of_their_own(tmp_path: Path) -> None:
    made = lance.write_dataset(people(0, 20), tmp_path / "people")
    made.add_columns({"twice": "id * 2"})
    made.alter_columns({"path": "text", "name": "body"})
    source = open_source(str(tmp_path))
    assert [(row["twice"], row["body"]) for row in rows(source)] == [
        (2 * n, f"text {n}") for n in range(20)
    ]
    (file,) = source.files
    assert file.bytes == sum(one.stat().st_size for one in (tmp_path / "people/data").iterdir())


def test_values_that_look_like_a_compressed_file_are_values(tmp_path: Path) -> None:
    numbers = [int.from_bytes(b"\x1f\x8b\x08\0\0\0\0\0", "little")] * 2_000
    for number, version in enumerate(("legacy", "2.0", "stable")):
        data = pa.table({"n": numbers, "m": range(2_000)})
        folder = tmp_path / str(number)
        lance.write_dataset(data, folder, data_storage_version=version)
        assert rows(open_source(str(folder))) == data.to_pylist()


def test_a_sample_is_drawn_from_all_of_a_large_fragment(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    made = lance.write_dataset(people(0, 60_000).select(["id", "text"]), folder)
    made.delete("id % 3 = 0")
    sample = draw_sample(open_source(str(folder)), rows=300, max_bytes=20_000)
    left = [n for n in range(60_000) if n % 3]
    assert all(left[one.row] == one.value["id"] for one in sample.rows)
    assert max(one.row for one in sample.rows) > 20_000
    assert sample.total_rows == 40_000


def cut_manifest(table: Path) -> None:
    newest = min((table / "_versions").glob("*.manifest"))
    newest.write_bytes(newest.read_bytes()[:40])


def remove_data(table: Path) -> None:
    for file in (table / "data").iterdir():
        file.unlink()


def cut_data(table: Path) -> None:
    for file in (table / "data").iterdir():
        file.write_bytes(file.read_bytes()[:-9])


def remove_deletions(table: Path) -> None:
    shutil.rmtree(table / "_deletions")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (cut_manifest, "cannot read the version of the Lance table"),
        (remove_data, "a file of this version of the table is gone: data/"),
        (remove_deletions, "a file of this version of the table is gone: _deletions/"),
        (cut_data, "cannot read it: "),
    ],
)
def test_a_damaged_table_is_an_error_that_says_what(table: Path, spoil: Any, message: str) -> None:
    spoil(table)
    with pytest.raises(SourceError, match=message):
        rows(open_source(str(table)))


def test_a_version_that_is_not_there_is_an_error(table: Path) -> None:
    for version in ("9", "2020-01-01", "no such tag"):
        with pytest.raises(SourceError, match="cannot read the version"):
            open_source(f"{table}@{version}")


def test_a_clone_reads_no_files_of_another_table(table: Path, tmp_path: Path) -> None:
    made = lance.dataset(str(table))
    made.shallow_clone(str(tmp_path / "clone"), made.version)
    with pytest.raises(SourceError, match="files of another table"):
        open_source(str(tmp_path / "clone"))


def test_a_table_below_a_folder_is_read_and_a_damaged_one_left_out(
    table: Path, tmp_path: Path
) -> None:
    shutil.copytree(table, tmp_path / "spoilt")
    cut_manifest(tmp_path / "spoilt")
    source = open_source(str(tmp_path))
    assert len(rows(source)) == 45
    reasons = {one.why for one in source.left_out if one.name.startswith("spoilt/")}
    (why,) = reasons
    assert why.startswith("part of a Lance table, which is not read: cannot read the version")
