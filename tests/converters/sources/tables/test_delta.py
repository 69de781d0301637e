"""Delta tables, written by deltalake or by the words of the protocol: one version, as it is."""

import datetime as dt
import shutil
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("deltalake", reason="deltalake is not installed: make test-more brings it")
from deltalake import DeltaTable, write_deltalake

from ingot.agent.steps.discover import _no_data_proposal
from ingot.converters.convert.job import ConvertOptions, convert
from ingot.converters.errors import SourceError
from ingot.converters.json_yaml import load_json, validator
from ingot.converters.mapping.bind import bind
from ingot.converters.rows import Json
from ingot.converters.sources import Source, open_source
from ingot.converters.sources.sample import draw_sample
from tests.converters.sources.tables.delta_log import add_file, begin_table, mark_deleted, renamed

pytestmark = pytest.mark.more


def rows(source: Source) -> list[Json]:
    return [value for batch in source.batches() for value in batch.values]


def people(first: int, last: int) -> pa.Table:
    """Rows of two partitions, told by the number."""
    numbers = range(first, last)
    return pa.table(
        {
            "id": list(numbers),
            "text": [f"text {n}" for n in numbers],
            "lang": ["en" if n % 2 else "de" for n in numbers],
        }
    )


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """40 rows of which ten were deleted and one changed: 100 rows lie in its files."""
    folder = tmp_path / "people"
    write_deltalake(folder, people(0, 20), partition_by=["lang"])
    write_deltalake(folder, people(20, 40), mode="append")
    DeltaTable(folder).delete("id < 10")
    DeltaTable(folder).update(predicate="id = 11", updates={"text": "'changed'"})
    return folder


def test_the_rows_are_those_of_the_current_version(table: Path) -> None:
    source = open_source(str(table))
    expected = people(10, 40).to_pylist()
    expected[1]["text"] = "changed"
    assert sorted(rows(source), key=lambda row: row["id"]) == expected
    assert {one.why for one in source.left_out} == {"not in version 3 of its Delta table"}
    assert all(one.name.endswith(".parquet") for one in source.left_out)  # and no file of its log
    assert source.name == "people"


def test_a_table_without_rows_leaves_nothing_out(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "people", people(0, 20).slice(0, 0))
    source = open_source(str(tmp_path / "people"))
    assert (source.files, source.left_out) == ((), ())
    assert (
        _no_data_proposal(source).reason == "There is no data file: the table or archive is empty."
    )


@pytest.mark.parametrize(("version", "count"), [("0", 20), ("1", 40), ("2", 30)])
def test_a_former_version_can_be_named(table: Path, version: str, count: int) -> None:
    assert len(rows(open_source(f"{table}@{version}"))) == count


def test_a_version_can_be_named_by_its_time(table: Path) -> None:
    made = DeltaTable(table).history()[-1]["timestamp"]  # of version 0, in milliseconds
    when = dt.datetime.fromtimestamp(made / 1000, dt.UTC).isoformat(timespec="milliseconds")
    assert len(rows(open_source(f"{table}@{when}"))) == 20


def test_a_manifest_names_the_version_and_a_later_one_is_converted(
    table: Path, tmp_path: Path
) -> None:
    mapping = bind({"version": 2, "text": "text", "meta": {"original_id": "id"}})
    options = ConvertOptions(overwrite=True)
    made = convert(open_source(str(table)), mapping, tmp_path / "out", options)
    assert made.manifest["records"]["written"] == made.manifest["rows"]["read"] == 30
    known = {"folder": ".", "kind": "delta", "id": str(DeltaTable(table).metadata().id)}
    assert manifest(tmp_path)["tables"] == [{**known, "version": 3}]
    again = convert(open_source(str(table)), mapping, tmp_path / "out", options)
    DeltaTable(table).delete("id = 20")
    later = convert(open_source(str(table)), mapping, tmp_path / "out", options)
    assert (again.already_done, later.already_done) == (True, False)
    assert manifest(tmp_path)["tables"] == [{**known, "version": 4}]
    assert later.manifest["rows"]["read"] == 29


def manifest(folder: Path) -> Json:
    found = load_json(folder / "out/manifest.json")
    validator("manifest").validate(found)
    return found


def test_partitions_have_the_types_and_names_of_the_table(tmp_path: Path) -> None:
    days = [dt.date(2026, 1, 1), None, dt.date(2026, 1, 2)]
    names = ["a b%/é", "x=y", "."]
    made = pa.table({"id": [1, 2, 3], "day": pa.array(days, pa.date32()), "k": names})
    write_deltalake(tmp_path, made, partition_by=["k", "day"])
    found = sorted(rows(open_source(str(tmp_path))), key=lambda row: row["id"])
    assert [row["day"] for row in found] == ["2026-01-01", None, "2026-01-02"]
    assert [row["k"] for row in found] == names


def test_a_column_that_came_later_is_null_in_former_files(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"id": [1]}))
    later = pa.table({"id": [2], "said": [[{"role": "user", "content": "hello"}]]})
    write_deltalake(tmp_path, later, mode="append", schema_mode="merge")
    found = sorted(rows(open_source(str(tmp_path))), key=lambda row: row["id"])
    assert found == [{"id": 1, "said": None}, *later.to_pylist()]


FIELDS = [
    renamed("id", "long", "col-1", 1),
    renamed(
        "said",
        {
            "type": "array",
            "containsNull": True,
            "elementType": {
                "type": "struct",
                # Names that change places: equal types do not say that nothing is renamed.
                "fields": [renamed("a", "string", "b", 3), renamed("b", "string", "a", 4)],
            },
        },
        "col-2",
        2,
    ),
    renamed("lang", "string", "col-9", 9),
]


def stored(first: int, last: int) -> pa.Table:
    said = [
        None if n % 5 == 0 else [{"a": f"a{n}", "b": f"b{n}"}] * (n % 3) for n in range(first, last)
    ]
    return pa.table({"col-1": list(range(first, last)), "col-2": said})


def seen(number: int, lang: str | None) -> dict[str, Json]:
    said = None if number % 5 == 0 else [{"a": f"b{number}", "b": f"a{number}"}] * (number % 3)
    return {"id": number, "said": said, "lang": lang}


def test_columns_are_renamed_and_deleted_rows_are_gone(tmp_path: Path) -> None:
    begin_table(tmp_path, FIELDS, ["lang"])
    add_file(tmp_path, "1.parquet", stored(0, 50), {"col-9": "de"}, [0, 7, 8, 49], row_group_size=7)
    add_file(tmp_path, "2.parquet", stored(50, 60), {"col-9": None})
    source = open_source(str(tmp_path))
    left = [n for n in range(50) if n not in (0, 7, 8, 49)]
    expected = [*(seen(n, "de") for n in left), *(seen(n, None) for n in range(50, 60))]
    assert rows(source) == expected
    assert [file.facts.rows for file in source.files] == [46, 10]
    assert source.files[0].facts.columns == ("id", "said", "lang")
    numbers = [row for batch in source.batches() for row in batch.rows]
    assert numbers == [*range(46), *range(10)]


def test_fields_within_maps_are_renamed(tmp_path: Path) -> None:
    inner = {"type": "struct", "fields": [renamed("a", "string", "b", 3)]}
    kind = {"type": "map", "keyType": "string", "valueType": inner, "valueContainsNull": True}
    begin_table(tmp_path, [renamed("m", kind, "col-1", 1)], [])
    arrow = pa.map_(pa.string(), pa.struct([("b", pa.string())]))
    cells = [[("k", {"b": "x"})], None, [], [("k", {"b": "y"}), ("l", {"b": "z"})]]
    add_file(tmp_path, "1.parquet", pa.table({"col-1": pa.array(cells, arrow)}), {}, [0])
    assert rows(open_source(str(tmp_path))) == [
        {"m": None},
        {"m": {}},
        {"m": {"k": {"a": "y"}, "l": {"a": "z"}}},
    ]


def test_a_table_behind_a_link_has_no_deleted_rows(tmp_path: Path) -> None:
    begin_table(tmp_path / "there", FIELDS, [])
    add_file(tmp_path / "there", "a b%20c.parquet", stored(0, 9), {}, [3])
    (tmp_path / "here").symlink_to(tmp_path / "there")
    assert len(rows(open_source(str(tmp_path / "here")))) == 8


def test_a_sample_is_drawn_from_the_rows_that_are_left(tmp_path: Path) -> None:
    begin_table(tmp_path, FIELDS, ["lang"])
    gone = range(0, 5_000, 3)
    add_file(tmp_path, "1.parquet", stored(0, 5_000), {"col-9": "de"}, gone, row_group_size=100)
    sample = draw_sample(open_source(str(tmp_path)), rows=300, max_bytes=20_000)
    left = [seen(n, "de") for n in range(5_000) if n % 3]
    assert len(sample.rows) > 100
    assert all(left[one.row] == one.value for one in sample.rows)


def test_rows_that_are_deleted_later_change_what_the_input_is(tmp_path: Path) -> None:
    begin_table(tmp_path, FIELDS, [])
    add_file(tmp_path, "1.parquet", stored(0, 9), {})
    before = open_source(str(tmp_path))
    mark_deleted(tmp_path, "1.parquet", {}, [3])
    after = open_source(str(tmp_path))
    assert (len(rows(before)), len(rows(after))) == (9, 8)
    assert before.files[0].etag != after.files[0].etag


def test_a_table_that_moves_on_while_it_is_read_gives_one_version(table: Path) -> None:
    source = open_source(str(table))
    batches = source.batches()
    first = next(batches).values
    DeltaTable(table).delete("id >= 0")
    write_deltalake(table, people(100, 120), mode="append")
    assert len(first) + sum(len(batch.values) for batch in batches) == 30


def test_a_log_that_begins_with_a_checkpoint_is_read(table: Path) -> None:
    DeltaTable(table).create_checkpoint()
    for old in range(3):
        (table / f"_delta_log/{old:020}.json").unlink()
    assert len(rows(open_source(str(table)))) == 30


def remove_log(table: Path) -> None:
    (table / f"_delta_log/{0:020}.json").unlink()


def remove_middle(table: Path) -> None:
    (table / f"_delta_log/{1:020}.json").unlink()


def remove_file(table: Path) -> None:
    for file in table.glob("*/*.zstd.parquet"):
        file.unlink()
    for file in table.glob("*/*.snappy.parquet"):
        file.unlink()


def damage_log(table: Path) -> None:
    (table / f"_delta_log/{3:020}.json").write_text('{"add": {"path": 7}}\n')


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (remove_log, "cannot read the log of the Delta table"),
        (remove_middle, "cannot read the log of the Delta table"),
        (damage_log, "cannot read the log of the Delta table"),
        (remove_file, "a file of this version of the table is gone"),
    ],
)
def test_a_damaged_table_is_an_error_that_says_what(table: Path, spoil: Any, message: str) -> None:
    spoil(table)
    with pytest.raises(SourceError, match=message):
        open_source(str(table))


def test_a_version_that_is_not_there_is_an_error(table: Path, tmp_path: Path) -> None:
    for version in ("4", "9", "9" * 40):
        with pytest.raises(SourceError, match=f"no version {version}: the last one is 3"):
            open_source(f"{table}@{version}")
    for version in ("-1", "nope", "1.5", "v1", "2026-13-01", ""):
        with pytest.raises(SourceError, match=f"no version '{version}': name a number, or a time"):
            open_source(f"{table}@{version}")
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain/a.jsonl").write_text('{"text": "x"}\n')
    with pytest.raises(SourceError, match="it has no version 9"):
        open_source(f"{tmp_path / 'plain'}@9")


@pytest.mark.parametrize(
    "before", ["2020-01-01T00:00:00Z", "1970-01-01", "2000-02-29T12:00:00+09:00"]
)
def test_a_time_before_the_first_version_is_an_error(table: Path, before: str) -> None:
    with pytest.raises(SourceError, match=r"its first version is 0, of 20\d\d-\d\d-\d\dT"):
        open_source(f"{table}@{before}")
    assert len(rows(open_source(f"{table}@2100-01-01"))) == 30


def test_times_are_those_of_the_log_and_not_of_a_copy_of_it(table: Path, tmp_path: Path) -> None:
    first, second = (one["timestamp"] for one in DeltaTable(table).history()[:-3:-1])
    copy = shutil.copytree(table, tmp_path / "copy", copy_function=shutil.copyfile)
    for when, count in ((first, 20), (second - 1, 20), (second, 40)):
        asked = dt.datetime.fromtimestamp(when / 1000, dt.UTC).isoformat(timespec="milliseconds")
        assert len(rows(open_source(f"{copy}@{asked}"))) == count


def test_a_log_without_times_is_asked_for_numbers(tmp_path: Path) -> None:
    begin_table(tmp_path / "table", FIELDS, [])
    add_file(tmp_path / "table", "1.parquet", stored(0, 3), {})
    with pytest.raises(SourceError, match="its log tells no times: name a version by its number"):
        open_source(f"{tmp_path / 'table'}@2026-01-01")


def test_a_vector_that_deletes_other_rows_than_the_log_tells_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "table"
    begin_table(folder, FIELDS, [])
    add_file(folder, "1.parquet", stored(0, 9), {}, (1, 2))
    log = folder / f"_delta_log/{1:020}.json"
    log.write_text(log.read_text().replace('"cardinality": 2', '"cardinality": 3'))
    with pytest.raises(SourceError, match=r"3 rows of 1\.parquet are deleted, and its vector"):
        open_source(str(folder))


def test_a_file_that_is_removed_before_it_is_read_says_so(table: Path) -> None:
    source = open_source(str(table))
    for file in table.rglob("*.parquet"):
        file.unlink()
    with pytest.raises(SourceError, match="removed while it was read, by a vacuum too, run again"):
        rows(source)


@pytest.mark.parametrize("path", ["../secret.parquet", "/etc/passwd", "file:///etc/passwd"])
def test_a_log_leads_to_no_file_outside_of_its_table(tmp_path: Path, path: str) -> None:
    folder = tmp_path / "table"
    begin_table(folder, FIELDS, [])
    add_file(folder, "1.parquet", stored(0, 3), {})
    log = folder / f"_delta_log/{1:020}.json"
    log.write_text(log.read_text().replace("1.parquet", path))
    with pytest.raises(SourceError, match="lies elsewhere"):
        open_source(str(folder))


def test_a_table_below_a_folder_is_read_and_a_damaged_one_left_out(
    table: Path, tmp_path: Path
) -> None:
    shutil.copytree(table, tmp_path / "spoilt")
    remove_log(tmp_path / "spoilt")
    source = open_source(str(tmp_path))
    assert len(rows(source)) == 30
    reasons = {one.why for one in source.left_out if one.name.startswith("spoilt/")}
    (why,) = reasons
    assert why.startswith("part of a Delta table, which is not read: cannot read the log")


def test_without_the_package_the_error_names_it(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(SourceError, match="needs the package deltalake"):
        open_source(str(table))
