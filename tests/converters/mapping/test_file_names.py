"""The path `@file`: the name of the row's file, in groups, meta, contents and conditions."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingot.agent.review.diff.mapping_changes import compare_mappings
from ingot.agent.review.golden_rows import run_golden
from ingot.converters.convert.job import ConvertOptions, convert
from ingot.converters.mapping.bind import bind, read_tree
from ingot.converters.mapping.check import check_mapping
from ingot.converters.mapping.columns.executor import ColumnExecutor, why_not_columnar
from ingot.converters.mapping.rows.executor import RowExecutor
from ingot.converters.paths import Node, RowNode, compile_path
from ingot.converters.records import read_records
from ingot.converters.rows import Batch
from ingot.converters.sources import open_source
from ingot.converters.sources.sample import draw_sample
from tests.agent.review.diff.documents import normal_form

ONE_TALK_A_FILE: dict[str, Any] = {
    "version": 2,
    "group": {"by": ["@file"]},
    "messages": [
        {
            "each": "[*]",
            "role": {"path": "who", "map": {"caller": "user", "agent": "assistant"}},
            "content": "said",
        }
    ],
    "meta": {"original_id": "@file"},
}


def test_one_conversation_per_file(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    for name in ("2024/may/17.jsonl", "2024/june/17.jsonl"):
        turns = [{"who": "caller", "said": f"Hi, {name}"}, {"who": "agent", "said": "Hello."}]
        (raw / name).parent.mkdir(parents=True)
        (raw / name).write_text("".join(json.dumps(turn) + "\n" for turn in turns))
    source, mapping = open_source(str(raw)), bind(ONE_TALK_A_FILE)
    report = check_mapping(mapping, draw_sample(source), source_name="calls")
    assert (report.problems, report.records) == ((), 2)
    assert {(one.pointer, one.resolved) for one in report.paths if one.path == "@file"} == {
        ("/group/by/0", 2),
        ("/meta/original_id", 2),
    }
    convert(source, mapping, tmp_path / "out", ConvertOptions(workers=1))
    records = list(read_records(tmp_path / "out" / "records"))
    assert [record["meta"]["original_id"] for record in records] == ["2024/june/17", "2024/may/17"]
    assert [len(record["messages"]) for record in records] == [2, 2]


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        ("@file", {"a": 1}, ["books/emma"]),
        ("$.@file", {"a": 1}, ["books/emma"]),
        ("@file", {"@file": 7}, [7]),
        ("@file", {"@file": None}, [None]),
        ("['@file']", {"a": 1}, []),
        ("['@file']", {"@file": 7}, [7]),
        ("a.@file", {"a": {"b": 1}}, []),
        ("@file", ["a", "b"], ["books/emma"]),
        ("@file", "text", ["books/emma"]),
    ],
)
def test_a_real_key_is_taken_first(path: str, value: Any, found: list[Any]) -> None:
    assert compile_path(path).find(RowNode(value, 0, "books/emma")) == found


def test_elements_see_the_file_of_their_row() -> None:
    row = RowNode({"parts": [{"t": 1}, {"@file": 2}]}, 0, "a/b")
    inner = compile_path("parts[*]").nodes(row)
    assert [compile_path("@file").find(node) for node in inner] == [["a/b"], [2]]
    assert compile_path("@file").find(Node({"t": 1})) == []


TABLE = pa.table({"t": ["one", "two", None], "xs": [[{"v": "x"}], [], [{"v": "y"}, {"v": None}]]})
CARRIED: list[dict[str, Any]] = [
    {"text": ["@file", "t"], "meta": {"original_id": "@file", "source": "@file"}},
    {"text": "t", "where": [{"path": "@file", "in": ["part.1"]}]},
    {"text": "t", "where": [{"path": "@file", "min_chars": 90}]},
    {
        "messages": [
            {"each": "xs[*]", "role": "user", "content": ["@file", "v"]},
            {"role": "assistant", "content": {"template": "{{t}} of {{@file}}"}},
        ]
    },
]


@pytest.mark.parametrize("keys", CARRIED)
def test_both_executors_agree(keys: dict[str, Any], tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "part.1.parquet")
    mapping = bind({"version": 2, **keys})
    (batch,) = open_source(str(tmp_path)).batches()
    assert batch.table is not None
    assert why_not_columnar(mapping, batch.table.schema) is None
    rows = RowExecutor(mapping, source_name="set")
    columns = ColumnExecutor(RowExecutor(mapping, source_name="set"), batch.table.schema)
    wanted, (made,) = rows.batch(batch), columns.parts(batch)
    assert [{**one, "tools": None} for one in made.table.to_pylist()] == [
        {**one, "tools": None} for one in wanted.records
    ]
    assert (made.rejects, columns.stats.counts) == (wanted.rejects, rows.stats.counts)
    real = batch.table.schema.append(pa.field("@file", pa.string()))
    assert why_not_columnar(mapping, real) == "a column @file"


def test_a_golden_row_names_its_file(tmp_path: Path) -> None:
    document = {"version": 2, "text": ["@file", "t"]}
    row = {"row": {"t": "x"}, "file": "a/b.txt", "records": [{"text": "a/b\nx"}]}
    file = tmp_path / "m.golden.jsonl"
    file.write_text(json.dumps(row))
    assert run_golden(read_tree(document), file, source_name="set").failed == ()


def test_the_normal_form_keeps_a_quoted_key_apart() -> None:
    old, new = ({"version": 2, "text": path} for path in ("@file", "['@file']"))
    (change,) = compare_mappings(normal_form(old), normal_form(new))
    assert (change.rule, change.kind) == ("text_path", "breaking")
    grouped = {**ONE_TALK_A_FILE, "group": {"by": ["talk"]}}
    (change,) = compare_mappings(normal_form(grouped), normal_form(ONE_TALK_A_FILE))
    assert (change.rule, change.kind) == ("group", "breaking")


def test_a_batch_without_folders() -> None:
    batch = Batch(file="talk.jsonl.gz", rows=[0], values=[{"t": "x"}])
    mapping = bind({"version": 2, "text": "t", "meta": {"original_id": "@file"}})
    (record,) = RowExecutor(mapping, source_name="set").batch(batch).records
    assert record["meta"]["original_id"] == "talk"
