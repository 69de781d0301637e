"""Iceberg tables, written by pyiceberg: one snapshot, as it is, without a catalog."""

import datetime as dt
import gzip
import json
import re
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyiceberg", reason="pyiceberg is not installed: make test-more brings it")
from pyiceberg.expressions import EqualTo
from pyiceberg.manifest import DataFileContent
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, StringType

from ingot.converters.errors import SourceError
from ingot.converters.json_yaml import load_json
from ingot.converters.rows import Json
from ingot.converters.sources import Source, open_source
from tests.converters.sources.tables.iceberg_tables import delete_rows, make_table

pytestmark = pytest.mark.more

SAID = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))


def rows(source: Source) -> list[Json]:
    found = [value for batch in source.batches() for value in batch.values]
    return sorted(found, key=lambda row: row["id"])


def people(first: int, last: int) -> pa.Table:
    numbers = range(first, last)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int32()),
            "text": [f"text {n}" for n in numbers],
            "lang": ["en" if n % 2 else "de" for n in numbers],
            "said": pa.array(
                [[{"role": "user", "content": f"c{n}"}] * (n % 3) for n in numbers], SAID
            ),
        }
    )


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = make_table(tmp_path / "lake", people(0, 1).schema)
    made.append(people(0, 20))
    made.append(people(20, 40))
    made.delete("id < 10")
    return made


def folder_of(table: Table) -> Path:
    return Path(table.location().removeprefix("file://"))


def test_the_rows_are_those_of_the_current_snapshot_wherever_the_folder_lies(
    table: Table, tmp_path: Path
) -> None:
    shutil.move(folder_of(table), tmp_path / "moved")
    source = open_source(str(tmp_path / "moved"))
    assert rows(source) == people(10, 40).to_pylist()
    snapshot: Any = table.current_snapshot()
    assert {one.why for one in source.left_out} == {
        f"not in version {snapshot.snapshot_id} of its Iceberg table"
    }
    assert all(one.name.startswith("data/") for one in source.left_out)


def test_a_former_snapshot_can_be_named_by_id_or_time(table: Table) -> None:
    folder, first = folder_of(table), table.history()[0]
    assert len(rows(open_source(f"{folder}@{first.snapshot_id}"))) == 20
    when = dt.datetime.fromtimestamp(first.timestamp_ms / 1000, dt.UTC)
    assert len(rows(open_source(f"{folder}@{when.isoformat()}"))) == 20
    assert len(rows(open_source(f"{folder}@2100-01-01"))) == len(rows(open_source(str(folder))))


def test_a_former_snapshot_can_be_named_by_tag_or_branch(table: Table) -> None:
    first = table.history()[0].snapshot_id
    with table.manage_snapshots() as change:
        change.create_tag(first, "stable").create_branch(first, "2026")
    for name, count in (("stable", 20), ("2026", 20)):
        assert len(rows(open_source(f"{folder_of(table)}@{name}"))) == count


@pytest.mark.parametrize("version", ["5", "2020-01-01", "2020-01-01T00:00:00+02:00"])
def test_a_snapshot_that_is_not_there_is_an_error(table: Table, version: str) -> None:
    first = table.history()[0].snapshot_id
    match = f"there is no snapshot {re.escape(version)}: the first is {first}, of 20"
    with pytest.raises(SourceError, match=match):
        open_source(f"{folder_of(table)}@{version}")


@pytest.mark.parametrize("version", ["nope", "-1", "1.5", "main branch"])
def test_a_version_that_is_none_is_an_error(table: Table, version: str) -> None:
    with pytest.raises(SourceError, match=f"there is no version '{version}': name a number, or"):
        open_source(f"{folder_of(table)}@{version}")


@pytest.mark.parametrize("name", ["00099-x.metadata.json", "3-final copy.gz.metadata.json"])
def test_a_metadata_file_is_known_without_a_uuid(table: Table, name: str) -> None:
    folder = folder_of(table)
    newest = max(folder.glob("metadata/*.metadata.json"))
    data = newest.read_bytes()
    (folder / "metadata" / name).write_bytes(gzip.compress(data) if ".gz." in name else data)
    found = rows(open_source(f"{folder}/metadata/{name}"))
    assert found == rows(open_source(f"{folder}/metadata/{newest.name}"))


def test_columns_are_found_by_their_numbers(table: Table) -> None:
    with table.update_schema() as change:
        change.rename_column("text", "body")
        change.rename_column(("said", "content"), "words")
        change.update_column("id", LongType())
        change.delete_column("lang")
    with table.update_schema() as change:
        change.add_column("text", StringType())  # another one than that of former files
    expected = [
        {
            "id": row["id"],
            "body": row["text"],
            "said": [{"role": "user", "words": turn["content"]} for turn in row["said"]],
            "text": None,
        }
        for row in people(10, 40).to_pylist()
    ]
    assert rows(open_source(str(folder_of(table)))) == expected


def test_partitions_are_columns(tmp_path: Path) -> None:
    days = [dt.date(2026, 1, 1 + n % 3) for n in range(20)]
    data = pa.table({"id": list(range(20)), "lang": ["a b/%é", None] * 10, "day": days})
    table = make_table(tmp_path / "lake", data.schema)
    with table.update_spec() as change:
        change.add_field("lang", IdentityTransform())
        change.add_field("day", IdentityTransform())
    table.append(data)
    expected = [{**row, "day": row["day"].isoformat()} for row in data.to_pylist()]
    source = open_source(str(folder_of(table)))
    assert rows(source) == expected
    for file in source.files:  # a file may leave out what its partition says
        path = Path(str(file.place))
        pq.write_table(pq.read_table(path).drop(["lang", "day"]), path)
    assert rows(open_source(str(folder_of(table)))) == expected


def test_rows_in_files_of_deletes_are_gone(table: Table) -> None:
    (task, *_) = [t for t in table.scan().plan_files() if t.file.record_count == 20]
    delete_rows(table, task.file.file_path, [0, 7, 19])
    delete_rows(table, task.file.file_path, [7, 8])
    gone = {20, 27, 28, 39}
    expected = [row for row in people(10, 40).to_pylist() if row["id"] not in gone]
    source = open_source(str(folder_of(table)))
    assert rows(source) == expected
    assert sorted(file.facts.rows or 0 for file in source.files) == [10, 16]


def test_deletes_of_rows_that_are_not_there_are_an_error(table: Table) -> None:
    (task, *_) = table.scan().plan_files()
    delete_rows(table, task.file.file_path, [1 << 60])
    with pytest.raises(SourceError, match="rows are deleted that it does not have"):
        open_source(str(folder_of(table)))


def test_deletes_by_equality_are_refused_by_name(table: Table) -> None:
    delete_rows(table, "id", [1], DataFileContent.EQUALITY_DELETES)
    with pytest.raises(SourceError, match="equality deletes"):
        open_source(str(folder_of(table)))


def test_defaults_of_former_rows_are_refused_and_not_read_as_null(table: Table) -> None:
    newest = max((folder_of(table) / "metadata").glob("*.metadata.json"))
    document = load_json(newest)
    document["schemas"][0]["fields"][2]["initial-default"] = "en"
    newest.write_text(json.dumps(document))
    with pytest.raises(SourceError, match="column lang has a default for former rows"):
        open_source(str(folder_of(table)))


def test_two_newest_metadata_files_are_no_guess(table: Table) -> None:
    newest = max((folder_of(table) / "metadata").glob("*.metadata.json"))
    other = newest.name[:6] + "0" * 8 + newest.name[14:]
    shutil.copyfile(newest, newest.with_name(other))
    with pytest.raises(SourceError, match="more than one metadata file is the newest"):
        open_source(str(folder_of(table)))


def test_metadata_leads_to_no_file_outside_of_the_table(table: Table, tmp_path: Path) -> None:
    folder = folder_of(table)
    newest = max((folder / "metadata").glob("*.metadata.json"))
    newest.write_text(newest.read_text().replace(f"{folder}/metadata/snap", f"{tmp_path}/snap"))
    with pytest.raises(SourceError, match="lies elsewhere"):
        open_source(str(folder))


def test_a_file_that_is_gone_and_damaged_metadata_are_errors(table: Table) -> None:
    folder = folder_of(table)
    for file in (folder / "data").iterdir():
        file.unlink()
    with pytest.raises(SourceError, match="a file of this version of the table is gone"):
        open_source(str(folder))
    for file in (folder / "metadata").glob("snap-*"):
        file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(SourceError, match="cannot read the metadata of the Iceberg table"):
        open_source(str(folder))


def test_a_table_without_a_snapshot_has_no_rows(tmp_path: Path) -> None:
    table = make_table(tmp_path / "lake", people(0, 1).schema)
    assert not open_source(str(folder_of(table))).files


def test_a_table_that_moves_on_while_it_is_read_gives_one_snapshot(table: Table) -> None:
    source = open_source(str(folder_of(table)))
    batches = source.batches()
    first = next(batches).values
    table.delete(EqualTo("lang", "de"))
    assert len(first) + sum(len(batch.values) for batch in batches) == 30


def test_a_metadata_file_tells_a_version(table: Table) -> None:
    files = sorted((folder_of(table) / "metadata").glob("*.metadata.json"))
    assert [len(rows(open_source(str(file)))) for file in files] == [0, 20, 40, 30]
    source = open_source(str(files[1]))
    snapshot = table.history()[0].snapshot_id
    assert {one.why for one in source.left_out} == {
        f"not in version {snapshot} of its Iceberg table"
    }
    assert source.name == "people"


def test_a_table_is_found_in_a_catalog(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "PYICEBERG_CATALOG__LOCAL__"
    monkeypatch.setenv(f"{name}URI", f"sqlite:///{tmp_path}/lake/catalog.db")
    source = open_source("iceberg://local/db.people")
    assert rows(source) == people(10, 40).to_pylist()
    assert (source.name, source.location) == ("people", "iceberg://local/db.people")
    first = table.history()[0].snapshot_id
    assert len(rows(open_source(f"iceberg://local/db.people@{first}"))) == 20
    monkeypatch.setenv(f"{name}TOKEN", "very-secret")
    with pytest.raises(SourceError, match=r"not found: .*db.nobody"):
        open_source("iceberg://local/db.nobody")
    with pytest.raises(SourceError, match="PYICEBERG_CATALOG__OTHER__URI"):
        open_source("iceberg://other/db.people")
    with pytest.raises(SourceError, match=r"iceberg://CATALOG/NAMESPACE\.TABLE"):
        open_source("iceberg://user:word@host/people")


def test_a_table_is_found_in_a_catalog_over_http(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = max((folder_of(table) / "metadata").glob("*.metadata.json"))
    answers = {
        "/v1/config": {"defaults": {}, "overrides": {}},
        "/v1/namespaces/db/tables/people": {
            "metadata-location": newest.as_uri(),
            "metadata": load_json(newest),
            "config": {},
        },
    }
    asked: list[str] = []

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.headers["Authorization"])
            found = answers.get(self.path.partition("?")[0])
            said = {"message": f"no, {asked[-1]}", "type": "NoSuchTableException", "code": 404}
            data = json.dumps(found or {"error": said}).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    monkeypatch.setenv("PYICEBERG_CATALOG__REST__URI", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("PYICEBERG_CATALOG__REST__TOKEN", "very-secret")
    try:
        assert rows(open_source("iceberg://rest/db.people")) == people(10, 40).to_pylist()
        assert set(asked) == {"Bearer very-secret"}
        with pytest.raises(SourceError) as error:
            open_source("iceberg://rest/db.nobody")
    finally:
        server.shutdown()
        server.server_close()
    assert "very-secret" not in str(error.value)


def test_the_current_folder_does_not_say_where_a_catalog_is(tmp_path, monkeypatch):
    (tmp_path / ".pyiceberg.yaml").write_text("catalog:\n  prod:\n    uri: http://127.0.0.1:9\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYICEBERG_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with pytest.raises(SourceError, match="of this folder may say where the catalog is"):
        open_source("iceberg://prod/crm.people")
