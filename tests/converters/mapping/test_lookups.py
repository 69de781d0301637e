"""Lookups: a value from a list elsewhere in the row, found by its key."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingot.converters.convert.job import ConvertOptions, convert
from ingot.converters.errors import MappingError
from ingot.converters.mapping.bind import bind
from ingot.converters.mapping.check import CheckReport, check_mapping
from ingot.converters.mapping.columns.executor import why_not_columnar
from ingot.converters.mapping.documents.writer import to_document
from ingot.converters.mapping.lookup import Lookup
from ingot.converters.mapping.rows.executor import UnifiedBatch
from ingot.converters.paths import Node, compile_path
from ingot.converters.records import read_records
from ingot.converters.sources import open_source
from ingot.converters.sources.sample import Sample, SampledRow

Unify = Callable[..., UnifiedBatch]
NAME = {"lookup": "users[*]", "key": "id", "of": "by", "take": "name"}
USERS = [{"id": 1, "name": "Ann"}, {"id": 2, "name": "Pilot"}, {"id": None, "name": "nobody"}]


def text_of(unify: Unify, value: Any, row: Any) -> Any:
    done = unify({"version": 2, "text": value}, [row])
    return done.records[0]["text"] if done.records else done.rejects[0]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [(1, "Ann"), (1.0, "Ann"), ("1", None), (True, None), (9, None), (None, None), ([1], None)],
)
def test_a_key_is_equal_or_it_is_not_found(unify: Unify, wanted: Any, found: str | None) -> None:
    text = text_of(unify, [NAME, {"literal": "."}], {"users": USERS, "by": wanted})
    assert text == (f"{found}\n." if found else ".")
    assert text_of(unify, [NAME, {"literal": "."}], {"users": USERS}) == "."


def test_two_elements_with_the_key_reject_the_row(unify: Unify) -> None:
    twice = [*USERS, {"id": 2, "name": "Pilot"}]
    reject = text_of(unify, NAME, {"users": twice, "by": 2})
    assert (reject.reason, reject.path, reject.found) == (
        "ambiguous_lookup",
        "users[*][id = by].name",
        "2",
    )
    assert text_of(unify, NAME, {"users": twice, "by": 1}) == "Ann"
    assert text_of(unify, NAME, {"users": "none", "by": 1}).reason == "not_a_list"
    done = unify(
        {"version": 2, "text": "t", "meta": {"original_id": NAME}},
        [{"t": "x", "users": twice, "by": 2}],
    )
    assert done.records[0]["meta"]["original_id"] is None
    assert done.meta_failures == {"original_id: ambiguous_lookup": 1}


def test_each_hit_is_looked_up_and_modified(unify: Unify) -> None:
    many = {"path": {**NAME, "of": "by[*]"}, "map": {"Ann": "A", "*": "other"}, "sep": ", "}
    assert text_of(unify, many, {"users": USERS, "by": [2, 1, 9, 1]}) == "other, A, A"


def test_an_object_is_keyed_by_its_names(unify: Unify) -> None:
    keyed = {"lookup": "users.*", "key": "~", "of": "by", "take": "$"}
    assert text_of(unify, keyed, {"users": {"u1": "Ann", "u2": "Bo"}, "by": "u2"}) == "Bo"


def test_a_lookup_stands_where_a_path_may(unify: Unify) -> None:
    near = {"lookup": "^.users[*]", "key": "id", "of": "by", "take": "bot"}
    users = [{"id": 1, "bot": False, "n": 1}, {"id": 2, "bot": True, "n": 0}]
    entry = {
        "each": "log[*]",
        "where": [{"path": {**near, "take": "id"}, "not_in": [None]}],
        "role": {"path": near, "map": {"true": "assistant", "false": "user"}},
        "content": ["text", {"any_of": [{**near, "take": "label"}, {"literal": "!"}]}],
        "loss_mask": {**near, "take": "n"},
    }
    log = [{"by": 1, "text": "q"}, {"by": 7, "text": "not there"}, {"by": 2, "text": "a"}]
    where = [{"path": {**NAME, "take": "n"}, "in": [1]}]
    document = {"version": 2, "where": where, "messages": [entry]}
    rows = [{"users": users, "by": 1, "log": log}, {"users": users[::-1], "by": 2, "log": log}]
    done = unify(document, rows)
    assert [list(one.values()) for one in done.records[0]["messages"]] == [
        ["user", "q\n!", True],
        ["assistant", "a\n!", False],
    ]
    assert [(one.row, one.reason, one.found) for one in done.rejects] == [(1, "filtered", "0")]


def test_a_pick_is_looked_up(unify: Unify) -> None:
    right = {"lookup": "keys[*]", "key": "q", "of": "id", "take": "right"}
    value = {"path": "options[*]", "pick": {"path": right, "from": 1}}
    row = {
        "id": "a",
        "options": ["x", "y"],
        "keys": [{"q": "b", "right": 1}, {"q": "a", "right": 2}],
    }
    assert text_of(unify, value, row) == "y"


def test_every_row_has_its_own_list() -> None:
    lookup = Lookup(*map(compile_path, ("^.users[*]", "$", "$", "^.name")))
    for name in ("Ann", "Bo", "Cy"):
        row = Node({"users": [5], "name": name, "log": [5, 6]})
        each = compile_path("log[*]").nodes(row)
        assert [lookup.find(node) for node in each] == [[name], []]
    near = Lookup(*map(compile_path, ("^", "k", "$", "name")))
    for name in ("Ann", "Bo"):  # the same small number in every row
        (five,) = compile_path("log[*]").nodes(Node({"k": 5, "name": name, "log": [5]}))
        assert near.find(five) == [name]
    deep = Lookup(*map(compile_path, ("users[*].profile", "id", "by", "name")))
    for name in ("Ann", "Bo"):
        row = {"by": 1, "users": [{"profile": {"id": 1, "name": name}}, {"profile": None}]}
        assert deep.find(Node(row)) == [name]
    assert pickle.loads(pickle.dumps(lookup)) == lookup
    assert lookup != near


def checked(document: Any, *rows: Any) -> CheckReport:
    sampled = tuple(SampledRow(file="a", row=i, key=None, value=row) for i, row in enumerate(rows))
    sample = Sample(rows=sampled, bad=(), complete=True, total_rows=len(rows))
    return check_mapping(bind(document), sample, source_name="a")


def test_a_check_looks_at_every_part() -> None:
    document = {"version": 2, "text": ["t", NAME]}
    rows = [{"t": "x", "users": USERS, "by": by} for by in (1, 9)]
    report = checked(document, *rows)
    assert report.problems == ()
    assert [(one.path, one.pointer, one.resolved, one.missing) for one in report.paths] == [
        ("t", "/text/0", 2, 0),
        ("users[*]", "/text/1/lookup", 2, 0),
        ("users[*] › id", "/text/1/key", 2, 0),
        ("by", "/text/1/of", 2, 0),
        ("users[*] › name", "/text/1/take", 2, 0),
        ("users[*][id = by].name", "/text/1", 1, 1),
    ]
    wrong = checked({"version": 2, "text": ["t", {**NAME, "take": "nme"}]}, *rows).problems
    assert [(one.pointer, one.nearest) for one in wrong] == [
        ("/text/1/take", "name"),
        ("/text/1", None),
    ]
    twice = checked({"version": 2, "text": {"path": NAME}}, {"users": USERS * 2, "by": 1}).problems
    assert ("/text", "ambiguous_lookup", "1 (1 times)") in [
        (one.pointer, one.code, one.got) for one in twice
    ]
    never = checked(document, {"t": "x", "users": USERS, "by": "1"}).problems
    assert [(one.pointer, one.code) for one in never] == [("/text/1", "unresolved_path")]


@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        ({"lookup": "u[*]", "key": "id", "of": "by"}, "/text/take"),
        ({**NAME, "sep": ", "}, "/text/sep"),
        ({**NAME, "of": NAME}, "/text/of"),
        ({**NAME, "key": "a["}, "/text/key"),
        ({"concat": [{"path": {"lookup": 1}}]}, "/text/concat/0/path/lookup"),
    ],
)
def test_a_wrong_lookup_is_named(value: Any, pointer: str) -> None:
    with pytest.raises(MappingError) as raised:
        bind({"version": 2, "text": value}, None, where="m.json")
    assert pointer in [one.pointer for one in raised.value.problems]


def test_a_lookup_comes_back_as_it_was() -> None:
    role = {"path": NAME, "map": {"Ann": "user"}}
    messages = [{"role": role, "content": ["t", NAME, {"path": NAME, "sep": ", "}]}]
    document = {"version": 2, "where": [{"path": NAME, "in": ["x"]}], "messages": messages}
    assert to_document(bind(document)) == document


def test_columns_are_handed_to_the_row_executor(tmp_path: Path) -> None:
    users = pa.array([USERS[:2], [], None])
    table = pa.table({"users": users, "by": pa.array([2, 2, 1]), "t": pa.array(["a", "b", "c"])})
    mapping = bind({"version": 2, "text": ["t", NAME]})
    assert why_not_columnar(mapping, table.schema) == "a lookup"
    for name in ("columns", "lines"):
        (tmp_path / name).mkdir()
    pq.write_table(table, tmp_path / "columns" / "a.parquet")
    lines = "".join(json.dumps(row) + "\n" for row in table.to_pylist())
    (tmp_path / "lines" / "a.jsonl").write_text(lines)
    for name in ("columns", "lines"):
        out = tmp_path / f"{name}.out"
        convert(open_source(str(tmp_path / name)), mapping, out, ConvertOptions(workers=1))
        texts = [record["text"] for record in read_records(out / "records")]
        assert texts == ["a\nPilot", "b", "c"]
