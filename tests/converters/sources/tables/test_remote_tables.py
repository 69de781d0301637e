"""Delta and Iceberg tables on a storage behind a URL, read with its retries and checks."""

import datetime as dt
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("deltalake", reason="deltalake is not installed: make test-more brings it")
pytest.importorskip("pyiceberg", reason="pyiceberg is not installed: make test-more brings it")
from deltalake import DeltaTable, write_deltalake
from pyiceberg.manifest import DataFileContent

from ingot.converters.convert.job import ConvertOptions, convert
from ingot.converters.errors import SourceError, StorageError
from ingot.converters.json_yaml import load_json
from ingot.converters.mapping.bind import bind
from ingot.converters.rows import Json
from ingot.converters.sources import Source, open_source
from ingot.converters.sources.sample import draw_sample
from tests.converters.sources.tables.delta_log import add_file, begin_table, renamed
from tests.converters.sources.tables.iceberg_tables import delete_rows, make_table
from tests.s3_server import KEY, Fault, Storage, drawn

pytestmark = pytest.mark.more

FAULTS = (Fault(status=503), Fault(cut=-1), Fault(cut=300), Fault(short=9))


def rows(source: Source) -> list[Json]:
    found = [value for batch in source.batches() for value in batch.values]
    return sorted(found, key=lambda row: row["id"])


def people(numbers: Sequence[int]) -> pa.Table:
    texts = [f"text {n}" for n in numbers]
    return pa.table(
        {"id": list(numbers), "text": texts, "lang": [("en", "de")[n % 2] for n in numbers]}
    )


@pytest.fixture
def delta(tmp_path: Path) -> Path:
    """Rows 10 to 39 of 40, in two partitions; version 3 begins at a checkpoint."""
    folder = tmp_path / "delta"
    write_deltalake(folder, people(range(20)), partition_by=["lang"])
    write_deltalake(folder, people(range(20, 40)), mode="append")
    DeltaTable(folder).create_checkpoint()
    DeltaTable(folder).delete("id < 10")
    return folder


@pytest.fixture
def iceberg(tmp_path: Path) -> Path:
    """Rows 10 to 39 of 40 less row 20, which a file of deletes takes out."""
    table = make_table(tmp_path / "lake", people([0]).schema)
    table.append(people(range(20)))
    table.append(people(range(20, 40)))
    table.delete("id < 10")
    (task, *_) = [t for t in table.scan().plan_files() if t.file.record_count == 20]
    delete_rows(table, task.file.file_path, [0], DataFileContent.POSITION_DELETES)
    return Path(table.location().removeprefix("file://"))


def upload(storage: Storage, folder: Path, name: str, without: str = "\0") -> str:
    files = [one for one in folder.rglob("*") if one.is_file() and without not in str(one)]
    named = {f"{name}/{one.relative_to(folder).as_posix()}": one.read_bytes() for one in files}
    storage.put("tables", named)
    return f"s3://tables/{name}"


def test_a_delta_table_is_read_through_faults_of_the_network(storage: Storage, delta: Path) -> None:
    url = upload(storage, delta, "lake/delta")
    expected = people(range(10, 40)).to_pylist()
    for seed in range(2):
        storage.proxy.begin(drawn(seed, 0.2, FAULTS))
        assert rows(open_source(url)) == expected
    source = open_source(url)
    assert {one.why for one in source.left_out} == {"not in version 2 of its Delta table"}
    assert [len(rows(open_source(f"{url}@{number}"))) for number in (0, 1, 2)] == [20, 40, 30]
    made = DeltaTable(delta).history()[-1]["timestamp"]
    when = dt.datetime.fromtimestamp(made / 1000, dt.UTC).isoformat(timespec="milliseconds")
    assert len(rows(open_source(f"{url}@{when.replace('+00:00', 'Z')}"))) == 20


def test_only_the_log_behind_the_checkpoint_is_fetched(storage: Storage, delta: Path) -> None:
    url = upload(storage, delta, "lake/far", without=f"{0:020}.json")
    assert len(rows(open_source(url))) == 30
    with pytest.raises(SourceError, match="cannot read the log of the Delta table"):
        open_source(f"{url}@0")


def test_deletion_vectors_of_a_remote_table(storage: Storage, tmp_path: Path) -> None:
    begin_table(tmp_path / "t", [renamed("id", "long", "col-1", 1)], [])
    data = pa.table({"col-1": list(range(50))})
    add_file(tmp_path / "t", "a b%20c.parquet", data, {}, [0, 7, 49], row_group_size=9)
    url = upload(storage, tmp_path / "t", "lake/vectors")
    left = [n for n in range(50) if n not in (0, 7, 49)]
    assert rows(open_source(url)) == [{"id": n} for n in left]
    assert draw_sample(open_source(url)).complete


def test_an_iceberg_table_is_read_through_faults_of_the_network(
    storage: Storage, iceberg: Path
) -> None:
    url = upload(storage, iceberg, "lake/iceberg")
    expected = people([n for n in range(10, 40) if n != 20]).to_pylist()
    for seed in range(2):
        storage.proxy.begin(drawn(seed, 0.2, FAULTS))
        assert rows(open_source(url)) == expected


def test_a_conversion_names_the_version_and_is_not_done_again(
    storage: Storage, delta: Path, tmp_path: Path
) -> None:
    url = upload(storage, delta, "lake/again")
    mapping = bind({"version": 2, "text": "text", "meta": {"original_id": "id"}})
    options = ConvertOptions(overwrite=True)
    first = convert(open_source(url), mapping, tmp_path / "out", options)
    again = convert(open_source(url), mapping, tmp_path / "out", options)
    DeltaTable(delta).delete("id = 20")
    upload(storage, delta, "lake/again")
    later = convert(open_source(url), mapping, tmp_path / "out", options)
    assert (first.already_done, again.already_done, later.already_done) == (False, True, False)
    (told,) = load_json(tmp_path / "out/manifest.json")["tables"]
    assert (told["kind"], told["version"], told["folder"]) == ("delta", 3, ".")
    assert KEY not in (tmp_path / "out/manifest.json").read_text().replace("/testing", "")


def test_tables_below_a_folder_and_what_is_gone(
    storage: Storage, delta: Path, iceberg: Path
) -> None:
    upload(storage, delta, "both/delta")
    upload(storage, iceberg, "both/inner/iceberg")
    assert len(rows(open_source("s3://tables/both"))) == 59
    url = upload(storage, delta, "lake/gone", without="lang=en")
    with pytest.raises(SourceError, match="a file of this version of the table is gone"):
        open_source(url)


def test_a_storage_that_does_not_answer_is_no_damaged_table(
    storage: Storage, delta: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INGOT_STORAGE_RETRIES", "0")
    url = upload(storage, delta, "lake/silent")
    storage.proxy.begin(lambda asked: Fault(status=503) if asked.is_read else None)
    with pytest.raises(StorageError):
        open_source(url)


def test_a_table_of_another_file_system_of_fsspec(delta: Path) -> None:
    import fsspec

    memory: Any = fsspec.filesystem("memory")
    memory.put(str(delta), "/lake/people", recursive=True)
    assert rows(open_source("memory://lake/people")) == people(range(10, 40)).to_pylist()
    assert len(rows(open_source("memory://lake/people@1"))) == 40
    memory.pipe("/lake/plain@2026-01-01/a.jsonl", b'{"id": 1}\n')
    assert rows(open_source("memory://lake/plain@2026-01-01")) == [{"id": 1}]
    with pytest.raises(SourceError, match="it has no version 7"):
        open_source("memory://lake/plain@2026-01-01@7")
    memory.rm("/lake", recursive=True)
    shutil.rmtree(delta)
