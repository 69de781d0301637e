"""Tables of data frames in JSON: read in each orient, guessed only where one reading fits."""

import json
from pathlib import Path
from typing import Any

import pytest

from ingot.agent.proposing.llm.question import complete_mapping, opening_messages, shown_inventory
from ingot.agent.proposing.proposal import Request
from ingot.agent.proposing.rules.mapper import propose
from ingot.agent.review.diff.mapping_changes import compare_mappings
from ingot.agent.review.pinning.pin import pin_sample
from ingot.agent.review.pinning.pinned_sample import find_pinned
from ingot.converters.errors import MappingError, SourceError
from ingot.converters.mapping.bind import bind, read_tree
from ingot.converters.sources import Source, SourceSpec, open_source
from ingot.converters.sources.formats.json_documents import fold_table, guess_orient, unfold_table
from ingot.converters.sources.sample import draw_sample
from tests.agent.documents import document

AS_FOUND = SourceSpec()
ROWS: list[dict[str, Any]] = [
    {"编号": "wz1", "n": 111, "正文": "接班前先看水位，再看压力表，最后签字。"},
    {"编号": "wz2", "n": 115, "正文": None},
    {"编号": "wz3", "n": 1.5, "正文": "不要扒门，不要跳。按住警铃三秒，等人来。"},
]
# What `DataFrame(ROWS, index=["a", "b", "c"]).to_json(orient=...)` writes.
TABLES: dict[str, Any] = {
    "split": {
        "columns": ["编号", "n", "正文"],
        "index": ["a", "b", "c"],
        "data": [list(row.values()) for row in ROWS],
    },
    "list": {name: [row[name] for row in ROWS] for name in ROWS[0]},
    "index": dict(zip("abc", ROWS, strict=True)),
    "columns": {n: {k: r[n] for k, r in zip("abc", ROWS, strict=True)} for n in ROWS[0]},
}


def write(folder: Path, value: Any, name: str = "snapshot.json") -> str:
    (folder / name).write_text(json.dumps(value, ensure_ascii=False, indent=1), encoding="utf-8")
    return str(folder / name)


def read(source: Source) -> tuple[list[Any], list[str] | None]:
    batches = list(source.batches())
    keys = [batch.keys for batch in batches]
    named = None if None in keys else [key for some in keys for key in some or ()]
    return [value for batch in batches for value in batch.values], named


@pytest.mark.parametrize("orient", TABLES)
def test_a_table_gives_its_rows_in_every_orient(orient: str, tmp_path: Path) -> None:
    source = open_source(write(tmp_path, TABLES[orient]), SourceSpec(orient=orient))
    assert read(source) == (ROWS, None if orient == "list" else ["a", "b", "c"])
    inside = write(tmp_path, {"ok": True, "result": TABLES[orient]}, "inside.json")
    assert read(open_source(inside, SourceSpec(root="result", orient=orient)))[0] == ROWS


@pytest.mark.parametrize("orient", TABLES)
def test_a_file_without_the_key_reads_as_before(orient: str, tmp_path: Path) -> None:
    rows, keys = read(open_source(write(tmp_path, TABLES[orient])))
    assert (rows, keys) == ([TABLES[orient]], ["snapshot"])


@pytest.mark.parametrize("orient", ["split", "list", "columns"])
def test_an_orient_is_guessed_and_stated_by_the_mapping(orient: str, tmp_path: Path) -> None:
    source = open_source(write(tmp_path, TABLES[orient]))
    assert (source.roots[0].orient, source.roots[0].rows) == (orient, 3)
    sample = draw_sample(source)
    proposed = document(propose(source, sample, Request(mode="pt")).mapping)
    assert proposed["source"] == {"orient": orient}
    assert proposed["text"] == "正文"
    question = opening_messages(source, sample, Request())[1]["content"]
    assert f"the file is a table (orient {orient}), its rows are below" in question
    shown = [facts.path for facts in shown_inventory(source, sample).paths]
    assert set(shown) == {"$", *ROWS[0]}
    completed = complete_mapping(read_tree({"version": 2, "text": "正文"}), source, sample)
    assert completed.source == SourceSpec(orient=orient)


TEXTS = {"q": ["Why?", "How?"], "a": ["So.", "Thus."]}
IN_DOUBT: list[Any] = [
    TABLES["index"],
    TEXTS,
    {name: dict(zip("xy", column, strict=True)) for name, column in TEXTS.items()},
    {"id": [1, 2], "rows": [{"t": "x"}, {"t": "y"}]},
    {"id": [1, 2], "t": ["x", "y", "z"]},
    {"id": {"0": 1, "1": 2}, "t": {"0": "x", "2": "y"}},
    {"id": {"0": 1, "1": "b"}, "t": {"0": "x", "1": "y"}},
    {"id": [1, 2], "t": ["x", "y"], "made": "today"},
    {"columns": ["id", "t"], "data": [[1, "x"], [2]]},
    {"id": [1], "t": ["x"]},
    {},
    [],
]


@pytest.mark.parametrize("value", IN_DOUBT)
def test_nothing_is_guessed_in_doubt(value: Any) -> None:
    assert guess_orient(value) is None


def test_many_files_of_lists_are_records(tmp_path: Path) -> None:
    for number in range(3):
        write(tmp_path, {"tokens": ["a", "b"], "tags": [0, 1]}, f"{number}.json")
    assert all(root.orient is None for root in open_source(str(tmp_path)).roots)


WRONG = [
    ("list", {"a": [1], "b": [1, 2]}, "column 'b' has 2 values, 'a' has 1"),
    ("list", {"a": [1], "b": 1}, "column 'b' is not a list"),
    ("columns", {"a": [1]}, "column 'a' is not an object"),
    ("split", {"columns": ["a"], "data": 1}, "`columns` and `data` have to be lists"),
    ("split", {"columns": ["a"], "data": [[1]], "index": []}, "`index` has to be a list of 1"),
    ("split", [1], "it is not an object"),
]


@pytest.mark.parametrize(("orient", "value", "problem"), WRONG)
def test_another_value_is_an_error(orient: str, value: Any, problem: str) -> None:
    with pytest.raises(SourceError, match=f"not a table in the orient {orient}: {problem}"):
        list(unfold_table(value, orient, "file.json"))


def test_a_row_of_another_width_is_a_bad_row(tmp_path: Path) -> None:
    table = {"columns": ["a", "b"], "data": [[1, 2], [3], 4]}
    (batch,) = open_source(write(tmp_path, table), SourceSpec(orient="split")).batches()
    assert (list(batch.rows), list(batch.values)) == ([0], [{"a": 1, "b": 2}])
    said = [(bad.row, bad.detail, bad.found) for bad in batch.bad]
    assert said == [(1, "1 cells for 2 columns", "[3]"), (2, "no list of cells for 2 columns", "4")]


def test_other_files_have_no_orient(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a": [1]}\n{"a": [2]}\n')
    (tmp_path / "a.csv").write_text("a,b\n1,2\n3,4\n")
    for name, form in (("a.jsonl", "JSON of several values"), ("a.csv", "csv")):
        with pytest.raises(SourceError, match=f"for a JSON file of one value; this one is {form}"):
            open_source(str(tmp_path / name), SourceSpec(orient="list"))


def test_cells_that_a_column_lacks_are_missing_and_equal_names_are_numbered() -> None:
    ragged = {"a": {"x": 1}, "b": {"x": 2, "y": 3}}
    (chunk,) = unfold_table(ragged, "columns", "")
    assert chunk.values == [{"a": 1, "b": 2}, {"b": 3}]
    (chunk,) = unfold_table({"columns": ["a", "a", 7], "data": [[1, 2, 3]]}, "split", "")
    assert chunk.values == [{"a": 1, "a.1": 2, "7": 3}]
    assert list(unfold_table({}, "list", "")) == []


@pytest.mark.parametrize("orient", TABLES)
def test_a_table_of_many_rows_in_several_files(orient: str, tmp_path: Path) -> None:
    """The rows of the files have other names, which are no keys of rows."""
    written = []
    for part in range(2):
        numbers = range(part * 3000, part * 3000 + 3000)
        rows = [{"id": n, "t": f"The number {n} in words.", "z": n % 2} for n in numbers]
        columns = {name: {str(row["id"]): row[name] for row in rows} for name in rows[0]}
        table = {
            "split": {"columns": list(columns), "data": [list(row.values()) for row in rows]},
            "list": {name: list(column.values()) for name, column in columns.items()},
            "index": {str(row["id"]): row for row in rows},
            "columns": columns,
        }[orient]
        write(tmp_path, table, f"part-{part}.json")
        written += rows
    found = open_source(str(tmp_path))
    source = found.with_spec(SourceSpec(orient=orient))
    assert max(len(batch.values) for batch in source.batches()) <= 4096
    assert read(source)[0] == written
    assert len(draw_sample(source).rows) == 200
    if orient != "index":
        assert found.roots[0].orient == orient


@pytest.mark.parametrize("orient", TABLES)
def test_a_pinned_sample_of_a_table_reads_alike(orient: str, tmp_path: Path) -> None:
    assert orient == "index" or fold_table(ROWS, "abc", orient) == TABLES[orient]
    spec = SourceSpec(orient=orient, root="result.table")
    source = open_source(write(tmp_path, {"result": {"table": TABLES[orient]}}), spec)
    pin_sample(source, draw_sample(source), tmp_path / "m.sample", rows=2)
    found = find_pinned(tmp_path / "m.sample")
    assert found is not None
    rows, keys = read(open_source(found.location, spec))
    assert (rows, keys) == (ROWS[:2], None if orient == "list" else ["a", "b"])


def test_the_mapping_states_the_orient() -> None:
    document = {"version": 2, "source": {"orient": "list"}, "text": "t"}
    assert bind(document).source == SourceSpec(orient="list")
    with pytest.raises(MappingError, match="one of split, list, index, columns"):
        bind({**document, "source": {"orient": "records"}}, None, where="m.json")
    (change,) = compare_mappings(bind({"version": 2, "text": "t"}), bind(document))
    assert (change.rule, change.kind, change.new) == ("source_orient", "breaking", "list")
