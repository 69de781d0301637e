"""A record-level `each` over several lists, walked in step: one record per position."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from ingot.converters.errors import MappingError
from ingot.converters.mapping.bind import bind
from ingot.converters.mapping.check import check_mapping
from ingot.converters.mapping.columns.executor import MappingExecutor, why_not_columnar
from ingot.converters.mapping.documents.writer import to_document
from ingot.converters.mapping.rows.executor import UnifiedBatch
from ingot.converters.records.schema import to_batch
from ingot.converters.rows import Batch
from ingot.converters.sources.sample import Sample, SampledRow

Unify = Callable[..., UnifiedBatch]
DOCUMENT: dict[str, Any] = {
    "version": 2,
    "each": ["q[*]", "a[*]"],
    "messages": [{"role": "user", "content": "[0]"}, {"role": "assistant", "content": "[1]"}],
    "meta": {"original_id": "~"},
}


def texts(done: UnifiedBatch) -> list[list[str]]:
    return [[one["content"] for one in record["messages"]] for record in done.records]


def test_one_record_per_position(unify: Unify) -> None:
    done = unify(DOCUMENT, [{"q": ["1", "2"], "a": ["x", "y"]}, {"q": ["3"], "a": ["z"]}])
    assert texts(done) == [["1", "x"], ["2", "y"], ["3", "z"]]
    assert [one["meta"]["original_id"] for one in done.records] == ["0", "1", "0"]
    assert (done.converted, done.rejected) == (2, 0)


def test_lists_are_walked_to_the_end_of_the_longest(unify: Unify) -> None:
    done = unify(DOCUMENT, [{"q": ["1", "2"], "a": ["x"]}, {"q": [], "a": None}])
    assert texts(done) == [["1", "x"]]
    assert [(one.row, one.element, one.reason, one.path) for one in done.rejects] == [
        (0, 1, "no_assistant", None),
        (1, None, "no_prompt", "q[*]"),
    ]


def test_what_is_no_list_rejects_the_row(unify: Unify) -> None:
    (reject,) = unify(DOCUMENT, [{"q": ["1"], "a": "x"}]).rejects
    assert (reject.element, reject.reason, reject.path) == (None, "not_a_list", "a[*]")


def test_conditions_and_alternatives_start_at_the_element(unify: Unify) -> None:
    document = {
        "version": 2,
        "where": [{"path": "[2]", "in": ["en"]}],
        "any_of": [
            {"each": ["t[*]", "s[*]", "l[*]"], "text": ["[0]", "[1]", "^.end"]},
            {"text": "t"},
        ],
    }
    row = {"t": ["a", "b", "c"], "s": ["1", None], "l": ["en", "en", "de"], "end": "."}
    done = unify(document, [row])
    assert [record["text"] for record in done.records] == ["a\n1\n.", "b\n."]
    assert [(one.reason, one.element) for one in done.rejects] == [("filtered", 2)]


def test_a_check_looks_into_every_list() -> None:
    rows = [{"q": ["1"], "a": ["x"]}]
    sampled = tuple(SampledRow(file="a", row=0, key=None, value=row) for row in rows)
    sample = Sample(rows=sampled, bad=(), complete=True, total_rows=1)
    report = check_mapping(bind(DOCUMENT), sample, source_name="a")
    assert report.problems == ()
    assert [(one.path, one.pointer) for one in report.paths] == [
        ("q[*]", "/each/0"),
        ("a[*]", "/each/1"),
        ("(in step) › [0]", "/messages/0/content"),
        ("(in step) › [1]", "/messages/1/content"),
        ("(in step) › ~", "/meta/original_id"),
    ]
    wrong = {**DOCUMENT, "each": ["q[*]", "b[*]"]}
    (problem, *_) = check_mapping(bind(wrong), sample, source_name="a").problems
    assert (problem.pointer, problem.code) == ("/each/1", "unresolved_path")


def test_columns_are_handed_to_the_row_executor() -> None:
    rows = [{"q": ["1", "2"], "a": ["x", "y"]}, {"q": ["3"], "a": None}]
    table = pa.RecordBatch.from_pylist(rows)
    mapping = bind(DOCUMENT)
    assert why_not_columnar(mapping, table.schema) == "lists walked in step"
    batch = Batch(file="f", rows=range(2), values=rows, table=table)
    (made,) = MappingExecutor(mapping, source_name="s").parts(batch)
    (by_rows,) = MappingExecutor(mapping, source_name="s", columns=False).parts(batch)
    assert isinstance(made, UnifiedBatch)
    assert isinstance(by_rows, UnifiedBatch)
    assert to_batch(made.records, "sft", where="t") == to_batch(by_rows.records, "sft", where="t")
    assert texts(made) == [["1", "x"], ["2", "y"]]


@pytest.mark.parametrize(
    ("each", "pointer"), [(["q[*]"], "/each"), (["q[*]", "a["], "/each/1"), ([], "/each")]
)
def test_a_wrong_each_is_named(each: Any, pointer: str) -> None:
    with pytest.raises(MappingError) as raised:
        bind({**DOCUMENT, "each": each}, None, where="m.json")
    assert [one.pointer for one in raised.value.problems] == [pointer]


def test_lists_in_step_come_back_as_they_were() -> None:
    assert to_document(bind(DOCUMENT)) == DOCUMENT
