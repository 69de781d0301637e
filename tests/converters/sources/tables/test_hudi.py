"""Hudi tables, written by the words of the specification, and compared with the package."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("hudi", reason="hudi is not installed: make test-more brings it")
from hudi import HudiTableBuilder

from ingot.converters.errors import SourceError
from ingot.converters.rows import Json
from ingot.converters.sources import Source, open_source

pytestmark = pytest.mark.more

PROPERTIES = """\
hoodie.table.name=people
hoodie.table.type=COPY_ON_WRITE
hoodie.table.version=6
hoodie.timeline.layout.version=1
hoodie.table.partition.fields=lang
hoodie.table.recordkey.fields=id
hoodie.table.base.file.format=PARQUET
hoodie.datasource.write.hive_style_partitioning=true
hoodie.datasource.write.drop.partition.columns=false
"""
META = ("commit_time", "commit_seqno", "record_key", "partition_path", "file_name")


def commit(folder: Path, instant: int, files: dict[str, Sequence[int]], text: str) -> None:
    """An instant: new files of file groups (`lang/group`), with these rows and all meta fields."""
    said: dict[str, Any] = {}
    for name, numbers in files.items():
        lang, group = name.split("/")
        uuid = "-".join(group * size for size in (8, 4, 4, 4, 12))
        path = f"lang={lang}/{uuid}-0_0-1-2_{instant}.parquet"
        size = len(numbers)
        meta = {f"_hoodie_{one}": [""] * size for one in META}
        own = {"id": list(numbers), "text": [f"{text} {n}" for n in numbers], "lang": [lang] * size}
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).parent.joinpath(".hoodie_partition_metadata").write_text(
            f"commitTime={instant}\npartitionDepth=1\n"
        )
        pq.write_table(pa.table({**meta, **own}), folder / path)
        stat = {"fileId": path.split("/")[1].split("_")[0], "path": path, "prevCommit": "null"}
        said.setdefault(f"lang={lang}", []).append(stat)
    fields = [{"name": "id", "type": ["null", "long"], "default": None}]
    fields += [{"name": n, "type": ["null", "string"], "default": None} for n in ("text", "lang")]
    schema = json.dumps({"type": "record", "name": "people", "fields": fields})
    document = {
        "partitionToWriteStats": said,
        "compacted": False,
        "extraMetadata": {"schema": schema},
        "operationType": "UPSERT",
    }
    timeline = folder / ".hoodie"
    for state in (".commit.requested", ".inflight"):
        timeline.joinpath(f"{instant}{state}").touch()
    timeline.joinpath(f"{instant}.commit").write_text(json.dumps(document))


FIRST, SECOND = 20260101000000000, 20260102000000000


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Rows 0 to 9; then 1 is deleted and the rest of its file changes, and 10 and 11 come."""
    folder = tmp_path / "people"
    (folder / ".hoodie").mkdir(parents=True)
    (folder / ".hoodie/hoodie.properties").write_text(PROPERTIES)
    commit(folder, FIRST, {"en/a": range(5), "de/b": range(5, 10)}, "first")
    commit(folder, SECOND, {"en/a": [0, 2, 3, 4], "en/c": [10, 11]}, "second")
    return folder


def rows(source: Source) -> list[Json]:
    found = [value for batch in source.batches() for value in batch.values]
    return sorted(found, key=lambda row: row["id"])


def test_the_rows_are_those_of_the_latest_instant(table: Path) -> None:
    source = open_source(str(table))
    found = rows(source)
    assert [row["id"] for row in found] == [0, *range(2, 12)]
    assert [row["text"] for row in found[:2]] == ["second 0", "second 2"]
    read = [
        one
        for batch in HudiTableBuilder.from_base_uri(str(table)).build().read()
        for one in batch.to_pylist()
    ]
    own = [{name: row[name] for name in ("id", "text", "lang")} for row in read]
    assert found == sorted(own, key=lambda row: row["id"])
    assert {one.why for one in source.left_out} == {f"not in version {SECOND} of its Hudi table"}
    assert not any(one.name.rpartition("/")[2].startswith(".") for one in source.left_out)


def test_a_former_instant_can_be_named(table: Path) -> None:
    assert [row["text"] for row in rows(open_source(f"{table}@{FIRST}"))] == [
        f"first {n}" for n in range(10)
    ]
    for version in ("5", "2026-01-01"):
        with pytest.raises(SourceError, match="there is no instant"):
            open_source(f"{table}@{version}")


def write_log(table: Path) -> None:
    (
        table / "lang=de/.bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb-0_20260101000000000.log.1_0-1-2"
    ).touch()
    write_property(table, "COPY_ON_WRITE", "MERGE_ON_READ")


def write_property(table: Path, old: str, new: str) -> None:
    file = table / ".hoodie/hoodie.properties"
    file.write_text(file.read_text().replace(old, new))


def drop_columns(table: Path) -> None:
    write_property(table, "columns=false", "columns=true")


def remove_file(table: Path) -> None:
    for file in table.glob("lang=de/*.parquet"):
        file.unlink()


def damage_commit(table: Path) -> None:
    (table / f".hoodie/{SECOND}.commit").write_text('{"partitionToWriteStats": 7')


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (write_log, "rows of the Hudi table lie in log files"),
        (drop_columns, "Only support when .*drop.partition.columns. is disabled"),
        (damage_commit, "cannot read the timeline of the Hudi table"),
    ],
)
def test_what_is_not_read_is_an_error_that_says_what(table: Path, spoil: Any, message: str) -> None:
    spoil(table)
    with pytest.raises(SourceError, match=message):
        rows(open_source(str(table)))
