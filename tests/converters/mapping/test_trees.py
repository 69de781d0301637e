"""The form `tree`: the texts of nested sections or blocks in document order, to a stated depth."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingot.agent.judging.trial import report_facts
from ingot.agent.privacy import Redactor
from ingot.agent.reporting.mapping_words import mapping_branches
from ingot.converters.convert.job import ConvertOptions, convert
from ingot.converters.errors import MappingError
from ingot.converters.mapping.bind import bind
from ingot.converters.mapping.check import CheckReport, check_mapping
from ingot.converters.mapping.columns.executor import why_not_columnar
from ingot.converters.mapping.documents.writer import to_document
from ingot.converters.mapping.path_uses import shared_paths
from ingot.converters.mapping.rows.executor import UnifiedBatch
from ingot.converters.records import read_records
from ingot.converters.sources import open_source
from ingot.converters.sources.sample import draw_sample

Unify = Callable[..., UnifiedBatch]
SECTIONS: dict[str, Any] = {
    "tree": "secs[*]",
    "text": ["h", "ps[*]"],
    "children": "subs[*]",
    "depth": 3,
}
PAGE: dict[str, Any] = {
    "title": "Stone bridges",
    "secs": [
        {
            "h": "History",
            "ps": ["Built early.", "Built often."],
            "subs": [
                {"h": "Builders", "ps": [], "subs": [{"ps": ["Mostly unknown."], "subs": None}]},
                None,
                {"h": "", "ps": ["Later."]},
            ],
        },
        {"h": "Form", "ps": ["An arch."], "subs": []},
    ],
}
TEXT = "History\nBuilt early.\nBuilt often.\nBuilders\nMostly unknown.\nLater.\nForm\nAn arch."


def text_of(unify: Unify, value: Any, row: Any) -> Any:
    done = unify({"version": 2, "text": value}, [row])
    return done.records[0]["text"] if done.records else done.rejects[0]


def test_texts_stand_in_document_order(unify: Unify) -> None:
    assert text_of(unify, SECTIONS, PAGE) == TEXT
    assert text_of(unify, ["title", SECTIONS], PAGE) == f"Stone bridges\n{TEXT}"


def test_every_node_is_a_hit_of_its_own(unify: Unify) -> None:
    apart = text_of(unify, {**SECTIONS, "text": "h", "sep": " | "}, PAGE)
    assert apart == "History | Builders | Form"
    assert text_of(unify, {**SECTIONS, "text": "h", "label": "1) "}, PAGE) == (
        "1) History\n2) Builders\n5) Form"
    )
    assert text_of(unify, {**SECTIONS, "text": "h", "pick": {"literal": "1"}}, PAGE) == "Builders"


def test_a_node_knows_what_is_around_it(unify: Unify) -> None:
    named = {**SECTIONS, "text": {"template": "{{^.h}}/{{h}}"}}
    assert text_of(unify, named, PAGE) == "History/Builders"


def test_the_row_and_the_values_of_objects_may_be_nodes(unify: Unify) -> None:
    row = {
        "t": "top",
        "kids": {"a": {"t": "left", "kids": {"b": {"t": "low"}}}, "c": {"t": "right"}},
    }
    blocks = {"tree": "$", "text": "t", "children": "kids.*", "depth": 3, "sep": " "}
    assert text_of(unify, blocks, row) == "top left low right"


def test_a_deeper_level_rejects_the_row(unify: Unify) -> None:
    reject = text_of(unify, {**SECTIONS, "depth": 2}, PAGE)
    assert (reject.reason, reject.path) == ("too_deep", "subs[*]")
    assert reject.found == '{"ps": ["Mostly unknown."], "subs": null}'
    assert text_of(unify, {**SECTIONS, "depth": 1}, {"secs": [{"h": "x", "subs": []}]}) == "x"


def test_what_is_no_list_rejects_the_row(unify: Unify) -> None:
    reject = text_of(unify, SECTIONS, {"secs": [{"h": "x", "subs": "none"}]})
    assert (reject.reason, reject.path, reject.found) == ("not_a_list", "subs[*]", "none")
    assert text_of(unify, SECTIONS, {"secs": None}).reason == "empty_text"


def checked(folder: Path, value: Any, rows: list[Any]) -> CheckReport:
    (folder / "pages.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    sample = draw_sample(open_source(str(folder)))
    return check_mapping(bind({"version": 2, "text": value}), sample, source_name="wiki")


def test_a_check_looks_at_every_level(tmp_path: Path) -> None:
    rows = [{"secs": [{"h": "x", "subs": [{"body": "deep"}]}]}] * 3
    sections = {"tree": "secs[*]", "text": ["h", "body"], "children": "subs[*]", "depth": 2}
    report = checked(tmp_path, sections, rows)
    assert report.problems == ()
    assert [(one.path, one.pointer, one.resolved) for one in report.paths] == [
        ("secs[*]", "/text/tree", 3),
        ("secs[*] and below › subs[*]", "/text/children", 3),
        ("secs[*] and below › h", "/text/text/0", 3),
        ("secs[*] and below › body", "/text/text/1", 3),
    ]
    wrong = checked(tmp_path, {**sections, "text": ["h", "bdy"]}, rows).problems
    assert [(one.pointer, one.nearest) for one in wrong] == [("/text/text/1", "body")]


def test_in_words_a_tree_is_found_where_its_texts_are(tmp_path: Path) -> None:
    rows = [{"secs": [{"h": "x", "subs": [{"h": "y"}] * (n == 0)}]} for n in range(3)]
    tree = {**SECTIONS, "text": "h"}
    check = report_facts(checked(tmp_path, tree, rows))
    (branch,) = mapping_branches(bind({"version": 2, "text": tree}), check, Redactor("redacted"))
    assert branch.text == "h of each node of the tree secs[*] (children subs[*], at most 3 levels)"
    assert str(branch.found) == "3/3 rows"


def test_a_check_names_a_depth_that_is_too_small(tmp_path: Path) -> None:
    rows = [{"secs": [{"h": "x", "subs": []}]}] * 99 + [PAGE]
    (problem,) = checked(tmp_path, {**SECTIONS, "depth": 2}, rows).problems
    assert (problem.pointer, problem.code) == ("/text/children", "too_deep")


@pytest.mark.parametrize(
    ("change", "pointer", "expected"),
    [
        ({"depth": 0}, "/text/depth", "a number from 1 to 64"),
        ({"depth": True}, "/text/depth", "a number from 1 to 64"),
        ({"depth": 65}, "/text/depth", "a number from 1 to 64"),
        ({"children": None}, "/text/children", "a path"),
        ({"text": {"literal": ""}}, "/text/text/literal", "a text that is not empty"),
        ({"level": 2}, "/text/level", "one of the keys tree, text, children, depth"),
    ],
)
def test_a_wrong_tree_is_named(change: dict[str, Any], pointer: str, expected: str) -> None:
    with pytest.raises(MappingError) as raised:
        bind({"version": 2, "text": {**SECTIONS, **change}}, None, where="m.json")
    assert [(one.pointer, one.expected[: len(expected)]) for one in raised.value.problems] == [
        (pointer, expected)
    ]


def test_what_is_missing_is_named() -> None:
    with pytest.raises(MappingError) as raised:
        bind({"version": 2, "text": {"tree": "secs[*]"}}, None, where="m.json")
    assert {one.pointer for one in raised.value.problems} == {
        f"/text/{key}" for key in ("text", "children", "depth")
    }


def test_a_tree_comes_back_as_it_was() -> None:
    document = {"version": 2, "text": ["title", {**SECTIONS, "sep": "\n\n"}]}
    assert to_document(bind(document)) == document


def test_one_tree_on_both_sides_is_seen() -> None:
    messages = [{"role": role, "content": SECTIONS} for role in ("user", "assistant")]
    found = [one.path for one in shared_paths(bind({"version": 2, "messages": messages}))]
    assert found == ["secs[*].h", "secs[*].ps[*]"]


@pytest.mark.more
def test_columns_are_handed_to_the_row_executor(tmp_path: Path) -> None:
    leaf = pa.struct([("h", pa.string()), ("ps", pa.list_(pa.string()))])
    node = pa.struct([*leaf, pa.field("subs", pa.list_(leaf))])
    rows = [
        {"secs": [{"h": "a", "ps": ["1"], "subs": [{"h": "b", "ps": ["2", "3"]}]}]},
        {"secs": [{"h": "c", "ps": [], "subs": []}]},
    ]
    table = pa.table({"secs": pa.array([row["secs"] for row in rows], pa.list_(node))})
    mapping = bind({"version": 2, "text": SECTIONS})
    assert why_not_columnar(mapping, table.schema) == "a tree"
    texts = {}
    for name in ("columns", "lines"):
        (tmp_path / name).mkdir()
    pq.write_table(table, tmp_path / "columns" / "a.parquet")
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "lines" / "a.jsonl").write_text(lines)
    for name in ("columns", "lines"):
        out = tmp_path / f"{name}.out"
        convert(open_source(str(tmp_path / name)), mapping, out, ConvertOptions(workers=1))
        texts[name] = [record["text"] for record in read_records(out / "records")]
    assert texts["columns"] == texts["lines"] == ["a\n1\nb\n2\n3", "c"]
